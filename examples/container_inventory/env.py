"""The simulator as an environment that speaks of decisions instead of steps of time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from asyncrl.errors import ConfigError
from examples.container_inventory.simulator import Decision, Simulator
from examples.container_inventory.worlds import topology_from

Step = tuple[Decision | None, float, bool, bool, dict[str, Any]]


class ContainerEnv(gym.Env[Any, Any]):
    """Gymnasium's form of the scenario: an observation is the `Decision` that is due.

    It has no observation space, for a decision is an object; a `Trajectory` says what agents see.

    An action is a number of empties, negative to load them, positive to discharge them, within the
    decision's scope. The reward is what all ports fulfilled less what they were short of since the
    decision. Episodes are cut off (truncated) after their ticks; then no decision is due (None).

    Args:
        topology: "four-ports", "ring-N", or plain data; see `topology_from`.
        ticks: Length of an episode; that of the topology by default.
    """

    def __init__(
        self, topology: str | Mapping[str, Any] = "four-ports", *, ticks: int | None = None
    ) -> None:
        self.topology = topology_from(topology)
        if ticks is not None:
            self.topology = dataclasses.replace(self.topology, ticks=ticks)
        most = max(vessel.capacity for vessel in self.topology.vessels)
        self.action_space = gym.spaces.Box(-most, most, (), np.int64)
        self._simulator: Simulator | None = None
        self._accounted = 0

    @property
    def simulator(self) -> Simulator:
        """The running episode. Raises `ConfigError` before the first reset."""
        if self._simulator is None:
            raise ConfigError("episode", None, "none has begun", "call reset() first")
        return self._simulator

    @property
    def metrics(self) -> dict[str, float]:
        """What the episode has come to so far."""
        simulator = self.simulator
        fulfilled, short = int(simulator.fulfilled.sum()), int(simulator.shortage.sum())
        return {
            "order_requirements": float(fulfilled + short),
            "container_shortage": float(short),
            "fulfilment": fulfilled / max(1, fulfilled + short),
            "operations": float(simulator.moved),
            "decisions": float(simulator.decisions),
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Decision | None, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        self._simulator = Simulator(self.topology, seed)
        self._accounted = 0
        return self._simulator.advance(), {"seed": seed}

    def step(self, action: int) -> Step:
        simulator = self.simulator
        simulator.decide(int(action))
        decision = simulator.advance()
        since = slice(self._accounted, simulator.tick + 1)
        self._accounted = simulator.tick + 1
        reward = float(simulator.fulfilled[since].sum() - simulator.shortage[since].sum())
        return decision, reward, False, simulator.over, {}
