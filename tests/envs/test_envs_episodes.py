"""Episode returns and lengths are exact, and absent before an episode ends."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asyncrl.envs import EpisodeTracker


def flags(*values: int) -> np.ndarray:
    return np.array(values, np.bool_)


def test_before_an_episode_ends_there_are_none_rather_than_nan() -> None:
    tracker = EpisodeTracker(2)
    tracker.add(np.ones(2, np.float32), flags(0, 0))
    stats = tracker.take()
    assert len(stats) == 0
    assert stats.returns.dtype == np.float64
    assert stats.lengths.dtype == np.int64


def test_running_episodes_carry_on_over_a_take() -> None:
    tracker = EpisodeTracker(2)
    tracker.add(np.array([1, 10], np.float32), flags(0, 1))
    assert tracker.take().returns.tolist() == [10]
    tracker.add(np.array([2, 20], np.float32), flags(1, 0))
    tracker.add(np.array([4, 40], np.float32), flags(1, 1))
    stats = tracker.take()
    assert stats.returns.tolist() == [3, 4, 60]
    assert stats.lengths.tolist() == [2, 1, 2]
    assert len(tracker.take()) == 0


def test_reset_rows_count_nothing() -> None:
    tracker = EpisodeTracker(2)
    tracker.add(np.array([1, 1], np.float32), flags(1, 0), flags(1, 1))
    tracker.add(np.array([99, 1], np.float32), flags(1, 0), flags(0, 1))
    tracker.add(np.array([5, 1], np.float32), flags(1, 1), flags(1, 1))
    stats = tracker.take()
    assert stats.returns.tolist() == [1, 5, 3]
    assert stats.lengths.tolist() == [1, 1, 3]


def test_a_long_episode_is_summed_in_float64() -> None:
    tracker = EpisodeTracker(1)
    # 2**24 + 1 is the first integer that float32 cannot hold.
    for reward in (2.0**24, 1.0, 1.0):
        tracker.add(np.array([reward], np.float32), flags(reward == -1))
    tracker.add(np.zeros(1, np.float32), flags(1))
    assert tracker.take().returns.tolist() == [2**24 + 2]


@given(
    st.lists(
        st.tuples(st.integers(-8, 8), st.booleans(), st.booleans(), st.booleans()), max_size=40
    )
)
def test_returns_and_lengths_equal_a_slow_count(
    steps: list[tuple[int, bool, bool, bool]],
) -> None:
    tracker = EpisodeTracker(1)
    expected: list[tuple[float, int]] = []
    running: list[float] = []
    taken: list[tuple[float, int]] = []
    for reward, ended, valid, take in steps:
        tracker.add(np.array([reward], np.float32), flags(ended), flags(valid))
        if valid:
            running.append(reward)
            if ended:
                expected.append((math.fsum(running), len(running)))
                running = []
        if take:
            stats = tracker.take()
            taken += zip(stats.returns.tolist(), stats.lengths.tolist(), strict=True)
    stats = tracker.take()
    taken += zip(stats.returns.tolist(), stats.lengths.tolist(), strict=True)
    assert taken == expected
