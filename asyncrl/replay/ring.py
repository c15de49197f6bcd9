"""A ring of transitions in preallocated columns: once full, the oldest are overwritten in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncrl.data import SpaceSpec, TrajectoryBatch, Transitions
from asyncrl.errors import ConfigError, InvalidBatchError, StateError

_COLUMNS = ("obs", "action", "reward", "terminated", "next_obs")


class RingReplay:
    """The last `capacity` transitions, drawn uniformly.

    The successor of each step is stored with it, so that neither the end of an episode, nor the end
    of a batch, nor the seam of the ring can pair a step with somebody else's observation.

    Args:
        capacity: Transitions held at most.
        observation: Space of one observation.
        action: Space of one action.
        seed: Of the drawing.
    """

    def __init__(self, capacity: int, observation: SpaceSpec, action: SpaceSpec, seed: int) -> None:
        if capacity < 1:
            raise ConfigError("capacity", capacity, "holds nothing", "give 1 or more")
        self._capacity = capacity
        obs = (observation.stored_dtype, observation.shape)
        columns = {
            "obs": obs,
            "action": (action.stored_dtype, action.shape),
            "reward": (np.float32, ()),
            "terminated": (np.bool_, ()),
            "next_obs": obs,
        }
        self._columns = {
            name: np.zeros((capacity, *shape), dtype) for name, (dtype, shape) in columns.items()
        }
        self._inserted = 0
        self._rng = np.random.default_rng(seed)

    def __len__(self) -> int:
        return min(self._inserted, self._capacity)

    @property
    def capacity(self) -> int:
        """Transitions held at most."""
        return self._capacity

    @property
    def inserted(self) -> int:
        """Transitions ever added."""
        return self._inserted

    def add(self, batch: TrajectoryBatch) -> int:
        """Add all steps of `batch`, in order of time; return how many.

        Raises:
            InvalidBatchError: An array is not of this replay's spaces; nothing was added.
        """
        rows = {
            "obs": batch.obs,
            "action": batch.action,
            "reward": batch.reward,
            "terminated": batch.terminated,
            "next_obs": batch.next_obs(),
        }
        self._check(batch, rows)
        count = batch.transitions
        first = max(0, count - self._capacity)
        """Of a batch larger than the ring only the newest steps would survive."""
        places = np.arange(self._inserted + first, self._inserted + count) % self._capacity
        for name, values in rows.items():
            self._columns[name][places] = values.reshape(count, *values.shape[2:])[first:]
        self._inserted += count
        return count

    def _check(self, batch: TrajectoryBatch, rows: Mapping[str, np.ndarray]) -> None:
        lead = (batch.steps, batch.width)
        for name, values in rows.items():
            column = self._columns[name]
            expected = (*lead, *column.shape[1:])
            if values.shape != expected or not np.can_cast(values.dtype, column.dtype, "same_kind"):
                raise InvalidBatchError(
                    f"policy {batch.policy_id!r}: {name} is {values.dtype} {values.shape}, but this"
                    f" replay's spaces make it {column.dtype} {expected}"
                )

    def sample(self, size: int) -> Transitions:
        """Draw `size` transitions uniformly, with replacement; copies, in no order.

        Raises:
            StateError: Nothing was added yet, or `size` is less than 1.
        """
        if size < 1:
            raise StateError(f"a sample of {size} transitions is none; ask for 1 or more")
        if not len(self):
            raise StateError("the replay is empty; add transitions before a sample is drawn")
        places = self._rng.integers(0, len(self), size)
        return Transitions(**{name: self._columns[name][places] for name in _COLUMNS})

    def state(self) -> dict[str, Any]:
        """Return everything the next sample depends on; only filled rows.

        The columns are views, not copies, which may take gigabytes: they change with the next
        `add`.
        """
        size = len(self)
        return {
            "columns": {name: column[:size] for name, column in self._columns.items()},
            "inserted": self._inserted,
            "rng": self._rng.bit_generator.state,
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue exactly where `tree` was taken: the next sample is equal.

        Raises:
            ConfigError: The state is that of a replay of another capacity or other spaces.
        """
        size = min(tree["inserted"], self._capacity)
        saved = {name: tree["columns"][name] for name in _COLUMNS}
        for name, column in self._columns.items():
            rows = saved[name]
            if rows.shape != (size, *column.shape[1:]) or rows.dtype != column.dtype:
                raise ConfigError(
                    "state",
                    f"{name} {rows.dtype} {rows.shape}",
                    f"this replay holds {column.dtype} {column.shape}",
                    "resume with the capacity and the environment the run was started with",
                )
        for name, column in self._columns.items():
            column[:size] = saved[name]
        self._inserted = tree["inserted"]
        self._rng.bit_generator.state = tree["rng"]
