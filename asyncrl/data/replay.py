"""What a replay holds and how it is drawn from, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from asyncrl.errors import ConfigError

Overwrite = Literal["ring", "random"]


@dataclass(frozen=True, kw_only=True)
class ReplaySpec:
    """Settings of a replay; `asyncrl.replay.make_replay` makes it."""

    capacity: int = 100_000
    """Transitions held at most. Of sequences it holds ``capacity // sequence_length``."""
    overwrite: Overwrite = "ring"
    """What makes room once it is full. ring: the oldest goes. random: whichever is at a random
    place, so that a few old ones stay for long."""
    n_step: int = 1
    """Rewards summed before bootstrapping; fewer where an episode or a batch ends earlier."""
    gamma: float = 0.99
    """Discount within these sums. Unused with one step."""
    prioritized: bool = False
    """Draw in proportion to priorities, instead of uniformly."""
    alpha: float = 0.6
    """How much priorities matter: the probability is proportional to priority ** alpha. 0: not at
    all."""
    beta: float | str = "linear:0.4:1.0"
    """How much the importance weights correct for that, as a schedule over the run in [0, 1]. 1:
    fully."""
    priority_eps: float = 1e-6
    """Added to every priority that is reported, so that nothing is left out for ever."""
    sequence_length: int = 0
    """Steps of a sequence, its burn-in included; 0 for single transitions."""
    burn_in: int = 0
    """First steps of a sequence that only bring the recurrent state up to date."""
    sequence_stride: int = 0
    """Steps from the start of one sequence to the next one's of the same environment; 0 for
    ``sequence_length - burn_in``, with which each step after a batch's first `burn_in` is learned
    from in one sequence."""
    directory: str | None = None
    """Folder for files that hold the data in place of memory, for replays larger than it."""

    def __post_init__(self) -> None:
        for name, least in (("capacity", 1), ("n_step", 1)):
            self._check(name, getattr(self, name) >= least, f"{least} or more")
        for name in ("sequence_length", "burn_in", "sequence_stride"):
            self._check(name, getattr(self, name) >= 0, "0 or more")
        self._check("overwrite", self.overwrite in ("ring", "random"), "ring or random")
        self._check("gamma", 0.0 <= self.gamma <= 1.0, "a number in [0, 1]")
        self._check("alpha", 0.0 <= self.alpha < math.inf, "0 or more")
        self._check("priority_eps", 0.0 <= self.priority_eps < math.inf, "0 or more")
        if not isinstance(self.beta, str):
            self._check("beta", 0.0 <= self.beta <= 1.0, "a number in [0, 1], or a schedule")
        self._check("directory", self.directory != "", "a folder, or None for memory")
        self._check_sequences()

    def _check_sequences(self) -> None:
        length = self.sequence_length
        if not length:
            for name in ("burn_in", "sequence_stride"):
                self._check(name, not getattr(self, name), "0, or a sequence_length")
            return
        self._check("n_step", self.n_step == 1, "1: who learns from sequences sums their rewards")
        self._check("burn_in", self.burn_in < length, f"less than sequence_length, {length}")
        self._check(
            "sequence_stride",
            self.sequence_stride <= length - self.burn_in,
            f"at most sequence_length - burn_in, {length - self.burn_in}; between sequences further"
            " apart steps would be lost",
        )
        self._check("capacity", self.capacity >= length, f"at least sequence_length, {length}")

    def _check(self, name: str, sound: bool, expected: str) -> None:
        if not sound:
            raise ConfigError(name, getattr(self, name), "out of range", f"give {expected}")

    @property
    def items(self) -> int:
        """What is held at most, in what is drawn: transitions or sequences."""
        return self.capacity // max(1, self.sequence_length)

    @property
    def stride(self) -> int:
        """Steps between the starts of two sequences, the default worked out."""
        return self.sequence_stride or self.sequence_length - self.burn_in
