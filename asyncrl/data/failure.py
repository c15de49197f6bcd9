"""What an actor reports when a job fails."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FailureReport:
    """Why one attempt of a job failed, in words a person can act on."""

    actor_id: str
    job_id: str
    """The job, or "" when the actor failed outside a job, for example making environments."""
    attempt: int
    where: str
    """What was being done: ``"step 37 of environment 3"``, ``"making the environment"``."""
    cause: str
    """Type and message of the exception, or of the signal that ended the process."""
    traceback: str = ""
    """The environment's own traceback, formatted; "" when the process just died."""
    seed: int | None = None
    """Seed of the episode that failed, where known."""
