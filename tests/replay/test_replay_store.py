from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncrl.data.replay import Overwrite
from asyncrl.errors import ConfigError
from asyncrl.replay import Store
from asyncrl.wire import decode_tree, encode_tree


def store_of(count: int, capacity: int | None = None, overwrite: Overwrite = "ring") -> Store:
    """Return a store of records (name i, loss i)."""
    store = Store(["name", "loss"], capacity, overwrite)
    store.put({"name": np.arange(count), "loss": np.arange(count, dtype=np.float32)})
    return store


def records(first: int, count: int) -> dict[str, np.ndarray]:
    names = np.arange(first, first + count)
    return {"name": names, "loss": names.astype(np.float32)}


kinds: st.SearchStrategy[Overwrite] = st.sampled_from(["ring", "random"])


@given(
    kind=kinds,
    capacity=st.one_of(st.none(), st.integers(1, 9)),
    sizes=st.lists(st.integers(0, 9), max_size=8),
)
def test_it_holds_what_was_put_where_it_says(
    kind: Overwrite, capacity: int | None, sizes: list[int]
):
    store, table, total = Store(["name", "loss"], capacity, kind, seed=1), dict[int, int](), 0
    for size in sizes:
        count = size if capacity is None else min(size, capacity)
        indexes = store.put(records(total, count))
        assert len(set(indexes.tolist())) == count
        table.update(zip(indexes.tolist(), range(total, total + count), strict=True))
        total += count
        assert len(store) == len(table) == (total if capacity is None else min(total, capacity))
        if total:
            expected = [table[i] for i in range(len(store))]
            assert store.get_by_key("name").tolist() == expected
            assert [(r["name"], r["loss"]) for r in store] == [(n, float(n)) for n in expected]


@given(capacity=st.integers(1, 9), sizes=st.lists(st.integers(1, 9), max_size=10))
def test_case_47_a_full_ring_store_overwrites_in_turn_wrapping(capacity: int, sizes: list[int]):
    """Whatever the pieces, record k is at k modulo the capacity: the newest ones are held."""
    store, total = Store(["name", "loss"], capacity), 0
    for size in sizes:
        count = min(size, capacity)
        indexes = store.put(records(total, count))
        assert indexes.tolist() == [k % capacity for k in range(total, total + count)]
        total += count
        newest = range(max(0, total - capacity), total)
        assert sorted(store.get_by_key("name").tolist()) == list(newest)


def test_case_47_by_hand():
    store = store_of(4, capacity=5)
    assert store.put(records(4, 3)).tolist() == [4, 0, 1]
    assert store.put(records(7, 2)).tolist() == [2, 3]
    assert store.put(records(9, 2)).tolist() == [4, 0]
    assert store.get_by_key("name").tolist() == [10, 6, 7, 8, 9]


def test_chosen_places_are_overwritten():
    store = store_of(4, capacity=5)
    assert store.put(records(10, 3), overwrite_indexes=[3, 1]).tolist() == [4, 3, 1]
    assert store.get_by_key("name").tolist() == [0, 12, 2, 11, 10]


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        ([1], "2 records are overwritten"),
        ([1, 2, 3], "2 records are overwritten"),
        ([1, 1], "some are the same"),
        ([1, 4], "the store holds 4 records"),
        ([-1, 0], "the store holds 4 records"),
        ([0.5, 1], "no list of indexes"),
    ],
)
def test_chosen_places_that_do_not_fit_are_refused(chosen: list[Any], problem: str):
    store = store_of(4, capacity=5)
    with pytest.raises(ConfigError, match=f"overwrite_indexes=.*{problem}"):
        store.put(records(10, 3), overwrite_indexes=chosen)
    assert store.get_by_key("name").tolist() == [0, 1, 2, 3]


def test_random_overwriting_takes_different_places_each_alike():
    store, counts = store_of(10, capacity=10, overwrite="random"), np.zeros(10)
    for first in range(10, 3010, 3):
        indexes = store.put(records(first, 3))
        assert len(set(indexes.tolist())) == 3
        counts[indexes] += 1
    assert ((counts - 300) ** 2 / 300).sum() < 27.9  # 99.9 % quantile, 9 degrees of freedom


def test_records_are_replaced_one_column_at_a_time():
    store = store_of(4)
    assert store.update([2, 0], {"loss": [0.5, 0.25]}).tolist() == [2, 0]
    assert store.get_by_key("loss").tolist() == [0.25, 1, 0.5, 3]
    assert store.get_by_key("name").tolist() == [0, 1, 2, 3]
    assert store.get([2, 2])["loss"].tolist() == [0.5, 0.5]


def test_what_is_returned_is_a_copy():
    store = store_of(4)
    for contents in (store.get([0, 1, 2, 3]), store.dump(), store.apply_filters().contents):
        contents["name"][...] = 99
    store.get_by_key("name")[...] = 99
    assert store.get_by_key("name").tolist() == [0, 1, 2, 3]


