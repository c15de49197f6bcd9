from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncrl.replay.sum_tree import SumTree

numbers = st.one_of(st.just(0.0), st.floats(1e-12, 1e12))


@given(
    capacity=st.integers(1, 70),
    changes=st.lists(st.dictionaries(st.integers(0, 69), numbers, max_size=20), max_size=6),
)
def test_sum_and_minimum_are_those_of_the_numbers(capacity: int, changes: list[dict[int, float]]):
    tree, naive = SumTree(capacity), np.zeros(capacity)
    for change in changes:
        places = np.array([place for place in change if place < capacity], np.int64)
        values = np.array([change[int(place)] for place in places])
        tree.set(places, values)
        naive[places] = values
        np.testing.assert_array_equal(tree.leaves(capacity), naive)
        assert tree.total == pytest.approx(naive.sum(), rel=1e-12)
        positive = naive[naive > 0]
        assert tree.least == (positive.min() if len(positive) else np.inf)


@given(values=st.lists(st.integers(0, 5), min_size=1, max_size=40).filter(any))
def test_a_mass_finds_the_place_of_its_running_sum(values: list[int]):
    """With whole numbers sums are exact, so every half mass has one right place."""
    tree = SumTree(len(values))
    tree.set(np.arange(len(values)), np.array(values, np.float64))
    masses = np.arange(0, sum(values), 0.5)
    expected = np.searchsorted(np.cumsum(values), masses, side="right")
    np.testing.assert_array_equal(tree.find(masses), expected)


@given(
    values=st.lists(numbers, min_size=1, max_size=70).filter(any),
    fractions=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20),
)
def test_no_mass_finds_a_place_without_any(values: list[float], fractions: list[float]):
    """Not even all of the mass, or more: rounding can lead there."""
    tree = SumTree(len(values))
    tree.set(np.arange(len(values)), np.array(values))
    masses = np.array([*fractions, 1.0, 1.0 + 1e-9]) * tree.total
    assert (tree.get(tree.find(masses)) > 0).all()


def test_many_changes_leave_no_rounding_errors_behind():
    """Sums that are moved by differences would still hold some of 1e16."""
    tree = SumTree(64)
    everywhere = np.arange(64)
    for _ in range(50):
        tree.set(everywhere, np.full(64, 1e16))
        tree.set(everywhere, np.full(64, 0.1))
    assert tree.total == pytest.approx(6.4, rel=1e-14)


def test_one_place():
    tree = SumTree(1)
    assert tree.total == 0.0
    tree.set(np.array([0]), np.array([3.0]))
    assert (tree.total, tree.least) == (3.0, 3.0)
    assert tree.find(np.array([0.0, 2.9])).tolist() == [0, 0]
