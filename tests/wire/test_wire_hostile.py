"""Whatever the bytes are, reading them raises nothing but `WireError`."""

from __future__ import annotations

import contextlib
from typing import Any

import hypothesis.strategies as st
import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from wire_hostility import ENVELOPE, MESSAGES, message, resealed, survives
from wire_nouns import CODECS, RESULTS, arrays

from asyncrl.errors import InvalidBatchError, WireError
from asyncrl.wire import decode_result, decode_tree, encode_result
from asyncrl.wire.codec import PROTOCOL_VERSION, pack, unpack

QUICK = settings(
    max_examples=100,
    deadline=None,  # a loaded machine is no failure
    suppress_health_check=[HealthCheck.too_slow],
)


# -- fuzz ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CODECS)
@given(data=st.binary(max_size=200))
@QUICK
def test_random_bytes(name: str, data: bytes):
    with pytest.raises(WireError):
        CODECS[name].decode(data)
    head = ENVELOPE.pack(b"ARL1", CODECS[name].kind, PROTOCOL_VERSION, 0, 0, 0, 0)
    with pytest.raises(WireError):
        CODECS[name].decode(head + data)


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


@given(numbers=arrays())
@example(numbers=np.array([1, 2, 0], np.uint8))
@settings(QUICK, max_examples=30)
def test_numbers_changed_on_the_way_are_noticed(numbers: np.ndarray):
    data = CODECS["tree"].encode({"a": numbers})
    if numbers.size:
        damaged = data[:-1] + bytes((data[-1] ^ 1,))
        with pytest.raises(WireError, match="damaged"):
            decode_tree(damaged)


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
