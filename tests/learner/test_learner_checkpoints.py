"""Checkpoints of a run: nothing else stands still meanwhile, and evaluating changes no training."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from asyncrl.actor import Actor, ActorWorker
from asyncrl.algorithms import DQN, PPO
from asyncrl.broker import connect
from asyncrl.data import TrajectoryBatch
from asyncrl.errors import CheckpointError
from asyncrl.learner import OffPolicyLearner, OnPolicyLearner
from asyncrl.learner.checkpoint import CheckpointStore
from asyncrl.learner.session import Session
from asyncrl.learner.state import TrainingState
from asyncrl.metrics import Checkpointed, Progress
from asyncrl.proxy import ActorProxy
from asyncrl.testing import Recorder

pytestmark = pytest.mark.usefixtures("one_thread")

PPO_SMALL = PPO(rollout_steps=16, epochs=2, minibatch_size=64, hidden=(8,), value_hidden=(8,))
DQN_SMALL = DQN(
    rollout_steps=8, hidden=(8,), batch_size=16, buffer_size=1_000_000, learning_starts=64,
    samples_per_insert=4,
)  # fmt: skip


def newest(folder: Path) -> dict[str, Any]:
    checkpoint = CheckpointStore(folder / "checkpoints").latest()
    assert checkpoint is not None
    return dict(checkpoint.tree["state"])


def bytes_of(tree: Any) -> Any:
    """Return a tree with its arrays as bytes, to be compared."""
    if isinstance(tree, dict):
        return {name: bytes_of(each) for name, each in tree.items()}
    return tree.tobytes() if isinstance(tree, np.ndarray) else tree


@pytest.mark.parametrize(
    ("learner", "algorithm"), [(OnPolicyLearner, PPO_SMALL), (OffPolicyLearner, DQN_SMALL)]
)
async def test_evaluating_does_not_change_the_training(
    learner: Any, algorithm: Any, tmp_path: Path
):
    for interval in (0, 128, 300):
        await learner(
            algorithm, Actor("CartPole-v1", envs=4), total_steps=1_000, seed=3,
            eval_interval=interval, eval_episodes=2, folder=tmp_path / str(interval),
        ).run()  # fmt: skip
    states = [newest(tmp_path / name) for name in ("0", "128", "300")]
    evaluated = [state["counters"]["evaluations"] for state in states]
    assert evaluated[0] == 0
    assert min(evaluated[1:]) >= 3
    for name in ("updaters", "replays", "limiters", "window"):
        first, *others = [bytes_of(state[name]) for state in states]
        assert all(other == first for other in others), name


async def test_the_event_loop_goes_on_while_a_large_replay_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A million transitions take longer to save than the loop may stand still for."""
    ticks = during = 0
    saved = Session._save

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    def watched(self: Session[Any], *args: Any) -> Any:
        nonlocal during
        before = ticks
        try:
            return saved(self, *args)
        finally:
            during = ticks - before

    def filled(self: OffPolicyLearner, spec: Any) -> TrainingState[Any]:
        state = new_state(self, spec)
        steps, wide = 10_000, 100
        obs = np.zeros((steps, wide, 4), np.float32)
        state.replays["policy"].add(
            TrajectoryBatch(
                policy_id="policy", policy_version=1, obs=obs,
                action=np.zeros((steps, wide), np.int64),
                reward=np.zeros((steps, wide), np.float32),
                terminated=np.zeros((steps, wide), np.bool_),
                truncated=np.zeros((steps, wide), np.bool_),
                last_obs=obs[0], final_obs=obs[0, :0],
            )
        )  # fmt: skip
        return state

    new_state = OffPolicyLearner._new_state
    monkeypatch.setattr(OffPolicyLearner, "_new_state", filled)
    monkeypatch.setattr(Session, "_save", watched)
    recorder = Recorder()
    run = OffPolicyLearner(
        DQN_SMALL, Actor("CartPole-v1", envs=4), total_steps=200, eval_interval=0,
        folder=tmp_path, sinks=(recorder,),
    )  # fmt: skip
    ticking = asyncio.get_running_loop().create_task(tick())
    await run.run()
    ticking.cancel()
    written = recorder.of(Checkpointed)[-1]
    assert (written.nbytes or 0) > 40_000_000
    assert during >= 10  # a copy on the loop itself would leave none


async def test_nothing_comes_in_while_a_checkpoint_is_made(
    redis_url: str, run_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Replay, limiter and counters of a checkpoint are of one moment, though collecting goes on."""
    saved = Session._save
    moments: list[tuple[int, int]] = []

    def watched(self: Session[Any], *args: Any) -> Any:
        before = self.state.replays["policy"].inserted
        result = saved(self, *args)
        moments.append((before, self.state.replays["policy"].inserted))
        return result

    monkeypatch.setattr(Session, "_save", watched)
    async with anyio.create_task_group() as tasks, connect(redis_url, run=run_name) as broker:
        worker = ActorWorker(redis_url, run_name)
        tasks.start_soon(worker.run)
        run = OffPolicyLearner(
            DQN_SMALL, ActorProxy(broker, "CartPole-v1", envs=4), total_steps=2_000,
            eval_interval=0, folder=tmp_path, checkpoint_seconds=1e-9,
        )  # fmt: skip
        await run.run()
    assert len(moments) > 5
    assert all(before == after for before, after in moments)
    state = newest(tmp_path)
    inserted = state["replays"]["policy"]["inserted"]
    assert state["limiters"]["policy"]["inserts"] == state["counters"]["env_steps"] == inserted


async def test_the_checkpoint_of_another_version_is_one_clear_error(tmp_path: Path):
    def run() -> OnPolicyLearner:
        return OnPolicyLearner(
            PPO_SMALL, Actor("CartPole-v1", envs=4), total_steps=300, folder=tmp_path
        )

    recorder = Recorder()
    await run().run()
    store = CheckpointStore(tmp_path / "checkpoints")
    found = store.latest()
    assert found is not None
    state = {name: each for name, each in found.tree["state"].items() if name != "window"}
    store.save({**found.tree, "state": state}, found.manifest, 300)
    with pytest.raises(CheckpointError, match=r"another state than this version.*'window'"):
        await run().run()
    assert recorder.of(Progress) == []
