"""Environments are found by id or import path, or it is said what to write instead."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from driving import batch_of, zeros
from env_stand_ins import Counter
from gymnasium.envs.registration import EnvSpec as GymnasiumSpec

from asyncrl.data import Allowed, EnvSpec, SpaceSpec
from asyncrl.envs import describe, make_env, make_env_batch, space_spec
from asyncrl.errors import ConfigError, EnvironmentFailure, NotAllowed


def test_a_gymnasium_id_is_made_with_its_kwargs_and_time_limit() -> None:
    description = describe(EnvSpec(env="CartPole-v1"))
    assert description.observation.shape == (4,)
    assert description.action == SpaceSpec(kind="discrete", dtype="int64", n=2)
    shorter = make_env(EnvSpec(env="CartPole-v1", kwargs={"max_episode_steps": 2}))
    shorter.reset(seed=1)
    assert [shorter.step(0)[3] for _ in range(2)] == [False, True]


def test_an_import_path_is_called_with_the_kwargs() -> None:
    env = make_env(EnvSpec(env="env_stand_ins:Counter", kwargs={"limit": 1}))
    assert isinstance(env, Counter)
    env.reset(seed=1)
    assert env.step(0)[2] is True


def test_a_vector_env_is_described_by_one_of_its_environments() -> None:
    description = describe(EnvSpec(env="env_stand_ins:vector", kwargs={"kind": "async"}))
    assert description.observation.shape == (1,)
    assert description.action.n == 2


def test_an_id_that_a_users_module_registers_is_found_through_the_module() -> None:
    env = make_env(EnvSpec(env="env_stand_ins:asyncrl-tests/StandIn-v1"))
    assert env.spec is not None
    assert env.spec.max_episode_steps == 4


def test_an_id_without_a_version_means_the_newest(caplog: pytest.LogCaptureFixture) -> None:
    env = make_env(EnvSpec(env="env_stand_ins:StandIn"))
    assert env.spec is not None
    assert env.spec.id == "StandIn-v3"
    assert "using 'StandIn-v3'" in caplog.text


@pytest.mark.parametrize(
    ("given", "near"), [("CartPol-v1", "CartPole-v1"), ("cartpole-v7", "Cart")]
)
def test_an_unknown_id_gives_near_matches_and_the_way_to_name_ones_own(
    given: str, near: str
) -> None:
    with pytest.raises(ConfigError, match="did you mean") as caught:
        make_env(EnvSpec(env=given))
    assert near in caught.value.fix
    assert "package.module:attr" in caught.value.fix
    assert "package.module:Name-v0" in caught.value.fix


def test_an_id_like_nothing_known_still_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"check the spelling.*package\.module:attr"):
        make_env(EnvSpec(env="qqqqqqqqqqqqqq"))


def test_an_unknown_attribute_gives_near_matches_of_the_module() -> None:
    with pytest.raises(ConfigError, match="did you mean env_stand_ins:Counter") as caught:
        make_env(EnvSpec(env="env_stand_ins:Countr"))
    assert "no attribute 'Countr'" in str(caught.value)


@pytest.mark.parametrize("env", ["no_such_module:Env", "no_such_module:CartPole-v1", ":x", "json:"])
def test_a_bad_import_path_is_one_clear_error(env: str) -> None:
    with pytest.raises(ConfigError, match=r"env='.*(no module|not an import path)"):
        make_env(EnvSpec(env=env))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("NUMBER", "int, which cannot be called"),
        ("not_an_env", "it made a builtins.list"),
        ("vector_of_two", "vectorised environment where a single one"),
    ],
)
def test_a_path_to_something_else_than_an_environment_is_refused(name: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make_env(EnvSpec(env=f"env_stand_ins:{name}"))


def test_a_failing_constructor_carries_its_own_traceback() -> None:
    with pytest.raises(EnvironmentFailure) as caught:
        make_env(EnvSpec(env="env_stand_ins:Broken"))
    assert caught.value.where == "making environment 'env_stand_ins:Broken'"
    assert caught.value.cause == "FileNotFoundError: no level called 7"
    assert "_load_the_level" in caught.value.traceback


def test_a_constructor_that_exits_is_a_failure_like_any_other() -> None:
    with pytest.raises(EnvironmentFailure, match="SystemExit: 3"):
        make_env(EnvSpec(env="env_stand_ins:quits"))


def test_environments_made_before_one_failed_are_closed(tmp_path: Path) -> None:
    log = tmp_path / "closed"
    with pytest.raises(EnvironmentFailure):
        batch_of("Broken", 3, good=2, log=str(log))
    assert log.read_text() == "closed\n" * 2


def test_a_module_that_fails_to_import_carries_its_own_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module_7.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="importing 'broken_module_7'") as caught:
        make_env(EnvSpec(env="broken_module_7:Env"))
    assert "import no_such_dependency" in caught.value.traceback


@pytest.mark.parametrize(
    ("kind", "shown"), [("multi", "MultiDiscrete"), ("tuple", "Tuple"), ("dict", "Dict")]
)
def test_unsupported_spaces_are_one_clear_error_at_start(kind: str, shown: str) -> None:
    spec = EnvSpec(env="env_stand_ins:Spaced", kwargs={"kind": kind})
    for start in (lambda: describe(spec), lambda: make_env_batch(spec, 2)):
        with pytest.raises(ConfigError, match=rf"action space={shown}.*only Box and Discrete"):
            start()


@pytest.mark.parametrize("wide", [0, 3])
@pytest.mark.parametrize("where", ["observation", "action"])
def test_a_space_without_elements_is_one_clear_error_at_start(where: str, wide: int) -> None:
    spec = EnvSpec(env="env_stand_ins:nothing_to_see", kwargs={"where": where, "wide": wide})
    for start in (lambda: describe(spec), lambda: make_env_batch(spec, 2)):
        with pytest.raises(ConfigError, match=rf"{where} space=Box.*has no elements.*one number"):
            start()
    with pytest.raises(ConfigError, match=r"width below 1"):
        SpaceSpec(kind="box", shape=(0,))


def test_spaces_become_data_with_one_bound_where_all_share_it() -> None:
    box = gymnasium.spaces.Box(-1, np.inf, (2, 3), np.float64)
    assert space_spec(box) == SpaceSpec(
        kind="box", shape=(2, 3), dtype="float64", low=-1.0, high=np.inf
    )
    uneven = gymnasium.spaces.Box(np.array([0, 1], np.float32), np.array([5, 5], np.float32))
    assert space_spec(uneven).low == (0.0, 1.0)
    assert space_spec(uneven).high == 5.0
    assert space_spec(gymnasium.spaces.Discrete(4, start=-2)) == SpaceSpec(
        kind="discrete", dtype="int64", n=4, start=-2
    )


def test_gymnasiums_advice_is_no_error_for_users_who_turn_warnings_into_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        describe(EnvSpec(env="CartPole-v0"))  # out of date
    with warnings.catch_warnings(record=True) as shown:
        make_env(EnvSpec(env="env_stand_ins:Counter"))
    assert not shown


def test_kwargs_are_not_shared_between_environments() -> None:
    given = {"what": [1, 2]}
    batch = make_env_batch(EnvSpec(env="env_stand_ins:Observes", kwargs=given), 2)
    batch.reset([1, 2])
    assert batch._envs[0]._what is not batch._envs[1]._what  # type: ignore[attr-defined]
    assert zeros(batch).tolist() == [0, 0]


def test_environments_of_different_spaces_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"environment 1 differs from environment 0.*Discrete\(2"):
        batch_of("changing", 2)


@pytest.mark.parametrize("num_envs", [0, -1])
def test_a_batch_has_at_least_one_environment(num_envs: int) -> None:
    with pytest.raises(ConfigError, match="num_envs"):
        make_env_batch(EnvSpec(env="CartPole-v1"), num_envs)


HERE = Allowed(("env_stand_ins",))


@pytest.mark.parametrize("env", ["CartPole-v1", "env_stand_ins:Counter", "env_stand_ins:StandIn"])
def test_what_is_registered_or_allowed_is_made(env: str) -> None:
    make_env(EnvSpec(env=env), HERE).close()
    make_env_batch(EnvSpec(env=env), 2, HERE).close(5.0)


@pytest.mark.parametrize("env", ["env_stand_ins:np.zeros", "env_stand_ins:gymnasium.make"])
def test_a_refused_attribute_is_not_looked_for_among_the_ids(env: str) -> None:
    for start in (
        lambda: make_env(EnvSpec(env=env), HERE),
        lambda: make_env_batch(EnvSpec(env=env), 2, HERE),
    ):
        with pytest.raises(NotAllowed, match=r"it leads to module .*--allow [\w.]+ as well"):
            start()


def test_an_environment_of_the_old_gym_package_is_not_made_from_what_is_not_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def convert(**kwargs: Any) -> Counter:
        made.append(kwargs["env_id"])
        return Counter()

    shim = GymnasiumSpec("GymV26Environment-v0", convert)
    monkeypatch.setitem(gymnasium.registry, shim.id, shim)
    for name in (shim.id, "GymV26Environment", f"env_stand_ins:{shim.id}"):
        with pytest.raises(NotAllowed, match=r"env_id='os:House-v0'"):
            make_env(EnvSpec(env=name, kwargs={"env_id": "os:House-v0"}), HERE)
    assert made == []
    make_env(EnvSpec(env=shim.id, kwargs={"env_id": "House-v0"}), HERE)
    assert made == ["House-v0"]
