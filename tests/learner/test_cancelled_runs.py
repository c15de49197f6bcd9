"""A run may be cancelled anywhere, in any way: its threads are over before anything is closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from asyncrl.actor import Actor, ActorWorker, WorkerConfig
from asyncrl.algorithms import DQN, PPO
from asyncrl.broker import Broker, BrokerConfig, connect
from asyncrl.errors import EnvironmentFailure
from asyncrl.learner import OffPolicyLearner, OnPolicyLearner
from asyncrl.learner.checkpoint import CheckpointStore
from asyncrl.learner.learner import UNREAD_PROGRESS
from asyncrl.metrics import Event, Progress
from asyncrl.proxy import ActorProxy, ProxyConfig
from asyncrl.testing import CancelAt, Recorder, wait_until
from asyncrl.testing.envs import Counter

pytestmark = pytest.mark.usefixtures("one_thread")

Learner = OnPolicyLearner | OffPolicyLearner
STEPS = 3 * 16 * 2
ON = PPO(rollout_steps=16, epochs=2, minibatch_size=16, hidden=(4,), value_hidden=(4,))
OFF = DQN(
    rollout_steps=16, hidden=(4,), batch_size=8, buffer_size=64, learning_starts=16,
    samples_per_insert=2,
)  # fmt: skip
QUICK = BrokerConfig(block_seconds=0.2, outage_timeout=5.0)
WATCHFUL = ProxyConfig(dead_after=1.0, monitor_interval=0.1, poll_interval=0.1, actor_timeout=20.0)


class Watched(Counter):
    """Notes whether it is stepped or made by one thread while another one closes it."""

    busy = 0
    made = 0
    closed = 0
    closed_while_busy = 0
    lock = threading.Lock()

    def __init__(self, length: int = 10) -> None:
        self.count(made=1)
        super().__init__(length)

    @classmethod
    def count(cls, made: int = 0, busy: int = 0, closed: int = 0) -> None:
        with Watched.lock:  # each is closed by a thread of its own
            Watched.made += made
            Watched.busy += busy
            Watched.closed += closed
            Watched.closed_while_busy += closed * Watched.busy

    @classmethod
    def forget(cls) -> None:
        Watched.busy = Watched.made = Watched.closed = Watched.closed_while_busy = 0

    def step(self, action: Any) -> Any:
        self.count(busy=1)
        try:
            return super().step(action)
        finally:
            self.count(busy=-1)

    def close(self) -> None:
        self.count(closed=1)


@asynccontextmanager
async def nothing_left_behind() -> AsyncGenerator[None]:
    """Check that every environment made here is closed, and no task is left."""
    Watched.forget()
    tasks = asyncio.all_tasks()
    yield
    # The environment that is made to look at its spaces may be left to its thread.
    await wait_until(lambda: Watched.closed == Watched.made, 10.0, "all to be closed")
    assert Watched.closed_while_busy == 0
    assert asyncio.all_tasks() <= tasks


def on_policy(collector: Any = None, **options: Any) -> OnPolicyLearner:
    actor = collector or Actor(Watched, envs=2)
    options = {"total_steps": STEPS, "jobs_per_round": 1, **options}
    return OnPolicyLearner(ON, actor, **options)


def off_policy(collector: Any = None, **options: Any) -> OffPolicyLearner:
    options = {"total_steps": STEPS, "updates_per_publish": 2, **options}
    return OffPolicyLearner(OFF, collector or Actor(Watched, envs=2), **options)


def check_on_policy(state: dict[str, Any]) -> None:
    updates = state["counters"]["updates"]
    assert state["counters"]["env_steps"] == updates * 32
    # Two epochs of two minibatches make four steps of the optimiser an update, none half done.
    assert state["updaters"]["policy"]["optimiser"]["steps"] == 4 * updates


def check_off_policy(state: dict[str, Any]) -> None:
    updates = state["counters"]["updates"]
    assert state["limiters"]["policy"]["samples"] == OFF.batch_size * updates
    assert state["updaters"]["policy"]["updates"] == updates
    inserted = state["replays"]["policy"]["inserted"]
    assert state["limiters"]["policy"]["inserts"] == state["counters"]["env_steps"] == inserted


@pytest.mark.parametrize(
    ("make", "check"), [(on_policy, check_on_policy), (off_policy, check_off_policy)]
)
async def test_cancelled_at_any_await_a_run_keeps_what_it_learned_and_closes_after_its_threads(
    make: Callable[..., Learner], check: Callable[[dict[str, Any]], None], tmp_path: Path
):
    kept = 0
    for at in range(1_000):
        store = CheckpointStore(tmp_path / str(at) / "checkpoints")
        recorder = Recorder()
        run = make(folder=tmp_path / str(at), sinks=(recorder,), eval_interval=32, eval_episodes=1)
        async with nothing_left_behind():
            work = CancelAt(run.run(), at)
            task = asyncio.get_running_loop().create_task(_await(work))
            await asyncio.wait([task])
        updates = max((each.updates for each in recorder.of(Progress)), default=0)
        newest = store.latest()
        if newest is not None:
            check(dict(newest.tree["state"]))
            kept += 1
        # What was reported is in the checkpoint, however the run ended.
        assert (newest.tree["state"]["counters"]["updates"] if newest else 0) >= updates
        if not work.struck:
            assert task.result().outcome == "steps"
            break
        assert task.cancelled()
    assert kept > 10


async def _await(work: CancelAt[Any]) -> Any:
    return await work


async def test_a_task_group_and_a_timeout_end_a_run_between_updates(tmp_path: Path):

    async def within_a_timeout() -> None:
        async with asyncio.timeout(0.3):
            await on_policy(total_steps=10**9, folder=tmp_path / "timeout").run()

    async with nothing_left_behind():
        with pytest.raises(TimeoutError):
            await within_a_timeout()

    async def fail(learning: asyncio.Event) -> None:
        await learning.wait()
        raise ZeroDivisionError

    learning = asyncio.Event()
    recorder = Recorder(lambda event: learning.set() if isinstance(event, Progress) else None)

    async def beside_one_that_fails() -> None:
        run = on_policy(total_steps=10**9, folder=tmp_path / "group", sinks=(recorder,))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run.run())
            tasks.create_task(fail(learning))

    async with nothing_left_behind():
        with pytest.raises(ExceptionGroup) as failures:
            await beside_one_that_fails()
    assert [type(each) for each in failures.value.exceptions] == [ZeroDivisionError]
    for name in ("timeout", "group"):
        newest = CheckpointStore(tmp_path / name / "checkpoints").latest()
        assert newest is not None
        check_on_policy(dict(newest.tree["state"]))


class Endless(Watched):
    """Every step takes a while, so that a job of a thousand takes far longer than a test."""

    passed = threading.Event()

    def observe(self) -> Any:
        Endless.passed.wait(0.01)
        return super().observe()


@pytest.mark.parametrize("how", ["cancel", "stop", "seconds"])
async def test_a_local_rollout_ends_at_its_next_step(how: str):
    endless = OnPolicyLearner(
        PPO(rollout_steps=10**6), Actor(Endless, envs=2), total_steps=10**9,
        stop_seconds=0.1 if how == "seconds" else None,
    )  # fmt: skip
    async with nothing_left_behind():
        task = asyncio.get_running_loop().create_task(endless.run())
        await _stepping()
        if how == "cancel":
            task.cancel()
        elif how == "stop":
            endless.stop()
        await asyncio.wait([task], timeout=10.0)
    if how == "cancel":
        assert task.cancelled()
    else:
        assert task.result().outcome == {"stop": "stopped", "seconds": "time"}[how]


async def _stepping() -> None:
    await wait_until(lambda: Watched.busy, 10.0, "a step to begin")


async def _until(
    condition: Callable[[], Awaitable[Any]], work: Callable[[], Coroutine[Any, Any, Any]]
) -> None:
    """Run `work` in a timeout that comes when the condition holds."""
    async with asyncio.timeout(None) as timeout, asyncio.TaskGroup() as tasks:
        tasks.create_task(work())
        await condition()
        timeout.reschedule(0)


@pytest.mark.parametrize("how", ["reads on", "breaks", "is cancelled"])
async def test_iterating_ends_also_when_the_reader_lags_far_behind(how: str, tmp_path: Path):
    """More reports than are kept unread: the training waits, and the end still arrives."""
    recorder = Recorder()
    monkey = OnPolicyLearner(
        PPO(rollout_steps=1, epochs=1, minibatch_size=2, hidden=(2,), value_hidden=(2,)),
        Actor("asyncrl.testing.envs:Counter", envs=1),
        total_steps=600, jobs_per_round=1, folder=tmp_path, sinks=(recorder,),
        checkpoint_seconds=3600.0,
    )  # fmt: skip
    reports = aiter(monkey)
    seen = [(await anext(reports)).updates]
    # One was read, as many as are kept wait, and one more finds no room.
    full = 1 + UNREAD_PROGRESS + 1
    await wait_until(lambda: len(recorder.events) >= full, 30.0, "the reports to pile up")
    if how == "reads on":
        seen += [progress.updates async for progress in reports]
        assert seen == list(range(1, 601))
        assert monkey.result is not None
    elif how == "breaks":
        await reports.aclose()
    else:
        with pytest.raises(TimeoutError):
            await _read_slowly(reports)
    newest = CheckpointStore(tmp_path / "checkpoints").latest()
    assert newest is not None
    assert newest.tree["state"]["counters"]["updates"] >= full


async def _read_slowly(reports: AsyncGenerator[Progress]) -> None:
    async with asyncio.timeout(None) as timeout:
        async for progress in reports:
            if progress.updates == 3:
                timeout.reschedule(0)


async def test_iterating_raises_what_ended_the_run_after_all_reports_before_it():
    actor = Actor("asyncrl.testing.envs:CrashesAtStep", kwargs={"at": 40, "length": 99}, envs=1)
    run = OnPolicyLearner(ON, actor, total_steps=1_000, jobs_per_round=1)
    reports = aiter(run)
    assert [(await anext(reports)).updates, (await anext(reports)).updates] == [1, 2]
    with pytest.raises(EnvironmentFailure, match="broken on purpose"):
        await anext(reports)


@pytest.mark.parametrize("make", [on_policy, off_policy])
async def test_a_remote_run_in_a_timeout_keeps_what_it_learned(
    make: Callable[..., Learner], redis_url: str, run_name: str, tmp_path: Path
):
    """The same command then goes on, and the ledger shows nothing lost and nothing twice."""
    learning = anyio.Event()

    def watch(event: Event) -> None:
        if isinstance(event, Progress) and event.updates >= 3:
            learning.set()

    def over(broker: Broker, total: int) -> Learner:
        proxy = ActorProxy(broker, "asyncrl.testing.envs:Counter", envs=2, config=WATCHFUL)
        return make(proxy, total_steps=total, folder=tmp_path, sinks=(Recorder(watch),))

    async with asyncio.TaskGroup() as workers, connect(redis_url, run=run_name) as watcher:
        patient = WorkerConfig(wait_for_run=30.0)
        worker = ActorWorker(redis_url, run_name, patient, QUICK, allow=("asyncrl.testing",))
        workers.create_task(worker.run())
        async with connect(redis_url, run=run_name, config=QUICK) as broker:
            with pytest.raises(TimeoutError):
                await _until(learning.wait, over(broker, 10**9).run)
        newest = CheckpointStore(tmp_path / "checkpoints").latest()
        assert newest is not None
        before = newest.tree["state"]["counters"]["env_steps"]
        async with connect(redis_url, run=run_name, config=QUICK) as broker:
            result = await over(broker, before + 96).run()
        ledger = await watcher.ledger()
        assert ledger.balanced, ledger.explain()
        assert ledger.trained * 32 == result.env_steps >= before + 96


async def test_an_actor_in_a_timeout_gives_its_job_back_and_closes_its_environments(
    redis_url: str, run_name: str
):
    async with nothing_left_behind(), connect(redis_url, run=run_name, config=QUICK) as broker:
        proxy = ActorProxy(broker, Endless, envs=2, config=WATCHFUL)
        run = OnPolicyLearner(PPO(rollout_steps=10**6), proxy, total_steps=10**9)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run.run())
            worker = ActorWorker(redis_url, run_name, broker_config=QUICK, allow=(__name__,))
            with pytest.raises(TimeoutError):
                await _until(_stepping, worker.run)
            assert await broker.jobs.pending() == []
            run.stop()
    assert run.result is not None
    assert run.result.outcome == "stopped"
