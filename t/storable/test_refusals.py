"""What Perl has no form for is refused, with the path to it."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import re
from typing import Any

import attrs
import pytest
from support.tagged import same

from redis_jobqueue.errors import E_MISMATCH_ARG
from redis_jobqueue.storable import (
    MAX_FREEZE_DEPTH,
    MAX_FREEZE_HASH_DEPTH,
    MAX_INT_DIGITS,
    Blessed,
    Code,
    Hook,
    PerlHash,
    PerlList,
    PerlText,
    Regexp,
    ScalarRef,
    StorableError,
    Tied,
    VString,
    WeakRef,
    freeze,
    is_reference,
    is_storable,
    nfreeze,
    thaw,
)


class Colour(enum.IntEnum):
    """An int that is an Enum."""

    RED = 1


class Name(str, enum.Enum):
    """A str that is an Enum."""

    ME = "me"


@attrs.define
class Point:
    """Some class of a user."""

    x: int = 0


NO_FORM = [
    {1},
    frozenset(),
    datetime.datetime(2024, 1, 1),
    decimal.Decimal("1.5"),
    fractions.Fraction(1, 2),
    1j,
    Point(),
    Point,
    object(),
    len,
    re.compile("a"),
    bytearray(b"a"),
    memoryview(b"a"),
    range(3),
    iter([]),
    Colour.RED,
    Name.ME,
    ...,
]


@pytest.mark.parametrize("wrong", NO_FORM, ids=lambda wrong: type(wrong).__name__)
@pytest.mark.parametrize("write", [freeze, nfreeze])
def test_a_type_without_a_form_is_refused_with_its_path(wrong: Any, write: Any) -> None:
    """The error has the code for arguments, and names the path and the type."""
    assert not is_storable(wrong)
    places = {
        "value": wrong,
        "value['a'][3]": {"a": [1, 2, 3, wrong]},
        "value[0][b'\\xff'].value": [{b"\xff": ScalarRef(wrong)}],
        "value.value[1]": Blessed("A", [1, wrong]),
        "value.refs[1][0]": Hook("A", "", [[], [wrong]]),
        "value.object": Tied("hash", wrong),
        "value.value.value": WeakRef(ScalarRef(wrong)),
    }
    for path, value in places.items():
        with pytest.raises(StorableError) as caught:
            write(value)
        assert E_MISMATCH_ARG == caught.value.code
        assert f"Cannot freeze {path}: " in str(caught.value)
        assert type(wrong).__name__ in str(caught.value)


@pytest.mark.parametrize("key", [None, 1.5, True, (1, 2), Colour.RED, Name.ME, decimal.Decimal(1)])
def test_a_key_of_another_type_is_refused(key: Any) -> None:
    """Keys are str, bytes or int."""
    with pytest.raises(StorableError, match=r"value\['a'\]: a key must be str, bytes") as caught:
        nfreeze({"a": {key: 1}})
    assert E_MISMATCH_ARG == caught.value.code


@pytest.mark.parametrize(
    "keys", [(1, "1"), (1, b"1"), ("a", b"a"), ("é", b"\xe9"), (-5, "-5"), ("1", b"1", 1)], ids=repr
)
def test_two_keys_that_are_one_in_perl_are_refused(keys: tuple[Any, ...]) -> None:
    """Nothing is lost silently: the error names both keys."""
    with pytest.raises(StorableError, match="one key in Perl") as caught:
        nfreeze([dict.fromkeys(keys)])
    assert "value[0]" in str(caught.value)
    assert repr(keys[0]) in str(caught.value)


def test_keys_that_perl_tells_apart_are_taken() -> None:
    """Text beyond latin-1 and the octets of its UTF-8 are two keys."""
    value = {"€": 1, "€".encode(): 2, "é": 3, "é".encode(): 4}
    assert same(value, thaw(nfreeze(value))) is None
    with pytest.raises(StorableError, match="two keys of a hash are both"):
        thaw(nfreeze(value), strings="utf-8")


@pytest.mark.parametrize("wrong", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_is_refused(wrong: str) -> None:
    """A str that is no Unicode text is refused, as value and as key."""
    with pytest.raises(StorableError, match=r"value\[0\].*lone surrogate U\+D"):
        nfreeze([wrong])
    with pytest.raises(StorableError, match=r"value.*lone surrogate U\+D"):
        nfreeze({wrong: 1})


WRONG_PARTS = {
    "class name": Blessed("", []),
    "one character per byte": Blessed("Ć", []),
    "must be a str": Blessed(b"A", []),  # type: ignore[arg-type]
    "what is blessed": Blessed("A", 5),
    "what is blessed must": Blessed("A", Blessed("B", [])),
    "base 'list'": Hook("A", "", [], "list"),
    "str or bytes must stand here": Hook("A", 5),
    "a reference must stand here": Hook("A", "", ["text"]),
    "not the type int": WeakRef(5),
    "not the type list": Regexp([]),
    "255 flags": Regexp("a", "i" * 256),
    "not the type NoneType": Code(None),
    "not the type float": VString("v1", 1.5),
    "only a restricted hash": PerlHash({"a": 1}, readonly=["a"]),
    "readonly keys and placeholders": PerlHash({"a": 1}, placeholders=["b"]),
    "nothing is tied as 'code'": ScalarRef(Tied("code", [])),
    "must be its index": ScalarRef(Tied("idx", [], "k")),
    f"{MAX_INT_DIGITS} digits": 10**5000,
}


@pytest.mark.parametrize("what", WRONG_PARTS)
def test_a_perl_value_with_a_wrong_part_is_refused(what: str) -> None:
    """Each error says what must stand there."""
    with pytest.raises(StorableError, match=what) as caught:
        nfreeze([WRONG_PARTS[what]])
    assert E_MISMATCH_ARG == caught.value.code


def _nested(levels: int, wrap: Any) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize("levels", [1000, 10_000, 100_000])
def test_what_is_far_too_deep_is_refused(levels: int) -> None:
    """Any depth is refused without meeting the depth of Python's stack."""
    for wrap in (lambda value: [value], lambda value: {"k": value}, ScalarRef, lambda v: (v,)):
        with pytest.raises(StorableError, match="below level"):
            nfreeze(_nested(levels, wrap))


