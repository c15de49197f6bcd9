"""How jobs reach an actor: nothing delivered is ever lost sight of."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from asyncrl.broker import scripts
from asyncrl.broker.client import milliseconds
from asyncrl.broker.decode import clean_reason
from asyncrl.broker.keys import GROUP
from asyncrl.broker.nouns import TakenJob
from asyncrl.broker.session import Session, as_count, as_fields, as_text
from asyncrl.data import FailureReport, JobKind
from asyncrl.errors import WireError
from asyncrl.wire import decode_job, encode_failure

_READERS = 64
"""Most actors that wait for jobs over one broker at the same time; usually there is one."""
_MARGIN_SECONDS = 1.0

Row = tuple[JobKind, str, dict[str, bytes]]
"""Kind, token and fields of a delivered job."""


@dataclass
class _Actor:
    """What this broker knows of one actor's deliveries."""

    taken: set[str] = field(default_factory=set[str])
    """Tokens handed to the actor and not ended."""
    unsure: bool = True
    """Something may have been delivered whose reply was never seen."""
    more_unseen: bool = False
    """More was delivered unseen than the last take had room for."""
    unsure_until: float = 0.0
    """Until then (monotonic seconds) a wait that broke off may still be delivered to."""
    lock: anyio.Lock = field(default_factory=anyio.Lock)


class Intake:
    """Takes jobs for actors.

    A delivery whose reply is lost (a broken connection, a cancelled take) stays pending to the
    actor. So after anything but a clean answer the actor's own pending jobs are looked at before
    new ones are asked for, and as long as the server might still deliver to the connection that
    broke.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reader = session.client.reader(_READERS)
        self._actors: dict[str, _Actor] = {}

    async def take(
        self, actor_id: str, kinds: Sequence[JobKind], count: int, *, block: bool
    ) -> list[TakenJob]:
        """Return up to `count` jobs, evaluation first."""
        actor = self._actors.setdefault(actor_id, _Actor())
        asked = [kind for kind in (JobKind.EVAL, JobKind.TRAIN) if kind in kinds]
        await self._session.attach()
        async with actor.lock:

            async def read() -> list[Row]:
                rows = await self._at_once(actor, actor_id, asked, count)
                if rows or not block:
                    return rows
                return await self._wait(actor, actor_id, asked, count)

            rows = await self._session.client.persist(read)
            jobs = await self._decode(actor_id, rows)
            # No await from here on: what is returned is known to be held.
            actor.unsure = actor.more_unseen or time.monotonic() <= actor.unsure_until
            actor.taken.update(job.token for job in jobs)
            return jobs

    def ended(self, actor_id: str, token: str) -> None:
        """Note that an attempt is over for its actor."""
        if actor_id in self._actors:
            self._actors[actor_id].taken.discard(token)

    async def release(self, actor_id: str, attempts: Sequence[tuple[JobKind, str]]) -> int:
        """Give attempts back unfinished; return how many were still the actor's."""
        pairs = [part for kind, token in attempts for part in (kind.value, token)]
        reply = await self._session.call(scripts.RELEASE, actor_id, *pairs, generation=0)
        return int(reply[1])

    async def _at_once(
        self, actor: _Actor, actor_id: str, kinds: Sequence[JobKind], count: int
    ) -> list[Row]:
        """Return what can be had without waiting, what was delivered unseen first."""
        names = [kind.value for kind in kinds]
        if actor.unsure:
            both = [kind.value for kind in JobKind]
            reply = await self._session.once(scripts.OWN, actor_id, *both, generation=0)
            own = [_row(*row) for row in reply[1:]]
            actor.taken &= {token for _, token, _ in own}
            unseen = [row for row in own if row[1] not in actor.taken]
            wanted = sorted((row for row in unseen if row[0] in kinds), key=_eval_first)[:count]
            actor.more_unseen = len(unseen) > len(wanted)
            if wanted:
                return wanted
        actor.unsure = True
        reply = await self._session.once(scripts.TAKE, actor_id, count, *names, generation=0)
        return [_row(*row) for row in reply[1:]]

    async def _wait(
        self, actor: _Actor, actor_id: str, kinds: Sequence[JobKind], count: int
    ) -> list[Row]:
        """Wait on the server for up to `count` jobs, at most `block_seconds`."""
        config, before = self._session.config, actor.unsure_until
        actor.unsure_until = time.monotonic() + config.block_seconds + _MARGIN_SECONDS
        streams = {self._session.keys.jobs(kind): kind for kind in kinds}
        reply = await self._reader.command(
            "XREADGROUP", "GROUP", GROUP, actor_id, "COUNT", count,
            "BLOCK", milliseconds(config.block_seconds), "STREAMS", *streams, *[">"] * len(streams),
        )  # fmt: skip
        rows = [
            _row(streams[as_text(stream)].value, *entry)
            for stream, entries in reply or ()
            for entry in entries
        ]
        # COUNT holds for each stream, so that a job of each kind may come at once.
        surplus = [(kind, token) for kind, token, _ in rows[count:]]
        if surplus:
            await self.release(actor_id, surplus)
        actor.unsure_until = before
        return rows[:count]

    async def _decode(self, actor_id: str, rows: Sequence[Row]) -> list[TakenJob]:
        """Return the jobs of `rows`; one that cannot be read fails right here, with its reason."""
        jobs: list[TakenJob] = []
        for kind, token, fields in rows:
            attempt = max(1, as_count(fields, "n"))
            try:
                job = replace(decode_job(fields.get("p", b"")), attempt=attempt)
            except WireError as error:
                report = FailureReport(
                    actor_id=actor_id,
                    job_id=as_text(fields.get("j", b"")),
                    attempt=attempt,
                    where="reading the job",
                    cause=str(error),
                )
                await fail_attempt(self._session, kind, token, report)
            else:
                jobs.append(TakenJob(job, token))
        return jobs


async def fail_attempt(
    session: Session, kind: JobKind, token: str, report: FailureReport
) -> list[Any]:
    """Give an attempt back with the reason why it failed; return the script's reply."""
    reason = f"{report.where}: {report.cause} (attempt {report.attempt}, actor {report.actor_id})"
    return await session.call(
        scripts.FAIL,
        *(token, kind.value, clean_reason(reason), report.actor_id, encode_failure(report)),
        generation=0,
    )


def _eval_first(row: Row) -> bool:
    return row[0] is not JobKind.EVAL


def _row(kind: Any, token: Any, fields: Any) -> Row:
    return JobKind(as_text(kind)), as_text(token), as_fields(fields)
