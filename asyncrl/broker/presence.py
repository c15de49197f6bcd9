"""Who is there: beats, leases, arrivals and departures."""

from __future__ import annotations

import json
from typing import Any, cast

from asyncrl.broker import scripts
from asyncrl.broker.keys import GROUP
from asyncrl.broker.nouns import ActorPresence, Beat, BeatReply, RollCall
from asyncrl.broker.session import Session, as_fields, as_number, as_text, as_version
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
        waiting = {token: int(nbytes) for token, nbytes in beat.waiting.items()}
        record = json.dumps(
            {"seq": beat.sequence, "held": held, "waiting": waiting, "info": dict(beat.info)},
            separators=(",", ":"),
        )
        reply = await self._session.call(
            scripts.BEAT,
            *(beat.actor_id, record, *beat.held),
            generation=0,
        )
        _, generation, state, weights_generation, weights_version, lost, cancelled = reply
        return BeatReply(
            generation=as_number(generation),
            weights=as_version(weights_generation, weights_version),
            drain=state == b"finished",
            lost=frozenset(as_text(token) for token in lost),
            cancelled=frozenset(as_text(job) for job in cancelled),
        )

    async def actors(self) -> list[ActorPresence]:
        """Return every actor that beat and neither left nor was retired."""
        return list((await self.roll_call()).actors)

    async def roll_call(self) -> RollCall:
        """Return the same, and who is there without a record that can be read."""
        _, now, records = await self._session.call(scripts.ACTORS)
        read = {
            actor: _presence(actor, record, int(now))
            for actor, record in as_fields(records).items()
        }
        return RollCall(
            tuple(presence for presence in read.values() if presence is not None),
            tuple(actor for actor, presence in read.items() if presence is None),
        )

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


def _presence(actor_id: str, record: bytes, now_ms: int) -> ActorPresence | None:
    """Return what an actor's record says; None for one no actor of this version wrote."""
    at, _, text = record.partition(b" ")
    try:
        said: Any = json.loads(text)
        sequence, held, info = said["seq"], said["held"], said["info"]
        waiting = said.get("waiting", {})  # older actors do not say
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not (as_number(at) > 0 and _is(sequence, int)):
        return None
    if not (_maps_to(held, int) and _maps_to(waiting, int)):
        return None
    if not _maps_to(info, str, int, float, bool):
        return None
    return ActorPresence(
        actor_id=actor_id,
        sequence=sequence,
        age_seconds=max(0, now_ms - as_number(at)) / 1000,
        held=held,
        info=info,
        waiting=waiting,
    )


def _is(value: Any, *kinds: type) -> bool:
    return type(value) in kinds  # exactly: True is no int


def _maps_to(value: Any, *kinds: type) -> bool:
    """Return whether JSON gave an object all of whose values are of `kinds`."""
    return isinstance(value, dict) and all(
        _is(each, *kinds) for each in cast("dict[str, Any]", value).values()
    )
