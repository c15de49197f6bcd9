"""Returns and advantages: free functions of time-major arrays.

All take the same arrays. Step t of column b earned `reward[t, b]`; `next_value[t, b]` estimates its
true successor: the final observation where the episode ended there, never the first of the next
one. A `terminated` step has no future. A `truncated` one bootstraps from `next_value`, but nothing
of the next episode reaches it; where both are true it counts as terminated. The last row bootstraps
too. Lists are accepted, inputs never change, and results are of the inputs' common floating type.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from asyncrl.errors import ConfigError, DataError


def gae(  # noqa: PLR0917  (the arguments of the formula, in its order)
    reward: ArrayLike,
    value: ArrayLike,
    next_value: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """Return generalised advantage estimates, [T, ...] like `reward`.

    Schulman et al. 2016, https://arxiv.org/abs/1506.02438, equation 16: with
    delta_t = r_t + gamma V(s_t+1) - V(s_t), A_t = delta_t + gamma lam A_t+1, where the value of a
    terminal state is 0 and the sum stops at the end of an episode, whatever ended it.

    Raises:
        ConfigError: `gamma` or `lam` is not in [0, 1].
        DataError: Shapes differ.
    """
    reward_, value_ = np.asarray(reward), np.asarray(value)
    next_value_ = np.asarray(next_value)
    ended_ = _ends(terminated, truncated)
    _check(gamma, lam, reward_, value_, next_value_, ended_)
    dtype = np.result_type(reward_, value_, next_value_, np.float32)
    discounted = np.where(np.asarray(terminated, np.bool_), 0.0, next_value_) * gamma
    delta = (reward_ + discounted - value_).astype(dtype)
    carry = np.where(ended_, 0.0, gamma * lam).astype(dtype)
    advantage = np.empty(delta.shape, dtype)
    following = np.zeros(delta.shape[1:], dtype)
    for t in range(len(delta) - 1, -1, -1):
        following = delta[t] + carry[t] * following
        advantage[t] = following
    return advantage


def lambda_returns(
    reward: ArrayLike,
    next_value: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """Return lambda-returns, [T, ...] like `reward`; with `lam` 1 they are the full returns.

    Sutton and Barto 2018, equation 12.20:
    G_t = r_t + gamma ((1 - lam) V(s_t+1) + lam G_t+1), where the value of a terminal state is 0,
    and G_t+1 is V(s_t+1) after a truncated step and after the last row.

    Raises:
        ConfigError: `gamma` or `lam` is not in [0, 1].
        DataError: Shapes differ.
    """
    reward_, next_value_ = np.asarray(reward), np.asarray(next_value)
    terminated_, ended_ = np.asarray(terminated, np.bool_), _ends(terminated, truncated)
    _check(gamma, lam, reward_, next_value_, ended_)
    dtype = np.result_type(reward_, next_value_, np.float32)
    successor = np.where(terminated_, 0.0, next_value_).astype(dtype)
    returns = np.empty(reward_.shape, dtype)
    for t in range(len(reward_) - 1, -1, -1):
        following = successor[t]
        if t + 1 < len(reward_):
            mixed = (1.0 - lam) * following + lam * returns[t + 1]
            following = np.where(ended_[t], following, mixed)
        returns[t] = reward_[t] + gamma * following
    return returns


def n_step_returns(
    reward: ArrayLike,
    next_value: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike,
    gamma: float,
    n: int,
) -> np.ndarray:
    """Return n-step returns, [T, ...] like `reward`.

    Sutton and Barto 2018, equation 7.1: the discounted sum of n rewards, plus the discounted value
    of the state after them. Fewer rewards are summed where the episode or the data end earlier; the
    value is then that of the state reached there.

    Raises:
        ConfigError: `gamma` is not in [0, 1], or `n` is below 1.
        DataError: Shapes differ.
    """
    reward_, next_value_ = np.asarray(reward), np.asarray(next_value)
    terminated_, ended_ = np.asarray(terminated, np.bool_), _ends(terminated, truncated)
    _check(gamma, 1.0, reward_, next_value_, ended_)
    if n < 1:
        raise ConfigError("n", n, "a return sums at least one reward", "give 1 or more")
    dtype = np.result_type(reward_, next_value_, np.float32)
    one_step = (reward_ + gamma * np.where(terminated_, 0.0, next_value_)).astype(dtype)
    returns = one_step.copy()
    for _ in range(min(n, len(reward_)) - 1):
        # Each pass puts one more reward before the return of the step that follows.
        longer = reward_[:-1] + gamma * returns[1:]
        returns[:-1] = np.where(ended_[:-1], one_step[:-1], longer)
    return returns


def _ends(terminated: ArrayLike, truncated: ArrayLike) -> np.ndarray:
    return np.asarray(terminated, np.bool_) | np.asarray(truncated, np.bool_)


def _check(gamma: float, lam: float, *arrays: np.ndarray) -> None:
    for name, number in (("gamma", gamma), ("lam", lam)):
        if not 0.0 <= number <= 1.0:
            raise ConfigError(name, number, "not a discount", "give a number in [0, 1]")
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1 or () in shapes:
        raise DataError(
            f"arrays of shapes {sorted(shapes)}: all arrays of a rollout have one shape, [T, ...]"
        )
