"""One run on one server, as the parts of a broker share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asyncrl.broker.client import Argument, Client
from asyncrl.broker.config import BrokerConfig
from asyncrl.broker.keys import Keys
from asyncrl.broker.limits import LIMIT_NAMES, RunLimits, limit_field, limits_from_fields
from asyncrl.broker.scripts import Script
from asyncrl.errors import Fenced, RunNotFound, RunStateLost

_DIGITS = 20
"""Characters of the longest whole number anybody stores on purpose (64 bits, signed)."""


class Session:
    """What jobs, results, weights, presence and events of one broker have in common."""

    def __init__(self, client: Client, keys: Keys, config: BrokerConfig) -> None:
        self.client = client
        self.keys = keys
        self.config = config
        self.incarnation = ""
        """Which creation of the run this broker works for; "" until it has seen one."""
        self.generation = 0
        """Generation of the learner this broker serves; 0 for an actor's broker."""

    async def call(
        self,
        script: Script,
        *args: Argument,
        keys: Sequence[str] = (),
        generation: int | None = None,
        wait_for_memory: bool = True,
    ) -> list[Any]:
        """Run a guarded script through outages and return its reply, the status as a str first.

        `generation` is whom the learner speaks for: None for the broker's own, 0 for an actor.

        Raises:
            RunNotFound: There is no such run, on the first call.
            RunStateLost: The run vanished or was created anew.
            Fenced: A newer learner took over from `generation`; nothing was changed.
        """
        await self.attach()
        return await self.client.persist(
            lambda: self.once(script, *args, keys=keys, generation=generation),
            wait_for_memory=wait_for_memory,
        )

    async def once(
        self,
        script: Script,
        *args: Argument,
        keys: Sequence[str] = (),
        generation: int | None = None,
    ) -> list[Any]:
        """Run a guarded script one time, with redis-py's errors; the broker must be attached."""
        mine = self.generation if generation is None else generation
        reply: list[Any] = await self.client.script(
            script, (*self.keys.fixed(), *keys), (self.incarnation, mine, *args)
        )
        status = as_text(reply[0])
        if status == "LOST":
            raise RunStateLost(
                f"the state of run {self.keys.run!r} vanished from Redis at {self.client.address} "
                "or was created anew (flushed, evicted, or restarted without persistence); start "
                "the learner again to resume from its checkpoint"
            )
        if status == "FENCED":
            raise Fenced(mine, as_number(reply[1]), as_text(reply[2]))
        return [status, *reply[1:]]

    async def attach(self) -> None:
        """Learn, once, which incarnation of the run is there; `RunNotFound` when there is none."""
        if self.incarnation:
            return
        found = await self.client.persist(
            lambda: self.client.command("HGET", self.keys.meta, "incarnation")
        )
        if found is None:
            raise self.not_found()
        self.incarnation = as_text(found)

    async def limits(self) -> RunLimits:
        """Return the run's limits as they are now: a learner that takes it over may change them."""
        await self.attach()
        names = [limit_field(name) for name in LIMIT_NAMES]
        values = await self.client.persist(
            lambda: self.client.command("HMGET", self.keys.meta, *names)
        )
        found = zip(names, values, strict=True)
        return limits_from_fields({name: value for name, value in found if value is not None})

    def not_found(self) -> RunNotFound:
        """Return the error for a run that is not on the server."""
        return RunNotFound(
            f"there is no run {self.keys.run!r} on Redis at {self.client.address}; start its "
            "learner first, or check the name and the database number in the URL"
        )


def as_text(value: Any) -> str:
    """Return a reply's string, whether it came as bytes or as a number."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def as_number(value: Any) -> int:
    """Return a reply's whole number; 0 for what a stranger wrote in its place."""
    if isinstance(value, bytes) and len(value) > _DIGITS:
        return 0
    try:
        return int(value)
    except (ValueError, TypeError):
        return 0


def as_version(generation: Any, version: Any) -> tuple[int, int] | None:
    """Return a weights pointer; None where the reply says there is none, or none that can be."""
    pointer = as_number(generation), as_number(version)
    return pointer if min(pointer) > 0 else None


def as_count(fields: Mapping[str, bytes], name: str) -> int:
    """Return a field that counts something; 0 where a stranger's entry has none."""
    return max(0, as_number(fields.get(name)))


def as_fields(flat: Sequence[Any]) -> dict[str, bytes]:
    """Return the fields of a stream entry or hash from their flat reply."""
    return {as_text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
