"""Whatever an actor sends as a result, the learner refuses it, says so, and goes on."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import numpy as np
import pytest

from asyncrl.actor import ActorWorker, WorkerConfig, worker
from asyncrl.algorithms import PPO
from asyncrl.broker import Broker, BrokerConfig, Rejected, RunLimits, connect
from asyncrl.data import (
    EpisodeStats,
    FailureReport,
    JobKind,
    JobUnit,
    RolloutJob,
    RolloutResult,
)
from asyncrl.errors import RolloutFailed
from asyncrl.learner import OnPolicyLearner
from asyncrl.metrics import Evaluation, JobFailed, Message, Progress
from asyncrl.proxy import ActorProxy, ProxyConfig
from asyncrl.testing import Recorder
from asyncrl.wire import encode_result

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = PPO(rollout_steps=8, epochs=1, minibatch_size=64, hidden=(4,), value_hidden=(4,))
QUICK = BrokerConfig(block_seconds=0.2, outage_timeout=5.0)
WATCHFUL = ProxyConfig(dead_after=1.0, monitor_interval=0.1, poll_interval=0.1, actor_timeout=20.0)

Corruption = Callable[[RolloutResult], bytes]


def batch(**changes: Callable[[Any], Any]) -> Corruption:
    """Change fields of the result's batch, each by what makes the new value of the old one."""

    def corrupt(result: RolloutResult) -> bytes:
        (old,) = result.batches
        new: dict[str, Any] = {name: change(getattr(old, name)) for name, change in changes.items()}
        return encode_result(replace(result, batches=(replace(old, **new),)))

    return corrupt


def whole(**changes: Any) -> Corruption:
    """Change fields of the result."""
    return lambda result: encode_result(replace(result, **changes))


def wider(obs: np.ndarray) -> np.ndarray:
    return np.concatenate([obs, obs], axis=-1)


TRAINING: dict[str, tuple[Corruption, str]] = {
    "no message": (lambda _: b"cos\nsystem\n(S'true'\ntR." * 9, "not a message"),
    "policy": (batch(policy_id=lambda _: "other"), r"policy 'other': the run has 'policy'"),
    "agent": (batch(agent_id=lambda _: "stranger"), "'stranger'"),
    "observation": (
        batch(obs=wider, last_obs=wider, final_obs=wider),
        r"obs is float32 of shape \(8, 2, 8\)",
    ),
    "action": (batch(action=lambda a: np.full_like(a, 99)), "action has 99, not one of 0 to 1"),
    "dtype of action": (batch(action=lambda a: a.astype(np.float32)), "action is float32"),
    "log_prob": (batch(extras=lambda _: {}), "lack the log_prob"),
    "shape of log_prob": (
        batch(extras=lambda e: {"log_prob": e["log_prob"][..., None]}),
        "lack the log_prob",
    ),
    "NaN": (batch(reward=lambda r: np.full_like(r, np.nan)), "nan at step 0"),
    "no batch": (whole(batches=()), "returned no batch"),
    "announced steps": (whole(env_steps=7), "16 transitions were said to be 7"),
    "fewer steps": (
        batch(
            obs=lambda a: a[:1],
            action=lambda a: a[:1],
            reward=lambda a: a[:1],
            terminated=lambda a: np.zeros_like(a[:1]),
            truncated=lambda a: np.zeros_like(a[:1]),
            extras=lambda e: {"log_prob": e["log_prob"][:1]},
            final_obs=lambda a: a[:0],
            final_index=lambda a: a[:0],
        ),
        r"a job of 8 steps returned \[1\]",
    ),
}
EVALUATION: dict[str, tuple[Corruption, str]] = {
    "no episode": (whole(episodes=EpisodeStats()), "of 3 episodes returned 0"),
    "infinite return": (
        whole(episodes=EpisodeStats(returns=np.full(3, np.inf), lengths=np.ones(3, np.int64))),
        "inf of episode 0",
    ),
}
CASES = [
    *((JobKind.TRAIN, *case) for case in TRAINING.values()),
    *((JobKind.EVAL, *case) for case in EVALUATION.values()),
]


def corrupt_results(
    patch: pytest.MonkeyPatch, kind: JobKind, corruption: Corruption, most: int
) -> None:
    """Let actors of this process send `most` corrupt results of jobs of `kind`, then good ones."""
    left = most

    def encode(result: RolloutResult) -> bytes:
        nonlocal left
        if result.job.kind is not kind or not left:
            return encode_result(result)
        left -= 1
        return corruption(result)

    patch.setattr(worker, "encode_result", encode)


@asynccontextmanager
async def one_actor(url: str, run: str) -> AsyncGenerator[None]:
    """Run an actor, "liar", in this loop."""
    actor = ActorWorker(url, run, WorkerConfig(heartbeat_interval=0.1), QUICK, actor_id="liar")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(actor.run)
        yield
        actor.stop()


