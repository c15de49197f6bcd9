"""What a user's environment does wrong is told with its place and its own traceback."""

from __future__ import annotations

import logging
import multiprocessing.connection
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving import batch_of, drive, seeder, zeros
from env_stand_ins import Closes

from asyncrl.envs.closing import close_within
from asyncrl.envs.vector import VectorBatch
from asyncrl.errors import EnvironmentFailure


def all_end(workers: Sequence[Any]) -> bool:
    """Wait for processes to end (joining them would race with the thread that closes)."""
    return all(multiprocessing.connection.wait([worker.sentinel], 5) for worker in workers)


def test_a_crash_in_step_37_names_environment_seed_and_action_with_its_traceback() -> None:
    batch = batch_of("Crasher", 4)
    batch.reset([40, 41, 42, 43])
    for _ in range(36):
        batch.step(np.ones(4, np.int64), seeder())
    with pytest.raises(EnvironmentFailure) as caught:
        batch.step(np.ones(4, np.int64), seeder())
    failure = caught.value
    assert failure.where == "step 37 of environment 0 (seed 40, last action 1)"
    assert failure.seed == 40
    assert failure.cause == "ZeroDivisionError: division by zero"
    assert "_divide_by" in failure.traceback
    assert "asyncrl/envs/plain.py" not in failure.traceback, "it begins in the environment"


def test_the_step_number_counts_from_the_episodes_own_start() -> None:
    batch = batch_of("Crasher", 1, at=2, limit=1)
    batch.reset([1])
    for seed in (2, 3):
        assert batch.step(zeros(batch), lambda _, seed=seed: seed).terminated.all()
    crashing = batch_of("Crasher", 1, at=2)
    crashing.reset([1])
    crashing.step(zeros(crashing), seeder())
    crashing.reset([8])
    crashing.step(zeros(crashing), seeder())
    with pytest.raises(EnvironmentFailure, match=r"step 2 of environment 0 \(seed 8"):
        crashing.step(zeros(crashing), seeder())


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_a_crash_in_the_last_environment_of_a_vector_names_that_one(mode: str) -> None:
    batch = batch_of("vector", 3, env="Crasher", mode=mode, at=2)
    batch.reset([1, 2, 3])
    batch.step(zeros(batch), seeder())
    with pytest.raises(EnvironmentFailure, match=r"step 2 of environment 2 \(seed 3, last action"):
        batch.step(zeros(batch), seeder())


@pytest.mark.parametrize("env", ["Crasher", "vector"])
def test_a_failing_first_reset_says_so(env: str) -> None:
    kwargs = {"env": "Crasher"} if env == "vector" else {}
    with pytest.raises(EnvironmentFailure) as caught:
        batch_of(env, 2, at_reset=1, **kwargs).reset([31, 32])
    assert caught.value.where == "reset of environment 0 (seed 31)"
    assert caught.value.seed == 31
    assert caught.value.cause == "OSError: the level file is gone"
    assert "the level file is gone" in caught.value.traceback


@pytest.mark.parametrize("env", ["plain", "Disabled"])
def test_a_failing_reset_between_episodes_says_so(env: str) -> None:
    if env == "plain":
        batch = batch_of("Crasher", 2, at_reset=2, limit=1)
    else:
        batch = batch_of("vector", 2, env="Crasher", mode=env, at_reset=2, limit=1)
    batch.reset([31, 32])
    with pytest.raises(EnvironmentFailure, match=r"reset of environment 0 \(seed 77\)"):
        batch.step(zeros(batch), lambda _: 77)


@pytest.mark.filterwarnings("ignore:.*:UserWarning:gymnasium")
def test_a_crash_in_a_worker_process_keeps_its_traceback_and_place() -> None:
    batch = batch_of("vector", 2, env="Crasher", kind="async", mode="Disabled", at=3)
    batch.reset([1, 2])
    batch.step(zeros(batch), seeder())
    batch.step(zeros(batch), seeder())
    with pytest.raises(EnvironmentFailure) as caught:
        batch.step(zeros(batch), seeder())
    assert caught.value.where == "step 3 of environment 1 (seed 2, last action 0)"
    assert caught.value.seed == 2
    assert caught.value.cause == "ZeroDivisionError: division by zero"
    assert "_divide_by" in caught.value.traceback
    batch.close(timeout=5)


def test_a_killed_worker_process_is_named_and_the_rest_is_closed() -> None:
    batch = batch_of("vector", 2, kind="async")
    assert isinstance(batch, VectorBatch)
    batch.reset([1, 2])
    workers = batch._envs.processes  # type: ignore[attr-defined]
    os.kill(workers[1].pid, signal.SIGKILL)
    with pytest.raises(EnvironmentFailure, match=r"environment 1 .*died with exit code -9"):
        batch.step(zeros(batch), seeder())
    began = time.monotonic()
    batch.close(timeout=1)
    assert time.monotonic() - began < 3
    assert all_end(workers)


