from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncrl.errors import ConfigError
from asyncrl.schedules import (
    Constant,
    Exponential,
    Linear,
    Piecewise,
    Schedule,
    TwoPhaseLinear,
    as_schedule,
)


def piecewise(held: list[float], ends: set[float], last: float) -> Piecewise:
    return Piecewise(tuple(zip(held, sorted(ends), strict=False)), last)


numbers = st.floats(-1e6, 1e6)
positive = st.floats(1e-6, 1e6)
fractions = st.floats(0.0, 1.0)
values = numbers | st.lists(numbers, min_size=2, max_size=2)
schedules = st.one_of(
    st.builds(Constant, values),
    st.builds(Linear, values, values, st.floats(1e-3, 1.0)),
    st.builds(TwoPhaseLinear, values, values, values, fractions),
    st.builds(Exponential, positive, positive),
    st.builds(
        piecewise,
        st.lists(numbers, max_size=4),
        st.sets(fractions, min_size=4, max_size=4),
        numbers,
    ),
)


def test_two_phase_values_of_ten_steps():
    expected = [0.4, 0.384, 0.368, 0.352, 0.336, 0.32, 0.24, 0.16, 0.08, 0.0]
    assert TwoPhaseLinear(0.4, 0.32, 0.0, 0.5).values(10) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("split", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 10])
def test_two_phases_end_at_the_end_wherever_they_split(split: float, steps: int):
    schedule = TwoPhaseLinear(4, 3, 1, split)
    assert schedule.values(steps)[-1] == 1.0
    assert len(schedule.values(steps)) == steps
    assert schedule(1.0) == 1.0


def test_two_phases_by_progress():
    schedule = TwoPhaseLinear(1.0, 0.5, 0.0, 0.25)
    assert [schedule(at) for at in (0.0, 0.125, 0.25, 0.625, 1.0)] == [1.0, 0.75, 0.5, 0.25, 0.0]


def test_linear_reaches_its_end_early_and_stays():
    schedule = Linear(1, 0, 0.5)
    assert [schedule(at) for at in (0.0, 0.25, 0.5, 0.75, 1.0)] == [1.0, 0.5, 0.0, 0.0, 0.0]
    assert Linear(1, 0).values(3) == [1.0, 0.5, 0.0]


def test_a_second_pass_starts_afresh():
    schedule = TwoPhaseLinear(1, 0.5, 0)
    assert schedule.values(7) == schedule.values(7)


def test_exponential_goes_by_equal_factors():
    assert Exponential(1.0, 0.0001).values(5) == pytest.approx([1, 0.1, 0.01, 0.001, 0.0001])


def test_a_piece_holds_up_to_its_end():
    schedule = Piecewise(((1.0, 0.2), (0.5, 0.6)), 0.1)
    places = (0.0, 0.19, 0.2, 0.59, 0.6, 1.0)
    assert [schedule(at) for at in places] == [1.0, 1.0, 0.5, 0.5, 0.1, 0.1]


def test_lists_and_arrays_move_elementwise_and_are_never_changed():
    start, end = np.array([1.0, 10.0]), [0, 20]
    schedule = Linear(start, end)
    np.testing.assert_array_equal(schedule(0.5), [0.5, 15.0])
    schedule(0.0)[0] = 99.0
    np.testing.assert_array_equal(schedule(0.0), [1.0, 10.0])
    np.testing.assert_array_equal(start, [1.0, 10.0])
    assert end == [0, 20]
    start[0] = 7.0
    np.testing.assert_array_equal(schedule(0.0), [1.0, 10.0])


def test_one_number_goes_with_several():
    schedule = Linear([1.0, 2.0], 0)
    np.testing.assert_array_equal(schedule(0.5), [0.5, 1.0])
    np.testing.assert_array_equal(schedule(1.0), [0.0, 0.0])


@pytest.mark.parametrize("progress", [-0.1, 1.1])
@pytest.mark.parametrize("schedule", [Linear(1, 0), TwoPhaseLinear(1, 0.5, 0), Exponential(1, 0.1)])
def test_beyond_the_run_the_ends_hold(schedule: Schedule, progress: float):
    assert schedule(progress) == schedule(0.0 if progress < 0 else 1.0)


@given(schedules, fractions)
def test_the_text_of_a_schedule_means_the_schedule(schedule: Schedule, progress: float):
    again = as_schedule(str(schedule))
    np.testing.assert_array_equal(again(progress), schedule(progress))
    assert again == schedule
    assert hash(again) == hash(schedule)


@given(numbers, numbers, fractions)
def test_linear_stays_between_its_ends(start: float, end: float, progress: float):
    tolerance = 1e-9 * max(1.0, abs(start), abs(end))
    low, high = min(start, end) - tolerance, max(start, end) + tolerance
    assert low <= Linear(start, end)(progress) <= high


def test_text_names_every_form():
    assert as_schedule("0.5") == Constant(0.5) == as_schedule("constant:0.5")
    assert as_schedule("linear:1.0:0.05:0.16") == Linear(1.0, 0.05, 0.16)
    assert as_schedule("two_phase_linear:4:3:0:0.4") == TwoPhaseLinear(4, 3, 0, 0.4)
    assert as_schedule("piecewise:1@0.2:0.5@0.6:0.1") == Piecewise(((1, 0.2), (0.5, 0.6)), 0.1)
    assert as_schedule("exponential:1:0.1") == Exponential(1, 0.1)
    assert as_schedule("linear:[1,2]:[0,0]") == Linear([1, 2], [0, 0])


def test_numbers_and_schedules_are_schedules():
    schedule = Linear(1, 0)
    assert as_schedule(schedule) is schedule
    assert as_schedule(3)(0.7) == 3.0
    np.testing.assert_array_equal(as_schedule([1, 2])(0.7), [1.0, 2.0])
    assert as_schedule(3) != 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "steep",
        "steep:1:2",
        "linear",
        "linear:1",
        "linear:1:2:0.5:3",
        "linear:one:2",
        "linear:1:2:0",
        "linear:1:2:1.5",
        "linear:1:2:[0.5]",
        "linear:[1,2]:[1,2,3]",
        "linear:[1:2",
        'linear:["a"]:2',
        "linear:nan:1",
        "inf",
        "two_phase_linear:1:2:3:2",
        "piecewise",
        "piecewise:1@0.5",
        "piecewise:1@0.6:2@0.5:3",
        "piecewise:1@2:3",
        "piecewise:1:2",
        "exponential:1:0",
        "exponential:-1:1",
    ],
)
def test_what_is_no_schedule_is_refused_naming_the_option(text: str):
    with pytest.raises(ConfigError, match="epsilon=") as caught:
        as_schedule(text, "epsilon")
    assert caught.value.field == "epsilon"
    assert caught.value.value == text


@pytest.mark.parametrize("value", [None, object(), {"start": 1}])
def test_other_things_are_no_schedules(value: object):
    with pytest.raises(ConfigError, match="schedule="):
        as_schedule(value)  # pyright: ignore[reportArgumentType]


def test_schedules_do_not_import_torch():
    program = "import sys, asyncrl.schedules; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
