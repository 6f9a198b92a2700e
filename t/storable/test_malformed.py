"""Broken and hostile images: an error or the right value, in little time and memory."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import Row, image_of, rows, rows_beside
from support.tagged import difference

from redis_jobqueue.storable import MAX_DEPTH, StorableError, nfreeze, thaw
from redis_jobqueue.errors import E_REDIS

pytestmark = pytest.mark.timeout(900)  # seconds; for the many examples of a full run

ROWS = [pytest.param(row, id=row["name"]) for row in rows("malformed")]
ALL_ROWS = ROWS + rows_beside("malformed-perl5")

# Perl takes the class name up to its first NUL; we keep what is there.
OTHER_VALUE = {"class name with a NUL", "tied hash to a number"}


@pytest.mark.parametrize("row", ALL_ROWS)
def test_a_broken_image_does_what_its_row_says(row: Row) -> None:
    """The image raises or gives the recorded value; ``either`` may do both, no third thing."""
    image = image_of(row)
    try:
        value = thaw(image)
    except StorableError as error:
        assert row["port"] in ("raise", "either")
        assert E_REDIS == error.code
    else:
        assert row["port"] in ("value", "either")
        if row.get("expect") and row["name"] not in OTHER_VALUE:
            assert difference(value, row["expect"]) is None


HOSTILE = """
import resource, sys, base64
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from redis_jobqueue.storable import StorableError, thaw
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for line in sys.stdin:
    try:
        thaw(base64.b64decode(line))
    except StorableError:
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_no_broken_image_takes_memory_or_time() -> None:
    """All broken images together take less than 200 MB and 20 s of processor, in one process."""
    images = "".join(b64encode(image_of(row)).decode() + "\n" for row in rows("malformed"))
    run = subprocess.run(
        [sys.executable, "-c", HOSTILE], input=images, capture_output=True, text=True, timeout=100
    )
    assert (0, "") == (run.returncode, run.stderr)
    assert int(run.stdout) < 200_000  # kilobytes


LENGTHS = [
    b"\x04\x01%s",
    b"\x04\x02%s\x08\x81",
    b"\x04\x03%s\x08\x81",
    b"\x04\x03\x00\x00\x00\x01\x08\x81%s",
    b"\x04\x19\x00%s\x08\x81",
    b"\x04\x18%s",
    b"\x04\x11\x80%s",
    b"\x04\x12\x80%s",
    b"\x04\x13\x0a\x01A%s",
    b"\x04\x13\x92\x01A\x00%s",
    b"\x04\x1e%s",
    b"\x04\x11\x01A\x20\x01%s",
    b"\x04\x21\x02\x00\x00\x00\x00%s",
    b"\x04\x21\x02%s\x00\x00\x00\x00",
]


@pytest.mark.parametrize("form", LENGTHS, ids=repr)
def test_a_huge_length_allocates_nothing(form: bytes) -> None:
    """A length that the image does not have raises before anything is allocated for it."""
    for length in (2**32 - 1, 2**31 - 1, 2**31, 10_000_000):
        image = b"\x05\x0b" + form.replace(b"%s", length.to_bytes(4, "big")) + b"abc"
        tracemalloc.start()
        with pytest.raises(StorableError):
            thaw(image)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1_000_000


NESTS = {
    "lists": (b"\x04\x02\x00\x00\x00\x01", b""),
    "hashes": (b"\x04\x03\x00\x00\x00\x01", b"\x00\x00\x00\x01k"),
    "flagged hashes": (b"\x04\x19\x00\x00\x00\x00\x01", b"\x00\x00\x00\x00\x01k"),
    "references": (b"\x04", b""),
    "objects": (b"\x04\x11\x01A\x02\x00\x00\x00\x01", b""),
    "weak references": (b"\x1b", b""),
    "ties": (b"\x04\x0c", b""),
}


