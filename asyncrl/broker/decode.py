"""Rows of the scripts' replies into the broker's nouns."""

from __future__ import annotations

from typing import Any

from asyncrl.broker.nouns import DeadJob, Event
from asyncrl.broker.session import as_count, as_fields, as_text
from asyncrl.data import FailureReport, JobKind
from asyncrl.errors import WireError
from asyncrl.wire import decode_failure

REASON_SEPARATOR = "\x1e"
"""Stands between the reasons of a job's attempts (ASCII record separator)."""
REASON_LENGTH = 2000
"""Characters kept of one attempt's reason."""

_EVENT_KINDS = ("failure", "dead", "joined", "left")


def clean_reason(reason: str) -> str:
    """Return a reason that can stand in a list of reasons."""
    return reason.replace(REASON_SEPARATOR, " ")[:REASON_LENGTH]


def event_of(entry: Any) -> Event | None:
    """Return the event of a stream entry; None for one of a kind this version does not know."""
    fields = as_fields(entry[1])
    kind = as_text(fields.get("t", b""))
    if kind not in _EVENT_KINDS:
        return None
    return Event(
        entry_id=as_text(entry[0]),
        kind=kind,
        actor_id=as_text(fields.get("a", b"")),
        job_id=as_text(fields.get("j", b"")),
        attempt=as_count(fields, "n"),
        report=_report_of(fields),
        reasons=_reasons_of(fields),
    )


def dead_job_of(entry: Any) -> DeadJob:
    """Return the dead job of a stream entry."""
    fields = as_fields(entry[1])
    kind = as_text(fields.get("k", b""))
    return DeadJob(
        entry_id=as_text(entry[0]),
        job_id=as_text(fields.get("j", b"")),
        kind=JobKind(kind) if kind in set(JobKind) else None,
        attempt=as_count(fields, "n"),
        actor_id=as_text(fields.get("a", b"")),
        reasons=_reasons_of(fields),
        report=_report_of(fields),
    )


def _reasons_of(fields: dict[str, bytes]) -> tuple[str, ...]:
    reasons = as_text(fields.get("r", b""))
    return tuple(reasons.split(REASON_SEPARATOR)) if reasons else ()


def _report_of(fields: dict[str, bytes]) -> FailureReport | None:
    payload = fields.get("f", b"")
    if not payload:
        return None
    try:
        return decode_failure(payload)
    except WireError as error:
        return FailureReport(
            actor_id=as_text(fields.get("a", b"")),
            job_id=as_text(fields.get("j", b"")),
            attempt=as_count(fields, "n"),
            where="reporting a failure",
            cause=f"the report cannot be read: {error}",
        )
