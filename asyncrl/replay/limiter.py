"""Ties how much is drawn from a replay to how much is put in.

The idea is that of Reverb's sample-to-insert-ratio limiter (Cassirer et al. 2021,
https://arxiv.org/abs/2102.04736, section 3.3).
"""

from __future__ import annotations

from collections.abc import Mapping

from asyncrl.errors import ConfigError


class SamplesPerInsertLimiter:
    """Keeps ``samples`` near ``samples_per_insert * inserts``, counted from `min_size` inserts on.

    Drawing may not run ahead of inserting. Inserting may run ahead by `ahead` inserts; whoever
    collects faster than the learner learns then waits, so that data are never learned from less
    often than was asked for. Plain counters: waiting is the caller's business.

    Args:
        samples_per_insert: Transitions drawn for each one put in.
        batch_size: Transitions of one draw.
        min_size: Inserts before the first draw.
        ahead: Inserts that may be ahead of what was drawn for.
    """

    def __init__(
        self, *, samples_per_insert: float, batch_size: int, min_size: int, ahead: int = 1024
    ) -> None:
        if not samples_per_insert > 0:
            raise ConfigError(
                "samples_per_insert", samples_per_insert, "not positive", "give more than 0"
            )
        counts = {"batch_size": batch_size, "min_size": min_size, "ahead": ahead}
        for name, value in counts.items():
            if value < 1:
                raise ConfigError(name, value, "not positive", "give 1 or more")
        self._ratio = samples_per_insert
        self._batch_size = batch_size
        self._min_size = min_size
        self._ahead = ahead
        self._inserts = 0
        self._samples = 0

    def can_insert(self, count: int) -> bool:
        """Whether `count` more may be put in now.

        A piece of any size may be put in when no draw is due, so that nothing waits for ever.
        """
        behind = self._inserts - self._min_size - self._samples / self._ratio
        return behind + count <= self._ahead or not self.can_sample()

    def can_sample(self, draws: int = 1) -> bool:
        """Whether `draws` more draws of `batch_size` may be made now."""
        if self._inserts < self._min_size:
            return False
        allowed = self._ratio * (self._inserts - self._min_size + 1)
        return self._samples + draws * self._batch_size <= allowed

    def inserted(self, count: int) -> None:
        """Note that `count` were put in."""
        self._inserts += count

    def sampled(self, draws: int = 1) -> None:
        """Note that `draws` draws of `batch_size` were made."""
        self._samples += draws * self._batch_size

    def state(self) -> dict[str, int]:
        """Return the counters."""
        return {"inserts": self._inserts, "samples": self._samples}

    def load_state(self, state: Mapping[str, int]) -> None:
        """Continue from `state`."""
        self._inserts = state["inserts"]
        self._samples = state["samples"]
