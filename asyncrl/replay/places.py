"""Where in the columns each item goes once they are full, and what is still there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from asyncrl.data.replay import Overwrite


class Places(Protocol):
    """Gives places in [0, capacity) to items numbered 0, 1, .. as they come.

    The first `capacity` items get the places in turn; every later one takes the place of another.
    """

    def take(self, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Give places to the items ``first`` to ``first + count - 1``.

        Returns:
            Which of the `count` items are still there after them all, ascending, and their places,
            all different.
        """
        ...

    def numbers(self, places: np.ndarray, inserted: int) -> np.ndarray:
        """Return the number, int64, of the item at each of `places`, after `inserted` items."""
        ...

    def find(self, numbers: np.ndarray, inserted: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of items, and whether each is still there, after `inserted` items."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what decides all this."""
        ...

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken."""
        ...


class RingPlaces:
    """The oldest item goes: the place of item k is k modulo the capacity."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity

    def take(self, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Give places; of more items than there are places only the newest stay."""
        items = np.arange(max(0, count - self._capacity), count)
        return items, (first + items) % self._capacity

    def numbers(self, places: np.ndarray, inserted: int) -> np.ndarray:
        """Return the largest number below `inserted` that has each place."""
        return inserted - 1 - (inserted - 1 - places) % self._capacity

    def find(self, numbers: np.ndarray, inserted: int) -> tuple[np.ndarray, np.ndarray]:
        """Return places; the newest `capacity` items are there."""
        there = (numbers >= max(0, inserted - self._capacity)) & (numbers < inserted)
        return numbers % self._capacity, there

    def state(self) -> dict[str, Any]:
        """Return nothing: numbers decide it all."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take nothing over."""


class RandomPlaces:
    """Whichever item is at a random place goes.

    The place of item k is a function of k and a salt (SplitMix64's finaliser, Steele et al. 2014,
    https://doi.org/10.1145/2660193.2660195), as good as random: a number leads to its place without
    a table, and nothing but the salt and who is where need be saved.
    """

    def __init__(self, capacity: int, salt: int) -> None:
        self._capacity = capacity
        self._salt = salt
        self._numbers = np.full(capacity, -1, np.int64)

    def _place(self, numbers: np.ndarray) -> np.ndarray:
        mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(self._salt)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        random = ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(self._capacity)).astype(np.int64)
        return np.where(numbers < self._capacity, numbers, random)

    def take(self, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Give places; of several items that get one place the last stays."""
        numbers = np.arange(first, first + count)
        taken = self._place(numbers)
        _, from_the_end = np.unique(taken[::-1], return_index=True)
        items = np.sort(count - 1 - from_the_end)
        self._numbers[taken[items]] = numbers[items]
        return items, taken[items]

    def numbers(self, places: np.ndarray, inserted: int) -> np.ndarray:
        """Return who is where."""
        del inserted
        return self._numbers[places]

    def find(self, numbers: np.ndarray, inserted: int) -> tuple[np.ndarray, np.ndarray]:
        """Return places; an item is there until another one is."""
        places = self._place(numbers)
        return places, (numbers >= 0) & (numbers < inserted) & (self._numbers[places] == numbers)

    def state(self) -> dict[str, Any]:
        """Return the salt and who is where."""
        return {"salt": self._salt, "numbers": self._numbers[self._numbers >= 0]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken."""
        self._salt = int(state["salt"])
        self._numbers[:] = -1
        self._numbers[: len(state["numbers"])] = state["numbers"]


def make_places(overwrite: Overwrite, capacity: int, salt: int) -> Places:
    """Return what `overwrite` names."""
    return RingPlaces(capacity) if overwrite == "ring" else RandomPlaces(capacity, salt)
