"""Finished results that wait for room: a state of its own, neither a stall nor a slow job."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from asyncrl.actor import ActorWorker, WorkerConfig
from asyncrl.algorithms import DQN, PPO
from asyncrl.broker import Broker, BrokerConfig, RunLimits, connect
from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.learner import Learner, OffPolicyLearner, OnPolicyLearner, off_policy
from asyncrl.metrics import JobFailed, JobReassigned, Level, Message, Progress
from asyncrl.proxy import ActorProxy, ProxyConfig
from asyncrl.testing import Recorder, wait_until

SMALL = PPO(rollout_steps=16, epochs=1, minibatch_size=64, hidden=(4,), value_hidden=(4,))
REPLAYED = DQN(rollout_steps=16, hidden=(4,), batch_size=16, buffer_size=1_000, learning_starts=64)
JOB_STEPS = 2 * 16
"""Environment steps of a job."""
QUICK = BrokerConfig(block_seconds=0.2, outage_timeout=20.0)
WORKER = WorkerConfig(heartbeat_interval=0.05, wait_for_run=20.0)
WATCHFUL = ProxyConfig(
    dead_after=1.0,
    stall_timeout=1.0,
    monitor_interval=0.1,
    poll_interval=0.1,
    actor_timeout=20.0,
    warn_interval=0.5,
)
STALLED_BEATS = 40
"""Beats of an actor that take twice as long as `stall_timeout`."""
ONE_AT_A_TIME = RunLimits(max_result_bytes=1)
"""A result is larger than that, and accepted where no other waits."""

pytestmark = pytest.mark.usefixtures("one_thread")


@asynccontextmanager
async def worker(url: str, run: str, name: str = "w0") -> AsyncGenerator[None]:
    """Run a worker in this loop."""
    started = ActorWorker(url, run, WORKER, QUICK, actor_id=name)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(started.run)
        yield
        started.stop()


def proxy_of(
    broker: Broker, limits: RunLimits | None = None, env: str = "Counter", **kwargs: Any
) -> ActorProxy:
    return ActorProxy(
        broker,
        f"asyncrl.testing.envs:{env}",
        envs=2,
        kwargs=kwargs,
        config=WATCHFUL,
        limits=limits,
    )


async def start(tasks: TaskGroup, run: Learner[Any]) -> None:
    """Run a learner; return once its run is open."""
    opened = anyio.Event()
    tasks.start_soon(run.run, opened.set)
    await opened.wait()


async def beats_of_waiting(broker: Broker) -> dict[str, int]:
    """Return actor id -> sequence of its newest beat, of those that wait for room."""
    actors = await broker.presence.actors()
    return {actor.actor_id: actor.sequence for actor in actors if actor.waiting}


async def wait_longer_than_a_stall(broker: Broker) -> None:
    """Wait until some actor waits for room, and then for longer than `stall_timeout`."""
    first = await wait_until(lambda: beats_of_waiting(broker), 20, "an actor to wait for room")

    async def waited() -> bool:
        now = await beats_of_waiting(broker)
        return any(now.get(name, 0) >= beat + STALLED_BEATS for name, beat in first.items())

    await wait_until(waited, 20, "it to wait longer than a stall")


@pytest.fixture
def go_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set, it lets the learners update. Until then their first update takes its time."""
    event = threading.Event()

    def held_up(learn: Callable[..., Any]) -> Callable[..., Any]:
        def learn_later(*args: Any) -> Any:
            event.wait(timeout=30)
            return learn(*args)

        return learn_later

    monkeypatch.setattr(OnPolicyLearner, "_learn", held_up(OnPolicyLearner._learn))
    monkeypatch.setattr(off_policy, "_learn", held_up(off_policy._learn))
    yield event
    event.set()


def on_policy(actors: ActorProxy, recorder: Recorder, **options: Any) -> Learner[Any]:
    """A learner that collects a round of one job while it updates."""
    options = {"jobs_per_round": 1, "max_lag": 1, **options}
    return OnPolicyLearner(SMALL, actors, sinks=(recorder,), **options)


