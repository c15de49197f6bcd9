"""Several environments stepped side by side: what every way of doing it promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from asyncrl.data import SpaceSpec


class StepBatch(NamedTuple):
    """What one step of B environments gave. The arrays are the caller's to keep.

    An episode of environment b ended in this step where ``terminated[b] or truncated[b]``; both
    flags are as the environment gave them, and both true counts as terminated.
    """

    obs: np.ndarray
    """[B, *observation shape]: what to act on next. After an end this is the next episode's first
    observation, except for a `VectorEnv` in NEXT_STEP mode: there it is still the last one, the
    action for it is ignored, and the next step's row is not `valid`."""
    reward: np.ndarray
    """[B] float32; 0 where the row is not valid."""
    terminated: np.ndarray
    """[B] bool."""
    truncated: np.ndarray
    """[B] bool."""
    final_obs: dict[int, np.ndarray]
    """Environment index -> [*observation shape]: the true last observation of each episode that
    ended, in ascending order of index."""
    valid: np.ndarray
    """[B] bool, read-only: False where the row was only a reset and so is no transition (NEXT_STEP
    autoreset)."""


class EnvBatch(Protocol):
    """B environments with one observation and one action space, which reset themselves.

    Observations come out as the library stores them: uint8 stays uint8, other numbers become
    float32 once, a discrete observation becomes int64 counted from zero. Actions go in as policies
    produce them: int64 counted from zero for a discrete space, unclipped float32 for a box. Not
    thread-safe.
    """

    @property
    def num_envs(self) -> int:
        """B."""
        ...

    @property
    def observation(self) -> SpaceSpec:
        """Space of one environment's observation."""
        ...

    @property
    def action(self) -> SpaceSpec:
        """Space of one environment's action."""
        ...

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """Begin a fresh episode everywhere, whatever was running.

        Args:
            seeds: One a piece, non-negative.

        Returns:
            First observations, [B, *observation shape].

        Raises:
            EnvironmentFailure: A reset raised, or gave an observation of the wrong shape or with
                non-finite numbers.
        """
        ...

    def step(self, action: np.ndarray, next_seed: Callable[[int], int]) -> StepBatch:
        """Act once in every environment, and begin the next episode where one ended.

        Args:
            action: [B, *action shape], raw.
            next_seed: Called with the index of an environment that ended; returns the seed of its
                next episode. Not called where a `VectorEnv` resets itself (NEXT_STEP, SAME_STEP).

        Raises:
            DataError: The action has the wrong shape, is out of range or not finite.
            EnvironmentFailure: An environment raised or gave something unusable; `where` names the
                environment, its step, seed and last action. Only `close` makes sense then.
        """
        ...

    def close(self, timeout: float = 5.0) -> bool:
        """Close every environment, waiting `timeout` seconds at most.

        Never raises: what fails or takes longer is logged as a warning. Further calls do nothing.

        Returns:
            Whether everything closed in time.
        """
        ...
