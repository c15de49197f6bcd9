"""The nouns: frozen dataclasses over NumPy arrays. No I/O, no event loop, no torch."""

from asyncrl.data.batch import TrajectoryBatch
from asyncrl.data.failure import FailureReport
from asyncrl.data.job import JobKind, JobUnit, RolloutJob
from asyncrl.data.policy import (
    ACTION_MASK,
    Activation,
    ConvKind,
    CoreKind,
    DuelingKind,
    HeadKind,
    NoiseKind,
    PolicySpec,
    StdKind,
)
from asyncrl.data.replay import ReplaySpec
from asyncrl.data.result import EpisodeStats, RolloutResult
from asyncrl.data.seeds import derive_seed
from asyncrl.data.sequences import Sequences
from asyncrl.data.spaces import Leaf, SpaceKind, SpaceSpec, composite
from asyncrl.data.spec import (
    DEFAULT_AGENT,
    DEFAULT_POLICY,
    EnvSpec,
    RunSpec,
    check_name,
    load_object,
)
from asyncrl.data.transitions import Transitions
from asyncrl.data.weights import PolicyWeights, WeightSet

__all__ = [
    "ACTION_MASK",
    "DEFAULT_AGENT",
    "DEFAULT_POLICY",
    "Activation",
    "ConvKind",
    "CoreKind",
    "DuelingKind",
    "EnvSpec",
    "EpisodeStats",
    "FailureReport",
    "HeadKind",
    "JobKind",
    "JobUnit",
    "Leaf",
    "NoiseKind",
    "PolicySpec",
    "PolicyWeights",
    "ReplaySpec",
    "RolloutJob",
    "RolloutResult",
    "RunSpec",
    "Sequences",
    "SpaceKind",
    "SpaceSpec",
    "StdKind",
    "TrajectoryBatch",
    "Transitions",
    "WeightSet",
    "check_name",
    "composite",
    "derive_seed",
    "load_object",
]