def test_worker_processes_that_hang_in_close_are_killed_at_the_deadline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    batch = batch_of("hanging_worker", 2)
    assert isinstance(batch, VectorBatch)
    batch.reset([1, 2])
    workers = batch._envs.processes  # type: ignore[attr-defined]
    assert not batch.close(timeout=0.2)
    assert all_end(workers)
    assert "vector environment of 2 did not close within 0.2 s" in caplog.text


@pytest.mark.parametrize("how", ["writes", "vector"])
def test_every_environment_is_closed_once(tmp_path: Path, how: str) -> None:
    log = tmp_path / "closed"
    if how == "vector":
        batch = batch_of("vector", 3, env="Closes", path=str(log))
    else:
        batch = batch_of("Closes", 3, path=str(log))
    assert batch.close()
    assert batch.close()
    assert log.read_text() == "closed\n" * 3


def test_a_close_that_hangs_is_given_up_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    batch = batch_of("Closes", 2, path=str(tmp_path / "closed"), how="hangs")
    began = time.monotonic()
    assert not batch.close(timeout=0.2)
    assert time.monotonic() - began < 2
    assert "environment 1 did not close within 0.2 s" in caplog.text
    Closes.released.set()


def test_a_hanging_close_does_not_keep_the_others_from_closing() -> None:
    closed: list[int] = []
    closers = {
        "environment 0": Closes("", "hangs").close,
        "environment 1": lambda: closed.append(1),
    }
    Closes.released.clear()
    assert not close_within(closers, 0.3)
    assert closed == [1]
    Closes.released.set()


def test_a_close_that_raises_is_logged_and_does_not_raise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert batch_of("Closes", 1, path=str(tmp_path), how="raises").close()
    assert "closing environment 0 failed" in caplog.text
    assert "the display is gone" in caplog.text


@pytest.mark.parametrize(
    ("what", "where", "cause"),
    [
        ("step", "step 1 of the vector environment of 2", "RuntimeError: the simulator stopped"),
        ("reset", "reset of the vector environment of 2", "RuntimeError: the simulator stopped"),
        ("reward", "step 1 of the vector environment of 2", r"reward is a .* shape \(2, 1\)"),
        ("final", "step 1 of the vector environment of 2", r"infos\['final_obs'\] does not give"),
        ("shape", "reset of the vector environment of 2", r"shape \(1, 2\), which does not fit"),
    ],
)
def test_a_vector_env_of_another_make_fails_naming_what_it_did(
    what: str, where: str, cause: str
) -> None:
    mode = "SameStep" if what == "final" else "Disabled"
    batch = batch_of("FaultyVector", 2, what=what, mode=mode)
    with pytest.raises(EnvironmentFailure, match=cause) as caught:
        drive(batch, 1)
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("mode", "steps", "seed"),
    [("NextStep", 2, "unseeded"), ("SameStep", 1, "unseeded"), ("Disabled", 1, "seed 9")],
)
def test_a_vector_envs_non_finite_first_observation_names_the_reset(
    mode: str, steps: int, seed: str
) -> None:
    batch = batch_of("vector", 2, env="WorseEachEpisode", mode=mode)
    batch.reset([1, 2])
    for _ in range(steps - 1):
        batch.step(zeros(batch), lambda _: 9)
    with pytest.raises(EnvironmentFailure, match=rf"reset of environment 0 \({seed}\)") as caught:
        batch.step(zeros(batch), lambda _: 9)
    assert caught.value.seed == (9 if mode == "Disabled" else None)


@pytest.mark.parametrize("env", ["WorseEachEpisode", "vector"])
def test_a_non_finite_last_observation_names_the_step(env: str) -> None:
    kwargs = {"env": "WorseEachEpisode", "mode": "SameStep"} if env == "vector" else {}
    batch = batch_of(env, 2, last=True, **kwargs)
    batch.reset([1, 2])
    with pytest.raises(EnvironmentFailure, match=r"step 1 of environment 0 \(seed 1, l") as caught:
        batch.step(zeros(batch), seeder())
    assert caught.value.seed == 1


def test_a_long_action_is_shortened_in_the_message() -> None:
    batch = batch_of("Observes", 1, what=None, at=1, actions=500)
    batch.reset([1])
    with pytest.raises(EnvironmentFailure) as caught:
        batch.step(zeros(batch), seeder())
    assert len(caught.value.where) < 200
