from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from asyncrl.data import (
    EpisodeStats,
    JobKind,
    JobUnit,
    RolloutJob,
    RolloutResult,
    TrajectoryBatch,
    Transitions,
)
from asyncrl.errors import InvalidBatchError

STEPS, WIDTH = 3, 2


def at(*cells: tuple[int, int]) -> np.ndarray:
    """Return [T, B] bool, true at the cells named."""
    flags = np.zeros((STEPS, WIDTH), np.bool_)
    for cell in cells:
        flags[cell] = True
    return flags


def counting(**changes: Any) -> TrajectoryBatch:
    """Two environments that count up: column 0 from 0 without an end; 1 ends at 11 and 20."""
    sound = TrajectoryBatch(
        policy_id="policy",
        policy_version=1,
        obs=np.array([[0, 10], [1, 20], [2, 30]], np.float32)[..., None],
        action=np.zeros((STEPS, WIDTH), np.int64),
        reward=np.ones((STEPS, WIDTH), np.float32),
        terminated=at((0, 1)),
        truncated=at((1, 1)),
        last_obs=np.array([[3], [31]], np.float32),
        final_obs=np.array([[11], [21]], np.float32),
        final_index=np.array([[0, 1], [1, 1]], np.int32),
        extras={"log_prob": np.full((STEPS, WIDTH), -0.5, np.float32)},
    )
    return replace(sound, **changes)


def spoilt(array: np.ndarray, place: tuple[int, ...], value: float = float("nan")) -> np.ndarray:
    """Return a copy with another number at one place."""
    changed = array.copy()
    changed[place] = value
    return changed


def test_a_sound_batch_passes():
    batch = counting()
    batch.validate()
    assert (batch.steps, batch.width, batch.transitions) == (3, 2, 6)


def test_bytes_count_every_array():
    obs, action, reward, flags, last, final, index, log_prob = 24, 48, 24, 6 + 6, 8, 8, 16, 24
    assert counting().nbytes == obs + action + reward + flags + last + final + index + log_prob


def test_the_next_observation_is_the_last_of_the_episode_at_its_end_never_the_reset():
    following = counting().next_obs()
    assert following[..., 0].tolist() == [[1, 11], [2, 21], [3, 31]]


def test_the_next_observation_at_an_end_in_the_last_row_is_not_the_reset_that_follows():
    batch = counting(
        terminated=at((2, 0)),
        truncated=at(),
        final_obs=np.array([[9]], np.float32),
        final_index=np.array([[2, 0]], np.int32),
    )
    batch.validate()
    assert batch.next_obs()[..., 0].tolist() == [[1, 20], [2, 30], [9, 31]]


def test_the_next_observations_are_a_copy():
    batch = counting()
    before = batch.obs.copy()
    batch.next_obs()[:] = -1
    assert np.array_equal(batch.obs, before)


@st.composite
def walks(draw: st.DrawFn) -> tuple[TrajectoryBatch, np.ndarray]:
    """A batch of counting environments with ends anywhere, and the true next observations."""
    steps, width = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    ends = np.array(draw(st.lists(st.booleans(), min_size=steps * width, max_size=steps * width)))
    ends = ends.reshape(steps, width)
    obs, following = np.zeros((2, steps, width, 1), np.float32)
    now = np.zeros(width, np.float32)
    for t in range(steps):
        obs[t, :, 0], following[t, :, 0] = now, now + 1
        now = np.where(ends[t], 1000.0 * (t + 1), now + 1).astype(np.float32)
    return TrajectoryBatch(
        policy_id="policy",
        policy_version=1,
        obs=obs,
        action=np.zeros((steps, width), np.int64),
        reward=np.zeros((steps, width), np.float32),
        terminated=ends & (np.arange(steps) % 2 == 0)[:, None],
        truncated=ends & (np.arange(steps) % 2 == 1)[:, None],
        last_obs=now[:, None],
        final_obs=following[ends],
        final_index=np.argwhere(ends).astype(np.int32),
    ), following


@given(walk=walks())
def test_next_observations_are_true_wherever_episodes_end(
    walk: tuple[TrajectoryBatch, np.ndarray],
):
    batch, following = walk
    batch.validate()
    assert np.array_equal(batch.next_obs(), following)


NON_FINITE = {
    "obs": (
        {"obs": spoilt(counting().obs, (1, 1, 0))},
        "obs: nan at step 1, environment 1",
    ),
    "a reward": (
        {"reward": spoilt(counting().reward, (2, 0), float("inf"))},
        "reward: inf at step 2, environment 0",
    ),
    "an action": (
        {"action": spoilt(np.zeros((3, 2, 4), np.float32), (0, 1, 3), float("-inf"))},
        "action: -inf at step 0, environment 1",
    ),
    "what follows": (
        {"last_obs": spoilt(counting().last_obs, (1, 0))},
        "last_obs: nan after the last step, environment 1",
    ),
    "an end": (
        {"final_obs": spoilt(counting().final_obs, (1, 0))},
        "final_obs: nan at step 1, environment 1",
    ),
    "an extra": (
        {"extras": {"log_prob": spoilt(counting().reward, (0, 0))}},
        "log_prob: nan at step 0, environment 0",
    ),
}


@pytest.mark.parametrize("name", NON_FINITE)
def test_a_number_that_is_not_finite_is_found_and_its_step_and_environment_named(name: str):
    changes, problem = NON_FINITE[name]
    with pytest.raises(InvalidBatchError) as caught:
        counting(**changes).validate()
    assert str(caught.value) == f"policy 'policy': {problem}"


