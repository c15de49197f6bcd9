"""What a server says of itself that decides whether a run is safe on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from asyncrl.broker.client import Client
from asyncrl.broker.server_config import FOLDER_PREFIX
from asyncrl.broker.session import as_count, as_text
from asyncrl.errors import BrokerRefused

_SAFE_POLICIES = ("noeviction", "volatile-")
"""How the names of eviction policies start under which a run is safe.

A ``volatile-*`` policy takes keys with a TTL only. Of a running run these are uploads that are not
accepted yet (answered NOBLOB or NOPART, and made again) and weights that were superseded (an actor
amid fetching them fetches the newest); of a finished one, all of whose results are acked, what was
to go anyway. ``allkeys-*`` takes job and result streams, and a policy nobody here knows may do so.
"""


@dataclass(frozen=True, kw_only=True)
class MemoryState:
    """How much of its memory a server has used."""

    used: int
    """Bytes that count towards the limit."""
    limit: int
    """Its maxmemory, in bytes; 0 for none."""

    @property
    def full(self) -> bool:
        """Whether the server refuses to store more."""
        return 0 < self.limit < self.used


async def memory_of(client: Client) -> MemoryState | None:
    """Return the state of a server's memory; None where it does not tell."""
    info = await _info(client, "memory")
    if not info or "used_memory" not in info:
        return None
    # What replicas and the append-only file still have to get is not held against the limit.
    excused = as_count(info, "mem_not_counted_for_evict")
    used = max(0, as_count(info, "used_memory") - excused)
    return MemoryState(used=used, limit=as_count(info, "maxmemory"))


async def refuse_eviction(client: Client) -> None:
    """Raise `BrokerRefused` when the server may evict a run's keys; pass when it does not tell."""
    policy = as_text((await _info(client, "memory") or {}).get("maxmemory_policy", b""))
    if not policy or policy.startswith(_SAFE_POLICIES):
        return
    raise BrokerRefused(
        f"Redis at {client.address} has maxmemory-policy {policy}: when its memory is full it "
        "throws jobs and results away, and the run with them; run: "
        f"{client.cli} CONFIG SET maxmemory-policy noeviction (or use --allow-eviction)"
    )


async def concerns_about(client: Client) -> list[str]:
    """Return what a learner's user should know of the server, a sentence each."""
    if is_private(client):
        return []
    said: list[str] = []
    if not await _info(client, "memory"):
        said.append(
            f"Redis at {client.address} does not let this user see INFO, so that nobody checks "
            "that it evicts nothing; it must have maxmemory-policy noeviction"
        )
    if await _is_persistent(client) is False:
        said.append(
            f"Redis at {client.address} keeps nothing on disk: should it restart, results that no "
            f"checkpoint covers are lost; run: {client.cli} CONFIG SET appendonly yes"
        )
    return said


def is_private(client: Client) -> bool:
    """Return whether this is a bundled server on its own socket, which is meant to vanish."""
    path = client.socket_path
    return path is not None and Path(path).parent.name.startswith(FOLDER_PREFIX)


async def _is_persistent(client: Client) -> bool | None:
    """Return whether the server writes to disk; None where it does not tell."""
    info = await _info(client, "persistence")
    if not info or "aof_enabled" not in info:
        return None
    if as_count(info, "aof_enabled"):
        return True
    try:
        saving = await client.persist(lambda: client.command("CONFIG", "GET", "save"))
    except BrokerRefused:  # as managed servers do, which have ways of their own to keep data
        return None
    return bool(saving[1]) if len(saving) > 1 else None


async def _info(client: Client, section: str) -> dict[str, bytes] | None:
    """Return one section of INFO; None when the user may not see it."""
    try:
        reply = await client.persist(lambda: client.command("INFO", section))
    except BrokerRefused:
        return None
    pairs = (line.partition(b":") for line in reply.splitlines() if not line.startswith(b"#"))
    return {as_text(name): value for name, colon, value in pairs if colon}
