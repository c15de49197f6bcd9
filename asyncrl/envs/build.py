"""From an `EnvSpec` to environments that step side by side, and to their spaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from asyncrl.data import ANYTHING, Allowed, EnvSpec, SpaceSpec
from asyncrl.envs.batch import EnvBatch
from asyncrl.envs.closing import close_within
from asyncrl.envs.make import AnyEnv, resolve
from asyncrl.envs.plain import PlainBatch
from asyncrl.envs.spaces import space_spec
from asyncrl.envs.vector import VectorBatch
from asyncrl.envs.workers import close_vector
from asyncrl.errors import ConfigError

_CLOSE_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class EnvDescription:
    """What must be known of an environment before policies can be shaped."""

    observation: SpaceSpec
    action: SpaceSpec


def describe(spec: EnvSpec) -> EnvDescription:
    """Make one environment, read its spaces and close it.

    Raises:
        ConfigError: The environment is unknown, or a space is neither Box nor Discrete.
        EnvironmentFailure: Making it raised.
    """
    made = resolve(spec)(1)
    try:
        spaces: Any = made
        single = "single_" if isinstance(made, VectorEnv) else ""
        observation = getattr(spaces, f"{single}observation_space")
        action = getattr(spaces, f"{single}action_space")
        return EnvDescription(
            observation=space_spec(observation, "observation space"),
            action=space_spec(action, "action space"),
        )
    finally:
        _close([made])


def make_env_batch(spec: EnvSpec, num_envs: int, allowed: Allowed = ANYTHING) -> EnvBatch:
    """Make `num_envs` environments that step side by side.

    They are plain environments stepped in turn; a factory may instead return one `VectorEnv` of
    that many (it is told by a keyword argument `num_envs`, if it has one).

    Raises:
        ConfigError: The environment is unknown, has an unsupported space or autoreset mode, or the
            `VectorEnv` is of another width.
        NotAllowed: It names code that is not `allowed`.
        EnvironmentFailure: Making one raised; those already made are closed.
    """
    if num_envs < 1:
        raise ConfigError("num_envs", num_envs, "at least one is stepped", "give 1 or more")
    maker = resolve(spec, allowed)
    made: list[AnyEnv] = [maker(num_envs)]
    try:
        first = made[0]
        if isinstance(first, VectorEnv):
            return _vector_batch(spec, first, num_envs)
        while len(made) < num_envs:  # one by one, so that a failure finds the others to close
            made.append(maker(num_envs))
        return PlainBatch([env for env in made if isinstance(env, gymnasium.Env)])
    except BaseException:
        _close(made)
        raise


def _vector_batch(spec: EnvSpec, envs: VectorEnv[Any, Any, Any], num_envs: int) -> VectorBatch:
    if envs.num_envs != num_envs:
        raise ConfigError(
            "num_envs",
            num_envs,
            f"{spec.env!r} makes a vectorised environment of {envs.num_envs}",
            f"ask for {envs.num_envs}, or give the factory a parameter num_envs",
        )
    return VectorBatch(envs)


def _close(made: list[AnyEnv]) -> None:
    closers = {
        f"environment {b}": env.close
        for b, env in enumerate(made)
        if isinstance(env, gymnasium.Env)
    }
    close_within(closers, _CLOSE_SECONDS)
    for env in made:
        if isinstance(env, VectorEnv):
            close_vector(env, _CLOSE_SECONDS)
