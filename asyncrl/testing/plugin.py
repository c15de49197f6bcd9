"""Pytest fixtures for tests that talk to a real server.

Nothing but the standard library and pytest is imported until a fixture is used.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from asyncrl.errors import WaitTimeout
from asyncrl.testing.waiting import wait_until_sync

if TYPE_CHECKING:
    from asyncrl.broker.embedded import EmbeddedServer
    from asyncrl.testing.inspection import Inspector

_LEAVE_SECONDS = 3.0


@pytest.fixture(scope="session")
def redis_server() -> Iterator[EmbeddedServer]:
    """One bundled server for the session, on a private unix socket and a free TCP port.

    ``ASYNCRL_REDIS_SERVER`` names another server binary. Use `redis_url` in tests, which checks
    that nothing is left behind; a test that kills or configures a server starts one of its own.
    """
    from asyncrl.broker.embedded import EmbeddedServer

    server = EmbeddedServer(tcp_port=0)
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(server.start())
        try:
            yield server
            server.check()
        finally:
            loop.run_until_complete(server.aclose())
    finally:
        loop.close()


@pytest.fixture
def run_name() -> str:
    """A run name no other test has. Names made from it with a ``-`` suffix are the test's too."""
    return f"test-{secrets.token_hex(4)}"


@pytest.fixture
def redis_url(redis_server: EmbeddedServer, run_name: str) -> Iterator[str]:
    """URL of the session's server; the test fails if it leaves clients or foreign keys behind.

    Clients are given a moment to leave. Keys of the test's own runs, ``asyncrl:{run_name}:...``,
    are removed after the check; keys of other names are removed too, and reported.
    """
    from asyncrl.testing.inspection import Inspector

    with Inspector(redis_server.socket_path, redis_server.password) as inspector:
        clients = set(inspector.clients())
        keys = inspector.keys()
        yield redis_server.url
        problems = _leftover_clients(inspector, clients)
        new_keys = inspector.keys() - keys
        foreign = sorted(key for key in new_keys if not _is_own(key, run_name))
        inspector.delete(new_keys)
    if foreign:
        problems.append(f"keys of other runs than {run_name!r}: {', '.join(foreign)}")
    if problems:
        pytest.fail("the test left behind " + "; ".join(problems), pytrace=False)


def _is_own(key: str, run_name: str) -> bool:
    return key.startswith((f"asyncrl:{{{run_name}}}", f"asyncrl:{{{run_name}-"))


def _leftover_clients(inspector: Inspector, before: set[int]) -> list[str]:
    try:
        wait_until_sync(
            lambda: set(inspector.clients()) <= before, _LEAVE_SECONDS, "clients to leave"
        )
    except WaitTimeout:
        lines = [line for number, line in inspector.clients().items() if number not in before]
        if lines:
            return ["connected clients:\n  " + "\n  ".join(lines)]
    return []
