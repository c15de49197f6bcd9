"""Comparing policies over the same episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from asyncrl.errors import ConfigError
from examples.container_inventory.baselines import Balance, Chooser, Random, no_op, play
from examples.container_inventory.env import ContainerEnv

FIRST_SEED = 1_000_000
"""Seed of the first episode of an evaluation; the others follow."""

Choosers = Mapping[str, Callable[[int], Chooser]]
"""Name -> what makes the policy of the episode of a seed."""

BASELINES: Choosers = {
    "no-op": lambda _: no_op,
    "random": lambda seed: Random(np.random.default_rng(seed)),
    "balance": lambda _: Balance(),
}


def seeds(episodes: int) -> Sequence[int]:
    """Return the seeds of an evaluation's episodes."""
    return range(FIRST_SEED, FIRST_SEED + episodes)


def compare(env: ContainerEnv, policies: Choosers, episodes: int) -> dict[str, Any]:
    """Play the same episodes with every policy; return what each comes to, by its name.

    Each has the mean of every metric, "shortage_se" (standard error of the mean shortage), and
    "less_than": for each other policy the part of its shortage that this one avoids.

    Raises `ConfigError` for fewer than 2 episodes.
    """
    if episodes < 2:
        raise ConfigError("episodes", episodes, "too few for a spread", "give 2 or more")
    played = {
        name: [play(env, make(seed), seed) for seed in seeds(episodes)]
        for name, make in policies.items()
    }
    short = {
        name: np.array([metrics["container_shortage"] for metrics in each])
        for name, each in played.items()
    }
    return {
        name: {
            **{
                key: round(float(np.mean([metrics[key] for metrics in each])), 4) for key in each[0]
            },
            "shortage_se": round(float(short[name].std(ddof=1) / np.sqrt(episodes)), 2),
            "less_than": {
                other: round(float(1 - short[name].sum() / max(1.0, short[other].sum())), 4)
                for other in played
                if other != name
            },
        }
        for name, each in played.items()
    }


def table(compared: Mapping[str, Any]) -> str:
    """Return the comparison as text."""
    head = f"{'policy':<12}{'orders':>9}{'shortage':>16}{'fulfilled':>11}{'moved':>9}"
    rows = [head + f"{'vs no-op':>10}{'vs random':>11}"]
    for name, found in compared.items():
        short = f"{found['container_shortage']:.0f} +- {found['shortage_se']:.0f}"
        less = [found["less_than"].get(other) for other in ("no-op", "random")]
        margins = ["" if margin is None else f"{-margin:+.1%}" for margin in less]
        rows.append(
            f"{name:<12}{found['order_requirements']:>9.0f}{short:>16}{found['fulfilment']:>11.1%}"
            f"{found['operations']:>9.0f}{margins[0]:>10}{margins[1]:>11}"
        )
    return "\n".join(rows)