def test_the_agent_is_named_where_there_are_several():
    batch = counting(agent_id="store-7", obs=spoilt(counting().obs, (0, 0, 0)))
    with pytest.raises(InvalidBatchError, match="policy 'policy' of agent 'store-7': obs: nan"):
        batch.validate()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "flat obs": ({"obs": np.zeros(3, np.float32)}, r"obs: shape \(3,\) is not \[T >= 1, B >= 1"),
    "no steps": ({"obs": np.zeros((0, 2, 1), np.float32)}, r"obs: shape \(0, 2, 1\) is not"),
    "no environments": ({"obs": np.zeros((3, 0, 1), np.float32)}, r"obs: shape \(3, 0, 1\)"),
    "float64 obs": ({"obs": np.zeros((3, 2, 1))}, "obs: dtype float64 is not uint8 or float32"),
    "objects": ({"obs": np.full((3, 2, 1), None)}, "obs: dtype object is not"),
    "narrow action": ({"action": np.zeros((3, 2), np.int32)}, "action: dtype int32 is not int64"),
    "batch-major action": (
        {"action": np.zeros((2, 3), np.int64)},
        r"action: shape \(2, 3\) does not start with \[T, B\] = \(3, 2\)",
    ),
    "reward with an axis more": (
        {"reward": np.zeros((3, 2, 1), np.float32)},
        r"reward: shape \(3, 2, 1\) is not \[T, B\] = \(3, 2\)",
    ),
    "float64 reward": ({"reward": np.zeros((3, 2))}, "reward: dtype float64 is not float32"),
    "whole-number flags": (
        {"terminated": np.zeros((3, 2), np.uint8)},
        "terminated: dtype uint8 is not bool",
    ),
    "short flags": ({"truncated": np.zeros((2, 2), np.bool_)}, r"truncated: shape \(2, 2\) is not"),
    "extra of other steps": (
        {"extras": {"value": np.zeros((2, 2), np.float32)}},
        r"value: shape \(2, 2\) does not start with",
    ),
    "last_obs of another width": (
        {"last_obs": np.zeros((3, 1), np.float32)},
        r"last_obs: shape \(3, 1\) is not \[B, ...\] = \(2, 1\)",
    ),
    "last_obs of another dtype": (
        {"last_obs": np.zeros((2, 1), np.uint8)},
        "last_obs: dtype uint8 is not that of obs, float32",
    ),
    "final_obs without rows": ({"final_obs": np.float32(1) * np.zeros(())}, "final_obs: shape"),
    "final_obs of another shape": (
        {"final_obs": np.zeros((2, 5), np.float32)},
        r"final_obs: shape \(2, 5\) is not \[K, ...\]",
    ),
    "too few rows of final_obs": (
        {"final_obs": np.zeros((1, 1), np.float32)},
        r"final_index: shape \(2, 2\) is not \[K, 2\] = \(1, 2\)",
    ),
    "int64 index": (
        {"final_index": np.array([[0, 1], [1, 1]])},
        "final_index: dtype int64 is not int32",
    ),
    "unordered index": (
        {"final_index": np.array([[1, 1], [0, 1]], np.int32)},
        "does not name exactly the steps at which an episode ended",
    ),
    "an end nobody kept": ({"truncated": at((1, 1), (2, 0))}, "does not name exactly"),
    "an end that is none": ({"truncated": at()}, "does not name exactly"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_shapes_and_dtypes_are_named_with_what_was_expected(name: str):
    changes, problem = WRONG[name]
    with pytest.raises(InvalidBatchError, match=problem):
        counting(**changes).validate()


def result(**changes: Any) -> RolloutResult:
    job = RolloutJob(job_id="1", kind=JobKind.TRAIN, unit=JobUnit.STEPS, size=3)
    return replace(
        RolloutResult(job=job, actor_id="a", env_steps=6, batches=(counting(),)), **changes
    )


def test_a_result_is_as_sound_as_its_batches():
    result().validate()
    with pytest.raises(InvalidBatchError, match="step 0, environment 0"):
        result(batches=(counting(), counting(obs=spoilt(counting().obs, (0, 0, 0))))).validate()


def test_only_an_evaluation_may_return_no_batch():
    with pytest.raises(InvalidBatchError, match="a training job returned no batch"):
        result(batches=()).validate()
    result(batches=(), job=replace(result().job, kind=JobKind.EVAL)).validate()


def test_episode_numbers_must_agree_and_be_finite():
    one, two = EpisodeStats(lengths=np.array([3])), np.array([1.0, float("nan")])
    with pytest.raises(InvalidBatchError, match=r"episodes: \(0,\) returns and \(1,\) lengths"):
        result(episodes=one).validate()
    with pytest.raises(InvalidBatchError, match="episodes: returns: nan of episode 1"):
        result(episodes=EpisodeStats(returns=two, lengths=np.array([3, 4]))).validate()


def test_a_negative_number_of_steps_is_refused():
    with pytest.raises(InvalidBatchError, match="env_steps: -1 is negative"):
        result(env_steps=-1).validate()


def test_transitions_are_as_many_as_their_rewards():
    two = np.zeros((2, 1), np.float32)
    flags = np.zeros(2, np.bool_)
    assert (
        len(Transitions(obs=two, action=flags, reward=two[:, 0], terminated=flags, next_obs=two))
        == 2
    )