def replaying(actors: ActorProxy, recorder: Recorder, **options: Any) -> Learner[Any]:
    """A learner that collects as much as its limiter allows while it updates."""
    return OffPolicyLearner(REPLAYED, actors, sinks=(recorder,), eval_interval=0, **options)


@pytest.mark.parametrize(
    ("learner", "limits", "reached"),
    [
        pytest.param(on_policy, ONE_AT_A_TIME, "max_result_bytes=1 is", id="bytes"),
        pytest.param(replaying, RunLimits(max_results=1), "max_results=1 is", id="results"),
    ],
)
async def test_results_that_wait_for_a_slow_learner_are_said_and_not_reassigned(
    redis_url: str,
    run_name: str,
    go_on: threading.Event,
    learner: Callable[..., Learner[Any]],
    limits: RunLimits,
    reached: str,
):
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        run = learner(proxy_of(broker, limits), recorder, total_steps=8 * JOB_STEPS)
        async with worker(redis_url, run_name), anyio.create_task_group() as tasks:
            await start(tasks, run)
            await wait_longer_than_a_stall(broker)
            go_on.set()
        ledger = await broker.ledger()
    assert run.result is not None
    assert run.result.env_steps == 8 * JOB_STEPS
    assert ledger.trained >= 8
    assert (ledger.reassigned, ledger.dead) == (0, 0)
    assert ledger.balanced, ledger.explain()
    begun, over = [said for said in recorder.of(Message) if "for room" in said.text]
    assert (begun.level, over.level) == (Level.WARNING, Level.INFO)
    assert reached in begun.text
    assert "no finished result waits for room" in over.text
    assert recorder.of(Progress)[-1].counters["no_room"] == 1


async def test_a_server_out_of_memory_stalls_nobody_however_long_it_lasts(run_name: str):
    recorder = Recorder()
    async with (
        EmbeddedServer() as server,
        connect(server.url, run=run_name, config=QUICK) as broker,
        worker(server.url, run_name),
        anyio.create_task_group() as tasks,
    ):
        slow = proxy_of(broker, env="SlowCounter", seconds=0.01)
        run = on_policy(slow, recorder, total_steps=10**9, max_lag=0)
        await start(tasks, run)
        await wait_until(broker.jobs.pending, 20, "a job to be run")
        await broker._session.client.command("CONFIG", "SET", "maxmemory", "1")
        await wait_longer_than_a_stall(broker)
        await broker._session.client.command("CONFIG", "SET", "maxmemory", "0")
        await wait_until(lambda: len(recorder.of(Progress)) >= 2, 20, "the run to go on")
        run.stop()
    assert recorder.of(JobReassigned) == []
    assert recorder.of(JobFailed) == []
    assert [said.text for said in recorder.of(Message) if "for room" in said.text] == []


async def test_the_result_of_an_actor_killed_while_it_waits_for_room_is_made_anew(
    redis_url: str, run_name: str, go_on: threading.Event
):
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        run = on_policy(proxy_of(broker, ONE_AT_A_TIME), recorder, total_steps=4 * JOB_STEPS)
        async with anyio.create_task_group() as tasks:
            await start(tasks, run)
            async with await anyio.open_process(_actor(redis_url, run_name, "doomed")) as process:
                await wait_until(lambda: beats_of_waiting(broker), 30, "the actor to wait for room")
                process.kill()
            async with worker(redis_url, run_name):
                await wait_until(lambda: recorder.of(JobReassigned), 20, "its job to be reassigned")
                go_on.set()
                await wait_until(lambda: run.result is not None, 20, "the run to end")
        ledger = await broker.ledger()
    assert [(each.actor, each.attempt) for each in recorder.of(JobReassigned)] == [("doomed", 2)]
    assert run.result is not None
    assert run.result.env_steps == 4 * JOB_STEPS
    assert ledger.balanced, ledger.explain()


def _actor(url: str, run: str, name: str) -> list[str]:
    command = [sys.executable, "-m", "asyncrl.actor", "--redis", url, "--run", run, "--name", name]
    return [*command, "--heartbeat-interval", "0.05", "--log-level", "error"]
