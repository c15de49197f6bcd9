from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from asyncrl.algorithms import gae, lambda_returns, n_step_returns
from asyncrl.errors import ConfigError, DataError

NEVER = [False] * 3


def test_gae_of_three_steps_by_hand():
    # delta = 1 + .5*2 - 1, 2 + .5*3 - 2, 3 + .5*4 - 3 = 1, 1.5, 2; each trace weighs .5 * .5
    advantage = gae([1, 2, 3], [1.0, 2.0, 3.0], [2.0, 3.0, 4.0], NEVER, NEVER, 0.5, 0.5)
    assert_allclose(advantage, [1.5, 2.0, 2.0])  # 1 + .25 * 2, 1.5 + .25 * 2, 2


def test_termination_ends_bootstrap_and_trace():
    cut = [False, True, False]
    advantage = gae([1, 2, 3], [1.0, 2.0, 3.0], [2.0, 9.0, 4.0], cut, NEVER, 0.5, 0.5)
    assert_allclose(advantage, [1.0, 0.0, 2.0])  # 2 - 2 without a future, and nothing from row 2


def test_truncation_ends_the_trace_but_bootstraps_from_the_final_observation():
    cut = [False, True, False]
    advantage = gae([1, 2, 3], [1.0, 2.0, 3.0], [2.0, 9.0, 4.0], NEVER, cut, 0.5, 0.5)
    assert_allclose(advantage, [2.125, 4.5, 2.0])  # 2 + .5 * 9 - 2, and 1 + .25 * 4.5


def test_terminated_and_truncated_counts_as_terminated():
    cut = [False, True, False]
    both = gae([1, 2, 3], [1.0, 2.0, 3.0], [2.0, 9.0, 4.0], cut, cut, 0.5, 0.5)
    assert_allclose(both, [1.0, 0.0, 2.0])


def oracle(columns: list[np.ndarray], gamma: float, lam: float) -> np.ndarray:
    """Split one column into episodes, and sum every step's future deltas term by term."""
    reward, value, next_value, terminated, truncated = columns
    advantage: list[float] = []
    for t in range(len(reward)):
        total, weight = 0.0, 1.0
        for k in range(t, len(reward)):
            future = 0.0 if terminated[k] else float(next_value[k])
            total += weight * (float(reward[k]) + gamma * future - float(value[k]))
            weight *= gamma * lam
            if terminated[k] or truncated[k]:
                break
        advantage.append(total)
    return np.array(advantage)


@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(1, 12),
    width=st.integers(1, 3),
    gamma=st.floats(0, 1),
    lam=st.floats(0, 1),
)
def test_returns_agree_with_a_slow_sum_over_each_episode(
    seed: int, steps: int, width: int, gamma: float, lam: float
):
    rng = np.random.default_rng(seed)
    reward, value, next_value = rng.standard_normal((3, steps, width))
    terminated, truncated = rng.random((2, steps, width)) < 0.3
    arrays = (reward, value, next_value, terminated, truncated)
    copies = [array.copy() for array in arrays]
    advantage = gae(*arrays, gamma, lam)
    for b in range(width):
        expected = oracle([array[:, b] for array in arrays], gamma, lam)
        assert_allclose(advantage[:, b], expected, atol=1e-12)
    # A lambda-return is value + advantage exactly where each next value is the next row's value.
    chained = next_value.copy()
    chained[:-1] = np.where(terminated | truncated, next_value, np.roll(value, -1, axis=0))[:-1]
    ends = terminated, truncated
    expected = value + gae(reward, value, chained, *ends, gamma, lam)
    assert_allclose(lambda_returns(reward, chained, *ends, gamma, lam), expected, atol=1e-12)
    one_step = gae(reward, np.zeros_like(value), chained, *ends, gamma, 0.0)
    assert_allclose(n_step_returns(reward, chained, *ends, gamma, 1), one_step, atol=1e-12)
    full = lambda_returns(reward, chained, *ends, gamma, 1.0)
    assert_allclose(n_step_returns(reward, chained, *ends, gamma, steps), full, atol=1e-12)
    for array, copy in zip(arrays, copies, strict=True):
        assert np.array_equal(array, copy)


REWARD = [3.0, 2.0, 4.0, 1.0, 6.0]
NEXT_VALUE = [7.0, 1.0, 3.0, 6.0, 0.0]
LAST = [False, False, False, False, True]


def test_known_n_step_and_lambda_returns():
    steps = n_step_returns(REWARD, NEXT_VALUE, LAST, [False] * 5, 0.8, 4)
    assert_allclose(steps, [10.1296, 8.912, 8.64, 5.8, 6.0])
    mixed = lambda_returns(REWARD, NEXT_VALUE, LAST, [False] * 5, 0.8, 0.6)
    assert_allclose(mixed, [8.1378176, 6.03712, 7.744, 5.8, 6.0])


def test_full_return_of_five_ones_counts_the_last_reward():
    ones, zeros = [1] * 5, [0] * 5
    assert lambda_returns(ones, zeros, LAST, [False] * 5, 1.0, 1.0).tolist() == [5, 4, 3, 2, 1]
    assert n_step_returns(ones, zeros, LAST, [False] * 5, 1.0, 9).tolist() == [5, 4, 3, 2, 1]


def test_an_episode_of_one_step():
    assert lambda_returns([2.0], [5.0], [True], [False], 0.9, 0.9).tolist() == [2.0]
    assert_allclose(gae([2.0], [1.0], [5.0], [False], [True], 0.9, 0.9), [5.5])


def test_n_step_returns_stop_at_ends_inside_the_data():
    none = [False] * 4
    cut = [False, True, False, False]
    returns = n_step_returns([1.0] * 4, [10.0] * 4, none, cut, 0.5, 3)
    assert_allclose(returns, [1 + 0.5 + 2.5, 1 + 5.0, 1 + 0.5 + 2.5, 1 + 5.0])


def test_reward_1_limit_10_is_worth_10_when_truncated_and_less_when_terminated():
    ones, ten = [1.0] * 10, [10.0] * 10
    end, never = [False] * 9 + [True], [False] * 10
    assert_allclose(lambda_returns(ones, ten, never, end, 0.9, 1.0), ten)
    remaining = np.arange(10, 0, -1)
    expected = (1 - 0.9**remaining) / 0.1
    assert_allclose(lambda_returns(ones, ten, end, never, 0.9, 1.0), expected)


def test_results_keep_the_precision_of_the_inputs():
    for dtype in (np.float32, np.float64):
        column = np.ones(3, dtype)
        assert gae(column, column, column, NEVER, NEVER, 0.9, 0.9).dtype == dtype
        assert lambda_returns(column, column, NEVER, NEVER, 0.9, 0.9).dtype == dtype
        assert n_step_returns(column, column, NEVER, NEVER, 0.9, 2).dtype == dtype


def test_wrong_arguments_are_named():
    with pytest.raises(ConfigError, match=r"gamma=1\.5"):
        gae([1.0], [1.0], [1.0], [False], [False], 1.5, 0.9)
    with pytest.raises(ConfigError, match=r"lam=-0\.1"):
        lambda_returns([1.0], [1.0], [False], [False], 0.9, -0.1)
    with pytest.raises(ConfigError, match="n=0"):
        n_step_returns([1.0], [1.0], [False], [False], 0.9, 0)
    with pytest.raises(DataError, match="one shape"):
        gae([1.0, 2.0], [1.0], [1.0], [False], [False], 0.9, 0.9)
