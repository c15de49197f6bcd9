"""The job queue: hand out, take, hand in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from asyncrl.broker import scripts
from asyncrl.broker.client import OutOfMemory
from asyncrl.broker.decode import clean_reason, dead_job_of
from asyncrl.broker.intake import Intake, fail_attempt
from asyncrl.broker.nouns import (
    Begun,
    Completed,
    DeadJob,
    PendingJob,
    Reassigned,
    ReassignStatus,
    Submitted,
    TakenJob,
)
from asyncrl.broker.session import Session, as_number, as_text
from asyncrl.data import FailureReport, JobKind, RolloutJob
from asyncrl.errors import StateError
from asyncrl.wire import encode_job

_CHUNK = 1000
"""Jobs cancelled in one step, so that the server is not blocked for long."""


class JobQueue:
    """Jobs of one run, each queued or running at most once, and accepted at most once.

    Every method waits out outages of up to `BrokerConfig.outage_timeout`, then raises
    `BrokerUnavailable`; each may be repeated after any error. All raise `RunNotFound`,
    `RunStateLost` and, on the learner's side, `Fenced`, in which case nothing was changed.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._intake = Intake(session)

    # -- the learner's side ---------------------------------------------------------------------

    async def submit(self, job: RolloutJob) -> Submitted:
        """Queue a job, once however often it is submitted; `Fenced` for an old generation."""
        if job.generation < 1:
            raise StateError(
                f"job {job.job_id} is of generation {job.generation}, but a queued job belongs to "
                "a learner's; set it from RunInfo.generation"
            )
        try:
            reply = await self._session.call(
                scripts.SUBMIT,
                *(job.job_id, job.kind.value, encode_job(job)),
                generation=job.generation,
                wait_for_memory=False,
            )
        except OutOfMemory:
            return Submitted.FULL
        return Submitted(reply[0])

    async def cancel(self, job_ids: Iterable[str]) -> list[str]:
        """Cancel jobs, queued or running; return those of them that are cancelled, now or before.

        A job that is not returned was accepted, is dead, or was never there. Whoever runs a
        cancelled one hears of it at its next beat, and its result is answered STALE.
        """
        ids = list(job_ids)
        cancelled: list[str] = []
        for start in range(0, len(ids), _CHUNK):
            reply = await self._session.call(scripts.CANCEL, *ids[start : start + _CHUNK])
            cancelled += [as_text(job) for job in reply[1:]]
        return cancelled

    async def pending(self) -> list[PendingJob]:
        """Return every attempt that was delivered and is not finished."""
        reply = await self._session.call(scripts.PENDING)
        return [
            PendingJob(
                job_id=as_text(job),
                token=as_text(token),
                actor_id=as_text(actor),
                idle_seconds=as_number(idle) / 1000,
                attempt=as_number(attempt),
                kind=JobKind(as_text(kind)),
            )
            for kind, token, actor, idle, job, attempt in reply[1:]
        ]

    async def reassign(
        self, token: str, kind: JobKind, reason: str, *, counts: bool = True
    ) -> Reassigned:
        """Take an attempt away from an actor that does not finish it, and queue the job again.

        At `max_attempts` the job goes among the dead instead, with the reason of every attempt.
        With `counts` false the attempt is not held against the job.
        """
        reply = await self._session.call(
            scripts.REASSIGN, token, kind.value, clean_reason(reason), int(counts)
        )
        return Reassigned(ReassignStatus(reply[0]), as_text(reply[1]), int(reply[2]))

    async def queued(self) -> int:
        """Return the number of jobs that were not delivered yet."""
        return int((await self._session.call(scripts.COUNTS))[1])

    async def live(self) -> set[str]:
        """Return the ids of all unfinished jobs, queued or running."""
        session = self._session
        await session.attach()
        found = await session.client.persist(
            lambda: session.client.command("HKEYS", session.keys.live)
        )
        return {as_text(job) for job in found}

    async def dead(self, count: int = 100) -> list[DeadJob]:
        """Return the last `count` dead jobs and bad results, newest first."""
        session = self._session
        await session.attach()
        found = await session.client.persist(
            lambda: session.client.command("XREVRANGE", session.keys.dead, "+", "-", "COUNT", count)
        )
        return [dead_job_of(entry) for entry in found]

    # -- the actor's side -----------------------------------------------------------------------

    async def take(
        self, actor_id: str, kinds: Sequence[JobKind], count: int = 1, *, block: bool = True
    ) -> list[TakenJob]:
        """Return up to `count` jobs for the actor, evaluation first; wait `block_seconds` for one.

        May be cancelled at any point: what was delivered meanwhile comes with the next take of the
        same actor id on this broker. An actor id must be new for every start of the process, so
        that no two processes share deliveries. A wait that is answered with more than `count` jobs
        (one of each kind) gives the surplus back at once, no attempt spent.
        """
        if count < 1 or not kinds:
            raise StateError(f"{count} jobs of kinds {list(kinds)} are no jobs; ask for some")
        return await self._intake.take(actor_id, kinds, count, block=block)

    async def begin(self, actor_id: str, taken: TakenJob) -> Begun:
        """Ask, right before working on it, whether an attempt is still the actor's."""
        reply = await self._session.call(
            scripts.BEGIN,
            *(actor_id, taken.job.kind.value, taken.token, taken.job.job_id),
            generation=0,
        )
        ok = bool(reply[1])
        if not ok:
            self._intake.ended(actor_id, taken.token)
        return Begun(ok, int(reply[2] or 0), int(reply[3] or 0))

    async def complete(
        self, actor_id: str, taken: TakenJob, payload: bytes, env_steps: int
    ) -> Completed:
        """Hand in the result of an attempt: accepted, acknowledged and counted in one step.

        A payload of `blob_threshold` bytes or more is uploaded to a key of its own first, which
        expires unless the result is accepted. After FULL call again with the same arguments.
        """
        large = len(payload) >= self._session.config.blob_threshold
        try:
            if large:
                status = await self._complete_blob(actor_id, taken, payload, env_steps)
            else:
                status = await self._commit(actor_id, taken, len(payload), env_steps, payload)
        except OutOfMemory:
            return Completed.FULL
        if status != Completed.FULL:
            self._intake.ended(actor_id, taken.token)
        return Completed(status)

    async def fail(self, actor_id: str, taken: TakenJob, report: FailureReport) -> Reassigned:
        """Give an attempt back because it raised: the job runs again, or is dead at `max_attempts`.

        The report is kept among the events. `report.actor_id` must be `actor_id`.
        """
        if report.actor_id != actor_id:
            raise StateError(
                f"the report is by {report.actor_id!r}, not by {actor_id!r}; report for oneself"
            )
        reply = await fail_attempt(self._session, taken.job.kind, taken.token, report)
        self._intake.ended(actor_id, taken.token)
        return Reassigned(ReassignStatus(reply[0]), as_text(reply[1]), int(reply[2]))

    async def release(self, actor_id: str, taken: TakenJob) -> bool:
        """Give an attempt back unfinished, unspent; False when it is not the actor's any more."""
        released = await self._intake.release(actor_id, [(taken.job.kind, taken.token)])
        self._intake.ended(actor_id, taken.token)
        return released == 1

    async def _complete_blob(
        self, actor_id: str, taken: TakenJob, payload: bytes, env_steps: int
    ) -> str:
        """Upload the payload, unless it will not be accepted, then commit a reference to it."""
        session, job = self._session, taken.job
        blob = session.keys.blob(taken.token)
        while True:
            admitted, ttl = await session.call(
                scripts.ADMIT,
                *(actor_id, job.kind.value, taken.token, job.job_id, len(payload)),
                generation=0,
            )
            if admitted == "FULL":
                return admitted
            if admitted == "OK":
                await session.client.persist(
                    lambda ttl=ttl: session.client.command("SET", blob, payload, "PX", ttl),
                    wait_for_memory=False,
                )
            status = await self._commit(actor_id, taken, len(payload), env_steps, blob)
            if status == Completed.STALE:
                await session.client.persist(lambda: session.client.command("UNLINK", blob))
            if status != "NOBLOB":  # it expired meanwhile
                return status

    async def _commit(
        self, actor_id: str, taken: TakenJob, nbytes: int, env_steps: int, payload: bytes | str
    ) -> str:
        """Run the script that accepts a result: `payload` itself, or the key of its blob."""
        job = taken.job
        inline, keys = (b"", [payload]) if isinstance(payload, str) else (payload, [])
        reply = await self._session.call(
            scripts.COMPLETE,
            *(actor_id, job.kind.value, taken.token, job.job_id, int(env_steps), nbytes, inline),
            keys=keys,
            generation=0,
            wait_for_memory=False,
        )
        return reply[0]
