"""Whole episodes through a `Trajectory`: drives the callbacks, asks the policies, counts."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from asyncrl.actor.control import RolloutAbandoned, RolloutControl
from asyncrl.actor.trajectory import StepEvent, Trajectory
from asyncrl.data import RunSpec, TrajectoryBatch
from asyncrl.envs import (
    EdgeError,
    ObservationEdge,
    environment_failure,
    unpack_reset,
    unpack_step,
)
from asyncrl.errors import AsyncRLError, EnvironmentFailure
from asyncrl.policies import Policy

T = TypeVar("T")


@dataclass(kw_only=True)
class Episode:
    """What one episode yields."""

    batches: list[TrajectoryBatch] = field(default_factory=list[TrajectoryBatch])
    total_reward: float
    """Undiscounted sum of rewards over steps and agents, from each agent's first action on."""
    steps: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Acting:
    """Who acts, and how, in one episode."""

    spec: RunSpec
    policies: Mapping[str, Policy]
    versions: Mapping[str, int]
    rng: np.random.Generator
    greedy: bool
    exploration: Mapping[str, Mapping[str, float]]
    edges: dict[str, ObservationEdge]
    """Agent id -> what converts its states; filled in as agents appear, kept between episodes."""

    def choose(
        self, states: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
        """Return agent id -> action and agent id -> extras; one forward pass a policy."""
        members: dict[str, list[str]] = {}
        for agent in states:
            members.setdefault(self.spec.policy_of(agent), []).append(agent)
        actions: dict[str, Any] = {}
        extras: dict[str, dict[str, np.ndarray]] = {}
        for policy_id, agents in members.items():
            acted = self.policies[policy_id].act(
                np.stack([states[agent] for agent in agents]),
                self.rng,
                exploration=self.exploration.get(policy_id, {}),
                greedy=self.greedy,
            )
            for row, agent in enumerate(agents):
                action = acted.action[row]
                actions[agent] = int(action) if np.ndim(action) == 0 else action
                extras[agent] = {name: value[row] for name, value in acted.extras.items()}
        return actions, extras


def run_without_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never really waits, without an event loop.

    Raises `EnvironmentFailure` when it does wait: an async callback was not declared `async def`.
    """
    try:
        work.send(None)
    except StopIteration as finished:
        return finished.value
    work.close()
    raise EnvironmentFailure(
        "running an episode",
        "a callback returned something to wait for, but is not declared async",
        "",
    )


async def run_episode(
    trajectory: Trajectory, acting: Acting, seed: int, control: RolloutControl
) -> Episode:
    """Run one episode from a fresh reset and return what `on_finish` made of it.

    Raises `EnvironmentFailure` when the environment or a callback raises, with its own traceback.
    """
    episode = _Running(trajectory, acting, seed)
    trajectory.acting = _ActingOf(acting.spec, acting.versions)
    await episode.call("reset of the trajectory", trajectory.reset)
    event = trajectory.event = episode.first(
        await episode.call("reset of the environment", trajectory.env.reset, seed=seed)
    )
    total = 0.0
    rewarded = True
    acted: set[str] = set()
    while not event.ended:
        states = await episode.states(event)
        actions, trajectory.extras = acting.choose(states)
        acted.update(actions)
        action = await episode.call("get_action", trajectory.get_action, actions, event)
        step = await episode.call("step of the environment", trajectory.env.step, action)
        before, event = event, episode.event(step)
        trajectory.event = event
        reward: Mapping[str, float] | None = await episode.call("get_reward", trajectory.get_reward)
        rewarded = reward is not None
        total += _earned(reward, acted) if reward is not None else 0.0
        await episode.call(
            "on_env_feedback", trajectory.on_env_feedback, before, states, actions, reward
        )
        control.advance(1)
    trajectory.final_states = await episode.states(event)
    batches = await episode.call("on_finish", trajectory.on_finish)
    if not rewarded:
        total = float(sum(np.sum(batch.reward, dtype=np.float64) for batch in batches.values()))
    return Episode(
        batches=list(batches.values()),
        total_reward=total,
        steps=event.step,
        metrics=await episode.call("metrics", trajectory.metrics),
    )


def _earned(reward: Mapping[str, float], acted: set[str]) -> float:
    """Return the rewards of agents that acted; before that no action, so no batch, holds them."""
    return float(sum(amount for agent, amount in reward.items() if agent in acted))


class _ActingOf(dict[str, tuple[str, int]]):
    """Agent id -> (policy id, version), looked up when asked."""

    def __init__(self, spec: RunSpec, versions: Mapping[str, int]) -> None:
        super().__init__()
        self._spec = spec
        self._versions = versions

    def __missing__(self, agent: str) -> tuple[str, int]:
        policy_id = self._spec.policy_of(agent)
        return policy_id, self._versions[policy_id]


class _Running:
    """Calls into the scenario, sync or async, with failures told apart from our own."""

    def __init__(self, trajectory: Trajectory, acting: Acting, seed: int) -> None:
        self._trajectory = trajectory
        self._spec = acting.spec
        self._seed = seed
        self._edges = acting.edges

    async def call(self, what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call and, if need be, await; translate exceptions into `EnvironmentFailure`."""
        try:
            value = function(*args, **kwargs)
            return await _awaited(value) if inspect.isawaitable(value) else value
        except (AsyncRLError, RolloutAbandoned):
            raise
        except Exception as error:
            where = f"{what}, step {self._trajectory.event.step + 1} (seed {self._seed})"
            raise environment_failure(where, error, seed=self._seed) from error

    async def states(self, event: StepEvent) -> dict[str, np.ndarray]:
        """Return the agents' states as batches store them; refuse misfits by agent and step."""
        states = await self.call("get_state", self._trajectory.get_state, event)
        return {agent: self._state(agent, state, event) for agent, state in states.items()}

    def _state(self, agent: str, state: Any, event: StepEvent) -> np.ndarray:
        edge = self._edges.get(agent)
        if edge is None:
            policy = self._spec.policies[self._spec.policy_of(agent)]
            edge = self._edges[agent] = ObservationEdge(policy.observation)
        where = f"get_state, step {event.step} (seed {self._seed}), agent {agent!r}"
        try:
            stored = np.array(edge.one(state), edge.dtype)
        except EdgeError as error:
            raise environment_failure(where, error, seed=self._seed) from error
        if edge.checks_finite and not np.isfinite(stored).all():
            raise EnvironmentFailure(where, edge.not_finite(stored), "", seed=self._seed)
        return stored

    def first(self, given: Any) -> StepEvent:
        """Return the event of what the environment's `reset` gave back."""
        try:
            obs, info = unpack_reset(given)
        except EdgeError as error:
            where = f"reset of the environment (seed {self._seed})"
            raise environment_failure(where, error, seed=self._seed) from None
        return StepEvent(obs=obs, info=info)

    def event(self, given: Any) -> StepEvent:
        """Return the event of what the environment's `step` gave back."""
        step = self._trajectory.event.step + 1
        try:
            obs, reward, terminated, truncated, info = unpack_step(given)
        except EdgeError as error:
            where = f"step {step} (seed {self._seed})"
            raise environment_failure(where, error, seed=self._seed) from None
        return StepEvent(
            obs=obs,
            reward=reward,
            terminated=bool(terminated),
            truncated=bool(truncated),
            info=info,
            step=step,
        )


async def _awaited(value: Awaitable[T]) -> T:
    return await value
