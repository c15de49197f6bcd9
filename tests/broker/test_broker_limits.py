"""What a run's learner sets holds for every process of the run, whatever that one was told."""

from __future__ import annotations

from typing import Any

import pytest
from broker_world import BOTH, QUICK, connect, make_job, make_report, make_spec, raw

from asyncrl.broker import (
    Broker,
    BrokerConfig,
    Completed,
    ReassignStatus,
    RunLimits,
    Submitted,
)
from asyncrl.broker.limits import LIMIT_NAMES, limit_field
from asyncrl.data import JobKind
from asyncrl.errors import ConfigError

TIGHT = RunLimits(max_attempts=1, max_results=1, max_jobs=3, keep_versions=1, weights_ttl=30.0)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"max_jobs": -1}, "max_jobs"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"blob_ttl": float("inf")}, "blob_ttl"),
        ({"weights_ttl": float("nan")}, "weights_ttl"),
        ({"done_keep": 10}, "done_keep"),
    ],
)
def test_limits_that_cannot_work_together_are_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=f"^{named}="):
        RunLimits(**fields)


async def test_a_payload_must_outlast_two_outages(redis_url: str, run_name: str) -> None:
    patient = BrokerConfig(outage_timeout=30.0)
    async with connect(redis_url, run=run_name, config=patient) as broker:
        with pytest.raises(ConfigError, match=r"^blob_ttl=59\.0.*outage_timeout=30.*at least 60"):
            await broker.create_run(make_spec(), "me", RunLimits(blob_ttl=59.0))


async def test_limits_travel_with_the_run(redis_url: str, run_name: str) -> None:
    async with connect(redis_url, run=run_name, config=QUICK) as learner:
        info = await learner.create_run(make_spec(), "me", TIGHT)
        assert info.limits == TIGHT
        async with connect(redis_url, run=run_name) as actor:
            assert (await actor.read_run()).limits == TIGHT


async def test_every_script_reads_the_limits_of_the_run(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    await learner.create_run(make_spec(), "me", TIGHT)
    for name in ("failing", "taken-away", "done"):
        assert await learner.jobs.submit(make_job(name, generation=2)) is Submitted.OK
    assert await learner.jobs.submit(make_job("late", generation=2)) is Submitted.FULL
    failing, taken, done = await actor.jobs.take("a", BOTH, 3)
    assert (await actor.jobs.fail("a", failing, make_report())).status is ReassignStatus.DEAD
    answer = await learner.jobs.reassign(taken.token, JobKind.TRAIN, "no beat")
    assert answer.status is ReassignStatus.DEAD
    assert await actor.jobs.complete("a", done, b"x", 1) is Completed.OK
    await learner.jobs.submit(make_job("late", generation=2))
    (late,) = await actor.jobs.take("a", BOTH)
    for payload in (b"x", b"x" * 500):
        assert await actor.jobs.complete("a", late, payload, 1) is Completed.FULL
    for version in (1, 2):
        await learner.weights.publish(version, b"w", 2)
    async with raw(redis_url) as client:
        old, new = (learner._session.keys.weight_part(2, version, 0) for version in (1, 2))
        assert 20_000 < await client.pttl(old) <= 30_000
        assert await client.pttl(new) == -1


async def test_a_takeover_puts_its_own_limits_in_force_at_once(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    async with connect(redis_url, run=run_name, config=QUICK) as heir:
        await heir.create_run(make_spec(), "second-learner", RunLimits(max_attempts=1))
        await heir.jobs.submit(make_job("x", generation=2))
        (taken,) = await actor.jobs.take("a", BOTH)
        assert (await actor.jobs.fail("a", taken, make_report())).status is ReassignStatus.DEAD
        # Taking over again with no word on limits brings the defaults back.
        assert (await learner.create_run(make_spec(), "first-learner")).limits == RunLimits()
        await learner.jobs.submit(make_job("y", generation=3))
        (taken,) = await actor.jobs.take("a", BOTH)
        answer = await actor.jobs.fail("a", taken, make_report())
        assert answer.status is ReassignStatus.REASSIGNED


@pytest.mark.parametrize("stored", [None, "", "many", b"\xff"])
async def test_a_limit_that_an_older_library_did_not_store_is_the_default(
    redis_url: str, learner: Broker, actor: Broker, stored: str | bytes | None
) -> None:
    async with raw(redis_url) as client:
        for name in LIMIT_NAMES:
            if stored is None:
                await client.hdel(learner._session.keys.meta, limit_field(name))
            else:
                await client.hset(learner._session.keys.meta, limit_field(name), stored)
    assert (await actor.read_run()).limits == RunLimits()
    await learner.jobs.submit(make_job("x"))
    (taken,) = await actor.jobs.take("a", BOTH)
    assert (await actor.jobs.fail("a", taken, make_report())).status is ReassignStatus.REASSIGNED
    (taken,) = await actor.jobs.take("a", BOTH)
    assert await actor.jobs.complete("a", taken, b"x" * 500, 1) is Completed.OK
    await learner.weights.publish(1, b"w", 1)
