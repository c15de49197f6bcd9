"""Single transitions, as off-policy algorithms learn from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True, eq=False)
class Transitions:
    """N transitions in no particular order, each of one step or of several."""

    obs: np.ndarray
    """[N, *observation shape]; uint8, float32, or int64 for a discrete observation."""
    action: np.ndarray
    """[N] int64 for a discrete space, [N, *action shape] float32, raw, for a box."""
    reward: np.ndarray
    """[N] float32: of one step, or the discounted sum over the m steps up to `next_obs`."""
    terminated: np.ndarray
    """[N] bool: the value of `next_obs` is 0. False where the episode was only cut off."""
    next_obs: np.ndarray
    """[N, *observation shape]: the true successor (m steps on), the episode's last observation at
    its end."""
    discount: np.ndarray | None = None
    """[N] float32: what the value of `next_obs` counts, gamma ** m. None: one step, so that it is
    the algorithm's own gamma."""
    weight: np.ndarray | None = None
    """[N] float32 in (0, 1]: importance weights to multiply losses by. None: all are 1."""
    index: np.ndarray | None = None
    """[N] int64: insertion numbers, to report new priorities by. None where there are none."""

    def __len__(self) -> int:
        return len(self.reward)
