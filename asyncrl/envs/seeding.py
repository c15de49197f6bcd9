"""Checking the seeds handed to environments."""

from __future__ import annotations

from collections.abc import Sequence

from asyncrl.errors import ConfigError


def checked_seeds(seeds: Sequence[int], num_envs: int) -> list[int]:
    """Return the seeds as plain ints; raise `ConfigError` unless each environment has one."""
    if len(seeds) != num_envs:
        raise ConfigError(
            "seeds",
            list(seeds),
            f"{len(seeds)} seeds for {num_envs} environments",
            "give one for each environment",
        )
    return [int(seed) for seed in seeds]
