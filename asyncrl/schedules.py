"""Schedules: pure functions of progress, as frozen values that text can name.

Progress is the fraction of a run that is done, in [0, 1]; values before and after are those at the
ends. Numbers, lists and arrays are accepted as values (lists and arrays elementwise) and never
changed. `as_schedule` reads text, and ``str(schedule)`` gives text of the same meaning back:

    0.001                               constant
    linear:1.0:0.05                     from 1.0 to 0.05 over the whole run
    linear:1.0:0.05:0.16                the same, reaching 0.05 at 16 % of the run
    two_phase_linear:0.4:0.32:0.0:0.5   from 0.4 to 0.32 in the first half, to 0.0 in the second
    piecewise:1.0@0.2:0.5@0.6:0.1       1.0 up to 20 %, then 0.5 up to 60 %, then 0.1
    exponential:0.001:0.00001           from 0.001 to 0.00001, by the same factor every step

A value in text may also be a list: ``linear:[1.0,0.5]:[0.1,0.1]``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from asyncrl.errors import ConfigError

Number: TypeAlias = float | Sequence[float] | np.ndarray
"""A value of a schedule: one number, or several that move together."""


class Schedule:
    """A function of progress. Subclasses are frozen dataclasses, equal if their texts are."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __call__(self, progress: float) -> Any:
        """Return the value at `progress` in [0, 1]: a float, or an array for several numbers."""
        raise NotImplementedError

    def values(self, steps: int) -> list[Any]:
        """Return the values at `steps` points spread evenly over the run, both ends included."""
        last = max(1, steps - 1)
        return [self(step / last) for step in range(steps)]


@dataclass(frozen=True, eq=False)
class Constant(Schedule):
    """Always `value`."""

    value: Number

    def __post_init__(self) -> None:
        _own(self, "value")

    def __call__(self, progress: float) -> Any:
        """Return `value`."""
        del progress
        return _plain(self.value)

    def __str__(self) -> str:
        return _text(self.value)


@dataclass(frozen=True, eq=False)
class Linear(Schedule):
    """From `start` to `end` along a straight line, reaching it at `until`, then `end`."""

    start: Number
    end: Number
    until: float = 1.0

    def __post_init__(self) -> None:
        _own(self, "start", "end")
        _check_fraction("until", self.until, above=True)

    def __call__(self, progress: float) -> Any:
        """Return the value at `progress`."""
        return _between(self.start, self.end, _clip(progress) / self.until)

    def __str__(self) -> str:
        until = "" if self.until == 1.0 else f":{float(self.until)!r}"
        return f"linear:{_text(self.start)}:{_text(self.end)}{until}"


@dataclass(frozen=True, eq=False)
class TwoPhaseLinear(Schedule):
    """From `start` to `mid` up to `split`, then from `mid` to `end`. It always ends at `end`."""

    start: Number
    mid: Number
    end: Number
    split: float = 0.5

    def __post_init__(self) -> None:
        _own(self, "start", "mid", "end")
        _check_fraction("split", self.split)

    def __call__(self, progress: float) -> Any:
        """Return the value at `progress`."""
        at = _clip(progress)
        if at < self.split:
            return _between(self.start, self.mid, at / self.split)
        rest = 1.0 - self.split
        return _between(self.mid, self.end, (at - self.split) / rest if rest else 1.0)

    def values(self, steps: int) -> list[Any]:
        """Return the values of `steps` steps, the first phase being ``split * steps`` of them.

        Step ``round(split * steps)`` is the first of the second phase and has the value `mid`.
        """
        first = min(round(self.split * steps), steps - 1)
        rest = steps - 1 - first
        return [_between(self.start, self.mid, i / first) for i in range(first)] + [
            _between(self.mid, self.end, i / rest if rest else 1.0) for i in range(rest + 1)
        ]

    def __str__(self) -> str:
        values = ":".join(_text(value) for value in (self.start, self.mid, self.end))
        return f"two_phase_linear:{values}:{float(self.split)!r}"


@dataclass(frozen=True, eq=False)
class Piecewise(Schedule):
    """The first of `pieces` whose end is beyond the progress, `last` after them all."""

    pieces: tuple[tuple[Number, float], ...]
    """(value, progress up to which it holds), the ends ascending."""
    last: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "pieces", tuple((_copied(v), e) for v, e in self.pieces))
        _own(self, "last")
        ends = [end for _, end in self.pieces]
        for end in ends:
            _check_fraction("pieces", end)
        if ends != sorted(set(ends)):
            raise ConfigError("pieces", ends, "the ends do not ascend", "sort them")

    def __call__(self, progress: float) -> Any:
        """Return the value at `progress`."""
        at = _clip(progress)
        held = (value for value, end in self.pieces if at < end)
        return _plain(next(held, self.last))

    def __str__(self) -> str:
        pieces = [f"{_text(value)}@{float(end)!r}" for value, end in self.pieces]
        return ":".join(["piecewise", *pieces, _text(self.last)])


