"""Lost replies, cut links, cancelled calls, restarted servers: nothing is lost, nothing counts
twice."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from broker_world import (
    BOTH,
    QUICK,
    connect,
    connections_of,
    lose_next_reply,
    make_job,
    make_report,
    make_spec,
    raw,
    waits_for_jobs,
)

from asyncrl.broker import (
    Broker,
    BrokerConfig,
    Completed,
    Published,
    ReassignStatus,
    Submitted,
)
from asyncrl.data import JobKind
from asyncrl.testing.proxy import Fault, FaultyProxy
from asyncrl.testing.waiting import wait_until


async def test_a_lost_reply_never_makes_anything_happen_twice(
    learner: Broker, actor: Broker
) -> None:
    lose_next_reply(learner)
    assert await learner.jobs.submit(make_job("x")) is Submitted.LIVE
    assert await learner.jobs.queued() == 1
    lose_next_reply(actor)
    (taken,) = await actor.jobs.take("a", BOTH)
    lose_next_reply(actor)
    assert await actor.jobs.complete("a", taken, b"x", 5) is Completed.DUP
    (entry,) = await learner.results.read()
    lose_next_reply(learner)
    await learner.results.ack([entry.entry_id], {}, 1)
    lose_next_reply(learner)
    assert await learner.weights.publish(1, b"w", 1) is Published.OK
    await learner.jobs.submit(make_job("y"))
    (taken,) = await actor.jobs.take("a", BOTH)
    lose_next_reply(learner)
    answer = await learner.jobs.reassign(taken.token, JobKind.TRAIN, "dead")
    assert answer.status is ReassignStatus.GONE
    (taken,) = await actor.jobs.take("a", BOTH)
    assert taken.job.attempt == 2
    lose_next_reply(actor)
    answer = await actor.jobs.fail("a", taken, make_report("a", "y", 2))
    assert answer.status is ReassignStatus.GONE
    (taken,) = await actor.jobs.take("a", BOTH)
    assert taken.job.attempt == 3
    lose_next_reply(actor)
    assert not await actor.jobs.release("a", taken)
    lose_next_reply(learner)
    assert await learner.jobs.cancel(["y"]) == ["y"]
    ledger = await learner.ledger()
    assert (ledger.issued, ledger.accepted, ledger.cancelled, ledger.trained) == (2, 1, 1, 1)
    assert (ledger.reassigned, ledger.failed, ledger.env_steps_accepted) == (1, 1, 5)
    assert ledger.balanced


async def test_a_reply_dropped_on_the_way_is_asked_for_again(redis_url: str, run_name: str) -> None:
    async with (
        FaultyProxy(redis_url) as proxy,
        connect(proxy.url, run=run_name, config=QUICK) as broker,
    ):
        await broker.create_run(make_spec(), "me")
        proxy.set_fault(Fault.DROP_REPLY, times=1)
        assert await broker.jobs.submit(make_job()) is Submitted.LIVE
        proxy.set_fault(Fault.DROP_REPLY, times=1)
        (taken,) = await broker.jobs.take("a", BOTH)
        proxy.set_fault(Fault.DROP_REPLY, times=1)
        assert await broker.jobs.complete("a", taken, b"x" * 1000, 1) is Completed.OK
        proxy.set_fault(Fault.DROP_REPLY, times=2)
        assert await broker.jobs.complete("a", taken, b"x" * 1000, 1) is Completed.DUP
        assert proxy.dropped == 5
        assert await broker.results.waiting() == 1


async def test_scripts_come_back_after_the_server_forgot_them(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    async with raw(redis_url) as client:
        await client.script_flush()
        assert await learner.jobs.submit(make_job()) is Submitted.OK
        await client.script_flush()
        (taken,) = await actor.jobs.take("a", BOTH)
        await client.script_flush()
        assert await actor.jobs.complete("a", taken, b"x", 1) is Completed.OK


@pytest.mark.slow
async def test_a_wait_may_be_longer_than_the_time_out_of_commands(
    redis_url: str, run_name: str, learner: Broker
) -> None:
    config = BrokerConfig(block_seconds=6.5, command_timeout=5.0)
    async with connect(redis_url, run=run_name, config=config) as actor:
        waiting = asyncio.create_task(actor.jobs.take("a", BOTH))
        await wait_until(lambda: waits_for_jobs(redis_url, run_name), 5, "the actor to wait")
        (reader,) = [c for c in await connections_of(redis_url, run_name) if "b" in c["flags"]]
        await asyncio.sleep(6.0)
        assert [
            c["id"] for c in await connections_of(redis_url, run_name) if "b" in c["flags"]
        ] == [reader["id"]]
        await learner.jobs.submit(make_job("late"))
        (taken,) = await waiting
        assert taken.job.job_id == "late"


async def test_a_thousand_cancelled_commands_leave_every_reply_with_its_command(
    redis_url: str, run_name: str
) -> None:
    chance = random.Random(34)
    config = BrokerConfig(connections=4)
    async with (
        FaultyProxy(redis_url, delay=0.002) as proxy,
        connect(proxy.url, run=run_name, config=config) as broker,
    ):
        await broker.create_run(make_spec(), "me")
        proxy.set_fault(Fault.DELAY)
        command = broker._session.client.command

        async def ask(n: int, patience: float) -> bool:
            question = f"{n}-" + "x" * chance.randrange(2000)
            try:
                async with asyncio.timeout(patience):
                    assert await command("ECHO", question) == question.encode()
            except TimeoutError:
                return False
            return True

        answered = 0
        for batch in range(50):
            asked = (ask(20 * batch + n, chance.uniform(0, 0.012)) for n in range(20))
            answered += sum(await asyncio.gather(*asked))
            assert broker.connections() <= 4
        assert 0 < answered < 1000  # some of each kind, however fast the machine is
        proxy.set_fault(Fault.PASS)
        assert all(await asyncio.gather(*(ask(n, 10.0) for n in range(100))))
        await wait_until(
            lambda: _at_most(4, redis_url, run_name), 5, "closed connections to be noticed"
        )


async def _at_most(count: int, url: str, run: str) -> bool:
    return len(await connections_of(url, run)) <= count


async def test_whatever_is_delivered_to_a_cancelled_take_comes_with_the_next(
    redis_url: str, run_name: str, learner: Broker
) -> None:
    chance = random.Random(7)
    names = [f"j{n}" for n in range(60)]
    done: list[str] = []
    config = BrokerConfig(block_seconds=0.05)
    async with (
        FaultyProxy(redis_url, delay=0.001) as proxy,
        connect(proxy.url, run=run_name, config=config) as actor,
    ):
        proxy.set_fault(Fault.DELAY)

        async def submit() -> None:
            for name in names:
                await learner.jobs.submit(make_job(name, chance.choice(BOTH)))
                await asyncio.sleep(chance.uniform(0, 0.02))

        submitting = asyncio.create_task(submit())
        deadline = time.monotonic() + 20
        while len(done) < len(names) and time.monotonic() < deadline:
            try:
                async with asyncio.timeout(chance.choice([0.0, 0.002, 0.005, 0.02, 0.3])):
                    taken = await actor.jobs.take("a", BOTH, chance.choice([1, 2, 5]))
            except TimeoutError:
                continue
            for one in taken:
                assert one.job.attempt == 1
                assert await actor.jobs.complete("a", one, b"r", 1) is Completed.OK
                done.append(one.job.job_id)
        await submitting
    assert sorted(done) == sorted(names)
    assert await learner.jobs.pending() == []


async def test_a_wait_whose_link_fell_silent_goes_on_over_a_new_one(
    redis_url: str, run_name: str, learner: Broker
) -> None:
    config = BrokerConfig(block_seconds=0.2, command_timeout=0.3, retry_max=0.05)
    async with (
        FaultyProxy(redis_url) as proxy,
        connect(proxy.url, run=run_name, config=config) as actor,
    ):
        waiting = asyncio.create_task(actor.jobs.take("a", BOTH))
        await wait_until(lambda: waits_for_jobs(redis_url, run_name), 5, "the actor to wait")
        proxy.set_fault(Fault.BLACKHOLE)
        await learner.jobs.submit(make_job("x"))  # delivered into the silence
        await wait_until(lambda: _delivered(learner), 5, "the delivery")
        await asyncio.sleep(0.4)
        proxy.set_fault(Fault.PASS)
        (taken,) = await waiting
        assert taken.job.job_id == "x"


async def _delivered(broker: Broker) -> bool:
    return bool(await broker.jobs.pending())


async def test_work_goes_on_through_a_flapping_link(
    redis_url: str, run_name: str, learner: Broker
) -> None:
    names = [f"j{n}" for n in range(100)]
    for name in names:
        await learner.jobs.submit(make_job(name))
    async with (
        FaultyProxy(redis_url) as proxy,
        connect(proxy.url, run=run_name, config=QUICK) as actor,
    ):

        async def flap() -> None:
            while True:
                proxy.set_fault(Fault.RESET)
                await asyncio.sleep(0.01)
                proxy.set_fault(Fault.PASS)
                await asyncio.sleep(0.03)

        flapping = asyncio.create_task(flap())
        done = 0
        while done < len(names):
            for taken in await actor.jobs.take("a", BOTH, 3, block=False):
                answer = await actor.jobs.complete("a", taken, b"x" * 300, 1)
                assert answer in {Completed.OK, Completed.DUP}
                done += 1
        flapping.cancel()
        await asyncio.gather(flapping, return_exceptions=True)
    ledger = await learner.ledger()
    assert (ledger.accepted, ledger.waiting, ledger.stale) == (100, 100, 0)
    assert ledger.balanced
