from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asyncrl.data import PolicySpec, SpaceSpec, composite
from asyncrl.data.params import check_params, initial_params, param_shapes, uniform_params
from asyncrl.errors import ConfigError

VECTOR = SpaceSpec(kind="box", shape=(3,))
ARM = SpaceSpec(kind="box", shape=(2,), low=-1.0, high=1.0)
MOVES = SpaceSpec(kind="discrete", dtype="int64", n=4)
SWITCHES = SpaceSpec(kind="multi_binary", shape=(3,), dtype="int8")
DIALS = SpaceSpec(kind="multi_discrete", shape=(2,), dtype="int64", nvec=(2, 5))
SCREEN = SpaceSpec(kind="box", shape=(84, 84, 4), dtype="uint8", low=0.0, high=255.0)


def policy(**changes: Any) -> PolicySpec:
    fields: dict[str, Any] = {
        "observation": VECTOR,
        "action": MOVES,
        "head": "categorical",
        "hidden": (8,),
    }
    return PolicySpec(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "outputs", "stds"),
    [
        ({}, 4, 0),
        ({"head": "value"}, 1, 0),
        ({"head": "q_values"}, 4, 0),
        ({"head": "q_values", "dueling": "max"}, 5, 0),
        ({"head": "q_values", "atoms": 51, "support": (0.0, 9.0)}, 204, 0),
        ({"head": "q_values", "atoms": 51, "dueling": "mean"}, 255, 0),
        ({"action": DIALS, "head": "multi_categorical"}, 7, 0),
        ({"action": SWITCHES, "head": "bernoulli"}, 3, 0),
        ({"action": ARM, "head": "gaussian"}, 2, 2),
        ({"action": ARM, "head": "gaussian", "std": "state"}, 4, 0),
        ({"action": ARM, "head": "squashed_gaussian"}, 4, 0),
        ({"action": ARM, "head": "deterministic"}, 2, 0),
        ({"action": composite("tuple", {"0": ARM, "1": DIALS}), "head": "composite"}, 9, 2),
    ],
)
def test_the_last_layer_has_what_the_head_needs(changes: Any, outputs: int, stds: int):
    spec = policy(**changes)
    assert spec.outputs == outputs
    assert spec.layer_sizes() == [(3, 8), (8, outputs)]
    assert spec.free_stds == stds
    assert param_shapes(spec).get("log_std", (0,)) == (stds,)


def test_parts_of_a_composite_action_have_the_head_of_their_kind():
    action = composite("dict", {"arm": ARM, "dials": DIALS, "move": MOVES, "on": SWITCHES})
    heads = policy(action=action, head="composite").part_heads()
    assert [(leaf.path, head) for leaf, head in heads] == [
        ("arm", "gaussian"),
        ("dials", "multi_categorical"),
        ("move", "categorical"),
        ("on", "bernoulli"),
    ]


def test_an_action_mask_is_no_feature():
    mask = SpaceSpec(kind="multi_binary", shape=(4,), dtype="int8")
    spec = policy(observation=composite("dict", {"action_mask": mask, "seen": VECTOR}))
    assert spec.mask is not None
    assert spec.mask.path == "action_mask"
    assert [leaf.path for leaf in spec.features] == ["seen"]
    assert spec.inputs == 3
    with pytest.raises(ConfigError, match="the action space has 4 choices"):
        policy(observation=composite("dict", {"action_mask": SWITCHES, "seen": VECTOR}))
    with pytest.raises(ConfigError, match="it has no features"):
        policy(observation=composite("dict", {"action_mask": mask}))


@pytest.mark.parametrize("shape", [(84, 84, 4), (4, 84, 84)])
def test_the_nature_network_has_the_sizes_of_its_paper(shape: tuple[int, ...]):
    screen = SpaceSpec(kind="box", shape=shape, dtype="uint8")
    spec = policy(observation=screen, conv="nature", hidden=(512,))
    assert [(inputs, pixels) for inputs, pixels, _ in spec.conv_sizes(spec.images[0])] == [
        (4, 20 * 20),
        (32, 9 * 9),
        (64, 7 * 7),
    ]
    assert spec.hidden_sizes() == [(3136, 512)]
    shapes = param_shapes(spec)
    assert shapes["conv.0.0.weight"] == (32, 4, 8, 8)
    assert shapes["conv.0.2.bias"] == (64,)


