"""Runs over remote actors on a real server go as they do over a local one."""

from __future__ import annotations

from typing import Any

import anyio
import numpy as np
import pytest
from remote_world import QUICK, WATCHFUL, WORKER, learner, named_worker, run_spec, workers

from asyncrl.actor import ActorWorker
from asyncrl.broker import connect
from asyncrl.data import JobKind, JobUnit, RolloutJob
from asyncrl.learner.session import Session
from asyncrl.metrics import (
    ActorChange,
    ActorChanged,
    Evaluation,
    Progress,
)
from asyncrl.proxy import ActorProxy, Delivery
from asyncrl.testing import Recorder
from asyncrl.wire import decode_result, decode_weights, encode_result

pytestmark = pytest.mark.usefixtures("one_thread")


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
        spec = run_spec(proxy)
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
