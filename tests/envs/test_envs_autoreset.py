"""A reset is never a transition, whatever the environment's way of resetting itself."""

from __future__ import annotations

import numpy as np
import pytest
from driving import batch_of, drive, seeder, zeros
from gymnasium.vector import AutoresetMode

from asyncrl.data import EnvSpec
from asyncrl.envs import make_env_batch
from asyncrl.errors import ConfigError

MODES = ["NextStep", "SameStep", "Disabled"]
KINDS = [pytest.param("sync", mode, id=f"sync-{mode}") for mode in MODES] + [
    pytest.param("async", mode, id=f"async-{mode}") for mode in MODES
]


@pytest.mark.parametrize(("kind", "mode"), KINDS)
def test_no_transition_of_a_vector_env_crosses_a_reset(kind: str, mode: str) -> None:
    batch = batch_of("vector", 3, kind=kind, mode=mode)
    recorded = drive(batch, 40)
    assert batch.close(timeout=5)
    for b, rows in enumerate(recorded.rows):
        limit = 3 + b
        # After e whole episodes of `limit` steps the observation acted on is t = 0, 1, .. again.
        expected = [float(i % limit) for i in range(len(rows))]
        assert [float(obs[0]) for obs, *_ in rows] == expected
        assert [float(following[0]) for *_, following, _ in rows] == [t + 1 for t in expected]
        assert [reward for _, reward, *_ in rows] == [t + 1 for t in expected]
        assert [ended for *_, ended in rows] == [t + 1 == limit for t in expected]
        resets = 40 // (limit + 1) if mode == "NextStep" else 0
        assert len(rows) == 40 - resets
    lengths = recorded.episodes.lengths
    assert set(lengths.tolist()) == {3, 4, 5}
    # The reward of an episode of n steps is 1 + 2 + .. + n.
    assert recorded.episodes.returns.tolist() == (lengths * (lengths + 1) / 2).tolist()


def test_no_transition_of_plain_environments_crosses_a_reset() -> None:
    recorded = drive(batch_of("Counter", 3, limit=4), 10)
    for rows in recorded.rows:
        assert [float(obs[0]) for obs, *_ in rows] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
        assert [float(following[0]) for *_, following, _ in rows] == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
        assert [reward for _, reward, *_ in rows] == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    assert recorded.episodes.returns.tolist() == [10.0] * 6


def test_a_natively_vectorised_cartpole_marks_its_reset_rows() -> None:
    spec = EnvSpec(env="gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv")
    native = make_env_batch(spec, 4)
    obs, ended = native.reset([7, 8, 9, 10]), np.zeros(4, np.bool_)
    for _ in range(60):
        step = native.step(np.ones(4, np.int64), seeder())
        np.testing.assert_array_equal(step.valid, ~ended)
        assert (np.abs(step.obs[~step.valid]) <= 0.05).all(), "a first observation lies near 0"
        assert (step.reward[~step.valid] == 0).all()
        ended, obs = step.terminated | step.truncated, step.obs
        for b, final in step.final_obs.items():
            np.testing.assert_array_equal(final, obs[b])


@pytest.mark.parametrize("ends", ["terminated", "truncated", "terminated and truncated"])
def test_terminated_and_truncated_stay_apart_as_the_environment_gave_them(ends: str) -> None:
    for batch in [
        batch_of("Counter", 2, limit=1, ends=ends),
        *(batch_of("vector", 2, limit=1, ends=ends, mode=mode) for mode in MODES),
    ]:
        batch.reset([1, 2])
        step = batch.step(zeros(batch), seeder())
        assert step.terminated.tolist() == ["terminated" in ends] * 2
        assert step.truncated.tolist() == ["truncated" in ends] * 2
        assert step.final_obs[1].tolist() == [1.0]


def test_final_observations_outlive_the_next_step() -> None:
    for batch in [batch_of("Counter", 1, limit=2), batch_of("vector", 1, limit=2, mode="Disabled")]:
        batch.reset([1])
        batch.step(zeros(batch), seeder())
        step = batch.step(zeros(batch), seeder())
        batch.step(zeros(batch), seeder())
        assert step.final_obs[0].tolist() == [2.0]
        assert step.obs.tolist() == [[0.0]]
        assert step.reward.tolist() == [2.0]


def test_a_vector_env_that_hides_its_autoreset_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"autoreset_mode=None.*AutoresetMode"):
        batch_of("NativeVector", 2, mode="")


def test_a_vector_env_of_another_width_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"num_envs=3: .* makes a vectorised environment of 2"):
        batch_of("vector_of_two", 3)
    assert batch_of("vector_of_two", 2).num_envs == 2


def test_an_id_with_only_a_vector_entry_point_is_made_vectorised() -> None:
    batch = batch_of("StandInVector-v0", 3, mode=AutoresetMode.DISABLED)
    assert batch.reset([4, 5, 6]).tolist() == [[0, 4]] * 3
    assert batch.num_envs == 3


def test_a_vector_env_known_to_insert_a_reset_as_a_step_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"shared_memory=False.*use shared_memory=True"):
        batch_of("without_shared_memory", 2, mode="NextStep")
    batch = batch_of("without_shared_memory", 2, mode="SameStep")
    assert len(drive(batch, 7).episodes) == 2
    assert batch.close()
