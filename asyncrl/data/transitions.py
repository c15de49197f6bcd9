"""Single transitions, as off-policy algorithms learn from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True, eq=False)
class Transitions:
    """N transitions in no particular order."""

    obs: np.ndarray
    """[N, *observation shape]; uint8, float32, or int64 for a discrete observation."""
    action: np.ndarray
    """[N] int64 for a discrete space, [N, *action shape] float32, raw, for a box."""
    reward: np.ndarray
    """[N] float32."""
    terminated: np.ndarray
    """[N] bool: the value of `next_obs` is 0. False where the episode was only cut off."""
    next_obs: np.ndarray
    """[N, *observation shape]: the true successor, the episode's last observation at its end."""

    def __len__(self) -> int:
        return len(self.reward)
