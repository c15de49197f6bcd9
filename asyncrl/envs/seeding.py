"""Checking the seeds handed to environments."""

from __future__ import annotations

from collections.abc import Sequence

from asyncrl.errors import StateError


def checked_seeds(seeds: Sequence[int], num_envs: int) -> list[int]:
    """Return the seeds as plain ints; raise `StateError` unless each environment has one."""
    if len(seeds) != num_envs:
        raise StateError(f"{len(seeds)} seeds for {num_envs} environments; give one for each")
    return [int(seed) for seed in seeds]
