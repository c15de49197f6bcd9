"""An environment of the old Gym interface is told so, wherever its values are unpacked."""

from __future__ import annotations

import re

import numpy as np
import pytest
from driving import batch_of, seeder, zeros

from asyncrl.envs import EnvBatch
from asyncrl.envs.failing import EdgeError, unpack_reset, unpack_step
from asyncrl.errors import EnvironmentFailure

STEP = r"where Gymnasium expects \(observation, reward, terminated, truncated, info\)"
RESET = r"where Gymnasium expects \(observation, info\)"
VECTORS = {
    "plain": {},
    "sync": {"kind": "sync", "mode": "Disabled"},
    "async": {"kind": "async", "mode": "SameStep"},
}


def failure(name: str, /, **kwargs: object) -> EnvironmentFailure:
    batch = batch_of(name, 2, **kwargs)
    with pytest.raises(EnvironmentFailure) as caught:
        begin_and_step(batch)
    batch.close(timeout=5)
    return caught.value


def begin_and_step(batch: EnvBatch) -> None:
    batch.reset([7, 8])
    batch.step(zeros(batch), seeder())


@pytest.mark.filterwarnings("ignore:.*:UserWarning:gymnasium")
@pytest.mark.parametrize("kind", ["plain", "sync", "async"])
@pytest.mark.parametrize("what", ["step", "reset"])
def test_the_old_interface_of_a_step_or_a_reset_is_told_with_what_to_do(
    kind: str, what: str
) -> None:
    vector = VECTORS[kind]
    told = failure(*(("vector",) if vector else ("Old",)), **(vector | _old(vector, what)))
    if what == "step":
        assert told.cause.startswith("step() returned 4 values, where Gymnasium expects")
        assert re.fullmatch(r"step 1 of environment [01] \(seed [78], last action 0\)", told.where)
        assert "return terminated and truncated apart" in told.cause
    else:
        assert re.fullmatch(r"reset of environment [01] \(seed [78]\)", told.where)
        assert "where Gymnasium expects (observation, info)" in told.cause
        assert "return (observation, {})" in told.cause
    assert "old Gym" in told.cause
    assert "GymV21Environment-v0" in told.cause
    assert "unpack" not in told.cause


def _old(vector: dict[str, str], what: str) -> dict[str, object]:
    return {"what": what, "env": "Old"} if vector else {"what": what}


def test_a_time_limit_around_an_old_environment_does_not_hide_it() -> None:
    assert failure("old_with_limit", what="step").cause.startswith("step() returned 4 values")


def test_a_step_that_returns_nothing_is_told() -> None:
    assert failure("Old", what="none").cause.startswith("step() returned NoneType, where")


@pytest.mark.parametrize("what", ["step", "reset"])
def test_a_vector_env_of_the_old_interface_is_told(what: str) -> None:
    told = failure("FaultyVector", what=f"old {what}", mode="Disabled")
    assert told.where.endswith("of the vector environment of 2")
    assert told.cause.startswith(f"{what}() returned ")
    assert "where Gymnasium expects" in told.cause


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.zeros(4), r"a float64 array of shape \(4,\)"),
        (np.zeros(2), r"a float64 array of shape \(2,\)"),
        ((1, 2), "a tuple of 2 whose second value is an int and no mapping"),
        ([np.zeros(1), {}, {}], "a list of 3 values"),
        ((np.zeros(1),), "a tuple of 1 value,"),
        (None, "NoneType"),
        (3, "int 3"),
    ],
    ids=str,
)
def test_what_a_reset_returned_is_told_by_type_and_length(given: object, said: str) -> None:
    with pytest.raises(EdgeError, match=rf"^reset\(\) returned {said}.*{RESET}"):
        unpack_reset(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((0, 0.0, False, {}), "a tuple of 4 values"),
        ([1], "a list of 1 value,"),
        (np.zeros(3), r"a float64 array of shape \(3,\)"),
        (None, "NoneType"),
    ],
    ids=str,
)
def test_what_a_step_returned_is_told_by_type_and_length(given: object, said: str) -> None:
    with pytest.raises(EdgeError, match=rf"^step\(\) returned {said}.*{STEP}"):
        unpack_step(given)


def test_what_gymnasium_expects_passes_as_it_is() -> None:
    obs, info = np.zeros(2), {"a": 1}
    assert unpack_reset((obs, info)) == (obs, info)
    assert unpack_step([obs, 1.0, False, True, info]) == (obs, 1.0, False, True, info)


def test_an_error_of_the_environments_own_is_not_taken_for_an_old_interface() -> None:
    assert failure("UnpacksBadly").cause.startswith("ValueError: not enough values to unpack")
