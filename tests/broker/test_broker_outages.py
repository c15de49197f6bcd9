"""Servers that restart, vanish, fill up or lose keys: waited for, or said clearly."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable

import pytest
from broker_world import BOTH, QUICK, TRAIN, connect, make_job, make_report, make_spec, raw

from asyncrl.broker import Beat, Broker, BrokerConfig, Completed, Submitted
from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.data import JobKind
from asyncrl.errors import BrokerRefused, BrokerUnavailable, RunStateLost
from asyncrl.testing.proxy import Fault, FaultyProxy


async def test_a_restarted_server_is_waited_for_and_nothing_is_lost() -> None:
    async with EmbeddedServer(appendonly=True) as server:
        async with (
            connect(server.url, run="r", config=QUICK) as learner,
            connect(server.url, run="r", config=QUICK) as actor,
        ):
            await learner.create_run(make_spec(), "me")
            await learner.weights.publish(1, b"w", 1)
            for n in range(6):
                await learner.jobs.submit(make_job(f"j{n}"))
            held = await actor.jobs.take("a", TRAIN, 2)
            await actor.jobs.complete("a", held[0], b"x", 1)
            before = await learner.ledger()
            reading = asyncio.create_task(learner.results.read())
            await reading
            waiting = asyncio.create_task(learner.results.read())
            os.kill(server.pid, signal.SIGKILL)
            completing = asyncio.create_task(actor.jobs.complete("a", held[1], b"y", 1))
            beating = asyncio.create_task(
                actor.presence.beat(Beat(actor_id="a", sequence=1, held={held[1].token: 1}))
            )
            await server.restart()
            assert await completing in {Completed.OK, Completed.DUP}
            assert (await beating).generation == 1
            assert len(await waiting) <= 1
            after = await learner.ledger()
            assert (after.accepted, after.issued) == (before.accepted + 1, before.issued)
            assert after.balanced
            assert len(await actor.jobs.take("a", TRAIN, 10)) == 4


async def test_a_server_that_came_back_empty_is_not_mistaken_for_the_run() -> None:
    async with EmbeddedServer() as server:
        async with connect(server.url, run="r", config=QUICK) as learner:
            await learner.create_run(make_spec(), "me")
            os.kill(server.pid, signal.SIGKILL)
            await server.restart()
            with pytest.raises(RunStateLost, match="restarted without persistence"):
                await learner.jobs.submit(make_job())


CALLS: dict[str, Callable[[Broker], Awaitable[object]]] = {
    "submit": lambda b: b.jobs.submit(make_job()),
    "take": lambda b: b.jobs.take("a", BOTH),
    "read": lambda b: b.results.read(),
    "fetch": lambda b: b.weights.fetch(),
    "beat": lambda b: b.presence.beat(Beat(actor_id="a", sequence=1)),
    "tail": lambda b: b.events.tail(),
    "ledger": lambda b: b.ledger(),
}


@pytest.mark.parametrize("name", CALLS)
async def test_an_outage_ends_with_a_reason_after_its_time_out(
    redis_url: str, run_name: str, name: str
) -> None:
    config = BrokerConfig(outage_timeout=0.3, retry_max=0.05)
    async with (
        FaultyProxy(redis_url) as proxy,
        connect(proxy.url, run=run_name, config=config) as broker,
    ):
        await broker.create_run(make_spec(), "me")
        proxy.set_fault(Fault.RESET)
        started = time.monotonic()
        with pytest.raises(BrokerUnavailable, match=f"127.0.0.1:{proxy.port}"):
            await CALLS[name](broker)
        assert 0.1 < time.monotonic() - started < 3
        proxy.set_fault(Fault.PASS)
        assert (await broker.ledger()).balanced


async def test_a_full_server_changes_nothing_and_beats_go_on() -> None:
    config = BrokerConfig(outage_timeout=0.2, blob_threshold=200, retry_max=0.05)
    async with EmbeddedServer() as server:
        async with (
            raw(server.url) as client,
            connect(server.url, run="r", config=config) as learner,
            connect(server.url, run="r", config=config) as actor,
        ):
            await learner.create_run(make_spec(), "me")
            for n in range(6):
                await learner.jobs.submit(make_job(f"j{n}"))
            inline, blob, failing, released, late, _ = await actor.jobs.take("a", TRAIN, 6)
            await actor.jobs.complete("a", late, b"x", 1)
            await actor.presence.beat(Beat(actor_id="a", sequence=1))
            before = await learner.ledger()

            await client.config_set("maxmemory", "1")
            assert await learner.jobs.submit(make_job("more")) is Submitted.FULL
            assert await actor.jobs.complete("a", inline, b"x", 1) is Completed.FULL
            assert await actor.jobs.complete("a", blob, b"x" * 500, 1) is Completed.FULL
            assert await learner.ledger() == before
            # What frees memory or keeps the run alive goes on.
            held = {inline.token: 1}
            reply = await actor.presence.beat(Beat(actor_id="a", sequence=2, held=held))
            assert reply.lost == frozenset()
            assert (await learner.presence.actors())[0].sequence == 2
            await actor.jobs.fail("a", failing, make_report("a"))
            assert await actor.jobs.release("a", released)
            assert await learner.jobs.cancel(["j5"]) == ["j5"]
            (entry,) = await learner.results.read()
            assert await learner.results.ack([entry.entry_id], {}, 1) == 1
            assert await actor.jobs.complete("a", failing, b"x", 1) is Completed.STALE
            assert (await learner.create_run(make_spec(), "me")).generation == 2
            assert (await learner.ledger()).balanced

            await client.config_set("maxmemory", "0")
            await learner.jobs.submit(make_job("more", generation=2))
            (taken,) = await actor.jobs.take("a", TRAIN)
            assert await actor.jobs.complete("a", taken, b"x" * 500, 1) is Completed.OK
            assert (await learner.ledger()).balanced


async def test_a_single_stream_that_was_evicted_is_noticed(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    async with raw(redis_url) as client:
        await client.delete(learner._session.keys.jobs(JobKind.TRAIN))
    for call in (actor.jobs.take("a", BOTH), learner.jobs.pending(), learner.jobs.queued()):
        with pytest.raises(RunStateLost, match="evicted"):
            await call


async def test_a_key_of_another_type_is_refused_without_trying_again(
    redis_url: str, learner: Broker
) -> None:
    async with raw(redis_url) as client:
        await client.delete(learner._session.keys.live)
        await client.set(learner._session.keys.live, "not ours")
    started = time.monotonic()
    with pytest.raises(BrokerRefused, match="WRONGTYPE"):
        await learner.jobs.live()
    assert time.monotonic() - started < 1


async def test_publishing_on_a_full_server_waits_then_says_what_to_do() -> None:
    config = BrokerConfig(outage_timeout=0.5, retry_max=0.05)
    async with (
        EmbeddedServer() as server,
        raw(server.url) as client,
        connect(server.url, run="r", config=config) as learner,
    ):
        await learner.create_run(make_spec(), "me")
        await client.config_set("maxmemory", "1")
        publishing = asyncio.create_task(learner.weights.publish(1, b"w", 1))
        await asyncio.sleep(0.1)
        assert not publishing.done()
        await client.config_set("maxmemory", "0")
        await publishing
        await client.config_set("maxmemory", "1")
        with pytest.raises(BrokerRefused, match=r"out of memory.*raise its maxmemory"):
            await learner.weights.publish(2, b"w", 1)
        assert await learner.weights.pointer() == (1, 1)
