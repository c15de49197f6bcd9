"""A ring of transitions in preallocated columns: once full, the oldest are overwritten in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncrl.data import SpaceSpec, TrajectoryBatch, Transitions
from asyncrl.errors import ConfigError

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
        obs = (_stored(observation), observation.shape)
        columns = {
            "obs": obs,
            "action": (_stored(action), action.shape),
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
        """Add all steps of `batch`, in order of time; return how many."""
        count = batch.transitions
        first = max(0, count - self._capacity)
        """Of a batch larger than the ring only the newest steps would survive."""
        places = np.arange(self._inserted + first, self._inserted + count) % self._capacity
        rows = {
            "obs": batch.obs,
            "action": batch.action,
            "reward": batch.reward,
            "terminated": batch.terminated,
            "next_obs": batch.next_obs(),
        }
        for name, values in rows.items():
            self._columns[name][places] = values.reshape(count, *values.shape[2:])[first:]
        self._inserted += count
        return count

    def sample(self, size: int) -> Transitions:
        """Draw `size` transitions uniformly, with replacement.

        Raises:
            ConfigError: nothing was added yet.
        """
        if not len(self):
            raise ConfigError("sample", size, "the replay is empty", "add transitions first")
        places = self._rng.integers(0, len(self), size)
        return Transitions(**{name: self._columns[name][places] for name in _COLUMNS})

    def state(self) -> dict[str, Any]:
        """Return everything the next sample depends on; only filled rows."""
        size = len(self)
        return {
            "columns": {name: column[:size].copy() for name, column in self._columns.items()},
            "inserted": self._inserted,
            "rng": self._rng.bit_generator.state,
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue exactly where `tree` was taken: the next sample is equal.

        Raises:
            ConfigError: the state is that of a replay of another capacity or other spaces.
        """
        size = min(tree["inserted"], self._capacity)
        for name, column in self._columns.items():
            saved = tree["columns"][name]
            if saved.shape != (size, *column.shape[1:]) or saved.dtype != column.dtype:
                raise ConfigError(
                    "state",
                    f"{name} {saved.dtype} {saved.shape}",
                    f"this replay holds {column.dtype} {column.shape}",
                    "resume with the capacity and the environment the run was started with",
                )
            column[:size] = saved
        self._inserted = tree["inserted"]
        self._rng.bit_generator.state = tree["rng"]


def _stored(space: SpaceSpec) -> type[np.generic]:
    if space.kind == "discrete":
        return np.int64
    return np.uint8 if space.dtype == "uint8" else np.float32
