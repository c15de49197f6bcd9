"""The scenario's logic: who acts, what they see, what they choose, how they are judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncrl import SpaceSpec, StepEvent, Trajectory, TrajectoryBatch
from examples.container_inventory.env import ContainerEnv
from examples.container_inventory.simulator import Decision, Simulator

CHOICES = 21
"""Fractions of the scope that an agent chooses from: -1 (load all), -0.9, .. 0, .. 1."""
LOOK_AHEAD = 3
"""Ports after this one that an agent sees, in the order of the vessel's calls."""
RECENT = 8
"""Ticks over which orders and shortage are averaged for an agent to see."""
LONG_PASSAGE = 40.0
"""Ticks that count as 1 for an agent."""


def agent_of(port: int) -> str:
    """Return the agent that decides for a port."""
    return f"port-{port}"


def decayed_window(signal: np.ndarray, window: int, decay: float) -> np.ndarray:
    """Return the weighted mean [T] of the `window` entries of `signal` [T] after each one.

    Entry t is sum_k w_k signal[t + 1 + k] with w_k = decay**k / sum_j decay**j, k < window; after
    the end the signal is 0.
    """
    weights = decay ** np.arange(window, dtype=np.float64)
    padded = np.concatenate([signal[1:], np.zeros(window)])
    return np.lib.stride_tricks.sliding_window_view(padded, window) @ (weights / weights.sum())


def quantity_of(choice: int, decision: Decision) -> int:
    """Return how many empties a choice in [0, 21) moves: negative to load, positive to discharge.

    The choice is a fraction of the scope, rounded towards 0.
    """
    tenths = int(choice) - CHOICES // 2
    scope = decision.load if tenths < 0 else decision.discharge
    moved = abs(tenths) * scope // (CHOICES // 2)
    return -moved if tenths < 0 else moved


class InventoryTrajectory(Trajectory):
    """One episode: the agent of the port where a vessel lies decides; all learn in the end.

    A decision's reward is known only ticks later, when the vessel has been where it went: the
    weighted mean, over a window after the decision, of what all ports fulfilled less what they were
    short of, in units of the mean orders of a tick. `on_finish` computes it for all decisions at
    once from the simulator's record.

    Args:
        env: The scenario.
        window: Ticks after a decision that count.
        decay: Weight of a tick relative to the one before.
    """

    env: ContainerEnv

    def __init__(self, env: ContainerEnv, *, window: int = 60, decay: float = 0.97) -> None:
        super().__init__(env)
        self.window = window
        self.decay = decay
        self.ticks: dict[str, list[int]] = defaultdict(list)
        """Agent -> ticks of its decisions in this episode."""
        topology = env.topology
        self._capacity = np.array([max(1, port.capacity) for port in topology.ports], np.float64)
        self._orders = np.array([max(1.0, port.orders) for port in topology.ports])
        self._route = [
            [route.name == vessel.route for route in topology.routes] for vessel in topology.vessels
        ]

    def spaces(self) -> dict[str, tuple[SpaceSpec, SpaceSpec]]:
        width = 9 + 5 * LOOK_AHEAD + len(self.env.topology.routes)
        observation = SpaceSpec(kind="box", shape=(width,), low=0.0, high=1.0)
        action = SpaceSpec(kind="discrete", dtype="int64", n=CHOICES)
        return {agent_of(port): (observation, action) for port in range(len(self._orders))}

    def reset(self) -> None:
        super().reset()
        self.ticks.clear()

    def get_state(self, event: StepEvent) -> dict[str, np.ndarray]:
        if event.obs is None:  # the episode is over, nobody acts
            return {}
        return {agent_of(event.obs.port): self.features(event.obs)}

    def features(self, decision: Decision) -> np.ndarray:
        """Return what the deciding agent sees: float32 numbers in [0, 1]."""
        simulator = self.env.simulator
        vessel, capacity = decision.vessel, self._vessel_capacity(decision)
        ports = [decision.port, *(port for port, _ in decision.upcoming[:LOOK_AHEAD])]
        passages = [ticks / LONG_PASSAGE for _, ticks in decision.upcoming[:LOOK_AHEAD]]
        seen = self._seen(simulator, ports)
        laden = int(simulator.laden[vessel].sum())
        numbers = [
            *seen[0],
            decision.load / capacity,
            decision.discharge / capacity,
            int(simulator.aboard[vessel]) / capacity,
            laden / capacity,
            int(simulator.waiting[decision.port].sum()) / capacity,
        ]
        for ahead in range(LOOK_AHEAD):
            known = ahead < len(passages)
            numbers += [*seen[ahead + 1], passages[ahead]] if known else [0.0] * 5
        numbers += self._route[vessel]
        return np.clip(np.array(numbers, np.float32), 0.0, 1.0)

    def _seen(self, simulator: Simulator, ports: list[int]) -> list[list[float]]:
        """Return four numbers a port: its empties twice, its recent shortage and orders.

        The empties are in units of the yard, and of what 20 ticks of mean orders need.
        """
        recent = slice(max(0, simulator.tick + 1 - RECENT), simulator.tick + 1)
        short = simulator.shortage[recent][:, ports].mean(axis=0)
        orders = short + simulator.fulfilled[recent][:, ports].mean(axis=0)
        empties, mean = simulator.empties[ports], self._orders[ports]
        columns = [
            empties / self._capacity[ports],
            empties / (20 * mean),
            short / mean,
            orders / (2 * mean),
        ]
        return np.stack(columns, axis=1).tolist()

    def _vessel_capacity(self, decision: Decision) -> int:
        return max(1, self.env.topology.vessels[decision.vessel].capacity)

    def get_action(self, action_by_agent: Mapping[str, Any], event: StepEvent) -> int:
        (choice,) = action_by_agent.values()
        return quantity_of(choice, event.obs)

    def get_reward(self) -> None:
        return None  # known in the end

    def on_env_feedback(
        self,
        event: StepEvent,
        state_by_agent: Mapping[str, np.ndarray],
        action_by_agent: Mapping[str, Any],
        reward: Mapping[str, float] | None,
    ) -> None:
        super().on_env_feedback(event, state_by_agent, action_by_agent, reward)
        for agent in state_by_agent:
            self.ticks[agent].append(event.obs.tick)

    def on_finish(self) -> Mapping[str, TrajectoryBatch]:
        simulator = self.env.simulator
        balance = (simulator.fulfilled - simulator.shortage).astype(np.float64)
        signal = balance.sum(axis=1) / self._orders.sum()
        reward = decayed_window(signal, self.window, self.decay)
        for agent, ticks in self.ticks.items():
            for step, tick in zip(self.steps[agent], ticks, strict=True):
                step.reward = float(reward[tick])
        return {agent: self.batch(agent) for agent in self.ticks}
