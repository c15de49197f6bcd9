from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from rollouts_of_arrays import small_spec

from asyncrl.algorithms.networks import MLP, value_spec
from asyncrl.algorithms.optimiser import Adam, generator_state, load_generator_state
from asyncrl.errors import ConfigError

OBS = torch.linspace(-1, 1, 12).reshape(4, 3)


def network(seed: int = 0) -> MLP:
    return MLP(small_spec()).seeded(seed)


def take_step(net: MLP, adam: Adam, scale: float = 1.0, learning_rate: float = 0.01) -> float:
    adam.zero_grad()
    (scale * (net(OBS) - 1.0).square().sum()).backward()
    return adam.step(learning_rate)


def test_steps_are_those_of_torch_adam_with_clipping():
    net, reference = network(), network()
    adam = Adam([net], max_grad_norm=0.5, eps=1e-5)
    torch_adam = torch.optim.Adam(reference.parameters(), eps=1e-5)
    for step in range(5):
        learning_rate = 0.01 / (step + 1)
        norm = take_step(net, adam, learning_rate=learning_rate)
        torch_adam.zero_grad()
        (reference(OBS) - 1.0).square().sum().backward()
        expected = torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.5)
        torch_adam.param_groups[0]["lr"] = learning_rate
        torch_adam.step()
        assert norm == pytest.approx(float(expected), rel=1e-5)
    for name, array in reference.acting_params().items():
        np.testing.assert_allclose(net.acting_params()[name], array, atol=1e-6)


def test_one_optimiser_steps_several_networks():
    actor, critic = network(), MLP(value_spec(small_spec(), (4,)))
    adam = Adam([actor, critic])
    adam.zero_grad()
    (actor(OBS).sum() + critic(OBS).sum()).backward()
    before = critic.acting_params()["1.bias"]
    adam.step(0.1)
    np.testing.assert_allclose(critic.acting_params()["1.bias"], before - 0.1, atol=1e-5)


@pytest.mark.parametrize("scale", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_changes_nothing(scale: float):
    net = network()
    adam = Adam([net])
    take_step(net, adam)
    before = adam.state()
    assert not math.isfinite(take_step(net, adam, scale))
    for name, value in adam.state().items():
        assert np.array_equal(value, before[name])
    assert math.isfinite(take_step(net, adam))  # nothing of it is left in the gradients


@pytest.mark.parametrize("steps", [0, 3])
def test_loading_continues_to_the_byte(steps: int):
    net, other = network(0), network(1)
    adam, copy = Adam([net]), Adam([other])
    take_step(other, copy)
    for _ in range(steps):
        take_step(net, adam)
    copy.load_state(adam.state())
    for _ in range(3):
        assert take_step(net, adam) == take_step(other, copy)
    assert adam.weights().tobytes() == copy.weights().tobytes()
    assert np.array_equal(other.acting_params()["0.weight"], net.acting_params()["0.weight"])


def test_a_state_is_a_copy():
    net = network()
    adam = Adam([net])
    take_step(net, adam)
    state = adam.state()
    copies = {name: np.copy(value) for name, value in state.items()}
    take_step(net, adam)
    for name, value in state.items():
        assert np.array_equal(value, copies[name])


def test_a_state_of_other_networks_is_refused():
    state = Adam([MLP(value_spec(small_spec(), (4,)))]).state()
    with pytest.raises(ConfigError, match="same networks"):
        Adam([network()]).load_state(state)


def test_a_generator_continues_where_its_state_was_taken():
    generator = torch.Generator().manual_seed(5)
    torch.randperm(9, generator=generator)
    state = generator_state(generator)
    state.setflags(write=False)
    expected = torch.randperm(9, generator=generator)
    other = torch.Generator()
    load_generator_state(other, state)
    assert torch.equal(torch.randperm(9, generator=other), expected)


def test_the_first_step_is_the_learning_rate_against_the_gradients_sign():
    part = torch.nn.Linear(1, 1, bias=False).double()
    before = float(part.weight.detach())
    adam = Adam([part], eps=0.0)
    adam.zero_grad()
    assert part.weight.grad is not None
    part.weight.grad.fill_(-7.0)
    adam.step(0.1)
    assert float(part.weight.detach()) == pytest.approx(before + 0.1)
