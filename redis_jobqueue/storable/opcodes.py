"""The tags of a Storable image, as one table that the reader and the writer share.

Strategy: facts only.  The number of each tag is its name here; what follows a
tag is said beside it.  ``u8`` is one byte; ``len`` is four bytes in the order of
the image; ``be32`` is four bytes, big-endian in every image; a *node* is a
tag with what follows it.
"""

from __future__ import annotations

from struct import Struct

import attrs

OBJECT = 0  # be32: the number of a thing seen before
LSCALAR = 1  # len, octets
ARRAY = 2  # len, that many nodes
HASH = 3  # len, that many times: node of the value, len of the key, key
REF = 4  # node referred to
UNDEF = 5
INTEGER = 6  # an integer of the machine that wrote it
DOUBLE = 7  # a float of the machine that wrote it
BYTE = 8  # u8: the integer plus 128
NETINT = 9  # be32, signed
SCALAR = 10  # u8, octets
TIED_ARRAY = 11  # node of the object behind the tie
TIED_HASH = 12  # the same
TIED_SCALAR = 13  # the same
SV_UNDEF = 14  # undef itself; in a list: an element that was never set
SV_YES = 15  # true itself
SV_NO = 16  # false itself
BLESS = 17  # u8 (from 128: 0x80 and len), class name, node
IX_BLESS = 18  # u8 (from 128: 0x80 and len): the how-manieth class name, node
HOOK = 19  # see Reader.read_hook
OVERLOAD = 20  # REF to an object of a class that overloads
TIED_KEY = 21  # node of the object, node of the key
TIED_IDX = 22  # node of the object, len: the index
UTF8STR = 23  # u8, UTF-8
LUTF8STR = 24  # len, UTF-8
FLAG_HASH = 25  # u8 of hash flags, then as HASH with u8 of key flags before each key
CODE = 26  # node of the source text
WEAKREF = 27  # REF that does not keep its target alive
WEAKOVERLOAD = 28  # both
VSTRING = 29  # u8, literal, node of the string
LVSTRING = 30  # len, literal, node of the string
SVUNDEF_ELEM = 31  # undef itself as an element of a list
REGEXP = 32  # u8 (1: long), u8 or len, pattern, u8, flags
LOBJECT = 33  # u8: a tag, its length in eight bytes, the rest as after the tag
BOOLEAN_TRUE = 34  # Perl 5.36 and later; read only, older Perls refuse it
BOOLEAN_FALSE = 35  # the same

# Images of before 0.7 (major 1) end each node with STORED, a class name before it.
OLD_CLASS = ord("b")  # u8, class name
OLD_LONG_CLASS = ord("B")  # len, class name
OLD_STORED = ord("X")

# Flags of a FLAG_HASH and of its keys.
HASH_RESTRICTED = 0x01
KEY_UTF8 = 0x01  # the key is text in UTF-8
KEY_WAS_UTF8 = 0x02  # the key is text, in latin-1
KEY_LOCKED = 0x04  # the value is read-only
KEY_IS_SV = 0x08  # the key is a node
KEY_PLACEHOLDER = 0x10  # a key that a restricted hash allows and does not have

# Flags of a HOOK.
HOOK_BASE = 0x03
HOOK_LONG_CLASS = 0x04
HOOK_LONG_STRING = 0x08
HOOK_LONG_LIST = 0x10
HOOK_INDEXED = 0x20
HOOK_RECURSE = 0x40
HOOK_HAS_LIST = 0x80
HOOK_EXTRA = 3
HOOK_BASES = {0: "scalar", 1: "array", 2: "hash"}
HOOK_EXTRAS = {4: "tied scalar", 5: "tied array", 6: "tied hash"}

TIED_KINDS = {
    TIED_ARRAY: "array",
    TIED_HASH: "hash",
    TIED_SCALAR: "scalar",
    TIED_KEY: "key",
    TIED_IDX: "idx",
}

MAJOR = 2
MINOR = 11  # what Perl 5.36 writes; Perls before 3.x of Storable read it as well
NETWORK_HEADER = bytes((MAJOR << 1 | 1, MINOR))
NATIVE_HEADER = bytes((MAJOR << 1, MINOR)) + b"\x0812345678\x04\x08\x08\x08"

BE32 = Struct(">I")
BE32_SIGNED = Struct(">i")


@attrs.frozen
class Layout:
    """How an image writes what depends on the machine.

    Attributes:
        network: lengths are big-endian, numbers portable.
        length: four bytes of length or index.
        large: eight bytes of length (LOBJECT).
        integer: an integer of the machine.
        double: a float of the machine.
    """

    network: bool
    length: Struct
    large: Struct
    integer: Struct
    double: Struct


# Perl writes no INTEGER or DOUBLE in network order; one that stands there all
# the same is read as Perl reads it, in the order of the reading machine.
NETWORK = Layout(True, BE32, Struct(">Q"), Struct("<q"), Struct("<d"))
NATIVE = {
    b"12345678": Layout(False, Struct("<I"), Struct("<Q"), Struct("<q"), Struct("<d")),
    b"87654321": Layout(False, BE32, Struct(">Q"), Struct(">q"), Struct(">d")),
    b"1234": Layout(False, Struct("<I"), Struct("<Q"), Struct("<i"), Struct("<d")),
    b"4321": Layout(False, BE32, Struct(">Q"), Struct(">i"), Struct(">d")),
}
