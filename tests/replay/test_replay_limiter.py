from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncrl.errors import ConfigError
from asyncrl.replay import SamplesPerInsertLimiter


def limiter(
    ratio: float = 8.0, batch_size: int = 64, min_size: int = 1000, ahead: int = 1024
) -> SamplesPerInsertLimiter:
    return SamplesPerInsertLimiter(
        samples_per_insert=ratio, batch_size=batch_size, min_size=min_size, ahead=ahead
    )


def test_nothing_is_drawn_before_the_smallest_size():
    limit = limiter()
    limit.inserted(999)
    assert not limit.can_sample()
    assert limit.can_insert(10**6)


def test_each_insert_allows_its_samples():
    limit = limiter(ratio=8.0, batch_size=64, min_size=1000)
    limit.inserted(1007)  # the 8 newest of them, times 8, are one draw of 64
    assert limit.can_sample()
    assert not limit.can_sample(2)
    limit.sampled()
    assert not limit.can_sample()
    limit.inserted(7)
    assert not limit.can_sample()
    limit.inserted(1)
    assert limit.can_sample()


def test_less_than_one_sample_an_insert():
    limit = limiter(ratio=0.25, batch_size=1, min_size=1)
    limit.inserted(101)
    assert limit.can_sample(25)
    assert not limit.can_sample(26)


def test_collecting_waits_when_it_is_ahead():
    limit = limiter(ratio=1.0, batch_size=10, min_size=100, ahead=50)
    limit.inserted(140)
    assert limit.can_insert(10)
    assert not limit.can_insert(11)
    limit.sampled(2)
    assert limit.can_insert(30)
    assert not limit.can_insert(31)


def test_a_piece_larger_than_all_room_goes_in_when_no_draw_is_due():
    limit = limiter(ratio=1.0, batch_size=10, min_size=100, ahead=50)
    limit.inserted(120)
    assert not limit.can_insert(500)
    limit.sampled(2)
    assert limit.can_insert(500)


settings = st.tuples(
    st.floats(0.05, 64.0), st.integers(1, 300), st.integers(1, 500), st.integers(1, 500)
)


@given(settings, st.lists(st.tuples(st.booleans(), st.integers(1, 400)), max_size=60))
def test_it_never_blocks_both_sides_and_holds_the_ratio(
    options: tuple[float, int, int, int], wishes: list[tuple[bool, int]]
):
    ratio, batch_size, min_size, ahead = options
    limit = limiter(ratio, batch_size, min_size, ahead)
    inserts = samples = 0
    for collects, count in wishes:
        assert limit.can_insert(count) or limit.can_sample()
        if collects and limit.can_insert(count):
            limit.inserted(count)
            inserts += count
            behind = inserts - min_size - samples / ratio
            assert behind <= max(ahead, count + batch_size / ratio) + 1e-6
        elif limit.can_sample():
            limit.sampled()
            samples += batch_size
            assert inserts >= min_size
            assert samples <= ratio * (inserts - min_size + 1)


def test_a_restored_limiter_allows_the_same():
    limit = limiter()
    limit.inserted(1100)
    limit.sampled(12)
    restored = limiter()
    restored.load_state(limit.state())
    for draws in range(4):
        assert limit.can_sample(draws) == restored.can_sample(draws)
    for count in range(0, 2000, 100):
        assert limit.can_insert(count) == restored.can_insert(count)


@pytest.mark.parametrize("name", ["samples_per_insert", "batch_size", "min_size", "ahead"])
def test_options_are_positive(name: str):
    options = {"samples_per_insert": 1.0, "batch_size": 1, "min_size": 1, "ahead": 1, name: 0}
    with pytest.raises(ConfigError, match=f"{name}=0"):
        SamplesPerInsertLimiter(**options)  # pyright: ignore[reportArgumentType]
