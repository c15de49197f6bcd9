"""A binary tree over non-negative numbers: their sum, their minimum and draws in proportion."""

from __future__ import annotations

import numpy as np


class SumTree:
    """Numbers at the places 0 .. capacity - 1, 0 at first (Schaul et al. 2016, appendix B.2.1).

    Every node holds the sum of the two below it, computed anew whenever one of them changes, so
    that no rounding errors pile up; the minimum is taken over positive numbers alone. All calls
    work on arrays at once, in a number of steps of the tree's depth. float64.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._depth = max(0, (capacity - 1).bit_length())
        self._leaves = 1 << self._depth
        self._sums = np.zeros(2 * self._leaves)
        """Node k has the children 2k and 2k + 1; the root is 1, the leaves come last."""
        self._least = np.full(2 * self._leaves, np.inf)

    @property
    def total(self) -> float:
        """Sum of all numbers."""
        return float(self._sums[1])

    @property
    def least(self) -> float:
        """The smallest positive number; infinite if there is none."""
        return float(self._least[1])

    @property
    def nbytes(self) -> int:
        """Bytes of both trees."""
        return self._sums.nbytes + self._least.nbytes

    def get(self, places: np.ndarray) -> np.ndarray:
        """Return the numbers at `places`."""
        return self._sums[self._leaves + places]

    def leaves(self, size: int) -> np.ndarray:
        """Return a copy of the first `size` numbers."""
        return self._sums[self._leaves : self._leaves + size].copy()

    def set(self, places: np.ndarray, values: np.ndarray) -> None:
        """Put non-negative `values` [N] at `places` [N], all different."""
        nodes = self._leaves + places
        self._sums[nodes] = values
        self._least[nodes] = np.where(values > 0.0, values, np.inf)
        for _ in range(self._depth):
            nodes = np.unique(nodes >> 1)
            left, right = 2 * nodes, 2 * nodes + 1
            self._sums[nodes] = self._sums[left] + self._sums[right]
            self._least[nodes] = np.minimum(self._least[left], self._least[right])

    def find(self, masses: np.ndarray) -> np.ndarray:
        """Return the place [N] at which the running sum of the numbers first exceeds each mass.

        A place whose number is 0 is never returned, whatever rounding does.

        Args:
            masses: [N] in [0, total); the total is positive.
        """
        rest = masses.astype(np.float64)
        nodes = np.ones(len(rest), np.int64)
        for _ in range(self._depth):
            left = self._sums[2 * nodes]
            goes_right = (rest >= left) & (self._sums[2 * nodes + 1] > 0.0)
            rest -= np.where(goes_right, left, 0.0)
            nodes = 2 * nodes + goes_right
        return nodes - self._leaves
