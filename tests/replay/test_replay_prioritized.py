from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_rollouts import counting_batch

from asyncrl.data import ReplaySpec, Transitions
from asyncrl.errors import ConfigError
from asyncrl.replay import TransitionReplay, make_replay


def prioritized(seed: int = 0, **settings: Any) -> TransitionReplay:
    options: dict[str, Any] = {"alpha": 1.0, "beta": 1.0, "priority_eps": 0.0} | settings
    return TransitionReplay(ReplaySpec(prioritized=True, **options), seed)


def filled(count: int = 8, capacity: int = 8, **settings: Any) -> TransitionReplay:
    replay = prioritized(capacity=capacity, **settings)
    replay.add(counting_batch(0, count))
    return replay


def index_of(sample: Transitions) -> np.ndarray:
    assert sample.index is not None
    return sample.index


def weight_of(sample: Transitions) -> np.ndarray:
    assert sample.weight is not None
    return sample.weight


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    expected = counts.sum() * probabilities
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_draws_are_in_proportion_to_priority_to_the_alpha(alpha: float):
    replay = filled(alpha=alpha)
    priority = np.array([1, 2, 3, 4, 5, 6, 7, 8], np.float64)
    replay.update_priorities(np.arange(8), priority)
    drawn = np.concatenate([index_of(replay.sample(1, 0.0)) for _ in range(4000)])
    expected = priority**alpha / (priority**alpha).sum()
    counts = np.bincount(drawn, minlength=8)
    assert chi_square(counts, expected) < 24.3  # 99.9 % quantile with 7 degrees of freedom


def test_a_draw_takes_one_from_each_equal_share():
    """Shares of 32 are half a priority of 1: each item comes as often as it has shares."""
    replay = filled()
    priority = np.array([1, 2, 3, 4, 1, 2, 1, 2], np.float64)
    replay.update_priorities(np.arange(8), priority)
    counts = np.bincount(index_of(replay.sample(32, 0.0)), minlength=8)
    np.testing.assert_array_equal(counts, 2 * priority)


def test_what_is_drawn_is_what_the_index_names():
    replay = filled(count=21)
    sample = replay.sample(64, 0.0)
    np.testing.assert_array_equal(sample.reward, index_of(sample))
    assert set(index_of(sample).tolist()) == set(range(13, 21))
    assert index_of(sample).dtype == np.int64


@given(
    priorities=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    beta=st.sampled_from([0.0, 0.4, 1.0]),
)
def test_weights_undo_the_probabilities(priorities: list[float], alpha: float, beta: float):
    """Against the formula over the whole store, in plain float64."""
    count = len(priorities)
    replay = filled(count, capacity=20, alpha=alpha, beta=beta)
    replay.update_priorities(np.arange(count), np.array(priorities))
    powers = np.array(priorities) ** alpha
    naive = (count * powers / powers.sum()) ** -beta
    sample = replay.sample(30, 0.0)
    np.testing.assert_allclose(
        weight_of(sample), (naive / naive.max())[index_of(sample)], rtol=1e-5
    )
    assert weight_of(sample).dtype == np.float32


def test_weights_make_averages_those_of_uniform_draws():
    replay = filled()
    replay.update_priorities(np.arange(8), np.array([1, 9, 1, 4, 1, 1, 16, 1], np.float64))
    samples = [replay.sample(64, 1.0) for _ in range(200)]
    values = np.concatenate([sample.reward for sample in samples])
    weights = np.concatenate([weight_of(sample) for sample in samples])
    assert (weights * values).sum() / weights.sum() == pytest.approx(3.5, abs=0.05)


def test_beta_follows_its_schedule():
    replay = filled(beta="linear:0.0:1.0:0.5")
    replay.update_priorities(np.arange(8), np.array([1, 4, 4, 4, 4, 4, 4, 4], np.float64))
    for progress, expected in ((0.0, 1.0), (0.25, 0.5), (0.5, 0.25), (1.0, 0.25)):
        sample = replay.sample(64, progress)
        common = weight_of(sample)[index_of(sample) > 0]
        np.testing.assert_allclose(common, expected, rtol=1e-6)


def test_new_items_have_the_largest_priority_so_far():
    replay = filled(count=4)
    replay.update_priorities(np.arange(4), np.array([1, 1, 1, 5], np.float64))
    replay.update_priorities(np.array([3]), np.array([1.0]))
    replay.add(counting_batch(4, 1))
    counts = np.bincount(index_of(replay.sample(90, 0.0)), minlength=5)
    np.testing.assert_array_equal(counts, [10, 10, 10, 10, 50])


def test_an_item_that_overwrites_does_not_inherit_a_priority():
    replay = filled(count=4, capacity=4)
    replay.update_priorities(np.arange(4), np.array([0.25, 1, 1, 1]))
    replay.add(counting_batch(4, 1))
    counts = np.bincount(index_of(replay.sample(40, 0.0)), minlength=5)
    np.testing.assert_array_equal(counts, [0, 10, 10, 10, 10])


