"""What each learning benchmark trains, with which hyper-parameters, and when it counts as solved.

Everything that decides a result is in this file. A task that names no settings trains with the
library's preset for its environment, as the command line would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from asyncrl.algorithms import DQN, PPO
from asyncrl.algorithms.presets import Preset, preset


@dataclass(frozen=True, kw_only=True)
class Task:
    """One algorithm in one environment."""

    name: str
    """What `--only` looks for, unique."""
    algo: str
    """Name of the algorithm."""
    env: str
    """Gymnasium id, or import path of a factory."""
    steps: int
    """Environment steps within which it must be solved: the budget."""
    bar: float
    """Mean return of an evaluation at which it is."""
    settings: Callable[[], Preset]
    """Makes the algorithm's settings, environments an actor, and the learner's options."""
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Keyword arguments of the environment."""


def _own(algorithm: Any, envs: int, **learner: Any) -> Callable[[], Preset]:
    return lambda: Preset(algorithm=algorithm, envs=envs, learner=learner)


def _cartpole_dqn(**changes: Any) -> Callable[[], Preset]:
    """Return the preset of DQN for CartPole-v1 with some settings changed."""

    def make() -> Preset:
        base = preset("dqn", "CartPole-v1")
        settings = {name: getattr(base.algorithm, name) for name in _CARTPOLE_DQN} | changes
        return Preset(algorithm=DQN(**settings), envs=base.envs)

    return make


_CARTPOLE_DQN = (
    *("rollout_steps", "learning_rate", "hidden", "buffer_size", "samples_per_insert"),
    *("target_update_interval", "huber_threshold", "epsilon"),
)

QUICK: tuple[Task, ...] = (
    Task(
        name="cartpole-ppo",
        algo="ppo",
        env="CartPole-v1",
        steps=100_000,
        bar=475,
        settings=lambda: preset("ppo", "CartPole-v1"),
    ),
    Task(
        name="cartpole-dqn",
        algo="dqn",
        env="CartPole-v1",
        steps=75_000,
        bar=475,
        settings=lambda: preset("dqn", "CartPole-v1"),
    ),
    Task(
        name="cartpole-dqn-single",
        algo="dqn",
        env="CartPole-v1",
        steps=75_000,
        bar=475,
        settings=_cartpole_dqn(double=False),
    ),
    Task(
        name="acrobot-ppo",
        algo="ppo",
        env="Acrobot-v1",
        steps=200_000,
        bar=-100,
        settings=_own(PPO(entropy_coef=0.01), 16),
    ),
    Task(
        name="pendulum-ppo",
        algo="ppo",
        env="Pendulum-v1",
        steps=200_000,
        bar=-300,
        settings=_own(PPO(gamma=0.9, rollout_steps=128), 8),
    ),
    Task(
        name="frozenlake-dqn",
        algo="dqn",
        env="FrozenLake-v1",
        kwargs={"is_slippery": False},
        steps=30_000,
        bar=1.0,
        settings=_own(
            DQN(
                learning_rate=0.002,
                hidden=(64,),
                epsilon="linear:1.0:0.1:0.6",
                target_update_interval=50,
            ),
            4,
        ),
    ),
)

SUITES: Mapping[str, tuple[Task, ...]] = {"quick": QUICK}
