"""What a job's attributes may hold, and what a given value becomes.

Each check takes the name of the attribute and the value, and gives what is
stored.  The rules are those of Perl's type constraints; a value that does not
fit raises `ArgumentError` with code 0, which is what Perl leaves.
"""

from __future__ import annotations

import math
import re
from typing import Any

from redis_jobqueue.errors import E_NO_ERROR, ArgumentError
from redis_jobqueue.storable import is_storable

Text = str | bytes
Number = int | float

# Text that Perl takes for a number; Python makes no int of more than 4,300 digits.
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,4000}\s*", re.ASCII)
_NUMBER = re.compile(
    r"\s*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?)\s*", re.ASCII | re.IGNORECASE
)


def unfit(name: str, value: object, rule: str) -> ArgumentError:
    """Make the error of a value that does not fit; it shows the value of a number only."""
    # A value can be long or secret: show its type, and the value of a number only.
    shown = f" {value!r}" if isinstance(value, (int, float)) else ""
    return ArgumentError(
        f"Attribute ({name}) must be {rule}, not {type(value).__name__}{shown}", code=E_NO_ERROR
    )


def text_of(name: str, value: object) -> Text:
    """Take text, octets or a number, which stands for its decimal text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode() if value.isascii() else value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return f"{value:.15g}"
    raise unfit(name, value, "text")


def text_or_none(name: str, value: object) -> Text | None:
    """Take what `text_of` takes, or None."""
    return None if value is None else text_of(name, value)


def id_of(name: str, value: object) -> Text:
    """Take text without a space."""
    given = text_of(name, value)
    if (b" " in given) if isinstance(given, bytes) else (" " in given):
        raise ArgumentError("Attribute (id) contains spaces!", code=E_NO_ERROR)
    return given


def expire_of(name: str, value: object) -> int | None:
    """Take a whole number of seconds, 0 or more, also as text, or None."""
    number: object = value
    if isinstance(value, (str, bytes)):
        given = value.decode("latin-1") if isinstance(value, bytes) else value
        number = int(given) if _WHOLE.fullmatch(given) else None
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    elif value is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise unfit(name, value, "a whole number of seconds, 0 or more")
    return number


class Spelled(float):
    """A number that was given as text, which is written as that very text, as in Perl."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> Spelled:
        """Read the text; it has been checked."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]
        """Let it be copied and pickled."""
        return (self.text,)

    text: str


def number_of(name: str, value: object, most: float, rule: str) -> Number:
    """Take a number from 0 to ``most``, also as text; nan never."""
    number: object = value
    if isinstance(value, (str, bytes)):
        given = value.decode("latin-1") if isinstance(value, bytes) else value
        if _WHOLE.fullmatch(given) and str(int(given)) == given:
            number = int(given)
        elif _WHOLE.fullmatch(given) or _NUMBER.fullmatch(given):
            number = Spelled(given)
    if (
        isinstance(number, bool)
        or not isinstance(number, (int, float))
        or math.isnan(number)
        or not 0 <= number <= most
    ):
        raise unfit(name, value, rule)
    return number


def time_of(name: str, value: object) -> Number:
    """Take a number of seconds, 0 or more."""
    return number_of(name, value, math.inf, "a number of seconds, 0 or more")


def progress_of(name: str, value: object) -> Number:
    """Take a number from 0 to 1."""
    return number_of(name, value, 1, "a number from 0 to 1")


def data_of(name: str, value: object) -> Any:
    """Take what has a form in Perl; what is in it is looked at when it is frozen."""
    if not is_storable(value):
        raise unfit(name, value, "data that Perl knows")
    return value
