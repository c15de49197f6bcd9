"""Published weights only get newer, and always resolve to what was published."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from broker_world import QUICK, connect, make_spec, raw

from asyncrl.broker import Broker, BrokerConfig, Published, RunLimits
from asyncrl.errors import Fenced, StateError, WaitTimeout


async def test_weights_are_fetched_as_they_were_published(learner: Broker, actor: Broker) -> None:
    assert await actor.weights.pointer() is None
    assert await learner.weights.publish(1, b"first", 1) is Published.OK
    assert await learner.weights.publish(2, b"second", 1) is Published.OK
    assert await actor.weights.pointer() == (1, 2)
    assert await actor.weights.fetch((1, 2)) == b"second"
    assert (await actor.read_run()).weights == (1, 2)


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 35])
async def test_large_weights_travel_in_parts(redis_url: str, run_name: str, size: int) -> None:
    config = BrokerConfig(weights_part=10)
    async with connect(redis_url, run=run_name, config=config) as broker:
        await broker.create_run(make_spec(), "me")
        payload = bytes(range(size))
        await broker.weights.publish(1, payload, 1)
        assert await broker.weights.fetch() == payload


async def test_publishing_again_is_a_success_that_changes_nothing(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    await learner.weights.publish(1, b"first", 1)
    assert await learner.weights.publish(1, b"first", 1) is Published.DUP
    async with raw(redis_url) as client:
        (key,) = await client.keys(f"asyncrl:{{{learner.run}}}:w:*")
        assert await client.ttl(key) == -1
    assert await actor.weights.fetch() == b"first"


@pytest.mark.parametrize("version", [2, 3])
async def test_older_weights_and_others_of_the_same_version_are_refused(
    learner: Broker, actor: Broker, version: int
) -> None:
    await learner.weights.publish(3, b"third", 1)
    with pytest.raises(StateError, match="not newer than version 3 of generation 1"):
        await learner.weights.publish(version, b"other", 1)
    assert await actor.weights.pointer() == (1, 3)
    assert await actor.weights.fetch() == b"third"


async def test_a_restarted_learner_cannot_roll_weights_back(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    await learner.weights.publish(7, b"seventh", 1)
    async with connect(redis_url, run=run_name, config=QUICK) as heir:
        info = await heir.create_run(make_spec(), "second-learner")
        assert info.weights == (1, 7)
        with pytest.raises(StateError, match=r"go on counting from RunInfo\.weights"):
            await heir.weights.publish(1, b"step 0", 2)
        assert await actor.weights.fetch() == b"seventh"
        await heir.weights.publish(8, b"eighth", 2)
        assert await actor.weights.pointer() == (2, 8)
        with pytest.raises(Fenced):
            await learner.weights.publish(9, b"ninth", 1)
        assert await actor.weights.fetch((2, 8)) == b"eighth"


async def test_only_the_last_versions_are_kept(redis_url: str, learner: Broker) -> None:
    for version in range(1, 8):
        await learner.weights.publish(version, b"%d" % version, 1)
    async with raw(redis_url) as client:
        keys = await client.keys(f"asyncrl:{{{learner.run}}}:w:*")
        lasting = {key.decode().split(":")[-2] for key in keys if await client.ttl(key) == -1}
    assert lasting == {"5", "6", "7"}


async def test_a_fetch_during_publishing_always_gets_a_whole_set(
    redis_url: str, run_name: str
) -> None:
    config = BrokerConfig(weights_part=1000)
    async with (
        connect(redis_url, run=run_name, config=config) as learner,
        connect(redis_url, run=run_name, config=config) as actor,
    ):
        limits = RunLimits(keep_versions=1, weights_ttl=0.001)
        await learner.create_run(make_spec(), "me", limits)
        await learner.weights.publish(1, b"\x01" * 20_000, 1)

        async def publish() -> None:
            for version in range(2, 60):
                await learner.weights.publish(version, bytes([version]) * 20_000, 1)

        publishing = asyncio.create_task(publish())
        newest = 0
        while not publishing.done():
            payload = await actor.weights.fetch()
            assert payload == payload[:1] * 20_000
            assert payload[0] >= newest
            newest = payload[0]
        await publishing


async def test_parts_that_expired_before_they_were_pointed_at_are_uploaded_again(
    learner: Broker, actor: Broker
) -> None:
    client = learner._session.client
    command = client.command

    async def expire(*args: Any) -> Any:
        if args[0] != "SET":
            return await command(*args)
        client.command = command  # the first upload is gone as soon as it is made
        return b"OK"

    client.command = expire
    await learner.weights.publish(1, b"first", 1)
    assert await actor.weights.fetch() == b"first"


async def test_waiting_for_weights_ends_with_a_reason(redis_url: str, run_name: str) -> None:
    config = BrokerConfig(weights_timeout=0.1)
    async with connect(redis_url, run=run_name, config=config) as broker:
        await broker.create_run(make_spec(), "me")
        await broker.weights.publish(1, b"first", 1)
        with pytest.raises(WaitTimeout, match=r"\(1, 2\) or newer.*newest published are \(1, 1\)"):
            await broker.weights.fetch((1, 2))
        async with raw(redis_url) as client:
            await client.set(broker._session.keys.weight_part(1, 1, 0), b"corrupt")
        with pytest.raises(WaitTimeout):
            await broker.weights.fetch()
