"""Messages made by hand for the tests of the wire, and what reading them may do."""

from __future__ import annotations

import contextlib
import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
from wire_nouns import CODECS, EXAMPLES

from asyncrl.errors import InvalidBatchError, WireError
from asyncrl.wire.codec import PROTOCOL_VERSION, Kind

MIB = 2**20
ENVELOPE = struct.Struct("<4sBBHIIQ")
MESSAGES = {name: codec.encode(EXAMPLES[name]) for name, codec in CODECS.items()}


def message(kind: Kind, tree: bytes, numbers: bytes = b"", tree_size: int | None = None) -> bytes:
    """Return a message whose envelope is in order, whatever is inside."""
    body = tree + numbers
    size = len(tree) if tree_size is None else tree_size
    head = ENVELOPE.pack(b"ARL1", kind, PROTOCOL_VERSION, 0, zlib.crc32(body), size, len(body))
    return head + body


def resealed(data: bytes, body: bytes) -> bytes:
    """Return `data` with another body, its length and checksum put right."""
    kind, tree_size = data[4], ENVELOPE.unpack_from(data)[5]
    return message(Kind(kind), body, tree_size=min(tree_size, len(body)))


def survives(name: str, data: bytes) -> None:
    """Decode; a noun of the right type or a `WireError` are the only outcomes."""
    codec = CODECS[name]
    with contextlib.suppress(WireError):
        decoded = codec.decode(data)
        assert type(decoded) is codec.noun
        if name == "result":
            with contextlib.suppress(InvalidBatchError):
                decoded.validate()


def refusal(read: Callable[[], object], peak: int = MIB, seconds: float = 5.0) -> str:
    """Return the message of the `WireError` that `read` raises, within memory and time."""
    started = time.perf_counter()
    with pytest.raises(WireError):
        read()
    assert time.perf_counter() - started < seconds
    tracemalloc.start()
    with pytest.raises(WireError) as caught:
        read()
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < peak
    assert len(str(caught.value)) < 1000
    return str(caught.value)
