"""Arrays as bytes: a fixed table of dtypes, and raw little-endian numbers in C order.

What describes an array is kept apart from its numbers, so that these can lie aligned in a message:

    u8 dtype code | u8 number of dimensions | u32 dimensions[]
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from asyncrl.errors import WireError

ALIGNMENT = 16
"""The numbers of every array begin at a multiple of this many bytes."""

MAX_DIMS = 8
"""Dimensions of one array: those of a space's elements, and [T, B]."""

_NAMES = [
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
"""Code of a dtype = its place here; only ever appended to."""
_DTYPES: list[np.dtype[Any]] = [np.dtype(name).newbyteorder("<") for name in _NAMES]
_CODES = {name: code for code, name in enumerate(_NAMES)}
_HEAD = struct.Struct("<BB")


def padding(size: int) -> int:
    """Return how many bytes lead from `size` to the next multiple of `ALIGNMENT`."""
    return -size % ALIGNMENT


def describe_array(array: np.ndarray) -> bytes:
    """Return dtype and shape as bytes; `WireError` for those that have no place on the wire."""
    code = _CODES.get(array.dtype.name)
    if code is None:
        raise WireError(
            f"an array of dtype {array.dtype} cannot travel; use one of {', '.join(_NAMES)}"
        )
    if array.ndim > MAX_DIMS or any(size >= 2**32 for size in array.shape):
        raise WireError(
            f"an array of shape {array.shape} cannot travel: at most {MAX_DIMS} dimensions of less "
            "than 2**32"
        )
    return _HEAD.pack(code, array.ndim) + struct.pack(f"<{array.ndim}I", *array.shape)


def array_numbers(array: np.ndarray) -> memoryview:
    """Return the array's own memory if it is laid out as it travels, else that of a copy."""
    return np.ascontiguousarray(array, _DTYPES[_CODES[array.dtype.name]]).data


def view_array(description: bytes, data: bytes, start: int) -> tuple[np.ndarray, int]:
    """Return the described array as a read-only view of `data` from `start`, and where it ends.

    Raises:
        WireError: The description is unknown here, or takes more bytes than there are.
    """
    if len(description) < _HEAD.size:
        raise WireError(f"an array described by {len(description)} bytes is unknown here")
    code, ndim = description[0], description[1]
    if code >= len(_DTYPES) or ndim > MAX_DIMS or len(description) != _HEAD.size + 4 * ndim:
        raise WireError(
            f"an array with dtype code {code} and {ndim} dimensions in {len(description)} bytes is "
            f"unknown here: codes are below {len(_DTYPES)}, dimensions at most {MAX_DIMS}"
        )
    shape: tuple[int, ...] = struct.unpack_from(f"<{ndim}I", description, _HEAD.size)
    dtype = _DTYPES[code]
    # Python integers: the product of hostile dimensions cannot overflow.
    count = math.prod(shape)
    end = start + count * dtype.itemsize
    if end > len(data):
        raise WireError(
            f"an array of shape {shape} and dtype {dtype.name} takes {end - start} bytes, "
            f"{max(0, len(data) - start)} are there"
        )
    try:
        flat = np.frombuffer(data, dtype, count, start) if count else np.empty(0, dtype)
        array = flat.reshape(shape).astype(dtype.newbyteorder("="), copy=False)
    except ValueError as error:  # dimensions of an empty array that are too large to multiply
        raise WireError(f"an array of shape {shape} is impossible: {error}") from error
    if code == 0 and count and array.view(np.uint8).max() > 1:
        raise WireError(f"a bool array of shape {shape} holds bytes other than 0 and 1")
    array.flags.writeable = False
    return array, end
