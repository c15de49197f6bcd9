"""Whatever a message claims, reading it is quick, small and runs nothing."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
from wire_hostility import ENVELOPE, MESSAGES, MIB, message, refusal, survives
from wire_nouns import CODECS

from asyncrl.errors import WireError
from asyncrl.wire import WireLimits, decode_result, decode_tree
from asyncrl.wire.codec import Kind, pack, unpack


def test_a_pickle_bomb_runs_nothing(tmp_path: Path):
    """msgpack-numpy runs such bytes in an array of dtype object."""
    victim = tmp_path / "written"
    bomb = b"cposix\nsystem\n(S'touch %s'\ntR." % str(victim).encode()
    lookalike = {b"nd": True, b"type": "O", b"kind": b"O", b"shape": [1], b"data": bomb}
    for name, codec in CODECS.items():
        survives(name, bomb)
        survives(name, message(codec.kind, bomb))
        survives(name, message(codec.kind, msgpack.packb(lookalike)))
        survives(name, message(codec.kind, msgpack.packb({"a": msgpack.ExtType(1, bomb)}), bomb))
    assert decode_tree(message(Kind.TREE, msgpack.packb({"a": bomb}))) == {"a": bomb}
    assert not victim.exists()


def array_message(description: bytes, numbers: bytes = b"") -> bytes:
    tree = b"\x81\xa1a\xc7" + bytes((len(description), 1)) + description
    return message(Kind.TREE, tree, bytes(-(ENVELOPE.size + len(tree)) % 16) + numbers)


@pytest.mark.parametrize(
    ("description", "numbers", "problem"),
    [
        (b"", b"", "an array described by 0 bytes is unknown"),
        (b"\x01", b"", "an array described by 1 bytes is unknown"),
        (b"\x0e\0", b"", "dtype code 14 and 0 dimensions in 2 bytes is unknown here"),
        (b"\x01\x09" + bytes(36), b"", "9 dimensions in 38 bytes is unknown here"),
        (b"\x01\x02" + bytes(4), b"", "2 dimensions in 6 bytes is unknown here"),
        (b"\x01\x01" + bytes(8), b"", "1 dimensions in 10 bytes is unknown here"),
        (b"\x0b\x01\x02\0\0\0", bytes(15), "dtype float64 takes 16 bytes, 15 are there"),
        (b"\x0b\x01\x02\0\0\0", bytes(17), "1 bytes follow the last array"),
        (b"\x0d\x08" + b"\xff" * 32, bytes(16), r"takes \d{70,} bytes, 16 are there"),
        (b"\x01\x08" + b"\xff" * 28 + bytes(4), b"", "is impossible"),
        (b"\0\x01\x02\0\0\0", b"\x01\x02", "bool array of shape .2,. holds bytes other than 0"),
    ],
)
def test_an_array_that_cannot_be(description: bytes, numbers: bytes, problem: str):
    with pytest.raises(WireError, match=problem):
        decode_tree(array_message(description, numbers))


def test_an_array_cannot_lie_over_another_or_beyond_the_message():
    tree = msgpack.packb({k: msgpack.ExtType(1, b"\x01\x01\x10\0\0\0") for k in "ab"})
    gap = bytes(-(ENVELOPE.size + len(tree)) % 16)
    assert set(decode_tree(message(Kind.TREE, tree, gap + bytes(32)))) == {"a", "b"}
    with pytest.raises(WireError, match="takes 16 bytes, 0 are there"):
        decode_tree(message(Kind.TREE, tree, gap + bytes(16)))


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        (b"", "ends within a value"),
        (b"\xc1", "the tag 0xc1 begins no value"),
        (b"\x80\x80", "1 bytes follow it"),
        (b"\x81\xa1a", "ends within a value"),
        (b"\x81\xa5abc\x00", "ends within a value"),
        (b"\xdf\0\0", "ends within a value"),
        (b"\x81\xa1a\xc7", "ends within a value"),
        (b"\x81\xa1a\xd6\xff\0\0\0\0", "the extension type 255 is unknown"),
        (b"\x81\xa1a\xc7\x0c\xff" + bytes(12), "the extension type 255 is unknown"),
        (b"\x81\xa1a\xc7\x00\x03", "the extension type 3 is unknown"),
        (b"\x82\xa1a\x01\xa1a\x02", "the same key twice"),
        (b"\x81\x01\x01", "a key that is not text"),
        (b"\x81\xc4\x01a\x01", "a key that is not text"),
        (b"\x81\xc0\x01", "a key that is not text"),
        (b"\x81\x90\x01", "a key that is not text"),
        (b"\x81\xd4\x02\x01\x01", "a key that is not text"),
        (b"\x81\xa1a\xa1\xff", "invalid start byte"),
        (b"\x81\xa1\xff\xc0", "invalid start byte"),
        (b"\x90", "tree is a list, not a mapping"),
        (b"\xc0", "tree is None, not a mapping"),
        (b"\x81\xa1a\xc7\x00\x02", ""),
    ],
)
def test_a_tree_that_cannot_be(tree: bytes, problem: str):
    if not problem:
        assert decode_tree(message(Kind.TREE, tree)) == {"a": 0}
        return
    with pytest.raises(WireError, match=problem):
        decode_tree(message(Kind.TREE, tree))


def test_claimed_lengths_allocate_nothing():
    huge = b"\xff\xff\xff\xff"
    for tag in (b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9"):
        for tree in (tag + huge, b"\x81\xa1a" + tag + huge + b"\x01", b"\x91" * 9 + tag + huge):
            refusal(lambda tree=tree: decode_result(message(Kind.RESULT, tree)), peak=2**16)
    liar = ENVELOPE.pack(b"ARL1", Kind.RESULT, 1, 0, 0, 2**32 - 1, 2**64 - 1)
    refusal(lambda: decode_result(liar), peak=2**16)


def _count(number: int) -> bytes:
    return b"\xdd" + struct.pack(">I", number)


FEW = WireLimits(max_items=100_000)
"""A tenth of the default, so that memory, which is slow to trace, is seen in a second."""
BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "lists inside one another": (lambda: b"\x91" * (64 * MIB), "nested deeper than max_depth=16"),
    "mappings inside one another": (lambda: b"\x81\xa1a" * MIB, "nested deeper than max_depth=16"),
    "one list of empty mappings": (
        lambda: _count(63 * MIB) + b"\x80" * (63 * MIB),
        "max_items=100000",
    ),
    "many lists of empty mappings": (
        lambda: _count(16_000) + (_count(4096) + b"\x80" * 4096) * 16_000,
        "max_items=100000",
    ),
    "a mapping of too many pairs": (
        lambda: b"\xdf" + struct.pack(">I", 2 * MIB) + b"\xa1a\x80" * (2 * MIB),
        "max_items=100000",
    ),
    "arrays without numbers": (
        lambda: _count(10_000) + b"\xc7\x06\x01\x01\x01\0\0\0\0" * 10_000,
        "max_arrays=4096",
    ),
    "one long text": (
        lambda: b"\xdb" + struct.pack(">I", 60 * MIB) + b"a" * (60 * MIB),
        "max_text=1048576",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_message_that_grows_when_it_is_read_is_refused_before_it_does(name: str):
    tree, problem = BOMBS[name]
    data = message(Kind.RESULT, tree())
    assert problem in refusal(lambda: decode_result(data, FEW))


def test_a_space_of_very_many_dimensions_is_refused_before_its_size_is_computed():
    raw = unpack(Kind.RUN, MESSAGES["run"])
    raw["policies"]["policy"]["observation"] |= {"shape": [2**31 - 1] * 50_000, "low": [1.0, 2.0]}
    data = pack(Kind.RUN, raw)
    assert "a run that cannot be" in refusal(lambda: CODECS["run"].decode(data), peak=32 * MIB)


def test_the_worst_message_within_the_limits_takes_bounded_memory():
    """An empty mapping takes 64 bytes and the place in its list 8; 1 when it travels."""
    data = message(Kind.RESULT, _count(99_999) + b"\x80" * 99_999)
    assert "not a mapping" in refusal(lambda: decode_result(data, FEW), peak=10 * MIB)


def test_more_bytes_than_allowed_are_not_even_looked_at():
    data = bytes(64 * MIB + 100)
    assert "more than max_bytes=67108864" in refusal(lambda: decode_result(data), seconds=1.0)
