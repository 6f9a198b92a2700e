"""Reading single settings from the environment; a misspelt one raises."""

from __future__ import annotations

from collections.abc import Mapping

from redis_jobqueue.errors import E_NO_ERROR, ArgumentError

_YES = {"true", "1", "yes", "on"}
_NO = {"false", "0", "no", "off"}


def verify_setting(value: str | None, name: str) -> bool | None:
    """Read a yes or no; None if it is unset or empty.

    A misspelt "off" must not read as "on", so anything else raises (rule of
    the recovery model).

    Raises:
        ArgumentError: code 0.
    """
    if not value:
        return None
    given = value.strip().lower()
    if given in _YES:
        return True
    if given in _NO:
        return False
    raise ArgumentError(f"{name} must be true, 1, yes or on, or false, 0, no or off",
                        code=E_NO_ERROR)  # fmt: skip


def setting_int(environ: Mapping[str, str], name: str, default: int) -> int:
    """Read a whole number above 0."""
    value = environ.get(name)
    if not value:
        return default
    if not value.strip().isdigit() or int(value) < 1:
        raise ArgumentError(f"{name} must be a whole number above 0", code=E_NO_ERROR)
    return int(value)


def setting_float(environ: Mapping[str, str], name: str, default: float) -> float:
    """Read a number of seconds, 0 or more."""
    value = environ.get(name)
    if not value:
        return default
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ArgumentError(f"{name} must be a number of seconds, 0 or more", code=E_NO_ERROR)
    return number
