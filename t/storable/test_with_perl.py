"""Properties through Perl's core Storable, in both directions."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import strategies as make
from support.storable_peer import PerlDied, StorablePeer
from support.tagged import same
from support.values import overloaded_classes

from redis_jobqueue.errors import E_MISMATCH_ARG
from redis_jobqueue.storable import (
    MAX_FREEZE_DEPTH,
    MAX_FREEZE_HASH_DEPTH,
    Blessed,
    ScalarRef,
    StorableError,
    nfreeze,
    thaw,
    freeze,
)


pytestmark = pytest.mark.timeout(900)  # seconds; for the many examples of a full run


@given(value=make.values | make.shared_values())
def test_perl_gives_back_what_python_wrote(perl: StorablePeer, value: Any) -> None:
    """Perl thaws our image and freezes it again; we read the same value, as Perl has it.

    And we write Perl's two images again byte for byte.
    """
    image, native = perl.refreeze(nfreeze(value))
    expected = make.as_perl_has_it(value)
    assert same(expected, thaw(image)) is None
    assert image == nfreeze(thaw(image), hints=False)
    assert native == freeze(thaw(native), hints=False)
    from_native, _ = perl.refreeze(freeze(value, hints=False))
    assert same(make.as_perl_has_it(thaw(freeze(value, hints=False))), thaw(from_native)) is None


@given(value=make.perl_values)
def test_perl_reads_what_only_perl_has(perl: StorablePeer, value: Any) -> None:
    """Perl reads objects, hooks, ties and the like from our image as from its own order."""
    classes = overloaded_classes(value)
    first = perl.describe(nfreeze(value), classes)
    assert first == perl.describe(nfreeze(thaw(nfreeze(value))), classes)
    assert first == perl.describe(nfreeze(value, hints=False), classes)


def literal(value: Any) -> str:
    """Return a Perl expression for a value."""
    if value is None:
        return "undef"
    if isinstance(value, float):
        return f"unpack('d>', pack('H16', '{struct.pack('>d', value).hex()}'))"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        return str(value) if -(2**63) < value < 2**63 else f"'{value}'"
    if isinstance(value, bytes):
        return f"pack('H*', '{value.hex()}')"
    if isinstance(value, str):
        if value.isascii():
            return literal(value.encode())
        return f"Encode::decode('UTF-8', pack('H*', '{value.encode().hex()}'))"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        # Through variables: an undef at hand would be Perl's immortal one.
        pairs = (f"{literal(str(k) if isinstance(k, int) else k)}, {literal(v)}"
                 for k, v in value.items())
        return f"+{{{', '.join(pairs)}}}"
    if isinstance(value, ScalarRef):
        return f"\\(my $v{id(value)} = {literal(value.value)})"
    raise TypeError(type(value))


@given(value=make.values)
def test_python_reads_what_perl_wrote(perl: StorablePeer, value: Any) -> None:
    """Perl makes and freezes a value; we read it, and freeze it to the very bytes."""
    image = perl.evaluate(literal(value))
    read = thaw(image)
    assert same(make.as_perl_has_it(_unshared(value)), _unshared(read)) is None
    assert same(_unshared(read), _unshared(thaw(nfreeze(read, hints=False)))) is None
    ours = nfreeze(_ordered(value, read), hints=False)
    assert _plain_undef(image) == _plain_undef(ours)


def _plain_undef(image: bytes) -> bytes:
    # Perl writes the undef of a variable and the immortal one apart; None is either.
    return image.replace(b"\x04\x0e", b"\x04\x05")


def _unshared(value: Any) -> Any:
    """Return a value without shared parts: the expression that makes it shares nothing."""
    if isinstance(value, (list, tuple)):
        return [_unshared(item) for item in value]
    if isinstance(value, dict):
        return {key: _unshared(item) for key, item in value.items()}
    if isinstance(value, ScalarRef):
        return ScalarRef(_unshared(value.value))
    return value


def _ordered(value: Any, like: Any) -> Any:
    """Return a value with its dicts in the order of another."""
    if isinstance(value, (list, tuple)):
        return [_ordered(item, other) for item, other in zip(value, like)]
    if isinstance(value, dict):
        by_key = {make.perl_key(key): (key, item) for key, item in value.items()}
        found = [(by_key[make.perl_key(key)], other) for key, other in like.items()]
        return {key: _ordered(item, other) for (key, item), other in found}
    if isinstance(value, ScalarRef):
        return ScalarRef(_ordered(value.value, like.value))
    return value


@given(number=make.floats | st.sampled_from([2.0**53, 2.0**53 - 1, -(2.0**53), 1e15, 1e16, -0.0]))
def test_floats_are_written_as_perl_writes_them(perl: StorablePeer, number: float) -> None:
    """A float becomes the text, or the integer, that Perl makes of it."""
    assert perl.evaluate(literal(number)) == nfreeze(number, hints=False)


# A Perl expression that wraps $d once more, and the same in Python.
LAYERS: dict[str, tuple[str, Any]] = {
    "list": ("[$d]", lambda value: [value]),
    "hash": ("{ k => $d }", lambda value: {"k": value}),
    "reference": ("\\(my $e = $d)", ScalarRef),
    "object": ("bless([$d], 'Deep')", lambda value: Blessed("Deep", [value])),
    "hash object": ("bless({ k => $d }, 'Deep')", lambda value: Blessed("Deep", {"k": value})),
}
LIMITS = {
    "list": MAX_FREEZE_DEPTH,
    "hash": MAX_FREEZE_HASH_DEPTH,
    "reference": MAX_FREEZE_DEPTH,
    "object": MAX_FREEZE_DEPTH,
    "hash object": MAX_FREEZE_HASH_DEPTH,
}


@pytest.mark.parametrize("inner", LAYERS)
@pytest.mark.parametrize("outer", LAYERS)
@pytest.mark.parametrize("around", [0, 1, 100, 255, 256])
def test_depth_is_taken_as_far_as_perl_takes_it(
    perl: StorablePeer, outer: str, inner: str, around: int
) -> None:
    """Our writer takes just what Perl's nfreeze takes, whatever stands around it."""
    limit = LIMITS[inner] - around
    for count in (max(limit - 1, 0), limit, limit + 1):
        if count < 0:
            continue
        perl_inner, python_inner = LAYERS[inner]
        perl_outer, python_outer = LAYERS[outer]
        nest = f"$d = {perl_inner} for 1 .. {count}; $d = {perl_outer} for 1 .. {around}"
        expression = f"my $d = 1; {nest}; $d"
        value: Any = 1
        for _ in range(count):
            value = python_inner(value)
        for _ in range(around):
            value = python_outer(value)
        try:
            image = perl.evaluate(expression)
        except PerlDied as died:
            assert "recursion" in str(died)
            with pytest.raises(StorableError, match="level") as caught:
                nfreeze(value)
            assert E_MISMATCH_ARG == caught.value.code
        else:
            assert image == nfreeze(value, hints=False)


@settings(max_examples=50)
@given(value=make.values)
def test_perl_ignores_the_trailer(perl: StorablePeer, value: Any) -> None:
    """With and without the trailer Perl reads the same."""
    assert perl.describe(nfreeze(value)) == perl.describe(nfreeze(value, hints=False))
