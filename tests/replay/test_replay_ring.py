from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncrl.data import SpaceSpec, TrajectoryBatch, Transitions
from asyncrl.errors import ConfigError, InvalidBatchError, StateError
from asyncrl.replay import RingReplay
from asyncrl.wire import decode_tree, encode_tree

PLACE = SpaceSpec(kind="box", shape=(2,))
MOVES = SpaceSpec(kind="discrete", n=4, dtype="int64")
COLUMNS = ("obs", "action", "reward", "terminated", "next_obs")
Row = tuple[bytes, int, float, bool, bytes]


def rollout(seed: int, steps: int, width: int) -> TrajectoryBatch:
    """Return a batch of random numbers; a tenth of the steps end an episode, in any way."""
    rng = np.random.default_rng(seed)
    terminated = rng.random((steps, width)) < 0.2
    truncated = rng.random((steps, width)) < 0.2
    cuts = np.argwhere(terminated | truncated).astype(np.int32)
    batch = TrajectoryBatch(
        policy_id="policy",
        policy_version=1,
        obs=rng.standard_normal((steps, width, 2), np.float32),
        action=rng.integers(0, 4, (steps, width)),
        reward=rng.standard_normal((steps, width), np.float32),
        terminated=terminated,
        truncated=truncated,
        last_obs=rng.standard_normal((width, 2), np.float32),
        final_obs=rng.standard_normal((len(cuts), 2), np.float32),
        final_index=cuts,
    )
    batch.validate()
    return batch


def counting(first: int, steps: int) -> TrajectoryBatch:
    """Return a batch of one environment whose observation, action and reward count on."""
    count = np.arange(first, first + steps + 1)
    obs = np.repeat(count[:, None, None], 2, axis=2).astype(np.float32)
    never = np.zeros((steps, 1), np.bool_)
    return TrajectoryBatch(
        policy_id="policy",
        policy_version=1,
        obs=obs[:-1],
        action=count[:-1, None] % 4,
        reward=count[:-1, None].astype(np.float32),
        terminated=never,
        truncated=never,
        last_obs=obs[-1],
        final_obs=np.zeros((0, 2), np.float32),
    )


def slowly(batch: TrajectoryBatch) -> list[Row]:
    """Return the transitions of `batch` in order of time, one at a time."""
    finals = {
        (int(t), int(b)): final
        for (t, b), final in zip(batch.final_index, batch.final_obs, strict=True)
    }
    rows: list[Row] = []
    for t in range(batch.steps):
        for b in range(batch.width):
            following = batch.obs[t + 1, b] if t + 1 < batch.steps else batch.last_obs[b]
            following = finals.get((t, b), following)
            rows.append(
                (
                    batch.obs[t, b].tobytes(),
                    int(batch.action[t, b]),
                    float(batch.reward[t, b]),
                    bool(batch.terminated[t, b]),
                    following.tobytes(),
                )
            )
    return rows


def contents(replay: RingReplay) -> list[Row]:
    """Return what `replay` holds, the oldest first."""
    columns = replay.state()["columns"]
    oldest = replay.inserted % replay.capacity if replay.inserted > replay.capacity else 0
    order = np.roll(np.arange(len(replay)), -oldest)
    return [
        (
            columns["obs"][place].tobytes(),
            int(columns["action"][place]),
            float(columns["reward"][place]),
            bool(columns["terminated"][place]),
            columns["next_obs"][place].tobytes(),
        )
        for place in order
    ]


def equal(a: Transitions, b: Transitions) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in COLUMNS)


def filled(seed: int = 0, capacity: int = 20) -> RingReplay:
    replay = RingReplay(capacity, PLACE, MOVES, seed)
    replay.add(rollout(1, 9, 3))
    return replay


sizes = st.tuples(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 4))


@given(capacity=st.integers(1, 15), batches=st.lists(sizes, max_size=6))
def test_it_holds_the_newest_transitions_whatever_the_batches(
    capacity: int, batches: list[tuple[int, int, int]]
):
    replay = RingReplay(capacity, PLACE, MOVES, 0)
    oracle: deque[Row] = deque(maxlen=capacity)
    total = 0
    for seed, steps, width in batches:
        batch = rollout(seed, steps, width)
        assert replay.add(batch) == steps * width
        oracle.extend(slowly(batch))
        total += steps * width
        assert contents(replay) == list(oracle)
        assert len(replay) == min(total, capacity)
        assert replay.inserted == total


