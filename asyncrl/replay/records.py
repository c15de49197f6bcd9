"""What goes into and comes out of a `Store`: checks of records and indexes, weighted draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from asyncrl.errors import ConfigError


def check_rows(
    contents: Mapping[str, ArrayLike],
    keys: Sequence[str],
    held: Mapping[str, np.ndarray],
    *,
    some: bool = False,
) -> dict[str, np.ndarray]:
    """Return `contents` as arrays of one length.

    Args:
        contents: Column -> values.
        keys: Names of all columns.
        held: The columns so far, whose dtypes and shapes the values must fit; empty if there are
            none.
        some: Columns may be missing.

    Raises:
        ConfigError: Names the column that is missing, unknown, misaligned or unlike that held.
    """
    missing = [] if some else [key for key in keys if key not in contents]
    unknown = [key for key in contents if key not in keys]
    if missing or unknown or not contents:
        raise ConfigError(
            "contents",
            list(contents),
            f"the columns are {list(keys)}: missing {missing}, unknown {unknown}",
            "give each column of the store",
        )
    rows = {key: _as_array(key, values) for key, values in contents.items()}
    lengths = {key: len(values) for key, values in rows.items()}
    usual = next(iter(lengths.values()))
    for key, values in rows.items():
        if lengths[key] != usual:
            raise ConfigError(
                f"contents[{key!r}]",
                f"{lengths[key]} values",
                f"the columns are misaligned, their lengths are {lengths}",
                "give each column as many values",
            )
        column = held.get(key)
        if column is not None and (
            values.shape[1:] != column.shape[1:]
            or not np.can_cast(values.dtype, column.dtype, "same_kind")
        ):
            raise ConfigError(
                f"contents[{key!r}]",
                f"{values.dtype} {values.shape[1:]}",
                f"the column holds {column.dtype} {column.shape[1:]}",
                "give values like those before",
            )
    return rows


def _as_array(key: str, values: ArrayLike) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError:  # what NumPy raises for ragged lists
        array = np.zeros(0, np.object_)
    if array.ndim == 0 or array.dtype == np.object_:
        raise ConfigError(
            f"contents[{key!r}]",
            values,
            "no list of values of one shape",
            "give one number, or array of the same shape, for each record",
        )
    return array


def check_places(
    field: str, indexes: ArrayLike, size: int, *, distinct: bool = False
) -> np.ndarray:
    """Return `indexes` as int64 [N]; `ConfigError` about `field` unless all are in [0, size)."""
    places = np.asarray(indexes)
    if places.size == 0:
        return np.zeros(0, np.int64)
    if places.ndim != 1 or places.dtype.kind not in "iu":
        raise ConfigError(field, indexes, "no list of indexes", "give whole numbers")
    outside = places[(places < 0) | (places >= size)]
    if outside.size:
        raise ConfigError(
            field, int(outside[0]), f"the store holds {size} records", "give indexes of these"
        )
    if distinct and len(np.unique(places)) != len(places):
        raise ConfigError(field, places.tolist(), "some are the same", "give each once")
    return places.astype(np.int64)


def draw(
    rng: np.random.Generator,
    places: np.ndarray,
    size: int,
    weights: ArrayLike | None,
    *,
    replace: bool,
) -> np.ndarray:
    """Return `size` of `places` [N], drawn uniformly or in proportion to `weights` [N].

    Raises:
        ConfigError: There are no places, weights are no finite numbers from 0 up, or without
            replacement there are fewer places (of positive weight) than `size`.
    """
    if size < 1:
        raise ConfigError("size", size, "nothing is asked for", "give 1 or more")
    if not len(places):
        raise ConfigError("size", size, "the store is empty", "put something in first")
    probabilities = None if weights is None else _probabilities(weights, len(places))
    most = len(places) if probabilities is None else int(np.count_nonzero(probabilities))
    if not replace and size > most:
        raise ConfigError(
            "size",
            size,
            f"without replacement at most {most} records can be drawn",
            "draw fewer, or with replacement",
        )
    return places[rng.choice(len(places), size, replace, probabilities)]


def _probabilities(weights: ArrayLike, count: int) -> np.ndarray | None:
    """Return probabilities [count] in proportion to `weights`; None where all of them are 0."""
    values = np.asarray(weights, np.float64)
    if values.shape != (count,) or not (np.isfinite(values) & (values >= 0)).all():
        raise ConfigError(
            "weights",
            f"{values.dtype} {values.shape}",
            f"not {count} finite numbers from 0 up",
            "give one for each record",
        )
    largest = values.max()
    if largest == 0.0:
        return None
    scaled = values / largest
    return scaled / scaled.sum()
