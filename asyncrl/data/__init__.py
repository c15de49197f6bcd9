"""The nouns: frozen dataclasses over NumPy arrays. No I/O, no event loop, no torch."""

from asyncrl.data.batch import TrajectoryBatch
from asyncrl.data.checking import check_result
from asyncrl.data.failure import FailureReport
from asyncrl.data.job import JobKind, JobUnit, RolloutJob
from asyncrl.data.loading import (
    ANYTHING,
    Allowed,
    load_object,
    modules_needed,
    named_modules,
)
from asyncrl.data.result import EpisodeStats, RolloutResult
from asyncrl.data.seeds import derive_seed
from asyncrl.data.spec import (
    DEFAULT_AGENT,
    DEFAULT_POLICY,
    Activation,
    EnvSpec,
    HeadKind,
    PolicySpec,
    RunSpec,
    SpaceKind,
    SpaceSpec,
    check_name,
)
from asyncrl.data.transitions import Transitions
from asyncrl.data.weights import PolicyWeights, WeightSet

__all__ = [
    "ANYTHING",
    "DEFAULT_AGENT",
    "DEFAULT_POLICY",
    "Activation",
    "Allowed",
    "EnvSpec",
    "EpisodeStats",
    "FailureReport",
    "HeadKind",
    "JobKind",
    "JobUnit",
    "PolicySpec",
    "PolicyWeights",
    "RolloutJob",
    "RolloutResult",
    "RunSpec",
    "SpaceKind",
    "SpaceSpec",
    "TrajectoryBatch",
    "Transitions",
    "WeightSet",
    "check_name",
    "check_result",
    "derive_seed",
    "load_object",
    "modules_needed",
    "named_modules",
]
