"""Servers a run is not safe on: refused, or said, before anything is lost."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from broker_world import QUICK, connect, make_spec, raw

from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.errors import BrokerRefused, RunNotFound

LENIENT = replace(QUICK, allow_eviction=True)


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(tcp_port=0) as server:
        yield server


async def set_policy(server: EmbeddedServer, policy: str) -> None:
    async with raw(server.url) as client:
        await client.config_set("maxmemory-policy", policy)


async def url_without(server: EmbeddedServer, *commands: str) -> str:
    """Return the TCP URL of a user who may do anything but `commands`."""
    password = secrets.token_hex(8)
    async with raw(server.url) as client:
        rights = ("~*", "&*", "+@all", *(f"-{command}" for command in commands))
        await client.execute_command("ACL", "SETUSER", "clerk", "on", f">{password}", *rights)
    return re.sub(r"//:.*@", f"//clerk:{password}@", server.tcp_url)


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
async def test_a_server_that_evicts_is_refused_with_what_mends_it(
    server: EmbeddedServer, policy: str
) -> None:
    await set_policy(server, policy)
    async with connect(server.tcp_url, run="r", config=QUICK) as broker:
        host, port = broker.address.split(":")
        words = (
            rf"Redis at {host}:{port} has maxmemory-policy {policy}.*"
            rf"redis-cli -h {host} -p {port} CONFIG SET maxmemory-policy noeviction"
        )
        with pytest.raises(BrokerRefused, match=words):
            await broker.create_run(make_spec(), "me")
        with pytest.raises(RunNotFound):
            await broker.read_run()
    async with connect(server.tcp_url, run="r", config=LENIENT) as broker:
        assert (await broker.create_run(make_spec(), "me")).generation == 1


@pytest.mark.parametrize(
    "policy", ["noeviction", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"]
)
async def test_a_server_that_evicts_only_what_expires_anyway_is_good_enough(
    server: EmbeddedServer, policy: str
) -> None:
    await set_policy(server, policy)
    async with connect(server.url, run="r", config=QUICK) as broker:
        assert (await broker.create_run(make_spec(), "me")).generation == 1


async def test_a_server_that_does_not_tell_is_trusted_with_a_warning(
    server: EmbeddedServer,
) -> None:
    await set_policy(server, "allkeys-lru")
    url = await url_without(server, "info")
    async with connect(url, run="r", config=QUICK) as broker:
        assert (await broker.create_run(make_spec(), "me")).generation == 1
        (concern,) = await broker.concerns()
        assert re.search(rf"{broker.address} does not let this user see INFO", concern)


async def test_a_server_without_persistence_is_worth_a_warning(server: EmbeddedServer) -> None:
    async with connect(server.tcp_url, run="r", config=QUICK) as broker, raw(server.url) as client:
        (concern,) = await broker.concerns()
        assert re.search(rf"{broker.address} keeps nothing on disk", concern)
        assert "CONFIG SET appendonly yes" in concern
        await client.config_set("save", "900 1")
        assert await broker.concerns() == []
        await client.config_set("save", "")
        await client.config_set("appendonly", "yes")
        assert await broker.concerns() == []
        await client.config_set("appendonly", "no")
    url = await url_without(server, "config|get")
    async with connect(url, run="r", config=QUICK) as broker:
        assert await broker.concerns() == []  # nobody knows


async def test_a_bundled_server_on_its_socket_is_meant_to_forget(server: EmbeddedServer) -> None:
    async with connect(server.url, run="r", config=QUICK) as broker:
        assert await broker.concerns() == []
