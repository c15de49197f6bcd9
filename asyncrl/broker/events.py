"""What happened to actors and jobs, for the learner to tell its user."""

from __future__ import annotations

from asyncrl.broker import scripts
from asyncrl.broker.decode import clean_reason, event_of
from asyncrl.broker.keys import START
from asyncrl.broker.nouns import Event
from asyncrl.broker.session import Session, as_text
from asyncrl.data import FailureReport
from asyncrl.wire import encode_failure


class EventLog:
    """The last events, about `events_keep` of them; older ones are forgotten."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def report(self, report: FailureReport, *, dead: bool = False) -> None:
        """Keep a failure among the events, and with `dead` (a bad result) among the dead jobs too.

        At least once: after an outage it may be there twice. For a failed attempt at a job use
        `JobQueue.fail`, which keeps its report once.
        """
        await self._session.call(
            scripts.REPORT,
            *(report.actor_id, report.job_id, report.attempt, encode_failure(report)),
            *(clean_reason(f"{report.where}: {report.cause}"), int(dead)),
        )

    async def tail(self, after: str = START, count: int = 1000) -> list[Event]:
        """Return up to `count` events behind the event id `after`, oldest first; does not wait."""
        session = self._session
        await session.attach()
        while True:
            rows = await session.client.persist(
                lambda after=after: session.client.command(
                    "XRANGE", session.keys.events, f"({after}", "+", "COUNT", count
                )
            )
            events = [event for event in map(event_of, rows) if event is not None]
            if events or len(rows) < count:
                return events
            after = as_text(rows[-1][0])  # none of them is known here: look behind them

    async def latest(self) -> str:
        """Return the id of the last event so far, to `tail` behind."""
        session = self._session
        await session.attach()
        rows = await session.client.persist(
            lambda: session.client.command("XREVRANGE", session.keys.events, "+", "-", "COUNT", 1)
        )
        return as_text(rows[0][0]) if rows else START
