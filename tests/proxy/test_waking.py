"""Data wakes whoever waits for it; nobody polls."""

from __future__ import annotations

import anyio

from asyncrl.actor import ActorWorker, WorkerConfig
from asyncrl.algorithms import PPO
from asyncrl.broker import BrokerConfig, connect
from asyncrl.learner import OnPolicyLearner
from asyncrl.proxy import ActorProxy, ProxyConfig


async def test_jobs_and_results_wake_their_receivers_at_once(redis_url: str, run_name: str):
    """Every poll takes longer than the test may: without a wake-up it cannot finish in time."""
    hour = 3600.0
    patient = BrokerConfig(block_seconds=60.0, outage_timeout=5.0)
    lazy = ProxyConfig(poll_interval=hour, monitor_interval=1.0)
    small = PPO(rollout_steps=8, epochs=1, hidden=(4,), value_hidden=(4,))
    async with connect(redis_url, run=run_name, config=patient) as broker:
        async with anyio.create_task_group() as tasks:
            actors = [
                ActorWorker(redis_url, run_name, WorkerConfig(), patient, actor_id=f"w{n}")
                for n in range(8)
            ]
            for actor in actors:
                tasks.start_soon(actor.run)
            proxy = ActorProxy(broker, "CartPole-v1", envs=1, config=lazy)
            with anyio.fail_after(50):  # 10 rounds, each of which must be woken for twice
                await OnPolicyLearner(small, proxy, total_steps=10 * 64, jobs_per_round=8).run()
            for actor in actors:
                actor.stop()
