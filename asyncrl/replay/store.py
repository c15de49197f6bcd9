"""A store of records in columns, with filters and weighted samplers that work on whole columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from asyncrl.data.replay import Overwrite
from asyncrl.errors import ConfigError
from asyncrl.replay.columns import Columns, Rows
from asyncrl.replay.records import check_places, check_rows, draw

Weights: TypeAlias = str | Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""The column that holds weights, or a function from columns [N, ...] to weights [N]."""
Predicate: TypeAlias = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""A function from columns [N, ...] to bool [N]: which rows pass."""

_FIRST_CAPACITY = 256


class Selection(NamedTuple):
    """Rows of a store."""

    indexes: np.ndarray
    """[N] int64."""
    contents: dict[str, np.ndarray]
    """Column -> copies [N, ...]."""


class Store:
    """Records of named columns, at indexes from 0 up.

    The first records decide the columns' dtypes and shapes.

    Args:
        keys: Names of the columns.
        capacity: Records held at most; None for any number.
        overwrite: What makes room in a full store, unless `put` is told. ring: its places in turn,
            from 0 on, over and over. random: different random places.
        seed: Of sampling and random overwriting.
    """

    def __init__(
        self,
        keys: Sequence[str],
        capacity: int | None = None,
        overwrite: Overwrite = "ring",
        seed: int = 0,
    ) -> None:
        if not keys or len(set(keys)) != len(keys):
            raise ConfigError("keys", list(keys), "no set of names", "give different names")
        if capacity is not None and capacity < 1:
            raise ConfigError("capacity", capacity, "holds nothing", "give 1 or more, or None")
        if overwrite not in ("ring", "random"):
            raise ConfigError("overwrite", overwrite, "unknown", "give ring or random")
        self._keys = tuple(keys)
        self._capacity = capacity
        self._overwrite = overwrite
        self._rng = np.random.default_rng(seed)
        self._columns: Columns | None = None
        self._size = 0
        self._cursor = 0
        """Place that a full ring overwrites next."""

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield every record as column -> value, by index."""
        contents = self.dump()
        for i in range(len(self)):
            yield {key: column[i] for key, column in contents.items()}

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self._keys

    @property
    def capacity(self) -> int | None:
        """Records held at most; None for any number."""
        return self._capacity

    # -- writing ---------------------------------------------------------------------------------

    def put(
        self, contents: Mapping[str, ArrayLike], overwrite_indexes: ArrayLike | None = None
    ) -> np.ndarray:
        """Put in N records and return their indexes [N] int64.

        Free places are taken first. If there are too few, the last records overwrite others.

        Args:
            contents: Every column -> N values.
            overwrite_indexes: Which to overwrite: as many as places are missing, all different.

        Raises:
            ConfigError: Columns are missing, unknown, of different lengths or unlike those before,
                there are more records than `capacity`, or `overwrite_indexes` do not fit; nothing
                was changed.
        """
        rows = self._checked(contents)
        count = len(rows[self._keys[0]])
        if self._capacity is not None and count > self._capacity:
            raise ConfigError(
                "contents",
                f"{count} records",
                f"the store has room for {self._capacity}",
                "put in fewer at once, or make it larger",
            )
        columns = self._room_for(rows, count)
        free = count if self._capacity is None else min(count, self._capacity - self._size)
        over = self._overwritten(count - free, overwrite_indexes)
        indexes = np.concatenate([np.arange(self._size, self._size + free), over]).astype(np.int64)
        columns.write(indexes, rows)
        self._columns = columns
        self._size += free
        return indexes

    def update(self, indexes: ArrayLike, contents: Mapping[str, ArrayLike]) -> np.ndarray:
        """Replace the given columns of the records at `indexes` [N], all different; return these.

        Raises:
            ConfigError: As for `put`, or there is no such record; nothing was changed.
        """
        places = check_places("indexes", indexes, self._size, distinct=True)
        rows = self._checked(contents, some=True)
        for key, values in rows.items():
            if len(values) != len(places):
                raise ConfigError(
                    f"contents[{key!r}]",
                    f"{len(values)} values",
                    f"there are {len(places)} indexes",
                    "give one value for each",
                )
        if self._columns is not None:
            self._columns.write(places, rows)
        return places

    def clear(self) -> None:
        """Remove all records; the columns stay what they are."""
        self._size = self._cursor = 0

    def _room_for(self, rows: Mapping[str, np.ndarray], count: int) -> Columns:
        """Return columns for `count` more records, as far as capacity goes."""
        columns = self._columns
        if columns is None:
            layout = {key: (rows[key].dtype, rows[key].shape[1:]) for key in self._keys}
            columns = Columns(self._capacity or max(count, _FIRST_CAPACITY), layout)
        if self._capacity is None and self._size + count > columns.capacity:
            columns.grow(max(self._size + count, 2 * columns.capacity))
        return columns

    def _overwritten(self, count: int, chosen: ArrayLike | None) -> np.ndarray:
        """Return the places of `count` records that make room."""
        if chosen is not None:
            places = check_places("overwrite_indexes", chosen, self._size, distinct=True)
            if len(places) != count:
                raise ConfigError(
                    "overwrite_indexes",
                    places.tolist(),
                    f"{count} records are overwritten",
                    f"give {count} indexes",
                )
            return places
        if self._overwrite == "random":
            return self._rng.choice(self._size, count, replace=False) if count else _NO_PLACES
        places = (self._cursor + np.arange(count)) % max(1, self._size)
        self._cursor = (self._cursor + count) % max(1, self._capacity or 1)
        return places

    def _checked(
        self, contents: Mapping[str, ArrayLike], *, some: bool = False
    ) -> dict[str, np.ndarray]:
        held: Mapping[str, np.ndarray] = {} if self._columns is None else self._columns
        return check_rows(contents, self._keys, held, some=some)

    # -- reading ---------------------------------------------------------------------------------

    def get(self, indexes: ArrayLike) -> dict[str, np.ndarray]:
        """Return copies of the records at `indexes` [N], [N, ...] a column.

        Raises:
            ConfigError: There is no such record.
        """
        places = check_places("indexes", indexes, self._size)
        if self._columns is None:
            return {key: np.zeros(0) for key in self._keys}
        return self._columns.read(places)

    def get_by_key(self, key: str) -> np.ndarray:
        """Return a copy of a column, by index.

        Raises:
            ConfigError: There is no such column.
        """
        return self._view(np.arange(self._size))[self._known(key)]

    def _known(self, key: str) -> str:
        if key not in self._keys:
            raise ConfigError("key", key, "no such column", f"use one of {list(self._keys)}")
        return key

    def _view(self, places: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return the records at `places`, of which only the columns that are looked at are read."""
        return self.get(places) if self._columns is None else Rows(self._columns, places)

    def dump(self) -> dict[str, np.ndarray]:
        """Return copies of all columns, by index."""
        return self.get(np.arange(self._size))

    def apply_filters(self, *predicates: Predicate) -> Selection:
        """Return the records that pass every predicate, by index.

        Each predicate sees the rows that passed those before it.

        Raises:
            ConfigError: A predicate returns something else than bool [N].
        """
        places = np.arange(self._size)
        for predicate in predicates:
            passes = np.asarray(predicate(self._view(places)))
            if passes.dtype != np.bool_ or passes.shape != places.shape:
                raise ConfigError(
                    "predicates",
                    f"{passes.dtype} {passes.shape}",
                    f"not bool {places.shape}",
                    "return a flag for each row",
                )
            places = places[passes]
        return Selection(places, self.get(places))

    def sample(
        self, size: int, weights: ArrayLike | None = None, *, replace: bool = True
    ) -> Selection:
        """Draw `size` records, uniformly or in proportion to `weights` [len].

        If all weights are 0, every record is drawn alike.

        Raises:
            ConfigError: The store is empty, weights are no finite numbers from 0 up, or without
                replacement there are fewer records (of positive weight) than `size`.
        """
        places = draw(self._rng, np.arange(self._size), size, weights, replace=replace)
        return Selection(places, self.get(places))

    def sample_by_key(self, key: str, size: int, *, replace: bool = True) -> Selection:
        """Draw `size` records in proportion to the column `key`; see `sample`."""
        return self.apply_samplers((key, size), replace=replace)

    def sample_by_keys(
        self, keys: Sequence[str], sizes: Sequence[int], *, replace: bool = True
    ) -> Selection:
        """Draw by the first key, among these by the second, and so on; see `apply_samplers`."""
        if len(keys) != len(sizes):
            raise ConfigError("sizes", list(sizes), f"there are {len(keys)} keys", "give one each")
        return self.apply_samplers(*zip(keys, sizes, strict=True), replace=replace)

    def apply_samplers(self, *samplers: tuple[Weights, int], replace: bool = True) -> Selection:
        """Draw in turn: each (weights, size) draws among the records that the one before drew.

        Raises:
            ConfigError: As for `sample`, or there is no such column.
        """
        places = np.arange(self._size)
        for weights, size in samplers:
            values = None
            if isinstance(weights, str):
                values = self._view(places)[self._known(weights)]
            elif len(places):
                values = weights(self._view(places))
            places = draw(self._rng, places, size, values, replace=replace)
        return Selection(places, self.get(places))

    # -- saving ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return copies of all records and of what the next draw and overwriting depend on."""
        return {
            "columns": {} if self._columns is None else self._columns.state(self._size),
            "cursor": self._cursor,
            "rng": self._rng.bit_generator.state,
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue exactly where `tree` was taken, in a store of the same keys and capacity."""
        self.clear()
        self._columns = None
        if tree["columns"]:
            self.put(tree["columns"])
        self._cursor = tree["cursor"]
        self._rng.bit_generator.state = tree["rng"]


_NO_PLACES = np.zeros(0, np.int64)
