from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_rollouts import counting_batch, give_state, random_batch, successor

from asyncrl.data import ReplaySpec, Sequences, TrajectoryBatch
from asyncrl.errors import ConfigError, InvalidBatchError
from asyncrl.replay import SequenceReplay

STEPS = ("obs", "action", "reward", "terminated", "truncated", "next_obs", "first")


def replay_of(**settings: Any) -> SequenceReplay:
    return SequenceReplay(ReplaySpec(**settings), seed=0)


class Cut(NamedTuple):
    """One sequence: its steps, without padding, and the state before them."""

    steps: list[tuple[Any, ...]]
    state: bytes


def walk(batch: TrajectoryBatch, start: int, stop: int, b: int) -> list[tuple[Any, ...]]:
    ended = batch.terminated | batch.truncated
    return [
        (
            batch.obs[t, b].tobytes(),
            int(batch.action[t, b]),
            float(batch.reward[t, b]),
            bool(batch.terminated[t, b]),
            bool(batch.truncated[t, b]),
            successor(batch, t, b).tobytes(),
            t > 0 and bool(ended[t - 1, b]),
        )
        for t in range(start, stop)
    ]


def slow_cuts(batch: TrajectoryBatch, state: np.ndarray, spec: ReplaySpec) -> list[Cut]:
    """Return the sequences of `batch`, one step at a time, by start, then by column."""
    cuts: list[Cut] = []
    start, reached = 0, spec.burn_in  # up to `reached` nothing is left to learn from
    while reached < batch.steps:
        reached = min(batch.steps, start + spec.sequence_length)
        for b in range(batch.width):
            before = state[b] if start == 0 else np.zeros_like(state[b])
            cuts.append(Cut(walk(batch, start, reached, b), before.tobytes()))
        start += spec.stride
    return cuts


def as_cuts(sample: Sequences) -> list[Cut]:
    """Return a sample as cuts; check shapes and padding on the way."""
    length, count = sample.reward.shape
    assert sample.length == length
    assert len(sample) == count == len(sample.state)
    cuts: list[Cut] = []
    for n in range(count):
        size = int(sample.valid[:, n].sum())
        assert sample.valid[:size, n].all()
        for name in STEPS:
            assert not getattr(sample, name)[size:, n].any()
        steps = [
            (
                sample.obs[t, n].tobytes(),
                int(sample.action[t, n]),
                float(sample.reward[t, n]),
                bool(sample.terminated[t, n]),
                bool(sample.truncated[t, n]),
                sample.next_obs[t, n].tobytes(),
                bool(sample.first[t, n]),
            )
            for t in range(size)
        ]
        cuts.append(Cut(steps, sample.state[n].tobytes()))
    return cuts


def all_of(replay: SequenceReplay) -> list[Cut]:
    """Return every sequence a prioritised `replay` holds, by insertion number."""
    sample = replay.sample(4 * len(replay), 0.0)
    assert sample.index is not None
    cuts = as_cuts(sample)
    return [cuts[int(np.flatnonzero(sample.index == i)[0])] for i in sorted({*sample.index})]


settings = st.tuples(st.integers(1, 7), st.integers(0, 6), st.integers(0, 7)).filter(
    lambda each: each[1] < each[0] and each[2] <= each[0] - each[1]
)
shapes = st.tuples(st.integers(0, 2**32), st.integers(1, 15), st.integers(1, 3))


@given(options=settings, batches=st.lists(shapes, min_size=1, max_size=4))
def test_case_21_sequences_are_those_of_a_slow_walk(
    options: tuple[int, int, int], batches: list[tuple[int, int, int]]
):
    length, burn_in, stride = options
    spec = ReplaySpec(
        capacity=30 * length,
        sequence_length=length,
        burn_in=burn_in,
        sequence_stride=stride,
        prioritized=True,
    )
    replay = SequenceReplay(spec, 0)
    expected: list[Cut] = []
    for seed, steps, width in batches:
        batch = random_batch(seed, steps, width)
        state = np.random.default_rng(seed).standard_normal((width, 3)).astype(np.float32)
        give_state(batch, state)
        new = slow_cuts(batch, state, spec)
        assert replay.add(batch) == (batch.transitions if new else 0)
        expected += new
    assert replay.inserted == len(expected)
    if expected:
        assert all_of(replay) == expected[-30:]


@given(options=settings, steps=st.integers(1, 30))
def test_every_step_after_the_burn_in_can_be_learned_from(
    options: tuple[int, int, int], steps: int
):
    length, burn_in, stride = options
    replay = replay_of(
        capacity=2000,
        sequence_length=length,
        burn_in=burn_in,
        sequence_stride=stride,
        prioritized=True,
    )
    replay.add(counting_batch(0, steps))
    learned: list[int] = []
    if len(replay):
        sample = replay.sample(4 * len(replay), 0.0)
        assert sample.burn_in == burn_in
        rewards = np.unique(sample.reward, axis=1)[burn_in:]
        valid = np.unique(np.where(sample.valid, sample.reward, -1), axis=1)[burn_in:]
        learned = [int(reward) for reward in rewards[valid >= 0]]
    assert set(learned) == set(range(burn_in, steps))
    if not stride:
        assert len(learned) == len(set(learned))


