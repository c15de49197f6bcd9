"""Batches and a slow second implementation of what becomes of them, for the tests of replays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asyncrl.data import TrajectoryBatch


def random_batch(
    seed: int, steps: int, width: int, *, ends: float = 0.2, state_size: int = 0
) -> TrajectoryBatch:
    """Return a batch in which every number differs; each way of ending has the rate `ends`."""
    rng = np.random.default_rng(seed)
    terminated = rng.random((steps, width)) < ends
    truncated = rng.random((steps, width)) < ends
    cuts = np.argwhere(terminated | truncated).astype(np.int32)
    batch = TrajectoryBatch(
        policy_id="policy",
        policy_version=1,
        obs=rng.standard_normal((steps, width, 2), np.float32),
        action=rng.integers(0, 4, (steps, width)),
        reward=rng.standard_normal((steps, width), np.float32),
        terminated=terminated,
        truncated=truncated,
        last_obs=rng.standard_normal((width, 2), np.float32),
        final_obs=rng.standard_normal((len(cuts), 2), np.float32),
        final_index=cuts,
    )
    batch.validate()
    if state_size:
        give_state(batch, rng.standard_normal((width, state_size), np.float32))
    return batch


def counting_batch(first: int, steps: int) -> TrajectoryBatch:
    """Return a batch of one environment whose observation and reward count on; no ends."""
    count = np.arange(first, first + steps + 1)
    never = np.zeros((steps, 1), np.bool_)
    return TrajectoryBatch(
        policy_id="policy",
        policy_version=1,
        obs=count[:-1, None, None].astype(np.float32),
        action=count[:-1, None] % 4,
        reward=count[:-1, None].astype(np.float32),
        terminated=never,
        truncated=never,
        last_obs=count[-1:, None].astype(np.float32),
        final_obs=np.zeros((0, 1), np.float32),
    )


def give_state(batch: TrajectoryBatch, state: np.ndarray) -> None:
    object.__setattr__(batch, "initial_state", state)


class Row(NamedTuple):
    """One n-step transition."""

    obs: bytes
    action: int
    reward: float
    discount: float
    terminated: bool
    next_obs: bytes


def successor(batch: TrajectoryBatch, t: int, b: int) -> np.ndarray:
    for (time, column), final in zip(batch.final_index, batch.final_obs, strict=True):
        if (time, column) == (t, b):
            return final
    return batch.obs[t + 1, b] if t + 1 < batch.steps else batch.last_obs[b]


def slowly(batch: TrajectoryBatch, steps: int = 1, gamma: float = 0.99) -> list[Row]:
    """Return the transitions of `batch` by time and column, one at a time, in float64."""
    rows: list[Row] = []
    for t in range(batch.steps):
        for b in range(batch.width):
            total, factor, last = 0.0, 1.0, t
            for last in range(t, min(t + steps, batch.steps)):
                total += factor * float(batch.reward[last, b])
                factor *= gamma
                if batch.terminated[last, b] or batch.truncated[last, b]:
                    break
            rows.append(
                Row(
                    batch.obs[t, b].tobytes(),
                    int(batch.action[t, b]),
                    total,
                    factor,
                    bool(batch.terminated[last, b]),
                    successor(batch, last, b).tobytes(),
                )
            )
    return rows
