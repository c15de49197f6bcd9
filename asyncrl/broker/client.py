"""The one door to redis-py: connections, time-outs, retries, and what its errors mean here."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

import anyio
import redis.exceptions as redis_errors
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from asyncrl.broker.config import BrokerConfig
from asyncrl.broker.scripts import Script
from asyncrl.broker.urls import address_of, connection_options
from asyncrl.cancellation import unswallowed
from asyncrl.errors import BrokerError, BrokerRefused, BrokerUnavailable, RunStateLost

_log = logging.getLogger(__name__)

T = TypeVar("T")
Argument = str | bytes | int

_OUTAGE_WORDS = (
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOREPLICAS",
    "BUSY ",
)
"""Answers of a server that is there but cannot serve right now: starting, failing over, busy."""
_LOST_WORDS = ("NOGROUP", "UNBLOCKED")
"""Answers of a server on which a stream of the run vanished."""
_CLOSE_SECONDS = 5.0


class OutOfMemory(BrokerRefused):
    """The server is at its memory limit and refuses to store more. Nothing was changed."""


class Client:
    """One server, over a bounded pool of connections, in one event loop.

    redis-py's own retries are off: it repeats commands whose reply was lost, which would queue a
    job twice and lose a read. `persist` repeats instead, and only what is safe to repeat.
    """

    def __init__(self, url: str, name: str, config: BrokerConfig) -> None:
        self._options = connection_options(url)
        self._name = name
        self._config = config
        self._pools: list[BlockingConnectionPool] = []
        self.address = address_of(self._options)
        """Where the server is: ``host:port`` or the socket's path."""
        self.socket_path: str | None = self._options.get("path")
        """Path of the server's socket; None when it is reached over TCP."""
        self._redis = self.reader(config.connections, config.command_timeout)

    def reader(self, connections: int = 1, timeout: float | None = None) -> Reader:
        """Return a way to the server with its own connections, whose time-out exceeds any BLOCK."""
        options: dict[str, Any] = {
            **self._options,
            "socket_timeout": timeout or self._config.reader_timeout,
            "socket_connect_timeout": self._config.connect_timeout,
            "retry": Retry(NoBackoff(), 0),
            "retry_on_error": [],
            # RESP3 of redis-py 8.1 skips the check for unread replies on a pooled connection.
            "protocol": 2,
            "decode_responses": False,
            "client_name": self._name,
            "driver_info": None,
            "health_check_interval": 0,
        }
        # Waiting for a free connection is bounded like an outage.
        patience = max(self._config.outage_timeout, self._config.command_timeout)
        pool = BlockingConnectionPool(max_connections=connections, timeout=patience, **options)
        self._pools.append(pool)
        return Reader(pool)

    def connections(self) -> int:
        """Return the number of connections that are open now."""
        return sum(reader_connections(pool) for pool in self._pools)

    async def hello(self) -> None:
        """Reach the server once, within `connect_timeout`; never tries again.

        Raises:
            BrokerUnavailable: Nothing answers there.
            BrokerRefused: It does, and wants another password, or permits too little.
        """
        try:
            with anyio.fail_after(self._config.connect_timeout):
                await self._redis.command("PING")
        except (redis_errors.RedisError, OSError) as error:
            raise self._translate(error) from error

    async def command(self, *args: Argument) -> Any:
        """Run a command once and return the server's reply as it is. Raises redis-py's errors."""
        return await self._redis.command(*args)

    async def script(self, script: Script, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        """Run a script once and return its reply. Raises redis-py's errors.

        A server that does not know the script (restarted, flushed) has not run it, and gets it
        whole.
        """
        rest = (len(keys), *keys, *args)
        try:
            return await self._redis.command("EVALSHA", script.sha, *rest)
        except redis_errors.NoScriptError:
            return await self._redis.command("EVAL", script.source, *rest)

    async def persist(
        self, operation: Callable[[], Awaitable[T]], *, wait_for_memory: bool = True
    ) -> T:
        """Run `operation` until it gets an answer, through outages of up to `outage_timeout`.

        `operation` must be safe to repeat after its reply was lost. Between tries it waits a random
        time below a bound that doubles from `retry_min` to `retry_max` (full jitter).

        Raises:
            BrokerUnavailable: The outage lasted longer.
            BrokerRefused: The server refused.
            OutOfMemory: The server is full; at once when `wait_for_memory` is false.
            RunStateLost: A stream of the run vanished.
        """
        started = time.monotonic()
        bound = self._config.retry_min
        while True:
            try:
                return await operation()
            except (redis_errors.RedisError, OSError) as error:
                meaning = self._translate(error)
                passing = isinstance(meaning, BrokerUnavailable) or (
                    wait_for_memory and isinstance(meaning, OutOfMemory)
                )
                delay = random.uniform(0, bound)  # noqa: S311 - jitter, not a secret
                elapsed = time.monotonic() - started
                if not passing or elapsed + delay >= self._config.outage_timeout:
                    raise self._translate(error, elapsed) from error
                if bound == self._config.retry_min:
                    _log.warning("%s; trying again for %g s", meaning, self._config.outage_timeout)
            await anyio.sleep(delay)
            bound = min(bound * 2, self._config.retry_max)

    async def aclose(self) -> None:
        """Close every connection, also amid a cancellation."""
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            for pool in self._pools:
                await pool.aclose()

    def _translate(self, error: Exception, elapsed: float = 0.0) -> BrokerError:
        """Say what an error of redis-py means, without secrets."""
        if error.args and isinstance(error.args[0], Exception):
            error = error.args[0]  # redis-py wraps what goes wrong while it connects
        # redis-py moves some answers' first word, such as LOADING, out of their text.
        said = f"{getattr(error, 'status_code', None) or ''} {error}".strip()
        if isinstance(error, redis_errors.AuthenticationError | redis_errors.AuthorizationError):
            return BrokerRefused(
                f"Redis at {self.address} refused the login ({said}); check user and password in "
                "the URL (redis://user:password@host:port; escape special characters as %XX)"
            )
        if isinstance(error, redis_errors.NoPermissionError) or "NOPERM" in said:
            return BrokerRefused(
                f"Redis at {self.address} does not permit this user what asyncrl needs ({said}); "
                "give it the commands and the keys asyncrl:*"
            )
        if isinstance(error, redis_errors.OutOfMemoryError) or "OOM command not allowed" in said:
            return OutOfMemory(
                f"Redis at {self.address} is out of memory and stores nothing more; raise its "
                "maxmemory, lower max_results or max_result_bytes, or remove other data from it"
            )
        if any(word in said for word in _LOST_WORDS):
            return RunStateLost(
                f"the job streams of this run vanished from Redis at {self.address} (flushed, "
                "evicted, or restarted without persistence); start the learner again to resume "
                "from its checkpoint"
            )
        if self._is_outage(error, said):
            for_long = f" for {elapsed:.1f} s" if elapsed >= 1 else ""
            return BrokerUnavailable(
                f"cannot reach Redis at {self.address}{for_long} ({said or type(error).__name__}); "
                f"check that it runs there and that nothing blocks the way: try {self.cli} ping"
            )
        return BrokerRefused(f"Redis at {self.address} answered with an error: {said}")

    @staticmethod
    def _is_outage(error: Exception, said: str) -> bool:
        if isinstance(error, redis_errors.ConnectionError | redis_errors.TimeoutError | OSError):
            return True
        return isinstance(error, redis_errors.ReadOnlyError) or any(
            word in said for word in _OUTAGE_WORDS
        )

    @property
    def cli(self) -> str:
        """The command that reaches the server by hand; without user and password."""
        if self.socket_path is not None:
            return f"redis-cli -s {self.socket_path}"
        host, _, port = self.address.rpartition(":")
        return f"redis-cli -h {host} -p {port}"


class Reader:
    """Commands over a pool of its own, replies as the server gives them (no client-side shapes)."""

    def __init__(self, pool: BlockingConnectionPool) -> None:
        self._pool = pool
        self._redis = Redis(connection_pool=pool)
        # redis-py reshapes some replies differently from version to version; none of it is wanted.
        self._redis.response_callbacks.clear()

    async def command(self, *args: Argument) -> Any:
        """Run a command once and return the server's reply as it is. Raises redis-py's errors."""
        execute = self._redis.execute_command  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        run = cast("Callable[..., Awaitable[Any]]", execute)
        return await unswallowed(run(*args))


def reader_connections(pool: BlockingConnectionPool) -> int:
    """Return the number of a pool's connections that are open."""
    # redis-py has no public count of connections by state.
    free: list[Any] = pool._available_connections  # pyright: ignore[reportPrivateUsage]
    used: set[Any] = pool._in_use_connections  # pyright: ignore[reportPrivateUsage]
    return sum(connection.is_connected for connection in (*free, *used))


def milliseconds(seconds: float) -> int:
    """Return whole milliseconds, at least 1: BLOCK 0 waits for ever, and a TTL of 0 is refused."""
    return max(1, math.ceil(seconds * 1000))
