"""Replay of single transitions, of one step or of n."""

from __future__ import annotations

import numpy as np

from asyncrl.data import TrajectoryBatch, Transitions
from asyncrl.errors import InvalidBatchError
from asyncrl.replay.n_step import n_step, one_step
from asyncrl.replay.pool import Pool


class TransitionReplay(Pool):
    """A `Replay` whose items are transitions, numbered by time, then by column.

    The successor of each step is stored with it, so that neither the end of an episode, nor the end
    of a batch, nor the seam of the ring can pair a step with somebody else's observation.
    """

    def add(self, batch: TrajectoryBatch) -> int:
        """Add all steps of `batch`, in order of time; see `Replay.add`."""
        spec = self._spec
        columns = one_step(batch) if spec.n_step == 1 else n_step(batch, spec.n_step, spec.gamma)
        rows: dict[str, np.ndarray] = {}
        for name, values in columns.items():
            if values.shape[:2] != batch.obs.shape[:2]:
                raise InvalidBatchError(
                    f"{_owner(batch)}: {name} is {values.dtype} {values.shape}, but obs has [T, B]"
                    f" = {batch.obs.shape[:2]}"
                )
            rows[name] = values.reshape(batch.transitions, *values.shape[2:])
        self._put(rows, _owner(batch))
        return batch.transitions

    def sample(self, size: int, progress: float) -> Transitions:
        """Draw `size` transitions; see `Replay.sample`."""
        rows, weight, numbers = self._draw(size, progress)
        return Transitions(**rows, weight=weight, index=numbers)


def _owner(batch: TrajectoryBatch) -> str:
    return f"policy {batch.policy_id!r}"
