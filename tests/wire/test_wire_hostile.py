"""Whatever the bytes are, reading them is quick and small, and raises nothing but `WireError`."""

from __future__ import annotations

import contextlib
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from wire_nouns import CODECS, ENVELOPE, EXAMPLES, RESULTS, arrays, message, resealed

from asyncrl.errors import InvalidBatchError, WireError
from asyncrl.wire import WireLimits, decode_result, decode_tree, encode_result
from asyncrl.wire.codec import Kind, pack, unpack

QUICK = settings(
    max_examples=100,
    deadline=None,  # a loaded machine is no failure
    suppress_health_check=[HealthCheck.too_slow],
)
MIB = 2**20
MESSAGES = {name: codec.encode(EXAMPLES[name]) for name, codec in CODECS.items()}


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


# -- fuzz ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CODECS)
@given(data=st.binary(max_size=200))
@QUICK
def test_random_bytes(name: str, data: bytes):
    with pytest.raises(WireError):
        CODECS[name].decode(data)
    with pytest.raises(WireError):
        CODECS[name].decode(ENVELOPE.pack(b"ARL1", CODECS[name].kind, 1, 0, 0, 0, 0) + data)


@pytest.mark.parametrize("name", CODECS)
@given(tree=st.binary(max_size=60), numbers=st.binary(max_size=60))
@QUICK
def test_random_bytes_in_a_sound_envelope(name: str, tree: bytes, numbers: bytes):
    survives(name, message(CODECS[name].kind, tree, numbers))


@pytest.mark.parametrize("name", CODECS)
@given(data=st.data())
@settings(QUICK, max_examples=300)
def test_valid_messages_changed_in_places_with_their_checksum_put_right(
    name: str, data: st.DataObject
):
    body = bytearray(MESSAGES[name][ENVELOPE.size :])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(body) - 1))
        new = data.draw(st.binary(max_size=3))
        body[place : place + data.draw(st.integers(0, 3))] = new
        if not body:
            break
    survives(name, resealed(MESSAGES[name], bytes(body)))


@pytest.mark.parametrize("name", CODECS)
def test_valid_messages_cut_off_anywhere_with_their_checksum_put_right(name: str):
    body = MESSAGES[name][ENVELOPE.size :]
    for size in range(len(body)):
        with pytest.raises(WireError):
            CODECS[name].decode(resealed(MESSAGES[name], body[:size]))


@pytest.mark.parametrize("name", CODECS)
def test_every_byte_replaced_by_every_kind_of_tag(name: str):
    body = MESSAGES[name][ENVELOPE.size :]
    tags = (0x00, 0x7F, 0x80, 0x8F, 0x90, 0xA1, *range(0xC0, 0xE0), 0xFF)
    for place in range(min(len(body), 400)):
        for tag in tags:
            changed = body[:place] + bytes((tag,)) + body[place + 1 :]
            survives(name, resealed(MESSAGES[name], changed))


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=20)),
    lambda inside: (
        st.lists(inside, max_size=4)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inside, max_size=4)
    ),
)


@pytest.mark.parametrize("name", CODECS)
@given(value=PLAIN, numbers=st.binary(max_size=40))
@QUICK
def test_any_other_msgpack_in_a_sound_envelope(name: str, value: Any, numbers: bytes):
    survives(name, message(CODECS[name].kind, msgpack.packb(value), numbers))


