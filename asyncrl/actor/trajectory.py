"""The scenario's callbacks: all scenario logic lives here, none of it in `Actor`."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from asyncrl.data import DEFAULT_AGENT, SpaceSpec, TrajectoryBatch
from asyncrl.envs import ActionEdge, space_spec
from asyncrl.errors import StateError


@dataclass(frozen=True, kw_only=True)
class StepEvent:
    """What the environment said last: after a reset (`step` 0) or after an action."""

    obs: Any
    """The observation, or for event-driven environments whatever describes the decision due."""
    reward: Any = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    step: int = 0
    """Actions taken in this episode so far."""

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated


@dataclass(kw_only=True)
class AgentStep:
    """One decision of one agent, as recorded. `reward` may be set later, in `on_finish`."""

    state: np.ndarray
    action: Any
    reward: float = 0.0
    extras: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])


class Trajectory:
    """One rollout of a scenario. Subclass it and override what differs; each callback may be async.

    As it stands it is the Gymnasium default: one agent that sees the observation, takes the action
    and gets the reward of the environment. An episode goes: `reset`, then for every event
    `get_state` -> (the policies choose) -> `get_action` -> the environment steps -> `get_reward` ->
    `on_env_feedback`, and `on_finish` in the end.

    The environment is whatever the factory made: it has ``reset(seed=..)`` and ``step(action)`` of
    Gymnasium's form, either of which may be async.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.steps: dict[str, list[AgentStep]] = defaultdict(list)
        """Agent id -> its decisions in this episode, in order."""
        self.event = StepEvent(obs=None)
        """The newest event."""
        self.extras: Mapping[str, Mapping[str, np.ndarray]] = {}
        """Agent id -> what its policy recorded with the newest action (for example log_prob)."""
        self.acting: Mapping[str, tuple[str, int]] = {}
        """Agent id -> (policy id, policy version) it acts with; filled in by the rollout."""
        self.final_states: Mapping[str, np.ndarray] = {}
        """Agent id -> state on the event that ended the episode; filled in by the rollout."""
        self._edge: ActionEdge | None = None

    def spaces(self) -> Mapping[str, tuple[SpaceSpec, SpaceSpec]]:
        """Return agent id -> (observation space, action space) for every agent of the scenario."""
        return {
            DEFAULT_AGENT: (
                space_spec(self.env.observation_space),
                space_spec(self.env.action_space),
            )
        }

    def reset(self) -> Awaitable[None] | None:
        """Forget the last episode. Called before the environment is reset."""
        self.steps.clear()
        self.extras = {}
        return None

    def get_state(
        self, event: StepEvent
    ) -> Mapping[str, np.ndarray] | Awaitable[Mapping[str, np.ndarray]]:
        """Return agent id -> state of every agent that must act on `event`.

        Called once more on the event that ends the episode, for the states to bootstrap from.
        """
        return {DEFAULT_AGENT: event.obs}

    def get_action(self, action_by_agent: Mapping[str, Any], event: StepEvent) -> Any:
        """Return the environment's action (or an awaitable of it) from what the policies chose.

        Chosen actions are ints counted from 0 for discrete spaces, unclipped float32 arrays for
        boxes. By default the one agent's action is shifted, or clipped, into its space.
        """
        ((agent, action),) = action_by_agent.items()
        if self._edge is None:
            self._edge = ActionEdge(self.spaces()[agent][1], 1)
        return self._edge.convert(np.asarray(action)[None])[0]

    def get_reward(self) -> Mapping[str, float] | Awaitable[Mapping[str, float] | None] | None:
        """Return agent id -> reward of the step just made; None to set them in `on_finish`.

        It may name any agent, not only those that acted in this step: a reward is for everything
        its agent did before, so it goes to that agent's latest action. One for an agent that has
        not acted in this episode yet belongs to no action and counts nowhere.
        """
        return dict.fromkeys(self.extras, float(self.event.reward))

    def on_env_feedback(
        self,
        event: StepEvent,
        state_by_agent: Mapping[str, np.ndarray],
        action_by_agent: Mapping[str, Any],
        reward: Mapping[str, float] | None,
    ) -> Awaitable[None] | None:
        """Record the step: `event` is what the agents acted on, `self.event` what came of it.

        Each reward is added to its agent's latest action, this step's or an earlier one; without
        one, it is left out. So the stored rewards sum to the return of the episode.
        """
        for agent, state in state_by_agent.items():
            self.steps[agent].append(
                AgentStep(
                    state=np.asarray(state),
                    action=action_by_agent[agent],
                    extras=self.extras[agent],
                )
            )
        for agent, amount in (reward or {}).items():
            if decided := self.steps.get(agent):
                decided[-1].reward += float(amount)
        return None

    def on_finish(
        self,
    ) -> Mapping[str, TrajectoryBatch] | Awaitable[Mapping[str, TrajectoryBatch]]:
        """Return agent id -> its episode. Set rewards in `self.steps` first if they come late."""
        return {agent: self.batch(agent) for agent in self.steps}

    def metrics(self) -> Mapping[str, float]:
        """Return the scenario's own numbers of the episode: the environment's `metrics`."""
        found = getattr(getattr(self.env, "unwrapped", self.env), "metrics", None)
        return dict(cast("Mapping[str, float]", found)) if isinstance(found, Mapping) else {}

    def batch(self, agent: str) -> TrajectoryBatch:
        """Return the recorded decisions of `agent` as a batch of shape [T, 1, ...].

        The last decision carries the end of the episode. Its final observation is the agent's state
        on the last event, or its last state where that event does not concern it.
        """
        steps = self.steps[agent]
        if not steps:
            raise StateError(f"agent {agent!r} made no decision; leave it out of on_finish")
        policy_id, version = self.acting[agent]
        obs = _column([step.state for step in steps])
        final = _column([self.final_states.get(agent, steps[-1].state)])[0]
        ended = np.zeros((len(steps), 1), np.bool_)
        terminated, truncated = ended.copy(), ended
        terminated[-1], truncated[-1] = self.event.terminated, self.event.truncated
        cut = self.event.ended
        return TrajectoryBatch(
            policy_id=policy_id,
            policy_version=version,
            agent_id=agent,
            obs=obs,
            action=_column([step.action for step in steps]),
            reward=np.array([[step.reward] for step in steps], np.float32),
            terminated=terminated,
            truncated=truncated,
            last_obs=final,
            final_obs=final if cut else final[:0],
            final_index=np.array([[len(steps) - 1, 0]] if cut else [], np.int32).reshape(-1, 2),
            extras={
                name: np.array([step.extras[name] for step in steps])[:, None]
                for name in steps[0].extras
            },
        )


CALLBACKS = ("reset", "get_state", "get_action", "get_reward", "on_env_feedback", "on_finish")


def is_async(trajectory: Trajectory) -> bool:
    """Whether any callback of the trajectory, or its environment, must be awaited."""
    callables = [getattr(trajectory, name) for name in CALLBACKS]
    callables += [getattr(trajectory.env, name, None) for name in ("reset", "step", "close")]
    return any(inspect.iscoroutinefunction(each) for each in callables)


def _column(values: list[Any]) -> np.ndarray:
    """Return [T, 1, ...] of T values, in the dtypes of a trajectory batch."""
    column = np.stack([np.asarray(value) for value in values])[:, None]
    if column.dtype.kind == "f":
        return column.astype(np.float32, copy=False)
    return column if column.dtype == np.uint8 else column.astype(np.int64, copy=False)
