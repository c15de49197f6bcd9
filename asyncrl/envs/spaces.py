"""Gymnasium spaces as data."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from asyncrl.data import SpaceSpec
from asyncrl.errors import ConfigError

_NUMERIC_KINDS = "biuf"


def space_spec(space: gymnasium.Space[Any], what: str = "space") -> SpaceSpec:
    """Return `space` as data.

    Args:
        space: A `Box` of numbers, or a `Discrete`.
        what: What the space is, for the error message: ``"observation space"``.

    Raises:
        ConfigError: For every other kind of space, and for a box without elements; the message
            shows the space and the way round.
    """
    untyped: Any = space  # Gymnasium's own annotations leave element types open
    if isinstance(space, gymnasium.spaces.Box) and 0 in space.shape:
        raise ConfigError(
            what,
            untyped,
            "it has no elements, so there is nothing to see or to choose",
            "give it at least one number, which may be constant",
        )
    if isinstance(space, gymnasium.spaces.Discrete):
        return SpaceSpec(kind="discrete", dtype="int64", n=int(space.n), start=int(space.start))
    if isinstance(space, gymnasium.spaces.Box) and untyped.dtype.kind in _NUMERIC_KINDS:
        return SpaceSpec(
            kind="box",
            shape=tuple(int(width) for width in space.shape),
            dtype=str(untyped.dtype.name),
            low=_bound(untyped.low),
            high=_bound(untyped.high),
        )
    raise ConfigError(
        what,
        untyped,
        "only Box and Discrete spaces are supported",
        "wrap the environment so that it has one, for example with "
        "gymnasium.wrappers.FlattenObservation, or number the combined actions",
    )


def _bound(bound: np.ndarray) -> float | tuple[float, ...]:
    """Return one number where all elements share it, else one per element in C order."""
    flat = bound.reshape(-1)
    if flat.size and (flat == flat[0]).all():
        return float(flat[0])
    return tuple(float(number) for number in flat)