@dataclass(frozen=True, eq=False)
class Exponential(Schedule):
    """From `start` to `end`, both positive, by the same factor in equal times."""

    start: Number
    end: Number

    def __post_init__(self) -> None:
        _own(self, "start", "end")
        for name in ("start", "end"):
            if not (np.asarray(getattr(self, name)) > 0).all():
                raise ConfigError(
                    name, getattr(self, name), "not positive", "give more than 0, or use linear"
                )

    def __call__(self, progress: float) -> Any:
        """Return the value at `progress`."""
        at = _clip(progress)
        start, end = np.asarray(self.start, np.float64), np.asarray(self.end, np.float64)
        return _plain(np.where(at == 1.0, end, start * (end / start) ** at))

    def __str__(self) -> str:
        return f"exponential:{_text(self.start)}:{_text(self.end)}"


_FORMS: dict[str, tuple[Callable[..., Schedule], int, int]] = {
    "constant": (Constant, 1, 1),
    "linear": (Linear, 2, 3),
    "two_phase_linear": (TwoPhaseLinear, 3, 4),
    "exponential": (Exponential, 2, 2),
}
"""Name -> (schedule, fewest and most parts it has in text)."""


def as_schedule(value: Number | str | Schedule, field: str = "schedule") -> Schedule:
    """Return `value` as a schedule: itself, a constant, or what the text says.

    Raises `ConfigError`, about `field`, for what is no schedule.
    """
    if isinstance(value, Schedule):
        return value
    try:
        return _parsed(value) if isinstance(value, str) else Constant(value)
    except ConfigError as error:
        reason = str(error).removesuffix(f"; {error.fix}")
        raise ConfigError(field, value, reason, error.fix) from error
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            field,
            value,
            "not a schedule",
            "write a number, linear:START:END[:UNTIL], two_phase_linear:START:MID:END[:SPLIT], "
            "piecewise:VALUE@UNTIL:..:LAST or exponential:START:END",
        ) from error


def _parsed(text: str) -> Schedule:
    """Return the schedule that `text` names; KeyError, TypeError or ValueError if it names none."""
    name, *parts = text.split(":")
    if not parts:
        return Constant(_number(name))
    if name == "piecewise":
        pairs = [part.split("@") for part in parts[:-1]]
        pieces = tuple((_number(value), float(end)) for value, end in pairs)
        return Piecewise(pieces, _number(parts[-1]))
    make, fewest, most = _FORMS[name]
    if not fewest <= len(parts) <= most:
        raise ValueError(f"{name} has {fewest} to {most} parts")
    return make(*map(_number, parts))


def _number(text: str) -> Number:
    """Return what `_text` wrote: one number, or a list in square brackets."""
    return json.loads(text) if text.startswith("[") else float(text)


def _clip(progress: float) -> float:
    return min(1.0, max(0.0, progress))


def _between(start: Number, end: Number, fraction: float) -> Any:
    """Return the point at `fraction` between the two, exactly `end` from 1 on."""
    low, high = np.asarray(start, np.float64), np.asarray(end, np.float64)
    return _plain(np.where(fraction >= 1.0, high, low + (high - low) * fraction))


def _plain(value: Number) -> Any:
    """Return a float, or a fresh float64 array."""
    array = np.array(value, np.float64)
    return float(array) if array.ndim == 0 else array


def _copied(value: Number) -> Any:
    array = np.array(value, np.float64)
    if not np.isfinite(array).all():
        raise ConfigError("value", value, "not finite", "give finite numbers")
    array.flags.writeable = False
    return float(array) if array.ndim == 0 else array


def _own(schedule: Schedule, *names: str) -> None:
    """Replace the caller's lists and arrays by read-only copies, which must fit each other."""
    values = [_copied(getattr(schedule, name)) for name in names]
    shapes = {np.shape(value) for value in values} - {()}
    if len(shapes) > 1:
        raise ConfigError(
            names[-1], values[-1], f"not as many numbers as {names[0]}", "give each one as many"
        )
    for name, value in zip(names, values, strict=True):
        object.__setattr__(schedule, name, value)


def _check_fraction(name: str, value: float, *, above: bool = False) -> None:
    if not 0.0 <= value <= 1.0 or (above and value == 0.0):
        raise ConfigError(
            name, value, "not a fraction of the run", f"give {'more than 0' if above else '0'} to 1"
        )


def _text(value: Number) -> str:
    array = np.asarray(value)
    if array.ndim == 0:
        return repr(float(array))
    return json.dumps(array.tolist(), separators=(",", ":"))
