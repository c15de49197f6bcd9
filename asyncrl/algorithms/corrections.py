"""Off-policy corrections of returns: V-trace and Retrace, for NumPy and torch alike.

Arrays are those of `returns`, and `log_ratio[t]` is log pi(a_t | s_t) - log mu(a_t | s_t): pi is
the policy to learn about, mu the one that acted. On policy it is 0 everywhere.
"""

from __future__ import annotations

import math
from typing import Any, Generic, NamedTuple

from asyncrl.algorithms.returns_arrays import (
    A,
    Flags,
    Rollout,
    Steps,
    check_fractions,
    discounted_sum,
    rollout,
)
from asyncrl.errors import ConfigError


class VTrace(NamedTuple, Generic[A]):
    """What V-trace estimates, [T, ...] each."""

    target: A
    """v_s: what the value of each state should become."""
    advantage: A
    """rho_s (r_s + gamma v_s+1 - V(s_s)): what weighs the gradient of log pi of each action."""


def vtrace(  # noqa: PLR0913, PLR0917  (the arguments of the formula, in its order)
    reward: Steps[A],
    value: Steps[A],
    next_value: Steps[A],
    log_ratio: Steps[A],
    terminated: Flags,
    truncated: Flags,
    gamma: float,
    lam: float = 1.0,
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    pg_rho_bar: float | None = None,
) -> VTrace[A]:
    """Return V-trace targets and policy-gradient advantages.

    Espeholt et al. 2018, https://arxiv.org/abs/1802.01561, equation 1, its remark 2 (lambda) and
    section 4.2, with rho_t = min(rho_bar, pi/mu), c_t = lam min(c_bar, pi/mu):

        v_s = V(s_s) + sum over t >= s of gamma^(t-s) (product of c_s .. c_t-1) rho_t delta_t
        delta_t = r_t + gamma V(s_t+1) - V(s_t)

    The sum stops at the end of an episode, where v_s+1 is the value of the state reached: 0 after
    termination. On policy, with both bars at least 1, v_s is the lambda-return.

    Args:
        reward: r_t.
        value: V(s_t).
        next_value: V of the true successor; equal to `value[t + 1]` inside an episode.
        log_ratio: log pi - log mu of each action.
        terminated: Bool.
        truncated: Bool.
        gamma: Discount.
        lam: lambda; 1 is V-trace as published.
        rho_bar: Bound on rho, which decides what the values converge to; `math.inf` for none.
        c_bar: Bound on c, which decides how fast; at most `rho_bar` in the paper's proof.
        pg_rho_bar: Bound on the ratio that weighs the advantage; None for `rho_bar`.

    Raises:
        ConfigError: Shapes differ, `gamma` or `lam` is not in [0, 1], or a bar is not positive.
    """
    check_fractions(gamma=gamma, lam=lam)
    pg_rho_bar = rho_bar if pg_rho_bar is None else pg_rho_bar
    numbers = {"reward": reward, "value": value, "next_value": next_value, "log_ratio": log_ratio}
    steps = rollout(terminated, truncated, **numbers)
    future = steps.future(steps["next_value"])
    rho = _clipped_ratio(steps, "rho_bar", rho_bar)
    trace = gamma * lam * _clipped_ratio(steps, "c_bar", c_bar) * steps.carry
    delta = rho * (steps["reward"] + gamma * future - steps["value"])
    correction = discounted_sum(delta, trace)
    ahead = future + steps.carry * _following(steps, correction)
    advantage = steps["reward"] + gamma * ahead - steps["value"]
    weighed = _clipped_ratio(steps, "pg_rho_bar", pg_rho_bar) * advantage
    return VTrace(steps.result(steps["value"] + correction), steps.result(weighed))


def retrace(  # noqa: PLR0913, PLR0917  (the arguments of the formula, in its order)
    reward: Steps[A],
    q_value: Steps[A],
    next_value: Steps[A],
    log_ratio: Steps[A],
    terminated: Flags,
    truncated: Flags,
    gamma: float,
    lam: float,
    *,
    c_bar: float = 1.0,
) -> A:
    """Return Retrace(lambda) targets for Q(s_t, a_t), [T, ...] like `reward`.

    Munos et al. 2016, https://arxiv.org/abs/1606.02647, equations 3 and 4, with
    c_t = lam min(c_bar, pi/mu):

        target_t = Q(s_t, a_t) + sum over s >= t of gamma^(s-t) (product of c_t+1 .. c_s) delta_s
        delta_s = r_s + gamma E_pi Q(s_s+1, .) - Q(s_s, a_s)

    The ratio of the first action takes no part: the target is that of the pair. The sum stops at
    the end of an episode.

    Args:
        reward: r_t.
        q_value: Q(s_t, a_t) of the action taken.
        next_value: Expected value of the true successor under pi, E_pi Q(s_t+1, .).
        log_ratio: log pi - log mu of each action.
        terminated: Bool.
        truncated: Bool.
        gamma: Discount.
        lam: lambda.
        c_bar: Bound on the ratio; 1 is Retrace as published.

    Raises:
        ConfigError: Shapes differ, `gamma` or `lam` is not in [0, 1], or `c_bar` is not positive.
    """
    check_fractions(gamma=gamma, lam=lam)
    numbers = {"reward": reward, "value": q_value, "next_value": next_value, "log_ratio": log_ratio}
    steps = rollout(terminated, truncated, **numbers)
    delta = steps["reward"] + gamma * steps.future(steps["next_value"]) - steps["value"]
    ratio = _following(steps, _clipped_ratio(steps, "c_bar", c_bar))
    correction = discounted_sum(delta, gamma * lam * ratio * steps.carry)
    return steps.result(steps["value"] + correction)


def _clipped_ratio(steps: Rollout, name: str, bar: float) -> Any:
    """Return min(`bar`, pi/mu); clipping the logarithm first, so that nothing overflows."""
    if not bar > 0.0:
        raise ConfigError(name, bar, "not positive", "give more than 0, or math.inf for no bound")
    return steps.xp.exp(steps.xp.clip(steps["log_ratio"], None, math.log(bar)))


def _following(steps: Rollout, array: Any) -> Any:
    """Return the next row of each row, and 0 for the last."""
    return steps.xp.concatenate([array[1:], steps.xp.zeros_like(array[:1])])
