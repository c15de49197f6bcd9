"""Fake environments that do one thing, to be named as ``asyncrl.testing.envs:Counter`` and so on.

In all of them the observation is the number of steps since the reset, [1] float32, and the reward
of a step is the number of steps after it, so that every transition can be recognised.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

Observation = np.ndarray
StepResult = tuple[Observation, SupportsFloat, bool, bool, dict[str, Any]]


class Counter(gymnasium.Env[Observation, Any]):
    """Counts. An episode has `length` steps and ends terminated, or truncated if asked."""

    def __init__(self, length: int = 10, *, truncate: bool = False) -> None:
        self.observation_space = spaces.Box(0.0, np.inf, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.length = length
        self.truncate = truncate
        self.t = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start at 0."""
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), {}

    def step(self, action: Any) -> StepResult:
        """Count one."""
        self.t += 1
        end = self.t >= self.length
        terminated, truncated = end and not self.truncate, end and self.truncate
        return self.observe(), float(self.t), terminated, truncated, {}

    def observe(self) -> Observation:
        """Return the count as an observation."""
        return np.array([self.t], np.float32)


class SeededCounter(Counter):
    """Counts from a number drawn from the seed, so that episodes can be told apart."""

    offset = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw where to start."""
        super().reset(seed=seed)
        self.offset = float(self.np_random.integers(2**20))
        return self.observe(), {}

    def observe(self) -> Observation:
        """Return offset + count."""
        return np.array([self.offset + self.t], np.float32)


class CrashesAtStep(Counter):
    """Raises in step `at` of every episode."""

    def __init__(self, at: int = 3, length: int = 10) -> None:
        super().__init__(length)
        self.at = at

    def step(self, action: Any) -> StepResult:
        """Count, or raise."""
        if self.t + 1 == self.at:
            raise ValueError(f"broken on purpose in step {self.at}")
        return super().step(action)


class CrashesOnce(Counter):
    """Raises in its third step unless the file `path` exists, which it then makes."""

    def __init__(self, path: str, length: int = 10) -> None:
        super().__init__(length)
        self.path = Path(path)

    def step(self, action: Any) -> StepResult:
        """Count, or raise."""
        if self.t == 2 and not self.path.exists():
            self.path.touch()
            raise ValueError("broken on purpose, once")
        return super().step(action)


class HangsAtStep(Counter):
    """Sleeps for ever (an hour) in step `at` of every episode."""

    def __init__(self, at: int = 3, length: int = 10) -> None:
        super().__init__(length)
        self.at = at

    def step(self, action: Any) -> StepResult:
        """Count, or hang."""
        if self.t + 1 == self.at:
            time.sleep(3600.0)
        return super().step(action)


class SlowCounter(Counter):
    """Takes `seconds` for every step."""

    def __init__(self, seconds: float = 0.01, length: int = 10) -> None:
        super().__init__(length)
        self.seconds = seconds

    def step(self, action: Any) -> StepResult:
        """Sleep, then count."""
        time.sleep(self.seconds)
        return super().step(action)


class RaisesWhenMade(Counter):
    """Cannot be made."""

    def __init__(self) -> None:
        super().__init__()
        raise RuntimeError("the simulator has no licence")


class WritesWhenClosed(Counter):
    """Adds a line to the file `path` when it is closed."""

    def __init__(self, path: str, length: int = 10) -> None:
        super().__init__(length)
        self.path = Path(path)

    def close(self) -> None:
        """Leave a trace."""
        with self.path.open("a") as file:
            file.write("closed\n")


class BoundedActions(Counter):
    """Takes actions in Box(2, 10) and refuses any outside, as a simulator would."""

    def __init__(self, length: int = 10) -> None:
        super().__init__(length)
        self.action_space = spaces.Box(2.0, 10.0, (1,), np.float32)

    def step(self, action: Any) -> StepResult:
        """Count, or raise on an action out of bounds."""
        if not self.action_space.contains(action):
            raise ValueError(f"action {action!r} is not in {self.action_space}")
        return super().step(action)


class NanObservation(Counter):
    """Observes NaN from step `at` on."""

    def __init__(self, at: int = 3, length: int = 10) -> None:
        super().__init__(length)
        self.at = at

    def observe(self) -> Observation:
        """Return the count, or NaN."""
        return super().observe() if self.t < self.at else np.array([np.nan], np.float32)
