"""Policies that learn nothing, and the loop that plays any policy without a learner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from examples.container_inventory.env import ContainerEnv
from examples.container_inventory.simulator import Decision
from examples.container_inventory.trajectory import CHOICES, quantity_of

Chooser = Callable[[ContainerEnv, Decision], int]
"""Returns how many empties to load (negative) or discharge (positive)."""


def no_op(env: ContainerEnv, decision: Decision) -> int:
    """Leave the empties where they are."""
    del env, decision
    return 0


@dataclass(frozen=True)
class Random:
    """Draws one of the agents' choices, each as likely as the others."""

    rng: np.random.Generator

    def __call__(self, env: ContainerEnv, decision: Decision) -> int:
        """Return the quantity of a random choice."""
        del env
        return quantity_of(int(self.rng.integers(CHOICES)), decision)


@dataclass(frozen=True)
class Balance:
    """Keeps as many empties in each yard as some ticks of its orders need, and moves the rest.

    It knows the mean orders of every port, which the learned agents do not.
    """

    keep: float = 14.0
    """Ticks of orders for which a yard keeps empties."""

    def __call__(self, env: ContainerEnv, decision: Decision) -> int:
        """Load what is beyond the stock to keep, or discharge what lacks."""
        stock = int(env.simulator.empties[decision.port])
        lacking = round(self.keep * env.topology.ports[decision.port].orders) - stock
        return min(decision.discharge, max(-decision.load, lacking))


def play(env: ContainerEnv, choose: Chooser, seed: int) -> dict[str, float]:
    """Play one episode and return its metrics."""
    decision, _ = env.reset(seed=seed)
    while decision is not None:
        decision, _, _, _, _ = env.step(choose(env, decision))
    return env.metrics
