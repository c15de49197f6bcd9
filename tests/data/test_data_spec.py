from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from asyncrl.data import (
    EnvSpec,
    JobKind,
    JobUnit,
    PolicySpec,
    RolloutJob,
    RunSpec,
    SpaceSpec,
    check_name,
)
from asyncrl.errors import ConfigError

BOX = SpaceSpec(kind="box", shape=(2, 2), low=-1.0, high=(1.0, 2.0, 3.0, 4.0))
MOVES = SpaceSpec(kind="discrete", dtype="int64", n=3, start=-1)
POLICY = PolicySpec(observation=BOX, action=MOVES, head="categorical", hidden=(8, 5))
RUN = RunSpec(env=EnvSpec(env="CartPole-v1"), policies={"policy": POLICY})
JOB = RolloutJob(job_id="1", kind=JobKind.TRAIN, unit=JobUnit.STEPS, size=1)


def test_the_size_of_a_space_is_what_a_network_sees():
    assert BOX.size == 4
    assert replace(BOX, shape=(), high=1.0).size == 1
    assert MOVES.size == 3


def test_bounds_have_the_shape_of_the_space_in_c_order():
    low, high = BOX.bounds()
    assert low.dtype == high.dtype == np.float64
    assert low.tolist() == [[-1, -1], [-1, -1]]
    assert high.tolist() == [[1, 2], [3, 4]]
    low, high = SpaceSpec(kind="box").bounds()
    assert (low.shape, low, high) == ((), -np.inf, np.inf)


WRONG_SPACES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing to choose": ({"kind": "discrete", "n": 0}, "n=0, but a discrete space has at least"),
    "a shape of choices": ({"kind": "discrete", "n": 2, "shape": (1,)}, "but a discrete space has"),
    "no element": ({"kind": "box", "shape": (2, 0)}, "has a width below 1"),
    "a negative width": ({"kind": "box", "shape": (2, -1)}, "has a width below 1"),
    "too many dimensions": ({"kind": "box", "shape": (1,) * 7}, "7 dimensions, at most 6 can be"),
    "no numbers": ({"kind": "box", "dtype": "object"}, "dtype='object' is not the name of a NumPy"),
    "an unknown dtype": ({"kind": "box", "dtype": "f4"}, "dtype='f4' is not the name of a NumPy"),
    "too few bounds": (
        {"kind": "box", "shape": (3,), "low": (0.0, 0.0)},
        r"low has 2 numbers, but the shape \(3,\) 3",
    ),
    "bounds the wrong way round": (
        {"kind": "box", "shape": (2,), "low": (0.0, 2.0), "high": 1.0},
        "low is not at most high everywhere",
    ),
    "a bound that is no number": ({"kind": "box", "low": float("nan")}, "low is not at most high"),
}


@pytest.mark.parametrize("name", WRONG_SPACES)
def test_a_space_that_cannot_be_is_refused(name: str):
    fields, problem = WRONG_SPACES[name]
    with pytest.raises(ConfigError, match=problem) as caught:
        SpaceSpec(**fields)
    assert caught.value.field == "space"


def test_layers_lead_from_the_flat_observation_to_the_actions():
    assert POLICY.layer_sizes() == [(4, 8), (8, 5), (5, 3)]
    assert replace(POLICY, hidden=()).layer_sizes() == [(4, 3)]
    assert POLICY.outputs == 3
    with pytest.raises(ConfigError, match=r"hidden=\(8, 0\): a layer has at least one unit"):
        replace(POLICY, hidden=(8, 0))


def test_an_environment_has_a_name_and_a_number():
    with pytest.raises(ConfigError, match="give a Gymnasium id or module:attr"):
        EnvSpec(env="")
    with pytest.raises(ConfigError, match="num_envs=0: an actor steps at least one environment"):
        EnvSpec(env="CartPole-v1", num_envs=0)


def test_a_run_needs_policies_that_exist():
    with pytest.raises(ConfigError, match="a run trains at least one policy"):
        replace(RUN, policies={})
    with pytest.raises(ConfigError, match=r"agents\['a'\]='pol': no such policy; use one of polic"):
        replace(RUN, agents={"a": "pol"})
    with pytest.raises(ConfigError, match="policy id='a b'"):
        replace(RUN, policies={"a b": POLICY}, agents={})


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_the_seed_of_a_run_fits_in_64_bits(seed: int):
    with pytest.raises(ConfigError, match="does not fit in 64 bits"):
        replace(RUN, seed=seed)
    assert replace(RUN, seed=seed // 2).seed == seed // 2


def test_an_agent_acts_with_its_policy_or_with_that_of_the_star():
    run = replace(
        RUN, policies={"a": POLICY, "b": POLICY}, agents={"first": "a", "second": "b", "*": "b"}
    )
    assert [run.policy_of(agent) for agent in ("first", "second", "third")] == ["a", "b", "b"]
    with pytest.raises(ConfigError, match=r"agents='third'.* no policy is mapped to it; add it"):
        RUN.policy_of("third")


def test_a_job_has_a_name_a_size_and_an_attempt():
    with pytest.raises(ConfigError, match="job_id=''"):
        replace(JOB, job_id="")
    with pytest.raises(ConfigError, match="size=0: a job collects at least one step or episode"):
        replace(JOB, size=0)
    with pytest.raises(ConfigError, match="attempt=0: attempts count from 1"):
        replace(JOB, attempt=0)


@pytest.mark.parametrize("name", ["a", "CartPole-v1_2.3", "x" * 64])
def test_names_for_keys_and_files(name: str):
    assert check_name("run", name) == name


@pytest.mark.parametrize("name", ["", "x" * 65, "a/b", "a:b", "{a}", "a\n", "a b", "é", "\0"])
def test_names_that_would_break_keys_or_files_are_refused(name: str):
    with pytest.raises(ConfigError, match="1 to 64 letters, digits, dots, dashes or underscores"):
        check_name("run", name)
