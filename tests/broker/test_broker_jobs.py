"""The job queue: each job runs until it is accepted once, cancelled, or dead."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import numpy as np
import pytest
from broker_world import (
    BOTH,
    QUICK,
    TRAIN,
    connect,
    make_job,
    make_report,
    make_spec,
    raw,
    waits_for_jobs,
)

from asyncrl.broker import (
    Beat,
    Broker,
    Completed,
    Reassigned,
    ReassignStatus,
    RunLimits,
    Submitted,
    TakenJob,
)
from asyncrl.data import JobKind
from asyncrl.errors import StateError
from asyncrl.testing.waiting import wait_until


async def take_one(broker: Broker, actor_id: str = "a") -> TakenJob:
    (taken,) = await broker.jobs.take(actor_id, BOTH)
    return taken


async def test_a_job_is_queued_once_however_often_it_is_submitted(learner: Broker) -> None:
    job = make_job()
    assert await learner.jobs.submit(job) is Submitted.OK
    assert await learner.jobs.submit(job) is Submitted.LIVE
    assert await learner.jobs.queued() == 1
    assert await learner.jobs.live() == {job.job_id}


async def test_a_closed_job_is_not_run_again(learner: Broker, actor: Broker) -> None:
    accepted, cancelled = make_job(), make_job()
    await learner.jobs.submit(accepted)
    await actor.jobs.complete("a", await take_one(actor), b"x", 1)
    await learner.jobs.submit(cancelled)
    await learner.jobs.cancel([cancelled.job_id])
    assert await learner.jobs.submit(accepted) is Submitted.DONE
    assert await learner.jobs.submit(cancelled) is Submitted.DONE


async def test_a_full_queue_says_so_and_takes_jobs_again_once_there_is_room(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    async with connect(redis_url, run=run_name, config=QUICK) as small:
        await small.create_run(make_spec(), "small", RunLimits(max_jobs=2))
        assert await small.jobs.submit(make_job(generation=2)) is Submitted.OK
        assert await small.jobs.submit(make_job(generation=2)) is Submitted.OK
        late = make_job(generation=2)
        assert await small.jobs.submit(late) is Submitted.FULL
        assert (await small.ledger()).issued == 2
        await actor.jobs.complete("a", await take_one(actor), b"x", 1)
        assert await small.jobs.submit(late) is Submitted.OK


async def test_a_job_without_generation_is_refused(learner: Broker) -> None:
    with pytest.raises(StateError, match="of generation 0"):
        await learner.jobs.submit(make_job(generation=0))


async def test_evaluation_never_waits_behind_training(learner: Broker, actor: Broker) -> None:
    train = [make_job() for _ in range(3)]
    evaluation = make_job(kind=JobKind.EVAL)
    for job in (*train, evaluation):
        await learner.jobs.submit(job)
    taken = await actor.jobs.take("a", BOTH, 2)
    assert [t.job.job_id for t in taken] == [evaluation.job_id, train[0].job_id]


async def test_only_the_kinds_asked_for_are_taken(learner: Broker, actor: Broker) -> None:
    await learner.jobs.submit(make_job(kind=JobKind.EVAL))
    assert await actor.jobs.take("a", TRAIN, block=False) == []


async def test_jobs_are_taken_oldest_first_and_no_more_than_asked_for(
    learner: Broker, actor: Broker
) -> None:
    jobs = [make_job() for _ in range(5)]
    for job in jobs:
        await learner.jobs.submit(job)
    assert [t.job for t in await actor.jobs.take("a", BOTH, 3)] == jobs[:3]
    assert [t.job for t in await actor.jobs.take("b", BOTH, 3)] == jobs[3:]


async def test_a_waiting_actor_wakes_when_a_job_comes(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    waiting = asyncio.create_task(actor.jobs.take("a", BOTH))
    await wait_until(lambda: waits_for_jobs(redis_url, run_name), 5, "the actor to wait")
    job = make_job()
    await learner.jobs.submit(job)
    (taken,) = await waiting
    assert taken.job == job


async def test_a_wait_gives_back_what_is_more_than_was_asked_for(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    waiting = asyncio.create_task(actor.jobs.take("a", BOTH, 1))
    await wait_until(lambda: waits_for_jobs(redis_url, run_name), 5, "the actor to wait")
    keys = learner._session.keys
    async with raw(redis_url) as client, client.pipeline(transaction=True) as both:
        # One transaction wakes the actor with a job of each kind; whether it gets one or both at
        # once differs between servers.
        for kind, token in ((JobKind.TRAIN, "1-0"), (JobKind.EVAL, "2-0")):
            both.xadd(keys.jobs(kind), {"j": kind.value, "n": 1, "g": 1, "p": b"", "r": ""}, token)
            both.hset(keys.live, kind.value, f"{kind.value}|{token}|1")
        await both.execute()
    await waiting
    assert len(await learner.jobs.pending()) <= 1


async def test_pending_tells_who_works_on_what(learner: Broker, actor: Broker) -> None:
    await learner.jobs.submit(make_job("x"))
    await learner.jobs.submit(make_job("e", JobKind.EVAL))
    await learner.jobs.submit(make_job("queued"))
    evaluation, train = await actor.jobs.take("a", BOTH, 2)
    found = {p.job_id: p for p in await learner.jobs.pending()}
    assert set(found) == {"x", "e"}
    assert found["x"].token == train.token
    assert found["e"].token == evaluation.token
    assert found["e"].kind is JobKind.EVAL
    assert (found["x"].actor_id, found["x"].attempt) == ("a", 1)
    assert 0 <= found["x"].idle_seconds < 5


async def test_tokens_grow_over_both_kinds_of_job(learner: Broker, actor: Broker) -> None:
    for n in range(20):
        await learner.jobs.submit(make_job(f"t{n}", BOTH[n % 2]))
    taken = await actor.jobs.take("a", BOTH, 20)
    by_job = {t.job.job_id: tuple(map(int, t.token.split("-"))) for t in taken}
    tokens = [by_job[f"t{n}"] for n in range(20)]
    assert sorted(set(tokens)) == tokens


async def test_tokens_grow_though_the_servers_clock_steps_back(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    future = "99999999999999-7"
    async with raw(redis_url) as client:
        await client.hset(learner._session.keys.meta, "token", future)
    await learner.jobs.submit(make_job())
    await learner.jobs.submit(make_job())
    first, second = await actor.jobs.take("a", BOTH, 2)
    assert (first.token, second.token) == ("99999999999999-8", "99999999999999-9")


async def test_a_result_is_accepted_once(learner: Broker, actor: Broker) -> None:
    await learner.jobs.submit(make_job())
    taken = await take_one(actor)
    assert await actor.jobs.complete("a", taken, b"result", 5) is Completed.OK
    assert await actor.jobs.complete("a", taken, b"result", 5) is Completed.DUP
    ledger = await learner.ledger()
    assert (ledger.accepted, ledger.duplicate, ledger.env_steps_accepted) == (1, 1, 5)
    assert await learner.results.waiting() == 1


async def test_a_reassigned_job_accepts_only_its_newest_attempt(
    learner: Broker, actor: Broker
) -> None:
    await learner.jobs.submit(make_job("x"))
    zombie = await take_one(actor, "zombie")
    answer = await learner.jobs.reassign(zombie.token, JobKind.TRAIN, "no beat for 10 s")
    assert answer == Reassigned(ReassignStatus.REASSIGNED, "x", 2)
    second = await take_one(actor, "b")
    assert second.job.attempt == 2
    assert second.token > zombie.token
    assert not (await actor.jobs.begin("zombie", zombie)).ok
    assert await actor.jobs.complete("zombie", zombie, b"old", 5) is Completed.STALE
    assert await actor.jobs.complete("b", second, b"new", 5) is Completed.OK
    assert await actor.jobs.complete("zombie", zombie, b"old", 5) is Completed.STALE
    (entry,) = await learner.results.read()
    assert (entry.payload, entry.attempt, entry.actor_id) == (b"new", 2, "b")
    ledger = await learner.ledger()
    assert (ledger.stale, ledger.reassigned) == (2, 1)
    assert ledger.balanced


async def test_nobody_can_hand_in_anothers_attempt(learner: Broker, actor: Broker) -> None:
    await learner.jobs.submit(make_job())
    taken = await take_one(actor, "a")
    assert await actor.jobs.complete("b", taken, b"x", 5) is Completed.STALE
    assert (await actor.jobs.fail("b", taken, make_report("b"))).status is ReassignStatus.GONE
    assert not await actor.jobs.release("b", taken)
    assert await actor.jobs.complete("a", taken, b"x", 5) is Completed.OK


async def test_an_attempt_is_reassigned_once(learner: Broker, actor: Broker) -> None:
    await learner.jobs.submit(make_job())
    taken = await take_one(actor)
    reapers = [learner.jobs.reassign(taken.token, JobKind.TRAIN, "dead") for _ in range(20)]
    answers = [answer.status for answer in await asyncio.gather(*reapers)]
    assert answers.count(ReassignStatus.REASSIGNED) == 1
    assert answers.count(ReassignStatus.GONE) == 19
    assert await learner.jobs.queued() == 1


async def test_a_queued_job_is_not_reassigned(learner: Broker, actor: Broker) -> None:
    await learner.jobs.submit(make_job("x"))
    token = (await take_one(actor)).token
    await learner.jobs.reassign(token, JobKind.TRAIN, "dead")
    again = (await take_one(actor)).token
    await learner.jobs.reassign(again, JobKind.TRAIN, "dead", counts=False)
    assert (await learner.jobs.reassign(token, JobKind.TRAIN, "late")).status is ReassignStatus.GONE
    assert (await take_one(actor)).job.attempt == 2


async def test_a_job_that_kills_its_actors_dies_with_every_reason(
    learner: Broker, actor: Broker
) -> None:
    await learner.jobs.submit(make_job("poison"))
    for attempt in (1, 2, 3):
        taken = await take_one(actor, f"a{attempt}")
        answer = await learner.jobs.reassign(taken.token, JobKind.TRAIN, f"actor {attempt} died")
    assert answer == Reassigned(ReassignStatus.DEAD, "poison", 3)
    assert await learner.jobs.live() == set()
    (dead,) = await learner.jobs.dead()
    assert dead.reasons == ("actor 1 died", "actor 2 died", "actor 3 died")
    assert (dead.job_id, dead.attempt, dead.actor_id, dead.report) == ("poison", 3, "a3", None)
    (event,) = await learner.events.tail()
    assert (event.kind, event.job_id, event.reasons) == ("dead", "poison", dead.reasons)
    ledger = await learner.ledger()
    assert (ledger.dead, ledger.reassigned, ledger.balanced) == (1, 2, True)


async def test_a_job_that_raises_runs_again_then_dies_with_the_environments_traceback(
    learner: Broker, actor: Broker
) -> None:
    await learner.jobs.submit(make_job("x"))
    for attempt in (1, 2, 3):
        taken = await take_one(actor)
        report = make_report("a", "x", attempt)
        answer = await actor.jobs.fail("a", taken, report)
    assert answer == Reassigned(ReassignStatus.DEAD, "x", 3)
    events = await learner.events.tail()
    assert [(e.kind, e.attempt) for e in events] == [("failure", 1), ("failure", 2), ("dead", 3)]
    assert events[0].report == make_report("a", "x", 1)
    (dead,) = await learner.jobs.dead()
    assert dead.report == make_report("a", "x", 3)
    assert all("boom" in reason for reason in dead.reasons)
    ledger = await learner.ledger()
    assert (ledger.failed, ledger.reassigned, ledger.dead) == (3, 0, 1)


async def test_nobody_reports_in_anothers_name(learner: Broker, actor: Broker) -> None:
    await learner.jobs.submit(make_job())
    taken = await take_one(actor)
    with pytest.raises(StateError, match="not by 'a'"):
        await actor.jobs.fail("a", taken, make_report("b"))


async def test_counts_may_be_numpy_integers(learner: Broker, actor: Broker) -> None:
    await learner.jobs.submit(make_job())
    taken = await take_one(actor)
    steps: Any = np.int64(40)
    held = {taken.token: steps}
    await actor.presence.beat(Beat(actor_id="a", sequence=1, held=held))
    assert await actor.jobs.complete("a", taken, b"x", steps) is Completed.OK
    assert (await learner.ledger()).env_steps_accepted == 40


async def test_reassigning_for_no_fault_of_the_job_spends_no_attempt(
    learner: Broker, actor: Broker
) -> None:
    await learner.jobs.submit(make_job())
    for _ in range(5):
        taken = await take_one(actor)
        await learner.jobs.reassign(taken.token, JobKind.TRAIN, "server restarted", counts=False)
    assert (await take_one(actor)).job.attempt == 1


async def test_releasing_spends_no_attempt_and_another_actor_goes_on(
    learner: Broker, actor: Broker
) -> None:
    await learner.jobs.submit(make_job("x"))
    taken = await take_one(actor, "a")
    assert await actor.jobs.release("a", taken)
    again = await take_one(actor, "b")
    assert (again.job.job_id, again.job.attempt) == ("x", 1)
    assert await actor.jobs.complete("a", taken, b"x", 1) is Completed.STALE


async def test_a_cancelled_job_is_refused_queued_or_running(learner: Broker, actor: Broker) -> None:
    for name in ("running", "queued", "accepted"):
        await learner.jobs.submit(make_job(name))
    taken = {t.job.job_id: t for t in await actor.jobs.take("a", BOTH, 1)}
    accepted = (await actor.jobs.take("b", BOTH, 2))[1]
    await actor.jobs.complete("b", accepted, b"x", 1)
    ids = ["running", "queued", "accepted", "unknown"]
    assert await learner.jobs.cancel(ids) == ["running", "queued"]
    assert await learner.jobs.cancel(ids) == ["running", "queued"]
    assert not (await actor.jobs.begin("a", taken["running"])).ok
    assert await actor.jobs.complete("a", taken["running"], b"x", 1) is Completed.STALE
    assert await actor.jobs.take("c", BOTH, block=False) == []
    ledger = await learner.ledger()
    assert (ledger.cancelled, ledger.accepted, ledger.stale) == (2, 1, 1)
    assert ledger.balanced


async def test_begin_tells_the_newest_weights(learner: Broker, actor: Broker) -> None:
    await learner.jobs.submit(make_job())
    taken = await take_one(actor)
    begun = await actor.jobs.begin("a", taken)
    assert (begun.ok, begun.generation, begun.version) == (True, 0, 0)
    await learner.weights.publish(4, b"w", 1)
    begun = await actor.jobs.begin("a", taken)
    assert (begun.ok, begun.generation, begun.version) == (True, 1, 4)


async def test_an_unreadable_job_dies_with_its_reason_and_harms_nobody(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    session = learner._session
    async with raw(redis_url) as client:
        # Bytes that are no job: one of the queue's own, and a stranger's entry of other fields.
        await learner.jobs.submit(make_job("good"))
        token = "99999999999999-0"  # noqa: S105
        fields = {"j": "bad", "n": "1", "g": "1", "p": b"\x80\x04cos\nsystem\n", "r": ""}
        await client.xadd(session.keys.jobs(JobKind.TRAIN), fields, token)
        await client.hset(session.keys.live, "bad", f"train|{token}|1")
        await client.hset(session.keys.meta, "token", token)
        await client.xadd(session.keys.jobs(JobKind.EVAL), {"hello": "world"}, token)
    found: list[str] = []
    for _ in range(10):
        found += [t.job.job_id for t in await actor.jobs.take("a", BOTH, 2, block=False)]
    assert found == ["good"]
    (dead,) = await learner.jobs.dead()
    assert dead.job_id == "bad"
    assert await learner.jobs.live() == {"good"}
    assert await learner.jobs.queued() == 0


async def test_no_two_actors_get_the_same_job(
    redis_url: str, run_name: str, learner: Broker
) -> None:
    jobs = [make_job() for _ in range(40)]
    for job in jobs:
        await learner.jobs.submit(job)

    async def work(name: str) -> list[str]:
        done: list[str] = []
        async with connect(redis_url, run=run_name, config=QUICK) as broker:
            while taken := await broker.jobs.take(name, BOTH, block=False):
                assert await broker.jobs.complete(name, taken[0], b"r", 1) is Completed.OK
                done.append(taken[0].job.job_id)
        return done

    done = await asyncio.gather(*(work(f"a{n}") for n in range(4)))
    assert sorted(itertools.chain.from_iterable(done)) == sorted(job.job_id for job in jobs)
