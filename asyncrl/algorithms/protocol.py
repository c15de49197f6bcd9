"""What a learner needs of an algorithm, whichever it is."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from asyncrl.data import PolicySpec, SpaceSpec

Data_contra = TypeVar("Data_contra", contravariant=True)
"""What one update learns from: the trajectory batches of a round (on-policy), or a sample of
transitions (off-policy)."""


class Updater(Protocol[Data_contra]):
    """The mutable half of an algorithm: weights, optimiser, counters and random numbers.

    Not thread-safe: one thread calls it at a time. It reads no clock and no global random state, so
    that the same seed and the same data give the same bytes.
    """

    def update(self, data: Data_contra, progress: float) -> dict[str, float]:
        """Learn from `data` and return metrics.

        Args:
            data: Left unchanged.
            progress: Environment steps done as a fraction of the run's total, in [0, 1]; it drives
                the schedules.
        """
        ...

    def acting_params(self) -> dict[str, np.ndarray]:
        """Return copies of what actors load: name -> float32 array, as the `PolicySpec` says."""
        ...

    def state(self) -> dict[str, Any]:
        """Return all mutable state, copied, as a tree of dicts, lists, scalars and arrays."""
        ...

    def load_state(self, tree: dict[str, Any]) -> None:
        """Continue exactly where `state` was taken: the same updates give the same bytes."""
        ...


class Algorithm(Protocol[Data_contra]):
    """The frozen half of an algorithm: its settings, and how to build the rest from them."""

    on_policy: ClassVar[bool]
    """Whether an update may use only what (nearly) the newest policy collected."""

    def policy_spec(self, observation: SpaceSpec, action: SpaceSpec) -> PolicySpec:
        """Return the acting network for these spaces.

        Raises:
            ConfigError: This algorithm cannot act in this action space.
        """
        ...

    def build(self, spec: PolicySpec, *, seed: int, device: str = "cpu") -> Updater[Data_contra]:
        """Return an updater with first weights derived from `seed`."""
        ...
