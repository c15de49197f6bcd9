"""Whole episodes through a Trajectory: default, late rewards, several agents, async callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import anyio
import gymnasium as gym
import numpy as np
import pytest

from asyncrl.actor import StepEvent, Trajectory
from asyncrl.actor.control import RolloutControl
from asyncrl.actor.host import RolloutHost
from asyncrl.data import (
    DEFAULT_POLICY,
    EnvSpec,
    JobKind,
    JobUnit,
    PolicySpec,
    PolicyWeights,
    RolloutJob,
    RolloutResult,
    RunSpec,
    SpaceSpec,
    WeightSet,
)
from asyncrl.errors import DataError, EnvironmentFailure
from asyncrl.policies import initial_params

BOX = SpaceSpec(kind="box", shape=(1,), low=0.0, high=100.0)
TWO = SpaceSpec(kind="discrete", dtype="int64", n=2)


class Counter(gym.Env[np.ndarray, np.int64]):
    """obs = t, reward = t; truncated after `length` steps. A list records that close was called."""

    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2, start=5)
    closed: ClassVar[list[bool]] = []
    metrics: Mapping[str, float]

    def __init__(self, length: int = 4) -> None:
        self.length = length

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        self.metrics = {}
        return np.array([0.0], np.float32), {"seed": seed}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert action in (5, 6)
        self.t += 1
        self.metrics = {"steps_done": self.t}
        return np.array([self.t], np.float32), float(self.t), False, self.t == self.length, {}

    def close(self):
        self.closed.append(True)


class OldGym(Counter):
    """Returns what old Gym did, in the one callback named."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def reset(self, **kwargs: Any) -> Any:
        obs, info = super().reset(**kwargs)
        return obs if self.what == "reset" else (obs, info)

    def step(self, action: np.int64) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, info


class LateReward(Trajectory):
    """Reward of a step: how many steps were still to come."""

    def get_reward(self):
        return None

    def on_finish(self):
        steps = self.steps["agent"]
        for index, step in enumerate(steps):
            step.reward = float(len(steps) - 1 - index)
        return super().on_finish()


class TwoAgents(Trajectory):
    """Agent `even` acts at even steps, agent `odd` at odd ones; both have policies of their own."""

    def spaces(self):
        return {"even": (BOX, TWO), "odd": (BOX, TWO)}

    def get_state(self, event: StepEvent):
        return {"even" if event.step % 2 == 0 else "odd": event.obs}

    def get_action(self, action_by_agent: Mapping[str, Any], event: StepEvent):
        (choice,) = action_by_agent.values()
        return 5 + choice


TURNS: tuple[tuple[tuple[str, ...], dict[str, float]], ...] = (
    (("a",), {"a": 1.0, "b": 2.0}),  # b has not decided anything yet: its 2 is nobody's
    (("b",), {"a": 4.0, "b": 8.0, "c": 16.0}),  # a's 4 comes after its action; c never acts
    (("b",), {"a": 32.0}),  # b gets nothing for this one now
    (("a", "b"), {"a": 64.0, "b": 128.0}),
    (("b",), {"a": 256.0, "b": 512.0, "c": 1024.0}),  # the last one: a acts no more
    ((), {}),
)
"""Who acts on each event, and the rewards of the step that follows: powers of two, one each."""


class IrregularTurns(Trajectory):
    """Acts and rewards as `TURNS` say; nobody has to act on the last event."""

    def spaces(self):
        return {"a": (BOX, TWO), "b": (BOX, TWO), "c": (BOX, TWO)}

    def get_state(self, event: StepEvent):
        return dict.fromkeys(TURNS[event.step][0], np.asarray(event.obs))

    def get_action(self, action_by_agent: Mapping[str, Any], event: StepEvent):
        assert set(action_by_agent) == set(TURNS[event.step][0])
        return 5

    def get_reward(self):
        return TURNS[self.event.step - 1][1]


class Awaited(Trajectory):
    """Every callback waits on the event loop."""

    async def reset(self):
        await anyio.lowlevel.checkpoint()
        super().reset()

    async def get_state(self, event: StepEvent):
        await anyio.lowlevel.checkpoint()
        return {"agent": event.obs}

    async def get_action(self, action_by_agent: Mapping[str, Any], event: StepEvent):
        await anyio.lowlevel.checkpoint()
        return super().get_action(action_by_agent, event)

    async def on_finish(self):
        await anyio.lowlevel.checkpoint()
        return {agent: self.batch(agent) for agent in self.steps}


class Broken(Trajectory):
    def get_state(self, event: StepEvent):
        if event.step == 2:
            raise KeyError("the port is not on the map")
        return super().get_state(event)


class NotFinite(Trajectory):
    def get_state(self, event: StepEvent):
        return {"agent": np.array([np.nan if event.step == 3 else 0.0], np.float32)}


def host_of(
    trajectory: type,
    agents: dict[str, str] | None = None,
    env: type = Counter,
    **kwargs: Any,
) -> RolloutHost:
    shape = PolicySpec(observation=BOX, action=TWO, head="categorical", hidden=(4,))
    agents = agents or {"agent": DEFAULT_POLICY}
    spec = RunSpec(
        env=EnvSpec(
            env=f"{__name__}:{env.__name__}",
            kwargs=kwargs,
            trajectory=f"{__name__}:{trajectory.__name__}",
            num_envs=1,
        ),
        policies=dict.fromkeys(agents.values(), shape),
        agents=agents,
    )
    host = RolloutHost(spec, "me")
    policies = {
        name: PolicyWeights(version=7, params=initial_params(shape, 0)) for name in spec.policies
    }
    host.load(WeightSet(generation=1, version=9, policies=policies))
    return host


