"""Returns and advantages: free functions of time-major arrays, NumPy's and torch's alike.

All take the same arrays. Step t of column b earned `reward[t, b]`; `next_value[t, b]` estimates its
true successor: the final observation where the episode ended there, never the first of the next
one. A `terminated` step has no future. A `truncated` one bootstraps from `next_value`, but nothing
of the next episode reaches it; where both are true it counts as terminated. The last row bootstraps
too.

Lists, arrays and tensors are accepted and never changed. A tensor among the numbers makes the
result a tensor on its device, without a gradient; else it is a NumPy array. It has the common
floating dtype of the arrays given; half precision is computed in float32.
"""

from __future__ import annotations

from asyncrl.algorithms.returns_arrays import (
    A,
    Flags,
    Steps,
    check_fractions,
    check_steps,
    discounted_sum,
    discounted_window,
    rollout,
)


def cumulative_rewards(
    reward: Steps[A],
    terminated: Flags,
    truncated: Flags,
    gamma: float,
    k: int | None = None,
) -> A:
    """Return discounted sums of the next `k` rewards, or of all with None, [T, ...] like `reward`.

    Sutton and Barto 2018, equation 3.8. Fewer are summed where the episode or the data end earlier,
    and nothing stands for what would have followed: unbiased only where episodes terminate.

    Raises:
        ConfigError: Shapes differ, `gamma` is not in [0, 1], or `k` is below 1.
    """
    check_fractions(gamma=gamma)
    check_steps("k", k)
    steps = rollout(terminated, truncated, reward=reward)
    term, weight = steps["reward"], gamma * steps.carry
    if k is None or k >= len(term):
        return steps.result(discounted_sum(term, weight))
    return steps.result(discounted_window(term, weight, term, k))


def n_step_returns(
    reward: Steps[A],
    next_value: Steps[A],
    terminated: Flags,
    truncated: Flags,
    gamma: float,
    n: int,
) -> A:
    """Return n-step returns, [T, ...] like `reward`; some call them k-step.

    Sutton and Barto 2018, equation 7.1: the discounted sum of n rewards, plus the discounted value
    of the state after them. Fewer rewards are summed where the episode or the data end earlier; the
    value is then that of the state reached there.

    Raises:
        ConfigError: Shapes differ, `gamma` is not in [0, 1], or `n` is below 1.
    """
    check_steps("n", n)
    return lambda_returns(reward, next_value, terminated, truncated, gamma, 1.0, n)


def lambda_returns(  # noqa: PLR0917  (the arguments of the formula, in its order)
    reward: Steps[A],
    next_value: Steps[A],
    terminated: Flags,
    truncated: Flags,
    gamma: float,
    lam: float,
    k: int | None = None,
) -> A:
    """Return lambda-returns, [T, ...] like `reward`; with `lam` 1 they are the full returns.

    Sutton and Barto 2018, equation 12.20:
    G_t = r_t + gamma ((1 - lam) V(s_t+1) + lam G_t+1), where the value of a terminal state is 0,
    and G_t+1 is V(s_t+1) after a truncated step and after the last row. With a `k` no return of
    more than k rewards takes part (equation 12.9): (1 - lam) sum over n < k of lam^(n-1) G^(n),
    plus lam^(k-1) G^(k).

    Raises:
        ConfigError: Shapes differ, `gamma` or `lam` is not in [0, 1], or `k` is below 1.
    """
    check_fractions(gamma=gamma, lam=lam)
    check_steps("k", k)
    steps = rollout(terminated, truncated, reward=reward, next_value=next_value)
    value = steps.future(steps["next_value"])
    mixed = steps["reward"] + gamma * (1.0 - lam * steps.carry) * value
    weight = gamma * lam * steps.carry
    if k is None or k >= len(mixed):
        return steps.result(discounted_sum(mixed, weight))
    one_step = steps["reward"] + gamma * value
    return steps.result(discounted_window(mixed, weight, one_step, k))


def gae(  # noqa: PLR0917  (the arguments of the formula, in its order)
    reward: Steps[A],
    value: Steps[A],
    next_value: Steps[A],
    terminated: Flags,
    truncated: Flags,
    gamma: float,
    lam: float,
) -> A:
    """Return generalised advantage estimates, [T, ...] like `reward`.

    Schulman et al. 2016, https://arxiv.org/abs/1506.02438, equation 16: with
    delta_t = r_t + gamma V(s_t+1) - V(s_t), A_t = delta_t + gamma lam A_t+1, where the value of a
    terminal state is 0 and the sum stops at the end of an episode, whatever ended it.

    Raises:
        ConfigError: Shapes differ, or `gamma` or `lam` is not in [0, 1].
    """
    check_fractions(gamma=gamma, lam=lam)
    steps = rollout(terminated, truncated, reward=reward, value=value, next_value=next_value)
    delta = steps["reward"] + gamma * steps.future(steps["next_value"]) - steps["value"]
    return steps.result(discounted_sum(delta, gamma * lam * steps.carry))
