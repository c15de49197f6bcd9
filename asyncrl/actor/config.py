"""Options of an actor process."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from asyncrl.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class WorkerConfig:
    """How an actor behaves towards the run. All times are in seconds."""

    heartbeat_interval: float = 2.0
    """Between two heartbeats."""
    wait_for_run: float = 60.0
    """How long to wait for the run to appear on the server before giving up."""
    reconnect_timeout: float = 600.0
    """How long to go on trying when the server is away, a finished result being kept meanwhile."""
    abandon_timeout: float = 10.0
    """How long a rollout whose job went to another actor may go on before it counts as hung."""
    drain_timeout: float = 10.0
    """How long a leaving actor tries to push its last result and to say good-bye."""

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if value <= 0:
                raise ConfigError(each.name, value, "not positive", "give seconds > 0")
