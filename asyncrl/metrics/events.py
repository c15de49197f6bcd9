"""What happens in a run, as frozen dataclasses. Sinks write them; nothing here does any I/O.

A value that is not known yet is None, never NaN: a mean return before the first episode has ended
is absent, not zero and not "not a number". An event carries no wall time: the sink that writes it
stamps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a run stands after an update, or after a while without one."""

    run: str
    """Name of the run."""
    generation: int = 1
    """Incarnation of the run's learner: 1 at first, one more after each resume."""
    seconds: float = 0.0
    """Time spent training, in seconds, over all generations."""
    env_steps: int
    """Environment steps learned from so far, over all environments and generations."""
    total_steps: int
    """Environment steps after which the run ends."""
    updates: int = 0
    """Calls of the algorithm's update."""
    episodes: int = 0
    """Training episodes finished."""
    mean_return: float | None = None
    """Mean return of the last (100, say) training episodes; None before the first has ended."""
    mean_length: float | None = None
    """Mean length in steps of the same episodes."""
    eval_return: float | None = None
    """Mean return of the newest evaluation; None before the first."""
    steps_per_second: float | None = None
    """Environment steps a second lately; None until it can be told."""
    policy_version: int = 0
    """Number of published weight sets."""
    lag_mean: float | None = None
    """Mean lag, in versions, of the batches of the last update; None before the first."""
    lag_max: int | None = None
    """Largest lag, in versions, among the same batches."""
    actors: int = 0
    """Actors alive."""
    queued_jobs: int = 0
    """Jobs handed out that no actor has taken yet."""
    waiting_results: int = 0
    """Results that arrived and were not learned from yet."""
    eta_seconds: float | None = None
    """Seconds until `total_steps` at the present rate; None when unknown."""
    losses: Mapping[str, float] = field(default_factory=dict[str, float])
    """What the algorithm says about its last update, by name."""
    env_metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """What the environments report about themselves, by name."""
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    """Things that should stay rare, counted: ``reassigned``, ``failed``, ``dropped.<reason>``."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Greedy episodes played with one weight set."""

    env_steps: int
    """Environment steps learned from when these weights were published."""
    policy_version: int
    """Version of the weights that acted."""
    episodes: int
    """Episodes played."""
    mean_return: float
    min_return: float
    max_return: float
    mean_length: float
    """Mean length in steps."""
    env_metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """What the environments report about themselves, by name."""


class ActorChange(StrEnum):
    """What became of an actor."""

    JOINED = "joined"
    """It said hello and takes jobs."""
    LEFT = "left"
    """It said good-bye, holding nothing."""
    DEAD = "dead"
    """Its heartbeat stopped; its jobs go to others."""


@dataclass(frozen=True, kw_only=True)
class ActorChanged:
    """An actor joined, left or died."""

    actor: str
    change: ActorChange
    reason: str = ""
    """Why, in words; "" when there is nothing to add."""
    actors: int | None = None
    """Actors alive after the change, where known."""


@dataclass(frozen=True, kw_only=True)
class JobFailed:
    """One attempt of a job failed with an exception, or took its actor's process down."""

    actor: str
    job: str
    """The job, or "" when the actor failed outside a job (while making environments, say)."""
    attempt: int
    where: str
    """What was being done: ``"step 37 of environment 3"``."""
    cause: str
    """Type and message of the exception, or the signal that ended the process."""
    traceback: str = ""
    """The environment's own traceback, formatted; "" when the process just died."""
    seed: int | None = None
    """Seed of the episode that failed, where known."""
    dead: bool = False
    """Whether this was the last attempt, so that the job is given up."""


@dataclass(frozen=True, kw_only=True)
class JobReassigned:
    """A job was taken from one actor and goes to another."""

    job: str
    actor: str
    """The actor that lost it."""
    attempt: int
    """The attempt that follows."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class Checkpointed:
    """A checkpoint is on disk; results up to it need no second look."""

    path: str
    env_steps: int
    updates: int
    nbytes: int | None = None
    """Size on disk in bytes."""
    seconds: float | None = None
    """Time it took to write."""
    covered: int = 0
    """Results acknowledged because this checkpoint holds what was learned from them."""


class Level(StrEnum):
    """How much a message matters."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Message:
    """Something worth a line that is none of the other events."""

    level: Level
    text: str


Event: TypeAlias = (
    Progress | Evaluation | ActorChanged | JobFailed | JobReassigned | Checkpointed | Message
)