@given(batches=st.lists(sizes, min_size=1, max_size=4), draws=st.integers(1, 40))
def test_every_sample_is_a_transition_that_was_added(
    batches: list[tuple[int, int, int]], draws: int
):
    replay = RingReplay(13, PLACE, MOVES, 0)
    for batch in batches:
        replay.add(rollout(*batch))
    held = set(contents(replay))
    sample = replay.sample(draws)
    assert len(sample) == draws
    for i in range(draws):
        row = (
            sample.obs[i].tobytes(),
            int(sample.action[i]),
            float(sample.reward[i]),
            bool(sample.terminated[i]),
            sample.next_obs[i].tobytes(),
        )
        assert row in held


def test_a_full_ring_overwrites_in_turn():
    replay = RingReplay(5, PLACE, MOVES, 0)
    for first in range(0, 12, 3):
        replay.add(counting(first, 3))
    assert [reward for _, _, reward, _, _ in contents(replay)] == [7, 8, 9, 10, 11]
    assert replay.state()["columns"]["reward"].tolist() == [10, 11, 7, 8, 9]


def test_no_step_is_paired_with_the_first_observation_of_the_next_episode():
    replay = RingReplay(7, PLACE, MOVES, 0)
    for _ in range(5):  # episodes of 3 steps over and over, across the ring's seam
        obs = np.array([[[0, 0]], [[1, 0]], [[2, 0]]], np.float32)
        ends = np.array([[False], [False], [True]])
        batch = TrajectoryBatch(
            policy_id="policy",
            policy_version=1,
            obs=obs,
            action=np.zeros((3, 1), np.int64),
            reward=np.ones((3, 1), np.float32),
            terminated=np.zeros((3, 1), np.bool_),
            truncated=ends,
            last_obs=obs[0],
            final_obs=np.array([[3, 0]], np.float32),
            final_index=np.array([[2, 0]], np.int32),
        )
        replay.add(batch)
        sample = replay.sample(50)
        np.testing.assert_array_equal(sample.next_obs[:, 0], sample.obs[:, 0] + 1)
        assert not sample.terminated.any()  # cut off is not terminal


def test_the_batch_is_copied():
    replay, batch = RingReplay(5, PLACE, MOVES, 0), counting(0, 3)
    replay.add(batch)
    before = contents(replay)
    for array in (batch.obs, batch.action, batch.reward, batch.last_obs):
        array[...] = 0
    sample = replay.sample(3)
    sample.obs[...] = 99
    assert contents(replay) == before


def test_every_transition_is_drawn_alike():
    replay = RingReplay(10, PLACE, MOVES, 0)
    replay.add(counting(0, 25))
    counts = np.bincount(replay.sample(10_000).reward.astype(int), minlength=25)
    assert not counts[:15].any()
    assert (abs(counts[15:] - 1000) < 5 * np.sqrt(1000 * 0.9)).all()  # 5 standard deviations


def test_only_filled_rows_are_drawn():
    replay = RingReplay(1000, PLACE, MOVES, 0)
    replay.add(counting(1, 3))
    assert set(replay.sample(100).reward) == {1.0, 2.0, 3.0}


def test_the_seed_decides_what_is_drawn():
    assert equal(filled(3).sample(30), filled(3).sample(30))
    assert not equal(filled(3).sample(30), filled(4).sample(30))


def test_an_empty_replay_says_so():
    with pytest.raises(StateError, match="the replay is empty; add transitions"):
        RingReplay(5, PLACE, MOVES, 0).sample(1)


def test_a_sample_of_nothing_is_refused():
    with pytest.raises(StateError, match="ask for 1 or more"):
        filled().sample(0)


def test_a_ring_of_no_capacity_is_refused():
    with pytest.raises(ConfigError, match="capacity=0"):
        RingReplay(0, PLACE, MOVES, 0)


