"""Proportional prioritisation (Schaul et al. 2016, https://arxiv.org/abs/1511.05952)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncrl.errors import ConfigError
from asyncrl.replay.sum_tree import SumTree

_LARGEST = 1e200


class Priorities:
    """Draws places with P(i) = p_i**alpha / sum_k p_k**alpha.

    If all priorities are 0, every place is drawn alike.

    Args:
        capacity: Places.
        alpha: 0 for uniform, 1 for proportional draws.
        eps: Added to every priority that is set.
    """

    def __init__(self, capacity: int, alpha: float, eps: float) -> None:
        self._tree = SumTree(capacity)
        self._alpha = alpha
        self._eps = eps
        self._largest = 1.0
        """Largest p**alpha so far, at least 1."""

    @property
    def nbytes(self) -> int:
        """Bytes of the tree."""
        return self._tree.nbytes

    def welcome(self, places: np.ndarray) -> None:
        """Give new items the largest priority so far, so that each is drawn soon."""
        self._tree.set(places, np.full(len(places), self._largest))

    def set(self, places: np.ndarray, priorities: np.ndarray) -> None:
        """Set p = priority + eps; of several for one place the last counts."""
        places, from_the_end = np.unique(places[::-1], return_index=True)
        chosen = priorities[::-1][from_the_end].astype(np.float64)
        powers = (chosen + self._eps) ** self._alpha
        if not (powers <= _LARGEST).all():
            raise ConfigError(
                "priority",
                float(chosen.max()),
                f"to the power of alpha it is beyond {_LARGEST:g}, and sums would overflow",
                "scale priorities down",
            )
        self._tree.set(places, powers)
        self._largest = max(self._largest, float(powers.max(initial=0.0)))

    def draw(
        self, rng: np.random.Generator, size: int, held: int, beta: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw `size` of the first `held` places, one from each of `size` equal shares of the sum.

        Returns:
            Places [size] int64, ascending, and importance weights [size] float32:
            (held * P(i))**-beta over the largest of them among all that can be drawn.
        """
        shares = (np.arange(size) + rng.random(size)) / size
        total, least = self._tree.total, self._tree.least
        if not total > 0.0:
            places = np.minimum((shares * held).astype(np.int64), held - 1)
            return places, np.ones(size, np.float32)
        places = self._tree.find(shares * total)
        return places, ((least / self._tree.get(places)) ** beta).astype(np.float32)

    def state(self, size: int) -> dict[str, Any]:
        """Return p**alpha of the first `size` places, exactly, and the largest one so far."""
        return {"powers": self._tree.leaves(size), "largest": self._largest}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken, on new priorities."""
        self._tree.set(np.arange(len(state["powers"])), np.asarray(state["powers"]))
        self._largest = float(state["largest"])
