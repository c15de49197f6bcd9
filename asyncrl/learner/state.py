"""All mutable state of a training run in one value: saved, restored and compared as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from asyncrl.algorithms import Updater
from asyncrl.metrics import ReturnWindow
from asyncrl.replay import RingReplay, SamplesPerInsertLimiter

DataT = TypeVar("DataT")


@dataclass
class Counters:
    """Numbers that a resumed run goes on counting from."""

    env_steps: int = 0
    """Environment steps learned from (on-policy) or put into the replay (off-policy)."""
    updates: int = 0
    episodes: int = 0
    version: int = 0
    """Version of the newest published weight set."""
    rounds: int = 0
    """Rounds of jobs handed out."""
    jobs: int = 0
    """Training jobs handed out."""
    evaluations: int = 0
    """Evaluations handed out. Counted apart: seeds derive from the number of a job, and evaluating
    must not change the training."""
    seconds: float = 0.0
    """Seconds trained in earlier generations."""
    next_evaluation: int = 0
    """Environment steps at which the next evaluation is due."""
    evaluated_at: int = 0
    """Environment steps at which the newest evaluation was handed out."""
    eval_return: float | None = None
    """Mean return of the newest evaluation."""


@dataclass
class TrainingState(Generic[DataT]):
    """What a checkpoint holds."""

    updaters: dict[str, Updater[DataT]]
    """Policy id -> its algorithm's weights, optimiser, random numbers."""
    replays: dict[str, RingReplay] = field(default_factory=dict[str, RingReplay])
    """Policy id -> its replay; empty for on-policy learning."""
    limiters: dict[str, SamplesPerInsertLimiter] = field(
        default_factory=dict[str, SamplesPerInsertLimiter]
    )
    """Policy id -> what ties its updates to what it collected; empty for on-policy learning."""
    counters: Counters = field(default_factory=Counters)
    window: ReturnWindow = field(default_factory=ReturnWindow)

    def tree(self) -> dict[str, Any]:
        """Return it as a tree of dicts, lists, scalars and arrays.

        The arrays of replays are views: nothing may be put in before the tree is written.
        """
        return {
            "counters": dataclasses.asdict(self.counters),
            "window": self.window.state(),
            "updaters": {name: updater.state() for name, updater in self.updaters.items()},
            "replays": {name: replay.state() for name, replay in self.replays.items()},
            "limiters": {name: limiter.state() for name, limiter in self.limiters.items()},
        }

    def load(self, tree: Mapping[str, Any]) -> None:
        """Continue exactly where `tree` was taken."""
        self.counters = Counters(**tree["counters"])
        self.window.load_state(tree["window"])
        for name, updater in self.updaters.items():
            updater.load_state(tree["updaters"][name])
        for name, replay in self.replays.items():
            replay.load_state(tree["replays"][name])
        for name, limiter in self.limiters.items():
            limiter.load_state(tree["limiters"][name])