@pytest.mark.parametrize("overwrite", ["ring", "random"])
def test_priorities_of_overwritten_items_are_left_out_and_counted(overwrite: str):
    replay = filled(capacity=8, overwrite=overwrite)
    sample = replay.sample(8, 0.0)
    np.testing.assert_array_equal(index_of(sample), np.arange(8))
    replay.add(counting_batch(8, 5))
    held = set(index_of(replay.sample(1000, 0.0)).tolist())
    replay.update_priorities(np.arange(8), np.zeros(8))
    gone = 8 - len(held & set(range(8)))
    assert replay.missed_priorities == gone > 0
    after = set(index_of(replay.sample(1000, 0.0)).tolist())
    assert after == held - set(range(8))  # the new ones kept theirs


def test_of_several_priorities_for_one_item_the_last_counts():
    replay = filled(count=2)
    replay.update_priorities(np.array([0, 1, 0]), np.array([7.0, 1.0, 3.0]))
    counts = np.bincount(index_of(replay.sample(40, 0.0)))
    np.testing.assert_array_equal(counts, [30, 10])


def test_case_49_priorities_that_are_all_zero_mean_uniform_draws_of_weight_1():
    replay = filled()
    replay.update_priorities(np.arange(8), np.zeros(8))
    sample = replay.sample(64, 0.5)
    np.testing.assert_array_equal(np.bincount(index_of(sample)), np.full(8, 8))
    np.testing.assert_array_equal(weight_of(sample), np.ones(64))


def test_case_49_a_priority_of_zero_is_never_drawn_and_has_no_infinite_weight():
    replay = filled()
    replay.update_priorities(np.arange(8), np.array([0, 1, 2, 0, 0, 0, 0, 0], np.float64))
    sample = replay.sample(600, 1.0)
    assert set(index_of(sample).tolist()) == {1, 2}
    np.testing.assert_allclose(
        weight_of(sample), np.where(index_of(sample) == 1, 1.0, 0.5), rtol=1e-6
    )


def test_eps_keeps_a_priority_of_zero_alive():
    replay = filled(count=2, priority_eps=0.5)
    replay.update_priorities(np.array([0, 1]), np.array([0.0, 1.0]))
    assert np.bincount(index_of(replay.sample(40, 0.0))).tolist() == [10, 30]


@pytest.mark.parametrize("settings", [{}, {"prioritized": True}, {"sequence_length": 2}])
def test_case_49_an_empty_replay_says_so(settings: dict[str, Any]):
    replay = make_replay(ReplaySpec(capacity=5, **settings), seed=0)
    with pytest.raises(ConfigError, match="the replay is empty; add transitions first"):
        replay.sample(1, 0.0)
    assert replay.nbytes == 0


Change = Callable[[TransitionReplay], None]
BAD: list[tuple[Change, str]] = [
    (lambda r: r.update_priorities(np.array([0]), np.array([np.nan])), "finite number from 0"),
    (lambda r: r.update_priorities(np.array([0]), np.array([np.inf])), "finite number from 0"),
    (lambda r: r.update_priorities(np.array([0]), np.array([-1.0])), "finite number from 0"),
    (lambda r: r.update_priorities(np.array([0]), np.array([1e300])), "overflow"),
    (lambda r: r.update_priorities(np.array([0, 1]), np.array([1.0])), "not one number for each"),
    (lambda r: r.update_priorities(np.array([0.5]), np.array([1.0])), "not one number for each"),
    (lambda r: r.update_priorities(np.array([8]), np.array([1.0])), "items 0 to 7 were added"),
    (lambda r: r.update_priorities(np.array([-1]), np.array([1.0])), "items 0 to 7 were added"),
]


@pytest.mark.parametrize(("change", "problem"), BAD)
def test_bad_priorities_are_refused_and_change_nothing(change: Change, problem: str):
    replay = filled()
    before = replay.state()["priorities"]["powers"]
    with pytest.raises(ConfigError, match=problem):
        change(replay)
    np.testing.assert_array_equal(replay.state()["priorities"]["powers"], before)
    assert replay.missed_priorities == 0


def test_no_priorities_is_no_change():
    replay = filled()
    replay.update_priorities(np.zeros(0, np.int64), np.zeros(0))
    assert np.bincount(index_of(replay.sample(8, 0.0))).tolist() == [1] * 8


def test_a_replay_without_priorities_says_so():
    replay = TransitionReplay(ReplaySpec(capacity=5), 0)
    replay.add(counting_batch(0, 3))
    with pytest.raises(ConfigError, match="this replay has no priorities"):
        replay.update_priorities(np.array([0]), np.array([1.0]))


@pytest.mark.parametrize("beta", [1.5, -0.1, "linear:0:2", "linear:[0,1]:1", "soon"])
def test_beta_is_a_schedule_of_fractions(beta: float | str):
    with pytest.raises(ConfigError, match="beta="):
        make_replay(ReplaySpec(prioritized=True, beta=beta), seed=0)
