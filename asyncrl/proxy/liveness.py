"""Who is alive and which jobs stand still, judged on this process's monotonic clock alone.

An actor is alive while its beat sequence keeps changing; ages by anybody's wall clock never decide,
so that neither a clock jump nor a restarted server kills anyone. Pure: times are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from asyncrl.broker import ActorPresence, PendingJob
from asyncrl.metrics import ActorChange


@dataclass(frozen=True)
class Transition:
    """An actor's state changed."""

    actor_id: str
    change: ActorChange
    reason: str


@dataclass(frozen=True)
class Stuck:
    """A delivered job that its actor will not finish."""

    job: PendingJob
    reason: str


@dataclass
class _Seen:
    sequence: int
    since: float
    alive: bool = True


@dataclass
class _Progress:
    env_steps: int
    since: float


class Liveness:
    """Remembers beats and progress between looks.

    Args:
        dead_after: Seconds without a new beat after which an actor is dead.
        stall_timeout: Seconds without a step of progress after which a job is stalled.
        job_timeout: Seconds after which a job is stalled whatever it reports; None for no limit.
    """

    def __init__(
        self, dead_after: float, stall_timeout: float, job_timeout: float | None = None
    ) -> None:
        self._dead_after = dead_after
        self._stall_timeout = stall_timeout
        self._job_timeout = job_timeout
        self._actors: dict[str, _Seen] = {}
        self._progress: dict[str, _Progress] = {}
        self._first_seen: dict[str, float] = {}

    @property
    def alive(self) -> int:
        """Actors alive at the last look."""
        return sum(seen.alive for seen in self._actors.values())

    def is_alive(self, actor_id: str) -> bool:
        """Whether an actor was alive at the last look."""
        return actor_id in self._actors and self._actors[actor_id].alive

    def reset(self, now: float) -> None:
        """Give everybody a full grace period, after this process was cut off from the server."""
        for seen in self._actors.values():
            seen.since = now
        for progress in self._progress.values():
            progress.since = now
        self._first_seen = dict.fromkeys(self._first_seen, now)

    def observe(self, actors: Iterable[ActorPresence], now: float) -> list[Transition]:
        """Take a look at who beats; return what changed since the last look."""
        changes: list[Transition] = []
        present = {actor.actor_id: actor for actor in actors}
        for actor_id, actor in present.items():
            seen = self._actors.get(actor_id)
            if seen is None or (actor.sequence != seen.sequence and not seen.alive):
                reason = "" if seen is None else "it beats again"
                self._actors[actor_id] = _Seen(actor.sequence, now)
                changes.append(Transition(actor_id, ActorChange.JOINED, reason))
            elif actor.sequence != seen.sequence:
                seen.sequence, seen.since = actor.sequence, now
            elif seen.alive and now - seen.since >= self._dead_after:
                seen.alive = False
                reason = f"no heartbeat for {now - seen.since:.1f} s"
                changes.append(Transition(actor_id, ActorChange.DEAD, reason))
        gone = [actor_id for actor_id in self._actors if actor_id not in present]
        left = [actor_id for actor_id in gone if self._actors.pop(actor_id).alive]
        return changes + [Transition(actor_id, ActorChange.LEFT, "") for actor_id in left]

    def stuck(
        self, pending: Iterable[PendingJob], actors: Iterable[ActorPresence], now: float
    ) -> list[Stuck]:
        """Return the delivered jobs that should go to somebody else, each with the reason.

        A finished result that waits for room stands still through no fault of its actor: while that
        lives it is left alone, and afterwards its clocks start anew.
        """
        jobs, present = list(pending), {actor.actor_id: actor for actor in actors}
        for job in jobs:
            self._first_seen.setdefault(job.token, now)
        for token in self.waiting(jobs, present.values()):
            self._first_seen[token] = now
            self._progress.pop(token, None)
        held = {actor_id: actor.held for actor_id, actor in present.items()}
        reasons = [self._owner_gone(job, now) or self._no_progress(job, held, now) for job in jobs]
        tokens = {job.token for job in jobs}
        self._first_seen = {t: at for t, at in self._first_seen.items() if t in tokens}
        self._progress = {t: each for t, each in self._progress.items() if t in tokens}
        return [Stuck(job, why) for job, why in zip(jobs, reasons, strict=True) if why]

    def waiting(
        self, pending: Iterable[PendingJob], actors: Iterable[ActorPresence]
    ) -> dict[str, int]:
        """Return token -> bytes of room for each delivered job that a living actor has finished."""
        said = {
            (actor.actor_id, token): nbytes
            for actor in actors
            if self.is_alive(actor.actor_id)
            for token, nbytes in actor.waiting.items()
        }
        return {
            job.token: said[job.actor_id, job.token]
            for job in pending
            if (job.actor_id, job.token) in said
        }

    def _owner_gone(self, job: PendingJob, now: float) -> str:
        seen = self._actors.get(job.actor_id)
        if seen is None:
            gone = now - self._first_seen[job.token] >= self._dead_after
            return f"actor {job.actor_id} is gone" if gone else ""
        if seen.alive:
            return ""
        return f"actor {job.actor_id} is dead: no heartbeat for {now - seen.since:.1f} s"

    def _no_progress(
        self, job: PendingJob, held: Mapping[str, Mapping[str, int]], now: float
    ) -> str:
        waited = now - self._first_seen[job.token]
        if self._job_timeout is not None and waited >= self._job_timeout:
            return f"it runs for {waited:.1f} s, longer than job_timeout={self._job_timeout:g} s"
        if job.actor_id not in self._actors:
            return ""
        steps = held.get(job.actor_id, {}).get(job.token)
        if steps is None:
            forgotten = waited >= self._dead_after
            return f"actor {job.actor_id} does not hold it" if forgotten else ""
        progress = self._progress.setdefault(job.token, _Progress(steps, now))
        if progress.env_steps != steps:
            progress.env_steps, progress.since = steps, now
        still = now - progress.since
        stalled = still >= self._stall_timeout
        return f"stalled: no step in {still:.1f} s on actor {job.actor_id}" if stalled else ""
