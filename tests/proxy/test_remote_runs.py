"""Runs over remote actors on a real server: same contract, and what happens when things break."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from asyncrl.actor import ActorWorker, WorkerConfig
from asyncrl.algorithms import PPO
from asyncrl.broker import Broker, BrokerConfig, RunLimits, connect
from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.data import FailureReport, JobKind, JobUnit, RolloutJob
from asyncrl.errors import ConfigError, Fenced, RolloutFailed, RunMismatch, RunNotFound, WaitTimeout
from asyncrl.learner import OnPolicyLearner
from asyncrl.learner.session import Session
from asyncrl.metrics import (
    ActorChange,
    ActorChanged,
    Checkpointed,
    Evaluation,
    Event,
    JobFailed,
    JobReassigned,
    Message,
    Progress,
)
from asyncrl.proxy import ActorProxy, Delivery, ProxyConfig
from asyncrl.testing import Recorder, wait_until
from asyncrl.wire import decode_result, decode_weights, encode_result

SMALL = PPO(rollout_steps=16, epochs=2, minibatch_size=64, hidden=(8,), value_hidden=(8,))
QUICK = BrokerConfig(block_seconds=0.2, outage_timeout=5.0)
RESULT_BYTES = 3_000
"""About what a result of a job of `SMALL` takes in four environments of CartPole."""
WORKER = WorkerConfig(heartbeat_interval=0.1, wait_for_run=10.0)
WATCHFUL = ProxyConfig(
    dead_after=1.0, stall_timeout=1.0, monitor_interval=0.1, poll_interval=0.1, actor_timeout=20.0
)

pytestmark = pytest.mark.usefixtures("one_thread")


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


async def test_a_learner_trains_over_remote_actors_and_the_ledger_balances(
    redis_url: str, run_name: str
):
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with workers(redis_url, run_name):
            result = await learner(broker, 1_000, sinks=(recorder,)).run()
            assert result.outcome == "steps"
        ledger = await broker.ledger()
    assert ledger.balanced, ledger.explain()
    assert ledger.trained == ledger.accepted == ledger.issued == 16
    assert ledger.env_steps_accepted == result.env_steps == 1024
    assert max(p.losses["ratio_deviation"] for p in recorder.of(Progress)) < 1e-5
    assert {p.lag_max for p in recorder.of(Progress)} == {0}
    joined = [e.actor for e in recorder.of(ActorChanged) if e.change is ActorChange.JOINED]
    assert set(joined) <= {"w0", "w1"}


async def test_a_finished_run_sends_its_actors_home(redis_url: str, run_name: str):
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ActorWorker(redis_url, run_name, WORKER, QUICK).run)
            await learner(broker, 100).run()
            # The worker leaves by itself, so that the group ends within the test's own deadline.
        assert await broker.presence.actors() == []
        # Nothing of it stays on the server for ever.
        command = broker._session.client.command
        left = [await command("PTTL", key) for key in broker._session.keys.fixed()]
        assert set(left) != {-2}
        assert -1 not in left


@pytest.mark.parametrize("lag", [1, 3])
async def test_pipelined_rounds_keep_the_lag_within_its_bound_and_drop_nothing(
    redis_url: str, run_name: str, lag: int
):
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with workers(redis_url, run_name):
            await learner(broker, 2_000, max_lag=lag, sinks=(recorder,)).run()
        ledger = await broker.ledger()
    lags = [p.lag_max for p in recorder.of(Progress) if p.lag_max is not None]
    assert max(lags) <= lag
    assert max(lags) > 0
    assert ledger.balanced, ledger.explain()
    assert ledger.trained == 32
    assert ledger.waiting == 0
    assert set(ledger.dropped) <= {"superseded"}  # of the rounds in flight at the end


async def test_stored_log_probs_are_those_of_the_weights_the_batch_names(
    redis_url: str, run_name: str, monkeypatch: pytest.MonkeyPatch
):
    """Weights that a batch does not name cannot have acted, however many updates later."""
    from asyncrl.policies import make_policy

    published: dict[int, Any] = {}
    deliveries: list[Delivery] = []
    counted = Session.count

    def keep(self: Session[Any], delivery: Delivery, *, lag_matters: bool = True) -> None:
        deliveries.append(delivery)
        counted(self, delivery, lag_matters=lag_matters)

    monkeypatch.setattr(Session, "count", keep)
    async with connect(redis_url, run=run_name, config=QUICK) as broker:

        async def spy(version: int, payload: bytes, generation: int) -> Any:
            published[version] = decode_weights(payload).policies["policy"].params
            return await original(version, payload, generation)

        original = broker.weights.publish
        broker.weights.publish = spy  # type: ignore[method-assign]
        async with workers(redis_url, run_name):
            run = learner(broker, 2_000, max_lag=1)
            await run.run()
        spec = (await broker.read_run()).spec.policies["policy"]
    versions: set[int] = set()
    for delivery in deliveries:
        (batch,) = delivery.result.batches
        versions.add(batch.policy_version)
        policy = make_policy(spec)
        policy.load(published[batch.policy_version])
        hidden = batch.obs.reshape(-1, 4)
        params = published[batch.policy_version]
        for layer in range(len(spec.hidden) + 1):
            hidden = hidden @ params[f"{layer}.weight"].T + params[f"{layer}.bias"]
            hidden = np.tanh(hidden) if layer < len(spec.hidden) else hidden
        log_probs = hidden - np.log(np.exp(hidden).sum(-1, keepdims=True))
        chosen = np.take_along_axis(log_probs, batch.action.reshape(-1, 1), 1)[:, 0]
        np.testing.assert_allclose(chosen, batch.extras["log_prob"].reshape(-1), atol=1e-5)
    assert len(versions) > 10


async def test_an_actor_killed_amid_a_job_costs_only_that_attempt(redis_url: str, run_name: str):
    """The actor vanishes without a word while it holds a job."""
    recorder = Recorder()
    env, kwargs = "asyncrl.testing.envs:SlowCounter", {"seconds": 0.002}
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        run = learner(broker, 512, env, kwargs, sinks=(recorder,))
        async with workers(redis_url, run_name, 1), anyio.create_task_group() as tasks:
            tasks.start_soon(_take_one_and_vanish, redis_url, run_name)
            await run.run()
        ledger = await broker.ledger()
    assert ledger.env_steps_accepted == 512
    assert ledger.balanced, ledger.explain()
    assert ledger.trained == 8
    (reassigned,) = recorder.of(JobReassigned)
    assert reassigned.actor == "ghost"
    assert reassigned.attempt == 2


async def _take_one_and_vanish(url: str, run: str) -> None:
    async with connect(url, run=run, config=QUICK) as broker:
        with anyio.fail_after(10):
            while True:
                try:
                    if await broker.jobs.take("ghost", [JobKind.TRAIN], count=1):
                        return
                except RunNotFound:
                    await anyio.sleep(0.02)


async def test_a_hanging_environment_is_a_stalled_job_and_dead_in_the_end(
    redis_url: str, run_name: str, tmp_path: Path
):
    """Heartbeats go on, progress does not; three attempts, then it is said."""
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        run = learner(
            broker, 64, "asyncrl.testing.envs:Counter", sinks=(recorder,), jobs_per_round=1
        )
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(_hold_for_ever, redis_url, run_name, f"stuck-{number}")
            with pytest.raises(RolloutFailed, match="stalled: no step"):
                await run.run()
            tasks.cancel_scope.cancel()
        (dead,) = await broker.jobs.dead()
    assert len(recorder.of(JobReassigned)) == 2
    assert [failure.dead for failure in recorder.of(JobFailed)] == [True]
    assert len(dead.reasons) == 3


async def _hold_for_ever(url: str, run: str, name: str) -> None:
    """Be an actor whose environment hangs: it takes one job and beats without progress."""
    from asyncrl.broker import Beat

    async with connect(url, run=run, config=QUICK) as broker:
        held: dict[str, int] = {}
        sequence = 0
        while True:
            try:
                if not held:
                    taken = await broker.jobs.take(name, [JobKind.TRAIN], block=False)
                    held |= {each.token: 5 for each in taken}
                sequence += 1
                await broker.presence.beat(Beat(actor_id=name, sequence=sequence, held=held))
            except RunNotFound:
                pass
            await anyio.sleep(0.05)


async def test_a_raising_environment_reaches_the_learner_with_its_traceback_and_seed(
    redis_url: str, run_name: str
):
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with workers(redis_url, run_name):
            run = learner(broker, 1_000, "asyncrl.testing.envs:CrashesAtStep", sinks=(recorder,))
            with pytest.raises(RolloutFailed, match="all 2 jobs of a round") as failure:
                await run.run()
        ledger = await broker.ledger()
    assert "broken on purpose in step 3" in failure.value.traceback
    assert ledger.dead == 2
    assert ledger.balanced, ledger.explain()
    failures: list[JobFailed] = recorder.of(JobFailed)
    assert len(failures) == 6
    assert all(f"(seed {each.seed}" in each.where for each in failures)


async def test_the_learners_limits_hold_for_its_actors(redis_url: str, run_name: str):
    """An actor needs the URL and the name of the run, and no setting of the run."""
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with workers(redis_url, run_name):
            run = learner(
                broker,
                1_000,
                "asyncrl.testing.envs:CrashesAtStep",
                limits=RunLimits(max_attempts=1),
                sinks=(recorder,),
            )
            with pytest.raises(RolloutFailed, match="all 2 jobs of a round"):
                await run.run()
        dead = await broker.jobs.dead()
        assert (await broker.ledger()).failed == 2
    assert [job.attempt for job in dead] == [1, 1]
    assert [failure.attempt for failure in recorder.of(JobFailed)] == [1, 1]


async def test_what_an_actor_reports_as_soon_as_the_run_is_there_is_told(
    redis_url: str, run_name: str, monkeypatch: pytest.MonkeyPatch
):
    """An actor that waited for the run may fail before its learner looks for the first time."""
    recorder = Recorder()
    report = FailureReport(
        actor_id="a", job_id="", attempt=1, where="making it", cause="no licence"
    )
    async with connect(redis_url, run=run_name, config=QUICK) as broker:

        async def fail_meanwhile() -> list[str]:
            await broker.events.report(report)
            return []

        monkeypatch.setattr(broker, "concerns", fail_meanwhile)
        proxy = ActorProxy(broker, "CartPole-v1", envs=4, config=WATCHFUL)
        async with proxy.open(_run_spec(proxy), recorder):
            (failed,) = await wait_until(lambda: recorder.of(JobFailed), 10, "the report")
    assert (failed.actor, failed.cause) == ("a", "no licence")


async def test_a_malformed_heartbeat_is_said_once_and_ends_nobody(redis_url: str, run_name: str):
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        await broker.create_run(_run_spec(ActorProxy(broker, "CartPole-v1", envs=4)), "earlier")
        await broker._session.client.command("HSET", broker._session.keys.actors, "x", "garbage")
        async with workers(redis_url, run_name, 1):
            await learner(broker, 3_000, sinks=(recorder,)).run()
    (said,) = [each for each in recorder.of(Message) if "cannot be read" in each.text]
    assert "actor 'x'" in said.text
    assert recorder.of(Progress)[-1].counters["rejected_beats"] == 1


async def test_a_server_out_of_memory_is_said_and_so_is_the_end_of_it(run_name: str):
    recorder = Recorder()
    async with (
        EmbeddedServer() as server,
        connect(server.url, run=run_name, config=QUICK) as broker,
        workers(server.url, run_name, 1),
        anyio.create_task_group() as tasks,
    ):

        def said(pattern: str) -> bool:
            return any(re.search(pattern, each.text) for each in recorder.of(Message))

        def counted() -> int:
            return recorder.of(Progress)[-1].counters.get("out_of_memory", 0)

        async def fill() -> None:
            await wait_until(lambda: bool(recorder.of(Progress)), 20, "an update")
            assert not said("memory")
            await broker._session.client.command("CONFIG", "SET", "maxmemory", "1")
            await wait_until(lambda: said(r"unix socket.*out of memory.*of maxmemory"), 5, "word")
            await broker._session.client.command("CONFIG", "SET", "maxmemory", "0")
            await wait_until(lambda: said("has memory again"), 5, "word")
            await wait_until(lambda: counted() == 1, 5, "progress")
            run.stop()

        run = learner(broker, 10**9, sinks=(recorder,))
        tasks.start_soon(fill)
        assert (await run.run()).outcome == "stopped"
    assert len([each for each in recorder.of(Message) if "memory" in each.text]) == 2


async def test_a_user_who_may_not_see_how_full_the_server_is_trains_all_the_same(run_name: str):
    recorder = Recorder()
    async with EmbeddedServer(tcp_port=0) as server:
        async with connect(server.url, run=run_name, config=QUICK) as broker:
            rights = ("on", ">secret", "~*", "+@all", "-info")
            await broker._session.client.command("ACL", "SETUSER", "clerk", *rights)
        url = re.sub(r"//:.*@", "//clerk:secret@", server.url)
        async with connect(url, run=run_name, config=QUICK) as broker:
            assert await broker.memory() is None
            async with workers(url, run_name, 1):
                result = await learner(broker, 100, sinks=(recorder,)).run()
    assert result.outcome == "steps"
    assert not [each for each in recorder.of(Message) if "out of memory" in each.text]


async def test_a_server_that_forgets_is_said_to_the_learners_user(run_name: str):
    recorder = Recorder()
    async with EmbeddedServer(tcp_port=0) as server:
        async with (
            connect(server.tcp_url, run=run_name, config=QUICK) as broker,
            workers(server.tcp_url, run_name, 1),
        ):
            await learner(broker, 100, sinks=(recorder,)).run()
    (said,) = [each.text for each in recorder.of(Message) if "disk" in each.text]
    assert "keeps nothing on disk" in said


async def test_one_failure_costs_one_attempt_and_the_actor_goes_on(
    redis_url: str, run_name: str, tmp_path: Path
):
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with workers(redis_url, run_name, 1):
            run = learner(
                broker,
                256,
                "asyncrl.testing.envs:CrashesOnce",
                {"path": str(tmp_path / "crashed")},
                sinks=(recorder,),
            )
            await run.run()
        ledger = await broker.ledger()
    assert [failure.dead for failure in recorder.of(JobFailed)] == [False]
    assert ledger.trained == 4
    assert ledger.dead == 0


async def test_an_update_trigger_cancels_the_slow_rest_of_a_round(redis_url: str, run_name: str):
    """Superseded jobs are cancelled, so that nobody works through them."""
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with workers(redis_url, run_name, 1):
            await learner(broker, 512, jobs_per_round=4, update_trigger="50%").run()
        ledger = await broker.ledger()
    assert ledger.balanced, ledger.explain()
    assert ledger.trained == 8
    assert ledger.issued == 16
    assert ledger.cancelled + ledger.dropped.get("superseded", 0) == 8


async def test_evaluation_runs_remotely_while_training_goes_on(redis_url: str, run_name: str):
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with workers(redis_url, run_name):
            await learner(
                broker, 1_000, eval_interval=256, eval_episodes=3, sinks=(recorder,)
            ).run()
        ledger = await broker.ledger()
    evaluations: list[Evaluation] = recorder.of(Evaluation)
    assert len(evaluations) >= 3
    assert all(e.episodes == 3 for e in evaluations)
    assert ledger.dropped == {"evaluated": len(evaluations)}
    assert ledger.balanced, ledger.explain()


async def test_results_no_checkpoint_covers_are_learned_from_by_the_next_generation(
    redis_url: str, run_name: str, tmp_path: Path
):
    """Accepted work is neither lost nor trained twice when the learner dies."""

    class Died(Exception):
        pass

    def die_after_three(event: Event) -> None:
        if isinstance(event, Progress) and event.updates == 3:
            raise Died

    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with workers(redis_url, run_name):
            first = learner(broker, 640, folder=tmp_path)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Session, "checkpoint", _do_nothing)

                async def observe(progress: Progress) -> None:
                    die_after_three(progress)

                with pytest.raises(Died):
                    await first._run(observe)
            waiting = (await broker.ledger()).waiting
            assert waiting >= 6
            recorder = Recorder()
            async with connect(redis_url, run=run_name, config=QUICK) as again:
                result = await learner(again, 640, folder=tmp_path, sinks=(recorder,)).run()
                ledger = await again.ledger()
    assert result.env_steps == 640
    updates = [p.env_steps for p in recorder.of(Progress)]
    assert updates[:3] == [128, 256, 384]
    assert ledger.balanced, ledger.explain()
    assert ledger.trained == 10
    assert ledger.env_steps_accepted == 640


async def _do_nothing(self: Session[Any], *, patience: float | None = None) -> None:
    """Stand in for a checkpoint that the process died before."""


@pytest.mark.parametrize(
    "tight", [RunLimits(max_results=8), RunLimits(max_result_bytes=8 * RESULT_BYTES)]
)
async def test_more_results_than_the_server_may_hold_call_for_checkpoints(
    redis_url: str, run_name: str, tmp_path: Path, tight: RunLimits
):
    """Results stay until a checkpoint covers them, so one must come before actors have to wait."""
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ActorWorker(redis_url, run_name, WORKER, QUICK).run)
            run = learner(
                broker,
                1_280,
                limits=tight,
                folder=tmp_path,
                checkpoint_seconds=3600.0,
                sinks=(recorder,),
            )
            result = await run.run()
            assert result.env_steps == 1_280
        ledger = await broker.ledger()
    assert ledger.trained == 20
    assert ledger.balanced, ledger.explain()
    assert max(each.covered for each in recorder.of(Checkpointed)) <= 4


async def test_rounds_that_would_fill_the_server_are_refused_by_name(redis_url: str, run_name: str):
    tight = RunLimits(max_results=8)
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        with pytest.raises(ConfigError, match=r"jobs_per_round=3.*raise max_results"):
            await learner(broker, 100, limits=tight, jobs_per_round=3, max_lag=1).run()


def test_what_the_main_script_defines_is_refused_with_what_to_do(run_name: str):
    class Local:
        __module__ = "__main__"
        __qualname__ = "Local"

    broker = Broker("unix:///nowhere", run_name, QUICK)
    with pytest.raises(ConfigError, match=r"env='Local'.*main script"):
        ActorProxy(broker, Local)


async def test_an_older_learner_is_fenced_and_changes_nothing(redis_url: str, run_name: str):
    async with (
        connect(redis_url, run=run_name, config=QUICK) as old,
        connect(redis_url, run=run_name, config=QUICK) as new,
        workers(redis_url, run_name),
    ):
        run = learner(old, 10**9)
        reports = aiter(run)
        await anext(reports)
        taken_over = learner(new, 640)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(taken_over.run)
            with pytest.raises(Fenced, match="taken over by"):
                async for _ in reports:
                    pass


async def test_a_run_of_another_environment_is_refused(redis_url: str, run_name: str):
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with workers(redis_url, run_name):
            await learner(broker, 64).run()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        with pytest.raises(RunMismatch, match="CartPole-v1"):
            await learner(broker, 64, "Acrobot-v1").run()


async def test_waiting_for_actors_has_a_deadline_and_says_how_to_start_one(
    redis_url: str, run_name: str
):
    impatient = ProxyConfig(actor_timeout=0.3, poll_interval=0.05)
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        with pytest.raises(WaitTimeout, match=r"python -m asyncrl\.actor") as failure:
            await learner(broker, 64, proxy=impatient).run()
    assert "secret" not in str(failure.value)


async def test_a_late_actor_is_used_and_an_early_leaver_costs_nothing(
    redis_url: str, run_name: str
):
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with anyio.create_task_group() as tasks:
            early = named_worker(redis_url, run_name, "early")
            late = named_worker(redis_url, run_name, "late")
            tasks.start_soon(early.run)
            run = learner(
                broker, 1_024, "asyncrl.testing.envs:SlowCounter", {"seconds": 0.001},
                sinks=(recorder,),
            )  # fmt: skip
            async for progress in run:
                if progress.updates == 2:
                    tasks.start_soon(late.run)
                if progress.updates == 4:
                    early.stop()
        ledger = await broker.ledger()
    assert ledger.trained == 16
    assert ledger.reassigned == 0
    assert ledger.dead == 0
    assert ledger.balanced, ledger.explain()
    left = [e.actor for e in recorder.of(ActorChanged) if e.change is ActorChange.LEFT]
    assert "early" in left


async def test_seeds_differ_between_actors_and_a_reassigned_evaluation_is_the_same(
    redis_url: str, run_name: str
):
    """Workers that all play the same episodes learn from one."""
    from asyncrl.data import DEFAULT_POLICY, PolicyWeights, WeightSet
    from asyncrl.metrics import Fanout
    from asyncrl.policies import initial_params

    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        proxy = ActorProxy(broker, "CartPole-v1", envs=4, config=WATCHFUL)
        spec = _run_spec(proxy)
        firsts: list[bytes] = []
        returns: list[list[float]] = []
        async with proxy.open(spec, Fanout()) as collection:
            params = initial_params(spec.policies[DEFAULT_POLICY], 1)
            policy = PolicyWeights(version=1, params=params)
            await collection.publish(
                WeightSet(generation=1, version=1, policies={DEFAULT_POLICY: policy})
            )
            for number in range(2):
                async with workers(redis_url, run_name, 2):
                    for job_id in (f"a{number}", f"b{number}"):
                        await collection.submit(_job(job_id, JobKind.TRAIN, JobUnit.STEPS, 1))
                    for _ in range(2):
                        outcome = await collection.receive()
                        assert isinstance(outcome, Delivery)
                        (batch,) = outcome.result.batches
                        firsts += [batch.obs[0, b].tobytes() for b in range(4)]
            job = _job("evaluation", JobKind.EVAL, JobUnit.EPISODES, 6)
            await collection.submit(job)
            (taken,) = await broker.jobs.take("ghost", [JobKind.EVAL], count=1)
            returns.append(await _play(spec, taken.job, params))
            await broker.jobs.reassign(taken.token, JobKind.EVAL, "it vanished")
            async with workers(redis_url, run_name, 1):
                outcome = await collection.receive()
                assert isinstance(outcome, Delivery)
                assert outcome.result.job.attempt == 2
                returns.append(outcome.result.episodes.returns.tolist())
    assert len(set(firsts)) == len(firsts) == 16
    assert returns[0] == returns[1]
    assert len(set(returns[0])) > 1


def _job(job_id: str, kind: JobKind, unit: JobUnit, size: int) -> RolloutJob:
    return RolloutJob(job_id=job_id, kind=kind, unit=unit, size=size, generation=1)


def _run_spec(proxy: ActorProxy) -> Any:
    from asyncrl.data import DEFAULT_POLICY, RunSpec
    from asyncrl.proxy import agent_spaces

    ((observation, action),) = agent_spaces(proxy.env).values()
    return RunSpec(
        env=proxy.env, policies={DEFAULT_POLICY: SMALL.policy_spec(observation, action)}, seed=1
    )


async def _play(spec: Any, job: RolloutJob, params: Any) -> list[float]:
    """Play a job as another actor would have, before it vanished."""
    from asyncrl.actor.control import RolloutControl
    from asyncrl.actor.host import RolloutHost
    from asyncrl.data import DEFAULT_POLICY, PolicyWeights, WeightSet

    host = RolloutHost(spec, "ghost")
    policy = PolicyWeights(version=1, params=params)
    host.load(WeightSet(generation=1, version=1, policies={DEFAULT_POLICY: policy}))
    result = await host.run(job, RolloutControl())
    await host.close()
    assert decode_result(encode_result(result)).episodes.returns.tolist() == (
        result.episodes.returns.tolist()
    )
    return result.episodes.returns.tolist()
