"""Off-policy runs: bit-exact over the local actor, balanced over remote ones, resumed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import anyio
import gymnasium
import numpy as np
import pytest

from asyncrl.actor import Actor, ActorWorker, StepEvent, Trajectory, WorkerConfig
from asyncrl.algorithms import DQN
from asyncrl.broker import BrokerConfig, RunLimits, connect
from asyncrl.data import SpaceSpec
from asyncrl.learner import OffPolicyLearner
from asyncrl.learner.checkpoint import CheckpointStore
from asyncrl.learner.session import Session
from asyncrl.metrics import Evaluation, Message, Progress
from asyncrl.proxy import ActorProxy, Delivery, ProxyConfig
from asyncrl.testing import Recorder

SMALL = DQN(
    rollout_steps=8,
    hidden=(8,),
    batch_size=16,
    buffer_size=300,
    learning_starts=64,
    samples_per_insert=4,
    target_update_interval=10,
    epsilon="linear:1.0:0.1:0.5",
)
QUICK = BrokerConfig(block_seconds=0.2, outage_timeout=5.0)
WATCHFUL = ProxyConfig(dead_after=1.0, monitor_interval=0.1, poll_interval=0.1, actor_timeout=20.0)

pytestmark = pytest.mark.usefixtures("one_thread")


def local(total: int, folder: Path | None = None, **options: Any) -> OffPolicyLearner:
    actor = Actor("CartPole-v1", envs=4)
    options = {"eval_interval": 0, **options}
    return OffPolicyLearner(SMALL, actor, total_steps=total, folder=folder, **options)


def newest(folder: Path) -> dict[str, Any]:
    checkpoint = CheckpointStore(folder / "checkpoints").latest()
    assert checkpoint is not None
    return dict(checkpoint.tree["state"])


def flat(tree: Any) -> list[bytes]:
    """Return the bytes of every array of a tree, in order of their names."""
    if isinstance(tree, dict):
        return [each for key in sorted(tree) for each in flat(tree[key])]
    return [np.ascontiguousarray(tree).tobytes()] if isinstance(tree, np.ndarray) else []


async def test_the_same_seed_gives_the_same_bytes_twice(tmp_path: Path):
    for name in ("one", "two"):
        await local(600, tmp_path / name, seed=3).run()
    one, two = newest(tmp_path / "one"), newest(tmp_path / "two")
    assert len(flat(one)) >= 8
    assert flat(one) == flat(two)
    assert one["limiters"] == two["limiters"]
    assert one["replays"]["policy"]["rng"] == two["replays"]["policy"]["rng"]


async def test_samples_are_drawn_as_often_as_was_asked_for():
    recorder = Recorder()
    result = await local(1_000, sinks=(recorder,)).run()
    assert result.progress is not None
    drawn = result.progress.updates * SMALL.batch_size
    owed = SMALL.samples_per_insert * (result.env_steps - SMALL.learning_starts)
    assert 0 <= owed + SMALL.samples_per_insert - drawn < SMALL.batch_size


async def test_a_resumed_run_has_its_replay_and_goes_on_counting(tmp_path: Path):
    run = local(2_000, tmp_path)
    async for progress in run:
        if progress.env_steps >= 400:
            run.stop()
    before = newest(tmp_path)
    recorder = Recorder()
    result = await local(before["counters"]["env_steps"] + 200, tmp_path, sinks=(recorder,)).run()
    after = newest(tmp_path)
    assert before["replays"]["policy"]["inserted"] == before["counters"]["env_steps"]
    assert after["replays"]["policy"]["inserted"] == result.env_steps
    first: Progress = recorder.of(Progress)[0]
    assert first.env_steps == before["counters"]["env_steps"] + 32
    # The ring still holds the newest that was collected before the stop.
    inserted = before["replays"]["policy"]["inserted"]
    places = np.arange(inserted - 50, inserted) % SMALL.buffer_size
    old, new = (each["replays"]["policy"]["columns"]["obs"] for each in (before, after))
    np.testing.assert_array_equal(new[places], old[places])


async def test_exploration_comes_with_the_jobs(monkeypatch: pytest.MonkeyPatch):
    """A single agent's parameters reach it, and fall over the run."""
    seen: list[float] = []
    counted = Session.count

    def spy(self: Session[Any], delivery: Delivery, *, lag_matters: bool = True) -> None:
        seen.append(delivery.result.job.exploration["policy"]["epsilon"])
        counted(self, delivery, lag_matters=lag_matters)

    monkeypatch.setattr(Session, "count", spy)
    await local(640).run()
    assert seen[0] == 1.0
    assert seen[5] == pytest.approx(1.0 - 0.9 * (5 * 32 / 640) / 0.5)
    assert seen[-1] == pytest.approx(0.1)
    assert seen == sorted(seen, reverse=True)


