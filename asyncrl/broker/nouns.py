"""What the broker's parts hand back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from asyncrl.broker.limits import RunLimits
from asyncrl.data import FailureReport, JobKind, RolloutJob, RunSpec

Version = tuple[int, int]
"""(generation, version) of a weight set; newer ones compare greater."""


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """What a run's hello says."""

    incarnation: str
    """Unique to this creation of the run."""
    protocol: int
    library: str
    """Version of asyncrl that created or last took over the run."""
    spec: RunSpec
    generation: int
    owner: str
    """Host and pid of the learner."""
    weights: Version | None
    """Newest published weights."""
    limits: RunLimits
    """What all its processes agree on, as set by the learner that created or last took it over."""
    state: Literal["running", "finished"]


class Submitted(StrEnum):
    """What became of a submit."""

    OK = "OK"
    LIVE = "LIVE"
    """It is queued or running already."""
    DONE = "DONE"
    """It was accepted, cancelled or dead before."""
    FULL = "FULL"
    """Too many unfinished jobs, or no memory: wait and submit again. Nothing was changed."""


class Completed(StrEnum):
    """What became of a result."""

    OK = "OK"
    DUP = "DUP"
    """It was accepted before: a success whose answer got lost."""
    STALE = "STALE"
    """The attempt is not the actor's any more; the result is refused and counted."""
    FULL = "FULL"
    """Too many results wait, or no memory: keep it, wait and try again. Nothing was changed."""


class ReassignStatus(StrEnum):
    """What became of an attempt that its actor did not finish."""

    REASSIGNED = "REASSIGNED"
    """The job is queued again."""
    DEAD = "DEAD"
    """It had used up its attempts and is among the dead."""
    GONE = "GONE"
    """It had been finished, cancelled or reassigned already; nothing was changed."""


class Rejected(StrEnum):
    """What became of a result that was refused."""

    REASSIGNED = "REASSIGNED"
    """Its job is queued again."""
    DEAD = "DEAD"
    """Its job had used up its attempts and is among the dead."""
    DROPPED = "DROPPED"
    """Nobody waits for its job."""
    GONE = "GONE"
    """It was let go of before; nothing was changed."""


class Published(StrEnum):
    """What became of a publish."""

    OK = "OK"
    DUP = "DUP"
    """It was published before: a success whose answer got lost."""


@dataclass(frozen=True)
class TakenJob:
    """A job delivered to an actor."""

    job: RolloutJob
    """The job, with the number of this attempt filled in."""
    token: str
    """Fences this attempt: unique in the run, larger for every later attempt at any job."""


@dataclass(frozen=True, kw_only=True)
class PendingJob:
    """An attempt that was delivered and is not finished."""

    job_id: str
    token: str
    actor_id: str
    idle_seconds: float
    """Since delivery or the last beat that named it, by the server's clock (downtime included)."""
    attempt: int
    kind: JobKind


@dataclass(frozen=True)
class Reassigned:
    """Answer to giving an attempt back or taking it away."""

    status: ReassignStatus
    job_id: str = ""
    """The job, "" when the attempt is gone."""
    attempt: int = 0
    """Number of the attempt that is queued now, or of the last one of a dead job."""


@dataclass(frozen=True)
class Begun:
    """Answer to an actor about to start on an attempt."""

    ok: bool
    """Whether the attempt is still the actor's; if not, skip it."""
    generation: int
    version: int
    """Newest weights; (0, 0) before the first are published."""


@dataclass(frozen=True, kw_only=True)
class DeadJob:
    """A job that used up its attempts, or a result that was no good."""

    entry_id: str
    job_id: str
    kind: JobKind | None
    """None for a bad result."""
    attempt: int
    actor_id: str
    """Who held it last."""
    reasons: tuple[str, ...]
    """Why each attempt failed, oldest first."""
    report: FailureReport | None
    """The last actor's own report; None when it just died."""


@dataclass(frozen=True, kw_only=True)
class ResultEntry:
    """A result that was accepted and is not acked."""

    entry_id: str
    job_id: str
    kind: JobKind
    attempt: int
    generation: int
    """Generation that issued the job."""
    actor_id: str
    env_steps: int
    payload: bytes | None
    """The encoded result; None when its blob is gone (evicted): drop it."""
    nbytes: int
    """Size of the payload, as it was handed in."""


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """What waits on the server, at one instant."""

    queued: int = 0
    """Jobs not delivered."""
    results: int = 0
    """Results not acked."""
    nbytes: int = 0
    """Bytes of these results."""


@dataclass(frozen=True, kw_only=True)
class Beat:
    """What an actor says every few seconds."""

    actor_id: str
    sequence: int
    """Grows with every beat; the learner judges life by its change, never by clocks."""
    held: Mapping[str, int] = field(default_factory=dict[str, int])
    """Token -> environment steps done so far, of every attempt taken and not handed in."""
    waiting: Mapping[str, int] = field(default_factory=dict[str, int])
    """Token -> bytes of room that must come before its finished result is accepted; empty while
    nothing was answered FULL."""
    info: Mapping[str, str | int | float | bool] = field(
        default_factory=dict[str, str | int | float | bool]
    )
    """Anything worth showing: host, pid, weights version, event loop lag."""


@dataclass(frozen=True, kw_only=True)
class BeatReply:
    """What an actor must know."""

    generation: int
    """Generation of the run's learner."""
    weights: Version | None
    """Newest published weights."""
    drain: bool
    """The run is finished: hand in or release what is held, and leave."""
    lost: frozenset[str] = frozenset()
    """Tokens among `held` that are not the actor's any more: abandon them. One that was handed in
    while the beat was on its way is among them too."""
    cancelled: frozenset[str] = frozenset()
    """Job ids of those lost tokens that were lost because the job was cancelled."""


@dataclass(frozen=True, kw_only=True)
class ActorPresence:
    """An actor, as its last beat described it."""

    actor_id: str
    sequence: int
    age_seconds: float
    """Since the last beat, by the server's clock. For people; judge by `sequence`."""
    held: Mapping[str, int]
    info: Mapping[str, str | int | float | bool]
    waiting: Mapping[str, int] = field(default_factory=dict[str, int])
    """Which of what it holds is finished and waits for room, as in `Beat`."""


@dataclass(frozen=True)
class RollCall:
    """Who is there."""

    actors: tuple[ActorPresence, ...]
    rejected: tuple[str, ...] = ()
    """Actor ids whose record cannot be read: written by a stranger, or by another version."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened to an actor or a job."""

    entry_id: str
    kind: Literal["failure", "dead", "joined", "left"]
    actor_id: str
    job_id: str = ""
    attempt: int = 0
    report: FailureReport | None = None
    """With "failure" always; with "dead" where the last actor reported."""
    reasons: tuple[str, ...] = ()
    """With "dead": why each attempt failed."""
