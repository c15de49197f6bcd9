"""Connecting: what is wrong is said at once, and never the password."""

from __future__ import annotations

import asyncio
import time
import traceback
from typing import Any

import pytest
from broker_world import QUICK, connections_of, make_job, make_spec, raw

from asyncrl.broker import Broker, BrokerConfig, connect, redact
from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.data import JobKind
from asyncrl.errors import BrokerError, BrokerRefused, BrokerUnavailable, ConfigError
from asyncrl.testing.proxy import Fault, FaultyProxy

SECRET = "s3cr3t-Kennwort"  # noqa: S105 - not the password of anything


def everything_said(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        (f"redis://:{SECRET}@h:1/0", "redis://:***@h:1/0"),
        (f"rediss://user:{SECRET}@h", "rediss://user:***@h"),
        (f"redis://{SECRET}@h", "redis://***@h"),
        (f"redis://user:a/{SECRET}#b@c@h:1", "redis://user:***@h:1"),
        (f"unix://:{SECRET}@/tmp/r.sock?db=1", "unix://:***@/tmp/r.sock?db=1"),
        (f"redis://h?db=1&password={SECRET}&x=1", "redis://h?db=1&password=***&x=1"),
        (f"rediss://h?ssl_password={SECRET}", "rediss://h?ssl_password=***"),
        (f"redis://h?PASSWORD={SECRET}", "redis://h?PASSWORD=***"),
    ],
)
def test_a_password_in_a_url_is_hidden(url: str, shown: str) -> None:
    assert redact(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@h",
        f"user:{SECRET}@h:1",
        f"redis://user:{SECRET}@h:port",
        f"redis://:{SECRET[:5]}#{SECRET[5:]}@h:1",
        f"redis://:{SECRET}@h?socket_timeout=1",
        f"redis://:{SECRET}@h?protocol=3",
        f"redis://:{SECRET}@h?db=zero",
        f"unix://:{SECRET}@",
    ],
)
async def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^url=") as caught:
        async with connect(url, run="r"):
            pass
    assert SECRET not in everything_said(caught.value).replace("#", "")


@pytest.mark.parametrize("run", ["", "a b", "{x}", "a:b", "x" * 65])
async def test_a_run_name_that_does_not_fit_into_a_key_is_refused(run: str) -> None:
    with pytest.raises(ConfigError, match="run="):
        async with connect("redis://localhost", run=run):
            pass


@pytest.mark.parametrize(
    "url", [f"redis://:{SECRET}@127.0.0.1:1", f"unix://:{SECRET}@/nowhere/r.sock"]
)
async def test_a_server_that_is_not_there_is_named_at_once(url: str) -> None:
    started = time.monotonic()
    with pytest.raises(BrokerUnavailable) as caught:
        async with connect(url, run="r"):
            pass
    assert time.monotonic() - started < 2
    said = str(caught.value)
    assert "127.0.0.1:1" in said or "/nowhere/r.sock" in said
    assert "redis-cli" in said
    assert SECRET not in everything_said(caught.value)


async def test_a_server_that_is_silent_is_given_up_after_the_connect_timeout() -> None:
    async with EmbeddedServer() as server, FaultyProxy(server.url) as proxy:
        proxy.set_fault(Fault.BLACKHOLE)
        started = time.monotonic()
        with pytest.raises(BrokerUnavailable, match=str(proxy.port)):
            async with connect(proxy.url, run="r", config=BrokerConfig(connect_timeout=0.3)):
                pass
        assert 0.2 < time.monotonic() - started < 2


@pytest.mark.parametrize("given", [f":{SECRET}@", f"nobody:{SECRET}@", ""])
async def test_a_wrong_password_is_refused_with_what_to_do(given: str) -> None:
    async with EmbeddedServer(tcp_port=0, password="right") as server:  # noqa: S106
        address = server.tcp_url.rpartition("@")[2]
        with pytest.raises(BrokerRefused, match="user and password in the URL") as caught:
            async with connect(f"redis://{given}{address}", run="r", config=QUICK):
                pass
        assert address.partition("/")[0] in str(caught.value)
        assert SECRET not in everything_said(caught.value)
        with pytest.raises(BrokerRefused, match="user and password in the URL"):
            async with connect(f"unix://{given}{server.socket_path}", run="r", config=QUICK):
                pass


async def test_missing_permissions_are_refused_without_trying_again() -> None:
    async with EmbeddedServer() as server:
        async with raw(server.url) as client:
            await client.execute_command(
                "ACL", "SETUSER", "weak", "on", f">{SECRET}", "~*", "+ping", "+client", "+hget"
            )
        url = f"unix://weak:{SECRET}@{server.socket_path}"
        async with connect(url, run="r", config=QUICK) as broker:
            started = time.monotonic()
            with pytest.raises(BrokerRefused, match="does not permit") as caught:
                await broker.create_run(make_spec(), "me")
            assert time.monotonic() - started < 2
            assert SECRET not in everything_said(caught.value)
            assert SECRET not in repr(broker) + str(vars(broker))


async def test_the_password_works_and_is_shown_nowhere() -> None:
    async with EmbeddedServer(tcp_port=0, password=SECRET) as server:
        for url in (server.url, server.tcp_url):
            async with connect(url, run="r", config=QUICK) as broker:
                await broker.ping()
                assert SECRET not in repr(broker) + str(broker) + broker.url + broker.address
                assert "***" in broker.url


async def test_no_connection_is_left_when_the_block_ends(
    redis_url: str, run_name: str, learner: Broker
) -> None:
    before = len(await connections_of(redis_url, run_name))
    broker: Broker | None = None
    with pytest.raises(BrokerError):  # noqa: PT012 - the block is what is tested
        async with connect(redis_url, run=run_name, config=QUICK) as broker:
            await broker.jobs.take("a", [JobKind.TRAIN])
            assert broker.connections() == 2
            assert len(await connections_of(redis_url, run_name)) == before + 2
            raise BrokerError("anything")
    assert broker
    assert broker.connections() == 0
    assert len(await connections_of(redis_url, run_name)) == before
    assert learner.connections() == before


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"block_seconds": 0.0}, "block_seconds"),
        ({"outage_timeout": -1.0}, "outage_timeout"),
        ({"retry_min": 3.0}, "retry_min"),
    ],
)
def test_settings_that_cannot_work_together_are_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=f"^{named}="):
        BrokerConfig(**fields)


async def test_commands_share_a_bounded_number_of_connections(
    redis_url: str, run_name: str
) -> None:
    config = BrokerConfig(connections=3)
    async with connect(redis_url, run=run_name, config=config) as broker:
        await broker.create_run(make_spec(), "me")
        await asyncio.gather(*(broker.jobs.submit(make_job(f"j{n}")) for n in range(200)))
        assert broker.connections() <= 3
        assert (await broker.ledger()).issued == 200
