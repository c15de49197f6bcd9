"""Arrays as bytes: a fixed table of dtypes, a padded header, raw little-endian numbers in C order.

    u8 layout version | u8 dtype code | u8 ndim | u8 0 | u32 dims[ndim] | zeros up to 16n | data

The header is a multiple of 16 bytes long, so that the numbers of a decoded array, which is a
read-only view into the message's own bytes, are aligned.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from asyncrl.errors import WireError

LAYOUT = 1
MAX_DIMS = 8
_ALIGN = 16
_HEAD = struct.Struct("<BBBB")
_NAMES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 "
    "float16 float32 float64 complex64 complex128"
)
_DTYPES = [np.dtype(name).newbyteorder("<") for name in _NAMES.split()]
"""Code of a dtype = its place here; only ever appended to."""
_CODES = {dtype.name: code for code, dtype in enumerate(_DTYPES)}


def encode_array(array: np.ndarray) -> bytes:
    """Return the array as bytes; `WireError` for a dtype or size that has no place on the wire."""
    code = _CODES.get(array.dtype.name)
    if code is None:
        raise WireError(
            f"an array of dtype {array.dtype} cannot travel; use one of {_NAMES.replace(' ', ', ')}"
        )
    if array.ndim > MAX_DIMS or any(size >= 2**32 for size in array.shape):
        raise WireError(
            f"an array of shape {array.shape} cannot travel: at most {MAX_DIMS} dimensions of less "
            "than 2**32"
        )
    head = _HEAD.pack(LAYOUT, code, array.ndim, 0)
    head += struct.pack(f"<{array.ndim}I", *array.shape)
    contiguous = np.ascontiguousarray(array, _DTYPES[code])
    data = contiguous.reshape(-1).view(np.uint8).data if array.size else b""
    return b"".join((head, bytes(-len(head) % _ALIGN), data))


def decode_array(data: bytes) -> np.ndarray:
    """Return a read-only view of the array in `data`; `WireError` unless every byte fits."""
    if len(data) < _HEAD.size:
        raise WireError(f"an array of {len(data)} bytes is too short to have a header")
    layout, code, ndim, zero = _HEAD.unpack_from(data)
    if layout != LAYOUT or zero or code >= len(_DTYPES) or ndim > MAX_DIMS:
        raise WireError(
            f"an array with layout {layout}, dtype code {code} and {ndim} dimensions is unknown "
            f"here: layout {LAYOUT}, codes below {len(_DTYPES)}, at most {MAX_DIMS} dimensions"
        )
    size = _HEAD.size + 4 * ndim
    start = size + -size % _ALIGN
    if len(data) < start:
        raise WireError(f"an array of {len(data)} bytes is too short for {ndim} dimensions")
    shape = struct.unpack_from(f"<{ndim}I", data, _HEAD.size)
    dtype: np.dtype[Any] = _DTYPES[code]
    # Python integers: the product of hostile dimensions cannot overflow.
    expected = math.prod(shape) * dtype.itemsize
    if expected != len(data) - start or any(data[size:start]):
        raise WireError(
            f"an array of shape {shape} and dtype {dtype.name} takes {expected} bytes, "
            f"{len(data) - start} are there"
        )
    try:
        flat = np.frombuffer(data, dtype, offset=start)
        return flat.reshape(shape).astype(dtype.newbyteorder("="), copy=False)
    except ValueError as error:  # dimensions of an empty array that are too large to multiply
        raise WireError(f"an array of shape {shape} is impossible: {error}") from error
