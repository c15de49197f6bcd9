"""Training a policy for every port, here or over actor processes, and playing what was learned."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import numpy as np

import asyncrl
import asyncrl.algorithms
from asyncrl.cli.supervise import Fleet
from asyncrl.errors import sole_cause
from asyncrl.metrics import Event, Fanout, Message, Progress, Sink
from asyncrl.policies import Policy
from asyncrl.proxy import Collector
from examples.container_inventory.env import ContainerEnv
from examples.container_inventory.simulator import Decision
from examples.container_inventory.trajectory import InventoryTrajectory, agent_of

AlgorithmName = Literal["dqn", "ac", "ppo"]

DQN: dict[str, Any] = {
    "gamma": 0.0,  # the reward itself looks ahead, over its window
    "learning_rate": "linear:0.001:0",
    "epsilon": "linear:1.0:0.02:0.6",
    "buffer_size": 3_000,  # what a port should do depends on the others, who learn as well
    "learning_starts": 1_000,
    "samples_per_insert": 4.0,
    "hidden": (64, 64),
    "target_update_interval": 100,
}
PPO: dict[str, Any] = {
    "gamma": 0.0,
    "lam": 1.0,
    "learning_rate": "linear:0.002:0.0002",
    "entropy_coef": 0.003,
    "epochs": 8,
    "minibatch_size": 128,
    "hidden": (64, 64),
    "value_hidden": (64, 64),
}
ACTOR_CRITIC: dict[str, Any] = {
    "gamma": 0.0,
    "learning_rate": "linear:0.005:0.0005",
    "entropy_coef": 0.003,
    "hidden": (64, 64),
}
JOBS_PER_ROUND = {"PPO": 4, "A2C": 1}
"""Episodes of one update, at least; A2C makes a single step with each, so that many are needed."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to train, and how long."""

    algo: AlgorithmName = "dqn"
    """dqn learns off-policy; ac (actor-critic) and ppo on-policy."""
    steps: int = 40_000
    """Decisions to learn from, of all ports together."""
    seed: int = 0
    """Seed of the training; the evaluation has seeds of its own."""
    remote: int = 0
    """Actor processes that collect over a server of their own; 0 collects in this process."""
    topology: str | Mapping[str, Any] = "four-ports"
    """What the environment takes."""
    ticks: int | None = None
    """Ticks of an episode; None for the topology's own."""
    trajectory: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of `InventoryTrajectory`."""


@dataclass(frozen=True)
class Learned:
    """The policies that a training ended with."""

    trajectory: InventoryTrajectory
    policies: Mapping[str, Policy]

    def __call__(self, env: ContainerEnv, decision: Decision) -> int:
        """Choose the quantity greedily; `env` is the one that was trained for."""
        event = asyncrl.StepEvent(obs=decision)
        self.trajectory.env = env
        ((agent, state),) = self.trajectory.get_state(event).items()
        rng = np.random.default_rng(0)  # greedy policies draw nothing
        acted = self.policies[agent].act(state[None], rng, exploration={}, greedy=True)
        return self.trajectory.get_action({agent: acted.action[0]}, event)


class Printer:
    """A sink that prints a line of progress now and then."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._next = every

    def write(self, event: Event) -> None:
        """Print a line for every so many decisions, and what else is to be said."""
        if isinstance(event, Message):
            print(event.text, file=sys.stderr)
        if isinstance(event, Progress) and event.env_steps >= self._next:
            self._next = event.env_steps + self._every
            short = event.env_metrics.get("container_shortage", float("nan"))
            print(
                f"{event.env_steps:>7} decisions  {event.seconds:6.1f} s  mean return "
                f"{event.mean_return or 0:7.2f}  shortage of the last job {short:8.0f}",
                flush=True,
            )

    def close(self) -> None:
        """Do nothing."""


async def train(plan: Plan, folder: Path, sinks: tuple[Sink, ...] = ()) -> Learned:
    """Train one policy a port and return them."""
    kwargs: dict[str, Any] = {"topology": plan.topology, "ticks": plan.ticks}
    scenario: dict[str, Any] = {
        "kwargs": kwargs,
        "trajectory": InventoryTrajectory,
        "trajectory_kwargs": plan.trajectory,
        "envs": 1,
    }
    if not plan.remote:
        result = await _learner(plan, asyncrl.Actor(ContainerEnv, **scenario), sinks).run()
    else:
        try:
            result = await _train_remotely(plan, scenario, folder, sinks)
        except BaseExceptionGroup as group:
            raise sole_cause(group) from None
    trajectory = InventoryTrajectory(ContainerEnv(**kwargs), **plan.trajectory)
    return Learned(trajectory, result.policies)


async def _train_remotely(
    plan: Plan, scenario: dict[str, Any], folder: Path, sinks: tuple[Sink, ...]
) -> asyncrl.RunResult:
    """Train over actor processes that a server of our own connects with the learner."""
    run = f"containers-{plan.algo}-{plan.seed}"
    async with (
        asyncrl.EmbeddedServer() as server,
        asyncrl.connect(server.url, run=run) as broker,
    ):
        proxy = asyncrl.ActorProxy(broker, ContainerEnv, **scenario)
        fleet = Fleet(count=plan.remote, url=server.url, run=run, logs=folder / "logs")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fleet.supervise, Fanout(sinks))
            # Once the run is complete its actors leave by themselves, and the task group ends.
            return await _learner(plan, proxy, sinks).run()


def _learner(
    plan: Plan, collector: Collector, sinks: tuple[Sink, ...]
) -> asyncrl.OnPolicyLearner | asyncrl.OffPolicyLearner:
    ports = range(len(ContainerEnv(plan.topology).topology.ports))
    shared: dict[str, Any] = {
        "agents": {agent_of(port): agent_of(port) for port in ports},
        "total_steps": plan.steps,
        "seed": plan.seed,
        "sinks": sinks,
        "device": "cpu",
    }
    chosen = algorithm(plan.algo)
    if not chosen.on_policy:
        return asyncrl.OffPolicyLearner(chosen, collector, **shared)
    shared["jobs_per_round"] = max(JOBS_PER_ROUND[type(chosen).__name__], plan.remote)
    return asyncrl.OnPolicyLearner(chosen, collector, **shared)


def algorithm(name: AlgorithmName) -> Any:
    """Return the settings of an algorithm; A2C is the actor-critic where the library has it."""
    if name == "dqn":
        return asyncrl.DQN(**DQN)
    actor_critic = getattr(asyncrl.algorithms, "A2C", None)
    if name == "ac" and actor_critic is not None:
        return actor_critic(**ACTOR_CRITIC)
    return asyncrl.PPO(**PPO)
