from __future__ import annotations

import itertools
import subprocess
import sys

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from asyncrl.data import derive_seed

PARTS = st.lists(st.integers() | st.text(max_size=5), max_size=4)


def test_no_two_episodes_of_a_run_share_a_seed():
    """(run seed, job, environment, episode) over 100 jobs of 8 environments."""
    episodes = itertools.product(range(2), (str(job) for job in range(100)), range(8), range(20))
    seeds = [derive_seed(*episode) for episode in episodes]
    assert len(set(seeds)) == len(seeds) == 32_000
    firsts = {np.random.default_rng(seed).random() for seed in seeds[:1000]}
    assert len(firsts) == 1000


def test_seeds_stay_what_they_were():
    """A resumed run and a reassigned job must play the same episodes with every release."""
    assert derive_seed() == 6_510_301_506_637_419_378
    assert derive_seed(1, "2.7", 3, 0) == 5_857_201_378_904_845_446
    assert derive_seed(-1, "é") == 7_726_040_380_983_260_784


def test_seeds_are_the_same_in_another_process_whatever_its_hash_seed():
    code = "from asyncrl.data import derive_seed; print(derive_seed(1, '2.7', 3, 0))"
    for hash_seed in ("1", "2"):
        printed = subprocess.check_output(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": hash_seed}, text=True
        )
        assert int(printed) == derive_seed(1, "2.7", 3, 0)


@given(parts=PARTS, others=PARTS)
def test_other_parts_or_another_order_give_another_seed(
    parts: list[int | str], others: list[int | str]
):
    same = [(type(part), part) for part in parts] == [(type(part), part) for part in others]
    assert (derive_seed(*parts) == derive_seed(*others)) is same


def test_parts_are_kept_apart():
    variants = [("ab", "c"), ("a", "bc"), ("abc",), ("a", "b", "c"), (12, 3), (1, 23), ("1", 23)]
    assert len({derive_seed(*parts) for parts in variants}) == len(variants)


def test_a_numpy_integer_is_the_same_number():
    assert derive_seed(int(np.int32(7)), "a") == derive_seed(np.int64(7), "a")  # type: ignore[arg-type]


@given(parts=PARTS)
def test_seeds_fit_in_a_signed_64_bit_integer(parts: list[int | str]):
    assert 0 <= derive_seed(*parts) < 2**63
