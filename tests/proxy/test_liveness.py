"""Liveness is judged by changing beats and progress on our own clock."""

from __future__ import annotations

from asyncrl.broker import ActorPresence, PendingJob
from asyncrl.data import JobKind
from asyncrl.metrics import ActorChange
from asyncrl.proxy.liveness import Liveness


def actor(
    name: str,
    sequence: int,
    held: dict[str, int] | None = None,
    waiting: dict[str, int] | None = None,
) -> ActorPresence:
    return ActorPresence(
        actor_id=name,
        sequence=sequence,
        age_seconds=0.0,
        held=held or {},
        info={},
        waiting=waiting or {},
    )


def pending(token: str, owner: str) -> PendingJob:
    return PendingJob(
        job_id=f"job-{token}",
        token=token,
        actor_id=owner,
        idle_seconds=0.0,
        attempt=1,
        kind=JobKind.TRAIN,
    )


def changes(liveness: Liveness, actors: list[ActorPresence], now: float) -> list[tuple[str, str]]:
    return [(t.actor_id, t.change.value) for t in liveness.observe(actors, now)]


def test_an_actor_joins_once_and_leaves_once():
    liveness = Liveness(10, 30)
    assert changes(liveness, [actor("a", 1)], 0) == [("a", "joined")]
    assert changes(liveness, [actor("a", 2)], 1) == []
    assert liveness.alive == 1
    assert changes(liveness, [], 2) == [("a", "left")]
    assert liveness.alive == 0


def test_an_actor_is_dead_when_its_sequence_stands_still_and_alive_when_it_moves_again():
    liveness = Liveness(10, 30)
    liveness.observe([actor("a", 7)], 0)
    assert changes(liveness, [actor("a", 7)], 9.9) == []
    assert changes(liveness, [actor("a", 7)], 10) == [("a", "dead")]
    assert liveness.alive == 0
    assert changes(liveness, [actor("a", 7)], 20) == []  # said once
    back = liveness.observe([actor("a", 8)], 21)
    assert [(t.change, t.reason) for t in back] == [(ActorChange.JOINED, "it beats again")]


def test_a_dead_actors_jobs_are_stuck_at_once():
    liveness = Liveness(10, 30)
    beats = [actor("a", 7, {"1-0": 5})]
    liveness.observe(beats, 0)
    assert liveness.stuck([pending("1-0", "a")], beats, 0) == []
    liveness.observe(beats, 10)
    (stuck,) = liveness.stuck([pending("1-0", "a")], beats, 10)
    assert "dead" in stuck.reason


def test_a_beating_actor_without_progress_is_stalled():
    liveness = Liveness(10, 30)
    for now in range(0, 30, 2):
        beats = [actor("a", now + 1, {"1-0": 36})]
        liveness.observe(beats, now)
        assert liveness.stuck([pending("1-0", "a")], beats, now) == []
    beats = [actor("a", 99, {"1-0": 36})]
    liveness.observe(beats, 30)
    (stuck,) = liveness.stuck([pending("1-0", "a")], beats, 30)
    assert stuck.reason == "stalled: no step in 30.0 s on actor a"


def test_a_slow_job_that_makes_progress_is_never_stalled():
    liveness = Liveness(10, 30)
    for now in range(0, 300, 20):
        beats = [actor("a", now + 1, {"1-0": now})]
        liveness.observe(beats, now)
        assert liveness.stuck([pending("1-0", "a")], beats, now) == []


def test_job_timeout_overrules_progress():
    liveness = Liveness(10, 30, job_timeout=50)
    reasons: list[str] = []
    for now in range(0, 60, 10):
        beats = [actor("a", now + 1, {"1-0": now})]
        liveness.observe(beats, now)
        reasons += [s.reason for s in liveness.stuck([pending("1-0", "a")], beats, now)]
    assert reasons == ["it runs for 50.0 s, longer than job_timeout=50 s"]


def test_a_result_that_waits_for_room_is_neither_stalled_nor_out_of_time():
    liveness = Liveness(10, 30, job_timeout=50)
    for now in range(0, 300, 2):
        beats = [actor("a", now + 1, {"1-0": 36}, {"1-0": 900})]
        liveness.observe(beats, now)
        assert liveness.stuck([pending("1-0", "a")], beats, now) == []
        assert liveness.waiting([pending("1-0", "a")], beats) == {"1-0": 900}


def test_the_clocks_of_a_result_that_waited_for_room_start_anew():
    liveness = Liveness(10, 30)
    for now in range(0, 100, 5):
        beats = [actor("a", now, {"1-0": 36}, {"1-0": 900})]
        liveness.observe(beats, now)
        assert liveness.stuck([pending("1-0", "a")], beats, now) == []
    reasons: list[tuple[int, str]] = []
    for now in range(100, 140, 5):
        beats = [actor("a", now, {"1-0": 36})]
        liveness.observe(beats, now)
        reasons += [(now, s.reason) for s in liveness.stuck([pending("1-0", "a")], beats, now)]
    assert reasons[0] == (125, "stalled: no step in 30.0 s on actor a")


def test_a_dead_actors_result_waits_for_room_no_more():
    liveness = Liveness(10, 30)
    beats = [actor("a", 7, {"1-0": 36}, {"1-0": 900})]
    liveness.observe(beats, 0)
    assert liveness.stuck([pending("1-0", "a")], beats, 0) == []
    liveness.observe(beats, 10)
    (stuck,) = liveness.stuck([pending("1-0", "a")], beats, 10)
    assert "dead" in stuck.reason
    assert liveness.waiting([pending("1-0", "a")], beats) == {}


def test_what_an_actor_waits_with_after_it_lost_it_is_nobodys():
    liveness = Liveness(10, 30)
    beats = [actor("a", 1, {"1-0": 36}, {"1-0": 900}), actor("b", 1)]
    liveness.observe(beats, 0)
    assert liveness.waiting([pending("1-0", "b"), pending("2-0", "a")], beats) == {}


def test_a_job_its_actor_does_not_know_of_goes_back_after_a_grace_period():
    liveness = Liveness(10, 30)
    liveness.observe([actor("a", 1)], 0)
    assert liveness.stuck([pending("1-0", "a")], [actor("a", 1)], 0) == []
    liveness.observe([actor("a", 2)], 10)
    (stuck,) = liveness.stuck([pending("1-0", "a")], [actor("a", 2)], 10)
    assert stuck.reason == "actor a does not hold it"


def test_a_job_of_an_actor_that_never_beat_goes_back_after_a_grace_period():
    liveness = Liveness(10, 30)
    assert liveness.stuck([pending("1-0", "ghost")], [], 0) == []
    (stuck,) = liveness.stuck([pending("1-0", "ghost")], [], 10)
    assert stuck.reason == "actor ghost is gone"


def test_after_being_cut_off_everybody_gets_a_full_grace_period():
    liveness = Liveness(10, 30)
    beats = [actor("a", 7, {"1-0": 5})]
    liveness.observe(beats, 0)
    liveness.stuck([pending("1-0", "a")], beats, 0)
    liveness.reset(100)  # the server was away; the beat is the old one
    assert changes(liveness, beats, 100) == []
    assert liveness.stuck([pending("1-0", "a")], beats, 100) == []
    assert changes(liveness, beats, 110) == [("a", "dead")]
