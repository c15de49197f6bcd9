"""Which algorithm, with which settings to start from, the command line trains with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from asyncrl.algorithms.presets import preset
from asyncrl.cli.arguments import OptionGroup, peek_options
from asyncrl.cli.options import RunOptions
from asyncrl.learner import OffPolicyConfig, OnPolicyConfig


@dataclass(frozen=True)
class Choice:
    """An algorithm with the settings that suit the environment, before any option changes them."""

    name: str
    algorithm: Any
    learner: OnPolicyConfig | OffPolicyConfig
    envs: int
    """Environments in each actor."""

    @property
    def algorithm_type(self) -> type[Any]:
        """The dataclass whose fields are the algorithm's options."""
        return cast("type[Any]", type(self.algorithm))


def choose(arguments: Sequence[str]) -> Choice:
    """Return the algorithm, and its preset for the environment, that the options ask for.

    Raises `ConfigError` for an algorithm there is not.
    """
    options: RunOptions
    (options,) = peek_options([OptionGroup("run", RunOptions)], arguments)
    chosen = preset(options.algo, options.env)
    learner: OnPolicyConfig | OffPolicyConfig
    if chosen.algorithm.on_policy:
        learner = OnPolicyConfig(**chosen.learner)
        # A round has work for every local actor.
        jobs = max(learner.jobs_per_round, options.actors)
        learner = replace(learner, jobs_per_round=jobs)
    else:
        learner = OffPolicyConfig(**chosen.learner)
    return Choice(options.algo, chosen.algorithm, learner, chosen.envs)
