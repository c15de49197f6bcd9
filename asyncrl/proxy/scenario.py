"""What a scenario looks like from outside: its agents, their spaces, and how to name it as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from asyncrl.data import DEFAULT_AGENT, EnvSpec, SpaceSpec, load_object, named_modules
from asyncrl.envs import describe, make_env
from asyncrl.errors import ConfigError

AgentSpaces = tuple[SpaceSpec, SpaceSpec]
"""(observation, action) of one agent."""


def import_path(thing: str | Callable[..., Any], field: str, *, remote: bool = False) -> str:
    """Return ``"module:attr"`` for a class or function that can be imported by name.

    Text passes through. Raises `ConfigError` for lambdas, local functions and the like: they cannot
    travel, and are never pickled. With `remote`, what the main script defines is refused as well,
    for the main script of an actor process is another one.
    """
    if isinstance(thing, str):
        return thing
    name = getattr(thing, "__qualname__", "")
    module = getattr(thing, "__module__", "")
    if not name or not module or "<" in name:
        raise ConfigError(
            field,
            thing,
            "only what can be imported by name can reach an actor",
            "define it at the top level of a module, or give its import path as text",
        )
    if remote and module == "__main__":
        raise ConfigError(
            field,
            name,
            "it is defined in the main script, which actor processes do not run",
            "move it to a module of its own and import it from there",
        )
    return f"{module}:{name}"


def env_spec(
    env: str | Callable[..., Any] | EnvSpec,
    *,
    envs: int = 8,
    kwargs: Mapping[str, Any] | None = None,
    trajectory: str | type | None = None,
    trajectory_kwargs: Mapping[str, Any] | None = None,
    remote: bool = False,
) -> EnvSpec:
    """Return the environments as data, from what `Actor` and (`remote`) `ActorProxy` accept."""
    if isinstance(env, EnvSpec):
        return env
    return EnvSpec(
        env=import_path(env, "env", remote=remote),
        num_envs=envs,
        kwargs=dict(kwargs or {}),
        trajectory=None
        if trajectory is None
        else import_path(trajectory, "trajectory", remote=remote),
        trajectory_kwargs=dict(trajectory_kwargs or {}),
    )


def allow_flags(spec: EnvSpec) -> str:
    """Return what the command of an actor needs for `spec`, each flag after a space."""
    return "".join(f" --allow {module}" for module in named_modules(spec))


def agent_spaces(spec: EnvSpec) -> dict[str, AgentSpaces]:
    """Return agent id -> (observation, action) of the scenario, by making it once in this process.

    A `Trajectory` states its agents in `spaces()`; without one there is the single default agent
    with the environment's own spaces. Raises `ConfigError` for an unknown environment or an
    unsupported space, `EnvironmentFailure` when the constructor raises.
    """
    if spec.trajectory is None:
        description = describe(spec)
        return {DEFAULT_AGENT: (description.observation, description.action)}
    trajectory_type: Any = load_object(spec.trajectory, "trajectory")
    if not callable(getattr(trajectory_type, "spaces", None)):
        raise ConfigError(
            "trajectory", spec.trajectory, "not a Trajectory class", "name a subclass of Trajectory"
        )
    env = make_env(spec)
    try:
        return dict(trajectory_type(env, **spec.trajectory_kwargs).spaces())
    finally:
        env.close()
