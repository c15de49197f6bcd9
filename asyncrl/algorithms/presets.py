"""Settings that are known to work, by algorithm and environment.

The command line starts from these; every option given overrides one. Environments that are not
listed get the algorithm's own defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from asyncrl.algorithms.ppo import PPO


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One algorithm's settings for one environment."""

    algorithm: Any
    """The settings, for example ``PPO(..)``."""
    envs: int = 8
    """Environments stepped side by side in each actor."""
    learner: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of the learner, by name: ``{"jobs_per_round": 2, "eval_interval": 2500}``."""


DEFAULTS: Mapping[str, Preset] = {"ppo": Preset(algorithm=PPO())}
"""Algorithm -> what it starts from in an environment that has no preset."""

PRESETS: Mapping[tuple[str, str], Preset] = {}
"""(algorithm, environment id) -> preset."""


def preset(algorithm: str, env: str) -> Preset:
    """Return the settings to start from; the algorithm must be one of `DEFAULTS`."""
    return PRESETS.get((algorithm, env), DEFAULTS[algorithm])
