from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from replay_rollouts import counting_batch

from asyncrl.data import ReplaySpec
from asyncrl.data.replay import Overwrite
from asyncrl.replay import TransitionReplay
from asyncrl.replay.places import RandomPlaces, make_places

kinds: st.SearchStrategy[Overwrite] = st.sampled_from(["ring", "random"])
counts = st.lists(st.integers(0, 25), max_size=8)


@given(kind=kinds, capacity=st.integers(1, 12), batches=counts)
def test_places_and_numbers_agree_with_a_table(kind: Overwrite, capacity: int, batches: list[int]):
    """Whatever is put in, in whatever pieces: who is where, who is gone, and no one twice."""
    places, table, inserted = make_places(kind, capacity, 3), dict[int, int](), 0
    for count in batches:
        items, where = places.take(inserted, count)
        assert len(set(where.tolist())) == len(where)
        assert (np.diff(items) > 0).all()
        table.update(zip(where.tolist(), (inserted + items).tolist(), strict=True))
        inserted += count
        assert sorted(table) == list(range(min(inserted, capacity)))
        held = np.arange(len(table))
        assert places.numbers(held, inserted).tolist() == [table[i] for i in held.tolist()]
        numbers = np.arange(inserted)
        found, there = places.find(numbers, inserted)
        assert set(numbers[there].tolist()) == set(table.values())
        for number, place in zip(numbers[there], found[there], strict=True):
            assert table[int(place)] == number


@given(capacity=st.integers(1, 12), batches=counts, salt=st.integers(0, 2**63 - 1))
def test_pieces_do_not_matter_to_random_places(capacity: int, batches: list[int], salt: int):
    total = sum(batches)
    whole, pieces, inserted = RandomPlaces(capacity, salt), RandomPlaces(capacity, salt), 0
    whole.take(0, total)
    for count in batches:
        pieces.take(inserted, count)
        inserted += count
    held = np.arange(min(total, capacity))
    assert whole.numbers(held, total).tolist() == pieces.numbers(held, total).tolist()


def test_case_47_a_full_ring_overwrites_in_turn_wrapping():
    replay = TransitionReplay(ReplaySpec(capacity=5), 0)
    for first in range(0, 12, 3):
        replay.add(counting_batch(first, 3))
    assert replay.state()["columns"]["reward"].tolist() == [10, 11, 7, 8, 9]


def test_random_overwriting_takes_every_place_alike():
    places, capacity = RandomPlaces(16, 12345), 16
    places.take(0, capacity)
    _, where = zip(*(places.take(capacity + i, 1) for i in range(3200)), strict=True)
    counts = np.bincount(np.concatenate(where), minlength=capacity)
    assert ((counts - 200) ** 2 / 200).sum() < 37.7  # 99.9 % quantile, 15 degrees of freedom


def test_random_overwriting_keeps_some_old_items():
    replay = TransitionReplay(ReplaySpec(capacity=100, overwrite="random"), 0)
    for first in range(0, 200, 10):
        replay.add(counting_batch(first, 10))
    rewards = replay.state()["columns"]["reward"]
    old = int((rewards < 100).sum())
    assert 20 < old < 55  # 100 / e = 37 expected, standard deviation about 3.2
    sample = replay.sample(200, 0.0)
    assert set(sample.reward.tolist()) <= set(rewards.tolist())
    np.testing.assert_array_equal(sample.next_obs, sample.obs + 1)


def test_the_seed_decides_what_is_overwritten():
    def rewards(seed: int) -> list[float]:
        replay = TransitionReplay(ReplaySpec(capacity=10, overwrite="random"), seed)
        replay.add(counting_batch(0, 30))
        return replay.state()["columns"]["reward"].tolist()

    assert rewards(1) == rewards(1)
    assert rewards(1) != rewards(2)
