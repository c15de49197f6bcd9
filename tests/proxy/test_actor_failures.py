"""What becomes of a run when its actors die, hang, raise, or lie."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from remote_world import QUICK, WATCHFUL, learner, run_spec, workers

from asyncrl.broker import RunLimits, connect
from asyncrl.data import FailureReport, JobKind
from asyncrl.errors import RolloutFailed, RunNotFound, WaitTimeout
from asyncrl.metrics import (
    JobFailed,
    JobReassigned,
    Message,
    Progress,
)
from asyncrl.proxy import ActorProxy, ProxyConfig
from asyncrl.testing import Recorder, wait_until

pytestmark = pytest.mark.usefixtures("one_thread")


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
        async with proxy.open(run_spec(proxy), recorder):
            (failed,) = await wait_until(lambda: recorder.of(JobFailed), 10, "the report")
    assert (failed.actor, failed.cause) == ("a", "no licence")


async def test_a_malformed_heartbeat_is_said_once_and_ends_nobody(redis_url: str, run_name: str):
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        await broker.create_run(run_spec(ActorProxy(broker, "CartPole-v1", envs=4)), "earlier")
        await broker._session.client.command("HSET", broker._session.keys.actors, "x", "garbage")
        async with workers(redis_url, run_name, 1):
            await learner(broker, 3_000, sinks=(recorder,)).run()
    (said,) = [each for each in recorder.of(Message) if "cannot be read" in each.text]
    assert "actor 'x'" in said.text
    assert recorder.of(Progress)[-1].counters["rejected_beats"] == 1


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


async def test_waiting_for_actors_has_a_deadline_and_says_how_to_start_one(
    redis_url: str, run_name: str
):
    impatient = ProxyConfig(actor_timeout=0.3, poll_interval=0.05)
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        with pytest.raises(WaitTimeout, match=r"python -m asyncrl\.actor") as failure:
            await learner(broker, 64, proxy=impatient).run()
    assert "secret" not in str(failure.value)
