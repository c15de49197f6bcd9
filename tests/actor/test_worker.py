"""The worker survives its server and its run: outages, flushes, early and late stops."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from asyncrl.actor import ActorWorker, WorkerConfig
from asyncrl.algorithms import PPO
from asyncrl.broker import Broker, BrokerConfig, RunLimits, connect
from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.data import (
    DEFAULT_POLICY,
    EnvSpec,
    JobKind,
    JobUnit,
    PolicySpec,
    PolicyWeights,
    RolloutJob,
    RunSpec,
    SpaceSpec,
    WeightSet,
)
from asyncrl.errors import (
    BrokerUnavailable,
    ConfigError,
    EnvironmentFailure,
    NotAllowed,
    RunStateLost,
    WaitTimeout,
)
from asyncrl.learner import OnPolicyLearner
from asyncrl.learner.checkpoint import CheckpointStore
from asyncrl.metrics import Event, Progress
from asyncrl.policies import initial_params
from asyncrl.proxy import ActorProxy, ProxyConfig
from asyncrl.testing import wait_until
from asyncrl.testing.envs import Counter
from asyncrl.wire import decode_result, encode_weights

SMALL = PPO(rollout_steps=8, epochs=1, hidden=(4,), value_hidden=(4,))
QUICK = BrokerConfig(block_seconds=0.2, outage_timeout=20.0)
HASTY = BrokerConfig(block_seconds=0.2, outage_timeout=0.2)
WORKER = WorkerConfig(heartbeat_interval=0.1, wait_for_run=20.0)
TESTING = ("asyncrl.testing",)
"""What the actors of most tests are started for."""
WATCHFUL = ProxyConfig(dead_after=5.0, monitor_interval=0.1, poll_interval=0.1, actor_timeout=20.0)


class AtUpdate:
    """A sink that sets an event at the n-th update, and remembers how far the run is."""

    def __init__(self, update: int) -> None:
        self._update = update
        self.reached = anyio.Event()
        self.env_steps = 0

    def write(self, event: Event) -> None:
        if isinstance(event, Progress):
            self.env_steps = event.env_steps
            if event.updates == self._update:
                self.reached.set()

    def close(self) -> None: ...


async def test_a_restarted_server_interrupts_nobody_for_good(run_name: str, tmp_path: Path):
    """With its data on disk a server that is killed and restarted costs no job and no result."""
    sink = AtUpdate(3)
    server = EmbeddedServer(appendonly=True, data_dir=tmp_path / "data")
    async with server, connect(server.url, run=run_name, config=QUICK) as broker:
        async with anyio.create_task_group() as tasks:
            # The worker's own patience ends at once, so that it has to reconnect from scratch.
            worker = ActorWorker(server.url, run_name, WORKER, HASTY, allow=TESTING)
            tasks.start_soon(worker.run)

            async def crash() -> None:
                await sink.reached.wait()
                server.kill()
                await server.restart()

            tasks.start_soon(crash)
            proxy = ActorProxy(
                broker,
                "asyncrl.testing.envs:SlowCounter",
                envs=2,
                kwargs={"seconds": 0.001},
                config=WATCHFUL,
            )
            await OnPolicyLearner(SMALL, proxy, total_steps=640, sinks=(sink,)).run()
        ledger = await broker.ledger()
    assert sink.env_steps == 640
    assert ledger.balanced, ledger.explain()
    assert ledger.env_steps_accepted == 640


async def test_a_flushed_server_is_a_run_made_anew_to_its_actors(run_name: str, tmp_path: Path):
    """The learner says that its run is gone; started again it finds its actors waiting."""
    from asyncrl.testing.inspection import Inspector

    sink = AtUpdate(3)
    async with EmbeddedServer() as server, anyio.create_task_group() as tasks:
        tasks.start_soon(ActorWorker(server.url, run_name, WORKER, QUICK).run)
        async with connect(server.url, run=run_name, config=QUICK) as broker:
            proxy = ActorProxy(broker, "CartPole-v1", envs=2, config=WATCHFUL)
            endless = OnPolicyLearner(
                SMALL, proxy, total_steps=10**9, sinks=(sink,), folder=tmp_path
            )

            async def flush() -> None:
                await sink.reached.wait()
                with Inspector(server.socket_path, server.password) as inspector:
                    inspector.delete(inspector.keys())

            tasks.start_soon(flush)
            with pytest.raises(RunStateLost, match="start the learner again"):
                await endless.run()
        assert CheckpointStore(tmp_path / "checkpoints").latest() is not None
        async with connect(server.url, run=run_name, config=QUICK) as broker:
            proxy = ActorProxy(broker, "CartPole-v1", envs=2, config=WATCHFUL)
            done = await OnPolicyLearner(SMALL, proxy, total_steps=2_000, folder=tmp_path).run()
            assert done.env_steps >= 2_000


async def test_stop_before_anything_is_there_ends_at_once(redis_url: str, run_name: str):
    worker = ActorWorker(redis_url, run_name, WorkerConfig(wait_for_run=600.0), QUICK)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.run)
            await anyio.wait_all_tasks_blocked()
            worker.stop()


async def test_a_run_that_never_comes_is_said_by_name(redis_url: str, run_name: str):
    worker = ActorWorker(redis_url, run_name, WorkerConfig(wait_for_run=0.1), QUICK)
    with pytest.raises(WaitTimeout, match=f"run '{run_name}' to appear.*start its learner"):
        await worker.run()


async def test_a_server_that_was_never_there_is_said_at_once():
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
        await ActorWorker("redis://127.0.0.1:1/0", "r", WORKER, HASTY).run()


def spec_of(env: str) -> RunSpec:
    shape = PolicySpec(
        observation=SpaceSpec(kind="box", shape=(1,)),
        action=SpaceSpec(kind="discrete", dtype="int64", n=2),
        head="categorical",
        hidden=(4,),
    )
    return RunSpec(env=EnvSpec(env=env, num_envs=1), policies={DEFAULT_POLICY: shape})


@pytest.mark.parametrize(
    ("env", "error", "said"),
    [
        ("asyncrl.testing.envs:RaisesWhenMade", EnvironmentFailure, "no licence"),
        ("only_on_the_learners_machine:Env", ConfigError, "no module 'only_on_the_learners"),
    ],
)
async def test_an_environment_that_cannot_be_made_here_is_reported_to_the_learner(
    redis_url: str, run_name: str, env: str, error: type[Exception], said: str
):
    """The learner's machine could make it, this one cannot."""
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        await broker.create_run(spec_of(env), "test")
        allow = (env.partition(":")[0],)
        worker = ActorWorker(redis_url, run_name, WORKER, QUICK, allow=allow, actor_id="here")
        with pytest.raises(error, match=said):
            await worker.run()
        (failure,) = [e for e in await broker.events.tail() if e.kind == "failure"]
    assert failure.report is not None
    assert said in failure.report.cause
    assert ("the simulator has no licence" in failure.report.traceback) == ("RaisesWhen" in env)
    assert failure.actor_id == "here"


