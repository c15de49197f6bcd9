"""What an actor gives back for a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from asyncrl.data.batch import TrajectoryBatch
from asyncrl.data.job import JobKind, RolloutJob
from asyncrl.errors import InvalidBatchError


@dataclass(frozen=True, kw_only=True, eq=False)
class EpisodeStats:
    """Episodes that ended during a rollout (they may have begun in an earlier one)."""

    returns: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float64))
    """[N] float64: undiscounted sum of rewards of each episode, over all agents."""
    lengths: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """[N] int64: steps of each episode."""

    def __len__(self) -> int:
        return len(self.returns)


@dataclass(frozen=True, kw_only=True, eq=False)
class RolloutResult:
    """The outcome of one job: batches to learn from, and the numbers to report."""

    job: RolloutJob
    actor_id: str
    env_steps: int
    """Actions taken in environments for this job."""
    batches: tuple[TrajectoryBatch, ...] = ()
    """One or more per policy; none for an evaluation job."""
    episodes: EpisodeStats = field(default_factory=EpisodeStats)
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """Environment metrics, as the scenario reports them."""
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    """What happened to be counted during the rollout: ``"step_timeouts"``."""
    weights_version: int = 0
    """The weight set (`WeightSet.version`) that acted."""
    seconds: float = 0.0
    """Wall time of the rollout in its actor."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return (
            sum(b.nbytes for b in self.batches)
            + self.episodes.returns.nbytes
            + self.episodes.lengths.nbytes
        )

    def validate(self) -> None:
        """Raise `InvalidBatchError` unless every batch is sound and counts agree."""
        for batch in self.batches:
            batch.validate()
        if (
            self.episodes.returns.shape != self.episodes.lengths.shape
            or self.episodes.returns.ndim != 1
        ):
            raise InvalidBatchError(
                f"episodes: {self.episodes.returns.shape} returns and "
                f"{self.episodes.lengths.shape} lengths"
            )
        for name in ("returns", "lengths"):
            numbers: np.ndarray = getattr(self.episodes, name)
            finite = np.isfinite(numbers)
            if not finite.all():
                place = int(np.argmin(finite))
                raise InvalidBatchError(f"episodes: {name}: {numbers[place]} of episode {place}")
        if self.job.kind is JobKind.TRAIN and not self.batches:
            raise InvalidBatchError("a training job returned no batch")
        if self.env_steps < 0:
            raise InvalidBatchError(f"env_steps: {self.env_steps} is negative")
