"""The rollout job: what an actor is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from asyncrl.data.spec import check_name
from asyncrl.errors import ConfigError


class JobKind(StrEnum):
    """Why a rollout is collected."""

    TRAIN = "train"
    """To learn from: explores, returns trajectory batches."""
    EVAL = "eval"
    """To measure: acts greedily in fresh environments, returns episode statistics and metrics
    only."""


class JobUnit(StrEnum):
    """What a job's size counts."""

    STEPS = "steps"
    """A fixed-length segment of `size` steps in every environment of the actor; episodes span
    jobs."""
    EPISODES = "episodes"
    """`size` whole episodes, each from a fresh reset."""


@dataclass(frozen=True, kw_only=True)
class RolloutJob:
    """One rollout to collect. Reassigned, it is the same job with a higher `attempt`."""

    job_id: str
    """Unique within the run, over all generations."""
    kind: JobKind
    unit: JobUnit
    size: int
    """Steps per environment, or episodes in all, as `unit` says."""
    round: int = 0
    """Number of the round of jobs this one belongs to; results of one round are learned from
    together."""
    generation: int = 0
    """Generation of the learner that issued it; 0 without a broker."""
    attempt: int = 1
    """1 for the first actor that gets it; reassignment raises it."""
    min_version: int = 0
    """Oldest weight set (its `WeightSet.version`) that may act."""
    exploration: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict[str, Mapping[str, float]]
    )
    """Policy id -> exploration parameters, for example ``{"policy": {"epsilon": 0.1}}``."""

    def __post_init__(self) -> None:
        check_name("job_id", self.job_id)
        if self.size < 1:
            raise ConfigError(
                "size", self.size, "a job collects at least one step or episode", "give 1 or more"
            )
        if self.attempt < 1:
            raise ConfigError("attempt", self.attempt, "attempts count from 1", "give 1 or more")