def test_a_sequence_by_hand():
    """5 steps, one episode's end at step 2: sequences of 4, the first of which is burn-in."""
    obs = np.arange(5, dtype=np.float32)[:, None, None]
    ends = np.array([[0], [0], [1], [0], [0]], np.bool_)
    batch = TrajectoryBatch(
        policy_id="policy",
        policy_version=1,
        obs=obs,
        action=np.arange(5)[:, None],
        reward=np.arange(5, dtype=np.float32)[:, None],
        terminated=np.zeros_like(ends),
        truncated=ends,
        last_obs=np.array([[5]], np.float32),
        final_obs=np.array([[99]], np.float32),
        final_index=np.array([[2, 0]], np.int32),
    )
    give_state(batch, np.array([[7, 8]], np.float32))
    replay = replay_of(capacity=40, sequence_length=4, burn_in=1, prioritized=True)
    assert replay.add(batch) == 5
    assert len(replay) == replay.inserted == 2
    assert replay.capacity == 10
    sample = replay.sample(2, 0.0)  # one from each half: the first and the second
    assert sample.burn_in == 1
    assert sample.obs[:, 0, 0].tolist() == [0, 1, 2, 3]
    assert sample.next_obs[:, 0, 0].tolist() == [1, 2, 99, 4]
    assert sample.first[:, 0].tolist() == [False, False, False, True]
    assert sample.truncated[:, 0].tolist() == [False, False, True, False]
    assert sample.valid[:, 0].all()
    assert sample.state[0].tolist() == [7, 8]
    assert sample.obs[:, 1, 0].tolist() == [3, 4, 0, 0]
    assert sample.next_obs[:, 1, 0].tolist() == [4, 5, 0, 0]
    assert sample.first[:, 1].tolist() == [True, False, False, False]
    assert sample.valid[:, 1].tolist() == [True, True, False, False]
    assert sample.state[1].tolist() == [0, 0]


def test_a_recorded_state_is_used_where_a_sequence_starts_inside():
    batch = random_batch(0, 6, 2)
    states = np.random.default_rng(1).standard_normal((6, 2, 3)).astype(np.float32)
    give_state(batch, states[0])
    object.__setattr__(batch, "extras", {"state": states})
    replay = replay_of(capacity=30, sequence_length=3, burn_in=1, prioritized=True)
    replay.add(batch)
    sample = replay.sample(40, 0.0)
    assert sample.index is not None
    starts = np.array([0, 0, 2, 2, 4, 4])  # by start, then by column
    for n, number in enumerate(sample.index):
        start = starts[number]
        np.testing.assert_array_equal(sample.state[n], states[start, number % 2])
        np.testing.assert_array_equal(sample.obs[0, n], batch.obs[start, number % 2])


def test_a_policy_without_state_has_an_empty_one():
    replay = replay_of(capacity=30, sequence_length=3)
    replay.add(random_batch(0, 6, 2))
    assert replay.sample(4, 0.0).state.shape == (4, 0)


def test_a_full_replay_of_sequences_overwrites_in_turn():
    replay = replay_of(capacity=6, sequence_length=2)
    for first in range(0, 10, 2):
        replay.add(counting_batch(first, 2))
    assert (len(replay), replay.capacity, replay.inserted) == (3, 3, 5)
    assert set(replay.sample(50, 0.0).reward[0].tolist()) == {4, 6, 8}


@pytest.mark.parametrize("width", [1, 3])
def test_a_state_of_another_shape_is_refused(width: int):
    batch = random_batch(0, 6, 2)
    give_state(batch, np.zeros((width, 4), np.float32))
    with pytest.raises(InvalidBatchError, match="initial_state is"):
        replay_of(capacity=30, sequence_length=3).add(batch)


BAD: list[tuple[dict[str, int], str]] = [
    ({"sequence_length": 4, "burn_in": 4}, "burn_in=4: out of range; give less than"),
    ({"sequence_length": 4, "burn_in": 1, "sequence_stride": 4}, "between sequences further apart"),
    ({"sequence_length": 4, "n_step": 3}, "n_step=3: out of range; give 1"),
    ({"sequence_length": 4, "capacity": 3}, "capacity=3: out of range"),
    ({"burn_in": 2}, "burn_in=2: out of range; give 0, or a sequence_length"),
    ({"sequence_length": -1}, "sequence_length=-1"),
]


@pytest.mark.parametrize(("options", "problem"), BAD)
def test_settings_that_fit_no_sequence_are_refused(options: dict[str, Any], problem: str):
    with pytest.raises(ConfigError, match=problem):
        ReplaySpec(**options)
