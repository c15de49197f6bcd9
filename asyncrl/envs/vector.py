"""A Gymnasium `VectorEnv` as a batch of environments, under all three of its autoreset modes.

An episode that ended is followed by a reset, and where that happens depends on the mode:

- SAME_STEP: in the same step; the true last observation comes in ``infos["final_obs"]``.
- NEXT_STEP: in the next step, whose action is ignored. That row is no transition.
- DISABLED: where the caller says so, by a masked reset.

Only in DISABLED mode can an episode be given its seed. In the other two the vector environment
resets itself, so its episodes are seeded by `reset` alone: they follow from the seeds given there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from asyncrl.envs.batch import StepBatch
from asyncrl.envs.edges import ActionEdge, ObservationEdge
from asyncrl.envs.failing import (
    EdgeError,
    environment_failure,
    reset_place,
    step_place,
    told_by_worker,
    unpack_reset,
    unpack_step,
)
from asyncrl.envs.seeding import checked_seeds
from asyncrl.envs.spaces import space_spec
from asyncrl.envs.workers import Culprit, close_vector, find_culprit, watch_workers
from asyncrl.errors import ConfigError, EnvironmentFailure


class VectorBatch:
    """An `EnvBatch` over one `VectorEnv`.

    A `VectorEnv` that is neither Gymnasium's `SyncVectorEnv` nor its `AsyncVectorEnv` takes one
    seed only (so says the base class); it gets the first of those given.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        """Take over `envs`; `close` closes it.

        Raises:
            ConfigError: It does not say its autoreset mode, or is known to mix resets and steps up.
        """
        self._envs = envs
        self._mode = autoreset_mode(envs)
        self.num_envs = int(envs.num_envs)
        untyped: Any = envs  # Gymnasium's annotations leave the spaces' element types open
        self.observation = space_spec(untyped.single_observation_space, "observation space")
        self.action = space_spec(untyped.single_action_space, "action space")
        self._actions = ActionEdge(self.action, self.num_envs)
        self._edge = ObservationEdge(self.observation)
        self._seed_each = isinstance(envs.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        self._worker_errors = watch_workers(envs)
        self._steps = np.zeros(self.num_envs, np.int64)
        self._seeds: list[int | None] = [None] * self.num_envs
        self._resetting = np.zeros(self.num_envs, np.bool_)  # NEXT_STEP: ended in the step before
        self._all_valid = np.ones(self.num_envs, np.bool_)
        self._all_valid.flags.writeable = False
        self._closed = False

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """See `EnvBatch.reset`."""
        given = checked_seeds(seeds, self.num_envs)
        self._steps[:] = 0
        self._resetting[:] = False
        self._seeds[:] = given
        try:
            seen, _ = unpack_reset(self._envs.reset(seed=self._seed_argument(given)))
            obs = self._edge.many(seen, self.num_envs)
        except (Exception, SystemExit) as error:
            raise self._reset_failure(error, given) from error
        self._check_finite(obs, np.ones(self.num_envs, np.bool_))
        return obs

    def step(self, action: np.ndarray, next_seed: Callable[[int], int]) -> StepBatch:
        """See `EnvBatch.step`."""
        actions = self._actions.convert(action)
        self._steps += 1
        try:
            seen, reward, terminated, truncated, infos = unpack_step(self._envs.step(actions))
            obs = self._edge.many(seen, self.num_envs)
            reward = self._row("reward", reward, np.float32)
            terminated = self._row("terminated", terminated, np.bool_)
            truncated = self._row("truncated", truncated, np.bool_)
            valid = self._valid_rows(reward, terminated, truncated)
            ended = np.flatnonzero(terminated | truncated)
            final_obs = {int(b): self._last_seen(int(b), obs, infos) for b in ended}
        except (Exception, SystemExit) as error:
            raise self._step_failure(error, actions) from error
        self._check_numbers(obs, reward, actions, final_obs)
        self._restart(ended, obs, next_seed)
        return StepBatch(obs, reward, terminated, truncated, final_obs, valid)

    def close(self, timeout: float = 5.0) -> bool:
        """See `EnvBatch.close`. Worker processes that still run at the deadline are killed."""
        if self._closed:
            return True
        self._closed = True
        return close_vector(self._envs, timeout)

    def _valid_rows(
        self, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray
    ) -> np.ndarray:
        """Return which rows are transitions; blank those that are not."""
        if not self._resetting.any():
            return self._all_valid
        reset = self._resetting
        reward[reset] = 0.0
        terminated[reset] = truncated[reset] = False
        self._steps[reset] = 0
        valid = ~reset
        valid.flags.writeable = False
        return valid

    def _last_seen(self, b: int, obs: np.ndarray, infos: Mapping[str, Any]) -> np.ndarray:
        """Return the true last observation of the episode of environment b that just ended."""
        if self._mode is not AutoresetMode.SAME_STEP:
            return np.array(obs[b])
        seen = infos.get("final_obs")
        if seen is None:
            raise EdgeError(
                f"episode of environment {b} ended under SAME_STEP autoreset, but "
                "infos['final_obs'] does not give its last observation"
            )
        return np.array(self._edge.one(seen[b]), self._edge.dtype)

    def _restart(self, ended: np.ndarray, obs: np.ndarray, next_seed: Callable[[int], int]) -> None:
        """Begin the next episodes where that is up to us; write first observations into `obs`."""
        self._resetting = np.zeros(self.num_envs, np.bool_)
        if not len(ended):
            return
        if self._mode is AutoresetMode.NEXT_STEP:
            self._resetting[ended] = True
        elif self._mode is AutoresetMode.DISABLED:
            self._masked_reset(ended, obs, next_seed)
        self._steps[ended] = 0
        if self._mode is not AutoresetMode.DISABLED:
            for b in ended:
                self._seeds[b] = None  # its own generator goes on; no seed to name in an error

    def _masked_reset(
        self, ended: np.ndarray, obs: np.ndarray, next_seed: Callable[[int], int]
    ) -> None:
        mask = np.zeros(self.num_envs, np.bool_)
        mask[ended] = True
        seeds: list[int | None] = [None] * self.num_envs
        for b in ended:
            seeds[b] = self._seeds[b] = int(next_seed(int(b)))
        try:
            given = self._envs.reset(
                seed=self._seed_argument(seeds), options={"reset_mask": mask.copy()}
            )
            seen, _ = unpack_reset(given)
            first = self._edge.many(seen, self.num_envs)
        except (Exception, SystemExit) as error:
            raise self._reset_failure(error, seeds) from error
        obs[mask] = first[mask]
        self._steps[ended] = 0
        self._check_finite(obs, mask)

    def _seed_argument(self, seeds: Sequence[int | None]) -> Any:
        if self._seed_each:
            return list(seeds)
        return next(seed for seed in seeds if seed is not None)

    def _row(self, name: str, values: Any, dtype: type[np.generic]) -> np.ndarray:
        array = np.asarray(values)
        if array.shape != (self.num_envs,) or array.dtype.kind not in "biuf":
            raise EdgeError(
                f"{name} is a {array.dtype} array of shape {array.shape}, "
                f"where a vector environment of {self.num_envs} gives ({self.num_envs},)"
            )
        with np.errstate(over="ignore"):
            return array.astype(dtype)

    def _check_numbers(
        self,
        obs: np.ndarray,
        reward: np.ndarray,
        actions: np.ndarray,
        final_obs: Mapping[int, np.ndarray],
    ) -> None:
        if not np.isfinite(reward).all():
            b = int(np.flatnonzero(~np.isfinite(reward))[0])
            raise self._at(b, actions, f"the reward is {reward[b]}, not a finite float32")
        if not self._edge.checks_finite:
            return
        for b, last in final_obs.items():
            if not np.isfinite(last).all():
                raise self._at(b, actions, self._edge.not_finite(last))
        if not np.isfinite(obs).all():
            axes = tuple(range(1, obs.ndim))
            b = int(np.flatnonzero(~np.isfinite(obs).all(axis=axes))[0])
            if self._resetting[b] or (b in final_obs and self._mode is AutoresetMode.SAME_STEP):
                problem = EdgeError(self._edge.not_finite(obs[b]))
                raise environment_failure(reset_place(b, None), problem)
            raise self._at(b, actions, self._edge.not_finite(obs[b]))

    def _check_finite(self, obs: np.ndarray, rows: np.ndarray) -> None:
        """Check first observations after a reset of `rows`."""
        if not self._edge.checks_finite or np.isfinite(obs).all():
            return
        for b in np.flatnonzero(rows):
            if not np.isfinite(obs[b]).all():
                problem = EdgeError(self._edge.not_finite(obs[b]))
                seed = self._seeds[b]
                raise environment_failure(reset_place(int(b), seed), problem, seed=seed)

    def _at(self, b: int, actions: np.ndarray, problem: str) -> EnvironmentFailure:
        where = step_place(int(self._steps[b]), b, self._seeds[b], actions[b])
        return environment_failure(where, EdgeError(problem), seed=self._seeds[b])

    def _step_failure(self, error: BaseException, actions: np.ndarray) -> EnvironmentFailure:
        culprit = find_culprit(error, self._envs, self._worker_errors)
        if culprit is None:
            step = int(self._steps.max())
            where = f"step {step} of the vector environment of {self.num_envs}"
            return environment_failure(where, error)
        b = culprit.env
        where = step_place(int(self._steps[b]), b, self._seeds[b], actions[b])
        return _failure_of(culprit, where, error, self._seeds[b])

    def _reset_failure(
        self, error: BaseException, seeds: Sequence[int | None]
    ) -> EnvironmentFailure:
        culprit = find_culprit(error, self._envs, self._worker_errors)
        if culprit is None:
            where = f"reset of the vector environment of {self.num_envs}"
            return environment_failure(where, error)
        seed = seeds[culprit.env]
        return _failure_of(culprit, reset_place(culprit.env, seed), error, seed)


def autoreset_mode(envs: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """Return the mode in the metadata of `envs`; raise `ConfigError` if it cannot be relied on."""
    given = envs.metadata.get("autoreset_mode")
    try:
        mode = AutoresetMode(given)
    except ValueError:
        raise ConfigError(
            "autoreset_mode",
            given,
            f"{envs} does not say how it resets environments whose episode ended",
            "set metadata['autoreset_mode'] to a gymnasium.vector.AutoresetMode",
        ) from None
    inner = envs.unwrapped
    if (
        mode is AutoresetMode.NEXT_STEP
        and isinstance(inner, AsyncVectorEnv)
        and not inner.shared_memory
    ):
        raise ConfigError(
            "shared_memory",
            inner.shared_memory,
            "without it an AsyncVectorEnv in NEXT_STEP mode resets once more after a reset, "
            "which looks like a step",
            "use shared_memory=True, or another autoreset mode",
        )
    return mode


def _failure_of(
    culprit: Culprit, where: str, error: BaseException, seed: int | None
) -> EnvironmentFailure:
    if problem := told_by_worker(culprit.cause, culprit.traceback):
        return EnvironmentFailure(where, problem, "", seed=seed)
    if culprit.cause:
        return EnvironmentFailure(where, culprit.cause, culprit.traceback, seed=seed)
    return environment_failure(where, error, seed=seed)
