"""Images in the native order of other machines: both byte orders, 32 and 64 bit."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from support.tagged import same

from redis_jobqueue.storable import Blessed, Hook, ScalarRef, StorableError, Tied, freeze, thaw

MACHINES = [
    (b"12345678", "<", "q", 8),
    (b"87654321", ">", "q", 8),
    (b"12345678", "<", "q", 4),  # 64-bit integers on a 32-bit machine
    (b"1234", "<", "i", 4),
    (b"4321", ">", "i", 4),
]


class Machine:
    """Write what a machine of this order and these sizes would write."""

    def __init__(self, order: bytes, mark: str, integer: str, size: int) -> None:
        self.mark = mark
        self.integer = integer
        sizes = bytes((4, size, size, 8))
        self.header = b"\x04\x0b" + bytes((len(order),)) + order + sizes

    def length(self, size: int) -> bytes:
        """Return a length."""
        return struct.pack(f"{self.mark}I", size)

    def of(self, value: Any) -> bytes:
        """Return a node."""
        if isinstance(value, int):
            return b"\x06" + struct.pack(f"{self.mark}{self.integer}", value)
        if isinstance(value, float):
            return b"\x07" + struct.pack(f"{self.mark}d", value)
        if isinstance(value, str):
            return b"\x01" + self.length(len(value)) + value.encode("ascii")
        if isinstance(value, list):
            return b"\x04\x02" + self.length(len(value)) + b"".join(map(self.of, value))
        image = b"\x04\x03" + self.length(len(value))
        for key, item in value.items():
            image += self.of(item) + self.length(len(key)) + key.encode("ascii")
        return image


@pytest.mark.parametrize("machine", MACHINES, ids=repr)
def test_an_image_of_another_machine_thaws(machine: tuple[bytes, str, str, int]) -> None:
    """Integers, floats and lengths are read in the order and size that the header says."""
    write = Machine(*machine)
    value = [1, -129, 2**31 - 1, -(2**31), 2.5, "text" * 100, {"key": [0.1, {}]}]
    assert same(value, thaw(write.header + write.of(value))) is None


@pytest.mark.parametrize("machine", MACHINES, ids=repr)
def test_objects_of_another_machine_thaw(machine: tuple[bytes, str, str, int]) -> None:
    """Numbers of things are big-endian everywhere; lengths of names and strings are not."""
    write = Machine(*machine)
    parts = [
        b"\x04\x11\x80" + write.length(1) + b"A\x02" + write.length(0),
        b"\x04\x12\x80" + write.length(0) + b"\x02" + write.length(0),
        b"\x04\x00\x00\x00\x00\x03",
        b"\x04\x13\x8e" + write.length(1) + b"H" + write.length(3) + b"abc\x01\x00\x00\x00\x03",
        b"\x04\x16\x04\x02" + write.length(0) + write.length(7),
    ]
    shared = Blessed("A", [])
    hook = Hook("H", "abc", [shared])
    expected = [shared, Blessed("A", []), shared, hook, ScalarRef(Tied("idx", [], 7))]
    image = write.header + b"\x04\x02" + write.length(len(parts)) + b"".join(parts)
    assert same(expected, thaw(image)) is None


@pytest.mark.parametrize(
    ("order", "sizes"),
    [
        (b"12345678", (8, 8, 8, 8)),
        (b"12345678", (4, 8, 8, 16)),
        (b"12345678", (4, 16, 8, 8)),
        (b"56781234", (4, 8, 8, 8)),
        (b"3412", (4, 4, 4, 8)),
    ],
    ids=repr,
)
def test_a_machine_of_other_sizes_is_refused(order: bytes, sizes: tuple[int, ...]) -> None:
    """Nothing is guessed about numbers of another size or a mixed order."""
    header = b"\x04\x0b" + bytes((len(order),)) + order + bytes(sizes)
    with pytest.raises(StorableError, match=order.decode()):
        thaw(header + b"\x08\x81")


def test_our_own_native_order_is_that_of_perl_here() -> None:
    """`freeze` writes little-endian 64 bit, wherever it runs."""
    assert b"\x04\x0b\x0812345678\x04\x08\x08\x08\x06\xc8" == freeze(200)[:17]
