"""The container scenario's `Trajectory`, what is learned through it, and its command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from asyncrl import StepEvent
from asyncrl.actor.control import RolloutControl
from asyncrl.actor.host import RolloutHost
from asyncrl.data import (
    EnvSpec,
    JobKind,
    JobUnit,
    PolicyWeights,
    RolloutJob,
    RolloutResult,
    RunSpec,
    WeightSet,
)
from asyncrl.errors import ConfigError
from asyncrl.policies import initial_params
from examples.container_inventory.baselines import Random, no_op, play
from examples.container_inventory.env import ContainerEnv
from examples.container_inventory.evaluation import BASELINES, compare, table
from examples.container_inventory.simulator import Decision
from examples.container_inventory.training import Plan, algorithm, train
from examples.container_inventory.trajectory import (
    InventoryTrajectory,
    decayed_window,
    quantity_of,
)

if TYPE_CHECKING:
    from tests.conftest import Workplace

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = EnvSpec(
    env="examples.container_inventory.env:ContainerEnv",
    num_envs=1,
    kwargs={"ticks": 90},
    trajectory="examples.container_inventory.trajectory:InventoryTrajectory",
    trajectory_kwargs={"window": 20, "decay": 0.9},
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def decision(load: int = 0, discharge: int = 0) -> Decision:
    return Decision(tick=0, port=0, vessel=0, upcoming=(), load=load, discharge=discharge)


def test_a_window_is_what_a_loop_over_it_computes():
    signal = np.random.default_rng(0).normal(size=30)
    found = decayed_window(signal, 7, 0.8)
    weights = [0.8**k for k in range(7)]
    for tick in range(30):
        after = [signal[tick + 1 + k] if tick + 1 + k < 30 else 0.0 for k in range(7)]
        expected = sum(w * s for w, s in zip(weights, after, strict=True)) / sum(weights)
        assert found[tick] == pytest.approx(expected, abs=1e-12)
    assert decayed_window(np.array([5.0, 1.0, 3.0]), 2, 0.5) == pytest.approx([5 / 3, 2.0, 0.0])


def test_choices_are_tenths_of_the_scope():
    scope = decision(load=55, discharge=20)
    assert [quantity_of(choice, scope) for choice in (0, 1, 9, 10, 11, 19, 20)] == [
        *(-55, -49, -5, 0, 2, 18, 20)
    ]
    assert {quantity_of(choice, decision()) for choice in range(21)} == {0}


def test_features_are_what_the_agent_of_the_port_can_know():
    env = ContainerEnv()
    trajectory = InventoryTrajectory(env)
    spaces = trajectory.spaces()
    assert list(spaces) == [f"port-{k}" for k in range(4)]
    due, _ = env.reset(seed=1)
    rng = np.random.default_rng(0)
    while due is not None:
        states = trajectory.get_state(StepEvent(obs=due))
        assert list(states) == [f"port-{due.port}"]
        (state,) = states.values()
        observation = spaces[f"port-{due.port}"][0]
        assert (state.shape, state.dtype.name) == (observation.shape, observation.dtype)
        assert state.min() >= 0.0
        assert state.max() <= 1.0
        capacity = env.topology.vessels[due.vessel].capacity
        assert state[4:6].tolist() == pytest.approx([due.load / capacity, due.discharge / capacity])
        before = state.copy()
        env.simulator.orders[due.tick + 1 :] = 0  # the future is not among them
        assert np.array_equal(trajectory.features(due), before)
        due, *_ = env.step(quantity_of(int(rng.integers(21)), due))
    assert trajectory.get_state(StepEvent(obs=None, truncated=True)) == {}


def spec() -> RunSpec:
    agents = {f"port-{k}": f"p{k % 2}" for k in range(4)}
    spaces = InventoryTrajectory(ContainerEnv()).spaces()
    shape = algorithm("ppo").policy_spec(*spaces["port-0"])
    return RunSpec(env=SCENARIO, policies={"p0": shape, "p1": shape}, agents=agents, seed=3)


async def rollout(kind: JobKind = JobKind.TRAIN, size: int = 1) -> tuple[RolloutResult, Any]:
    run = spec()
    host = RolloutHost(run, "actor")
    weights = {
        name: PolicyWeights(version=1, params=initial_params(shape, seed=1))
        for name, shape in run.policies.items()
    }
    host.load(WeightSet(generation=0, version=1, policies=weights))
    job = RolloutJob(job_id="g0-train-1", kind=kind, unit=JobUnit.EPISODES, size=size)
    result = await host.run(job, RolloutControl())
    trajectory = host._scenario
    await host.close()
    return result, trajectory


async def test_each_port_gets_its_own_decisions_with_rewards_from_the_record():
    result, trajectory = await rollout()
    simulator = trajectory.env.simulator
    assert {batch.agent_id: batch.policy_id for batch in result.batches} == spec().agents
    balance = (simulator.fulfilled - simulator.shortage).sum(axis=1) / (24 + 16 + 6 + 6)
    weights = [0.9**k for k in range(20)]
    for batch in result.batches:
        ticks = trajectory.ticks[batch.agent_id]
        assert batch.obs.shape == (len(ticks), 1, 27)
        for row, tick in enumerate(ticks):
            window = balance[tick + 1 : tick + 21]
            expected = sum(w * s for w, s in zip(weights, window, strict=False)) / sum(weights)
            assert batch.reward[row, 0] == pytest.approx(expected, abs=1e-6)
        assert batch.truncated[:, 0].tolist() == [False] * (len(ticks) - 1) + [True]
        assert not batch.terminated.any()
    assert sum(batch.steps for batch in result.batches) == result.env_steps == simulator.decisions
    assert result.episodes.returns[0] == pytest.approx(
        sum(float(batch.reward.sum()) for batch in result.batches), rel=1e-5
    )


async def test_metrics_travel_with_training_and_evaluation_results():
    result, trajectory = await rollout()
    assert result.metrics == trajectory.env.metrics
    evaluated, _ = await rollout(JobKind.EVAL, size=2)
    assert evaluated.batches == ()
    assert set(evaluated.metrics) >= {"order_requirements", "container_shortage", "fulfilment"}


async def test_the_same_job_gives_the_same_batches():
    (one, _), (two, _) = await rollout(size=2), await rollout(size=2)
    assert len(one.batches) == len(two.batches) == 8  # two episodes, the second from a clean sheet
    for a, b in zip(one.batches, two.batches, strict=True):
        assert a.obs.tobytes() == b.obs.tobytes()
        assert a.reward.tobytes() == b.reward.tobytes()


def test_policies_are_compared_over_the_same_episodes():
    env = ContainerEnv(ticks=60)
    compared = compare(env, BASELINES, 3)
    assert len({found["order_requirements"] for found in compared.values()}) == 1
    by_hand = [play(env, no_op, 1_000_000 + k)["container_shortage"] for k in range(3)]
    assert compared["no-op"]["container_shortage"] == pytest.approx(np.mean(by_hand), abs=1e-4)
    drawn = [
        play(env, Random(np.random.default_rng(1_000_000 + k)), 1_000_000 + k) for k in range(3)
    ]
    short = sum(each["container_shortage"] for each in drawn)
    less = compared["random"]["less_than"]["no-op"]
    assert less == pytest.approx(1 - short / sum(by_hand), abs=1e-4)
    assert f"{-less:+.1%}" in table(compared)
    with pytest.raises(ConfigError, match="too few"):
        compare(env, BASELINES, 1)


async def test_what_was_learned_plays_the_same_every_time(tmp_path: Path):
    plan = Plan(algo="ppo", steps=100, ticks=40)
    learned = await train(plan, tmp_path)
    assert sorted(learned.policies) == [f"port-{k}" for k in range(4)]
    env = ContainerEnv(ticks=40)
    assert play(env, learned, 5) == play(env, learned, 5)
    again = await train(plan, tmp_path)
    assert play(env, again, 5) == play(env, learned, 5)


@pytest.mark.slow
async def test_a_policy_a_port_learns_to_reposition_within_seconds(tmp_path: Path):
    learned = await train(Plan(algo="dqn", steps=6_000), tmp_path)
    compared = compare(ContainerEnv(), {"learned": lambda seed: learned, **BASELINES}, episodes=5)
    less = compared["learned"]["less_than"]
    assert less["no-op"] > 0.6
    assert less["random"] > 0.5


@pytest.mark.e2e
def test_the_command_trains_over_actor_processes_and_compares(workplace: Workplace):
    command = [sys.executable, "-m", "examples.container_inventory", "--algo", "ac"]
    command += ["--remote", "1", "--steps", "600", "--ticks", "80", "--episodes", "2"]
    workplace.environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        command,
        cwd=workplace.path,
        env=workplace.environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr  # so short a training may well lose
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found["policies"]) == {"learned", "no-op", "random", "balance"}
    assert re.search(r"^learned +\d+ ", done.stdout, re.MULTILINE)


@pytest.mark.e2e
def test_the_scenario_is_named_by_import_path_as_documented(workplace: Workplace):
    command = [sys.executable, "-m", "asyncrl.learner", "--env", SCENARIO.env]
    command += ["--trajectory", str(SCENARIO.trajectory)]
    documented = (ROOT / "examples" / "container_inventory" / "README.md").read_text()
    documented = " ".join(documented.replace("\\\n", "").split())
    assert " ".join(["python", *command[1:]]) in documented
    command += ["--actors", "1", "--total-steps", "400", "--run", "ports"]
    command += ["--env-kwargs", '{"ticks": 60}']
    workplace.environment["PYTHONPATH"] = str(ROOT)
    assert "results in runs/ports" in workplace.run(command).stdout
