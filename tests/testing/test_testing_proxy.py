from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.testing import Fault, FaultyProxy, wait_until


class Client:
    """A connection through the proxy that speaks the least of the protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, proxy: FaultyProxy) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", proxy.port))

    async def ask(self, line: str) -> bytes:
        self.writer.write(f"{line}\r\n".encode())
        await self.writer.drain()
        return await self.reader.readline()

    async def close(self) -> None:
        self.writer.close()
        await asyncio.gather(self.writer.wait_closed(), return_exceptions=True)


@pytest.fixture
async def proxy(redis_server: EmbeddedServer, redis_url: str) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(redis_url, delay=0.05) as proxy:
        assert urlsplit(proxy.url).password == redis_server.password
        yield proxy


@pytest.fixture
async def client(proxy: FaultyProxy, redis_server: EmbeddedServer) -> AsyncIterator[Client]:
    client = await Client.connect(proxy)
    assert await client.ask(f"AUTH {redis_server.password}") == b"+OK\r\n"
    yield client
    await client.close()


async def test_everything_passes_at_first(client: Client, proxy: FaultyProxy) -> None:
    assert await client.ask("PING") == b"+PONG\r\n"
    assert (proxy.fault, proxy.connections, proxy.dropped) == (Fault.PASS, 1, 0)


async def test_a_delayed_reply_comes_late(client: Client, proxy: FaultyProxy) -> None:
    proxy.set_fault(Fault.DELAY)
    loop = asyncio.get_running_loop()
    start = loop.time()
    assert await client.ask("PING") == b"+PONG\r\n"
    assert loop.time() - start >= 0.05


async def test_a_dropped_reply_closes_the_connection_after_the_command_ran(
    client: Client, proxy: FaultyProxy, redis_server: EmbeddedServer, run_name: str
) -> None:
    key = f"asyncrl:{{{run_name}}}:n"
    proxy.set_fault(Fault.DROP_REPLY, times=1)
    assert await client.ask(f"INCR {key}") == b""
    assert (proxy.fault, proxy.dropped) == (Fault.PASS, 1)
    again = await Client.connect(proxy)
    assert await again.ask(f"AUTH {redis_server.password}") == b"+OK\r\n"
    assert await again.ask(f"INCR {key}") == b":2\r\n"
    await again.close()


async def test_a_black_hole_is_silent_and_keeps_the_connection(
    client: Client, proxy: FaultyProxy
) -> None:
    proxy.set_fault(Fault.BLACKHOLE)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.ask("PING"), 0.1)
    proxy.set_fault(Fault.PASS)
    assert await client.ask("PING") == b"+PONG\r\n"


async def test_a_reset_ends_present_and_new_connections(client: Client, proxy: FaultyProxy) -> None:
    proxy.set_fault(Fault.RESET)
    with pytest.raises(ConnectionError):
        await client.ask("PING")
    other = await Client.connect(proxy)
    with pytest.raises(ConnectionError):
        await other.ask("PING")
    await other.close()


async def test_the_server_behind_may_be_on_tcp(redis_server: EmbeddedServer) -> None:
    async with FaultyProxy(redis_server.tcp_url) as proxy:
        client = await Client.connect(proxy)
        assert (await client.ask("PING")).startswith(b"-NOAUTH")
        await client.close()


async def test_an_absent_server_closes_the_connection() -> None:
    async with FaultyProxy("unix:///nowhere/r.sock") as proxy:
        client = await Client.connect(proxy)
        assert await client.reader.read() == b""
        await client.close()


async def test_clients_still_connected_are_closed_with_the_proxy(redis_url: str) -> None:
    async with FaultyProxy(redis_url) as proxy:
        client = await Client.connect(proxy)
        await wait_until(lambda: proxy.connections, 5, "the connection")
    assert await client.reader.read() == b""
    await client.close()


def test_a_proxy_that_is_not_started_says_so() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        _ = FaultyProxy("redis://localhost").port