def test_images_are_convolved_and_the_rest_is_flat():
    seen = composite("dict", {"move": MOVES, "screen": SCREEN, "vector": VECTOR})
    spec = policy(observation=seen, conv="small")
    assert [leaf.path for leaf in spec.images] == ["screen"]
    assert [leaf.path for leaf in spec.vectors] == ["move", "vector"]
    assert spec.vector_size == 7
    assert spec.inputs == 7 + 32 * 40 * 40
    assert policy(observation=seen).inputs == 7 + 84 * 84 * 4


def test_a_core_lies_between_the_hidden_layers_and_the_last():
    lstm, gru = (policy(core=core, core_size=5) for core in ("lstm", "gru"))
    assert lstm.layer_sizes() == [(3, 8), (5, 4)]
    assert list(param_shapes(lstm))[2:4] == ["core.weight_ih", "core.weight_hh"]
    assert param_shapes(lstm)["core.weight_ih"] == (20, 8)
    assert param_shapes(gru)["core.weight_hh"] == (15, 5)
    assert (lstm.state_size, gru.state_size, policy().state_size) == (10, 5, 0)
    assert initial_params(lstm, 0)["core.bias_ih"].tolist() == [0] * 5 + [1] * 5 + [0] * 10


def test_correlated_noise_is_carried_after_the_core():
    spec = policy(action=ARM, head="deterministic", noise="ou", core="gru", core_size=5)
    assert (spec.core_state_size, spec.state_size) == (5, 7)


@pytest.mark.parametrize("make", [initial_params, uniform_params])
def test_first_weights_are_weights_of_the_policy(make: Any):
    for changes in (
        {"observation": SCREEN, "conv": "nature"},
        {"core": "lstm", "normalize": True},
        {"core": "gru"},
        {"action": ARM, "head": "gaussian"},
    ):
        spec = policy(**changes)
        params = make(spec, 3)
        check_params(spec, params)
        assert all(
            array.tobytes() == make(spec, 3)[name].tobytes() for name, array in params.items()
        )


def test_statistics_start_as_those_of_normal_numbers():
    for make in (initial_params, uniform_params):
        params = make(policy(normalize=True), 0)
        assert params["norm.mean"].tolist() == [0.0] * 3
        assert params["norm.std"].tolist() == [1.0] * 3


def test_uniform_weights_stay_in_the_bound_of_their_layer():
    params = uniform_params(policy(core="lstm", core_size=16), 0)
    for name, bound in {"0.weight": 3**-0.5, "1.bias": 16**-0.5, "core.bias_hh": 0.25}.items():
        assert 0.4 * bound < np.abs(params[name]).max() <= bound


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "another head": ({"head": "gaussian"}, "head", "use categorical or q_values there"),
    "no atoms": ({"atoms": 0}, "atoms", "give 1 or more"),
    "no core": ({"core_size": 0}, "core_size", "give 1 or more"),
    "no interval": ({"support": (1.0, 1.0)}, "support", "give the smallest return"),
    "no bounds": (
        {"action": SpaceSpec(kind="box", shape=(2,)), "head": "deterministic"},
        "action",
        "which has no bounds",
    ),
    "no module": ({"module_features": 3}, "module_features", "there is no module"),
    "no image": ({"conv": "small"}, "conv", "the observation has no image"),
    "a small image": (
        {"observation": SpaceSpec(kind="box", shape=(20, 20, 3), dtype="uint8"), "conv": "nature"},
        "conv",
        "too small for it",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_policy_that_cannot_be_is_refused(name: str):
    changes, field, problem = WRONG[name]
    with pytest.raises(ConfigError, match=problem) as caught:
        policy(**changes)
    assert caught.value.field == field
