"""Plain environments stepped in turn: the default, and the fast path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from asyncrl.envs.batch import StepBatch
from asyncrl.envs.closing import close_within
from asyncrl.envs.edges import ActionEdge, ObservationEdge, describe_space, reward_number
from asyncrl.envs.failing import (
    EdgeError,
    environment_failure,
    reset_place,
    step_place,
    unpack_reset,
)
from asyncrl.envs.seeding import checked_seeds
from asyncrl.envs.spaces import space_spec
from asyncrl.errors import ConfigError, EnvironmentFailure

_NUMBERS = frozenset({float, int, np.float64, np.float32})
"""Types of reward that an array element takes as it is."""


class PlainBatch:
    """An `EnvBatch` of B separate `gymnasium.Env` objects.

    Every reset is seeded with the seed given. A step costs the environments' own steps and a few
    microseconds: rows are written straight into the arrays that are returned, and numbers are
    checked once over the whole batch.
    """

    def __init__(self, envs: Sequence[gymnasium.Env[Any, Any]]) -> None:
        """Take over `envs` (one at least, of equal spaces); `close` closes them."""
        self._envs = list(envs)
        self._steps = [env.step for env in self._envs]
        self.num_envs = len(self._envs)
        self.observation = space_spec(self._envs[0].observation_space, "observation space")
        self.action = space_spec(self._envs[0].action_space, "action space")
        self._check_alike()
        self._actions = ActionEdge(self.action, self.num_envs)
        self._edge = ObservationEdge(self.observation)
        self._rewards = np.zeros(self.num_envs, np.float64)
        self._valid = np.ones(self.num_envs, np.bool_)
        self._valid.flags.writeable = False
        self._clock = (
            0  # steps of the whole batch; an episode's step number is counted from its start
        )
        self._started = [0] * self.num_envs
        self._seeds: list[int | None] = [None] * self.num_envs
        self._closed = False

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """See `EnvBatch.reset`."""
        obs = np.empty((self.num_envs, *self._edge.shape), self._edge.dtype)
        for b, seed in enumerate(checked_seeds(seeds, self.num_envs)):
            obs[b] = self._begin(b, seed)
        return obs

    def step(self, action: np.ndarray, next_seed: Callable[[int], int]) -> StepBatch:
        """See `EnvBatch.step`."""
        edge, shape, as_is = self._edge, self._edge.shape, self._edge.as_is
        actions = list(self._actions.convert(action))
        obs = np.empty((self.num_envs, *shape), edge.dtype)
        rewards = self._rewards
        terminated = np.zeros(self.num_envs, np.bool_)
        truncated = np.zeros(self.num_envs, np.bool_)
        final_obs: dict[int, np.ndarray] = {}
        ended: list[int] = []
        self._clock += 1
        b = -1
        try:
            for step in self._steps:
                b += 1
                seen, reward, is_terminated, is_truncated, _ = step(actions[b])
                if type(seen) is np.ndarray and seen.dtype is as_is and seen.shape == shape:
                    obs[b] = seen  # as `one` would, without the call
                else:
                    obs[b] = edge.one(seen)
                rewards[b] = reward if type(reward) in _NUMBERS else reward_number(reward)
                if is_terminated or is_truncated:
                    terminated[b] = bool(is_terminated)
                    truncated[b] = bool(is_truncated)
                    ended.append(b)
        except (Exception, SystemExit) as error:  # SystemExit would vanish in a worker thread
            raise self._at(b, actions, error) from error
        with np.errstate(over="ignore"):
            reward = rewards.astype(np.float32)
        self._check_finite(obs, reward, actions)
        for b in ended:
            final_obs[b] = np.array(obs[b])
            obs[b] = self._begin(b, next_seed(b))
        return StepBatch(obs, reward, terminated, truncated, final_obs, self._valid)

    def close(self, timeout: float = 5.0) -> bool:
        """See `EnvBatch.close`."""
        if self._closed:
            return True
        self._closed = True
        return close_within(
            {f"environment {b}": env.close for b, env in enumerate(self._envs)}, timeout
        )

    def _begin(self, b: int, seed: int) -> np.ndarray | int:
        """Reset environment b and return its first observation in stored form."""
        self._seeds[b] = seed
        self._started[b] = self._clock
        try:
            seen, _ = unpack_reset(self._envs[b].reset(seed=seed))
            first = self._edge.one(seen)
            if self._edge.checks_finite and not np.isfinite(first).all():
                raise EdgeError(self._edge.not_finite(np.asarray(first)))
        except (Exception, SystemExit) as error:
            raise environment_failure(reset_place(b, seed), error, seed=seed) from error
        return first

    def _check_finite(self, obs: np.ndarray, reward: np.ndarray, actions: list[Any]) -> None:
        if self._edge.checks_finite and not np.isfinite(obs).all():
            axes = tuple(range(1, obs.ndim))
            b = int(np.flatnonzero(~np.isfinite(obs).all(axis=axes))[0])
            raise self._at(b, actions, EdgeError(self._edge.not_finite(obs[b])))
        if not np.isfinite(reward).all():
            b = int(np.flatnonzero(~np.isfinite(reward))[0])
            problem = f"the reward {self._rewards[b]} is not a finite float32"
            raise self._at(b, actions, EdgeError(problem))

    def _at(self, b: int, actions: list[Any], error: BaseException) -> EnvironmentFailure:
        seed = self._seeds[b]
        where = step_place(self._clock - self._started[b], b, seed, actions[b])
        return environment_failure(where, error, seed=seed)

    def _check_alike(self) -> None:
        for b, env in enumerate(self._envs):
            for name, space, first in (
                ("observation space", env.observation_space, self.observation),
                ("action space", env.action_space, self.action),
            ):
                if space_spec(space, name) != first:
                    raise ConfigError(
                        name,
                        space,
                        f"environment {b} differs from environment 0, which has "
                        f"{describe_space(first)}",
                        "make every environment of an actor with the same spaces",
                    )
