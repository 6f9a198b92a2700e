"""Every recorded image: what it thaws to, and what Perl reads from our image of that."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest
from support.recordings import Row, image_of, rows, rows_beside
from support.storable_peer import StorablePeer
from support.tagged import difference
from support.values import overloaded_classes

from redis_jobqueue.storable import ScalarRef, StorableError, freeze, nfreeze, thaw

pytestmark = pytest.mark.timeout(900)  # seconds; for the many cuts of a full run

ROWS = [pytest.param(row, id=row["name"]) for row in rows("storable")]
PERL_ROWS = [param for param in ROWS if "perl" in param.values[0]]  # the others are built by hand
ALL_ROWS = ROWS + rows_beside("storable-perl5")

IMAGES = ("b64", "b64_canonical", "b64_freeze")

# Rows that Perl cannot read back as they were, each with its reason.
EXCEPTIONS = {
    "false immortal": "differs by design",  # False is the integer 0, not Perl's own false
    "reference to false": "differs by design",
    "false tag 16": "differs by design",
}
REASONS = {"no such type in Python", "odd arguments", "private", "differs by design"}

# Bytes behind the image that belong to no image.
BEHIND = {"string with a NUL after the image": 1, "old object tag X": 1}

# Rows whose image Perl would write and we write otherwise, with equal meaning in Perl.
OTHER_BYTES = {
    "text ascii with the flag",  # an ASCII str is octets
    "text empty with the flag",
    "text number-like",
    "key ascii that was text",
    "code with arguments",
    "code long",
    "code with text",
    "code blessed",  # Perl itself does not read the class back
    "locked empty",  # nor this lock
    "undef immortal",  # None is the undef of a variable
    "list of immortal undefs",
    "references in a list",
    "false immortal",  # a bool is an integer
    "reference to false",
    "negated defined",
}


def images(row: Row) -> Iterator[tuple[bytes, Any]]:
    """Give each image of a row with what it must thaw to."""
    for name in IMAGES:
        if name in row:
            native = name == "b64_freeze"
            yield b64decode(row[name]), row.get("expect_freeze" if native else "", row["expect"])


@pytest.mark.parametrize("row", ALL_ROWS)
def test_an_image_thaws_to_what_is_recorded(row: Row) -> None:
    """Every image thaws to the described value: type, content, sharing, all that Perl tells."""
    for image, expected in images(row):
        assert difference(thaw(image), expected) is None


@pytest.mark.parametrize("row", ALL_ROWS)
def test_perl_reads_an_equal_value_from_our_image(row: Row, perl: StorablePeer) -> None:
    """What was thawed freezes to images from which Perl reads just what it read at first."""
    equal = []
    for image, _ in images(row):
        value = thaw(image)
        classes = overloaded_classes(value)
        expected = perl.describe(image, classes)
        for ours in (nfreeze(value), freeze(value)):
            equal.append(expected == perl.describe(ours, classes))
    assert (row["name"] not in EXCEPTIONS) == all(equal)


@pytest.mark.parametrize("row", PERL_ROWS)
def test_our_image_has_the_bytes_of_perl(row: Row) -> None:
    """An image that Perl wrote is written again byte for byte, in both orders."""
    image, native = b64decode(row["b64"]), b64decode(row["b64_freeze"])
    same = image == nfreeze(thaw(image), hints=False)
    same_native = native == freeze(thaw(native), hints=False)
    assert (row["name"] not in OTHER_BYTES) == (same and same_native)


BOOLEANS = {
    # Perl 5.38 writes its booleans so; the Perl of the recordings did not know them.
    "050b22": True,
    "050b23": False,
    "050b0422": ScalarRef(True),
    "050b0423": ScalarRef(False),
    "050b0200000003222322": [True, False, True],
    "050b0300000002220000000161230000000162": {"a": True, "b": False},
    "040b0831323334353637380408080802020000002223": [True, False],
}


@pytest.mark.parametrize("image", BOOLEANS)
def test_booleans_of_newer_perls(image: str) -> None:
    """The types 34 and 35 are True and False, wherever they stand, and stay so through ours."""
    value = thaw(bytes.fromhex(image))
    assert repr(BOOLEANS[image]) == repr(value)  # 1 == True
    for ours in (nfreeze(value), freeze(value)):
        assert repr(value) == repr(thaw(ours))


def test_older_perls_read_our_booleans() -> None:
    """They are written as the integers 1 and 0: an older Perl takes 34 and 35 for damage."""
    assert bytes.fromhex("050b04020000000208810880") == nfreeze([True, False], hints=False)


def test_the_exceptions_are_rows_and_have_a_reason() -> None:
    """No exception is left over, and each has one of the four reasons."""
    names = {row["name"] for row in rows("storable")}
    assert set() == (set(EXCEPTIONS) | OTHER_BYTES | set(BEHIND)) - names
    assert set() == set(EXCEPTIONS.values()) - REASONS


@pytest.mark.parametrize("row", ROWS)
def test_a_cut_image_raises(row: Row, size: Any) -> None:
    """An image that ends early raises, wherever it is cut; never a partial value."""
    for name in IMAGES:
        if name not in row:
            continue
        image = b64decode(row[name])
        whole = len(image) - BEHIND.get(row["name"], 0)
        # Each cut is a whole reading: in a small run, and in the largest images, not at every byte.
        step = 1 + whole // (10_000 if size.name == "full" else 100)
        for end in {*range(0, whole, step), *range(max(0, whole - 20), whole)}:
            with pytest.raises(StorableError):
                thaw(image[:end])


@pytest.mark.parametrize("row", ROWS)
def test_bytes_behind_an_image_are_ignored(row: Row) -> None:
    """Bytes behind an image change nothing, as in Perl."""
    image = image_of(row)
    for behind in (b"\x00", b"X", b"\x00PYH", b"\x04\x02\x00\x00", image):
        assert difference(thaw(image + behind), row["expect"]) is None
