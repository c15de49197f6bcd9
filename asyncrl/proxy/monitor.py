"""Watches actors and jobs: says who joined and died, and gives stuck jobs to somebody else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence

import anyio

from asyncrl.broker import (
    ActorPresence,
    Backlog,
    Broker,
    Event,
    PendingJob,
    ReassignStatus,
    RunLimits,
)
from asyncrl.broker.keys import START
from asyncrl.data import FailureReport
from asyncrl.metrics import (
    ActorChange,
    ActorChanged,
    JobFailed,
    JobReassigned,
    Level,
    Message,
    Sink,
)
from asyncrl.proxy.collector import LostJob
from asyncrl.proxy.config import ProxyConfig
from asyncrl.proxy.liveness import Liveness, Stuck
from asyncrl.proxy.room import Room, RoomLook

_TIDY_INTERVAL = 60.0
"""Seconds between two sweeps of the names that crashed actors left on the server."""

_MIB = 1024 * 1024


class Monitor:
    """One look every `monitor_interval`.

    Args:
        broker: The run.
        limits: What the run may hold.
        config: Options.
        sink: Where changes go.
        counters: Counts of ``reassigned``, ``failed``, ``dead`` and the like, kept up here.
        lost: Turns the last report of a dead job into its outcome; None when nobody waits for it.
    """

    def __init__(
        self,
        broker: Broker,
        limits: RunLimits,
        config: ProxyConfig,
        sink: Sink,
        counters: Counter[str],
        lost: Callable[[FailureReport], LostJob | None],
    ) -> None:
        self._broker = broker
        self._config = config
        self._sink = sink
        self._counters = counters
        self._lost = lost
        self._liveness = Liveness(config.dead_after, config.stall_timeout, config.job_timeout)
        self.room = Room(limits, config.warn_interval)
        """Who waits for room, as of the last look."""
        self._events_after = ""
        self._rejected: set[str] = set()
        self._full = False
        self._looked: float | None = None
        self._tidied = time.monotonic()
        self.backlog = Backlog()
        """What waits on the server, as of the last look."""

    @property
    def alive(self) -> int:
        """Actors alive at the last look."""
        return self._liveness.alive

    async def run(self, put: Callable[[LostJob], Awaitable[None]], *, new: bool) -> None:
        """Look for ever; outcomes of dead jobs go to `put`.

        All events of a `new` run are told: an actor that waited for it may have failed before now.
        """
        self._events_after = START if new else await self._broker.events.latest()
        while True:
            for lost in await self.look():
                await put(lost)
            await anyio.sleep(self._config.monitor_interval)

    async def look(self) -> list[LostJob]:
        """Look once; return the jobs that are given up for good."""
        await self._watch_memory()
        seen = await self._broker.presence.roll_call()
        actors = seen.actors
        self._refuse(seen.rejected)
        pending = await self._broker.jobs.pending()
        self.backlog = await self._broker.backlog()
        now = time.monotonic()
        if self._looked is not None and now - self._looked > self._config.dead_after / 2:
            self._liveness.reset(now)
        self._looked = now
        for change in self._liveness.observe(actors, now):
            self._sink.write(
                ActorChanged(
                    actor=change.actor_id,
                    change=change.change,
                    reason=change.reason,
                    actors=self.alive,
                )
            )
            if change.change is ActorChange.DEAD:
                self._counters["actors_dead"] += 1
        if now - self._tidied >= _TIDY_INTERVAL:
            self._tidied = now
            await self._broker.presence.retire_idle(self._config.forget_after)
        self._watch_room(pending, actors, now)
        for stuck in self._liveness.stuck(pending, actors, now):
            await self._reassign(stuck)
        return await self._read_events()

    async def _watch_memory(self) -> None:
        """Say when the server becomes full, since all that stores something then just waits."""
        memory = await self._broker.memory()
        if memory is None or memory.full == self._full:
            return
        self._full = memory.full
        if memory.full:
            self._counters["out_of_memory"] += 1
            text = (
                f"Redis at {self._broker.address} is out of memory: {memory.used / _MIB:.1f} MiB "
                f"used of maxmemory {memory.limit / _MIB:.1f} MiB; jobs, results and weights wait "
                "until it is raised, or other data removed"
            )
            self._sink.write(Message(level=Level.WARNING, text=text))
        else:
            text = f"Redis at {self._broker.address} has memory again"
            self._sink.write(Message(level=Level.INFO, text=text))

    def _watch_room(
        self, pending: Sequence[PendingJob], actors: Sequence[ActorPresence], now: float
    ) -> None:
        """Say when finished results wait for room, by which limit, and when it is over."""
        waiting = self._liveness.waiting(pending, actors)
        idle = any(self._liveness.is_alive(a.actor_id) and not a.waiting for a in actors)
        busy = len(waiting) < len(pending) or (self.backlog.queued > 0 and idle)
        news = self.room.look(RoomLook(waiting, busy, self.backlog), now)
        if news is None:
            return
        if self.room.told:
            self._counters["no_room"] += 1
        level = Level.WARNING if self.room.told else Level.INFO
        self._sink.write(Message(level=level, text=news))

    def _refuse(self, rejected: Iterable[str]) -> None:
        """Say, once an actor, whose record cannot be read; such an actor is not there."""
        for actor_id in rejected:
            if actor_id not in self._rejected:
                self._rejected.add(actor_id)
                self._counters["rejected_beats"] += 1
                text = (
                    f"the heartbeat of actor {actor_id!r} cannot be read, so it counts as not "
                    "there; does it run the same version of asyncrl?"
                )
                self._sink.write(Message(level=Level.WARNING, text=text))

    async def _reassign(self, stuck: Stuck) -> None:
        """Give a stuck job to somebody else; one that is dead now shows up among the events."""
        job = stuck.job
        answer = await self._broker.jobs.reassign(job.token, job.kind, stuck.reason)
        if answer.status is ReassignStatus.REASSIGNED:
            self._counters["reassigned"] += 1
            self._sink.write(
                JobReassigned(
                    job=job.job_id,
                    actor=job.actor_id,
                    attempt=answer.attempt,
                    reason=stuck.reason,
                )
            )

    async def _read_events(self) -> list[LostJob]:
        """Report failures since the last look; return the outcomes of dead jobs."""
        outcomes: list[LostJob] = []
        for event in await self._broker.events.tail(self._events_after):
            self._events_after = event.entry_id
            if event.kind == "failure" and event.report is not None:
                self._counters["failed"] += 1
                self._sink.write(_failed(event.report, dead=False))
            elif event.kind == "dead":
                outcomes += self._dead(event.report or _unreported(event))
        return outcomes

    def _dead(self, report: FailureReport) -> list[LostJob]:
        self._counters["dead"] += 1
        self._sink.write(_failed(report, dead=True))
        lost = self._lost(report)
        return [] if lost is None else [lost]


def _unreported(event: Event) -> FailureReport:
    """Return the report of a dead job whose last actor never said what went wrong."""
    return FailureReport(
        actor_id=event.actor_id,
        job_id=event.job_id,
        attempt=event.attempt,
        where="running the job",
        cause="; then ".join(event.reasons) or "its actors died",
    )


def _failed(report: FailureReport, *, dead: bool) -> JobFailed:
    return JobFailed(
        actor=report.actor_id,
        job=report.job_id,
        attempt=report.attempt,
        where=report.where,
        cause=report.cause,
        traceback=report.traceback,
        seed=report.seed,
        dead=dead,
    )
