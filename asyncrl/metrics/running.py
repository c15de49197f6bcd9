"""Running statistics of a run: the last episodes' returns, steps a second, time left."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from asyncrl.errors import ConfigError


class ReturnWindow:
    """Returns and lengths of the last episodes.

    Args:
        size: Episodes that are remembered; the oldest gives way to the newest.

    Raises:
        ConfigError: when `size` is below 1.
    """

    def __init__(self, size: int = 100) -> None:
        if size < 1:
            raise ConfigError("size", size, "a window holds at least one episode", "give 1 or more")
        self._returns: deque[float] = deque(maxlen=size)
        self._lengths: deque[int] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self._returns)

    @property
    def size(self) -> int:
        """Episodes that fit."""
        return self._returns.maxlen or 0

    @property
    def full(self) -> bool:
        """Whether the means are over `size` episodes, so that a target can be judged by them."""
        return len(self._returns) == self.size

    @property
    def mean_return(self) -> float | None:
        """Mean return, or None while no episode has ended."""
        return math.fsum(self._returns) / len(self._returns) if self._returns else None

    @property
    def mean_length(self) -> float | None:
        """Mean length in steps, or None while no episode has ended."""
        return sum(self._lengths) / len(self._lengths) if self._lengths else None

    def extend(self, returns: Iterable[float], lengths: Iterable[int]) -> None:
        """Add finished episodes, oldest first: undiscounted return and number of steps of each.

        Raises:
            ValueError: when there are not as many lengths as returns; then nothing is added.
        """
        pairs = [(float(r), int(n)) for r, n in zip(returns, lengths, strict=True)]
        self._returns.extend(r for r, _ in pairs)
        self._lengths.extend(n for _, n in pairs)

    def state(self) -> dict[str, list[float] | list[int]]:
        """What `load_state` needs to go on: ``returns`` and ``lengths``, oldest first."""
        return {"returns": list(self._returns), "lengths": list(self._lengths)}

    def load_state(self, state: Mapping[str, Iterable[float]]) -> None:
        """Take over what `state` gave; a smaller window keeps the newest episodes."""
        pairs = list(zip(state["returns"], state["lengths"], strict=True))
        self._returns.clear()
        self._lengths.clear()
        self.extend((r for r, _ in pairs), (int(n) for _, n in pairs))


@dataclass(slots=True)
class _Mark:
    slot: int
    seconds: float
    total: int


class RateMeter:
    """Steps a second over a sliding window.

    Args:
        window: Length of the window in seconds. While the meter is younger, the rate is over its
            whole life.
        clock: Monotonic time in seconds.
    """

    _SLOTS = 60

    def __init__(
        self, window: float = 30.0, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not window > 0:
            raise ConfigError("window", window, "a rate needs some time", "give more than 0 s")
        self._window = window
        self._clock = clock
        self._start = clock()
        self._total = 0
        self._marks = deque([_Mark(0, self._start, 0)])

    def add(self, steps: int) -> None:
        """Count `steps` more. Memory stays bounded however often this is called."""
        now = self._clock()
        self._total += steps
        slot = 1 + int((now - self._start) * self._SLOTS / self._window)
        last = self._marks[-1]
        if last.slot == slot:
            last.seconds, last.total = now, self._total
        else:
            self._marks.append(_Mark(slot, now, self._total))
        self._forget(now)

    def rate(self) -> float | None:
        """Steps a second over the window that ends now; None before any time has passed."""
        now = self._clock()
        self._forget(now)
        base = self._marks[0]
        elapsed = now - base.seconds
        return (self._total - base.total) / elapsed if elapsed > 0 else None

    def _forget(self, now: float) -> None:
        """Drop marks as long as the next one still spans the window."""
        while len(self._marks) > 1 and self._marks[1].seconds <= now - self._window:
            self._marks.popleft()


def eta(done: float, total: float, rate: float | None) -> float | None:
    """Seconds until `total` at `rate` a second: 0 when done, None when the rate is unknown or 0."""
    if done >= total:
        return 0.0
    return (total - done) / rate if rate is not None and rate > 0 else None
