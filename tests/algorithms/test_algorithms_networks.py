from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from rollouts_of_arrays import BOX, DRAWN, small_spec

from asyncrl.algorithms.device import resolve_device, to_tensor
from asyncrl.algorithms.distributions import categorical, gaussian, log_prob_entropy
from asyncrl.algorithms.networks import MLP, value_spec
from asyncrl.data import Activation, HeadKind, PolicySpec, SpaceSpec
from asyncrl.data.params import initial_params
from asyncrl.errors import ConfigError, DataError
from asyncrl.policies import MLPPolicy

HEADS: tuple[HeadKind, ...] = (*DRAWN, "q_values")
SPACES = (
    BOX,
    SpaceSpec(kind="box", shape=(2, 2)),
    SpaceSpec(kind="discrete", n=5, dtype="int64"),
    SpaceSpec(kind="box", shape=(3, 2), dtype="uint8", low=0, high=255),
)


def same_weights(spec: PolicySpec) -> tuple[MLPPolicy, MLP]:
    rng = np.random.default_rng(0)
    shapes = initial_params(spec, 0)
    params = {k: rng.normal(0, 0.5, v.shape).astype(np.float32) for k, v in shapes.items()}
    policy, network = MLPPolicy(spec), MLP(spec)
    policy.load(params)
    network.load_params(params)
    return policy, network


def observations(space: SpaceSpec, n: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    if space.kind == "discrete":
        return rng.integers(space.n, size=n)
    if space.dtype == "uint8":
        return rng.integers(0, 3, (n, *space.shape), np.uint8)
    return rng.standard_normal((n, *space.shape)).astype(np.float32)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("space", SPACES, ids=["flat", "square", "discrete", "bytes"])
@pytest.mark.parametrize("head", HEADS)
def test_learner_and_actor_compute_the_same(
    head: HeadKind, space: SpaceSpec, activation: Activation
):
    policy, network = same_weights(
        replace(small_spec(head), observation=space, activation=activation)
    )
    obs = observations(space, 32)
    tensor = torch.tensor(obs)
    expected = network(tensor).detach().numpy()
    np.testing.assert_allclose(policy.outputs(obs), expected, rtol=1e-5, atol=1e-5)
    acted = policy.act(obs, np.random.default_rng(0), exploration={}, greedy=False)
    if head == "q_values":
        assert np.array_equal(acted.action, expected.argmax(axis=1))
        return
    log_prob, _ = log_prob_entropy(network, network.features(tensor), torch.tensor(acted.action))
    np.testing.assert_allclose(acted.extras["log_prob"], log_prob.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_acting_params_load_back_and_are_copies(head: HeadKind):
    network = MLP(small_spec(head)).seeded(1)
    params = network.acting_params()
    assert all(array.dtype == np.float32 for array in params.values())
    network.seeded(2)
    assert not np.array_equal(network.acting_params()["0.weight"], params["0.weight"])
    network.load_params(params)
    for name, array in network.acting_params().items():
        assert np.array_equal(array, params[name])


def test_seeded_weights_are_the_actors_first_weights():
    params = initial_params(small_spec(), 7)
    for name, array in MLP(small_spec()).seeded(7).acting_params().items():
        assert np.array_equal(array, params[name])


def test_making_a_network_draws_nothing_from_the_global_generator():
    before = torch.get_rng_state()
    MLP(small_spec("gaussian"))
    assert torch.equal(torch.get_rng_state(), before)


def test_wrong_weights_change_nothing():
    network = MLP(small_spec()).seeded(1)
    before = network.acting_params()
    with pytest.raises(DataError, match="log_std is not a parameter"):
        network.load_params(initial_params(small_spec("gaussian"), 0))
    for name, array in network.acting_params().items():
        assert np.array_equal(array, before[name])


def test_value_network_gives_one_number_an_observation():
    critic = MLP(value_spec(small_spec("gaussian"), (4,)))
    assert critic(torch.zeros(5, 3)).shape == (5, 1)


def test_log_probs_and_entropies_are_those_of_torch():
    logits, action = torch.randn(7, 4), torch.arange(7) % 4
    reference = torch.distributions.Categorical(logits=logits)
    log_prob, entropy = categorical(logits, action)
    torch.testing.assert_close(log_prob, reference.log_prob(action))
    torch.testing.assert_close(entropy, reference.entropy())
    mean, log_std, point = torch.randn(7, 2), torch.tensor([0.3, -1.0]), torch.randn(7, 2)
    normal = torch.distributions.Normal(mean, log_std.exp())
    log_prob, entropy = gaussian(mean, log_std, point)
    torch.testing.assert_close(log_prob, normal.log_prob(point).sum(1))
    torch.testing.assert_close(entropy.expand(7), normal.entropy().sum(1))


def test_devices_are_resolved_by_name():
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type in {"cpu", "cuda", "mps"}


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:99", "cpu:1", ""])
def test_an_unknown_device_is_refused(name: str):
    with pytest.raises(ConfigError, match="device="):
        resolve_device(name)


def test_tensors_never_share_the_memory_of_arrays():
    array = np.zeros(3, np.float32)
    array.setflags(write=False)
    tensor = to_tensor(array, torch.device("cpu"))
    tensor += 1
    assert not array.any()


def test_without_torch_the_missing_extra_is_named():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from asyncrl.errors import MissingExtraError\n"
        "try:\n    import asyncrl.algorithms\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'asyncrl[learner]'" in done.stdout
