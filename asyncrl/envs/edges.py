"""The environment's edge: the one place where actions and observations are converted and checked.

Everywhere else actions are raw and observations are as `TrajectoryBatch` stores them.
"""

from __future__ import annotations

import logging
import operator
from typing import Any, cast

import numpy as np

from asyncrl.data import SpaceSpec
from asyncrl.envs.failing import EdgeError
from asyncrl.errors import DataError

_log = logging.getLogger(__name__)

_LARGEST_EXACT = 2.0**53
"""Above it float64 skips integers, so an integer box is clipped there at the latest."""


def describe_space(spec: SpaceSpec) -> str:
    """Return the space in one short line, for error messages."""
    if spec.kind == "discrete":
        return f"Discrete({spec.n}" + (f", start={spec.start})" if spec.start else ")")
    low = f"{spec.low:g}" if isinstance(spec.low, float) else "[..]"
    high = f"{spec.high:g}" if isinstance(spec.high, float) else "[..]"
    return f"Box({low}, {high}, {spec.shape}, {spec.dtype})"


class ActionEdge:
    """Turns the raw actions of B environments into what the environments take."""

    def __init__(self, spec: SpaceSpec, num_envs: int) -> None:
        self._spec = spec
        self._shape = (num_envs, *spec.shape)
        self._dtype = np.dtype(np.int64 if spec.kind == "discrete" else spec.dtype)
        self._work = self._dtype if self._dtype.kind == "f" else np.dtype(np.float64)
        self._low: np.ndarray | None = None
        self._high: np.ndarray | None = None
        if spec.kind == "box":
            low, high = spec.bounds()
            if self._dtype.kind != "f":
                low, high = (np.clip(b, -_LARGEST_EXACT, _LARGEST_EXACT) for b in (low, high))
            if np.isfinite(low).any():
                self._low = low.astype(self._work)
            if np.isfinite(high).any():
                self._high = high.astype(self._work)

    def convert(self, action: np.ndarray) -> np.ndarray:
        """Return a fresh [B, *action shape] array of the space's dtype, inside its bounds.

        Args:
            action: Integers counted from zero [B] for a discrete space; [B, *shape] numbers, or
                with the shape flattened, for a box. It is not changed.

        Raises:
            DataError: Wrong shape or dtype, a discrete action out of range, a non-finite number.
        """
        if self._spec.kind == "discrete":
            return self._discrete(action)
        return self._box(action)

    def _discrete(self, action: np.ndarray) -> np.ndarray:
        if action.shape != self._shape or action.dtype.kind not in "iu":
            raise self._wrong(action)
        numbers = action.tolist()  # for a few, cheaper to compare than an array
        if min(numbers) < 0 or max(numbers) >= self._spec.n:
            bad = int(np.flatnonzero((action < 0) | (action >= self._spec.n))[0])
            raise DataError(
                f"action {int(action[bad])} for environment {bad}: the actions of "
                f"{describe_space(self._spec)} count from 0 to {self._spec.n - 1} here; give the "
                "index of the action, without the space's start"
            )
        return np.add(action, self._spec.start, dtype=np.int64)

    def _box(self, action: np.ndarray) -> np.ndarray:
        if action.shape != self._shape:
            flat = (self._shape[0], self._spec.size)
            if action.shape != flat:
                raise self._wrong(action)
            action = action.reshape(self._shape)
        if action.dtype.kind not in "fiu":
            raise self._wrong(action)
        finite = np.isfinite(action)
        if not finite.all():
            bad = int(np.argwhere(~finite)[0][0])
            raise DataError(
                f"action {action[bad].tolist()} for environment {bad} is not finite; look at the "
                "policy: its weights or its input went wrong"
            )
        bounded = action.astype(self._work)
        if self._low is not None:
            np.maximum(bounded, self._low, out=bounded)
        if self._high is not None:
            np.minimum(bounded, self._high, out=bounded)
        if self._work is self._dtype:
            return bounded
        return np.rint(bounded).astype(self._dtype)

    def _wrong(self, action: np.ndarray) -> DataError:
        expected = "integers" if self._spec.kind == "discrete" else "numbers"
        return DataError(
            f"the action is a {action.dtype} array of shape {action.shape}, but "
            f"{self._shape[0]} environments with action space {describe_space(self._spec)} take "
            f"{expected} of shape {self._shape}: one action for each, in the shape of the space"
        )


