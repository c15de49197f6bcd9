from __future__ import annotations

import numpy as np
import pytest
import torch
from dqn_by_hand import (
    BOX,
    MOVES,
    layers,
    loss_and_gradient,
    steps,
    table_dqn,
    table_of,
    transitions,
)

from asyncrl.algorithms.dqn import DQN, next_values, td_target
from asyncrl.data import Activation, Transitions
from asyncrl.data.params import initial_params

ONLINE = [[1.0, 2.0], [3.0, 1.0], [0.0, 0.0]]
TARGET = [[0.5, 1.0], [2.0, 4.0], [0.0, 0.0]]
"""Of states 0, 1 and 2: in state 1 the networks disagree about the best action."""


def loss_of(data: Transitions, **options: object) -> float:
    loss, _ = table_dqn(ONLINE, TARGET, gamma=0.5, **options)._loss(data)
    return loss.item()


def test_the_target_of_a_terminal_step_is_its_reward_and_a_cut_off_one_goes_on():
    reward = torch.tensor([1.0, 1.0, -2.0])
    terminated = torch.tensor([False, True, False])
    target = td_target(reward, terminated, torch.tensor([10.0, 10.0, 3.0]), 0.9)
    assert target.tolist() == pytest.approx([10.0, 1.0, 0.7])


def test_a_terminal_step_ignores_even_values_that_are_no_numbers():
    future = torch.tensor([float("nan")])
    assert td_target(torch.tensor([3.0]), torch.tensor([True]), future, 0.9).tolist() == [3.0]


def test_double_takes_the_target_networks_value_of_the_online_networks_choice():
    online, target = torch.tensor(ONLINE), torch.tensor(TARGET)
    assert next_values(target, online).tolist() == [1.0, 2.0, 0.0]
    assert next_values(target, target).tolist() == [1.0, 4.0, 0.0]


def test_huber_loss_of_a_small_and_a_large_error():
    # Q(0, 0) = 1 against 1 + 0.5 * 2 = 2, and Q(0, 1) = 2 against -3.
    assert loss_of(steps((0, 0, 1.0, False, 1))) == pytest.approx(0.5)
    assert loss_of(steps((0, 1, -3.0, True, 1))) == pytest.approx(4.5)
    both = steps((0, 0, 1.0, False, 1), (0, 1, -3.0, True, 1))
    assert loss_of(both) == pytest.approx(2.5)


def test_errors_up_to_the_threshold_are_squared_and_beyond_it_linear():
    # Errors -1 and 5: 0.5 * 1 and 0.5 * 25 when squared; 2 * (5 - 1) = 8 beyond a threshold of 2.
    both = steps((0, 0, 1.0, False, 1), (0, 1, -3.0, True, 1))
    assert loss_of(both, huber_threshold=10.0) == pytest.approx((0.5 + 12.5) / 2)
    assert loss_of(both, huber_threshold=2.0) == pytest.approx((0.5 + 8.0) / 2)


def test_double_and_plain_differ_by_the_overestimate():
    # Plain: Q(0, 0) = 1 against 1 + 0.5 * 4 = 3; an error of 2 costs 1.5.
    step = steps((0, 0, 1.0, False, 1))
    assert loss_of(step, double=True) == pytest.approx(0.5)
    assert loss_of(step, double=False) == pytest.approx(1.5)
    double = table_dqn(ONLINE, TARGET, gamma=0.5).update(step, 0.0)
    plain = table_dqn(ONLINE, TARGET, gamma=0.5, double=False).update(step, 0.0)
    assert plain["target_q_mean"] - double["target_q_mean"] == pytest.approx(0.5 * (4.0 - 2.0))


def test_double_and_plain_agree_where_the_networks_do():
    step = steps((0, 0, 1.0, False, 0), (1, 1, 0.5, True, 1))
    assert loss_of(step, double=True) == loss_of(step, double=False)


def test_metrics_by_hand():
    data = steps((0, 0, 1.0, False, 1), (0, 1, -3.0, True, 1))
    metrics = table_dqn(ONLINE, TARGET, gamma=0.5, learning_rate=0.25).update(data, 0.0)
    # Errors -1 and 5, so gradients -1/2 and 1/2 by Q(0, 0) and Q(0, 1), both as weight and as bias.
    assert metrics == pytest.approx(
        {
            "loss": 2.5,
            "q_mean": 1.5,
            "target_q_mean": -0.5,
            "td_error_abs": 3.0,
            "grad_norm": 1.0,
            "learning_rate": 0.25,
            "skipped_steps": 0.0,
        }
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_loss_and_gradient_equal_a_second_implementation(
    seed: int, double: bool, activation: Activation
):
    config = DQN(
        hidden=(6, 5), double=double, activation=activation, huber_threshold=(0.3, 1.0, 9.0)[seed]
    )
    spec = config.policy_spec(BOX, MOVES)
    updater = config.build(spec, seed=0, dtype=torch.float64)
    online, target = initial_params(spec, seed), initial_params(spec, seed + 100)
    updater.network.load_params(online)
    updater.target.load_params(target)
    data = transitions(seed, scale=2.0)
    loss, statistics = updater._loss(data)
    loss.backward()
    expected, gradient = loss_and_gradient(config, layers(online), layers(target), data)
    assert statistics["td_error_abs"] > 0.5  # both parts of Huber's loss are in use
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    for i, (weight, bias) in enumerate(gradient):
        for name, by_hand in (("weight", weight), ("bias", bias)):
            found = updater.network.get_parameter(f"{i}.{name}").grad
            assert found is not None
            np.testing.assert_allclose(found.numpy(), by_hand, rtol=1e-10, atol=1e-13)
    assert all(parameter.grad is None for parameter in updater.target.parameters())


def test_values_of_an_episode_that_is_cut_off_count_on_and_of_one_that_ends_do_not():
    # Reward 1 a step for ever, cut off every 10th step: V = 1 / (1 - 0.9). Ending there: 1.
    def value_at_the_end(terminated: bool) -> float:
        options = {"gamma": 0.9, "learning_rate": 0.3, "target_update_interval": 3}
        updater = table_dqn([[0.0]] * 11, [[0.0]] * 11, **options)
        end = (9, 0, 1.0, terminated, 10)
        data = steps(*((t, 0, 1.0, False, t + 1) for t in range(9)), end, (10, 0, 1.0, False, 10))
        for _ in range(400):
            updater.update(data, 0.0)
        return float(table_of(updater)[9, 0])

    assert value_at_the_end(terminated=False) == pytest.approx(10.0, abs=0.05)
    assert value_at_the_end(terminated=True) == pytest.approx(1.0, abs=0.05)
