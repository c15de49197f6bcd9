"""Every episode gets the seed it was given."""

from __future__ import annotations

import numpy as np
import pytest
from driving import batch_of, seeder, zeros

from asyncrl.errors import StateError


@pytest.mark.parametrize("env", ["Dice", "vector"])
def test_four_environments_with_distinct_seeds_begin_differently(env: str) -> None:
    batch = batch_of(env, 4, **({"env": "Dice"} if env == "vector" else {}))
    first = batch.reset([1, 2, 3, 4])
    assert len({row.tobytes() for row in first}) == 4
    np.testing.assert_array_equal(batch.reset([1, 2, 3, 4]), first)


@pytest.mark.parametrize("env", ["plain", "Disabled"])
def test_the_next_episode_begins_as_its_own_seed_says(env: str) -> None:
    if env == "plain":
        batch = batch_of("Dice", 2, limit=2)
    else:
        batch = batch_of("vector", 2, env="Dice", mode=env, limit=2)
    expected = batch.reset([71, 72])
    batch.reset([1, 2])
    batch.step(zeros(batch), seeder())
    step = batch.step(zeros(batch), lambda b: 71 + b)
    assert step.terminated.all()
    np.testing.assert_array_equal(step.obs, expected)


def test_only_environments_that_ended_ask_for_a_seed() -> None:
    asked: list[int] = []
    batch = batch_of("vector", 2, mode="Disabled")  # limits 3 and 4
    batch.reset([1, 2])
    for _ in range(4):
        batch.step(zeros(batch), lambda b: asked.append(b) or 9)
    assert asked == [0, 1]


def test_a_vector_env_of_another_make_gets_one_seed() -> None:
    batch = batch_of("NativeVector", 2, limit=2)
    assert batch.reset([11, 12]).tolist() == [[0, 11], [0, 11]]
    batch.step(zeros(batch), seeder())
    assert batch.step(zeros(batch), lambda b: 50 + b).obs.tolist() == [[0, 50], [0, 50]]


@pytest.mark.parametrize("env", ["Dice", "vector"])
def test_too_few_seeds_are_refused_by_number(env: str) -> None:
    with pytest.raises(StateError, match="2 seeds for 3 environments"):
        batch_of(env, 3).reset([1, 2])
