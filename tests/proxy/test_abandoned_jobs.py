"""Jobs that an update did not wait for: what they leave behind in the environments."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import cycle
from typing import Any, ClassVar

import anyio
import numpy as np
import pytest
import torch

from asyncrl.actor import ActorWorker, WorkerConfig
from asyncrl.algorithms import PPO
from asyncrl.broker import BrokerConfig, connect
from asyncrl.learner import OnPolicyLearner
from asyncrl.metrics import Event, Progress
from asyncrl.proxy import ActorProxy, ProxyConfig
from asyncrl.testing.envs import Counter

SMALL = PPO(rollout_steps=16, epochs=1, minibatch_size=64, hidden=(4,), value_hidden=(4,))
QUICK = BrokerConfig(block_seconds=0.2, outage_timeout=5.0)
WORKER = WorkerConfig(heartbeat_interval=0.02, wait_for_run=10.0)
WATCHFUL = ProxyConfig(monitor_interval=0.1, poll_interval=0.1, actor_timeout=20.0)
LENGTHS = (10, 100)
"""Of the episodes of `Uneven`, in turn. A long one takes more than six jobs."""


class Uneven(Counter):
    """Has episodes of uneven lengths, and is now fast and now slow, so that each actor loses."""

    made: ClassVar[list[int]] = []

    def __init__(self) -> None:
        super().__init__(length=0)
        self._lengths = cycle(LENGTHS)
        self._steps = 0
        self._pace = np.random.default_rng(len(self.made))
        self.made.append(1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.length = next(self._lengths)
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        if self._steps % 16 == 0:
            self._seconds = float(self._pace.choice([0.0, 0.003]))
        self._steps += 1
        time.sleep(self._seconds)
        return super().step(action)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Latest:
    """A sink that keeps the newest progress."""

    progress: Progress

    def write(self, event: Event) -> None:
        if isinstance(event, Progress):
            self.progress = event

    def close(self) -> None: ...


async def test_episodes_are_as_long_as_they_are_however_many_jobs_are_superseded(
    redis_url: str, run_name: str
):
    Uneven.made.clear()
    latest = Latest()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                worker = ActorWorker(redis_url, run_name, WORKER, QUICK, allow=(__name__,))
                tasks.start_soon(worker.run)
            proxy = ActorProxy(broker, f"{__name__}:Uneven", envs=2, config=WATCHFUL)
            run = OnPolicyLearner(
                SMALL,
                proxy,
                total_steps=3_000,
                jobs_per_round=2,
                update_trigger="50%",
                sinks=(latest,),
            )
            await run.run()
        ledger = await broker.ledger()
    assert ledger.cancelled > 40, "there has to be something that was abandoned"
    assert len(Uneven.made) <= 1 + 2 * 2, "the learner's one, and two of each actor"
    assert latest.progress.episodes > 50
    # Half of the episodes are long. A few that ended in a job which came too late are not reported.
    assert latest.progress.mean_length == pytest.approx(np.mean(LENGTHS), abs=12)
