"""Options of the learners."""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from asyncrl.errors import ConfigError
from asyncrl.proxy import UpdateTrigger

C = TypeVar("C", bound="LearnerConfig")


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    """Options that both learners share."""

    total_steps: int = 100_000
    """Environment steps to learn from before the run ends."""
    stop_return: float | None = None
    """End the run as soon as this mean return is reached; see stop_on."""
    stop_on: Literal["auto", "train", "eval"] = "auto"
    """What stop_return looks at: the last 100 training episodes (train), an evaluation (eval), or
    the evaluation where there is one (auto)."""
    stop_seconds: float | None = None
    """End the run after this many seconds of training, over all generations, whatever it waits for
    then; its last weights may so go without an evaluation."""
    seed: int = 0
    """Seed of everything random in the run."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where updates are computed. auto takes a GPU where there is one."""
    eval_interval: int = 0
    """Environment steps between evaluations; 0 for none."""
    eval_episodes: int = 20
    """Greedy episodes of an evaluation."""
    segment_steps: int | None = None
    """Steps per environment of one job; the algorithm's own rollout_steps by default."""
    episodes_per_job: int = 1
    """Whole episodes of one job, where a Trajectory holds the scenario."""
    checkpoint_seconds: float = 30.0
    """Seconds between checkpoints."""
    checkpoint_bytes: int = 64 * 2**20
    """Bytes of results learned from since the last checkpoint that call for the next one."""
    keep_checkpoints: int = 3
    """Newest checkpoints kept in the run folder."""

    def __post_init__(self) -> None:
        positive = "total_steps eval_episodes episodes_per_job checkpoint_bytes keep_checkpoints"
        for name in positive.split():
            _at_least(name, getattr(self, name), 1)
        if self.segment_steps is not None:
            _at_least("segment_steps", self.segment_steps, 1)
        for name in ("eval_interval", "seed"):
            _at_least(name, getattr(self, name), 0)
        if self.checkpoint_seconds <= 0:
            raise ConfigError(
                "checkpoint_seconds", self.checkpoint_seconds, "not positive", "give seconds > 0"
            )
        if self.stop_seconds is not None and self.stop_seconds <= 0:
            raise ConfigError("stop_seconds", self.stop_seconds, "not positive", "give seconds > 0")
        if self.stop_on == "eval" and not self.eval_interval:
            raise ConfigError(
                "stop_on", "eval", "no evaluation ever runs", "give eval_interval > 0 as well"
            )

    @property
    def stops_on_eval(self) -> bool:
        """Whether `stop_return` looks at evaluations."""
        return self.stop_on == "eval" or (self.stop_on == "auto" and self.eval_interval > 0)


@dataclass(frozen=True, kw_only=True)
class OnPolicyConfig(LearnerConfig):
    """Options of the on-policy learner."""

    jobs_per_round: int = 2
    """Jobs whose results one update learns from together; at least as many as there are actors, or
    some of them idle."""
    update_trigger: str = "100%"
    """How many of a round's jobs must be in before the update: a count, a fraction or a
    percentage. The others are cancelled."""
    max_lag: int = 0
    """Policy versions a batch may be behind. 0 is strict: collect, update, publish, in turn. From 1
    on, that many further rounds are collected while an update runs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least("jobs_per_round", self.jobs_per_round, 1)
        _at_least("max_lag", self.max_lag, 0)
        UpdateTrigger.parse(self.update_trigger)


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig(LearnerConfig):
    """Options of the off-policy learner."""

    eval_interval: int = 2_500
    """Environment steps between evaluations; 0 for none."""
    jobs_in_flight: int = 0
    """Jobs handed out and not yet in the replay; 0 for two an actor, at least two."""
    updates_per_publish: int = 16
    """Updates between two published weight sets, at most; fewer when the limiter allows no more."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least("updates_per_publish", self.updates_per_publish, 1)
        _at_least("jobs_in_flight", self.jobs_in_flight, 0)


def changed(config: C, changes: dict[str, Any]) -> C:
    """Return `config` with fields replaced; an unknown one is a `ConfigError` with near matches."""
    names = [each.name for each in dataclasses.fields(config)]
    for name, value in changes.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=3)
            raise ConfigError(
                name,
                value,
                f"{type(config).__name__} has no such option",
                f"did you mean {' or '.join(near)}" if near else f"use one of {', '.join(names)}",
            )
    return dataclasses.replace(config, **changes)


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(name, value, f"less than {least}", f"give a whole number >= {least}")
