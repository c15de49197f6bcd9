"""Segments: true transitions only, exact accounting, seeds by job."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from asyncrl.actor.control import RolloutAbandoned, RolloutControl
from asyncrl.actor.segments import EpisodeSeeds, SegmentRollout, evaluate
from asyncrl.data import (
    EnvSpec,
    EpisodeStats,
    JobKind,
    JobUnit,
    PolicySpec,
    RolloutJob,
    SpaceSpec,
    TrajectoryBatch,
)
from asyncrl.envs import EnvBatch, make_env_batch
from asyncrl.policies import Policy, initial_params, make_policy

LENGTHS = (3, 5, 4)
"""Episode lengths of three counter environments, different on purpose."""


class Countdown(gym.Env[np.ndarray, np.int64]):
    """obs = t, reward = t of the step made, ends after `length` steps."""

    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length: int = 3, truncate: bool = False) -> None:
        self.length = length
        self.truncate = truncate
        self.t = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return np.array([0], np.float32), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.t += 1
        ended = self.t == self.length
        obs = np.array([self.t], np.float32)
        return obs, float(self.t), ended and not self.truncate, ended and self.truncate, {}


def vector(mode: str) -> SyncVectorEnv:
    return SyncVectorEnv(
        [lambda n=n: Countdown(n, truncate=n == 5) for n in LENGTHS],
        autoreset_mode=AutoresetMode[mode],
    )


_MADE = [0]
"""How many plain environments were made: the factory gives them their lengths in turn."""


def plain() -> Countdown:
    length = LENGTHS[_MADE[0] % 3]
    _MADE[0] += 1
    return Countdown(length, truncate=length == 5)


def batch_of(mode: str) -> EnvBatch:
    if mode == "PLAIN":
        _MADE[0] = 0
        spec = EnvSpec(env=f"{__name__}:plain", num_envs=3)
    else:
        spec = EnvSpec(env=f"{__name__}:vector", kwargs={"mode": mode}, num_envs=3)
    return make_env_batch(spec, 3)


def policy() -> Policy:
    space = SpaceSpec(kind="box", shape=(1,), low=0.0, high=100.0)
    spec = PolicySpec(
        observation=space,
        action=SpaceSpec(kind="discrete", dtype="int64", n=2),
        head="categorical",
        hidden=(4,),
    )
    made = make_policy(spec)
    made.load(initial_params(spec, 0))
    return made


def job(size: int, number: int = 1, kind: JobKind = JobKind.TRAIN) -> RolloutJob:
    unit = JobUnit.STEPS if kind is JobKind.TRAIN else JobUnit.EPISODES
    return RolloutJob(job_id=f"g1-train-{number}", kind=kind, unit=unit, size=size)


def collect(
    rollout: SegmentRollout, size: int, number: int
) -> tuple[TrajectoryBatch, EpisodeStats]:
    return rollout.collect(job(size, number), policy(), 3, "policy", RolloutControl())


@pytest.fixture(params=["PLAIN", "NEXT_STEP", "SAME_STEP", "DISABLED"])
def envs(request: pytest.FixtureRequest):
    made = batch_of(request.param)
    yield made
    made.close(5.0)


def test_no_reset_is_ever_a_transition_and_every_reward_counts(envs: EnvBatch):
    rollout = SegmentRollout(envs, 0)
    for number, size in enumerate((7, 1, 10)):
        batch, _ = collect(rollout, size, number)
        batch.validate()
        assert batch.obs.shape == (size, 3, 1)
        # Counter environments: the successor of t is t + 1, which is also the reward. A fake
        # transition (last -> 0) or a bootstrap from the reset observation would break this.
        np.testing.assert_array_equal(batch.next_obs()[..., 0], batch.obs[..., 0] + 1)
        np.testing.assert_array_equal(batch.reward, batch.obs[..., 0] + 1)
        for b, length in enumerate(LENGTHS):
            ended = batch.terminated[:, b] | batch.truncated[:, b]
            np.testing.assert_array_equal(ended, batch.reward[:, b] == length)
            assert not (batch.truncated[:, b] if length != 5 else batch.terminated[:, b]).any()
        assert batch.policy_version == 3


def test_episodes_span_jobs_and_are_counted_once_with_exact_returns():
    envs = batch_of("PLAIN")
    rollout = SegmentRollout(envs, 0)
    returns: list[float] = []
    lengths: list[int] = []
    for number in range(15):  # 15 jobs of 4 steps: 60 steps of each environment
        batch, stats = collect(rollout, 4, number)
        assert batch.steps == 4
        returns += stats.returns.tolist()
        lengths += stats.lengths.tolist()
    envs.close(5.0)
    expected = [n for n in LENGTHS for _ in range(60 // n)]
    assert sorted(lengths) == sorted(expected)
    assert sorted(returns) == sorted(n * (n + 1) / 2 for n in expected)


def test_a_segment_asked_for_is_a_segment_given_however_long_the_episode():
    envs = make_env_batch(
        EnvSpec(env=f"{__name__}:Countdown", kwargs={"length": 100_000}, num_envs=1), 1
    )
    batch, stats = collect(SegmentRollout(envs, 0), 32, 1)
    envs.close(5.0)
    assert batch.steps == 32
    assert len(stats) == 0


def test_a_rollout_told_to_stop_stops_before_its_next_step(envs: EnvBatch):
    control = RolloutControl()
    control.abandon("lost")
    with pytest.raises(RolloutAbandoned, match="lost"):
        SegmentRollout(envs, 0).collect(job(10), policy(), 1, "policy", control)
    assert control.env_steps == 3


class Until(RolloutControl):
    """Is told to stop in the step that makes `env_steps` reach a number."""

    def __init__(self, env_steps: int) -> None:
        super().__init__()
        self._last = env_steps

    def advance(self, env_steps: int) -> None:
        if self.env_steps + env_steps >= self._last:
            self.abandon("lost")
        super().advance(env_steps)


def test_an_abandoned_segment_is_followed_by_the_next_as_if_it_were_complete(envs: EnvBatch):
    rollout = SegmentRollout(envs, 0)
    lengths: list[int] = []
    returns: list[float] = []
    steps = 0
    for number, stop in enumerate([None, 9, None, 12, 3, 6, 15, None, 3, None]):
        control = RolloutControl() if stop is None else Until(stop)
        try:
            batch, stats = rollout.collect(job(7, number), policy(), 3, "policy", control)
        except RolloutAbandoned:
            assert control.env_steps == stop
        else:
            batch.validate()
            np.testing.assert_array_equal(batch.next_obs()[..., 0], batch.obs[..., 0] + 1)
            np.testing.assert_array_equal(batch.reward, batch.obs[..., 0] + 1)
            lengths += stats.lengths.tolist()
            returns += stats.returns.tolist()
        steps += control.env_steps // 3
    # Where a reset is a step of its own an episode and its reset take one more.
    reset = int(getattr(envs, "_mode", None) is AutoresetMode.NEXT_STEP)
    expected = [n for n in LENGTHS for _ in range((steps + reset) // (n + reset))]
    assert sorted(lengths) == sorted(expected)
    assert sorted(returns) == sorted(n * (n + 1) / 2 for n in expected)


def test_no_two_episodes_share_a_seed_and_a_reassigned_job_repeats_its_own():
    seeds = [
        seed
        for number in range(8)
        for first in [EpisodeSeeds(0, f"g1-train-{number}", 4)]
        for seed in (*first.first(), *(first.next(b) for b in range(4) for _ in range(3)))
    ]
    assert len(set(seeds)) == len(seeds)
    again = EpisodeSeeds(0, "g1-train-3", 4)
    assert again.first() == EpisodeSeeds(0, "g1-train-3", 4).first()


def test_evaluation_gives_every_environment_its_share(envs: EnvBatch):
    control = RolloutControl()
    stats, steps = evaluate(envs, job(7, kind=JobKind.EVAL), policy(), 0, control)
    assert sorted(stats.lengths.tolist()) == [3, 3, 3, 4, 4, 5, 5]
    assert stats.returns.tolist() == [n * (n + 1) / 2 for n in stats.lengths.tolist()]
    assert steps == stats.lengths.sum()


def test_an_evaluation_plays_the_same_episodes_wherever_it_runs():
    runs: list[list[float]] = []
    for _ in range(2):
        envs = make_env_batch(EnvSpec(env="CartPole-v1", num_envs=4), 4)
        space = SpaceSpec(kind="box", shape=(4,))
        spec = PolicySpec(
            observation=space,
            action=SpaceSpec(kind="discrete", dtype="int64", n=2),
            head="categorical",
        )
        acting = make_policy(spec)
        acting.load(initial_params(spec, 1))
        stats, _ = evaluate(envs, job(10, kind=JobKind.EVAL), acting, 5, RolloutControl())
        runs.append(stats.returns.tolist())
        envs.close(5.0)
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 1
