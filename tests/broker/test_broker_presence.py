"""Beats: signs of life that renew only what is still one's own, and bring the news."""

from __future__ import annotations

import asyncio
import threading

from broker_world import BOTH, QUICK, connect, make_job, make_report, make_spec, raw

from asyncrl.broker import Beat, BeatReply, Broker, Completed, RunLimits
from asyncrl.data import JobKind


async def test_a_beat_shows_the_actor_to_the_learner(learner: Broker, actor: Broker) -> None:
    held, info = {"1-0": 40, "1-1": 2}, {"host": "h", "lag": 0.5}
    await actor.presence.beat(
        Beat(actor_id="a", sequence=7, held=held, waiting={"1-0": 900}, info=info)
    )
    (seen,) = await learner.presence.actors()
    assert (seen.actor_id, seen.sequence, seen.held) == ("a", 7, held)
    assert seen.waiting == {"1-0": 900}
    assert seen.info == {"host": "h", "lag": 0.5}
    assert 0 <= seen.age_seconds < 5


async def test_an_actor_that_does_not_say_what_waits_for_room_waits_with_nothing(
    redis_url: str, learner: Broker
) -> None:
    """As those of older libraries do not."""
    async with raw(redis_url) as client:
        old = b'1 {"seq": 3, "held": {"1-0": 5}, "info": {}}'
        await client.hset(learner._session.keys.actors, "old", old)
    (seen,) = await learner.presence.actors()
    assert (seen.sequence, seen.held, seen.waiting) == (3, {"1-0": 5}, {})


async def test_a_beat_answers_with_all_an_actor_must_know(learner: Broker, actor: Broker) -> None:
    for name in ("mine", "cancelled", "taken-away"):
        await learner.jobs.submit(make_job(name))
    taken = {t.job.job_id: t.token for t in await actor.jobs.take("a", BOTH, 3)}
    held = dict.fromkeys(taken.values(), 0)
    reply = await actor.presence.beat(Beat(actor_id="a", sequence=1, held=held))
    assert reply == BeatReply(generation=1, weights=None, drain=False)
    await learner.jobs.cancel(["cancelled"])
    await learner.jobs.reassign(taken["taken-away"], JobKind.TRAIN, "stalled")
    await learner.weights.publish(3, b"w", 1)
    await learner.finish_run(1)
    reply = await actor.presence.beat(Beat(actor_id="a", sequence=2, held=held))
    assert reply == BeatReply(
        generation=1,
        weights=(1, 3),
        drain=True,
        lost=frozenset({taken["cancelled"], taken["taken-away"]}),
        cancelled=frozenset({"cancelled"}),
    )
    assert (await actor.read_run()).state == "finished"


async def test_a_beat_renews_the_lease_of_what_is_held_and_of_nothing_else(
    learner: Broker, actor: Broker
) -> None:
    await learner.jobs.submit(make_job("held"))
    await learner.jobs.submit(make_job("forgotten", JobKind.EVAL))
    forgotten, held = await actor.jobs.take("a", BOTH, 2)
    await asyncio.sleep(0.1)
    await actor.presence.beat(Beat(actor_id="a", sequence=1, held={held.token: 1}))
    idle = {p.token: p.idle_seconds for p in await learner.jobs.pending()}
    assert idle[held.token] < 0.1 <= idle[forgotten.token]


async def test_a_woken_zombies_beat_takes_nothing_back(learner: Broker, actor: Broker) -> None:
    await learner.jobs.submit(make_job())
    (zombie,) = await actor.jobs.take("zombie", BOTH)
    await learner.jobs.reassign(zombie.token, JobKind.TRAIN, "no beat")
    (taken,) = await actor.jobs.take("b", BOTH)
    held = {zombie.token: 1, taken.token: 1}
    reply = await actor.presence.beat(Beat(actor_id="zombie", sequence=9, held=held))
    assert reply.lost == {zombie.token, taken.token}
    (pending,) = await learner.jobs.pending()
    assert pending.actor_id == "b"
    assert await actor.jobs.complete("b", taken, b"x", 1) is Completed.OK


async def test_arrivals_and_departures_are_events(learner: Broker, actor: Broker) -> None:
    start = await learner.events.latest()
    for sequence in (1, 2):
        await actor.presence.beat(Beat(actor_id="a", sequence=sequence))
    await actor.presence.leave("a")
    await actor.presence.leave("a")
    events = await learner.events.tail(start)
    assert [(e.kind, e.actor_id) for e in events] == [("joined", "a"), ("left", "a")]
    assert await learner.events.tail(events[-1].entry_id) == []
    assert await learner.events.latest() == events[-1].entry_id
    assert await learner.presence.actors() == []


