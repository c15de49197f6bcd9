"""Finished results that wait for room: a state of its own, neither a stall nor a slow job."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from asyncrl.actor import ActorWorker, WorkerConfig
from asyncrl.algorithms import DQN, PPO
from asyncrl.broker import Broker, BrokerConfig, RunLimits, connect
from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.errors import NoRoom
from asyncrl.learner import Learner, OffPolicyLearner, OnPolicyLearner, off_policy
from asyncrl.learner.session import Session
from asyncrl.metrics import Checkpointed, Event, JobFailed, JobReassigned, Level, Message, Progress
from asyncrl.proxy import ActorProxy, ProxyConfig
from asyncrl.proxy.actor_proxy import RemoteCollection
from asyncrl.testing import Recorder, wait_until

SMALL = PPO(rollout_steps=16, epochs=1, minibatch_size=64, hidden=(4,), value_hidden=(4,))
REPLAYED = DQN(rollout_steps=16, hidden=(4,), batch_size=16, buffer_size=1_000, learning_starts=64)
JOB_STEPS = 2 * 16
"""Environment steps of a job."""
QUICK = BrokerConfig(block_seconds=0.2, outage_timeout=20.0)
WORKER = WorkerConfig(heartbeat_interval=0.05, wait_for_run=20.0, drain_timeout=1.0)
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
    started = ActorWorker(url, run, WORKER, QUICK, allow=("asyncrl.testing",), actor_id=name)
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


@pytest.mark.parametrize(
    ("jobs", "actors", "waiting"),
    [
        pytest.param(2, 2, "1 finished result waits", id="one is missing"),
        pytest.param(6, 1, "2 finished results wait", id="the others are queued"),
        pytest.param(6, 3, "5 finished results wait", id="none is queued"),
    ],
)
async def test_a_round_that_never_fits_is_an_error_that_names_the_limit(
    redis_url: str, run_name: str, jobs: int, actors: int, waiting: str
):
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        run = on_policy(
            proxy_of(broker, ONE_AT_A_TIME),
            Recorder(),
            total_steps=10**9,
            jobs_per_round=jobs,
            max_lag=0,
        )
        async with anyio.create_task_group() as tasks:
            workers = [
                ActorWorker(
                    redis_url, run_name, WORKER, QUICK, allow=("asyncrl.testing",), actor_id=f"w{n}"
                )
                for n in range(actors)
            ]
            for each in workers:
                tasks.start_soon(each.run)
            said = rf"{waiting} for room: with 1 result of \d+ bytes.* raise max_result_bytes"
            with pytest.raises(NoRoom, match=said) as error, anyio.fail_after(20):
                await run.run()
            assert (error.value.field, error.value.value) == ("max_result_bytes", 1)
            for each in workers:
                each.stop()
        ledger = await broker.ledger()
    assert ledger.reassigned == 0
    assert ledger.balanced, ledger.explain()


async def test_results_of_an_earlier_generation_that_fill_the_server_make_room(
    redis_url: str, run_name: str, tmp_path: Path
):
    """The next generation learned from all of them before its first round, and covers them."""
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with worker(redis_url, run_name):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Session, "checkpoint", _do_nothing)

                def stop_after_four(event: Event) -> None:
                    if isinstance(event, Progress) and event.updates == 4:
                        first.stop()

                first = on_policy(
                    proxy_of(broker), Recorder(stop_after_four), total_steps=10**9, max_lag=0
                )
                await first.run()
        held = (await broker.backlog()).results
        assert held >= 4
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with worker(redis_url, run_name, "w1"):
            tight = proxy_of(broker, RunLimits(max_results=held))
            options = {"total_steps": (held + 4) * JOB_STEPS, "folder": tmp_path, "max_lag": 0}
            await on_policy(tight, Recorder(), **options).run()
        ledger = await broker.ledger()
    assert ledger.trained == held + 4
    assert ledger.balanced, ledger.explain()


async def _do_nothing(self: Session[Any], *, patience: float | None = None) -> None:
    """Stand in for a checkpoint that the process died before."""


async def test_a_checkpoint_that_is_not_due_yet_makes_room_off_policy(
    redis_url: str, run_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As where a large result waits behind small ones, which call for no checkpoint themselves."""
    monkeypatch.setattr(RemoteCollection, "capacity", None)
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with worker(redis_url, run_name):
            run = replaying(
                proxy_of(broker, ONE_AT_A_TIME),
                recorder,
                total_steps=4 * JOB_STEPS,
                folder=tmp_path,
                checkpoint_seconds=3600.0,
            )
            await run.run()
        ledger = await broker.ledger()
    assert {each.covered for each in recorder.of(Checkpointed)} <= {0, 1}
    assert ledger.trained >= 4
    assert ledger.balanced, ledger.explain()


def _actor(url: str, run: str, name: str) -> list[str]:
    command = [sys.executable, "-m", "asyncrl.actor", "--redis", url, "--run", run, "--name", name]
    return [*command, "--allow", "asyncrl.testing", "--heartbeat-interval", "0.05"]
