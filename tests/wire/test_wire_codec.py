from __future__ import annotations

import dataclasses
import datetime as dt
import struct
import tracemalloc
import zlib
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from wire_hostility import ENVELOPE
from wire_nouns import CODECS, DTYPES, EXAMPLES, JOB, RESULT, RUN, arrays, in_order, same

from asyncrl.errors import WireError
from asyncrl.wire import (
    DEFAULT_LIMITS,
    PROTOCOL_VERSION,
    WireLimits,
    decode_failure,
    decode_job,
    decode_result,
    decode_tree,
    encode_failure,
    encode_job,
    encode_result,
    encode_run,
    encode_tree,
    fingerprint,
)
from asyncrl.wire.codec import Kind, pack, unpack

QUICK = settings(
    max_examples=60,
    deadline=None,  # a loaded machine is no failure
    suppress_health_check=[HealthCheck.too_slow],
)


def nested(depth: int) -> dict[str, Any]:
    """Return mappings inside one another, `depth` in all."""
    tree: dict[str, Any] = {}
    for _ in range(depth - 1):
        tree = {"a": tree}
    return tree


# -- round trips ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CODECS)
@given(data=st.data())
@QUICK
def test_a_noun_survives_the_way_over_the_wire(name: str, data: st.DataObject):
    codec = CODECS[name]
    noun = data.draw(codec.nouns)
    message = codec.encode(noun)
    decoded = codec.decode(message)
    assert type(decoded) is codec.noun
    assert same(noun, decoded)
    assert codec.encode(decoded) == message


@given(array=arrays())
@settings(QUICK, max_examples=200)
def test_arrays_of_every_layout_come_back_aligned_read_only_and_without_a_copy(array: np.ndarray):
    message = encode_tree({"text": "x" * (array.size % 17), "array": array})
    decoded = decode_tree(message)["array"]
    assert same(array, decoded)
    assert decoded.dtype.isnative
    assert decoded.flags.aligned
    assert decoded.flags.c_contiguous
    assert not decoded.flags.writeable
    if decoded.size:
        assert decoded.__array_interface__["data"][0] % 16 == 0
        assert np.shares_memory(decoded, np.frombuffer(message, np.uint8))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_travels_in_every_shape(dtype: str):
    for shape in ((), (0,), (0, 3), (2, 0, 3), (1,) * 8, (3, 2)):
        for big in (False, True):
            array = np.ones(shape, in_order(dtype, big))
            assert same(array, decode_tree(encode_tree({"a": array}))["a"])


@pytest.mark.parametrize("bits", [0, 1, 7, 8, 31, 32, 62, 63, 64, 65, 127, 128, 624 * 32, 10**6])
def test_whole_numbers_of_any_size_travel_in_trees(bits: int):
    numbers = [sign * (2**bits + step) for sign in (1, -1) for step in (-1, 0, 1)]
    assert decode_tree(encode_tree({"n": numbers}))["n"] == numbers


def test_the_state_of_numpys_generators_travels():
    for name in ("PCG64", "MT19937", "Philox", "SFC64"):
        bits = getattr(np.random, name)(7)
        other = getattr(np.random, name)(8)
        other.state = decode_tree(encode_tree({"state": bits.state}))["state"]
        assert np.random.Generator(other).random() == np.random.Generator(bits).random()


def test_numpy_scalars_become_plain_ones_and_tuples_lists():
    tree = {"i": np.int32(3), "f": np.float64(0.5), "b": np.bool_(True), "t": (1, (2,))}
    assert decode_tree(encode_tree(tree)) == {"i": 3, "f": 0.5, "b": True, "t": [1, [2]]}


def test_arrays_keep_their_places_among_other_arrays():
    tree = {"a": np.arange(3), "inside": [np.zeros(0), {"b": np.arange(5, dtype=np.uint8)}]}
    decoded = decode_tree(encode_tree({**tree, "c": np.float32(2) * np.ones((2, 2), np.float32)}))
    assert same(tree["a"], decoded["a"])
    assert same(tree["inside"], decoded["inside"])
    assert (decoded["c"] == 2).all()