WRONG = (
    *(None, True, -1, 0, 2**63, 2**64, -(2**63) - 1, 1 << 40_000, 0.5, float("nan"), float("inf")),
    *("", "x" * 70, "a/b\n", "train", b"", b"x", [], [[1]], [None], ["a"], [True], [2**31], [-1]),
    *({}, {"a": None}, {"a": {"b": "c"}}, {"x" * 5000: {"y" * 5000: 1}}),
    *(np.zeros(()), np.zeros((0, 2), np.int32), np.full((3, 2), 2**40), np.zeros((2, 2), "c8")),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path to everything inside `value`."""
    if isinstance(value, dict):
        inside: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    else:
        return []
    found = [(*path, key) for key, _ in inside]
    return found + [each for key, inner in inside for each in _places(inner, (*path, key))]


@pytest.mark.parametrize("name", [name for name in CODECS if name != "tree"])
def test_every_field_with_every_wrong_value_or_missing(name: str):
    """A field whose type is wrong is named; a value that happens to be allowed is taken."""
    codec = CODECS[name]
    for path in _places(unpack(codec.kind, MESSAGES[name])):
        for wrong in (*WRONG, "missing"):
            raw = unpack(codec.kind, MESSAGES[name])
            holder = raw
            for key in path[:-1]:
                holder = holder[key]
            if isinstance(wrong, str) and wrong == "missing":
                del holder[path[-1]]
            else:
                holder[path[-1]] = wrong
            survives(name, pack(codec.kind, raw))


@given(result=RESULTS)
@settings(QUICK, max_examples=100)
def test_whatever_arrays_a_result_holds_validating_it_says_invalid_or_nothing(result: Any):
    with contextlib.suppress(InvalidBatchError):
        decode_result(encode_result(result)).validate()


# -- wrong types are named -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "field", "value", "problem"),
    [
        ("job", "size", True, "job.size is True, expected int"),
        ("job", "size", 1.0, "job.size is 1.0, expected int"),
        ("job", "size", 2**63, "job.size is 9223372036854775808, expected a 64-bit integer"),
        ("job", "size", 1 << 40_000, "job.size is a whole number of 40001 bits, expected a 64-bit"),
        ("job", "size", 0, "a job that cannot be: size=0: a job collects at least one step"),
        ("job", "job_id", "a b", "a job that cannot be: job_id='a b': a name is 1 to 64 letters"),
        ("job", "job_id", "a\n", "a job that cannot be: job_id='a.n': a name is 1 to 64 letters"),
        ("job", "kind", "trian", "job.kind is the text 'trian', expected one of train, eval"),
        ("job", "exploration", [], "job.exploration is a list, not a mapping"),
        (
            "job",
            "exploration",
            {"p": {"e": "1"}},
            "job.exploration.p.e is the text '1', expected a",
        ),
        ("result", "batches", {}, "result.batches is a dict, expected list"),
        ("result", "batches", [3], r"result.batches\[0\] is 3, not a mapping"),
        (
            "result",
            "returns",
            np.zeros(2, np.float32),
            "array of float32 .2,., expected an array of float64",
        ),
        ("result", "seconds", False, "result.seconds is False, expected a number"),
        (
            "weights",
            "policies",
            {"p": {"version": 1, "params": {"w": [1.0]}}},
            "params.w is a list",
        ),
        ("run", "agents", {"agent": "nobody"}, "a run that cannot be: agents.'agent'.='nobody'"),
        ("run", "seed", 2**64, "run.seed is a whole number of 65 bits, expected a 64-bit integer"),
        ("failure", "seed", 1.5, "failure.seed is 1.5, expected int"),
        ("failure", "where", b"x", "failure.where is a bytes, expected str"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_field_of_another_type_is_named(name: str, field: str, value: Any, problem: str):
    codec = CODECS[name]
    raw = {**unpack(codec.kind, MESSAGES[name]), field: value}
    with pytest.raises(WireError, match=problem):
        codec.decode(pack(codec.kind, raw))
    del raw[field]
    with pytest.raises(WireError, match=f"{name} lacks {field}"):
        codec.decode(pack(codec.kind, raw))


# -- bombs ---------------------------------------------------------------------------------------


def test_a_pickle_bomb_runs_nothing(tmp_path: Path):
    """FIELD-CASES 37; msgpack-numpy runs such bytes in an array of dtype object."""
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


@given(numbers=arrays())
@example(numbers=np.array([1, 2, 0], np.uint8))
@settings(QUICK, max_examples=30)
def test_numbers_changed_on_the_way_are_noticed(numbers: np.ndarray):
    data = CODECS["tree"].encode({"a": numbers})
    if numbers.size:
        damaged = data[:-1] + bytes((data[-1] ^ 1,))
        with pytest.raises(WireError, match="damaged"):
            decode_tree(damaged)