@pytest.mark.parametrize("capacity", [20, 27, 100])
def test_a_restored_replay_goes_on_as_if_nothing_had_happened(capacity: int):
    replay = filled(seed=5, capacity=capacity)
    replay.sample(7)
    saved = encode_tree(replay.state())
    restored = RingReplay(capacity, PLACE, MOVES, seed=99)
    restored.load_state(decode_tree(saved))
    for seed in range(3):
        assert equal(replay.sample(11), restored.sample(11))
        for each in (replay, restored):
            each.add(rollout(seed, 4, 2))
    assert contents(replay) == contents(restored)
    assert replay.inserted == restored.inserted


def test_a_state_holds_filled_rows_only_and_copies_none():
    replay = RingReplay(10_000, PLACE, MOVES, 0)
    replay.add(counting(0, 3))
    state = replay.state()
    assert {len(column) for column in state["columns"].values()} == {3}
    for name, column in state["columns"].items():
        assert np.shares_memory(column, replay._columns[name])
    saved = encode_tree(state)
    replay.sample(5)  # moves the random numbers on, of which the state has a copy
    assert encode_tree(state) == saved


def test_the_state_of_another_replay_is_refused_and_changes_nothing():
    state = filled(capacity=20).state()
    spaces: list[tuple[int, SpaceSpec, SpaceSpec]] = [
        (19, PLACE, MOVES),
        (21, PLACE, MOVES),
        (20, SpaceSpec(kind="box", shape=(3,)), MOVES),
        (20, SpaceSpec(kind="box", shape=(2,), dtype="uint8"), MOVES),
        (20, PLACE, SpaceSpec(kind="box", shape=(1,))),
    ]
    for capacity, observation, action in spaces:
        other = RingReplay(capacity, observation, action, 0)
        with pytest.raises(ConfigError, match="the run was started with"):
            other.load_state(state)
        assert len(other) == 0
        assert not any(column.any() for column in other._columns.values())


@pytest.mark.parametrize(
    ("observation", "action", "dtypes"),
    [
        (SpaceSpec(kind="box", shape=(4, 4), dtype="uint8"), MOVES, (np.uint8, np.int64)),
        (SpaceSpec(kind="discrete", n=7, dtype="int64"), MOVES, (np.int64, np.int64)),
        (
            SpaceSpec(kind="box", shape=(3,), dtype="float64"),
            SpaceSpec(kind="box", shape=(2,)),
            (np.float32, np.float32),
        ),
    ],
)
def test_columns_are_of_the_spaces(observation: SpaceSpec, action: SpaceSpec, dtypes: Any):
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 7, (4, 2, *observation.shape)).astype(dtypes[0])
    acted = rng.integers(0, 4, (3, 2, *action.shape)).astype(dtypes[1])
    never = np.zeros((3, 2), np.bool_)
    replay = RingReplay(10, observation, action, 0)
    replay.add(
        TrajectoryBatch(
            policy_id="policy",
            policy_version=1,
            obs=obs[:-1],
            action=acted,
            reward=np.ones((3, 2), np.float32),
            terminated=never,
            truncated=never,
            last_obs=obs[-1],
            final_obs=np.zeros((0, *observation.shape), dtypes[0]),
        )
    )
    sample = replay.sample(5)
    assert sample.obs.dtype == sample.next_obs.dtype == dtypes[0]
    assert sample.action.dtype == dtypes[1]
    assert sample.obs.shape == sample.next_obs.shape == (5, *observation.shape)
    assert sample.action.shape == (5, *action.shape)


@pytest.mark.parametrize(
    ("observation", "action", "named"),
    [
        (SpaceSpec(kind="box", shape=(1,)), MOVES, "obs is float32"),
        (SpaceSpec(kind="box", shape=(2,), dtype="uint8"), MOVES, "obs is float32"),
        (PLACE, SpaceSpec(kind="box", shape=(3,)), "action is int64"),
    ],
)
def test_a_batch_of_other_spaces_is_refused_and_changes_nothing(
    observation: SpaceSpec, action: SpaceSpec, named: str
):
    replay = RingReplay(10, observation, action, 0)
    with pytest.raises(InvalidBatchError, match=named):
        replay.add(rollout(0, 3, 2))
    assert len(replay) == replay.inserted == 0
