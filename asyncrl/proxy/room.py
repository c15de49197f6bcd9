"""Finished results that wait for room: since when, by which limit, and whether any can come.

Pure: times are arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from asyncrl.broker import Backlog, RunLimits
from asyncrl.errors import NoRoom

_STANDSTILL_LOOKS = 3
"""Looks in a row that must see the same before nothing is on its way any more."""

_FEWER = {
    "max_results": "fewer, longer jobs a round (jobs_per_round)",
    "max_result_bytes": "jobs of fewer steps (segment_steps), or fewer a round (jobs_per_round)",
}


@dataclass(frozen=True)
class RoomLook:
    """What one look saw."""

    waiting: Mapping[str, int]
    """Token -> bytes of room it needs, of every finished result that waits for room."""
    busy: bool
    """Whether some job is being run, or is queued and will be."""
    backlog: Backlog


@dataclass(frozen=True)
class Shortage:
    """A limit of the run keeps finished results waiting."""

    limit: str
    """Its name in `RunLimits`."""
    value: int
    waiting: int
    """Finished results that wait."""
    backlog: Backlog
    """What the server holds."""

    def error(self) -> NoRoom:
        """Return the error for a learner that lets go of nothing before it has more."""
        return NoRoom(
            self.limit,
            self.value,
            f"{self}, and the learner needs more than fits before it can let go of any",
            f"raise {self.limit}, or hand out {_FEWER[self.limit]}",
        )

    def __str__(self) -> str:
        waiting = f"{_count(self.waiting, 'finished result')} wait{'s' * (self.waiting == 1)}"
        held = f"{_count(self.backlog.results, 'result')} of {self.backlog.nbytes} bytes"
        return f"{waiting} for room: with {held} on the server {self.limit}={self.value} is reached"


class Room:
    """Remembers what the looks saw.

    Args:
        limits: Of the run.
        patience: Seconds of a shortage before it is worth a word.
    """

    def __init__(self, limits: RunLimits, patience: float) -> None:
        self._limits = limits
        self._patience = patience
        self._last = RoomLook({}, busy=False, backlog=Backlog())
        self._same = 0
        """Looks in a row that saw what the last one did."""
        self._since: float | None = None
        self.told = False
        """Whether the shortage was said, and is not over."""

    @property
    def waiting(self) -> int:
        """Finished results that waited at the last look, also for a server out of memory."""
        return len(self._last.waiting)

    @property
    def shortage(self) -> Shortage | None:
        """The limit that kept every one of them waiting; None for none."""
        limits, waiting, backlog = self._limits, self._last.waiting, self._last.backlog
        if not waiting:
            return None
        if backlog.results >= limits.max_results:
            return Shortage("max_results", limits.max_results, len(waiting), backlog)
        # As complete.lua judges: the only result may be larger than the limit.
        fits = not backlog.nbytes or (
            backlog.nbytes + min(waiting.values()) <= limits.max_result_bytes
        )
        if fits:
            return None
        return Shortage("max_result_bytes", limits.max_result_bytes, len(waiting), backlog)

    @property
    def standstill(self) -> Shortage | None:
        """The same, where nothing is on its way any more: only who reads results makes room."""
        settled = self._same >= _STANDSTILL_LOOKS and not self._last.busy
        return self.shortage if settled else None

    def look(self, seen: RoomLook, now: float) -> str | None:
        """Take a look; return what is to be said, once when it lasts and once when it is over."""
        self._same = self._same + 1 if seen == self._last else 1
        self._last = seen
        if not seen.waiting:
            was_told, self.told, self._since = self.told, False, None
            return "no finished result waits for room any more" if was_told else None
        shortage = self.shortage
        if shortage is None or self.told:
            return None
        if self._since is None:
            self._since = now
        if now - self._since < self._patience:
            return None
        self.told = True
        return f"{shortage}, until the learner lets go of some"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