@pytest.mark.parametrize("name", NESTS)
def test_depth_is_read_to_its_limit(name: str) -> None:
    """Any nesting is read to MAX_DEPTH levels, and refused at the next."""
    before, after = NESTS[name]

    def image(levels: int) -> bytes:
        return b"\x05\x0b" + before * levels + b"\x08\x81" + after * levels

    thaw(image(MAX_DEPTH))
    for levels in (MAX_DEPTH + 1, 20 * MAX_DEPTH):
        with pytest.raises(StorableError, match="deeper"):
            thaw(image(levels))


@pytest.mark.parametrize(
    "image",
    [b"", b"hello", b"{\"a\":1}", b"\x80\x04\x95", b"pst0\x05\x0b\x08", b"\x00", b"0", b"\xff" * 9],
    ids=repr,
)
def test_what_is_no_image_is_named(image: bytes) -> None:
    """The message for other data says that it is no image, and shows its first bytes."""
    with pytest.raises(StorableError, match="Not a Storable image") as caught:
        thaw(image)
    assert repr(image[:16]) in str(caught.value)


def test_another_machine_is_named() -> None:
    """An image with numbers of a size that is not read says which machine it is of."""
    with pytest.raises(StorableError, match="12345678.*4, 8, 8, 16"):
        thaw(b"\x04\x0b\x0812345678\x04\x08\x08\x10\x08\x81")


def test_only_bytes_are_images() -> None:
    """A str or an int is no image; a bytearray and a memoryview are."""
    for wrong in ("text", 5, None):
        with pytest.raises(TypeError, match="an image is bytes"):
            thaw(wrong)  # type: ignore[arg-type]
    image = nfreeze([1])
    assert [1] == thaw(bytearray(image)) == thaw(memoryview(image))  # type: ignore[arg-type]


_SEEDS = [image_of(row) for row in rows("storable") if len(row["b64"]) < 600]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Make a recorded image with some bytes changed, put in or taken out."""
    image = bytearray(draw(st.sampled_from(_SEEDS)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(2, len(image)))
        change = draw(st.sampled_from(["set", "insert", "delete"]))
        if change == "insert":
            image[place:place] = draw(st.binary(min_size=1, max_size=4))
        elif place < len(image):
            image[place : place + 1] = b"" if change == "delete" else draw(st.binary(max_size=1))
    return bytes(image)


@given(mutated() | st.binary(max_size=60).map(lambda rest: b"\x05\x0b" + rest))
def test_a_damaged_image_is_an_error_or_a_value(image: bytes) -> None:
    """Whatever the bytes are, thaw raises StorableError or gives a value that freezes."""
    try:
        thaw(image)
    except StorableError:
        pass


def _list(count: int, first: bytes, rest: bytes) -> bytes:
    """Return an image of a list: one item, and another so many times."""
    length = (count + 1).to_bytes(4, "big")
    return b"\x05\x0b\x04\x02" + length + first + rest * count


KINDS = {
    "integers": (b"\x08\x81", b"\x08\x81"),
    "references to the list": (b"\x08\x81", b"\x04\x00\x00\x00\x00\x01"),
    "references to a scalar": (b"\x08\x81", b"\x04\x00\x00\x00\x00\x02"),
    "one scalar in many places": (b"\x08\x81", b"\x00\x00\x00\x00\x02"),
    "dead weak references": (b"\x08\x81", b"\x1b\x02\x00\x00\x00\x00"),
    "classes": (b"\x08\x81", b"\x04\x11\x01A\x02\x00\x00\x00\x00"),
    "holes": (b"\x08\x81", b"\x0e"),
    "hooks": (b"\x08\x81", b"\x04\x13\x82\x01A\x00\x01\x00\x00\x00\x02"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_steps_grow_with_the_image_and_no_faster(kind: str) -> None:
    """Four times the image takes about four times the steps, whatever is in it."""
    few, many = (_lines(_list(count, *KINDS[kind])) for count in (500, 2000))
    assert many < 6 * few


def _lines(image: bytes) -> int:
    """Count the lines of Python that thaw runs: a measure that no busy machine moves."""
    count = 0

    def trace(frame: object, event: str, _: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        thaw(image)
    finally:
        sys.settrace(previous)
    return count
