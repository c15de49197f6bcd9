"""Who is there: beats, leases, arrivals and departures."""

from __future__ import annotations

import json
from typing import Any, cast

from asyncrl.broker import scripts
from asyncrl.broker.keys import GROUP
from asyncrl.broker.nouns import ActorPresence, Beat, BeatReply
from asyncrl.broker.session import Session, as_fields, as_text, as_version
from asyncrl.data import JobKind


class Presence:
    """Actors' signs of life. Beats come through also when the server is out of memory."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def beat(self, beat: Beat) -> BeatReply:
        """Say that an actor is alive, renew the leases of what it works on, and hear the news.

        Only leases of attempts that are still the actor's are renewed, so that an actor that was
        frozen takes nothing back. May be called from another thread's event loop, over a broker of
        its own.
        """
        held = {token: int(steps) for token, steps in beat.held.items()}
        record = json.dumps(
            {"seq": beat.sequence, "held": held, "info": dict(beat.info)},
            separators=(",", ":"),
        )
        reply = await self._session.call(
            scripts.BEAT,
            *(beat.actor_id, record, *beat.held),
            generation=0,
        )
        _, generation, state, weights_generation, weights_version, lost, cancelled = reply
        return BeatReply(
            generation=int(generation),
            weights=as_version(weights_generation, weights_version),
            drain=state == b"finished",
            lost=frozenset(as_text(token) for token in lost),
            cancelled=frozenset(as_text(job) for job in cancelled),
        )

    async def actors(self) -> list[ActorPresence]:
        """Return every actor that beat and neither left nor was retired."""
        _, now, records = await self._session.call(scripts.ACTORS)
        return [_presence(actor, record, int(now)) for actor, record in as_fields(records).items()]

    async def leave(self, actor_id: str) -> int:
        """Say goodbye; what the actor still held is released, no attempt spent. Return how many."""
        reply = await self._session.call(scripts.LEAVE, actor_id, generation=0)
        return int(reply[1])

    async def retire(self, actor_id: str) -> bool:
        """Forget an actor that is gone; False, and nothing done, while a job is pending to it."""
        return bool((await self._session.call(scripts.RETIRE, actor_id))[1])

    async def retire_idle(self, seconds: float) -> list[str]:
        """Forget all actors that neither beat nor asked for a job for `seconds`, and hold none.

        Actors that crash leave their name behind on the server; return the names forgotten.
        """
        idle: dict[str, float] = {}
        for kind in JobKind:
            for name, quiet in await self._consumers(kind):
                idle[name] = min(quiet, idle.get(name, quiet))
        for actor in await self.actors():
            idle[actor.actor_id] = min(
                actor.age_seconds, idle.get(actor.actor_id, actor.age_seconds)
            )
        gone = sorted(name for name, quiet in idle.items() if quiet >= seconds)
        return [name for name in gone if await self.retire(name)]

    async def _consumers(self, kind: JobKind) -> list[tuple[str, float]]:
        """Return (name, idle seconds) of everybody known to a job stream."""
        session = self._session
        await session.attach()
        rows = await session.client.persist(
            lambda: session.client.command("XINFO", "CONSUMERS", session.keys.jobs(kind), GROUP)
        )
        named = [as_fields(row) for row in rows]
        return [(as_text(row["name"]), int(row["idle"]) / 1000) for row in named]


def _presence(actor_id: str, record: bytes, now_ms: int) -> ActorPresence:
    at, _, text = record.partition(b" ")
    said = cast("dict[str, Any]", json.loads(text))
    return ActorPresence(
        actor_id=actor_id,
        sequence=said["seq"],
        age_seconds=max(0, now_ms - int(at)) / 1000,
        held=said["held"],
        info=said["info"],
    )
