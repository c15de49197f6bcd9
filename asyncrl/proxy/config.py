"""Options of the coordinator."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from asyncrl.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ProxyConfig:
    """How patient `ActorProxy` is. All times are in seconds."""

    dead_after: float = 10.0
    """Without a new heartbeat for this long an actor is dead and its jobs go to others."""
    stall_timeout: float = 30.0
    """Without a step of progress for this long a job is stalled and goes to another actor; not
    while its finished result waits for room."""
    job_timeout: float | None = None
    """A job that runs longer than this goes to another actor, whatever it reports."""
    actor_timeout: float = 600.0
    """How long a run waits for its first, or for another, actor before it gives up."""
    result_timeout: float = 600.0
    """How long to wait for any result while actors are alive before giving up."""
    forget_after: float = 600.0
    """An actor that crashed is forgotten after this long without a sign of life."""
    warn_interval: float = 10.0
    """Between two reminders that no actor is there; and how long finished results wait for room
    before that is said."""
    monitor_interval: float = 1.0
    """Between two looks at actors and jobs."""
    poll_interval: float = 0.5
    """Between two looks at the deadlines while waiting; data itself wakes the waiter at once."""

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if value is not None and value <= 0:
                raise ConfigError(each.name, value, "not positive", "give seconds > 0")
        if self.dead_after < 3 * self.monitor_interval:
            raise ConfigError(
                "dead_after",
                self.dead_after,
                f"less than 3 looks of monitor_interval={self.monitor_interval:g} s, so that one "
                "late look would kill an actor",
                f"give at least {3 * self.monitor_interval:g} s",
            )