def test_the_layout_on_the_wire_stays_as_it_is():
    """Change what this pins only together with `PROTOCOL_VERSION`."""
    tree = b"\x81\xa1a" + b"\xc7\x0a\x01" + struct.pack("<BB2I", 3 + 3, 2, 1, 2)  # int16 [1, 2]
    gap, numbers = bytes(8), struct.pack("<2h", 5, -1)
    body = tree + gap + numbers
    head = b"ARL1" + bytes((6, 2, 0, 0))
    head += struct.pack("<IIQ", zlib.crc32(body), len(tree), len(body))
    assert encode_tree({"a": np.array([[5, -1]], np.int16)}) == head + body
    assert fingerprint(encode_job(JOB))[:16] == "deff9844047b334f"
    assert fingerprint(encode_run(RUN))[:16] == "cf60608fc0a78b28"


@pytest.mark.parametrize("name", CODECS)
def test_fields_of_a_newer_library_are_ignored(name: str):
    codec = CODECS[name]
    message = codec.encode(EXAMPLES[name])
    raw = unpack(codec.kind, message)
    decoded = codec.decode(pack(codec.kind, {"new": [1, np.zeros(2)], **raw, "newer": {"x": 1}}))
    if name == "tree":
        del decoded["new"], decoded["newer"]
    assert same(decoded, codec.decode(message))


def test_long_texts_of_a_failure_keep_what_matters_most():
    long = {"where": "w" * 10**6, "cause": "c" * 10**6, "traceback": "t" * 10**6 + "the last line"}
    decoded = decode_failure(encode_failure(dataclasses.replace(EXAMPLES["failure"], **long)))
    assert len(decoded.where) == len(decoded.cause) == len(decoded.traceback) == 64 * 1024
    assert decoded.traceback.endswith("the last line")


def test_a_failure_is_reported_though_its_texts_hold_undecodable_file_names():
    report = dataclasses.replace(
        EXAMPLES["failure"], cause="no \udcff.toml", traceback="\ud800" * 9
    )
    decoded = decode_failure(encode_failure(report))
    assert decoded.cause == r"no \udcff.toml"
    assert decoded.traceback == r"\ud800" * 9


# -- what cannot travel --------------------------------------------------------------------------


class Custom:
    pass


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)

CANNOT_TRAVEL: dict[str, tuple[Any, str]] = {
    "an object": (Custom(), "a Custom is neither a plain value nor an array"),
    "a class": (Custom, "a type is neither"),
    "a set": ({1}, "a set is neither"),
    "a time": (dt.datetime.now(dt.UTC), "a datetime is neither"),
    "an enumeration": (Kind.JOB, "a Kind is neither"),
    "a complex number": (1j, "a complex is neither"),
    "a whole number as key": ({1: 2}, "a key that is not text"),
    "bytes as key": ({b"a": 2}, "a key that is not text"),
    "half a character": ("\ud800", "surrogates not allowed"),
    "an endless list": (CIRCLE, "recursion limit|nested deeper"),
    "too deep": (nested(65), "nested deeper than max_depth=64"),
    "objects in an array": (np.array([None]), "dtype object cannot travel; use one of bool"),
    "texts in an array": (np.array(["a"]), "dtype <U1 cannot travel"),
    "times in an array": (np.zeros(1, "datetime64[s]"), "cannot travel"),
    "fields in an array": (np.zeros(1, "i4,f4"), "cannot travel"),
    "objects in fields": (np.zeros(1, "i4,O"), "cannot travel"),
    "too many dimensions": (np.zeros((1,) * 9), "at most 8 dimensions"),
}


@pytest.mark.parametrize("case", CANNOT_TRAVEL)
def test_what_could_not_be_read_again_is_refused_by_name(case: str):
    value, problem = CANNOT_TRAVEL[case]
    with pytest.raises(WireError, match=rf"this tree cannot travel: .*({problem})"):
        encode_tree({"value": value})


