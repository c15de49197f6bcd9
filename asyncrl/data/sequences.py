"""Sequences of steps, as recurrent policies learn from them off-policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True, eq=False)
class Sequences:
    """N sequences of L consecutive steps, time-major, in no particular order.

    Column n is steps of one environment. Episodes may end and begin inside: reset the recurrent
    state before a row where `first` is true. Rows that are not `valid` are padding, zeros at the
    end. Unroll from `state`, learn from the rows ``burn_in:`` that are valid. For the value of a
    row's successor take one step of the core from the state after that row over `next_obs`, which
    is right at episodes' ends, too (Kapturowski et al. 2019, R2D2,
    https://openreview.net/forum?id=r1lyTjAqYX).
    """

    obs: np.ndarray
    """[L, N, *observation shape]."""
    action: np.ndarray
    """[L, N] int64, or [L, N, *action shape] float32, raw."""
    reward: np.ndarray
    """[L, N] float32."""
    terminated: np.ndarray
    """[L, N] bool: the value of `next_obs` is 0."""
    truncated: np.ndarray
    """[L, N] bool: the episode was cut off here; bootstrap from `next_obs`."""
    next_obs: np.ndarray
    """[L, N, *observation shape]: the true successor, the episode's last observation at its end."""
    first: np.ndarray
    """[L, N] bool: an episode begins here, so the recurrent state is 0 before it. In row 0 it is
    true where that is known; `state` is right in any case."""
    valid: np.ndarray
    """[L, N] bool: False for padding; true in row 0."""
    state: np.ndarray
    """[N, S] float32: recurrent state before row 0."""
    burn_in: int = 0
    """First rows that are unrolled but not learned from."""
    weight: np.ndarray | None = None
    """[N] float32 in (0, 1]: importance weights of whole sequences. None: all are 1."""
    index: np.ndarray | None = None
    """[N] int64: insertion numbers, to report new priorities by. None where there are none."""

    @property
    def length(self) -> int:
        """L."""
        return self.reward.shape[0]

    def __len__(self) -> int:
        return self.reward.shape[1]
