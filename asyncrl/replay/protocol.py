"""What a learner needs of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import numpy as np

from asyncrl.data import TrajectoryBatch

Sample_co = TypeVar("Sample_co", covariant=True)
"""What is drawn: `Transitions` or `Sequences`."""


class Replay(Protocol[Sample_co]):
    """Keeps what was collected, in items: single transitions, or sequences of them.

    Memory is taken with the first batch, which decides dtypes and shapes. One thread at a time.
    """

    @property
    def capacity(self) -> int:
        """Items held at most."""
        ...

    @property
    def inserted(self) -> int:
        """Items ever added: the insertion number of the next one."""
        ...

    @property
    def missed_priorities(self) -> int:
        """Priorities reported for items that had been overwritten meanwhile."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes reserved for a full replay, in memory or in files; 0 before the first batch."""
        ...

    def __len__(self) -> int:
        """Return how many items are held."""
        ...

    def add(self, batch: TrajectoryBatch) -> int:
        """Add all steps of `batch`; return how many transitions that was.

        No step is ever joined to one of another column or of another batch. The batch is copied.

        Raises:
            InvalidBatchError: An array has another dtype or shape than those before; nothing was
                added.
        """
        ...

    def sample(self, size: int, progress: float) -> Sample_co:
        """Draw `size` items with replacement, as copies.

        Args:
            size: At least 1.
            progress: Of the run, in [0, 1]; decides beta.

        Raises:
            ConfigError: Nothing was added yet, or `size` is less than 1.
        """
        ...

    def update_priorities(self, index: np.ndarray, priority: np.ndarray) -> None:
        """Set the priorities [N] of the items with insertion numbers `index` [N].

        Those that have been overwritten are left out, and counted in `missed_priorities`. Of
        several for one item the last counts.

        Raises:
            ConfigError: The replay has no priorities, or a priority is no finite number from 0 up;
                nothing was changed.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Return a copy, in memory, of everything the next sample depends on."""
        ...

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue exactly where `tree` was taken: the next sample is equal.

        Raises:
            ConfigError: The state is that of other settings or spaces; nothing was changed.
        """
        ...

    def close(self) -> None:
        """Give back memory and disk space. No other call may follow."""
        ...