def test_columns_hold_arrays():
    store = Store(["obs"])
    obs = np.arange(600 * 6, dtype=np.uint8).reshape(600, 2, 3)
    for start in range(0, 600, 100):  # beyond what is reserved at first
        store.put({"obs": obs[start : start + 100]})
    np.testing.assert_array_equal(store.dump()["obs"], obs)
    assert store.dump()["obs"].dtype == np.uint8


# -- filters and samplers ------------------------------------------------------------------------


def test_filters_narrow_one_after_the_other():
    store, seen = store_of(10), list[list[int]]()

    def even(rows: Any) -> np.ndarray:
        seen.append(rows["name"].tolist())
        return rows["name"] % 2 == 0

    def large(rows: Any) -> np.ndarray:
        seen.append(rows["name"].tolist())
        return rows["loss"] > 3

    found = store.apply_filters(even, large)
    assert found.indexes.tolist() == [4, 6, 8]
    assert found.contents["loss"].tolist() == [4, 6, 8]
    assert seen == [list(range(10)), [0, 2, 4, 6, 8]]


NO_FLAGS: list[Callable[[Any], Any]] = [
    lambda rows: rows["name"],
    lambda rows: rows["name"][:2] > 0,
    lambda rows: True,
]


@pytest.mark.parametrize("predicate", NO_FLAGS)
def test_a_predicate_gives_a_flag_a_row(predicate: Callable[[Any], Any]):
    with pytest.raises(ConfigError, match=r"not bool \(10,\); return a flag for each row"):
        store_of(10).apply_filters(predicate)


def test_draws_are_in_proportion_to_weights():
    expected, statistics = np.array([0, 1, 2, 3, 4]) * 200, np.zeros(2)
    for seed in range(20):
        store = Store(["name", "loss"], seed=seed)
        store.put(records(0, 5))
        drawn = (store.sample(2000, [0, 1, 2, 3, 4]), store.sample_by_key("loss", 2000))
        for which, selection in enumerate(drawn):
            counts = np.bincount(selection.indexes, minlength=5)
            assert counts[0] == 0
            statistics[which] += ((counts - expected)[1:] ** 2 / expected[1:]).sum()
    assert (statistics < 110).all()  # 99.99 % quantile with 60 degrees of freedom
    assert (statistics > 26).all()  # and the 0.01 % one: too even is wrong, too


def test_draws_without_weights_are_uniform():
    counts = np.bincount(store_of(5).sample(10_000).indexes, minlength=5)
    assert ((counts - 2000) ** 2 / 2000).sum() < 18.5  # 99.9 % quantile, 4 degrees of freedom


def test_without_replacement_no_record_comes_twice():
    store = store_of(10)
    assert sorted(store.sample(10, replace=False).indexes.tolist()) == list(range(10))
    assert sorted(store.sample_by_key("loss", 9, replace=False).indexes) == list(range(1, 10))
    with pytest.raises(ConfigError, match="at most 9 records can be drawn"):
        store.sample_by_key("loss", 10, replace=False)
    with pytest.raises(ConfigError, match="at most 10 records can be drawn"):
        store.sample(11, replace=False)


def test_samplers_draw_among_what_was_drawn():
    """First the losses above 4, by weights of our own; among these only the largest name."""
    store = store_of(10)

    def above_4(rows: Any) -> np.ndarray:
        return (rows["loss"] > 4).astype(np.float64)

    def largest(rows: Any) -> np.ndarray:
        return (rows["name"] == rows["name"].max()).astype(np.float64)

    chained = store.apply_samplers((above_4, 5), (largest, 1), replace=False)
    assert chained.indexes.tolist() == [9]
    many = store.sample_by_keys(["loss", "name"], [8, 3], replace=False)
    assert len(set(many.indexes.tolist())) == 3
    assert 0 not in many.indexes


@pytest.mark.parametrize("replace", [True, False])
def test_case_49_weights_that_are_all_zero_mean_uniform_draws(replace: bool):
    store = store_of(6)
    store.update(np.arange(6), {"loss": np.zeros(6)})
    if replace:
        counts = np.bincount(store.sample_by_key("loss", 6000).indexes, minlength=6)
        assert ((counts - 1000) ** 2 / 1000).sum() < 20.6  # 99.9 %, 5 degrees of freedom
    else:
        drawn = store.sample_by_key("loss", 6, replace=False).indexes
        assert sorted(drawn.tolist()) == list(range(6))


DRAWS: list[Callable[[Store], Any]] = [
    lambda store: store.sample(1),
    lambda store: store.sample(1, replace=False),
    lambda store: store.sample_by_key("loss", 1),
    lambda store: store.apply_samplers((lambda rows: rows["loss"].max(), 1)),
]


