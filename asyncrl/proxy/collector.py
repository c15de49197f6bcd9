"""The one contract between a learner and whatever collects for it.

`Actor` (in this process) and `ActorProxy` (over Redis) both are a `Collector`; a learner cannot
tell which one it has, except by `Collection.concurrent`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from asyncrl.data import EnvSpec, FailureReport, RolloutJob, RolloutResult, RunSpec, WeightSet
from asyncrl.metrics import Sink


@dataclass(frozen=True, kw_only=True, eq=False)
class Delivery:
    """A result that was accepted for good; it counts exactly once.

    `receipt` names it towards `Collection.settle`. A delivery that is never settled comes back from
    `Collection.unsettled` of the next learner on the run.
    """

    result: RolloutResult
    receipt: str
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class LostJob:
    """A job that will not be delivered: it failed on every attempt."""

    job: RolloutJob
    report: FailureReport


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """How much may be accepted and not settled before actors must wait."""

    results: int
    nbytes: int
    """Bytes of these results."""


@dataclass(frozen=True, kw_only=True)
class CollectionStatus:
    """Numbers to show; at most a few seconds old."""

    actors: int = 1
    queued_jobs: int = 0
    waiting_results: int = 0
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    """For example ``reassigned``, ``failed``, ``dead``, ``rejected``."""


class Collection(Protocol):
    """An open run. Obtained from `Collector.open`, valid until that context ends."""

    @property
    def concurrent(self) -> bool:
        """Whether jobs run while the learner does something else.

        False for the local actor, which runs a job inside `receive`: the serial, bit-exact mode.
        """
        ...

    @property
    def generation(self) -> int:
        """Generation of this learner; 0 without a broker."""
        ...

    @property
    def published(self) -> int:
        """Version of the newest weight set on the run when it was opened; 0 for none."""
        ...

    @property
    def capacity(self) -> Capacity | None:
        """How much may be accepted and not settled before actors must wait; None: any amount."""
        ...

    async def unsettled(self) -> Sequence[Delivery]:
        """Return results accepted earlier that no checkpoint covers yet, in the order accepted."""
        ...

    async def publish(self, weights: WeightSet) -> None:
        """Make `weights` the ones to act with. Raises `Fenced` when a newer learner took over."""
        ...

    async def submit(self, job: RolloutJob) -> None:
        """Hand out `job`; waits while the bound on queued, running and unread work is reached."""
        ...

    async def receive(self) -> Delivery | LostJob:
        """Wait for the next outcome of any submitted job; every job has exactly one.

        Raises:
            NoRoom: nothing can come before deliveries are settled; do so and call again.
            WaitTimeout: nothing came within the collector's own deadline.
            EnvironmentFailure: the local actor's environment raised.
        """
        ...

    def outstanding(self) -> Sequence[RolloutJob]:
        """Return the jobs that were submitted and have no outcome, oldest first."""
        ...

    async def cancel(self, job_ids: Sequence[str]) -> None:
        """Give up jobs: they have no outcome any more, save results accepted before this call."""
        ...

    async def settle(self, trained: Sequence[str], dropped: Mapping[str, str]) -> None:
        """Let go of deliveries for good: those learned from, and others by receipt -> reason."""
        ...

    async def finish(self) -> None:
        """Say that the run is complete, so that its actors leave."""
        ...

    def status(self) -> CollectionStatus:
        """Return numbers to show."""
        ...


class Collector(Protocol):
    """Whatever can collect rollouts for a run."""

    @property
    def env(self) -> EnvSpec:
        """The environments it collects in."""
        ...

    @property
    def run(self) -> str:
        """Name of the run it collects for."""
        ...

    def open(self, spec: RunSpec, sink: Sink) -> AbstractAsyncContextManager[Collection]:
        """Start collecting for the run; events (actors joining, failures) go to `sink`."""
        ...
