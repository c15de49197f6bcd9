"""The runs on a server, for those who keep house there: what is there, and how to be rid of it."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from asyncrl.broker.client import Argument, Client
from asyncrl.broker.config import BrokerConfig
from asyncrl.broker.keys import Keys
from asyncrl.broker.session import as_count, as_text
from asyncrl.errors import BrokerRefused, ConfigError, RunNotFound

_PAGE = 1000
"""Keys looked at in one step of a scan, so that the server is not blocked for long."""
_ALIVE_SECONDS = 30.0
"""An actor that beat within this time counts as alive; actors beat every few seconds."""
_KEY = re.compile(r"asyncrl:\{([^{}]+)\}:")


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """One run on a server. What the server does not tell, or not to this user, is None."""

    name: str
    state: str | None
    """"running" (also when its learner is away), "finished", None where the description is gone."""
    generation: int | None
    owner: str | None
    """Host and pid of its last learner."""
    actors: int | None
    """Actors that beat lately."""
    in_flight: int | None
    """Jobs queued or running."""
    waiting: int | None
    """Results not acked."""
    keys: int
    nbytes: int | None
    """Memory of all its keys."""
    expires_seconds: float | None
    """Seconds until it goes by itself; None for never."""


async def list_runs(url: str, config: BrokerConfig | None = None) -> list[RunSummary]:
    """Return every run on the server, by name. Raises as `connect` does."""
    async with _client(url, config) as client:
        keys: dict[str, list[str]] = {}
        for key in await _scan(client, "asyncrl:{*}:*"):
            found = _KEY.match(key)
            if found:
                keys.setdefault(found[1], []).append(key)
        return [await _summary(client, run, keys[run]) for run in sorted(keys) if _is_name(run)]


async def delete_run(
    url: str, run: str, *, force: bool = False, config: BrokerConfig | None = None
) -> RunSummary:
    """Remove a run with all its keys, in one step; return what it was.

    Raises:
        RunNotFound: There is no such run.
        BrokerRefused: Its learner or actors are at work, or may be as far as this user can see,
            and `force` is not set.
    """
    prefix = Keys(run).prefix
    async with _client(url, config) as client:
        keys = await _scan(client, f"{prefix}*")
        if not keys:
            raise RunNotFound(
                f"there is no run {run!r} on Redis at {client.address}; "
                "'python -m asyncrl.broker runs' lists those that are"
            )
        summary = await _summary(client, run, keys)
        if not force:
            await _refuse_if_in_use(client, summary)
        # In one command: whoever still works on it finds all of it or nothing.
        await client.persist(lambda: client.command("UNLINK", *keys))
        return summary


@asynccontextmanager
async def _client(url: str, config: BrokerConfig | None) -> AsyncGenerator[Client]:
    client = Client(url, "asyncrl-runs", config or BrokerConfig())
    try:
        await client.hello()
        yield client
    finally:
        await client.aclose()


async def _scan(client: Client, pattern: str) -> list[str]:
    found: set[str] = set()
    cursor: Argument = 0
    while True:
        cursor, keys = await client.persist(
            lambda cursor=cursor: client.command("SCAN", cursor, "MATCH", pattern, "COUNT", _PAGE)
        )
        found |= {as_text(key) for key in keys}
        if int(cursor) == 0:
            return sorted(found)


async def _summary(client: Client, run: str, keys: Sequence[str]) -> RunSummary:
    names = Keys(run)
    fields = ("state", "generation", "owner")
    meta: list[Any] = await _ask(client, "HMGET", names.meta, *fields) or [None] * len(fields)
    state, generation, owner = (None if value is None else as_text(value) for value in meta)
    left = await _ask(client, "PTTL", names.meta)
    return RunSummary(
        name=run,
        state=state,
        generation=int(generation) if generation and generation.isdecimal() else None,
        owner=owner,
        actors=await _alive(client, names),
        in_flight=await _ask(client, "HLEN", names.live),
        waiting=await _ask(client, "XLEN", names.results),
        keys=len(keys),
        nbytes=await _memory(client, keys),
        expires_seconds=left / 1000 if left is not None and left >= 0 else None,
    )


async def _alive(client: Client, names: Keys) -> int | None:
    """Return the number of actors that beat within `_ALIVE_SECONDS`, by the server's clock."""
    records = await _ask(client, "HVALS", names.actors)
    now = await _ask(client, "TIME")
    if records is None or now is None:
        return None
    oldest = int(now[0]) * 1000 - 1000 * _ALIVE_SECONDS
    beats = [as_count({"at": record.partition(b" ")[0]}, "at") for record in records]
    return sum(at >= oldest for at in beats)


async def _memory(client: Client, keys: Sequence[str]) -> int | None:
    sizes = [await _ask(client, "MEMORY", "USAGE", key) for key in keys]
    known = [size for size in sizes if size is not None]  # one may have expired meanwhile
    return sum(known) if known else None


async def _refuse_if_in_use(client: Client, run: RunSummary) -> None:
    connected = await _connected(client, run.name)
    if connected is None and run.state == "running":
        problem = "its learner may be at work, and this user may not see who is connected"
    elif connected or run.actors:
        problem = f"it is in use: {run.actors or 0} actors alive, {connected or 0} connections"
    else:
        return
    raise BrokerRefused(
        f"run {run.name!r} on Redis at {client.address} is not deleted, since {problem}; stop its "
        "learner and actors first, or use --force"
    )


async def _connected(client: Client, run: str) -> int | None:
    """Return the number of connections that work for the run; None where that is not told."""
    listed = await _ask(client, "CLIENT", "LIST")
    if listed is None:
        return None
    return sum(f" name=asyncrl:{run} " in line for line in as_text(listed).splitlines())


async def _ask(client: Client, *command: Argument) -> Any:
    """Return the reply; None for what the user may not ask, or what is of another type there."""
    try:
        return await client.persist(lambda: client.command(*command))
    except BrokerRefused:
        return None


def _is_name(run: str) -> bool:
    try:
        Keys(run)
    except ConfigError:
        return False
    return True
