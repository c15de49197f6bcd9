"""Rounds of jobs: hand out several, learn when enough have come back, cancel the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from asyncrl.data import RolloutJob
from asyncrl.errors import ConfigError, RolloutFailed
from asyncrl.proxy.collector import Collection, Delivery, LostJob

SUPERSEDED = "superseded"
"""Why a result that came after its round was learned from is dropped."""


@dataclass(frozen=True)
class UpdateTrigger:
    """How many distinct jobs of a round must be delivered before its update.

    `share` is a count (an int) or a fraction in (0, 1] of the round's jobs (a float). Whatever the
    arithmetic gives, at least one job must be delivered and never more than there are. Where so
    many are lost that fewer can come, the update makes do with those.
    """

    share: int | float = 1.0

    def __post_init__(self) -> None:
        fraction = isinstance(self.share, float)
        if self.share <= 0 or (fraction and self.share > 1.0):
            raise ConfigError(
                "update_trigger",
                self.share,
                "neither a count of jobs nor a fraction of them",
                "give a whole number >= 1, a fraction in (0, 1], or a percentage such as 80%",
            )

    @classmethod
    def parse(cls, text: str) -> UpdateTrigger:
        """Read ``"3"`` (jobs), ``"0.8"`` (fraction) or ``"80%"``; raise `ConfigError` otherwise."""
        try:
            if text.endswith("%"):
                return cls(float(text[:-1]) / 100)
            return cls(float(text) if "." in text else int(text))
        except ConfigError:
            raise
        except ValueError:
            raise ConfigError(
                "update_trigger", text, "not a number", "write 3, 0.8 or 80%"
            ) from None

    def needed(self, jobs: int) -> int:
        """Return how many of `jobs` distinct jobs must be delivered, in [1, jobs]."""
        if isinstance(self.share, int):
            return min(self.share, jobs)
        return max(1, min(jobs, math.ceil(round(self.share * jobs, 9))))


@dataclass(eq=False)
class Round:
    """One round: its jobs and what has come back of it so far."""

    number: int
    jobs: dict[str, RolloutJob]
    deliveries: list[Delivery] = field(default_factory=list[Delivery])
    lost: list[LostJob] = field(default_factory=list[LostJob])

    def over(self, needed: int) -> bool:
        """Whether `needed` jobs were delivered, or nothing more can come: a lost job never does."""
        return len(self.deliveries) >= needed or not self.unfinished()

    def unfinished(self) -> list[str]:
        """Ids of the jobs without an outcome, in the order handed out."""
        done = {each.result.job.job_id for each in self.deliveries}
        done |= {each.job.job_id for each in self.lost}
        return [job_id for job_id in self.jobs if job_id not in done]


class Rounds:
    """Keeps several rounds in flight over a collection and gathers them in order.

    Outcomes that belong to no open round go to `elsewhere` (evaluations, and results accepted just
    before their job was cancelled).
    """

    def __init__(
        self,
        collection: Collection,
        trigger: UpdateTrigger,
        elsewhere: Callable[[Delivery | LostJob], None],
    ) -> None:
        self._collection = collection
        self._trigger = trigger
        self._elsewhere = elsewhere
        self._open: dict[int, Round] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def issue(self, number: int, jobs: Iterable[RolloutJob]) -> None:
        """Hand out the jobs of round `number`."""
        opened = Round(number, {job.job_id: job for job in jobs})
        self._open[number] = opened
        for job in opened.jobs.values():
            await self._collection.submit(job)

    async def gather(self) -> Round:
        """Wait until enough distinct jobs of the oldest open round are in; cancel its others.

        After an error it may be called again, and goes on with what had come until then.

        Raises:
            NoRoom: the round does not come in before the learner lets go of earlier results.
            RolloutFailed: every job of the round failed for good, so no update is possible.
        """
        current = self._open[min(self._open)]
        needed = self._trigger.needed(len(current.jobs))
        while not current.over(needed):
            self._file(await self._collection.receive())
        superseded = current.unfinished()
        if superseded:
            await self._collection.cancel(superseded)
        del self._open[current.number]
        if not current.deliveries:
            raise _all_lost(current.lost)
        return current

    def _file(self, outcome: Delivery | LostJob) -> None:
        job = outcome.job if isinstance(outcome, LostJob) else outcome.result.job
        target = self._open.get(job.round)
        if target is None or job.job_id not in target.jobs:
            self._elsewhere(outcome)
        elif isinstance(outcome, LostJob):
            target.lost.append(outcome)
        else:
            target.deliveries.append(outcome)


def _all_lost(lost: Sequence[LostJob]) -> RolloutFailed:
    report = lost[-1].report
    return RolloutFailed(
        f"all {len(lost)} jobs of a round failed on every attempt; the last one, job "
        f"{report.job_id} on actor {report.actor_id}, in {report.where}: {report.cause}",
        report.traceback,
    )