async def roll_out(
    trajectory: type,
    episodes: int = 2,
    kind: JobKind = JobKind.TRAIN,
    agents: dict[str, str] | None = None,
    **kwargs: Any,
) -> RolloutResult:
    host = host_of(trajectory, agents, **kwargs)
    job = RolloutJob(job_id="g1-train-1", kind=kind, unit=JobUnit.EPISODES, size=episodes)
    try:
        return await host.run(job, RolloutControl())
    finally:
        await host.close()


async def test_the_default_is_gymnasium():
    result = await roll_out(Trajectory)
    assert result.episodes.returns.tolist() == [10.0, 10.0]
    assert result.episodes.lengths.tolist() == [4, 4]
    assert result.env_steps == 8
    assert result.metrics == {"steps_done": 4.0}
    assert result.weights_version == 9
    first, _ = result.batches
    assert first.obs[:, 0, 0].tolist() == [0, 1, 2, 3]
    assert first.reward[:, 0].tolist() == [1, 2, 3, 4]
    assert first.truncated[:, 0].tolist() == [False, False, False, True]
    assert not first.terminated.any()
    assert first.final_obs.tolist() == [[4.0]]
    assert first.next_obs()[:, 0, 0].tolist() == [1, 2, 3, 4]
    assert first.policy_version == 7
    assert set(np.unique(first.action)) <= {0, 1}
    assert first.extras["log_prob"].shape == (4, 1)


async def test_rewards_may_come_late():
    result = await roll_out(LateReward, 1)
    assert result.batches[0].reward[:, 0].tolist() == [3, 2, 1, 0]
    assert result.episodes.returns.tolist() == [6.0]


async def test_only_the_agents_an_event_names_act_each_with_its_own_policy():
    result = await roll_out(TwoAgents, 1, agents={"even": "p-even", "odd": "p-odd"})
    by_agent = {batch.agent_id: batch for batch in result.batches}
    assert {a: b.policy_id for a, b in by_agent.items()} == {"even": "p-even", "odd": "p-odd"}
    assert by_agent["even"].obs[:, 0, 0].tolist() == [0, 2]
    assert by_agent["odd"].obs[:, 0, 0].tolist() == [1, 3]
    # The last event, at step 4, is one for `even`; `odd` bootstraps from its own last state.
    assert by_agent["even"].final_obs.tolist() == [[4.0]]
    assert by_agent["odd"].final_obs.tolist() == [[3.0]]


async def test_a_reward_goes_to_its_agents_latest_action_also_when_it_comes_after_it():
    agents = dict.fromkeys("abc", DEFAULT_POLICY)
    result = await roll_out(IrregularTurns, 2, agents=agents, length=len(TURNS) - 1)
    stored = [(batch.agent_id, batch.reward[:, 0].tolist()) for batch in result.batches]
    a = [1.0 + 4.0 + 32.0, 64.0 + 256.0]
    b = [8.0, 0.0, 128.0, 512.0]
    assert stored == [("a", a), ("b", b)] * 2
    assert [batch.obs[:, 0, 0].tolist() for batch in result.batches[:2]] == [[0, 3], [1, 2, 3, 4]]
    # Left out of both: what b got before its first action, and all of c, which made none.
    assert result.episodes.returns.tolist() == [sum(a) + sum(b)] * 2


async def test_callbacks_may_be_async():
    result = await roll_out(Awaited)
    assert result.episodes.returns.tolist() == [10.0, 10.0]


async def test_an_evaluation_returns_statistics_but_no_batches():
    result = await roll_out(Trajectory, 3, JobKind.EVAL)
    assert result.batches == ()
    assert result.episodes.returns.tolist() == [10.0] * 3


async def test_a_raising_callback_shows_its_own_traceback_step_and_seed():
    with pytest.raises(EnvironmentFailure, match=r"get_state, step 3 \(seed \d+\): KeyError") as e:
        await roll_out(Broken)
    assert 'raise KeyError("the port is not on the map")' in e.value.traceback
    assert f"(seed {e.value.seed})" in e.value.where


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("reset", r"reset of the environment \(seed \d+\): reset\(\) returned a float32 array"),
        ("step", r"step 1 \(seed \d+\): step\(\) returned a tuple of 4 values, where Gymnasium"),
    ],
)
async def test_an_environment_of_the_old_gym_interface_is_told_so(what: str, told: str):
    with pytest.raises(EnvironmentFailure, match=told) as failure:
        await roll_out(Trajectory, env=OldGym, what=what)
    assert "old Gym" in failure.value.cause
    assert f"(seed {failure.value.seed})" in failure.value.where


async def test_a_nan_state_is_caught_at_the_edge_by_agent_and_step():
    with pytest.raises(EnvironmentFailure, match=r"step 3 .*agent 'agent': .* not finite") as e:
        await roll_out(NotFinite)
    assert f"(seed {e.value.seed})" in e.value.where


async def test_a_segment_of_steps_does_not_go_through_a_trajectory():
    host = host_of(Trajectory)
    job = RolloutJob(job_id="g1-train-1", kind=JobKind.TRAIN, unit=JobUnit.STEPS, size=4)
    with pytest.raises(DataError, match="whole episodes"):
        await host.run(job, RolloutControl())
    await host.close()


async def test_environments_are_closed_after_work_and_after_failure():
    Counter.closed.clear()
    await roll_out(Trajectory)
    assert Counter.closed == [True]
    with pytest.raises(EnvironmentFailure):
        await roll_out(Broken)
    assert Counter.closed == [True, True]
