"""What an actor's environments are like after a job that was not finished."""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any, ClassVar

import numpy as np
import pytest

from asyncrl.actor import Trajectory
from asyncrl.actor.control import RolloutAbandoned, RolloutControl
from asyncrl.actor.host import RolloutHost
from asyncrl.data import (
    DEFAULT_AGENT,
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
from asyncrl.errors import EnvironmentFailure
from asyncrl.policies import initial_params
from asyncrl.testing.envs import Counter

LENGTHS = (10, 1000)
"""Lengths of the episodes of `Uneven`, in turn: most steps are in long ones, half the episodes."""


class Uneven(Counter):
    """Has episodes of uneven lengths; records what is done to it."""

    log: ClassVar[list[str]] = []

    def __init__(self) -> None:
        super().__init__(length=0)
        self._lengths = cycle(LENGTHS)
        self.log.append("made")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.log.append("reset" if self.t == self.length else f"cut off after {self.t} steps")
        self.length = next(self._lengths)
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        if self.t == 500:
            self.log.append("half way")
        return super().step(action)

    def close(self) -> None:
        self.log.append("closed")


class Fails(Uneven):
    def step(self, action: Any) -> Any:
        raise OSError("the simulator is gone")


class Until(RolloutControl):
    """Is told to stop in the step that makes `env_steps` reach a number."""

    def __init__(self, env_steps: int) -> None:
        super().__init__()
        self._last = env_steps

    def advance(self, env_steps: int) -> None:
        if self.env_steps + env_steps >= self._last:
            self.abandon("lost")
        super().advance(env_steps)


@pytest.fixture(autouse=True)
def empty_log():
    Uneven.log.clear()


def host_of(env: type, trajectory: str | None = None) -> RolloutHost:
    shape = PolicySpec(
        observation=SpaceSpec(kind="box", shape=(1,), low=0.0),
        action=SpaceSpec(kind="discrete", dtype="int64", n=2),
        head="categorical",
        hidden=(4,),
    )
    spec = RunSpec(
        env=EnvSpec(env=f"{__name__}:{env.__name__}", num_envs=1, trajectory=trajectory),
        policies={DEFAULT_POLICY: shape},
        agents={DEFAULT_AGENT: DEFAULT_POLICY} if trajectory else {},
    )
    host = RolloutHost(spec, "me")
    policy = PolicyWeights(version=1, params=initial_params(shape, 0))
    host.load(WeightSet(generation=1, version=1, policies={DEFAULT_POLICY: policy}))
    return host


def segment(number: int) -> RolloutJob:
    return RolloutJob(job_id=f"g1-train-{number}", kind=JobKind.TRAIN, unit=JobUnit.STEPS, size=64)


def episodes(number: int, kind: JobKind, size: int = 2) -> RolloutJob:
    return RolloutJob(job_id=f"g1-job-{number}", kind=kind, unit=JobUnit.EPISODES, size=size)


async def test_abandoned_jobs_neither_end_nor_hide_an_episode_however_long():
    host = host_of(Uneven)
    lengths: list[int] = []
    steps = 0
    for number in range(140):
        control = Until(32) if number % 2 else RolloutControl()
        try:
            result = await host.run(segment(number), control)
        except RolloutAbandoned:
            pass
        else:
            lengths += result.episodes.lengths.tolist()
        steps += control.env_steps
    assert steps == 70 * (64 + 32)
    assert lengths == list(islice(cycle(LENGTHS), 13))
    assert Uneven.log.count("made") == 1
    assert set(Uneven.log) == {"made", "reset", "half way"}
    await host.close()
    assert Uneven.log[-1] == "closed"


async def test_an_abandoned_evaluation_leaves_its_environments_to_the_next():
    host = host_of(Uneven)
    with pytest.raises(RolloutAbandoned):
        await host.run(episodes(1, JobKind.EVAL), Until(15))
    assert Uneven.log == ["made", "reset", "reset"]
    result = await host.run(episodes(2, JobKind.EVAL), RolloutControl())
    assert result.episodes.lengths.tolist() == [10, 1000]
    assert Uneven.log[3:] == ["cut off after 5 steps", "reset", "half way", "reset"]
    await host.close()


async def test_an_abandoned_episode_of_a_scenario_is_followed_by_a_whole_one():
    host = host_of(Uneven, f"{Trajectory.__module__}:{Trajectory.__name__}")
    with pytest.raises(RolloutAbandoned):
        await host.run(episodes(1, JobKind.TRAIN), Until(15))
    result = await host.run(episodes(2, JobKind.TRAIN, 1), RolloutControl())
    assert result.episodes.lengths.tolist() == [10]
    assert result.batches[0].obs[:, 0, 0].tolist() == list(np.arange(10))
    assert Uneven.log == ["made", "reset", "reset", "cut off after 5 steps"]
    await host.close()


async def test_what_fails_is_closed_and_made_anew():
    host = host_of(Fails)
    for number in range(2):
        with pytest.raises(EnvironmentFailure, match="the simulator is gone"):
            await host.run(segment(number), RolloutControl())
    assert Uneven.log == ["made", "reset", "closed"] * 2
