"""Actions and observations at the environment's edge."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest
from driving import batch_of, seeder, zeros

from asyncrl.data import SpaceSpec
from asyncrl.envs import EnvBatch
from asyncrl.envs.edges import ActionEdge
from asyncrl.errors import DataError, EnvironmentFailure

INF = math.inf


def acted(batch: EnvBatch, action: np.ndarray) -> list[np.ndarray]:
    """Return the action each environment got."""
    batch.reset(list(range(batch.num_envs)))
    batch.step(action, seeder())
    return kept(batch)


def kept(batch: EnvBatch) -> list[Any]:
    """Return the action that each environment, plain or in a `SyncVectorEnv`, got last."""
    made: Any = batch
    return [env.got for env in getattr(made._envs, "envs", made._envs)]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (2, 10, [2, 10]),
        (-INF, INF, [-50, 50]),
        (0, INF, [0, 50]),
        (-INF, 0, [-50, 0]),
        ([2, -INF], [INF, 3], [2, 3]),
    ],
    ids=["box", "infinite", "above", "below", "by element"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("vector", [False, True])
def test_box_actions_are_clipped_to_whatever_bounds_there_are(
    low: object, high: object, expected: list[float], dtype: str, vector: bool
) -> None:
    kwargs = {"low": low, "high": high, "dtype": dtype} | ({"env": "Acts"} if vector else {})
    batch = batch_of("vector" if vector else "Acts", 2, **kwargs)
    raw = np.array([[-50, 50], [-50, 50]], np.float32)
    got = acted(batch, raw)
    assert [action.tolist() for action in got] == [expected] * 2
    assert got[0].dtype == dtype
    assert raw.tolist() == [[-50, 50], [-50, 50]], "the stored action stays raw"


def test_integer_boxes_get_rounded_integers() -> None:
    batch = batch_of("Acts", 1, low=0, high=255, dtype="uint8")
    (action,) = acted(batch, np.array([[-3.2, 99.6]], np.float32))
    assert action.tolist() == [0, 100]
    assert action.dtype == np.uint8


def test_an_environment_cannot_change_the_stored_action_through_what_it_got() -> None:
    raw = np.ones((1, 2), np.float32)
    (action,) = acted(batch_of("Acts", 1, low=-INF, high=INF), raw)
    action[:] = 5
    assert raw.tolist() == [[1, 1]]


@pytest.mark.parametrize("vector", [False, True])
def test_discrete_spaces_count_from_zero_inside_and_from_start_outside(vector: bool) -> None:
    batch = batch_of("vector", 2, env="Shifted") if vector else batch_of("Shifted", 2)
    obs = batch.reset([1, 2])
    assert obs.tolist() == [0, 0]
    assert obs.dtype == np.int64
    step = batch.step(np.array([0, 2]), seeder())
    assert [int(action) for action in kept(batch)] == [-1, 1]
    assert step.obs.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("action", "given"),
    [
        (np.zeros((2, 3), np.float32), r"float32 array of shape \(2, 3\)"),
        (np.zeros(2, np.float32), r"float32 array of shape \(2,\)"),
        (np.zeros((1, 2), np.float32), r"float32 array of shape \(1, 2\)"),
        (np.array([["a", "b"]] * 2), r"array of shape \(2, 2\)"),
    ],
)
@pytest.mark.parametrize("env", ["Acts", "vector"])
def test_a_wrong_shaped_box_action_fails_naming_shape_and_space(
    env: str, action: np.ndarray, given: str
) -> None:
    kwargs = {"env": "Acts"} if env == "vector" else {}
    batch = batch_of(env, 2, low=2, high=10, **kwargs)
    batch.reset([1, 2])
    with pytest.raises(DataError, match=given) as caught:
        batch.step(action, seeder())
    assert "Box(2, 10, (2,), float32) take numbers of shape (2, 2)" in str(caught.value)


@pytest.mark.parametrize(
    "action", [np.zeros((2, 1), np.int64), np.zeros(3, np.int64), np.zeros(2, np.float32)]
)
def test_a_wrong_shaped_discrete_action_fails_naming_shape_and_space(action: np.ndarray) -> None:
    batch = batch_of("Shifted", 2)
    batch.reset([1, 2])
    with pytest.raises(DataError, match=r"Discrete\(3, start=-1\) take integers of shape \(2,\)"):
        batch.step(action, seeder())


@pytest.mark.parametrize("bad", [-1, 3])
def test_a_discrete_action_out_of_range_fails_naming_the_environment(bad: int) -> None:
    batch = batch_of("Shifted", 2)
    batch.reset([1, 2])
    with pytest.raises(DataError, match=rf"action {bad} for environment 1: .*Discrete\(3"):
        batch.step(np.array([0, bad]), seeder())


def test_a_non_finite_action_fails_naming_the_environment() -> None:
    batch = batch_of("Acts", 2, low=-1, high=1)
    batch.reset([1, 2])
    with pytest.raises(DataError, match=r"action .* for environment 1 is not finite"):
        batch.step(np.array([[0, 0], [0, np.nan]], np.float32), seeder())


@pytest.mark.parametrize("env", ["plain", "NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_non_finite_observation_is_caught_naming_environment_and_step(
    env: str, bad: float
) -> None:
    kwargs = {"what": np.array([1, bad], np.float32), "at": 3}
    if env == "plain":
        batch = batch_of("Observes", 2, **kwargs)
    else:
        batch = batch_of("vector", 2, env="Observes", mode=env, **kwargs)
    batch.reset([21, 22])
    batch.step(zeros(batch), seeder())
    batch.step(zeros(batch), seeder())
    where = r"step 3 of environment 0 \(seed 21, last action 0\): the observation is not finite"
    with pytest.raises(EnvironmentFailure, match=rf"{where}: {bad} at index \[1\]"):
        batch.step(zeros(batch), seeder())


@pytest.mark.parametrize("env", ["Observes", "vector"])
def test_a_non_finite_first_observation_names_the_reset(env: str) -> None:
    kwargs = {"env": "Observes"} if env == "vector" else {}
    batch = batch_of(env, 2, what=np.full(2, np.nan, np.float32), **kwargs)
    with pytest.raises(EnvironmentFailure, match=r"reset of environment 0 \(seed 5\)"):
        batch.reset([5, 6])


@pytest.mark.parametrize("env", ["Observes", "vector"])
@pytest.mark.parametrize("bad", [math.nan, 1e300])
def test_a_reward_that_is_no_float32_is_caught_naming_the_step(env: str, bad: float) -> None:
    kwargs = {"env": "Observes"} if env == "vector" else {}
    batch = batch_of(env, 2, what=np.ones(2, np.float32), reward=bad, **kwargs)
    batch.reset([5, 6])
    with pytest.raises(EnvironmentFailure, match=r"step 1 of environment 0 .*the reward "):
        batch.step(zeros(batch), seeder())


@pytest.mark.parametrize(("reward", "number"), [(np.array([2.5]), 2.5), (3, 3), (True, 1)])
def test_rewards_of_other_types_become_numbers(reward: object, number: float) -> None:
    batch = batch_of("Observes", 1, what=np.ones(2, np.float32), reward=reward)
    batch.reset([5])
    step = batch.step(zeros(batch), seeder())
    assert step.reward.tolist() == [number]
    assert step.reward.dtype == np.float32


@pytest.mark.parametrize("reward", [None, "much", np.ones(2)])
def test_a_reward_that_is_no_number_is_named(reward: object) -> None:
    batch = batch_of("Observes", 1, what=np.ones(2, np.float32), reward=reward)
    batch.reset([5])
    with pytest.raises(EnvironmentFailure, match=r"step 1 of environment 0 .*is not a number"):
        batch.step(zeros(batch), seeder())


@pytest.mark.parametrize("env", ["Observes", "vector"])
def test_float64_observations_are_cast_once_and_warned_about_once(
    env: str, caplog: pytest.LogCaptureFixture
) -> None:
    kwargs = {"env": "Observes"} if env == "vector" else {}
    batch = batch_of(env, 1, what=np.array([0.1, 7]), dtype="float64", **kwargs)
    assert batch.observation.dtype == "float64"
    obs = batch.reset([5])
    assert obs.dtype == batch.step(zeros(batch), seeder()).obs.dtype == np.float32
    assert obs.tolist() == [[np.float32(0.1), 7]]
    assert not caplog.records, "its space says float64, so there is nothing to warn about"
    with caplog.at_level(logging.WARNING):
        surprising = batch_of("Observes", 1, what=np.array([0.1, 7]))
        surprising.reset([5])
        surprising.step(zeros(surprising), seeder())
    assert [record.message for record in caplog.records] == [
        "the environment observes float64 where its space says Box(0, 10, (2,), float32); casting"
    ]


@pytest.mark.parametrize("env", ["Observes", "vector"])
def test_uint8_observations_stay_uint8(env: str) -> None:
    kwargs = {"env": "Observes"} if env == "vector" else {}
    batch = batch_of(env, 1, what=np.array([0, 255], np.uint8), dtype="uint8", **kwargs)
    obs = batch.reset([5])
    assert obs.dtype == batch.step(zeros(batch), seeder()).obs.dtype == np.uint8
    assert obs.tolist() == [[0, 255]]


def test_fractions_in_a_uint8_space_are_refused_rather_than_cut_to_zero() -> None:
    whole = batch_of("Observes", 1, what=np.array([3.0, 200.0]), dtype="uint8")
    assert whole.reset([5]).tolist() == [[3, 200]]
    with pytest.raises(EnvironmentFailure, match=r"float64 numbers that do not fit .*uint8"):
        batch_of("Observes", 1, what=np.array([0.5, 1.0]), dtype="uint8").reset([5])


def test_out_of_range_observations_do_not_end_the_run() -> None:
    batch = batch_of("Observes", 1, what=np.array([-3, 99], np.float32))
    assert batch.reset([5]).tolist() == [[-3, 99]]


@pytest.mark.parametrize(
    ("what", "given"),
    [
        (np.ones(1, np.float32), r"float32 array of shape \(1,\)"),
        (np.ones((2, 1), np.float32), r"float32 array of shape \(2, 1\)"),
        (1.5, "float 1.5"),
        ({"a": 1}, "dict"),
        ([[1], [1, 2]], "list"),
        (None, "NoneType"),
    ],
)
def test_a_wrong_shaped_observation_is_caught_naming_both_shapes(what: object, given: str) -> None:
    batch = batch_of("Observes", 2, what=what, at=1)
    batch.reset([5, 6])
    with pytest.raises(EnvironmentFailure, match=given) as caught:
        batch.step(zeros(batch), seeder())
    assert caught.value.where == "step 1 of environment 0 (seed 5, last action 0)"
    assert "Box(0, 10, (2,), float32)" in caught.value.cause


@pytest.mark.parametrize(("obs", "env"), [(0, "Tells"), (1.5, "Tells"), (0, "vector")])
def test_a_discrete_observation_outside_its_space_is_caught(obs: object, env: str) -> None:
    kwargs = {"env": "Tells"} if env == "vector" else {}
    batch = batch_of(env, 2, what=obs, **kwargs)
    with pytest.raises(EnvironmentFailure, match=r"does not fit its space Discrete\(10, start=5\)"):
        batch.reset([1, 2])


def test_a_flat_action_takes_the_shape_of_its_space() -> None:
    edge = ActionEdge(SpaceSpec(kind="box", shape=(2, 2), low=-1.0, high=1.0), 3)
    flat = np.arange(12, dtype=np.float32).reshape(3, 4) / 12
    np.testing.assert_array_equal(edge.convert(flat), flat.reshape(3, 2, 2))


def test_lists_of_numbers_are_observations_too() -> None:
    batch = batch_of("Observes", 1, what=[1, 2])
    obs = batch.reset([5])
    assert obs.tolist() == [[1, 2]]
    assert obs.dtype == np.float32


def test_a_step_writes_into_fresh_arrays() -> None:
    batch = batch_of("Counter", 2, limit=10)
    first = batch.reset([1, 2])
    one = batch.step(zeros(batch), seeder())
    two = batch.step(zeros(batch), seeder())
    assert first.tolist() == [[0], [0]]
    assert one.obs.tolist() == [[1], [1]]
    assert one.reward.tolist() == [1, 1]
    assert two.reward.tolist() == [2, 2]
