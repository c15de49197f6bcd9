"""The stream of accepted results: the training's write-ahead log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import anyio

from asyncrl.broker import scripts
from asyncrl.broker.client import milliseconds
from asyncrl.broker.decode import clean_reason
from asyncrl.broker.keys import START
from asyncrl.broker.nouns import Rejected, ResultEntry
from asyncrl.broker.session import Session, as_count, as_fields, as_text
from asyncrl.data import FailureReport, JobKind, RolloutJob
from asyncrl.errors import BrokerRefused, StateError
from asyncrl.wire import encode_failure, encode_job

_PAGE = 16
"""Entries read in one command: inline payloads are below `blob_threshold` each."""
_CHUNK = 500
"""Results acked in one step."""


class ResultStream:
    """Accepted results, oldest first, each there until it is acked.

    One learner reads with a cursor of its own: nothing is ever delivered to somebody, so no reply
    that is lost, no cancelled read and no learner that was replaced can take a result out of sight.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reader = session.client.reader()
        self._cursor = START
        self._lock = anyio.Lock()

    def start_after(self, entry_id: str) -> None:
        """Let `read` go on behind `entry_id`; what is up to it is `read_pending`'s."""
        self._cursor = entry_id

    async def read(self, count: int = 8, *, block: bool = True) -> list[ResultEntry]:
        """Return up to `count` results that this broker has not returned yet, oldest first.

        After `Broker.create_run` these are the results accepted since; the earlier ones come from
        `read_pending`. Waits up to `block_seconds` for one, then returns []. May be cancelled at
        any point without losing any.

        Raises:
            Fenced: A newer learner took the run over; noticed when there is nothing to read.
        """
        session = self._session
        await session.attach()
        wait = ("BLOCK", milliseconds(session.config.block_seconds)) if block else ()
        async with self._lock:
            reply = await session.client.persist(
                lambda: self._reader.command(
                    *("XREAD", "COUNT", count, *wait),
                    *("STREAMS", session.keys.results, self._cursor),
                )
            )
            if not reply:
                await session.call(scripts.CHECK)
                return []
            entries = await self._entries(reply[0][1])
            self._cursor = entries[-1].entry_id
            return entries

    async def read_pending(self, after: str = START, count: int | None = None) -> list[ResultEntry]:
        """Return results that are not acked though they were there before, oldest first.

        These are the ones accepted before this broker took the run over, and those `read` returned.
        `after` and `count` page through them: up to `max_result_bytes` may be waiting.
        """
        session = self._session
        await session.attach()
        entries: list[ResultEntry] = []
        while count is None or len(entries) < count:
            page = _PAGE if count is None else min(_PAGE, count - len(entries))
            start = f"({entries[-1].entry_id if entries else after}"
            rows = await session.client.persist(
                lambda start=start, page=page: session.client.command(
                    "XRANGE", session.keys.results, start, self._cursor, "COUNT", page
                )
            )
            entries += await self._entries(rows)
            if len(rows) < page:
                break
        return entries

    async def ack(self, trained: Iterable[str], dropped: Mapping[str, str], generation: int) -> int:
        """Take results off the log, with their blobs, and count what became of them.

        Args:
            trained: Entry ids that a checkpoint covers.
            dropped: Entry id -> why it is not learned from (a short word; the ledger counts by it).
            generation: The learner's.

        Returns:
            How many were on the log; one that was acked before is not counted again.

        Raises:
            Fenced: A newer learner took the run over; nothing was changed.
        """
        reasons = dict.fromkeys(trained, "")
        for entry_id, reason in dropped.items():
            if not reason:
                raise StateError(f"result {entry_id} is dropped without a reason; name one")
            reasons.setdefault(entry_id, reason)
        ids = list(reasons)
        acked = 0
        for start in range(0, max(1, len(ids)), _CHUNK):  # nothing to ack is still fenced
            chunk = ids[start : start + _CHUNK]
            args = [part for entry_id in chunk for part in (entry_id, reasons[entry_id])]
            reply = await self._session.call(
                scripts.ACK, *args, keys=await self._blobs(chunk), generation=generation
            )
            acked += int(reply[1])
        return acked

    async def reject(
        self, entry: ResultEntry, report: FailureReport, job: RolloutJob | None
    ) -> Rejected:
        """Refuse a result that cannot be used: it is off the log and kept among the dead, once.

        Args:
            entry: The result.
            report: Why; it is kept among the events too.
            job: What to do again: as its next attempt, unless all `max_attempts` are spent. None
                where nobody waits for it.

        Raises:
            Fenced: A newer learner took the run over; nothing was changed.
        """
        reply = await self._session.call(
            scripts.REJECT,
            *(entry.entry_id, clean_reason(f"{report.where}: {report.cause}")),
            *(encode_failure(report), b"" if job is None else encode_job(job)),
            keys=await self._blobs([entry.entry_id]),
        )
        return Rejected(reply[0])

    async def waiting(self) -> int:
        """Return the number of results that are not acked."""
        return int((await self._session.call(scripts.COUNTS))[2])

    async def _blobs(self, ids: Sequence[str]) -> list[str]:
        """Return the blob keys of those results that have one."""
        if not ids:
            return []
        session = self._session
        await session.attach()
        sizes = await session.client.persist(
            lambda: session.client.command("HMGET", session.keys.sizes, *ids)
        )
        blobs = [as_text(size).partition("|")[2] for size in sizes if size]
        return [blob for blob in blobs if self._is_blob(blob)]

    def _is_blob(self, key: str) -> bool:
        """Return whether a key that an entry names may be a payload: it is no other key of ours."""
        return key.startswith(self._session.keys.blob(""))

    async def _payload(self, blob: str) -> bytes | None:
        """Return what is in a blob; None when it is gone, or was never one."""
        client = self._session.client
        if not self._is_blob(blob):
            return None
        try:
            return await client.persist(lambda: client.command("GET", blob))
        except BrokerRefused as error:
            if "WRONGTYPE" in str(error):
                return None
            raise

    async def _entries(self, rows: Sequence[Any]) -> list[ResultEntry]:
        return [await self._entry(as_text(row[0]), as_fields(row[1])) for row in rows]

    async def _entry(self, entry_id: str, fields: dict[str, bytes]) -> ResultEntry:
        payload = fields.get("p")
        if payload is None and "b" in fields:
            payload = await self._payload(as_text(fields["b"]))
        return ResultEntry(
            entry_id=entry_id,
            job_id=as_text(fields.get("j", b"")),
            kind=JobKind.EVAL if fields.get("k") == b"eval" else JobKind.TRAIN,
            attempt=as_count(fields, "n"),
            generation=as_count(fields, "g"),
            actor_id=as_text(fields.get("a", b"")),
            env_steps=as_count(fields, "e"),
            payload=payload,
            nbytes=as_count(fields, "s"),
        )
