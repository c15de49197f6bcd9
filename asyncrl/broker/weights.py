"""Published weights: one set is the newest, and it only ever gets newer."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any

import anyio

from asyncrl.broker import scripts
from asyncrl.broker.client import milliseconds
from asyncrl.broker.nouns import Published, Version
from asyncrl.broker.session import Session, as_number, as_text, as_version
from asyncrl.errors import StateError, WaitTimeout

_POLL_SECONDS = (0.02, 0.5)
"""First and longest delay between looks for weights that were announced."""

_MOST_PARTS = 100_000
"""A pointer to more parts than this was written by a stranger."""


class WeightStore:
    """The newest weights, and a few older sets for actors that are amid fetching them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def publish(self, weight_version: int, payload: bytes, generation: int) -> Published:
        """Make `payload` the newest weights.

        Args:
            weight_version: Greater than all published before, by older generations too.
            payload: The encoded weight set; uploaded in parts of `weights_part` bytes.
            generation: The learner's.

        Raises:
            Fenced: A newer learner took the run over; nothing was changed.
            StateError: `weight_version` is not newer than the newest one, which stays.
        """
        digest = hashlib.sha256(payload).hexdigest()
        await self._session.call(scripts.CHECK, generation=generation)
        newest = await self.pointer()
        # What is published is never written again: actors may be amid fetching it.
        new = newest is None or weight_version > newest[1]
        parts = await self._upload(generation, weight_version, payload) if new else []
        while True:
            reply = await self._point_at(generation, weight_version, digest, len(payload), parts)
            if reply[0] == "NOPART":
                await self._upload(generation, weight_version, payload)
            elif reply[0] == "OLD":
                raise StateError(
                    f"weights of version {weight_version} are not newer than version "
                    f"{as_text(reply[2])} of generation {as_text(reply[1])}, which is published; "
                    "go on counting from RunInfo.weights"
                )
            elif reply[0] != "RETRY":
                return Published(reply[0])

    async def pointer(self) -> Version | None:
        """Return (generation, version) of the newest weights; None before the first."""
        found = await self._pointer()
        return as_version(found[0], found[1])

    async def fetch(self, minimum: Version = (0, 0)) -> bytes:
        """Return the payload of the newest weights, whole and verified by its SHA-256.

        Raises:
            WaitTimeout: Within `weights_timeout` there were none as new as `minimum`, or the newest
                ones could not be read whole.
        """
        first, longest = _POLL_SECONDS
        started, delay = time.monotonic(), first
        limit = self._session.config.weights_timeout
        while True:
            generation, version, digest, parts = await self._pointer()
            newest = as_version(generation, version)
            if newest and newest >= minimum:
                payload = await self._download(newest, as_number(parts))
                if payload is not None and hashlib.sha256(payload).hexdigest() == as_text(digest):
                    return payload
            if time.monotonic() - started > limit:
                raise WaitTimeout(
                    f"weights of generation and version {minimum} or newer",
                    limit,
                    f"the newest published are {newest}; check that the learner runs and that "
                    f"Redis at {self._session.client.address} evicts nothing",
                )
            await anyio.sleep(delay)
            delay = min(2 * delay, longest)

    async def kept_parts(self) -> list[str]:
        """Return the keys of all weight sets that do not expire by themselves."""
        return [key for entry in await self._history() for key in self._parts(entry)]

    async def _point_at(
        self, generation: int, version: int, digest: str, nbytes: int, parts: Sequence[str]
    ) -> list[Any]:
        """Make the uploaded parts the newest weights; return the script's reply."""
        keep = (await self._session.limits()).keep_versions
        before = await self._history()
        after = [*before, f"{generation}:{version}:{len(parts)}"]
        retired = [key for old in after[:-keep] for key in self._parts(old)]
        return await self._session.call(
            scripts.PUBLISH,
            *(version, digest, nbytes, " ".join(before), " ".join(after[-keep:])),
            len(parts),
            keys=[*parts, *retired],
            generation=generation,
        )

    async def _pointer(self) -> list[Any]:
        session = self._session
        await session.attach()
        fields = ("generation", "version", "sha", "parts")
        return await session.client.persist(
            lambda: session.client.command("HMGET", session.keys.weights, *fields)
        )

    async def _history(self) -> list[str]:
        session = self._session
        found = await session.client.persist(
            lambda: session.client.command("HGET", session.keys.weights, "history")
        )
        return as_text(found).split() if found else []

    def _parts(self, entry: str) -> list[str]:
        """Return the keys of the parts of "generation:version:parts"; none where it is not that."""
        numbers = [as_number(number) for number in entry.encode().split(b":")]
        if len(numbers) != 3 or not 0 < numbers[2] <= _MOST_PARTS:
            return []
        generation, version, parts = numbers
        return [self._session.keys.weight_part(generation, version, part) for part in range(parts)]

    async def _upload(self, generation: int, version: int, payload: bytes) -> list[str]:
        """Write the parts, which expire unless they are pointed at; return their keys."""
        session, size = self._session, self._session.config.weights_part
        ttl = milliseconds((await session.limits()).blob_ttl)
        view = memoryview(payload)
        keys = self._parts(f"{generation}:{version}:{max(1, -(-len(payload) // size))}")
        for part, key in enumerate(keys):
            chunk = bytes(view[part * size : (part + 1) * size])
            await session.client.persist(
                lambda key=key, chunk=chunk: session.client.command("SET", key, chunk, "PX", ttl)
            )
        return keys

    async def _download(self, version: Version, parts: int) -> bytes | None:
        """Return the parts joined; None when one is gone."""
        session = self._session
        found: list[bytes] = []
        for key in self._parts(f"{version[0]}:{version[1]}:{parts}"):
            part = await session.client.persist(lambda key=key: session.client.command("GET", key))
            if part is None:
                return None
            found.append(part)
        return b"".join(found)
