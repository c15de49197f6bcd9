"""Heartbeats from a thread of their own, so that a busy event loop or environment delays none."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from asyncrl.actor.control import RolloutControl
from asyncrl.broker import Beat, BeatReply, Broker
from asyncrl.errors import BrokerError

_log = logging.getLogger(__name__)

LOST = "lost"
"""Why a rollout is abandoned: its job went to another actor or was cancelled."""


@dataclass
class _Held:
    """One attempt."""

    job_id: str
    control: RolloutControl
    nbytes: int | None = None
    """Size of its result; None while there is none."""


class HeldJobs:
    """The jobs an actor holds, shared by its event loop and its heartbeat thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._refused: int | None = None
        """Bytes of the result there is no room for; None while there is."""

    def add(self, token: str, job_id: str, control: RolloutControl) -> None:
        """Hold a job from now on."""
        with self._lock:
            self._held[token] = _Held(job_id, control)

    def finish(self, token: str, nbytes: int) -> None:
        """Note that the job, if it is still held, has a result of `nbytes` on its way."""
        with self._lock:
            if token in self._held:
                self._held[token].nbytes = nbytes

    def no_room_for(self, nbytes: int | None) -> None:
        """Note that the result whose turn it is, of `nbytes`, is refused room; None: no more."""
        with self._lock:
            self._refused = nbytes

    def remove(self, token: str) -> None:
        """Hold a job no longer. Idempotent."""
        with self._lock:
            self._held.pop(token, None)

    def progress(self) -> dict[str, int]:
        """Return token -> environment steps done."""
        with self._lock:
            return {token: held.control.env_steps for token, held in self._held.items()}

    def waiting(self) -> dict[str, int]:
        """Return token -> bytes of room that its finished result waits for; the others' not.

        Results go one after the other, so all wait until there is room for the one that is refused.
        """
        with self._lock:
            if self._refused is None:
                return {}
            return {
                token: max(held.nbytes, self._refused)
                for token, held in self._held.items()
                if held.nbytes is not None
            }

    def abandon(self, tokens: set[str], job_ids: set[str]) -> None:
        """Tell the rollouts of these tokens and jobs to stop."""
        with self._lock:
            for token, held in self._held.items():
                if token in tokens or held.job_id in job_ids:
                    held.control.abandon(LOST)


class Heartbeat:
    """Beats every `interval` seconds until the context ends, on a connection of its own.

    Args:
        connect: Opens a broker; called in the thread.
        actor_id: Who beats.
        interval: Seconds between beats.
        held: What is reported, and told to stop when it is lost.
        on_drain: Called in the thread when the run asks its actors to leave.
        info: Facts about this actor to show to people (host, pid, versions).
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Broker]],
        actor_id: str,
        interval: float,
        held: HeldJobs,
        on_drain: Callable[[], None],
        info: dict[str, str],
    ) -> None:
        self._connect = connect
        self._actor_id = actor_id
        self._interval = interval
        self._held = held
        self._on_drain = on_drain
        self._info = info
        self._sequence = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"{actor_id}-beats", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=2 * self._interval + 5)

    def _main(self) -> None:
        asyncio.run(self._beat_until_stopped())

    async def _beat_until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = stop = asyncio.Event()
        try:
            while not stop.is_set():
                try:
                    async with self._connect() as broker:
                        await self._beats(broker, stop)
                except BrokerError as error:
                    _log.warning("no heartbeat got through: %s; trying again", error)
                    self._ready.set()
                    await self._pause(stop)
        finally:
            self._ready.set()

    async def _beats(self, broker: Broker, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._sequence += 1
            beat = Beat(
                actor_id=self._actor_id,
                sequence=self._sequence,
                held=self._held.progress(),
                waiting=self._held.waiting(),
                info=self._info,
            )
            self._obey(await broker.presence.beat(beat))
            self._ready.set()
            await self._pause(stop)

    def _obey(self, reply: BeatReply) -> None:
        self._held.abandon(set(reply.lost), set(reply.cancelled))
        if reply.drain:
            self._on_drain()

    async def _pause(self, stop: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._interval):
                await stop.wait()
        except TimeoutError:
            pass
