"""What a run trains, as plain data that can travel: spaces, environments and policies."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from asyncrl.errors import ConfigError

DEFAULT_AGENT = "agent"
"""Agent id of the only agent of a single-agent environment."""

DEFAULT_POLICY = "policy"
"""Policy id used where a run has one policy."""

SpaceKind = Literal["box", "discrete"]
HeadKind = Literal["categorical", "gaussian", "q_values"]
Activation = Literal["tanh", "relu"]

MAX_SPACE_DIMS = 6
"""Dimensions of a space's elements; a batch has two more, [T, B, ...]."""

_NUMBERS = {
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "longdouble", "float96", "float128"),
}
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
class SpaceSpec:
    """An observation or action space as data (the wire's form of a Gymnasium space).

    `low` and `high` are one number where all elements share it, else one number per element in C
    order.
    """

    kind: SpaceKind
    shape: tuple[int, ...] = ()
    """Shape of one element; () for a discrete space."""
    dtype: str = "float32"
    """NumPy name of the element's dtype; "int64" for a discrete space."""
    low: float | tuple[float, ...] = -float("inf")
    high: float | tuple[float, ...] = float("inf")
    n: int = 0
    """Number of values of a discrete space, which runs from `start` to `start + n - 1`."""
    start: int = 0

    def __post_init__(self) -> None:
        problem = self._discrete_problem() if self.kind == "discrete" else self._box_problem()
        if problem:
            raise ConfigError("space", self, problem, "describe the space as its environment does")

    def _discrete_problem(self) -> str:
        if self.n < 1:
            return f"n={self.n}, but a discrete space has at least one value"
        return "" if self.shape == () else f"shape={self.shape}, but a discrete space has none"

    def _box_problem(self) -> str:
        if len(self.shape) > MAX_SPACE_DIMS:  # before its product: hostile ones take minutes
            return f"the shape has {len(self.shape)} dimensions, at most {MAX_SPACE_DIMS} can be"
        if any(width < 1 for width in self.shape):
            return f"shape={self.shape} has a width below 1"
        if self.dtype not in _NUMBERS:
            return f"dtype={self.dtype!r} is not the name of a NumPy dtype of numbers"
        for name, bound in (("low", self.low), ("high", self.high)):
            if isinstance(bound, tuple) and len(bound) != self.size:
                return f"{name} has {len(bound)} numbers, but the shape {self.shape} {self.size}"
        low, high = np.asarray(self.low, np.float64), np.asarray(self.high, np.float64)
        return "" if (low <= high).all() else "low is not at most high everywhere"

    @property
    def size(self) -> int:
        """Number of scalars in one element; a discrete value counts as its one-hot vector."""
        return self.n if self.kind == "discrete" else math.prod(self.shape)

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """The dtype of its elements in batches and replays.

        uint8 stays, discrete ones are int64 counted from zero, all other numbers are float32.
        """
        if self.kind == "discrete":
            return np.dtype(np.int64)
        return np.dtype(np.uint8 if self.dtype == "uint8" else np.float32)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high) of a box, each float64 of shape `shape`."""
        return (
            np.broadcast_to(np.asarray(self.low, np.float64).reshape(-1), (self.size,)).reshape(
                self.shape
            ),
            np.broadcast_to(np.asarray(self.high, np.float64).reshape(-1), (self.size,)).reshape(
                self.shape
            ),
        )


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


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """Shape of one policy's acting network: an MLP from the flat observation to the action head.

    Parameters are float32 arrays named ``"<i>.weight"`` of shape [out, in] and ``"<i>.bias"`` of
    shape [out] for layer i = 0, 1, .. len(hidden); a Gaussian head adds ``"log_std"`` of shape
    [action size].
    """

    observation: SpaceSpec
    action: SpaceSpec
    head: HeadKind
    """categorical: logits over a discrete space. gaussian: means over a box, with free log-std.
    q_values: one value per discrete action, acted on epsilon-greedily."""
    hidden: tuple[int, ...] = (64, 64)
    activation: Activation = "tanh"

    def __post_init__(self) -> None:
        if any(width < 1 for width in self.hidden):
            raise ConfigError(
                "hidden", self.hidden, "a layer has at least one unit", "give 1 or more for each"
            )

    @property
    def outputs(self) -> int:
        """Width of the last layer."""
        return self.action.size

    @property
    def draws(self) -> bool:
        """Whether actions are drawn, so that batches carry their log-probabilities."""
        return self.head != "q_values"

    def layer_sizes(self) -> list[tuple[int, int]]:
        """Return (inputs, outputs) of every layer, in order."""
        widths = [self.observation.size, *self.hidden, self.outputs]
        return list(itertools.pairwise(widths))


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
