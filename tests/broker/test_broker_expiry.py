"""A finished run goes by itself, whole, and never with something in it that somebody wants."""

from __future__ import annotations

import pytest
from broker_world import BOTH, QUICK, connect, make_job, make_report, make_spec, raw

from asyncrl.broker import Beat, Broker, Completed, RunLimits
from asyncrl.errors import RunNotFound, RunStateLost
from asyncrl.testing.waiting import wait_until

FOR_EVER = -1


async def ttls(url: str, run: str) -> dict[str, int]:
    """Return key -> milliseconds until it expires, -1 for never."""
    async with raw(url) as client:
        keys = sorted([key async for key in client.scan_iter(f"asyncrl:{{{run}}}:*")])
        return {key.decode().split("}:")[1]: await client.pttl(key) for key in keys}


async def use(learner: Broker, actor: Broker, generation: int = 1) -> str:
    """Put something into every structure of the run; return the one result that is not acked."""
    names = [f"{generation}-{name}" for name in ("accepted", "dead", "cancelled")]
    for name in names:
        await learner.jobs.submit(make_job(name, generation=generation))
    accepted, dead, _ = await actor.jobs.take("a", BOTH, 3)
    await actor.presence.beat(Beat(actor_id="a", sequence=1, held={accepted.token: 1}))
    assert await actor.jobs.complete("a", accepted, b"x" * 500, 1) is Completed.OK
    await actor.jobs.fail("a", dead, make_report("a"))
    await learner.jobs.cancel(names[1:])
    await learner.weights.publish(generation, b"w", generation)
    await learner.weights.publish(generation + 10, b"w" * 50, generation)
    (entry,) = await learner.results.read()
    return entry.entry_id


async def test_a_finished_run_expires_whole_once_its_results_are_acked(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    entry = await use(learner, actor)
    assert not await learner.finish_run(1)
    assert set((await ttls(redis_url, run_name)).values()) == {FOR_EVER}
    await learner.results.ack([entry], {}, 1)
    assert await learner.finish_run(1)
    left = await ttls(redis_url, run_name)
    assert {"meta", "jobs:train", "done", "actors", "ledger", "events", "w:1:1:0"} <= set(left)
    assert all(3_500_000 < ms <= 3_600_000 for ms in left.values()), left


async def test_a_finished_run_is_gone_after_its_time(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    await learner.create_run(make_spec(), "me", RunLimits(finished_ttl=0.3))
    await learner.results.ack([await use(learner, actor, 2)], {}, 2)
    assert await learner.finish_run(2)

    async def gone() -> bool:
        return not await ttls(redis_url, run_name)

    await wait_until(gone, 5, "the run to expire")
    with pytest.raises(RunStateLost):
        await actor.presence.beat(Beat(actor_id="a", sequence=2))
    assert await ttls(redis_url, run_name) == {}
    async with connect(redis_url, run=run_name, config=QUICK) as late:
        with pytest.raises(RunNotFound):
            await late.read_run()


async def test_what_late_actors_write_expires_with_the_run(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    assert await learner.finish_run(1)
    before = await ttls(redis_url, run_name)
    assert not {"actors", "events", "dead"} & set(before)
    assert (await actor.presence.beat(Beat(actor_id="late", sequence=1))).drain
    await actor.events.report(make_report("late"), dead=True)
    await actor.presence.leave("later")
    after = await ttls(redis_url, run_name)
    assert {"actors", "events", "dead"} <= set(after)
    assert all(0 < ms <= before["meta"] for ms in after.values()), after


async def test_a_finished_run_can_be_kept_for_ever(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    await learner.create_run(make_spec(), "me", RunLimits(finished_ttl=0.0))
    await learner.results.ack([await use(learner, actor, 2)], {}, 2)
    assert await learner.finish_run(2)
    assert set((await ttls(redis_url, run_name)).values()) == {FOR_EVER}


async def test_a_learner_that_takes_a_finished_run_over_keeps_it(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    await learner.results.ack([await use(learner, actor)], {}, 1)
    await learner.finish_run(1)
    async with connect(redis_url, run=run_name, config=QUICK) as heir:
        assert (await heir.create_run(make_spec(), "second-learner")).state == "running"
        assert set((await ttls(redis_url, run_name)).values()) == {FOR_EVER}
        assert await actor.weights.fetch() == b"w" * 50


async def test_a_job_out_keeps_a_finished_run(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    await learner.jobs.submit(make_job())
    (taken,) = await actor.jobs.take("a", BOTH)
    assert not await learner.finish_run(1)
    assert await actor.jobs.complete("a", taken, b"x" * 500, 1) is Completed.OK
    assert not await learner.finish_run(1)
    assert set((await ttls(redis_url, run_name)).values()) == {FOR_EVER}
    await learner.results.ack([], {(await learner.results.read())[0].entry_id: "late"}, 1)
    assert await learner.finish_run(1)
    await learner.jobs.submit(make_job())  # and work anew ends the expiry
    assert set((await ttls(redis_url, run_name)).values()) == {FOR_EVER}