def learner(broker: Broker, recorder: Recorder, **options: Any) -> OnPolicyLearner:
    limits = options.pop("limits", None)
    proxy = ActorProxy(broker, "CartPole-v1", envs=2, config=WATCHFUL, limits=limits)
    options = {"total_steps": 64, "jobs_per_round": 1, **options}
    return OnPolicyLearner(SMALL, proxy, sinks=(recorder,), **options)


@pytest.mark.parametrize(
    ("kind", "corruption", "reason"), CASES, ids=[*TRAINING, *(f"eval: {n}" for n in EVALUATION)]
)
async def test_a_bad_result_is_refused_and_its_job_done_again(
    redis_url: str,
    run_name: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: JobKind,
    corruption: Corruption,
    reason: str,
):
    corrupt_results(monkeypatch, kind, corruption, 1)
    recorder = Recorder()
    async with one_actor(redis_url, run_name):
        async with connect(redis_url, run=run_name, config=QUICK) as broker:
            result = await learner(broker, recorder, eval_interval=32, eval_episodes=3).run()
            ledger, dead = await broker.ledger(), await broker.jobs.dead()
    assert result.outcome == "steps"
    assert [e.env_steps for e in recorder.of(Evaluation)][:1] == [32]
    assert ledger.balanced, ledger.explain()
    assert (ledger.dead, ledger.dropped.get("invalid", 0)) == (0, 0)
    assert ledger.env_steps_accepted == result.env_steps == 64
    assert recorder.of(Progress)[-1].counters["rejected"] == 1
    (bad,) = dead
    assert (bad.kind, bad.actor_id, bad.attempt) == (None, "liar", 1)
    assert bad.reasons[0].startswith("checking its result: ")
    assert re.search(reason, bad.reasons[0])
    (said,) = [each.text for each in recorder.of(Message) if "is refused" in each.text]
    assert bad.job_id in said
    assert [failure.job for failure in recorder.of(JobFailed)] == [bad.job_id]


async def test_a_job_with_nothing_but_bad_results_is_dead_in_the_end(
    redis_url: str, run_name: str, monkeypatch: pytest.MonkeyPatch
):
    corrupt_results(monkeypatch, JobKind.TRAIN, batch(extras=lambda _: {}), 10**6)
    recorder = Recorder()
    async with one_actor(redis_url, run_name):
        async with connect(redis_url, run=run_name, config=QUICK) as broker:
            run = learner(broker, recorder, limits=RunLimits(max_attempts=2))
            with pytest.raises(RolloutFailed, match=r"checking its result.*log_prob"):
                await run.run()
            ledger, dead = await broker.ledger(), await broker.jobs.dead()
    assert ledger.balanced, ledger.explain()
    assert (ledger.issued, ledger.dead, ledger.accepted) == (1, 1, 0)
    assert [job.attempt for job in dead] == [2, 1]


async def test_a_bad_result_on_the_log_does_not_stop_the_next_learner(
    redis_url: str, run_name: str
):
    """It is of an earlier generation: nobody waits for its job, and it never comes back."""
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        run = learner(broker, recorder)
        spec = await run._spec()
        info = await broker.create_run(spec, "earlier")
        job = RolloutJob(
            job_id="g1-train-1", kind=JobKind.TRAIN, unit=JobUnit.STEPS, size=8,
            generation=info.generation,
        )  # fmt: skip
        await broker.jobs.submit(job)
        (taken,) = await broker.jobs.take("liar", [JobKind.TRAIN])
        await broker.jobs.complete("liar", taken, b"garbage", 16)
        async with one_actor(redis_url, run_name):
            assert (await run.run()).env_steps == 64
        ledger = await broker.ledger()
    assert ledger.balanced, ledger.explain()
    assert ledger.dropped == {"invalid": 1}


async def test_a_refusal_counts_once_however_often_it_is_said(redis_url: str, run_name: str):
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        run = learner(broker, Recorder())
        spec = await run._spec()
        info = await broker.create_run(spec, "test")
        job = RolloutJob(
            job_id="j", kind=JobKind.TRAIN, unit=JobUnit.STEPS, size=8, generation=info.generation
        )
        await broker.jobs.submit(job)
        (taken,) = await broker.jobs.take("liar", [JobKind.TRAIN])
        await broker.jobs.complete("liar", taken, b"x" * 2**19, 16)  # in a key of its own
        (entry,) = await broker.results.read()
        report = FailureReport(
            actor_id="liar", job_id="j", attempt=1, where="checking", cause="no good"
        )
        assert await broker.results.reject(entry, report, job) is Rejected.REASSIGNED
        assert await broker.results.reject(entry, report, job) is Rejected.GONE
        ledger = await broker.ledger()
        assert ledger.balanced, ledger.explain()
        assert (ledger.in_flight, ledger.accepted, ledger.env_steps_accepted) == (1, 0, 0)
        assert ledger.waiting_bytes == 0
        (again,) = await broker.jobs.take("honest", [JobKind.TRAIN])
        assert (again.job.job_id, again.job.attempt) == ("j", 2)
        assert await broker.jobs.complete("liar", taken, b"late", 16) == "STALE"
