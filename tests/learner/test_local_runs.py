"""Runs over the local actor: bit-exact, stoppable, resumable."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncrl.actor import Actor
from asyncrl.algorithms import PPO
from asyncrl.errors import ConfigError, EnvironmentFailure
from asyncrl.learner import OffPolicyLearner, OnPolicyLearner
from asyncrl.learner.checkpoint import CheckpointStore
from asyncrl.metrics import Checkpointed, Evaluation, Event, Progress
from asyncrl.testing import Recorder

SMALL = PPO(rollout_steps=16, epochs=2, minibatch_size=64, hidden=(8,), value_hidden=(8,))

pytestmark = pytest.mark.usefixtures("one_thread")


def learner(total: int, folder: Path | None = None, **options: Any) -> OnPolicyLearner:
    return OnPolicyLearner(
        SMALL, Actor("CartPole-v1", envs=4), total_steps=total, folder=folder, **options
    )


def newest_state(folder: Path) -> dict[str, Any]:
    checkpoint = CheckpointStore(folder / "checkpoints").latest()
    assert checkpoint is not None
    return dict(checkpoint.tree["state"])


def assert_same(one: Any, other: Any, path: str = "state") -> None:
    """Compare two trees to the byte."""
    assert type(one) is type(other), path
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            assert_same(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), path
        for index, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"{path}[{index}]")
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, path
        assert one.tobytes() == other.tobytes(), path
    elif not path.endswith("seconds"):
        assert one == other, path


async def test_the_same_seed_gives_the_same_bytes_twice(tmp_path: Path):
    for name in ("one", "two"):
        await learner(1_000, tmp_path / name, seed=3).run()
    await learner(1_000, tmp_path / "other", seed=4).run()
    one, two = newest_state(tmp_path / "one"), newest_state(tmp_path / "two")
    assert_same(one, two)
    other = newest_state(tmp_path / "other")
    weights = [tree["updaters"]["policy"] for tree in (one, other)]
    assert repr(weights[0]) != repr(weights[1])


async def test_ratios_are_one_in_the_first_minibatch_of_a_strict_round():
    recorder = Recorder()
    await learner(1_000, sinks=(recorder,)).run()
    deviations = [p.losses["ratio_deviation"] for p in recorder.of(Progress)]
    assert len(deviations) == 8
    assert max(deviations) < 1e-5


async def test_a_resumed_run_goes_on_counting_and_ends_at_the_target(tmp_path: Path):
    first = learner(2_000, tmp_path)
    async for progress in first:
        if progress.env_steps >= 512:
            first.stop()
    stopped_at = newest_state(tmp_path)["counters"]
    assert stopped_at["env_steps"] >= 512
    recorder = Recorder()
    result = await learner(2_000, tmp_path, sinks=(recorder,)).run()
    steps = [p.env_steps for p in recorder.of(Progress)]
    assert steps[0] == stopped_at["env_steps"] + 128
    assert result.env_steps == 2_048
    updates = [p.updates for p in recorder.of(Progress)]
    assert updates[0] == stopped_at["updates"] + 1
    # The learning rate goes on along the same line instead of starting over.
    rates = [p.losses["learning_rate"] for p in recorder.of(Progress)]
    assert rates[0] < PPO().build(  # pyright: ignore[reportPrivateUsage]
        SMALL.policy_spec(*_cartpole()), seed=0
    )._learning_rate(0.0)


def _cartpole() -> tuple[Any, Any]:
    from asyncrl.envs import describe

    spaces = describe(Actor("CartPole-v1").env)
    return spaces.observation, spaces.action


async def test_a_run_that_is_done_is_not_trained_further(tmp_path: Path):
    await learner(500, tmp_path).run()
    recorder = Recorder()
    result = await learner(500, tmp_path, sinks=(recorder,)).run()
    assert result.outcome == "steps"
    assert result.env_steps == 512
    assert recorder.of(Progress) == []


async def test_a_folder_of_another_environment_is_refused_by_name(tmp_path: Path):
    await learner(100, tmp_path).run()
    other = OnPolicyLearner(SMALL, Actor("Acrobot-v1"), total_steps=100, folder=tmp_path)
    with pytest.raises(ConfigError, match=r"trains CartPole-v1, not Acrobot-v1.*another run name"):
        await other.run()


async def test_other_networks_than_those_of_the_run_are_refused(tmp_path: Path):
    await learner(100, tmp_path).run()
    wider = PPO(rollout_steps=16, hidden=(16,), value_hidden=(8,))
    other = OnPolicyLearner(wider, Actor("CartPole-v1"), total_steps=100, folder=tmp_path)
    with pytest.raises(ConfigError, match="networks"):
        await other.run()


async def test_target_steps_and_time_end_a_run():
    assert (await learner(100_000, stop_return=1.0, stop_on="train").run()).outcome == "target"
    assert (await learner(300).run()).outcome == "steps"
    assert (await learner(10**9, stop_seconds=0.01).run()).outcome == "time"


async def test_a_target_needs_a_full_window_of_episodes():
    result = await learner(100_000, stop_return=1.0).run()
    assert result.progress is not None
    assert result.progress.episodes >= 100


async def test_no_return_is_absent_before_an_episode_has_ended():
    recorder = Recorder()
    actor = Actor("asyncrl.testing.envs:Counter", kwargs={"length": 1_000}, envs=1)
    run = OnPolicyLearner(SMALL, actor, total_steps=64, sinks=(recorder,))
    result = await run.run()
    assert [p.mean_return for p in recorder.of(Progress)] == [None, None]
    assert result.mean_return is None


async def test_evaluations_come_at_their_interval_with_their_weights():
    recorder = Recorder()
    await learner(1_000, eval_interval=256, eval_episodes=5, sinks=(recorder,)).run()
    evaluations: list[Evaluation] = recorder.of(Evaluation)
    assert [e.env_steps for e in evaluations] == [256, 512, 768, 1024]  # and the last weights
    assert all(e.episodes == 5 for e in evaluations)
    assert [e.policy_version for e in evaluations] == [3, 5, 7, 9]


async def test_an_evaluation_can_be_the_target():
    run = learner(10_000, eval_interval=128, eval_episodes=3, stop_return=5.0)
    result = await run.run()
    assert result.outcome == "target"
    assert result.env_steps < 1_000


async def test_stopping_in_the_loop_ends_it_after_a_checkpoint(tmp_path: Path):
    run = learner(10**9, tmp_path)
    async for progress in run:
        if progress.updates == 3:
            run.stop()
    assert newest_state(tmp_path)["counters"]["updates"] >= 3


async def test_breaking_out_of_the_loop_stops_the_run_too(tmp_path: Path):
    async with aclosing(aiter(learner(10**9, tmp_path))) as reports:
        async for progress in reports:
            if progress.updates == 3:
                break
    assert newest_state(tmp_path)["counters"]["updates"] >= 3


async def test_stop_ends_a_run_that_is_awaited(tmp_path: Path):
    def after_two(event: Event) -> None:
        if isinstance(event, Progress) and event.updates == 2:
            run.stop()

    run = learner(10**9, tmp_path, sinks=(Recorder(after_two),))
    result = await run.run()
    assert result.outcome == "stopped"
    assert newest_state(tmp_path)["counters"]["updates"] == 2


async def test_a_failing_environment_keeps_what_was_learned_and_shows_its_traceback(
    tmp_path: Path,
):
    actor = Actor("asyncrl.testing.envs:CrashesAtStep", kwargs={"at": 40, "length": 99}, envs=1)
    run = OnPolicyLearner(SMALL, actor, total_steps=1_000, folder=tmp_path)
    with pytest.raises(EnvironmentFailure, match="step 40 of environment 0") as failure:
        await run.run()
    assert "broken on purpose" in failure.value.traceback
    assert newest_state(tmp_path)["counters"]["updates"] == 1


async def test_checkpoints_come_by_bytes_and_say_what_they_cover(tmp_path: Path):
    recorder = Recorder()
    await learner(512, tmp_path, checkpoint_bytes=1, sinks=(recorder,)).run()
    written: list[Checkpointed] = recorder.of(Checkpointed)
    assert [c.env_steps for c in written[:4]] == [128, 256, 384, 512]
    assert all(c.covered == 2 for c in written[:4])


def test_the_wrong_kind_of_learner_is_refused():
    with pytest.raises(ConfigError, match="use OnPolicyLearner"):
        OffPolicyLearner(SMALL, Actor("CartPole-v1"))  # pyright: ignore[reportArgumentType]


def test_an_unknown_option_is_refused_with_near_ones():
    with pytest.raises(ConfigError, match="did you mean total_steps"):
        learner(100, total_step=3)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("total_steps", 0),
        ("jobs_per_round", 0),
        ("max_lag", -1),
        ("update_trigger", "0%"),
        ("checkpoint_seconds", 0.0),
        ("segment_steps", 0),
    ],
)
def test_impossible_options_are_refused_by_name(option: str, value: Any):
    with pytest.raises(ConfigError, match=option):
        OnPolicyLearner(SMALL, Actor("CartPole-v1"), **{option: value})
