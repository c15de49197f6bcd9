"""A run goes on over its learners, and is taken over, refused or covered as it should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from remote_world import QUICK, WORKER, learner, workers

from asyncrl.actor import ActorWorker
from asyncrl.broker import Broker, RunLimits, connect
from asyncrl.errors import ConfigError, Fenced, RunMismatch
from asyncrl.learner.session import Session
from asyncrl.metrics import (
    Checkpointed,
    Event,
    Progress,
)
from asyncrl.proxy import ActorProxy
from asyncrl.testing import Recorder

RESULT_BYTES = 3_000
"""About what a result of a job of `SMALL` takes in four environments of CartPole."""

pytestmark = pytest.mark.usefixtures("one_thread")


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
