"""Returns as MARO's RL toolkit (v0.2) counts them, to compare with it or to move from it.

Its convention knows one unbroken episode, `values[t]` the value of the state that step t starts in,
and no difference between termination and truncation: the last reward is replaced by the last value,
whatever happened in the last step. `asyncrl.algorithms.returns` is for everything else. It gives
the same numbers for ``reward = [*rewards[:-1], values[-1]]``, ``next_value = [*values[1:], 0]`` and
a last step that terminated, and that is all these functions do.

`k` is the number of steps, -1 for all there are. Inputs are never changed (MARO overwrote the last
reward); lists, arrays and tensors are accepted, [T, ...], of one step too.
"""

from __future__ import annotations

import numpy as np

from asyncrl.algorithms import returns
from asyncrl.algorithms.returns_arrays import A, Steps, rollout
from asyncrl.errors import ConfigError


def truncated_cumulative_reward(rewards: Steps[A], discount: float, k: int = -1) -> A:
    """Return the discounted sum of the next `k` rewards of each step, fewer at the end.

    With `k` -1 all are summed: five ones at discount 1 are 5, 4, 3, 2, 1, where MARO left the last
    reward out and gave 4, 4, 3, 2, 1; `k` = T - 1 still does.

    Raises:
        ConfigError: `discount` is not in [0, 1], or `k` is neither -1 nor at least 1.
    """
    never = np.zeros(np.shape(rewards), np.bool_)
    return returns.cumulative_rewards(rewards, never, never, discount, _steps(k))


def k_step_returns(rewards: Steps[A], values: Steps[A], discount: float, k: int = -1) -> A:
    """Return the sum of `k` discounted rewards and the discounted value of the state after them.

    Raises:
        ConfigError: Shapes differ, `discount` is not in [0, 1], or `k` is neither -1 nor at least 1.
    """
    return lambda_returns(rewards, values, discount, 1.0, k)


def lambda_returns(
    rewards: Steps[A], values: Steps[A], discount: float, lam: float, k: int = -1
) -> A:
    """Return lambda-returns, mixed of k-step returns of at most `k` steps.

    Raises:
        ConfigError: Shapes differ, `discount` or `lam` is not in [0, 1], or `k` is neither -1 nor
            at least 1.
    """
    never = np.zeros(np.shape(rewards), np.bool_)
    last = never.copy()
    last[-1:] = True
    given = rollout(last, never, rewards=rewards, values=values)
    reward, next_value = given["rewards"] + 0.0, given["values"] + 0.0
    reward[-1:], next_value[:-1] = given["values"][-1:], given["values"][1:]
    ours = returns.lambda_returns(reward, next_value, last, never, discount, lam, _steps(k))
    return given.result(ours)


def _steps(k: int) -> int | None:
    if k == 0 or k < -1:
        raise ConfigError("k", k, "no number of steps", "give 1 or more, or -1 for all")
    return None if k == -1 else k
