"""The thread-safe line between a running rollout and whoever watches it."""

from __future__ import annotations

import time


class RolloutAbandoned(Exception):
    """The rollout was told to stop; its job goes back or is no longer wanted."""


class RolloutControl:
    """Shared by the rollout (one writer of `env_steps`) and its watchers (writers of `reason`).

    Plain attribute access is atomic in CPython, so no lock is needed.
    """

    __slots__ = ("abandoned_at", "env_steps", "reason")

    def __init__(self) -> None:
        self.env_steps = 0
        """Environment steps done so far: the progress that heartbeats report."""
        self.reason = ""
        """Why the rollout must stop; "" while it may go on."""
        self.abandoned_at: float | None = None
        """Monotonic time at which it was asked to stop."""

    def abandon(self, reason: str) -> None:
        """Ask the rollout to stop before its next step. Idempotent."""
        if not self.reason:
            self.abandoned_at = time.monotonic()
            self.reason = reason

    def advance(self, env_steps: int) -> None:
        """Count steps done; raise `RolloutAbandoned` when asked to stop."""
        self.env_steps += env_steps
        if self.reason:
            raise RolloutAbandoned(self.reason)
