"""A run ends when it is told to, whatever it waits for."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncrl.actor import Actor, ActorWorker, WorkerConfig
from asyncrl.algorithms import DQN, PPO
from asyncrl.broker import BrokerConfig, connect
from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.learner import OffPolicyLearner, OnPolicyLearner
from asyncrl.metrics import Evaluation, Progress
from asyncrl.proxy import ActorProxy, ProxyConfig
from asyncrl.testing import Recorder, wait_until
from asyncrl.testing.envs import Counter

pytestmark = pytest.mark.usefixtures("one_thread")

Learner = OnPolicyLearner | OffPolicyLearner
QUICK = BrokerConfig(block_seconds=0.2, outage_timeout=60.0)
PATIENT = ProxyConfig(actor_timeout=600.0, result_timeout=600.0)
ENV = "asyncrl.testing.envs:Counter"


def on_policy(collector: Any, **options: Any) -> Learner:
    return OnPolicyLearner(PPO(rollout_steps=8, hidden=(4,)), collector, **options)


def off_policy(collector: Any, **options: Any) -> Learner:
    return OffPolicyLearner(DQN(rollout_steps=8, hidden=(4,)), collector, **options)


@pytest.mark.parametrize("make", [on_policy, off_policy])
@pytest.mark.parametrize("how", ["stop", "seconds"])
async def test_a_run_without_actors_ends_when_told(
    make: Callable[..., Learner], how: str, redis_url: str, run_name: str
):
    """Not after the ten minutes for which it would wait for an actor, and nothing stays queued."""
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        proxy = ActorProxy(broker, ENV, config=PATIENT)
        run = make(proxy, total_steps=10**9, stop_seconds=0.2 if how == "seconds" else None)
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            opened = asyncio.Event()
            task = tasks.create_task(run.run(opened.set))
            if how == "stop":
                await opened.wait()
                await wait_until(broker.jobs.queued, 5.0, "jobs to wait for actors")
                run.stop()
        assert task.result().outcome == {"stop": "stopped", "seconds": "time"}[how]
        ledger = await broker.ledger()
        assert ledger.balanced, ledger.explain()
        if how == "seconds":  # it is over for good, so that nothing of it stays queued
            assert (ledger.in_flight, ledger.cancelled) == (0, ledger.issued)


async def test_time_that_is_up_ends_the_wait_for_an_evaluation(
    redis_url: str, run_name: str, tmp_path: Path
):
    """The actor leaves after the first update, so that the evaluation has nobody to run it."""
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        worker = ActorWorker(redis_url, run_name, WorkerConfig(), QUICK, allow=("asyncrl.testing",))
        run = on_policy(
            ActorProxy(broker, ENV, envs=1, config=PATIENT),
            total_steps=16, stop_seconds=3.0, jobs_per_round=2,
            eval_interval=16, eval_episodes=10**6, sinks=(recorder,), folder=tmp_path,
        )  # fmt: skip
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            training = tasks.create_task(run.run())
            tasks.create_task(worker.run())
            await wait_until(lambda: recorder.of(Progress), 10.0, "an update")
            worker.stop()
        assert training.result().outcome == "steps"
        assert recorder.of(Evaluation) == []
        ledger = await broker.ledger()
        assert ledger.balanced, ledger.explain()
        assert ledger.in_flight == 0


async def test_a_server_that_is_away_does_not_hold_a_stop_back(run_name: str, tmp_path: Path):
    """Neither amid the training nor while it is closed; the checkpoint is written all the same."""
    recorder = Recorder()
    async with EmbeddedServer() as server:
        async with connect(server.url, run=run_name, config=QUICK) as broker:
            hasty = WorkerConfig(drain_timeout=0.5)
            worker = ActorWorker(server.url, run_name, hasty, QUICK, allow=("asyncrl.testing",))
            run = on_policy(
                ActorProxy(broker, ENV, envs=1, config=PATIENT),
                total_steps=10**9, jobs_per_round=1, sinks=(recorder,), folder=tmp_path,
            )  # fmt: skip
            async with asyncio.timeout(40), asyncio.TaskGroup() as tasks:  # of 60 it would try
                training = tasks.create_task(run.run())
                working = tasks.create_task(worker.run())
                await wait_until(lambda: len(recorder.of(Progress)) > 2, 10.0, "updates")
                os.kill(server.pid, signal.SIGSTOP)
                try:
                    run.stop()
                    worker.stop()
                    await asyncio.wait([training, working])
                finally:
                    os.kill(server.pid, signal.SIGCONT)
            assert training.result().outcome == "stopped"
    assert list((tmp_path / "checkpoints").iterdir())


class SlowToMake(Counter):
    """Takes longer to be made than a test may take."""

    waiting = 0

    def __init__(self) -> None:
        super().__init__()
        SlowToMake.waiting += 1
        time.sleep(20.0)


async def test_a_stop_comes_before_the_run_is_open():
    run = on_policy(Actor(SlowToMake), total_steps=10**9)
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run.run())
        await wait_until(lambda: SlowToMake.waiting, 5.0, "the environment to be made")
        run.stop()
    assert task.result().outcome == "stopped"
    assert task.result().env_steps == 0
