"""Replay of sequences for recurrent policies (Kapturowski et al. 2019, R2D2)."""

from __future__ import annotations

import numpy as np

from asyncrl.data import ReplaySpec, Sequences, TrajectoryBatch
from asyncrl.errors import InvalidBatchError
from asyncrl.replay.pool import Pool

_STEPS = ("obs", "action", "reward", "terminated", "truncated", "next_obs", "first")


def cut_starts(steps: int, length: int, stride: int, burn_in: int) -> np.ndarray:
    """Return where sequences begin in a batch of `steps` steps, ascending.

    Every `stride` steps, until one reaches the end. None in a batch that is all burn-in.
    """
    if steps <= burn_in:
        return np.zeros(0, np.int64)
    count = 1 + max(0, -(-(steps - length) // stride))
    return np.arange(count, dtype=np.int64) * stride


def cut(batch: TrajectoryBatch, spec: ReplaySpec) -> dict[str, np.ndarray]:
    """Return the N sequences of `batch`, [N, L, ...] each, ordered by start, then by column.

    ``"state"`` is [N, S] and ``"size"`` [N] int32, the rows that are no padding. Sequences do not
    join batches, as a batch need not follow on another. That at a batch's start has the batch's
    `initial_state`. One that starts inside has the state in ``extras["state"]`` [T, B, S] (before
    each step) where the policy recorded it, else zeros, which the burn-in then makes up for.

    Raises:
        InvalidBatchError: A state has another shape.
    """
    length, width = spec.sequence_length, batch.width
    starts = cut_starts(batch.steps, length, spec.stride, spec.burn_in)
    ended = batch.terminated | batch.truncated
    first = np.zeros_like(ended)
    first[1:] = ended[:-1]
    steps = {
        "obs": batch.obs,
        "action": batch.action,
        "reward": batch.reward,
        "terminated": batch.terminated,
        "truncated": batch.truncated,
        "next_obs": batch.next_obs(),
        "first": first,
    }
    rows = starts[:, None] + np.arange(length)
    padding = rows >= batch.steps
    inside = np.where(padding, 0, rows)
    count = len(starts) * width
    sequences: dict[str, np.ndarray] = {}
    for name, values in steps.items():
        taken = values[inside]
        taken[padding] = 0
        sequences[name] = np.moveaxis(taken, 2, 1).reshape(count, length, *values.shape[2:])
    states = _states(batch, starts)
    sequences["state"] = states.reshape(count, states.shape[-1])
    sequences["size"] = np.repeat(np.minimum(length, batch.steps - starts), width).astype(np.int32)
    return sequences


def _states(batch: TrajectoryBatch, starts: np.ndarray) -> np.ndarray:
    """Return [starts, B, S] float32, the recurrent state before each start."""
    initial: np.ndarray = getattr(batch, "initial_state", np.zeros((0, 0), np.float32))
    if initial.size == 0:
        initial = np.zeros((batch.width, 0), np.float32)
    shape = (len(starts), *initial.shape)
    recorded = batch.extras.get("state", np.zeros((batch.steps, *initial.shape), np.float32))
    if initial.shape[0] != batch.width or recorded.shape != (batch.steps, *initial.shape):
        raise InvalidBatchError(
            f"policy {batch.policy_id!r}: initial_state is {initial.shape} and extras['state']"
            f" {recorded.shape}, not [B, S] and [T, B, S] with T={batch.steps}, B={batch.width}"
        )
    states = recorded[starts].astype(np.float32).reshape(shape)
    if len(starts):
        states[0] = initial
    return states


class SequenceReplay(Pool):
    """A `Replay` whose items are sequences; `cut` says how batches become these.

    Overlapping sequences hold the steps they share twice.
    """

    def add(self, batch: TrajectoryBatch) -> int:
        """Add the sequences of `batch`; return its transitions.

        A batch of no more steps than the burn-in has none to learn from: it is left out, and 0
        returned. See `Replay.add`.
        """
        sequences = cut(batch, self._spec)
        if not len(sequences["size"]):
            return 0
        self._put(sequences, f"policy {batch.policy_id!r}")
        return batch.transitions

    def sample(self, size: int, progress: float) -> Sequences:
        """Draw `size` sequences; see `Replay.sample`."""
        rows, weight, numbers = self._draw(size, progress)
        steps = {name: np.ascontiguousarray(np.moveaxis(rows[name], 0, 1)) for name in _STEPS}
        return Sequences(
            **steps,
            valid=np.arange(self._spec.sequence_length)[:, None] < rows["size"],
            state=rows["state"],
            burn_in=self._spec.burn_in,
            weight=weight,
            index=numbers,
        )