async def test_evaluations_run_between_updates_and_can_end_the_run():
    recorder = Recorder()
    run = local(5_000, eval_interval=128, eval_episodes=3, stop_return=5.0, sinks=(recorder,))
    result = await run.run()
    assert result.outcome == "target"
    assert len(recorder.of(Evaluation)) == 1


async def test_over_remote_actors_collection_and_updates_go_on_together(
    redis_url: str, run_name: str, tmp_path: Path
):
    recorder = Recorder()
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with anyio.create_task_group() as tasks:
            worker = WorkerConfig(heartbeat_interval=0.1)
            for number in range(2):
                actor = ActorWorker(redis_url, run_name, worker, QUICK, actor_id=f"w{number}")
                tasks.start_soon(actor.run)
            run = OffPolicyLearner(
                SMALL,
                ActorProxy(broker, "CartPole-v1", envs=4, config=WATCHFUL),
                total_steps=2_000,
                eval_interval=500,
                eval_episodes=3,
                folder=tmp_path,
                sinks=(recorder,),
            )
            await run.run()
        ledger = await broker.ledger()
    steps = recorder.of(Progress)[-1].env_steps
    assert steps >= 2_000
    assert ledger.balanced, ledger.explain()
    assert ledger.waiting == 0
    assert newest(tmp_path)["replays"]["policy"]["inserted"] == ledger.trained * 32 >= steps
    unused = ledger.dropped.get("superseded", 0)  # came when the run was over
    assert ledger.env_steps_accepted == (ledger.trained + unused) * 32
    assert len(recorder.of(Evaluation)) >= 3
    assert max(p.policy_version for p in recorder.of(Progress)) > 10


async def test_a_long_wait_for_the_first_update_calls_for_checkpoints(
    redis_url: str, run_name: str, tmp_path: Path
):
    """While the replay fills, results pile up that only a checkpoint can take off the server."""
    late = dataclasses.replace(SMALL, learning_starts=1_000, buffer_size=2_000)
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ActorWorker(redis_url, run_name, WorkerConfig(), QUICK).run)
            run = OffPolicyLearner(
                late,
                ActorProxy(
                    broker,
                    "CartPole-v1",
                    envs=4,
                    config=WATCHFUL,
                    limits=RunLimits(max_results=8),
                ),
                total_steps=1_200,
                eval_interval=0,
                folder=tmp_path,
                checkpoint_seconds=3600.0,
            )
            result = await run.run()
            assert result.outcome == "steps"


class Turns(gymnasium.Env[Any, Any]):
    """Ten steps; who acts in which is the scenario's business."""

    t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return None, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return None, 0.0, self.t == 10, False, {}


class Unequal(Trajectory):
    """One agent acts in every step, one in every other, and one never."""

    def spaces(self) -> dict[str, Any]:
        seen = SpaceSpec(kind="box", shape=(1,))
        may = SpaceSpec(kind="discrete", dtype="int64", n=2)
        return dict.fromkeys(("busy", "calm", "idle"), (seen, may))

    def get_state(self, event: StepEvent) -> dict[str, np.ndarray]:
        acting = ["busy", "calm"] if event.step % 2 == 0 else ["busy"]
        return dict.fromkeys(acting, np.array([event.step], np.float32))

    def get_action(self, action_by_agent: Any, event: StepEvent) -> Any:
        return action_by_agent


async def test_each_policy_learns_as_often_as_it_acts_and_an_idle_one_hinders_none(tmp_path: Path):
    recorder = Recorder()
    run = OffPolicyLearner(
        SMALL,
        Actor(Turns, trajectory=Unequal),
        agents={"busy": "first", "calm": "second", "idle": "third"},
        total_steps=600, eval_interval=0, folder=tmp_path, sinks=(recorder,),
    )  # fmt: skip
    await run.run()
    state = newest(tmp_path)
    limiters, updaters = state["limiters"], state["updaters"]
    assert [limiters[name]["inserts"] for name in ("first", "second", "third")] == [600, 300, 0]
    for name in ("first", "second"):
        owed = SMALL.samples_per_insert * (limiters[name]["inserts"] - SMALL.learning_starts + 1)
        assert 0 <= owed - limiters[name]["samples"] < SMALL.batch_size
        assert updaters[name]["updates"] * SMALL.batch_size == limiters[name]["samples"]
    assert updaters["third"]["updates"] == 0
    (said,) = [each.text for each in recorder.of(Message)]
    assert "policy 'third' has never acted" in said
    assert "(idle)" in said
