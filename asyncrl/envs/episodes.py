"""Returns and lengths of episodes, counted beside the steps."""

from __future__ import annotations

import numpy as np

from asyncrl.data import EpisodeStats


class EpisodeTracker:
    """Sums rewards and counts steps of B environments' running episodes.

    Episodes run on over `take`: a fixed-length segment may end in the middle of one. Before the
    first episode ends the statistics are empty, never NaN.
    """

    def __init__(self, num_envs: int) -> None:
        self._returns = np.zeros(num_envs, np.float64)
        self._lengths = np.zeros(num_envs, np.int64)
        self._ended_returns: list[float] = []
        self._ended_lengths: list[int] = []

    def add(self, reward: np.ndarray, ended: np.ndarray, valid: np.ndarray | None = None) -> None:
        """Count one step.

        Args:
            reward: [B] any real dtype; summed in float64.
            ended: [B] bool: the episode ended with this step.
            valid: [B] bool: False for rows that are resets, which count nothing; None for all true.
        """
        if valid is None or valid.all():
            self._returns += reward
            self._lengths += 1
        else:
            ended = ended & valid
            self._returns[valid] += reward[valid]
            self._lengths += valid
        if ended.any():
            self._ended_returns += self._returns[ended].tolist()
            self._ended_lengths += self._lengths[ended].tolist()
            self._returns[ended] = 0.0
            self._lengths[ended] = 0

    def take(self) -> EpisodeStats:
        """Return the episodes that ended since the last take, in order of step and environment."""
        stats = EpisodeStats(
            returns=np.array(self._ended_returns, np.float64),
            lengths=np.array(self._ended_lengths, np.int64),
        )
        self._ended_returns, self._ended_lengths = [], []
        return stats