class ObservationEdge:
    """Turns what environments observe into rows of the arrays the library stores.

    Attributes:
        shape: Shape of one stored observation.
        dtype: uint8, float32 or int64.
        as_is: The dtype of an array of the right shape that needs no conversion; None if all do.
        checks_finite: Whether rows can hold non-finite numbers at all.
    """

    def __init__(self, spec: SpaceSpec) -> None:
        self._spec = spec
        self._warned = False
        self.shape = spec.shape
        self.dtype = spec.stored_dtype
        self.as_is = self.dtype if spec.kind == "box" else None
        self.checks_finite = self.dtype.kind == "f"

    def one(self, seen: Any) -> np.ndarray | int:
        """Return one observation in stored form, not copied; raise `EdgeError` if unusable."""
        if type(seen) is np.ndarray and seen.dtype is self.as_is and seen.shape == self.shape:
            return seen
        if self._spec.kind == "discrete":
            return self._index(seen)
        return self._cast(self._array(seen, self.shape))

    def many(self, seen: Any, num_envs: int) -> np.ndarray:
        """Return [B, *shape] fresh stored rows of a vectorised observation; raise `EdgeError`."""
        array = self._array(seen, (num_envs, *self.shape))
        if self._spec.kind != "discrete":
            return self._cast(array)
        if array.dtype.kind not in "iu":
            raise self._misfit(seen)
        rows = array.astype(np.int64) - self._spec.start
        if ((rows < 0) | (rows >= self._spec.n)).any():
            raise self._misfit(seen)
        return rows

    def not_finite(self, obs: np.ndarray) -> str:
        """Say which number of this observation is not finite."""
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(obs))[0])
        index = f" at index {list(place)}" if place else ""
        return f"the observation is not finite: {obs[place]}{index}"

    def _array(self, seen: Any, shape: tuple[int, ...]) -> np.ndarray:
        try:
            array = np.asarray(seen)
        except ValueError:  # ragged nested lists
            raise self._misfit(seen) from None
        if array.shape != shape or array.dtype.kind not in "biuf":
            raise self._misfit(seen)
        return array

    def _cast(self, array: np.ndarray) -> np.ndarray:
        if array.dtype.name != self._spec.dtype and not self._warned:
            self._warned = True
            _log.warning(
                "the environment observes %s where its space says %s; casting",
                array.dtype,
                describe_space(self._spec),
            )
        if array.dtype == self.dtype:
            return array.copy()
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks for non-finite rows
            cast = array.astype(self.dtype)
        if self.dtype.kind == "u" and (cast != array).any():
            raise EdgeError(
                f"the observation holds {array.dtype} numbers that do not fit its space "
                f"{describe_space(self._spec)}"
            )
        return cast

    def _index(self, seen: Any) -> int:
        try:
            index = operator.index(seen) - self._spec.start
        except TypeError:
            raise self._misfit(seen) from None
        if not 0 <= index < self._spec.n:
            raise self._misfit(seen)
        return index

    def _misfit(self, seen: Any) -> EdgeError:
        if isinstance(seen, np.ndarray):
            array = cast("np.ndarray", seen)
            given = f"{array.dtype} array of shape {array.shape}"
        else:
            given = f"{type(seen).__name__} {str(seen)[:60]}"
        return EdgeError(
            f"the observation is a {given}, which does not fit its space "
            f"{describe_space(self._spec)}"
        )


def reward_number(reward: Any) -> float:
    """Return a reward, also an array of one element, as a float; `EdgeError` if it is none."""
    try:
        return float(np.asarray(reward).item())
    except (TypeError, ValueError):
        raise EdgeError(f"the reward is {str(reward)[:60]!r}, which is not a number") from None
