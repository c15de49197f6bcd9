"""Runs and their learners: who may change what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from broker_world import BOTH, QUICK, connect, lose_next_reply, make_job, make_spec, raw

from asyncrl.broker import Beat, Broker, Completed, ResultEntry, Submitted
from asyncrl.data import FailureReport, JobKind
from asyncrl.errors import Fenced, RunMismatch, RunNotFound, RunStateLost
from asyncrl.wire import PROTOCOL_VERSION


async def test_a_run_says_what_it_is(learner: Broker, actor: Broker) -> None:
    info = await actor.read_run()
    assert info == await learner.read_run()
    assert (info.generation, info.owner, info.weights, info.state) == (
        1,
        "first-learner",
        None,
        "running",
    )
    assert (info.protocol, info.spec) == (PROTOCOL_VERSION, make_spec())
    assert (learner.generation, actor.generation) == (1, 0)
    assert learner.incarnation == actor.incarnation == info.incarnation


async def test_a_run_that_is_not_there_is_named(redis_url: str, run_name: str) -> None:
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        for call in (broker.read_run(), broker.jobs.take("a", BOTH), broker.ledger()):
            with pytest.raises(RunNotFound, match=run_name):
                await call
        async with connect(redis_url, run=run_name, config=QUICK) as learner:
            await learner.create_run(make_spec(), "me")
        assert (await broker.read_run()).generation == 1


async def test_a_takeover_cancels_all_that_is_unfinished_and_keeps_the_results(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    for name in ("accepted", "running", "queued"):
        await learner.jobs.submit(make_job(name))
    await learner.jobs.submit(make_job("evaluation", JobKind.EVAL))
    evaluation, accepted, running = await actor.jobs.take("a", BOTH, 3)
    await actor.jobs.complete("a", accepted, b"x", 3)
    async with connect(redis_url, run=run_name, config=QUICK) as heir:
        info = await heir.create_run(make_spec(seed=9, num_envs=2), "second-learner")
        assert (info.generation, info.owner) == (2, "second-learner")
        assert info.spec == make_spec(seed=9, num_envs=2)
        ledger = await heir.ledger()
        assert (ledger.issued, ledger.accepted, ledger.cancelled, ledger.in_flight) == (4, 1, 3, 0)
        assert ledger.balanced
        assert await heir.jobs.queued() == 0
        assert await heir.jobs.pending() == []
        held = {running.token: 1, evaluation.token: 1}
        reply = await actor.presence.beat(Beat(actor_id="a", sequence=1, held=held))
        assert reply.generation == 2
        assert reply.cancelled == {"running", "evaluation"}
        assert await actor.jobs.complete("a", running, b"late", 3) is Completed.STALE
        assert await actor.jobs.complete("a", accepted, b"x", 3) is Completed.DUP
        assert await heir.jobs.submit(make_job("new", generation=2)) is Submitted.OK


BAD = ResultEntry(
    entry_id="1-1", job_id="theirs", kind=JobKind.TRAIN, attempt=1, generation=1, actor_id="a",
    env_steps=1, payload=b"", nbytes=0,
)  # fmt: skip
WHY = FailureReport(actor_id="a", job_id="theirs", attempt=1, where="checking", cause="no good")

FENCED_CALLS: dict[str, Callable[[Broker, str], Awaitable[object]]] = {
    "submit": lambda b, _: b.jobs.submit(make_job("mine")),
    "cancel": lambda b, _: b.jobs.cancel(["theirs"]),
    "reassign": lambda b, token: b.jobs.reassign(token, JobKind.TRAIN, "dead"),
    "pending": lambda b, _: b.jobs.pending(),
    "ack": lambda b, _: b.results.ack(["1-1"], {}, 1),
    "ack nothing": lambda b, _: b.results.ack([], {}, 1),
    "reject": lambda b, _: b.results.reject(BAD, WHY, None),
    "read": lambda b, _: b.results.read(block=False),
    "publish": lambda b, _: b.weights.publish(9, b"w" * 1000, 1),
    "retire": lambda b, _: b.presence.retire("a"),
    "finish": lambda b, _: b.finish_run(1),
    "ledger": lambda b, _: b.ledger(),
}


@pytest.mark.parametrize("name", FENCED_CALLS)
async def test_a_fenced_learner_changes_nothing_and_hears_who_took_over(
    redis_url: str, run_name: str, learner: Broker, actor: Broker, name: str
) -> None:
    async with connect(redis_url, run=run_name, config=QUICK) as heir:
        await heir.create_run(make_spec(), "second-learner")
        await heir.jobs.submit(make_job("theirs", generation=2))
        (taken,) = await actor.jobs.take("a", BOTH)
        before = await _dump(redis_url, run_name)
        with pytest.raises(Fenced, match="second-learner") as caught:
            await FENCED_CALLS[name](learner, taken.token)
        assert (caught.value.generation, caught.value.newer) == (1, 2)
        assert await _dump(redis_url, run_name) == before


async def _dump(url: str, run: str) -> dict[bytes, Any]:
    async with raw(url) as client:
        keys = sorted(await client.keys(f"asyncrl:{{{run}}}:*"))
        return {key: await client.dump(key) for key in keys}


async def test_of_many_learners_that_start_at_once_one_is_left(
    redis_url: str, run_name: str
) -> None:
    async def start(n: int) -> tuple[int, bool]:
        async with connect(redis_url, run=run_name, config=QUICK) as broker:
            info = await broker.create_run(make_spec(), f"learner-{n}")
            generation = broker.generation
            await barrier.wait()
            try:
                await broker.jobs.submit(make_job(f"j{n}", generation=generation))
            except Fenced:
                return generation, False
            assert info.spec == make_spec()
            return generation, True

    barrier = asyncio.Barrier(8)
    outcome = dict(await asyncio.gather(*(start(n) for n in range(8))))
    assert outcome == {generation: generation == 8 for generation in range(1, 9)}


async def test_creating_a_run_whose_answer_was_lost_does_not_fence_oneself(
    redis_url: str, run_name: str
) -> None:
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        lose_next_reply(broker)
        assert (await broker.create_run(make_spec(), "me")).generation == 1
        lose_next_reply(broker)
        assert (await broker.create_run(make_spec(), "me")).generation == 2


async def test_another_environment_is_refused_with_the_difference(
    redis_url: str, run_name: str, learner: Broker
) -> None:
    async with connect(redis_url, run=run_name, config=QUICK) as other:
        with pytest.raises(RunMismatch, match=r"CartPole-v1.*Acrobot-v1"):
            await other.create_run(make_spec(env="Acrobot-v1"), "other")
    assert (await learner.read_run()).owner == "first-learner"


async def test_a_run_whose_description_is_unreadable_is_refused(
    redis_url: str, learner: Broker
) -> None:
    async with raw(redis_url) as client:
        unreadable = {"spec": b"\x80\x04.", "fingerprint": "other"}
        await client.hset(learner._session.keys.meta, mapping=unreadable)
    with pytest.raises(RunMismatch, match="description cannot be read"):
        await learner.create_run(make_spec(), "me")


async def test_another_protocol_is_refused_on_both_sides_with_both_versions(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    async with raw(redis_url) as client:
        theirs = {"protocol": PROTOCOL_VERSION + 1, "library": "99.0"}
        await client.hset(learner._session.keys.meta, mapping=theirs)
    words = (
        rf"protocol {PROTOCOL_VERSION + 1} \(asyncrl 99.0\), this is protocol {PROTOCOL_VERSION}"
    )
    with pytest.raises(RunMismatch, match=words):
        await actor.read_run()
    with pytest.raises(RunMismatch, match=words):
        await learner.create_run(make_spec(), "me")


CALLS: dict[str, Callable[[Broker], Awaitable[object]]] = {
    "submit": lambda b: b.jobs.submit(make_job()),
    "take": lambda b: b.jobs.take("a", BOTH),
    "read": lambda b: b.results.read(),
    "publish": lambda b: b.weights.publish(1, b"w", 1),
    "beat": lambda b: b.presence.beat(Beat(actor_id="a", sequence=1)),
    "ledger": lambda b: b.ledger(),
    "read_run": lambda b: b.read_run(),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("created_anew", [False, True])
async def test_a_run_that_vanished_is_noticed(
    redis_url: str,
    run_name: str,
    learner: Broker,
    name: str,
    created_anew: bool,
) -> None:
    async with raw(redis_url) as client:
        await client.delete(*await client.keys(f"asyncrl:{{{run_name}}}:*"))
    if created_anew:
        async with connect(redis_url, run=run_name, config=QUICK) as other:
            await other.create_run(make_spec(), "first-learner")
    with pytest.raises(RunStateLost, match=run_name):
        await CALLS[name](learner)


async def test_a_wait_for_jobs_ends_when_the_run_vanishes(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    waiting = asyncio.create_task(actor.jobs.take("a", BOTH))
    results = asyncio.create_task(learner.results.read())
    await asyncio.sleep(0.05)
    async with raw(redis_url) as client:
        await client.delete(*await client.keys(f"asyncrl:{{{run_name}}}:*"))
    for task in (waiting, results):
        try:
            assert await task == []  # a server that does not wake a reader whose stream vanished
        except RunStateLost:
            continue
    with pytest.raises(RunStateLost):
        await actor.jobs.take("a", BOTH)


async def test_a_learner_can_create_a_lost_run_anew(
    redis_url: str, run_name: str, learner: Broker
) -> None:
    await learner.jobs.submit(make_job("x"))
    async with raw(redis_url) as client:
        await client.delete(learner._session.keys.meta)
    with pytest.raises(RunStateLost):
        await learner.jobs.submit(make_job("y"))
    info = await learner.create_run(make_spec(), "first-learner")
    assert info.generation == 1
    ledger = await learner.ledger()
    assert (ledger.issued, ledger.balanced) == (0, True)
    assert await learner.jobs.submit(make_job("x")) is Submitted.OK