@pytest.mark.parametrize("cleared", [True, False])
@pytest.mark.parametrize("draw", DRAWS)
def test_case_49_an_empty_store_says_so(draw: Callable[[Store], Any], cleared: bool):
    store = store_of(4) if cleared else Store(["name", "loss"])
    store.clear()
    with pytest.raises(ConfigError, match="the store is empty; put something in first"):
        draw(store)
    assert len(store) == 0
    assert list(store) == []
    assert store.apply_filters(lambda rows: rows["loss"] > 0).indexes.tolist() == []


@pytest.mark.parametrize("weights", [[1, 2], [1, -1, 1, 1], [1, np.nan, 1, 1], [np.inf, 1, 1, 1]])
def test_weights_are_finite_numbers_from_0_up(weights: list[float]):
    with pytest.raises(ConfigError, match="not 4 finite numbers from 0 up"):
        store_of(4).sample(2, weights)


def test_huge_and_tiny_weights_do_not_overflow():
    drawn = store_of(4).sample(100, [1e308, 1e308, 1e-308, 0.0]).indexes
    assert set(drawn.tolist()) == {0, 1}


# -- refusals ------------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str]] = [
    ({"name": [1, 2], "loss": [1.0]}, r"contents\['loss'\]='1 values': the columns are misaligned"),
    ({"name": [1, 2]}, r"missing \['loss'\]"),
    ({"name": [1], "loss": [1.0], "more": [1]}, r"unknown \['more'\]"),
    ({"name": [1.5], "loss": [1.0]}, r"contents\['name'\]='float64 \(\)': the column holds int64"),
    ({"name": [[1]], "loss": [1.0]}, r"contents\['name'\]='int64 \(1,\)': the column holds int64"),
    ({"name": 1, "loss": [1.0]}, r"contents\['name'\]=1: no list of values"),
    ({"name": [[1], [1, 2]], "loss": [1.0, 2.0]}, r"contents\['name'\]=.*: no list of values"),
    ({"name": range(6), "loss": range(6)}, "the store has room for 5"),
]


@pytest.mark.parametrize(("contents", "problem"), BAD)
def test_bad_records_are_refused_and_change_nothing(contents: dict[str, Any], problem: str):
    store = store_of(4, capacity=5)
    before = encode_tree(store.state())
    with pytest.raises(ConfigError, match=problem):
        store.put(contents)
    assert encode_tree(store.state()) == before


def test_the_order_of_columns_does_not_matter():
    store = store_of(1)
    store.put({"loss": [0.5], "name": [7]})
    assert store.get([1])["name"].tolist() == [7]


@pytest.mark.parametrize(
    ("indexes", "contents", "problem"),
    [
        ([4], {"loss": [1.0]}, "the store holds 4 records"),
        ([0, 1], {"loss": [1.0]}, "there are 2 indexes"),
        ([0, 0], {"loss": [1.0, 2.0]}, "some are the same"),
        ([0], {"other": [1.0]}, r"unknown \['other'\]"),
    ],
)
def test_bad_updates_are_refused(indexes: list[int], contents: dict[str, Any], problem: str):
    store = store_of(4)
    with pytest.raises(ConfigError, match=problem):
        store.update(indexes, contents)
    assert store.get_by_key("loss").tolist() == [0, 1, 2, 3]


def test_an_unknown_column_or_record_is_refused():
    store = store_of(4)
    known = r"no such column; use one of \['name', 'loss'\]"
    with pytest.raises(ConfigError, match=known):
        store.get_by_key("what")
    with pytest.raises(ConfigError, match=known):
        store.sample_by_key("what", 1)
    with pytest.raises(ConfigError, match="the store holds 4 records"):
        store.get([0, 4])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"keys": []}, "keys"),
        ({"keys": ["a", "a"]}, "keys"),
        ({"keys": ["a"], "capacity": 0}, "capacity=0"),
        ({"keys": ["a"], "overwrite": "rolling"}, "give ring or random"),
    ],
)
def test_a_store_of_nothing_is_refused(options: dict[str, Any], problem: str):
    with pytest.raises(ConfigError, match=problem):
        Store(**options)


@pytest.mark.parametrize("overwrite", ["ring", "random"])
@pytest.mark.parametrize("count", [0, 3, 8, 13])
def test_case_42_a_restored_store_goes_on_the_same(overwrite: Overwrite, count: int):
    store = Store(["name", "loss"], 8, overwrite, seed=3)
    for first in range(count):
        store.put(records(first, 1))
    saved = encode_tree(store.state())
    restored = Store(["name", "loss"], 8, overwrite, seed=99)
    restored.load_state(decode_tree(saved))
    for first in range(20, 40, 5):
        for each in (store, restored):
            each.put(records(first, 5))
        expected = store.sample_by_key("loss", 6).indexes.tolist()
        assert restored.sample_by_key("loss", 6).indexes.tolist() == expected
    assert encode_tree(store.state()) == encode_tree(restored.state())
