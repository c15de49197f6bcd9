"""A look over the structure of a MessagePack body before anything in it is decoded.

A hostile body can claim four thousand million entries in five bytes, or hold sixty-four million
empty maps that take 64 bytes each once decoded. One pass over the tags, which allocates nothing but
a short stack, refuses both.
"""

from __future__ import annotations

from asyncrl.errors import WireError
from asyncrl.wire.limits import WireLimits

ARRAY, BIG_INT = 1, 2
"""The extension types: an array's description, and a whole number beyond 64 bits."""

_MAP, _LIST, _TEXT, _BYTES, _EXTENSION = range(5)


def _fixed_sizes() -> tuple[int, ...]:
    """Return tag -> bytes that a scalar or short text takes, its tag included; 0 for all others."""
    sizes = [0] * 256
    for tag in (*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3):
        sizes[tag] = 1
    for tag in range(0xA0, 0xC0):
        sizes[tag] = 1 + (tag & 31)
    for tag, size in ((0xCA, 5), (0xCB, 9), (0xCC, 2), (0xCD, 3), (0xCE, 5), (0xCF, 9)):
        sizes[tag] = size
    for tag, size in ((0xD0, 2), (0xD1, 3), (0xD2, 5), (0xD3, 9)):
        sizes[tag] = size
    return tuple(sizes)


_FIXED = _fixed_sizes()
_TEXTS = frozenset((*range(0xA0, 0xC0), *range(0xD9, 0xDC)))
_LENGTHS = {
    **{0xD9 + i: (_TEXT, 1 << i) for i in range(3)},
    **{0xC4 + i: (_BYTES, 1 << i) for i in range(3)},
    **{0xC7 + i: (_EXTENSION, 1 << i) for i in range(3)},
    **{0xDC + i: (_LIST, 2 << i) for i in range(2)},
    **{0xDE + i: (_MAP, 2 << i) for i in range(2)},
}
"""Tag -> (what it begins, how many bytes its length takes)."""


def check_structure(data: bytes, start: int, stop: int, limits: WireLimits) -> int:
    """Return how many pairs the maps of the MessagePack value in `data[start:stop]` have in all.

    What texts, bytes and extensions hold is not looked at.

    Raises:
        WireError: It is not one whole value, goes beyond `limits`, or has a key that is not text or
            an extension that is not ours.
    """
    position, items, arrays, pairs = start, 0, 0, 0
    outer: list[tuple[int, bool]] = []
    left, in_map = 1, False  # a map of n pairs begins with 2n values left: keys at even numbers
    while left or outer:
        if not left:
            left, in_map = outer.pop()
            continue
        if position >= stop:
            raise _truncated()
        tag = data[position]
        if in_map and not left & 1 and tag not in _TEXTS:
            raise WireError("a mapping has a key that is not text")
        left -= 1
        if _FIXED[tag]:
            position += _FIXED[tag]
            continue
        kind, length, position = _begin(data, tag, position + 1)
        if kind > _LIST:
            arrays += kind == _EXTENSION and _check_extension(data, position, stop)
            position = _end(kind, length, position, limits)
            continue
        items += length
        outer.append((left, in_map))
        left, in_map = (2 * length, True) if kind == _MAP else (length, False)
        pairs += length if in_map else 0
        _check_counts(items, len(outer), arrays, limits)
    _check_counts(items, 0, arrays, limits)
    if position != stop:
        raise _truncated() if position > stop else WireError(f"{stop - position} bytes follow it")
    return pairs


def _begin(data: bytes, tag: int, position: int) -> tuple[int, int, int]:
    """Return what `tag` begins, its length, and the position after both."""
    if 0x80 <= tag < 0xA0:
        return _MAP if tag < 0x90 else _LIST, tag & 15, position
    if 0xD4 <= tag < 0xD9:
        return _EXTENSION, 1 << (tag - 0xD4), position
    if tag not in _LENGTHS:
        raise WireError(f"the tag {tag:#x} begins no value")
    kind, width = _LENGTHS[tag]
    return kind, int.from_bytes(data[position : position + width], "big"), position + width


def _end(kind: int, length: int, position: int, limits: WireLimits) -> int:
    """Return the position after a text, bytes or an extension."""
    if kind == _TEXT and length > limits.max_text:
        raise WireError(f"it has a text of {length} bytes, more than max_text={limits.max_text}")
    return position + length + (kind == _EXTENSION)


def _check_extension(data: bytes, position: int, stop: int) -> bool:
    """Return whether the extension whose type is at `position` is an array."""
    if position >= stop:
        raise _truncated()
    code = data[position]
    if code not in (ARRAY, BIG_INT):
        raise WireError(f"the extension type {code} is unknown here")
    return code == ARRAY


def _check_counts(items: int, depth: int, arrays: int, limits: WireLimits) -> None:
    if depth > limits.max_depth:
        raise WireError(f"it is nested deeper than max_depth={limits.max_depth}")
    if items > limits.max_items:
        raise WireError(f"it has more than max_items={limits.max_items} elements")
    if arrays > limits.max_arrays:
        raise WireError(f"it has more than max_arrays={limits.max_arrays} arrays")


def _truncated() -> WireError:
    return WireError("it ends within a value")
