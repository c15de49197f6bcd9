"""Trees of plain values and arrays as bytes, inside a checked envelope.

    "ARL1" | u8 kind | u8 version | u16 0 | u32 CRC-32 | u32 bytes of the tree | u64 bytes of all
    tree | padding | numbers of the first array | padding | numbers of the second array | ...

The tree is MessagePack with two extension types: the description of an array, and a whole number
beyond 64 bits. The numbers of the arrays follow in the order of their descriptions, each at a
multiple of 16 bytes, so that they are copied once when a message is made and never when it is read.
The CRC is that of all bytes after the envelope. Nothing that is decoded can name a type, a function
or a module.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, cast

import msgpack
import numpy as np

from asyncrl.errors import WireError
from asyncrl.wire.arrays import array_numbers, describe_array, padding, view_array
from asyncrl.wire.limits import DEFAULT_LIMITS, WireLimits
from asyncrl.wire.structure import ARRAY, BIG_INT, check_structure

PROTOCOL_VERSION = 1
"""Version of everything that travels; raised with every change that older code cannot read."""

_MAGIC = b"ARL1"
_ENVELOPE = struct.Struct("<4sBBHIIQ")
_UNREADABLE = (
    ValueError,
    TypeError,
    OverflowError,
    RecursionError,
    MemoryError,
    msgpack.exceptions.UnpackException,
)
"""What msgpack raises for values and bytes it does not take."""


class Kind(IntEnum):
    """What a message is."""

    JOB = 1
    RESULT = 2
    WEIGHTS = 3
    RUN = 4
    FAILURE = 5
    TREE = 6


Parts = list[bytes | memoryview]
"""A message in pieces, to be joined or written one after the other."""


def pack(kind: Kind, value: Any, limits: WireLimits = DEFAULT_LIMITS) -> bytes:
    """Return `value` in an envelope of `kind`; `WireError` for what cannot travel or be read again.

    Takes memory for the message itself, and for a copy of those arrays that are not laid out as
    they travel (little-endian, in C order).
    """
    return b"".join(pack_parts(kind, value, limits))


def pack_parts(kind: Kind, value: Any, limits: WireLimits = DEFAULT_LIMITS) -> Parts:
    """Return what `pack` does in parts, those of the arrays being the arrays' own memory.

    The message is what the arrays held at the time of this call, by its checksum: write the parts
    before an array changes.
    """
    arrays: list[np.ndarray] = []
    try:
        tree = _pack_tree(value, arrays)
        check_structure(tree, 0, len(tree), limits)
    except WireError as error:
        raise WireError(f"this {kind.name.lower()} cannot travel: {error}") from error
    size = len(tree)
    for array in arrays:
        size += padding(_ENVELOPE.size + size) + array.nbytes
    if size > limits.max_bytes or len(tree) >= 2**32:
        raise WireError(
            f"a {kind.name.lower()} of {size} bytes is larger than max_bytes={limits.max_bytes}; "
            "make it smaller, for example fewer steps in a job"
        )
    return _seal(kind, tree, arrays, size)


def canonical(value: Any) -> bytes:
    """Return a value as bytes that do not depend on the order of its mappings, at any depth.

    Raises:
        WireError: It holds what cannot travel.
    """
    arrays: list[np.ndarray] = []
    tree = _pack_tree(_ordered(value), arrays)
    return b"".join((tree, *map(array_numbers, arrays)))


def unpack(kind: Kind, data: bytes, limits: WireLimits = DEFAULT_LIMITS) -> Any:
    """Return the value in an envelope of `kind`, its arrays read-only views into `data`.

    Raises:
        WireError: whatever is wrong with `data`: it is not a message, of another kind or version,
            damaged, beyond a limit, or not plain values and arrays.
    """
    position = _open(kind, data, limits)
    tree = memoryview(data)[_ENVELOPE.size : position]

    def extension(code: int, content: bytes) -> Any:
        nonlocal position
        if code == BIG_INT:
            return int.from_bytes(content, "little", signed=True)
        array, position = view_array(content, data, position + padding(position))
        return array

    def mapping(value: dict[str, Any]) -> dict[str, Any]:
        nonlocal pairs
        pairs -= len(value)
        return value

    try:
        pairs = check_structure(data, _ENVELOPE.size, position, limits)
        value: Any = msgpack.unpackb(
            tree,
            raw=False,
            ext_hook=extension,
            object_hook=mapping,
            max_str_len=limits.max_text,
            max_bin_len=len(tree),
            max_ext_len=len(tree),
            max_array_len=limits.max_items,
            max_map_len=limits.max_items,
        )
        if pairs:
            raise WireError("a mapping has the same key twice")
        if position != len(data):
            raise WireError(f"{len(data) - position} bytes follow the last array")
    except WireError as error:
        raise WireError(f"a {kind.name.lower()} cannot be read: {error}") from error
    except _UNREADABLE as error:
        raise WireError(f"a {kind.name.lower()} cannot be read: {error!r}") from error
    return value


def _pack_tree(value: Any, arrays: list[np.ndarray]) -> bytes:
    """Return `value` as MessagePack; what arrays it holds are added to `arrays` in order."""

    def extension(value: Any) -> Any:
        """Encode what MessagePack does not know."""
        if isinstance(value, np.ndarray):
            array = cast("np.ndarray", value)
            description = describe_array(array)
            arrays.append(array)
            return msgpack.ExtType(ARRAY, description)
        if isinstance(value, np.generic):
            return cast("Any", value).item()
        if type(value) is tuple:
            return list(cast("tuple[Any, ...]", value))
        if type(value) is int:
            content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            return msgpack.ExtType(BIG_INT, content)
        raise WireError(f"a {type(value).__name__} is neither a plain value nor an array")

    try:
        return msgpack.packb(value, default=extension, strict_types=True)
    except _UNREADABLE as error:
        raise WireError(str(error) or repr(error)) from error


def _seal(kind: Kind, tree: bytes, arrays: list[np.ndarray], size: int) -> Parts:
    """Return the message of `size` bytes after its envelope."""
    parts: Parts = [tree]
    checksum, position = zlib.crc32(tree), _ENVELOPE.size + len(tree)
    for array in arrays:
        gap = bytes(padding(position))
        numbers = array_numbers(array)
        checksum = zlib.crc32(numbers, zlib.crc32(gap, checksum))
        position += len(gap) + numbers.nbytes
        parts += (gap, numbers)
    head = _ENVELOPE.pack(_MAGIC, kind, PROTOCOL_VERSION, 0, checksum, len(tree), size)
    return [head, *parts]


def _open(kind: Kind, data: bytes, limits: WireLimits) -> int:
    """Return where the tree ends, after checking everything that can be checked outside it."""
    if len(data) > limits.max_bytes + _ENVELOPE.size:
        raise WireError(f"{len(data)} bytes are more than max_bytes={limits.max_bytes}")
    if len(data) < _ENVELOPE.size:
        raise WireError(f"{len(data)} bytes are too few for a message")
    magic, found, version, zero, checksum, tree, length = _ENVELOPE.unpack_from(data)
    if magic != _MAGIC or zero:
        raise WireError("these bytes are not a message of asyncrl")
    if version != PROTOCOL_VERSION:
        raise WireError(
            f"the message speaks protocol version {version}, this process {PROTOCOL_VERSION}; "
            "run the same asyncrl everywhere"
        )
    if found != kind:
        names = {each.value: each.name.lower() for each in Kind}
        raise WireError(f"expected a {kind.name.lower()}, got a {names.get(found, found)}")
    body = memoryview(data)[_ENVELOPE.size :]
    if len(body) != length or tree > length:
        raise WireError(f"the message is {len(body)} bytes long, its envelope says {length}")
    if zlib.crc32(body) != checksum:
        raise WireError("the message is damaged: its checksum does not match")
    return _ENVELOPE.size + tree


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        if not all(type(key) is str for key in mapping):
            raise WireError("a mapping has a key that is not text")
        return {key: _ordered(mapping[key]) for key in sorted(mapping)}
    if isinstance(value, list | tuple):
        return [_ordered(each) for each in cast("list[Any]", value)]
    return value
