from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from asyncrl.testing import envs


@pytest.mark.parametrize(
    "env",
    [envs.Counter(), envs.SeededCounter(), envs.SlowCounter(0.0), envs.CrashesAtStep(10_000)],
    ids=lambda env: type(env).__name__,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_counters_are_sound_environments(env: envs.Counter) -> None:
    check_env(env, skip_render_check=True)


@pytest.mark.parametrize("truncate", [False, True])
def test_an_episode_counts_to_its_length(truncate: bool) -> None:
    env = envs.Counter(3, truncate=truncate)
    obs, _ = env.reset(seed=1)
    assert obs.tolist() == [0.0]
    steps = [env.step(0) for _ in range(3)]
    assert [step[0].tolist() for step in steps] == [[1.0], [2.0], [3.0]]
    assert [step[1] for step in steps] == [1.0, 2.0, 3.0]
    assert [step[2] for step in steps] == [False, False, not truncate]
    assert [step[3] for step in steps] == [False, False, truncate]


def test_seeds_tell_episodes_apart() -> None:
    firsts = {float(envs.SeededCounter().reset(seed=seed)[0][0]) for seed in range(50)}
    assert len(firsts) == 50


def test_each_breaks_in_its_own_way(tmp_path: Path) -> None:
    crashing = envs.CrashesAtStep(1)
    crashing.reset()
    with pytest.raises(ValueError, match="on purpose in step 1"):
        crashing.step(0)
    once = envs.CrashesOnce(str(tmp_path / "crashed"))
    once.reset()
    once.step(0)
    once.step(0)
    with pytest.raises(ValueError, match="once"):
        once.step(0)
    assert once.step(0)[1] == 3.0
    with pytest.raises(RuntimeError, match="no licence"):
        envs.RaisesWhenMade()
    closing = envs.WritesWhenClosed(str(tmp_path / "trace"))
    closing.close()
    assert (tmp_path / "trace").read_text() == "closed\n"
    nan = envs.NanObservation(1)
    nan.reset()
    assert np.isnan(nan.step(0)[0]).all()
    bounded = envs.BoundedActions()
    bounded.reset()
    bounded.step(np.array([2.0], np.float32))
    with pytest.raises(ValueError, match="is not in Box"):
        bounded.step(np.array([1.9], np.float32))
