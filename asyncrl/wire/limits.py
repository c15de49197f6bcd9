"""How large a message may be; checked before anything is allocated for it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from asyncrl.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class WireLimits:
    """Bounds on one message. Whatever exceeds one is refused with `WireError`."""

    max_bytes: int = 64 * 2**20
    """Bytes of the whole message."""
    max_depth: int = 16
    """Mappings and lists inside one another."""
    max_items: int = 1_000_000
    """Elements of all mappings and lists together."""
    max_arrays: int = 4096
    """Arrays."""
    max_text: int = 2**20
    """Bytes of one string."""

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if value < 1:
                raise ConfigError(each.name, value, "not positive", "give 1 or more")


DEFAULT_LIMITS = WireLimits()
"""For jobs, results and everything else that travels."""

WEIGHT_LIMITS = WireLimits(max_bytes=2**32)
"""For weights: few arrays, though large ones."""

CHECKPOINT_LIMITS = WireLimits(
    max_bytes=2**40, max_depth=64, max_items=10**8, max_arrays=10**6, max_text=2**30
)
"""For checkpoints, which are our own files: a replay may be large."""
