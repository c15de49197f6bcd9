"""Trees of plain values and arrays as bytes, inside a checked envelope.

    "ARL1" | u8 kind | u8 version | u16 0 | u32 CRC-32 of the body | u64 its length | body

The body is MessagePack with two extension types: arrays, and whole numbers beyond 64 bits. Nothing
that is decoded can name a type, a function or a module.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import Any, TypeVar, cast

import msgpack
import numpy as np

from asyncrl.errors import AsyncRLError, WireError
from asyncrl.wire.arrays import decode_array, encode_array
from asyncrl.wire.limits import DEFAULT_LIMITS, WireLimits

T = TypeVar("T")

PROTOCOL_VERSION = 1
"""Version of everything that travels; raised with every change that older code cannot read."""

_MAGIC = b"ARL1"
_ENVELOPE = struct.Struct("<4sBBHIQ")
_ARRAY, _BIG_INT = 1, 2
_BIG_INT_BYTES = 4096


class Kind(IntEnum):
    """What a message is."""

    JOB = 1
    RESULT = 2
    WEIGHTS = 3
    RUN = 4
    FAILURE = 5
    TREE = 6


def pack(kind: Kind, value: Any, limits: WireLimits = DEFAULT_LIMITS) -> bytes:
    """Return `value` in an envelope of `kind`; `WireError` for what cannot travel."""
    try:
        body = cast("bytes", msgpack.packb(value, default=_extension, strict_types=True))
    except WireError:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise WireError(f"this {kind.name.lower()} cannot travel: {error}") from error
    if len(body) > limits.max_bytes:
        raise WireError(
            f"a {kind.name.lower()} of {len(body)} bytes is larger than max_bytes="
            f"{limits.max_bytes}; make it smaller, for example fewer steps in a job"
        )
    head = _ENVELOPE.pack(_MAGIC, kind, PROTOCOL_VERSION, 0, zlib.crc32(body), len(body))
    return b"".join((head, body))


def unpack(kind: Kind, data: bytes, limits: WireLimits = DEFAULT_LIMITS) -> Any:
    """Return the value in an envelope of `kind`.

    Raises:
        WireError: whatever is wrong with `data`: it is not a message, of another kind or version,
            damaged, beyond a limit, or not plain values and arrays.
    """
    body = _open(kind, data, limits)
    arrays = 0

    def extension(code: int, content: bytes) -> Any:
        nonlocal arrays
        if code == _ARRAY:
            arrays += 1
            if arrays > limits.max_arrays:
                raise WireError(f"more than max_arrays={limits.max_arrays} arrays")
            return decode_array(content)
        if code == _BIG_INT and 0 < len(content) <= _BIG_INT_BYTES:
            return int.from_bytes(content, "little", signed=True)
        raise WireError(f"extension type {code} of {len(content)} bytes is unknown here")

    try:
        value = msgpack.unpackb(
            body,
            raw=False,
            strict_map_key=True,
            timestamp=0,
            ext_hook=extension,
            max_str_len=limits.max_text,
            max_bin_len=limits.max_bytes,
            max_ext_len=limits.max_bytes,
            max_array_len=limits.max_items,
            max_map_len=limits.max_items,
        )
    except AsyncRLError:
        raise
    except (
        ValueError,
        TypeError,
        OverflowError,
        RecursionError,
        MemoryError,
        msgpack.exceptions.UnpackException,
    ) as error:
        raise WireError(f"a {kind.name.lower()} cannot be decoded: {error!r}") from error
    _check_size(value, limits)
    return value


def _open(kind: Kind, data: bytes, limits: WireLimits) -> memoryview:
    """Return the body, after checking everything that can be checked without decoding it."""
    if len(data) > limits.max_bytes + _ENVELOPE.size:
        raise WireError(f"{len(data)} bytes are more than max_bytes={limits.max_bytes}")
    if len(data) < _ENVELOPE.size:
        raise WireError(f"{len(data)} bytes are too few for a message")
    magic, found, version, zero, checksum, length = _ENVELOPE.unpack_from(data)
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
    if len(body) != length:
        raise WireError(f"the message is {len(body)} bytes long, its envelope says {length}")
    if zlib.crc32(body) != checksum:
        raise WireError("the message is damaged: its checksum does not match")
    return body


def _extension(value: Any) -> Any:
    """Encode what MessagePack does not know."""
    if isinstance(value, np.ndarray):
        return msgpack.ExtType(_ARRAY, encode_array(cast("np.ndarray", value)))
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is tuple:
        return list(cast("tuple[Any, ...]", value))
    if type(value) is int:
        content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return msgpack.ExtType(_BIG_INT, content)
    raise WireError(f"a {type(value).__name__} cannot travel; only plain values and arrays can")


def _check_size(value: Any, limits: WireLimits) -> None:
    """Raise `WireError` when there is too much, or too deep, nesting."""
    items = 0
    level = [value]
    for _ in range(limits.max_depth + 1):
        containers = [each for each in level if isinstance(each, dict | list)]
        if not containers:
            return
        level = []
        for each in containers:
            inside = each.values() if isinstance(each, dict) else each
            level += cast("list[Any]", inside)
        items += len(level)
        if items > limits.max_items:
            raise WireError(f"more than max_items={limits.max_items} elements")
    raise WireError(f"nested deeper than max_depth={limits.max_depth}")
