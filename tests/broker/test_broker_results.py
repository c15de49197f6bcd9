"""The result stream: a log from which nothing disappears unless it is acked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from broker_world import BOTH, QUICK, connect, make_job, make_spec, raw, waits_for_jobs

from asyncrl.broker import Backlog, Broker, Completed, ResultEntry, RunLimits
from asyncrl.data import JobKind
from asyncrl.errors import StateError
from asyncrl.testing.waiting import wait_until


async def hand_in(
    learner: Broker, actor: Broker, payload: bytes = b"r", kind: JobKind = JobKind.TRAIN
) -> str:
    """Let a new job be done; return its id."""
    job = make_job(kind=kind, generation=learner.generation)
    await learner.jobs.submit(job)
    (taken,) = await actor.jobs.take("a", BOTH)
    assert await actor.jobs.complete("a", taken, payload, 5) is Completed.OK
    return job.job_id


def ids(entries: list[ResultEntry]) -> list[str]:
    return [entry.entry_id for entry in entries]


async def test_a_result_comes_with_all_that_is_known_of_it(learner: Broker, actor: Broker) -> None:
    job_id = await hand_in(learner, actor, b"payload", JobKind.EVAL)
    (entry,) = await learner.results.read()
    assert entry == ResultEntry(
        entry_id=entry.entry_id,
        job_id=job_id,
        kind=JobKind.EVAL,
        attempt=1,
        generation=1,
        actor_id="a",
        env_steps=5,
        payload=b"payload",
        nbytes=7,
    )
    ledger = await learner.ledger()
    assert (ledger.env_steps_accepted, ledger.eval_steps_accepted) == (0, 5)


async def test_results_come_in_order_each_once_and_stay_until_they_are_acked(
    learner: Broker, actor: Broker
) -> None:
    jobs = [await hand_in(learner, actor, b"%d" % n) for n in range(5)]
    first = await learner.results.read(2)
    rest = await learner.results.read(10)
    assert [entry.job_id for entry in (*first, *rest)] == jobs
    assert await learner.results.read(block=False) == []
    assert ids(await learner.results.read_pending()) == ids([*first, *rest])
    await learner.results.ack(ids(first), {}, 1)
    assert ids(await learner.results.read_pending()) == ids(rest)
    assert await learner.results.waiting() == 3
    await learner.jobs.submit(make_job())
    assert await learner.backlog() == Backlog(queued=1, results=3, nbytes=3)


async def test_pending_results_can_be_paged_through(learner: Broker, actor: Broker) -> None:
    for _ in range(40):
        await hand_in(learner, actor)
    read = await learner.results.read(40)
    assert ids(await learner.results.read_pending()) == ids(read)
    pages: list[str] = []
    while page := await learner.results.read_pending(pages[-1] if pages else "0-0", 7):
        pages += ids(page)
    assert pages == ids(read)


async def test_a_waiting_learner_wakes_when_a_result_comes(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    waiting = asyncio.create_task(learner.results.read())
    await wait_until(lambda: waits_for_jobs(redis_url, run_name), 5, "the learner to wait")
    job_id = await hand_in(learner, actor)
    assert [entry.job_id for entry in await waiting] == [job_id]


async def test_a_cancelled_read_loses_nothing(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    for _ in range(20):
        reading = asyncio.create_task(learner.results.read())
        await wait_until(lambda: waits_for_jobs(redis_url, run_name), 5, "the learner to wait")
        job = asyncio.create_task(hand_in(learner, actor))
        await asyncio.sleep(0)
        reading.cancel()
        job_id = await job
        entries = await asyncio.gather(reading, return_exceptions=True)
        got = entries[0] if isinstance(entries[0], list) else await learner.results.read()
        assert [entry.job_id for entry in got] == [job_id]


@pytest.mark.parametrize("size", [199, 200, 3_000_000])
async def test_a_large_payload_travels_in_a_key_of_its_own_that_goes_with_the_ack(
    redis_url: str, learner: Broker, actor: Broker, size: int
) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    await hand_in(learner, actor, payload[:size])
    (entry,) = await learner.results.read()
    assert (entry.payload, entry.nbytes) == (payload[:size], size)
    async with raw(redis_url) as client:
        blobs = await client.keys(f"asyncrl:{{{learner.run}}}:blob:*")
        assert len(blobs) == (size >= 200)
        for blob in blobs:
            assert await client.ttl(blob) == -1  # an accepted result waits for ever
        await learner.results.ack([entry.entry_id], {}, 1)
        assert await client.keys(f"asyncrl:{{{learner.run}}}:blob:*") == []


async def test_handing_in_again_leaves_the_accepted_payload_as_it_is(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    await learner.jobs.submit(make_job())
    (taken,) = await actor.jobs.take("a", BOTH)
    assert await actor.jobs.complete("a", taken, b"x" * 500, 1) is Completed.OK
    assert await actor.jobs.complete("a", taken, b"y" * 600, 1) is Completed.DUP
    (entry,) = await learner.results.read()
    assert entry.payload == b"x" * 500
    async with raw(redis_url) as client:
        assert await client.ttl(learner._session.keys.blob(taken.token)) == -1


async def test_a_refused_large_payload_is_not_left_behind(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    await learner.jobs.submit(make_job("x"))
    (taken,) = await actor.jobs.take("a", BOTH)
    await learner.jobs.cancel(["x"])
    assert await actor.jobs.complete("a", taken, b"x" * 500, 1) is Completed.STALE
    async with raw(redis_url) as client:
        assert await client.keys(f"asyncrl:{{{learner.run}}}:blob:*") == []


async def test_an_upload_that_expired_is_repeated(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    await learner.jobs.submit(make_job("x"))
    (taken,) = await actor.jobs.take("a", BOTH)
    client = actor._session.client
    command = client.command

    async def expire(*args: Any) -> Any:
        assert args[0] == "SET"
        client.command = command  # the first upload is gone as soon as it is made

    client.command = expire
    assert await actor.jobs.complete("a", taken, b"x" * 500, 1) is Completed.OK
    (entry,) = await learner.results.read()
    assert entry.payload == b"x" * 500


async def test_a_result_whose_blob_was_evicted_is_still_accounted_for(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    await hand_in(learner, actor, b"x" * 500)
    async with raw(redis_url) as client:
        await client.delete(*await client.keys(f"asyncrl:{{{learner.run}}}:blob:*"))
    (entry,) = await learner.results.read()
    assert (entry.payload, entry.nbytes) == (None, 500)
    await learner.results.ack([], {entry.entry_id: "blob_lost"}, 1)
    ledger = await learner.ledger()
    assert ledger.dropped == {"blob_lost": 1}
    assert ledger.balanced


async def test_acks_are_counted_once_by_what_became_of_the_result(
    learner: Broker, actor: Broker
) -> None:
    for _ in range(4):
        await hand_in(learner, actor)
    a, b, c, _ = ids(await learner.results.read())
    assert await learner.results.ack([a, "1-1"], {b: "stale", c: "bad"}, 1) == 3
    assert await learner.results.ack([a, b], {c: "bad"}, 1) == 0
    ledger = await learner.ledger()
    assert (ledger.trained, ledger.dropped, ledger.waiting) == (1, {"stale": 1, "bad": 1}, 1)
    assert ledger.waiting_bytes == 1
    assert ledger.balanced
    assert "4 accepted = 1 trained + 1 dropped (bad) + 1 dropped (stale) + 1 waiting: balanced" in (
        ledger.explain()
    )


async def test_a_drop_needs_a_reason(learner: Broker) -> None:
    with pytest.raises(StateError, match="without a reason"):
        await learner.results.ack([], {"1-1": ""}, 1)


@pytest.mark.parametrize(
    ("limit", "payload"),
    [
        (RunLimits(max_results=2), b"x"),
        (RunLimits(max_result_bytes=300), b"x" * 150),
        (RunLimits(max_result_bytes=1000), b"x" * 400),
    ],
)
async def test_a_full_log_pushes_back_and_recovers_when_it_is_acked(
    learner: Broker, actor: Broker, limit: RunLimits, payload: bytes
) -> None:
    await learner.create_run(make_spec(), "first-learner", limit)
    for name in ("early", "next", "late"):
        await learner.jobs.submit(make_job(name, generation=2))
    for _ in range(2):
        (taken,) = await actor.jobs.take("a", BOTH)
        assert await actor.jobs.complete("a", taken, payload, 5) is Completed.OK
    (taken,) = await actor.jobs.take("a", BOTH)
    before = await learner.ledger()
    for _ in range(3):
        assert await actor.jobs.complete("a", taken, payload, 5) is Completed.FULL
    assert await learner.ledger() == before
    first = (await learner.results.read())[0].entry_id
    await learner.results.ack([first], {}, 2)
    assert await actor.jobs.complete("a", taken, payload, 5) is Completed.OK
    assert (await learner.ledger()).balanced


async def test_a_result_larger_than_the_limit_is_accepted_when_none_waits(
    learner: Broker, actor: Broker
) -> None:
    await learner.create_run(make_spec(), "first-learner", RunLimits(max_result_bytes=100))
    await learner.jobs.submit(make_job(generation=2))
    (taken,) = await actor.jobs.take("a", BOTH)
    assert await actor.jobs.complete("a", taken, b"x" * 500, 1) is Completed.OK
    assert await learner.results.waiting() == 1


async def test_a_strangers_entry_comes_through_as_a_result_without_payload(
    redis_url: str, learner: Broker
) -> None:
    async with raw(redis_url) as client:
        await client.xadd(learner._session.keys.results, {"n": "\xff", "hello": b"\x80"})
    (entry,) = await learner.results.read()
    assert (entry.job_id, entry.payload, entry.attempt) == ("", None, 0)
    assert await learner.results.ack([], {entry.entry_id: "bad"}, 1) == 1


async def test_a_new_learner_finds_every_result_that_is_not_acked(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    early = [await hand_in(learner, actor) for _ in range(3)]
    first, second = await learner.results.read(2)
    assert (first.job_id, second.job_id) == tuple(early[:2])
    await learner.results.ack([first.entry_id], {}, 1)
    async with connect(redis_url, run=run_name, config=QUICK) as heir:
        await heir.create_run(make_spec(), "second-learner")
        late = await hand_in(heir, actor)
        assert [entry.job_id for entry in await heir.results.read_pending()] == early[1:]
        assert [entry.job_id for entry in await heir.results.read()] == [late]
        assert [entry.job_id for entry in await heir.results.read_pending()] == [*early[1:], late]
        assert {entry.generation for entry in await heir.results.read_pending()} == {1, 2}
