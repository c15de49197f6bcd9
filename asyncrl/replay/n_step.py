"""Steps of a batch as transitions, of one step or of several (Sutton 1988)."""

from __future__ import annotations

import numpy as np

from asyncrl.data import TrajectoryBatch


def one_step(batch: TrajectoryBatch) -> dict[str, np.ndarray]:
    """Return the transitions of `batch`, [T, B, ...] each."""
    return {
        "obs": batch.obs,
        "action": batch.action,
        "reward": batch.reward,
        "terminated": batch.terminated,
        "next_obs": batch.next_obs(),
    }


def n_step(batch: TrajectoryBatch, steps: int, gamma: float) -> dict[str, np.ndarray]:
    """Return the transitions of `batch` over up to `steps` steps each, [T, B, ...].

    From step t the reward is sum_{k<m} gamma**k r_{t+k} and the discount gamma**m, where m is
    `steps`, or less where the episode or the batch ends before; successor and terminal flag are
    those of step t + m - 1. Sums are made in float64.
    """
    length, width = batch.reward.shape
    ended = batch.terminated | batch.truncated
    total = batch.reward.astype(np.float64)
    time = np.arange(length, dtype=np.int64)[:, None]
    count = np.ones((length, width), np.int64)
    """m of each step."""
    goes_on = ~ended
    """Where step ``t + k`` exists, belongs to t's episode and so is summed; False past the end."""
    for k in range(1, min(steps, length)):
        goes_on = goes_on[: length - k]
        total[: length - k] += np.where(goes_on, gamma**k * batch.reward[k:].astype(np.float64), 0)
        count[: length - k] += goes_on
        goes_on = goes_on & ~ended[k:]
    last = (time + count - 1, np.arange(width, dtype=np.int64))
    return {
        "obs": batch.obs,
        "action": batch.action,
        "reward": total.astype(np.float32),
        "terminated": batch.terminated[last],
        "next_obs": batch.next_obs()[last],
        "discount": np.power(np.float64(gamma), count).astype(np.float32),
    }
