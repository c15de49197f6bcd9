"""What became of every job and every result, to the step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from asyncrl.broker import scripts
from asyncrl.broker.session import Session, as_fields, as_number

_DROPPED = "dropped:"


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Counters of a run since it was created, over all generations, read at one instant."""

    issued: int = 0
    """Jobs submitted."""
    accepted: int = 0
    """Jobs whose result was accepted."""
    cancelled: int = 0
    """Jobs cancelled, by the learner or because a newer one took over."""
    dead: int = 0
    """Jobs that used up their attempts."""
    in_flight: int = 0
    """Jobs queued or running."""
    trained: int = 0
    """Results acked as learned from (or, of evaluations, as used)."""
    dropped: Mapping[str, int] = field(default_factory=dict[str, int])
    """Reason -> results acked without learning from them."""
    waiting: int = 0
    """Results not acked."""
    stale: int = 0
    """Results refused because the attempt was not the actor's any more."""
    duplicate: int = 0
    """Results handed in again after they had been accepted."""
    reassigned: int = 0
    """Attempts the learner took away from an actor and queued again."""
    failed: int = 0
    """Attempts that actors gave back because something raised."""
    env_steps_accepted: int = 0
    """Environment steps of accepted training results."""
    eval_steps_accepted: int = 0
    """Environment steps of accepted evaluation results."""
    waiting_bytes: int = 0
    """Bytes of the results not acked."""

    @property
    def balanced(self) -> bool:
        """Whether every job and every result is accounted for."""
        jobs = self.accepted + self.cancelled + self.dead + self.in_flight
        results = self.trained + sum(self.dropped.values()) + self.waiting
        return self.issued == jobs and self.accepted == results

    def explain(self) -> str:
        """Return both sums written out, and whether they hold."""
        dropped = " + ".join(f"{n} dropped ({why})" for why, n in sorted(self.dropped.items()))
        jobs = (
            f"{self.issued} issued = {self.accepted} accepted + {self.cancelled} cancelled + "
            f"{self.dead} dead + {self.in_flight} in flight"
        )
        results = (
            f"{self.accepted} accepted = {self.trained} trained + {dropped or '0 dropped'} + "
            f"{self.waiting} waiting"
        )
        verdict = "balanced" if self.balanced else "NOT BALANCED"
        return f"jobs: {jobs}; results: {results}: {verdict}"


async def read_ledger(session: Session) -> Ledger:
    """Return the run's ledger, read in one step."""
    _, flat, in_flight, waiting = await session.call(scripts.LEDGER)
    counts = {name: as_number(value) for name, value in as_fields(flat).items()}
    return Ledger(
        issued=counts.get("issued", 0),
        accepted=counts.get("accepted", 0),
        cancelled=counts.get("cancelled", 0),
        dead=counts.get("dead", 0),
        in_flight=int(in_flight),
        trained=counts.get("trained", 0),
        dropped={
            name.removeprefix(_DROPPED): count
            for name, count in counts.items()
            if name.startswith(_DROPPED)
        },
        waiting=int(waiting),
        stale=counts.get("stale", 0),
        duplicate=counts.get("duplicate", 0),
        reassigned=counts.get("reassigned", 0),
        failed=counts.get("failed", 0),
        env_steps_accepted=counts.get("train_steps", 0),
        eval_steps_accepted=counts.get("eval_steps", 0),
        waiting_bytes=counts.get("bytes", 0),
    )