async def test_leaving_releases_what_is_held_without_spending_attempts(
    redis_url: str, learner: Broker, actor: Broker
) -> None:
    await learner.jobs.submit(make_job("x"))
    await learner.jobs.submit(make_job("e", JobKind.EVAL))
    await actor.jobs.take("a", BOTH, 2)
    assert await actor.presence.leave("a") == 2
    again = await actor.jobs.take("b", BOTH, 2)
    assert {(t.job.job_id, t.job.attempt) for t in again} == {("x", 1), ("e", 1)}
    assert await consumers(redis_url, learner) == {"b"}


async def consumers(url: str, broker: Broker) -> set[str]:
    names: set[str] = set()
    async with raw(url) as client:
        for kind in JobKind:
            listed = await client.xinfo_consumers(broker._session.keys.jobs(kind), "actors")
            names |= {consumer["name"].decode() for consumer in listed}
    return names


async def test_retiring_refuses_while_a_job_is_pending(learner: Broker, actor: Broker) -> None:
    await learner.jobs.submit(make_job(kind=JobKind.EVAL))
    await actor.presence.beat(Beat(actor_id="a", sequence=1))
    (taken,) = await actor.jobs.take("a", BOTH)
    assert not await learner.presence.retire("a")
    assert len(await learner.jobs.pending()) == 1
    await learner.jobs.reassign(taken.token, JobKind.EVAL, "dead")
    assert await learner.presence.retire("a")
    assert await learner.presence.actors() == []


async def test_vanished_actors_leave_nothing_behind_once_they_are_retired(
    redis_url: str, run_name: str, learner: Broker
) -> None:
    async with connect(redis_url, run=run_name, config=QUICK) as actors:
        for n in range(100):
            await learner.jobs.submit(make_job(f"j{n}"))
            await actors.jobs.take(f"gone-{n}", BOTH)
            await actors.presence.beat(Beat(actor_id=f"gone-{n}", sequence=1))
    for pending in await learner.jobs.pending():
        await learner.jobs.reassign(pending.token, pending.kind, "no beat")
    assert await learner.presence.retire_idle(60.0) == []
    assert len(await learner.presence.retire_idle(0.0)) == 100
    assert await learner.jobs.pending() == []
    assert await consumers(redis_url, learner) == set()
    assert await learner.presence.actors() == []
    assert await learner.jobs.queued() == 100


async def test_beats_come_from_a_thread_with_its_own_loop(
    redis_url: str, run_name: str, learner: Broker, actor: Broker
) -> None:
    await learner.jobs.submit(make_job())
    (taken,) = await actor.jobs.take("a", BOTH)
    replies: list[BeatReply] = []

    async def beat() -> None:
        async with connect(redis_url, run=run_name, config=QUICK) as broker:
            for sequence in range(20):
                held = {taken.token: sequence}
                reply = await broker.presence.beat(Beat(actor_id="a", sequence=sequence, held=held))
                replies.append(reply)

    thread = threading.Thread(target=lambda: asyncio.run(beat()))
    thread.start()
    while thread.is_alive():
        await actor.jobs.begin("a", taken)
    thread.join()
    assert len(replies) == 20
    assert not any(reply.lost for reply in replies)


async def test_reports_are_kept_whole_and_bad_results_among_the_dead(
    learner: Broker, actor: Broker
) -> None:
    await actor.events.report(make_report("a", "", 1))
    await learner.events.report(make_report("b", "bad-result", 2), dead=True)
    first, second = await learner.events.tail()
    assert (first.kind, first.report) == ("failure", make_report("a", "", 1))
    assert (second.job_id, second.attempt) == ("bad-result", 2)
    (dead,) = await learner.jobs.dead()
    assert (dead.job_id, dead.kind, dead.report) == ("bad-result", None, second.report)
    assert (await learner.ledger()).dead == 0


async def test_an_unreadable_report_and_an_unknown_event_harm_nobody(
    redis_url: str, learner: Broker
) -> None:
    async with raw(redis_url) as client:
        events = learner._session.keys.events
        await client.xadd(events, {"t": "failure", "a": "a", "j": "j", "n": 1, "f": b"\x80\x04."})
        await client.xadd(events, {"t": "of-the-future"})
        await client.xadd(events, {b"\xff": b"\xff", "t": "joined", "a": b"\xff", "n": "x"})
    first, second = await learner.events.tail()
    assert first.report is not None
    assert "cannot be read" in first.report.cause
    assert (second.kind, second.attempt) == ("joined", 0)


async def test_the_event_log_is_bounded(redis_url: str, run_name: str) -> None:
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        await broker.create_run(make_spec(), "me", RunLimits(events_keep=50))
        for _ in range(400):
            await broker.events.report(make_report())
        assert len(await broker.events.tail()) < 200