async def test_an_actor_runs_no_command_that_its_run_names(
    redis_url: str, run_name: str, tmp_path: Path
):
    """Whoever can write to the server would otherwise run programs on all actors' machines."""
    file = tmp_path / "touched"
    env = EnvSpec(env="os:system", num_envs=1, kwargs={"command": f"touch {file}"})
    refused, reported = await refusal(redis_url, run_name, env)
    assert not file.exists()
    assert (refused.field, refused.value) == ("env", "os:system")
    for text in (str(refused), reported):
        assert "env='os:system': this actor was not started for module 'os'" in text
        assert "start the actor with --allow os " in text


@pytest.mark.parametrize(
    ("field", "env"),
    [
        ("env", EnvSpec(env="lurking_module:Env")),
        ("env", EnvSpec(env="lurking_module:CartPole-v1")),
        ("trajectory", EnvSpec(env="CartPole-v1", trajectory="lurking_module:Comfort")),
    ],
)
async def test_what_an_actor_was_not_started_for_is_not_even_imported(
    redis_url: str,
    run_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    field: str,
    env: EnvSpec,
):
    file = tmp_path / "touched"
    (tmp_path / "lurking_module.py").write_text(f"open({str(file)!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    refused, reported = await refusal(redis_url, run_name, env)
    assert not file.exists()
    assert refused.field == field
    assert "start the actor with --allow lurking_module " in reported


async def refusal(redis_url: str, run_name: str, env: EnvSpec) -> tuple[NotAllowed, str]:
    """Return what an actor that was started for other modules raises, and what it reports."""
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        spec = dataclasses.replace(spec_of("CartPole-v1"), env=env)
        await broker.create_run(spec, "test")
        with pytest.raises(NotAllowed) as refused:
            await ActorWorker(redis_url, run_name, WORKER, QUICK, allow=TESTING).run()
        (event,) = await _failures(broker)
    return refused.value, event.report.cause


def test_modules_to_allow_are_checked_when_the_actor_is_made():
    with pytest.raises(ConfigError, match=r"allow='house'.*write \('house',\)"):
        ActorWorker("redis://127.0.0.1:1/0", "r", allow="house")


async def test_a_job_waits_for_weights_as_new_as_it_asks_for(redis_url: str, run_name: str):
    """A server that came back from an older snapshot names older weights as its newest."""
    spec = spec_of("asyncrl.testing.envs:Counter")
    hurried = BrokerConfig(block_seconds=0.2, outage_timeout=5.0, weights_timeout=0.2)
    job = job_of("g1-train-1", min_version=3)
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        await broker.create_run(spec, "test", RunLimits(max_attempts=50))
        await broker.weights.publish(1, weights(spec, 1), 1)
        await broker.jobs.submit(job)
        async with anyio.create_task_group() as tasks:
            worker = ActorWorker(redis_url, run_name, WORKER, hurried, allow=TESTING)
            tasks.start_soon(worker.run)
            (event,) = await wait_until(
                lambda: _failures(broker), 10, "an attempt that had to do with old weights"
            )
            assert "weights of generation and version (1, 3)" in event.report.cause
            await broker.weights.publish(3, weights(spec, 3), 1)
            (entry,) = await wait_until(broker.results.read, 10, "the result")
            worker.stop()
            assert entry.payload is not None
            assert decode_result(entry.payload).weights_version == 3


async def test_an_actor_says_which_results_wait_for_room_and_is_not_taken_for_hung(
    redis_url: str, run_name: str
):
    """One is refused room, the next is finished behind it. That one is cancelled meanwhile."""
    spec = spec_of("asyncrl.testing.envs:Counter")
    impatient = WorkerConfig(heartbeat_interval=0.02, abandon_timeout=0.1)
    hung = anyio.Event()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        await broker.create_run(spec, "test", RunLimits(max_results=1))
        await broker.weights.publish(1, weights(spec, 1), 1)
        for number in range(3):
            await broker.jobs.submit(job_of(f"g1-train-{number}"))
        async with anyio.create_task_group() as tasks:
            worker = ActorWorker(
                redis_url, run_name, impatient, QUICK, allow=TESTING, on_hung=hung.set
            )
            tasks.start_soon(worker.run)

            async def waiting() -> set[str]:
                (actor,) = await broker.presence.actors()
                jobs = {job.token: job.job_id for job in await broker.jobs.pending()}
                return {jobs[token] for token in actor.waiting if token in jobs}

            async def beats() -> int:
                (actor,) = await broker.presence.actors()
                return actor.sequence

            await wait_until(broker.presence.actors, 10, "the actor")
            both = {"g1-train-1", "g1-train-2"}
            await wait_until(lambda: _is(waiting, both), 10, "both to wait for room")
            await broker.jobs.cancel(["g1-train-2"])
            later = await beats() + 20
            await wait_until(lambda: _at_least(beats, later), 10, "time to be taken for hung")
            assert not hung.is_set()
            (entry,) = await broker.results.read()
            await broker.results.ack([entry.entry_id], {}, 1)
            (entry,) = await wait_until(broker.results.read, 10, "the result that waited")
            assert entry.job_id == "g1-train-1"
            await wait_until(lambda: _is(waiting, set()), 10, "word that none waits any more")
            worker.stop()
        assert (await broker.ledger()).stale == 1


async def test_a_leaving_actor_gives_back_a_result_that_finds_no_room(
    redis_url: str, run_name: str
):
    """It spends no attempt, and nobody has to find out that the actor is gone."""
    spec = spec_of("asyncrl.testing.envs:Counter")
    hurried = WorkerConfig(heartbeat_interval=0.02, drain_timeout=0.5)
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        await broker.create_run(spec, "test", RunLimits(max_results=1))
        await broker.weights.publish(1, weights(spec, 1), 1)
        for number in range(2):
            await broker.jobs.submit(job_of(f"g1-train-{number}"))
        async with anyio.create_task_group() as tasks:
            worker = ActorWorker(redis_url, run_name, hurried, QUICK, allow=TESTING)
            tasks.start_soon(worker.run)

            async def waits() -> bool:
                return any(actor.waiting for actor in await broker.presence.actors())

            await wait_until(waits, 10, "a result to wait for room")
            worker.stop()
        assert await broker.presence.actors() == []
        (again,) = await broker.jobs.take("other", [JobKind.TRAIN])
        assert (again.job.job_id, again.job.attempt) == ("g1-train-1", 1)


async def _is(asked: Callable[[], Awaitable[set[str]]], expected: set[str]) -> bool:
    return await asked() == expected


async def _at_least(asked: Callable[[], Awaitable[int]], least: int) -> bool:
    return await asked() >= least


def job_of(job_id: str, min_version: int = 1) -> RolloutJob:
    return RolloutJob(
        job_id=job_id,
        kind=JobKind.TRAIN,
        unit=JobUnit.STEPS,
        size=4,
        generation=1,
        min_version=min_version,
    )


async def _failures(broker: Broker) -> list[Any]:
    return [event for event in await broker.events.tail() if event.kind == "failure"][:1]


def weights(spec: RunSpec, version: int) -> bytes:
    params = initial_params(spec.policies[DEFAULT_POLICY], 0)
    policies = {DEFAULT_POLICY: PolicyWeights(version=version, params=params)}
    return encode_weights(WeightSet(generation=1, version=version, policies=policies))


RELEASE = threading.Event()
"""Ends the hanging environments of the test below."""


class HangsUntilReleased(Counter):
    def step(self, action: Any) -> Any:
        RELEASE.wait(timeout=30)
        return super().step(action)


async def test_a_hung_environment_is_said_when_its_job_went_to_another_actor(
    redis_url: str, run_name: str
):
    """The process of the actor is ended, for its thread cannot be."""
    hung = anyio.Event()
    RELEASE.clear()

    def on_hung() -> None:
        RELEASE.set()
        hung.set()

    impatient = WorkerConfig(heartbeat_interval=0.1, abandon_timeout=0.2)
    quick = ProxyConfig(dead_after=5.0, stall_timeout=0.5, monitor_interval=0.1, poll_interval=0.1)
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with anyio.create_task_group() as tasks:
            worker = ActorWorker(
                redis_url, run_name, impatient, QUICK, allow=(__name__,), on_hung=on_hung
            )
            tasks.start_soon(worker.run)
            proxy = ActorProxy(broker, f"{__name__}:HangsUntilReleased", envs=1, config=quick)
            run = OnPolicyLearner(SMALL, proxy, total_steps=16, jobs_per_round=1)
            await run.run()
            assert hung.is_set()
