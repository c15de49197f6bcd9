"""Which algorithm, with which defaults, the command line trains with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Choice:
    """An algorithm with the settings that suit the environment, before any option changes them."""

    name: str
    algorithm: Any
    learner: Any
    """OnPolicyConfig or OffPolicyConfig."""
    envs: int
    """Environments in each actor."""
