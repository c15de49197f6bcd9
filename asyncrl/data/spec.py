"""What a run trains, as plain data that can travel: environments, policies, who acts with which."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from asyncrl.data.policy import PolicySpec
from asyncrl.errors import ConfigError

DEFAULT_AGENT = "agent"
"""Agent id of the only agent of a single-agent environment."""

DEFAULT_POLICY = "policy"
"""Policy id used where a run has one policy."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def check_name(field_name: str, value: str) -> str:
    """Return `value` if it can be part of a Redis key and a file name, else raise `ConfigError`."""
    if not _NAME.fullmatch(value):
        raise ConfigError(
            field_name,
            value,
            "a name is 1 to 64 letters, digits, dots, dashes or underscores",
            "choose another name",
        )
    return value


@dataclass(frozen=True, kw_only=True)
class EnvSpec:
    """How every actor makes its environments."""

    env: str
    """Gymnasium id (``"CartPole-v1"``) or import path of a factory (``"package.module:attr"``)."""
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Keyword arguments of the factory; only what msgpack can carry (numbers, strings, lists,
    dicts)."""
    num_envs: int = 8
    """Environments stepped side by side inside one actor."""
    trajectory: str | None = None
    """Import path of the `Trajectory` subclass that holds the scenario's logic; None for the
    Gymnasium default."""
    trajectory_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    batch_limit: int = 0
    """Async environments: most observations of one inference batch; 0 for as many as wait."""
    batch_delay: float = 0.001
    """Async environments: seconds the first waiting observation waits for others, at most."""
    step_timeout: float | None = None
    """Async environments: seconds a reset or step may take before the episode is cut off as
    truncated; None for any."""

    def __post_init__(self) -> None:
        if not self.env:
            raise ConfigError(
                "env", self.env, "no environment is named", "give a Gymnasium id or module:attr"
            )
        if self.num_envs < 1:
            raise ConfigError(
                "num_envs",
                self.num_envs,
                "an actor steps at least one environment",
                "give 1 or more",
            )
        if self.batch_limit < 0:
            raise ConfigError("batch_limit", self.batch_limit, "negative", "give 0 or more")
        if not 0 <= self.batch_delay < float("inf"):
            raise ConfigError(
                "batch_delay", self.batch_delay, "not a duration", "give seconds, 0 or more"
            )
        if self.step_timeout is not None and not self.step_timeout > 0:
            raise ConfigError(
                "step_timeout", self.step_timeout, "not a duration", "give seconds > 0, or None"
            )


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """All an actor must know to work for a run, beside the Redis URL. It travels as data."""

    env: EnvSpec
    policies: Mapping[str, PolicySpec]
    """Policy id -> its shape."""
    agents: Mapping[str, str] = field(default_factory=lambda: {DEFAULT_AGENT: DEFAULT_POLICY})
    """Agent id -> policy id. An agent that is not named here acts with the policy of ``"*"``, if
    there is one."""
    seed: int = 0
    """In [-2**63, 2**63)."""
    frozen: tuple[str, ...] = ()
    """Policies that act but do not learn: actors keep the batches of their agents to themselves."""

    def __post_init__(self) -> None:
        if not self.policies:
            raise ConfigError(
                "policies", self.policies, "a run trains at least one policy", "name one"
            )
        for agent, policy in self.agents.items():
            if policy not in self.policies:
                raise ConfigError(
                    f"agents[{agent!r}]",
                    policy,
                    "no such policy",
                    f"use one of {', '.join(sorted(self.policies))}",
                )
        for policy in self.policies:
            check_name("policy id", policy)
        for policy in self.frozen:
            if policy not in self.policies:
                raise ConfigError(
                    "frozen",
                    policy,
                    "no such policy",
                    f"use some of {', '.join(sorted(self.policies))}",
                )
        if not -(2**63) <= self.seed < 2**63:
            raise ConfigError("seed", self.seed, "it does not fit in 64 bits", "choose a smaller")

    def policy_of(self, agent: str) -> str:
        """Return the policy id that `agent` acts with; `ConfigError` when the mapping has none."""
        policy = self.agents.get(agent) or self.agents.get("*")
        if policy is None:
            raise ConfigError(
                "agents",
                agent,
                "this agent acts but no policy is mapped to it",
                "add it, or '*', to the mapping",
            )
        return policy


def load_object(path: str, what: str) -> Any:
    """Import ``"package.module:attr"``; raise `ConfigError` naming what cannot be found."""
    module_name, _, attr = path.partition(":")
    if not module_name or not attr:
        raise ConfigError(what, path, "not an import path", "write it as package.module:attr")
    if module_name.startswith("."):
        raise ConfigError(what, path, "a relative import path", "begin with the package's name")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not (
            module_name == error.name or module_name.startswith(error.name + ".")
        ):
            raise
        raise ConfigError(
            what,
            path,
            f"there is no module {error.name!r}",
            "check the spelling and PYTHONPATH on this machine",
        ) from error
    for part in attr.split("."):
        if not hasattr(found, part):
            raise ConfigError(
                what, path, f"{module_name} has no attribute {attr!r}", "check the spelling"
            )
        found = getattr(found, part)
    return found
