"""Rounds: distinct jobs, triggers, superseded work."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from asyncrl.data import (
    EpisodeStats,
    FailureReport,
    JobKind,
    JobUnit,
    RolloutJob,
    RolloutResult,
    WeightSet,
)
from asyncrl.errors import ConfigError, RolloutFailed
from asyncrl.proxy import CollectionStatus, Delivery, LostJob, Rounds, UpdateTrigger


def make_job(job_id: str, number: int) -> RolloutJob:
    return RolloutJob(job_id=job_id, kind=JobKind.TRAIN, unit=JobUnit.STEPS, size=1, round=number)


def delivery(job: RolloutJob) -> Delivery:
    stats = EpisodeStats(returns=np.zeros(0), lengths=np.zeros(0, np.int64))
    result = RolloutResult(job=job, actor_id="a", env_steps=1, episodes=stats)
    return Delivery(result=result, receipt=f"r-{job.job_id}", nbytes=0)


def lost(job: RolloutJob) -> LostJob:
    report = FailureReport(
        actor_id="a", job_id=job.job_id, attempt=3, where="step 1", cause="Boom", traceback="tb"
    )
    return LostJob(job=job, report=report)


class ScriptedCollection:
    """A collection whose outcomes the test writes down beforehand."""

    concurrent = True
    generation = 1
    published = 0
    capacity = None

    def __init__(self, outcomes: Sequence[Delivery | LostJob]) -> None:
        self.outcomes = deque(outcomes)
        self.submitted: list[str] = []
        self.cancelled: list[str] = []

    async def unsettled(self) -> Sequence[Delivery]:
        return ()

    async def publish(self, weights: WeightSet) -> None: ...

    async def submit(self, job: RolloutJob) -> None:
        self.submitted.append(job.job_id)

    def outstanding(self) -> Sequence[RolloutJob]:
        return ()

    async def receive(self) -> Delivery | LostJob:
        return self.outcomes.popleft()

    async def cancel(self, job_ids: Sequence[str]) -> None:
        self.cancelled += job_ids

    async def settle(self, trained: Sequence[str], dropped: Mapping[str, str]) -> None: ...

    async def finish(self) -> None: ...

    def status(self) -> CollectionStatus:
        return CollectionStatus()


def elsewhere_forbidden(outcome: Delivery | LostJob) -> None:
    raise AssertionError(f"{outcome} belongs to a round")


@pytest.mark.parametrize(
    ("share", "jobs", "needed"),
    [
        (0.1, 3, 1),  # the ancestor's "10%" of 3 was 0 and never fired
        (0.5, 3, 2),
        (0.8, 5, 4),  # 0.8 * 5 is 4.000..: not five
        (0.34, 3, 2),
        (1.0, 3, 3),
        (1, 3, 1),
        (2, 3, 2),
        (9, 3, 3),  # more than there are can never finish
    ],
)
def test_update_trigger_needs_at_least_one_and_at_most_all_jobs(
    share: float, jobs: int, needed: int
):
    assert UpdateTrigger(share).needed(jobs) == needed


@pytest.mark.parametrize(("text", "share"), [("3", 3), ("0.8", 0.8), ("80%", 0.8), ("100%", 1.0)])
def test_update_trigger_is_read_from_text(text: str, share: float):
    assert UpdateTrigger.parse(text).share == share


@pytest.mark.parametrize("text", ["0", "-1", "0%", "120%", "1.5", "many", ""])
def test_impossible_update_triggers_are_refused_by_name(text: str):
    with pytest.raises(ConfigError, match="update_trigger"):
        UpdateTrigger.parse(text)


async def test_a_round_waits_for_distinct_jobs_and_cancels_the_rest():
    jobs = [make_job(f"j-{n}", 1) for n in range(4)]
    collection = ScriptedCollection([delivery(jobs[2]), delivery(jobs[0])])
    rounds = Rounds(collection, UpdateTrigger(2), elsewhere_forbidden)
    await rounds.issue(1, jobs)
    gathered = await rounds.gather()
    assert [d.result.job.job_id for d in gathered.deliveries] == ["j-2", "j-0"]
    assert collection.cancelled == ["j-1", "j-3"]
    assert len(rounds) == 0


async def test_results_of_later_rounds_are_kept_for_their_round():
    first, second = make_job("j-1", 1), make_job("j-2", 2)
    collection = ScriptedCollection([delivery(second), delivery(first)])
    rounds = Rounds(collection, UpdateTrigger(), elsewhere_forbidden)
    await rounds.issue(1, [first])
    await rounds.issue(2, [second])
    assert (await rounds.gather()).deliveries[0].result.job is first
    assert (await rounds.gather()).deliveries[0].result.job is second
    assert not collection.outcomes


async def test_a_result_that_came_after_its_round_goes_elsewhere():
    late, current = make_job("j-1", 1), make_job("j-2", 2)
    seen: list[Delivery | LostJob] = []
    collection = ScriptedCollection([delivery(late), delivery(current)])
    rounds = Rounds(collection, UpdateTrigger(), seen.append)
    await rounds.issue(2, [current])
    await rounds.gather()
    assert [outcome.result.job.job_id for outcome in seen if isinstance(outcome, Delivery)] == [
        "j-1"
    ]


@pytest.mark.parametrize(
    ("share", "script", "delivered", "cancelled"),
    [
        (2, "x0 x1 d2 d3", ["j-2", "j-3"], []),  # two are lost, two are still to come
        (2, "x0 d1 x2 d3", ["j-1", "j-3"], []),
        (2, "d1 x0 d3", ["j-1", "j-3"], ["j-2"]),  # the wait ends with the second that came
        (3, "x0 x1 d2 d3", ["j-2", "j-3"], []),  # no third can come any more
        (1, "x0 x1 x2 d3", ["j-3"], []),
        (1, "x0 d1", ["j-1"], ["j-2", "j-3"]),
        (1.0, "d0 x1 d2 d3", ["j-0", "j-2", "j-3"], []),
        (1.0, "d0 x1 x2 x3", ["j-0"], []),
    ],
)
async def test_only_deliveries_count_and_a_lost_job_lowers_what_can_come(
    share: float, script: str, delivered: list[str], cancelled: list[str]
):
    """`script` is what comes of four jobs, in order: d1 is the delivery of j-1, x1 its loss."""
    jobs = [make_job(f"j-{n}", 1) for n in range(4)]
    outcomes = [
        (lost if what == "x" else delivery)(jobs[int(number)]) for what, number in script.split()
    ]
    collection = ScriptedCollection(outcomes)
    rounds = Rounds(collection, UpdateTrigger(share), elsewhere_forbidden)
    await rounds.issue(1, jobs)
    gathered = await rounds.gather()
    assert [each.result.job.job_id for each in gathered.deliveries] == delivered
    assert len(gathered.lost) == script.count("x")
    assert collection.cancelled == cancelled
    assert not collection.outcomes


@pytest.mark.parametrize("share", [1, 1.0])
async def test_a_round_of_lost_jobs_fails_with_the_environments_traceback(share: float):
    jobs = [make_job(f"j-{n}", 1) for n in range(2)]
    rounds = Rounds(
        ScriptedCollection([lost(each) for each in jobs]), UpdateTrigger(share), elsewhere_forbidden
    )
    await rounds.issue(1, jobs)
    with pytest.raises(
        RolloutFailed, match=r"all 2 jobs .* job j-1 on actor a, in step 1: Boom"
    ) as e:
        await rounds.gather()
    assert e.value.traceback == "tb"