def test_a_message_that_is_too_large_is_refused_before_it_is_made():
    limits = WireLimits(max_bytes=2**20)
    numbers = np.zeros(2**20, np.uint8)
    tracemalloc.start()
    with pytest.raises(WireError, match=r"a result of \d+ bytes is larger than max_bytes=1048576"):
        pack(Kind.RESULT, {"a": numbers}, limits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**19
    fits = pack(Kind.RESULT, {"a": numbers[:-100]}, limits)
    assert len(fits) <= limits.max_bytes + ENVELOPE.size
    assert unpack(Kind.RESULT, fits, limits)["a"].nbytes == 2**20 - 100


@pytest.mark.parametrize(
    ("limits", "value", "problem"),
    [
        (WireLimits(max_depth=3), nested(4), "max_depth=3"),
        (WireLimits(max_items=3), {"a": [1, 2, 3]}, "max_items=3"),
        (WireLimits(max_arrays=2), {"a": [np.zeros(1)] * 3}, "max_arrays=2"),
        (WireLimits(max_text=40), {"a": "x" * 41}, "max_text=40"),
        (WireLimits(max_text=40), {"x" * 41: 1}, "max_text=40"),
    ],
)
def test_limits_hold_when_writing_and_when_reading(
    limits: WireLimits, value: dict[str, Any], problem: str
):
    with pytest.raises(WireError, match=problem):
        pack(Kind.TREE, value, limits)
    with pytest.raises(WireError, match=problem):
        unpack(Kind.TREE, pack(Kind.TREE, value), limits)


def test_what_is_just_within_the_limits_travels():
    limits = WireLimits(max_depth=3, max_items=5, max_arrays=2, max_text=4)
    value = {"four": {"b": [np.zeros(1), np.ones(1)]}, "c": 1}
    assert same(unpack(Kind.TREE, pack(Kind.TREE, value, limits), limits), value)


# -- what is not for us --------------------------------------------------------------------------


def test_another_version_is_refused_saying_both():
    message = bytearray(encode_job(JOB))
    message[5] = 7
    with pytest.raises(WireError, match=rf"protocol version 7, this process {PROTOCOL_VERSION};"):
        decode_job(bytes(message))


def test_another_kind_is_refused_saying_both():
    with pytest.raises(WireError, match="expected a result, got a job"):
        decode_result(encode_job(JOB))
    message = bytearray(encode_job(JOB))
    message[4] = 99
    with pytest.raises(WireError, match="expected a job, got a 99"):
        decode_job(bytes(message))


def test_every_flipped_bit_is_noticed():
    message = encode_job(JOB)
    for place in range(len(message) * 8):
        damaged = bytearray(message)
        damaged[place // 8] ^= 1 << (place % 8)
        with pytest.raises(WireError):
            decode_job(bytes(damaged))


def test_every_truncation_and_every_addition_is_noticed():
    message = encode_result(RESULT)
    for size in range(len(message)):
        with pytest.raises(WireError):
            decode_result(message[:size])
    with pytest.raises(WireError, match="its envelope says"):
        decode_result(message + b"\0")


# -- memory --------------------------------------------------------------------------------------


def test_a_checkpoint_is_copied_once_when_written_and_never_when_read():
    tree = {"obs": np.zeros((2**14, 128), np.float32), "next": [np.zeros(2**20), 2**100]}
    tracemalloc.start()
    message = encode_tree(tree)
    written = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    decoded = decode_tree(message)
    read = tracemalloc.get_traced_memory()[1] - len(message)
    tracemalloc.stop()
    assert written < 1.01 * len(message)
    assert read < 0.01 * len(message)
    assert same(tree, decoded)


def test_reading_needs_no_more_than_the_default_limits_for_a_usual_result():
    assert decode_result(encode_result(RESULT), DEFAULT_LIMITS).env_steps == 6
