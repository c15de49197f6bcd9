from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from asyncrl.data import SpaceSpec, composite
from asyncrl.errors import ConfigError

CAMERA = SpaceSpec(kind="box", shape=(2, 2, 3), dtype="uint8", low=0.0, high=255.0)
SPEED = SpaceSpec(kind="box", shape=(), dtype="float64")
GEAR = SpaceSpec(kind="discrete", dtype="int64", n=6, start=-1)
DOORS = SpaceSpec(kind="multi_binary", shape=(5,), dtype="int8")
SEATS = SpaceSpec(kind="multi_discrete", shape=(2,), dtype="int64", nvec=(3, 4), starts=(0, 1))
CAR = composite(
    "dict",
    {"camera": CAMERA, "inside": composite("tuple", {"0": GEAR, "1": DOORS}), "speed": SPEED},
)


def elements(space: SpaceSpec, lead: tuple[int, ...], seed: int) -> dict[str, np.ndarray]:
    """Return numbers by chance for every leaf: packing does not ask what they mean."""
    rng = np.random.default_rng(seed)
    parts: dict[str, np.ndarray] = {}
    for path, leaf, _ in space.leaves:
        shape = (*lead, *leaf.stored_shape)
        parts[path] = np.asarray(100 * rng.random(shape), leaf.stored_dtype)
    return parts


def test_every_kind_counts_and_stores_its_elements():
    found = {
        space.kind: (space.size, space.stored_shape, space.stored_dtype.name)
        for space in (SPEED, GEAR, DOORS, SEATS)
    }
    assert found == {
        "box": (1, (), "float32"),
        "discrete": (6, (), "int64"),
        "multi_binary": (5, (5,), "uint8"),
        "multi_discrete": (7, (2,), "int64"),
    }
    assert (CAMERA.stored_shape, CAMERA.stored_dtype) == ((2, 2, 3), np.uint8)


def test_a_composite_is_one_row_of_aligned_leaves():
    places = [(leaf.path, leaf.offset, leaf.nbytes) for leaf in CAR.leaves]
    assert places == [("camera", 0, 12), ("inside/0", 16, 8), ("inside/1", 24, 5), ("speed", 32, 4)]
    assert (CAR.stored_shape, CAR.stored_dtype) == ((40,), np.uint8)
    assert CAR.size == 12 + 6 + 5 + 1
    assert CAR.is_composite
    assert not CAMERA.is_composite


def test_packed_bytes_are_those_of_the_leaves():
    space = composite("dict", {"a": DOORS, "b": GEAR})
    packed = space.join({"a": np.array([1, 0, 0, 1, 1], np.uint8), "b": np.array(3)})
    assert packed.tolist() == [1, 0, 0, 1, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("lead", [(), (0,), (3,), (4, 2)])
def test_what_was_joined_is_split_again(lead: tuple[int, ...]):
    parts = elements(CAR, lead, 5)
    packed = CAR.join(parts)
    assert packed.shape == (*lead, 40)
    again = CAR.split(packed)
    assert list(again) == list(parts)
    for path, array in parts.items():
        assert again[path].dtype == array.dtype
        np.testing.assert_array_equal(again[path], array)


def test_split_takes_columns_of_a_larger_array():
    packed = CAR.join(elements(CAR, (6, 2), 1))
    column = CAR.split(packed[::2, 1])
    np.testing.assert_array_equal(column["speed"], CAR.split(packed)["speed"][::2, 1])


def test_a_leaf_is_its_own_only_part():
    stored = np.ones((2, 5), np.uint8)
    assert DOORS.split(stored) == {"": stored}
    assert DOORS.join({"": stored}) is stored


LEAVES = st.sampled_from((CAMERA, SPEED, GEAR, DOORS, SEATS))
NESTED = st.recursive(
    LEAVES,
    lambda parts: st.dictionaries(
        st.text("abc", min_size=1, max_size=3), parts, min_size=1, max_size=3
    ).map(lambda named: composite("dict", named)),
    max_leaves=6,
)


@given(space=NESTED, lead=hnp.array_shapes(min_dims=0, max_dims=2, max_side=3), seed=st.integers(0))
@settings(max_examples=60, deadline=None)
def test_leaves_never_share_a_byte(space: SpaceSpec, lead: tuple[int, ...], seed: int):
    parts = elements(space, lead, seed)
    again = space.split(space.join(parts))
    assert all(again[path].tobytes() == array.tobytes() for path, array in parts.items())
    ends = [leaf.offset + leaf.nbytes for leaf in space.leaves]
    assert all(leaf.offset % 8 == 0 for leaf in space.leaves)
    assert all(end <= leaf.offset for end, leaf in zip(ends, space.leaves[1:], strict=False))


def test_what_cannot_be_packed_is_named():
    parts = elements(CAR, (2,), 0)
    with pytest.raises(ConfigError, match=r"parts=.*the leaves of this space are \['camera'"):
        CAR.join({"camera": parts["camera"]})
    with pytest.raises(ConfigError, match=r"parts\['speed'\]=\(3,\): expected \(2,\)"):
        CAR.join(parts | {"speed": np.zeros(3, np.float32)})
    for wrong in (np.zeros((2, 39), np.uint8), np.zeros((2, 40), np.int8), np.zeros((), np.uint8)):
        with pytest.raises(ConfigError, match="not packed elements of this dict space"):
            CAR.split(wrong)


def nested(depth: int) -> SpaceSpec:
    return GEAR if depth == 0 else composite("dict", {"a": nested(depth - 1)})


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing to choose": ({"kind": "multi_discrete"}, "nvec is empty"),
    "too few numbers": (
        {"kind": "multi_discrete", "shape": (2,), "nvec": (3,)},
        r"nvec has 1 numbers, but the shape \(2,\) 2",
    ),
    "no value": ({"kind": "multi_discrete", "shape": (1,), "nvec": (0,)}, "has at least one value"),
    "too few starts": (
        {"kind": "multi_discrete", "shape": (2,), "nvec": (3, 3), "starts": (1,)},
        r"starts has 1 numbers",
    ),
    "a negative width": ({"kind": "multi_binary", "shape": (-1,)}, "has a negative width"),
    "an empty dict": ({"kind": "dict"}, "a dict space has no parts"),
    "one name twice": ({"kind": "dict", "children": (("a", GEAR), ("a", GEAR))}, "have one name"),
    "a slash": ({"kind": "dict", "children": (("a/b", GEAR),)}, "names are not empty and have no"),
    "no name": ({"kind": "dict", "children": (("", GEAR),)}, "names are not empty and have no"),
    "places": ({"kind": "tuple", "children": (("1", GEAR),)}, "named by their places"),
    "too deep": ({"kind": "dict", "children": (("a", nested(7)),)}, "nested more than 8 deep"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_space_that_cannot_be_is_refused(name: str):
    fields, problem = WRONG[name]
    with pytest.raises(ConfigError, match=problem) as caught:
        SpaceSpec(**fields)
    assert caught.value.field == "space"
