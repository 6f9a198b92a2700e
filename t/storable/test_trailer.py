"""The trailer of type hints: what it brings back, and that a bad one changes nothing."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from support.storable_peer import StorablePeer
from support.tagged import same

from redis_jobqueue.storable import PerlHash, ScalarRef, freeze, nfreeze, thaw

# A value, its image, and the body of its trailer as the layout says.
HINTED = [
    (0.5, "0a03302e35", "0066" + struct.pack(">d", 0.5).hex()),
    (3.0, "0883", "0066" + struct.pack(">d", 3.0).hex()),
    (-0.0, "0880", "0066" + struct.pack(">d", -0.0).hex()),
    (float("inf"), "0a03496e66", "0066" + struct.pack(">d", float("inf")).hex()),
    (2**31, "0a0a32313437343833363438", "0069"),
    (True, "0881", "0062"),
    (False, "0880", "0062"),
    (b"abc", "0a03616263", "0079"),
    ((1,), "0402000000010881", "0074"),
    ([1, True], "04020000000208810881", "0262"),
    ([True, True], "04020000000208810881", "01620162"),
    ({"a": True}, "0403000000010881" + "0000000161", "0162"),
    ({7: 1}, "0403000000010881" + "0000000137", "0269"),
    ({b"k": 1}, "0403000000010881" + "000000016b", "0279"),
    (ScalarRef(True), "040881", "0162"),
    ([0] * 200 + [True], "0402000000c9" + "0880" * 200 + "0881", "c90162"),
]


def with_trailer(image: bytes, body: bytes, **other: Any) -> bytes:
    """Return an image with a trailer, any part of it as given."""
    crc = other.get("crc", zlib.crc32(image + body))
    magic, version = other.get("magic", b"\x00PYH"), other.get("version", 1)
    head = magic + bytes([version]) + struct.pack(">I", other.get("length", len(body)))
    return image + head + body + struct.pack(">I", crc)


@pytest.mark.parametrize(("value", "image", "body"), HINTED, ids=repr)
def test_what_the_image_cannot_hold_comes_back(value: Any, image: str, body: str) -> None:
    """The image is Perl's, the trailer is laid out as agreed, and the value comes back."""
    plain = bytes.fromhex("050b" + image)
    frozen = nfreeze(value)
    assert with_trailer(plain, bytes.fromhex(body)) == frozen
    assert plain == nfreeze(value, hints=False)
    assert same(value, thaw(frozen)) is None


@pytest.mark.parametrize("value", [1, "a", "é", None, [1, "a"], {"a": {"é": [b"\xff"]}}], ids=repr)
def test_there_is_no_trailer_where_there_is_nothing_to_say(value: Any) -> None:
    """What the image holds by itself gets no trailer."""
    assert b"PYH" not in nfreeze(value)


def test_native_order_needs_fewer_hints() -> None:
    """In native order floats and 64-bit integers are in the image."""
    for value in (0.5, 2**40, -(2**63), float("-inf")):
        assert b"PYH" not in freeze(value)
        assert same(value, thaw(freeze(value))) is None
    for value in (3.0, 2**63, True, b"a", (1,)):
        assert same(value, thaw(freeze(value))) is None


def test_none_of_metadata_is_an_empty_string_with_a_hint() -> None:
    """Metadata of None is written as Perl writes undef there, and comes back as None."""
    image = nfreeze(None, none_as_empty=True)
    assert with_trailer(b"\x05\x0b\x0a\x00", b"\x00n") == image
    assert thaw(image) is None
    assert "" == thaw(image[:4])
    assert b"\x05\x0b\x0a\x00" == nfreeze(None, none_as_empty=True, hints=False)
    assert nfreeze([None]) == nfreeze([None], none_as_empty=True)
    assert b"\x05\x0b\x05" == nfreeze(None)


@pytest.mark.parametrize(("value", "image", "body"), HINTED, ids=repr)
def test_a_damaged_trailer_is_ignored(value: Any, image: str, body: str) -> None:
    """Cut anywhere, or with any byte changed, the trailer is as if it were not there."""
    frozen = nfreeze(value)
    start = 2 + len(image) // 2
    plain = thaw(frozen[:start])
    for end in range(start, len(frozen)):
        assert same(plain, thaw(frozen[:end])) is None
        changed = bytearray(frozen)
        changed[end] ^= 0x41
        assert same(plain, thaw(bytes(changed))) is None


LIST = nfreeze([1, 0, "12", "abc", "0.5", "", "é", None, {"k": 1}, ScalarRef("x")], hints=False)

