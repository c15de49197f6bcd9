from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_rollouts import Row, random_batch, slowly

from asyncrl.data import ReplaySpec, TrajectoryBatch
from asyncrl.replay import TransitionReplay


def replay_of(**settings: float) -> TransitionReplay:
    return TransitionReplay(ReplaySpec(**settings), seed=0)  # pyright: ignore[reportArgumentType]


def check_equal(replay: TransitionReplay, expected: list[Row]) -> None:
    """Check what `replay` holds, oldest first."""
    columns = replay.state()["columns"]
    oldest = replay.inserted % replay.capacity if replay.inserted > replay.capacity else 0
    order = np.roll(np.arange(len(replay)), -oldest)
    assert len(replay) == len(expected)
    assert [columns["obs"][i].tobytes() for i in order] == [row.obs for row in expected]
    assert [columns["next_obs"][i].tobytes() for i in order] == [row.next_obs for row in expected]
    assert columns["action"][order].tolist() == [row.action for row in expected]
    assert columns["terminated"][order].tolist() == [row.terminated for row in expected]
    np.testing.assert_allclose(
        columns["reward"][order], [row.reward for row in expected], rtol=1e-6, atol=1e-6
    )
    if "discount" in columns:
        np.testing.assert_allclose(
            columns["discount"][order], [row.discount for row in expected], rtol=1e-6
        )


shapes = st.tuples(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 4))


@given(
    n=st.integers(1, 12),
    gamma=st.sampled_from([0.0, 0.5, 0.97, 1.0]),
    capacity=st.integers(1, 40),
    batches=st.lists(shapes, min_size=1, max_size=5),
    ends=st.sampled_from([0.0, 0.1, 0.4]),
)
def test_case_21_sums_and_successors_are_those_of_a_slow_walk(
    n: int,
    gamma: float,
    capacity: int,
    batches: list[tuple[int, int, int]],
    ends: float,
):
    """Ends, ends of batches, interleaved columns and the seam of the ring, in any combination."""
    replay = replay_of(capacity=capacity, n_step=n, gamma=gamma)
    oracle: deque[Row] = deque(maxlen=capacity)
    for seed, steps, width in batches:
        batch = random_batch(seed, steps, width, ends=ends)
        assert replay.add(batch) == steps * width
        oracle.extend(slowly(batch, n, gamma))
    check_equal(replay, list(oracle))


def two_columns() -> TrajectoryBatch:
    """Return 4 steps of two environments: one terminates at step 1, one is cut off at step 2."""
    obs = np.array([[10, 20], [11, 21], [12, 22], [13, 23]], np.float32)[..., None]
    return TrajectoryBatch(
        policy_id="policy",
        policy_version=1,
        obs=obs,
        action=np.zeros((4, 2), np.int64),
        reward=np.array([[1, 10], [2, 20], [4, 40], [8, 80]], np.float32),
        terminated=np.array([[0, 0], [1, 0], [0, 0], [0, 0]], np.bool_),
        truncated=np.array([[0, 0], [0, 0], [0, 1], [0, 0]], np.bool_),
        last_obs=np.array([[14], [24]], np.float32),
        final_obs=np.array([[111], [222]], np.float32),
        final_index=np.array([[1, 0], [2, 1]], np.int32),
    )


def test_three_steps_by_hand():
    replay = replay_of(capacity=8, n_step=3, gamma=0.5)
    replay.add(two_columns())
    held = replay.state()["columns"]
    first, second = slice(0, 8, 2), slice(1, 8, 2)
    # First column: 1 + 2/2; 2; 4 + 8/2 up to the batch's end; 8.
    assert held["reward"][first].tolist() == [2, 2, 8, 8]
    assert held["discount"][first].tolist() == [0.25, 0.5, 0.25, 0.5]
    assert held["next_obs"][first, 0].tolist() == [111, 111, 14, 14]
    assert held["terminated"][first].tolist() == [True, True, False, False]
    # Second column: 10 + 20/2 + 40/4; 20 + 40/2; 40, all up to the cut; 80.
    assert held["reward"][second].tolist() == [30, 40, 40, 80]
    assert held["discount"][second].tolist() == [0.125, 0.25, 0.5, 0.5]
    assert held["next_obs"][second, 0].tolist() == [222, 222, 222, 24]
    assert not held["terminated"][second].any()


def test_sums_do_not_cross_from_one_batch_to_the_next():
    """The next batch may be another actor's, or come after one that was lost."""
    replay = replay_of(capacity=8, n_step=8, gamma=1.0)
    batch = random_batch(3, 4, 1, ends=0.0)
    for _ in range(2):
        replay.add(batch)
    expected = np.cumsum(batch.reward[::-1, 0].astype(np.float64))[::-1]
    for half in (slice(0, 4), slice(4, 8)):
        np.testing.assert_allclose(replay.state()["columns"]["reward"][half], expected, rtol=1e-6)
        assert (replay.state()["columns"]["next_obs"][half] == batch.last_obs[0]).all()


def test_one_step_has_no_discount_of_its_own():
    replay = replay_of(capacity=8)
    replay.add(two_columns())
    sample = replay.sample(5, 0.0)
    assert sample.discount is None
    assert sample.weight is None
    assert sample.index is None


def test_several_steps_have_one():
    replay = replay_of(capacity=8, n_step=3, gamma=0.5)
    replay.add(two_columns())
    sample = replay.sample(50, 0.0)
    assert sample.discount is not None
    assert sample.discount.dtype == sample.reward.dtype == np.float32
    assert set(sample.discount.tolist()) == {0.125, 0.25, 0.5}


def test_the_batch_is_not_changed():
    batch = random_batch(0, 6, 2)
    before = {
        name: getattr(batch, name).copy()
        for name in ("obs", "reward", "terminated", "truncated", "last_obs", "final_obs")
    }
    replay_of(capacity=8, n_step=3).add(batch)
    for name, array in before.items():
        np.testing.assert_array_equal(getattr(batch, name), array)


@pytest.mark.parametrize("name", ["capacity", "n_step"])
def test_counts_are_positive(name: str):
    with pytest.raises(ValueError, match=f"{name}=0: out of range; give 1 or more"):
        replay_of(**{name: 0})
