"""Properties of the codec by itself: what goes in comes out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import strategies as make
from support.recordings import image_of, rows
from support.tagged import same

from redis_jobqueue.errors import StorableError
from redis_jobqueue.storable import Blessed, ScalarRef, codec, fast, freeze, nfreeze, thaw
from redis_jobqueue.storable.opcodes import NETWORK


pytestmark = pytest.mark.timeout(900)  # seconds; for the many examples of a full run


@given(make.values | make.perl_values | make.shared_values())
def test_a_value_comes_back(value: Any) -> None:
    """A frozen value thaws to the same types, content and sharing, in both orders."""
    assert same(value, thaw(nfreeze(value))) is None
    assert same(value, thaw(freeze(value))) is None
    assert nfreeze(value) == nfreeze(thaw(nfreeze(value)))


@given(make.values | make.perl_values | make.shared_values())
def test_without_hints_a_value_comes_back_as_perl_has_it(value: Any) -> None:
    """The image alone holds what Perl can hold: text for floats, integers for bools."""
    assert same(make.as_perl_has_it(value), thaw(nfreeze(value, hints=False))) is None


@given(make.values | make.perl_values)
def test_freezing_leaves_the_value_alone(value: Any) -> None:
    """Freezing twice gives the same bytes."""
    assert nfreeze(value) == nfreeze(value)


@given(make.values | make.everyday | make.perl_values | make.shared_values())
def test_both_writers_agree(value: Any) -> None:
    """What the fast path writes is what the full writer writes, hints included."""
    everyday = fast.write(value)
    if everyday is not None:
        assert codec._write(value, NETWORK, "value") == everyday


@given(make.everyday)
def test_everyday_values_take_the_fast_path(value: Any) -> None:
    """Plain data of few levels never needs the full reader or writer."""
    found = fast.write(value)
    if found is not None:
        assert fast.read(found[0]) is not None
    assert found is not None or _shares(value)


def _shares(value: Any, met: set[int] | None = None) -> bool:
    met = set() if met is None else met
    if not isinstance(value, (list, dict)):
        return False
    if id(value) in met:
        return True
    met.add(id(value))
    return any(_shares(item, met) for item in (value.values() if type(value) is dict else value))


@given(make.values | make.everyday)
def test_both_readers_agree(value: Any) -> None:
    """What the fast path reads is what the full reader reads, hints applied or not."""
    image = nfreeze(value)
    _compare_readers(image)


@pytest.mark.parametrize("row", rows("storable"), ids=lambda row: row["name"])
def test_both_readers_agree_on_the_recordings(row: dict[str, Any]) -> None:
    """The same for every recorded image, whole and cut."""
    image = image_of(row)
    _compare_readers(image)
    for end in range(0, len(image), 1 + len(image) // 20):
        _compare_readers(image[:end])


@given(
    make.values.map(lambda value: nfreeze(value, hints=False)),
    st.lists(st.tuples(st.integers(2), st.integers(0, 255)), max_size=3),
)
def test_both_readers_agree_on_damaged_images(image: bytes, changes: list[tuple[int, int]]) -> None:
    """Where the full reader refuses, the fast path does not answer either."""
    data = bytearray(image)
    for place, byte in changes:
        data[2 + place % (len(data) - 2)] = byte
    _compare_readers(bytes(data))


def _compare_readers(image: bytes) -> None:
    everyday = fast.read(image)
    if everyday is None:
        return
    value, end = codec._read(image, codec.STRINGS["auto"], {})
    assert end == everyday[1]
    assert same(value, everyday[0]) is None


@pytest.mark.parametrize(
    ("strings", "expected"),
    [
        ("auto", ["ascii", b"\xc3\xa9", b"\xff", "é"]),
        ("bytes", [b"ascii", b"\xc3\xa9", b"\xff", "é"]),
        ("utf-8", ["ascii", "é", b"\xff", "é"]),
        ("latin-1", ["ascii", "\xc3\xa9", "\xff", "é"]),
    ],
)
def test_octets_read_as_asked_for(strings: str, expected: list[Any]) -> None:
    """``strings`` chooses how octets read, in values and in keys; text is always str."""
    image = nfreeze(["ascii", b"\xc3\xa9", b"\xff", "é"])
    assert expected == thaw(image, strings=strings)
    for key, item in zip(["ascii", b"\xc3\xa9", b"\xff", "€"], [*expected[:3], "€"]):
        assert [item] == list(thaw(nfreeze({key: 1}), strings=strings))


def test_an_unknown_way_to_read_octets_is_refused() -> None:
    """``strings`` takes four names."""
    with pytest.raises(ValueError, match="auto, bytes, utf-8, latin-1"):
        thaw(nfreeze(1), strings="ascii")


def test_deep_values_come_back() -> None:
    """The deepest value that Perl takes comes back, and goes away without a crash."""
    value: Any = 1
    for _ in range(512):
        value = [value]
    assert same(value, thaw(nfreeze(value))) is None
    value = 1
    for _ in range(512):
        value = ScalarRef(value)
    assert same(value, thaw(nfreeze(value))) is None


def test_a_bare_root_thaws_to_itself() -> None:
    """An image whose root is the list, hash or object, not a reference to it, thaws alike."""
    for value in ([1, 2], {"a": [1]}, Blessed("A", {"x": 1})):
        image = nfreeze(value)
        assert b"\x04" == image[2:3]
        assert value == thaw(image[:2] + image[3:])


def test_a_broken_image_behind_the_fast_path_is_an_error() -> None:
    """What the fast path gives up on is told by the full reader."""
    with pytest.raises(StorableError, match="ends early"):
        thaw(nfreeze({"a": 1})[:-1])