UNFIT = {
    "another version": {"version": 2},
    "another magic": {"magic": b"\x00PYX"},
    "a length too long": {"length": 3},
    "a length too short": {"length": 1},
    "a wrong checksum": {"crc": 1},
    "a node behind the end": {"body": b"\x7fb"},
    "a node far behind the end": {"body": b"\xff\xff\xff\xff\x7fb"},
    "a node number without end": {"body": b"\xff" * 20},
    "an unknown kind": {"body": b"\x01x"},
    "a kind without its payload": {"body": b"\x05f\x00"},
    "a node twice": {"body": b"\x01b\x00b"},
    "an entry cut off": {"body": b"\x01"},
    "a float that the text is not": {"body": b"\x05f" + struct.pack(">d", 0.25)},
    "a float of a word": {"body": b"\x04f" + struct.pack(">d", 0.5)},
    "an int of a word": {"body": b"\x04i"},
    "an int of a small int": {"body": b"\x01i"},
    "a bool of a string": {"body": b"\x03b"},
    "a bool of a list": {"body": b"\x00b"},
    "bytes of an int": {"body": b"\x01y"},
    "bytes of text": {"body": b"\x07y"},
    "a tuple of an int": {"body": b"\x01t"},
    "a tuple of a hash": {"body": b"\x09t"},
    "a None of an int": {"body": b"\x02n"},
    "a None of an undef": {"body": b"\x08n"},
    "a bool of a key": {"body": b"\x0bb"},
    "an int of a key that is a word": {"body": b"\x0bi"},
    "a tuple of a reference": {"body": b"\x0ct"},
    "one that fits and one that does not": {"body": b"\x01b\x02b"},
}


@pytest.mark.parametrize("why", UNFIT)
def test_a_trailer_that_does_not_fit_is_ignored_as_a_whole(why: str) -> None:
    """A good checksum does not help a hint that its node contradicts."""
    other = dict(UNFIT[why])
    body = other.pop("body", b"\x01b")
    image = with_trailer(LIST, body, **other)
    for strings in ("auto", "latin-1"):
        assert same(thaw(LIST, strings), thaw(image, strings)) is None


def test_hints_fit_whichever_way_octets_are_read() -> None:
    """Floats, integers, bools, tuples and bytes come back for every ``strings``."""
    value = [0.5, 2**70, True, (1.5, b"a"), b"a", {2**70: 1, b"b": 2.0}]
    for strings in ("auto", "bytes", "utf-8", "latin-1"):
        assert same(value, thaw(nfreeze(value), strings)) is None


def test_hints_in_shared_and_cyclic_data() -> None:
    """A tuple that is shared stays shared; one that leads back to itself reads as a list."""
    pair = (1.5, [2])
    read = thaw(nfreeze([pair, {"a": pair}, True]))
    assert same([pair, {"a": pair}, True], read) is None
    assert read[0] is read[1]["a"]
    inside: list[Any] = []
    cyclic = (inside, 0.5)
    inside.append(cyclic)
    read = thaw(nfreeze(cyclic))
    assert type(read) is list
    assert read[0][0] is read
    assert 0.5 == read[1]


def test_a_trailer_that_alone_is_too_long_is_left_out() -> None:
    """The trailer counts towards max_size, and goes where it alone would cross it."""
    full, image = nfreeze([0.5, True]), nfreeze([0.5, True], hints=False)
    assert full == nfreeze([0.5, True], max_size=len(full))
    assert image == nfreeze([0.5, True], max_size=len(full) - 1)
    assert image == nfreeze([0.5, True], max_size=len(image))
    assert image == nfreeze([0.5, True], max_size=1)


def test_big_keys_of_one_hash_are_not_taken() -> None:
    """Int keys that were chosen to make a dict slow stay text."""
    modulus = 2**61 - 1
    good, bad = ({modulus * n: 1 for n in range(1, count)} for count in (50, 5_000))
    assert same(good, thaw(nfreeze(good))) is None
    assert {str(key): 1 for key in bad} == thaw(nfreeze(bad))


def test_a_restricted_hash_keeps_its_hints() -> None:
    """Nodes are counted alike where keys have flags and no value."""
    value = PerlHash({"a": 0.5, "é": True}, restricted=True, placeholders=["z", "y"])
    assert same([value, 1.5], thaw(nfreeze([value, 1.5]))) is None


@pytest.mark.parametrize(("value", "image", "body"), HINTED, ids=repr)
def test_perl_reads_the_image_as_without_a_trailer(
    perl: StorablePeer, value: Any, image: str, body: str
) -> None:
    """Perl ignores the trailer of every kind."""
    frozen = nfreeze(value)
    assert perl.describe(bytes.fromhex("050b" + image)) == perl.describe(frozen)
