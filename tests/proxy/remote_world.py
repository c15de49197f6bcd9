"""Learners and workers for tests of runs over remote actors."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from asyncrl.actor import ActorWorker, WorkerConfig
from asyncrl.algorithms import PPO
from asyncrl.broker import Broker, BrokerConfig, RunLimits
from asyncrl.learner import OnPolicyLearner
from asyncrl.proxy import ActorProxy, ProxyConfig

SMALL = PPO(rollout_steps=16, epochs=2, minibatch_size=64, hidden=(8,), value_hidden=(8,))
QUICK = BrokerConfig(block_seconds=0.2, outage_timeout=5.0)
WORKER = WorkerConfig(heartbeat_interval=0.1, wait_for_run=10.0)
WATCHFUL = ProxyConfig(
    dead_after=1.0, stall_timeout=1.0, monitor_interval=0.1, poll_interval=0.1, actor_timeout=20.0
)


def named_worker(url: str, run: str, name: str) -> ActorWorker:
    return ActorWorker(url, run, WORKER, QUICK, allow=("asyncrl.testing",), actor_id=name)


@asynccontextmanager
async def workers(url: str, run: str, count: int = 2) -> AsyncGenerator[list[ActorWorker]]:
    """Run workers in this loop; stop those that are left in the end."""
    started = [named_worker(url, run, f"w{n}") for n in range(count)]
    async with anyio.create_task_group() as tasks:
        for worker in started:
            tasks.start_soon(worker.run)
        yield started
        for worker in started:
            worker.stop()


def learner(
    broker: Broker,
    total: int,
    env: str = "CartPole-v1",
    kwargs: dict[str, Any] | None = None,
    proxy: ProxyConfig = WATCHFUL,
    limits: RunLimits | None = None,
    **options: Any,
) -> OnPolicyLearner:
    actors = ActorProxy(broker, env, envs=4, kwargs=kwargs, config=proxy, limits=limits)
    return OnPolicyLearner(SMALL, actors, total_steps=total, **options)


def run_spec(proxy: ActorProxy) -> Any:
    from asyncrl.data import DEFAULT_POLICY, RunSpec
    from asyncrl.proxy import agent_spaces

    ((observation, action),) = agent_spaces(proxy.env).values()
    return RunSpec(
        env=proxy.env, policies={DEFAULT_POLICY: SMALL.policy_spec(observation, action)}, seed=1
    )
