import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncrl.errors import ConfigError
from asyncrl.metrics import RateMeter, ReturnWindow, eta


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_empty_window_has_no_mean_rather_than_nan():
    window = ReturnWindow(3)
    assert window.mean_return is None
    assert window.mean_length is None
    assert not window.full
    assert len(window) == 0


def test_the_window_keeps_the_newest_episodes_and_says_when_it_is_full():
    window = ReturnWindow(3)
    window.extend([1.0, 2.0], [10, 20])
    assert not window.full
    assert window.mean_return == 1.5
    window.extend(np.array([3.0, 8.0]), np.array([30, 100]))
    assert window.full
    assert len(window) == window.size == 3
    assert window.mean_return == (2.0 + 3.0 + 8.0) / 3
    assert window.mean_length == 50


def test_a_window_continues_from_its_state_after_a_resume():
    window = ReturnWindow(3)
    window.extend(np.array([1.0, 2.5, 3.0, 4.0]), np.array([1, 2, 3, 4]))
    state = window.state()
    assert state == {"returns": [2.5, 3.0, 4.0], "lengths": [2, 3, 4]}
    assert {type(value) for values in state.values() for value in values} == {int, float}
    again, smaller = ReturnWindow(3), ReturnWindow(2)
    again.extend([99.0], [99])
    again.load_state(state)
    smaller.load_state(state)
    assert again.state() == state
    assert smaller.state() == {"returns": [3.0, 4.0], "lengths": [3, 4]}


def test_returns_without_their_lengths_are_refused_and_nothing_is_added():
    window = ReturnWindow(3)
    with pytest.raises(ValueError, match="shorter"):
        window.extend([1.0, 2.0], [1])
    assert len(window) == 0


def test_windows_of_no_size_are_refused():
    with pytest.raises(ConfigError, match="size=0"):
        ReturnWindow(0)
    with pytest.raises(ConfigError, match="window=0"):
        RateMeter(0.0)


def test_the_rate_is_unknown_before_any_time_has_passed():
    assert RateMeter(10.0, clock=Clock()).rate() is None


def test_the_rate_is_over_the_meters_life_until_the_window_is_filled():
    clock = Clock()
    meter = RateMeter(10.0, clock=clock)
    clock.now += 2
    meter.add(100)
    assert meter.rate() == 50
    clock.now += 2
    assert meter.rate() == 25


def test_the_rate_forgets_what_is_older_than_the_window():
    clock = Clock()
    meter = RateMeter(10.0, clock=clock)
    for _ in range(100):
        clock.now += 1
        meter.add(10)
    for _ in range(20):
        clock.now += 1
        meter.add(30)
    assert meter.rate() == pytest.approx(30)
    clock.now += 100
    assert meter.rate() == pytest.approx(0)


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 1000)), min_size=1, max_size=300))
def test_the_rate_stays_between_the_rates_of_its_window_in_bounded_memory(
    arrivals: list[tuple[float, int]],
):
    clock = Clock()
    meter = RateMeter(5.0, clock=clock)
    total = 0
    for seconds, steps in arrivals:
        clock.now += seconds
        meter.add(steps)
        total += steps
        rate = meter.rate()
        elapsed = clock.now - 1000.0
        if rate is not None:
            assert rate >= 0
            assert math.isfinite(rate)
            if elapsed <= 5.0:
                assert rate == pytest.approx(total / elapsed)
    assert len(meter._marks) <= 64


def test_the_time_left_is_unknown_without_a_rate_and_zero_when_done():
    assert eta(50, 100, None) is None
    assert eta(50, 100, 0.0) is None
    assert eta(50, 100, 25.0) == 2.0
    assert eta(120, 100, None) == 0.0