def test_the_path_of_a_deep_error_is_short() -> None:
    """The message shows both ends of a long path."""
    with pytest.raises(StorableError) as caught:
        nfreeze(_nested(MAX_FREEZE_DEPTH + 1, lambda value: [value]))
    assert len(str(caught.value)) < 400
    nfreeze(_nested(MAX_FREEZE_DEPTH, lambda value: [value]))
    nfreeze(_nested(MAX_FREEZE_HASH_DEPTH, lambda value: {"k": value}))


def test_an_error_starts_with_the_name_that_was_given() -> None:
    """The name stands for the value: that of a field, say."""
    with pytest.raises(StorableError, match=r"Cannot freeze workload\['a'\]: "):
        nfreeze({"a": {1}}, name="workload")
    with pytest.raises(StorableError, match=r"Cannot freeze b'\\xe9'\[0\]: "):
        nfreeze([{1}], name=b"\xe9")


class Text(str):
    """A str that lies about itself."""

    def encode(self, *_: Any) -> bytes:
        """Not be called."""
        raise AssertionError

    def isascii(self) -> bool:
        """Not be called."""
        raise AssertionError


class Items(list[Any]):
    """A list that lies about itself."""

    def __iter__(self) -> Any:
        raise AssertionError

    def __len__(self) -> int:
        raise AssertionError


Pair = collections.namedtuple("Pair", "x y")


class Int(int):
    """An int."""


class Float(float):
    """A float."""


class Bytes(bytes):
    """Some bytes."""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Text("a"), "a"),
        (Text("é"), "é"),
        (Items([1, 2]), [1, 2]),
        (Int(5), 5),
        (Int(2**40), 2**40),
        (Float(1.5), 1.5),
        (Bytes(b"\xff"), b"\xff"),
        (Pair(1, 2), (1, 2)),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (collections.defaultdict(list, a=[1]), {"a": [1]}),
        ({Text("k"): Int(1), Int(5): 1, Bytes(b"\xfe"): 1}, {"k": 1, 5: 1, b"\xfe": 1}),
    ],
    ids=repr,
)
def test_a_subclass_is_written_as_its_base(value: Any, expected: Any) -> None:
    """Whatever a subclass overrides, what is written is the plain value of its base."""
    assert is_storable(value)
    assert nfreeze(expected) == nfreeze(value)
    assert same(expected, thaw(nfreeze(value))) is None


def test_references_are_told_from_scalars() -> None:
    """What Perl holds by reference is not what sits in the scalar itself."""
    references = [[], (), {}, PerlList(), PerlHash(), ScalarRef(1), Blessed("A", []), Hook("A", "")]
    references += [Regexp(""), Code(""), Tied("hash", 1), Tied("array", 1), WeakRef([])]
    scalars = [None, True, 1, 1.5, "", b"", PerlText(b""), VString("v1", ""), Tied("scalar", 1)]
    assert all(map(is_reference, references)) and not any(map(is_reference, scalars))
    assert all(map(is_storable, references + scalars))


@pytest.mark.parametrize(
    ("value", "image"),
    [
        (ScalarRef("w"), "050b040a0177"),
        ([1, 0], "050b04020000000208810880"),
        (0, "050b0880"),
        (12, "050b088c"),
        ("", "050b0a00"),
        (None, "050b05"),
        (ScalarRef(None), "050b040e"),
        ([None], "050b04020000000105"),
        ([ScalarRef(None)], "050b0402000000010405"),
        ({"é": 1}, "050b0419000000000108810200000001e9"),
        ({"€": 1}, "050b0419000000000108810100000003e282ac"),
        ({b"\xe9": 1}, "050b040300000001088100000001e9"),
    ],
    ids=repr,
)
def test_images_as_perl_jobs_hold_them(value: Any, image: str) -> None:
    """The images of plain values are those that a Perl producer makes."""
    assert image == nfreeze(value).hex()
    assert same(value, thaw(nfreeze(value))) is None
