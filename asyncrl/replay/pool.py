"""Items in columns with room for so many, drawn uniformly or by priority: what replays share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from asyncrl.data import ReplaySpec, derive_seed
from asyncrl.errors import ConfigError, InvalidBatchError
from asyncrl.replay.columns import Columns
from asyncrl.replay.places import make_places
from asyncrl.replay.priorities import Priorities
from asyncrl.schedules import as_schedule

Layout = Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]
"""Name -> (dtype, shape of one row)."""


class Drawn(NamedTuple):
    """Items of one draw."""

    rows: dict[str, np.ndarray]
    """Name -> copies [N, ...]."""
    weight: np.ndarray | None
    """[N] float32 importance weights; None for uniform draws."""
    numbers: np.ndarray | None
    """[N] int64 insertion numbers; None for uniform draws."""


class Pool:
    """All of a `Replay` but `add` and `sample`: up to `spec.items` items of one layout.

    Args:
        spec: Capacity, overwriting, priorities, directory.
        seed: Of drawing and of random overwriting.
    """

    def __init__(self, spec: ReplaySpec, seed: int) -> None:
        self._spec = spec
        self.capacity = spec.items
        self.inserted = 0
        """Items ever put in: the insertion number of the next one."""
        self.missed_priorities = 0
        """Priorities that came for items no longer there."""
        self._columns: Columns | None = None
        self._places = make_places(spec.overwrite, self.capacity, derive_seed(seed, "places"))
        self._priorities = (
            Priorities(self.capacity, spec.alpha, spec.priority_eps) if spec.prioritized else None
        )
        self._beta = as_schedule(spec.beta, "beta")
        if not all(_is_fraction(self._beta(percent / 100)) for percent in range(101)):
            raise ConfigError("beta", spec.beta, "out of range", "give a number in [0, 1]")
        self._rng = np.random.default_rng(seed)

    def __len__(self) -> int:
        return min(self.inserted, self.capacity)

    @property
    def nbytes(self) -> int:
        """Bytes reserved for all that `capacity` items take; 0 before the first ones."""
        if self._columns is None:
            return 0
        return self._columns.nbytes + (self._priorities.nbytes if self._priorities else 0)

    def _allocate(self, layout: Layout) -> Columns:
        """Make the columns; done by the first `_put` unless it was before."""
        self._columns = Columns(self.capacity, layout, self._spec.directory)
        return self._columns

    def _put(self, rows: Mapping[str, np.ndarray], whose: str) -> None:
        """Put in N items, [N, ...] each, over others where there is no room left.

        Args:
            rows: Name -> values.
            whose: Where they come from, for errors.

        Raises:
            InvalidBatchError: Columns are not those of the items before; nothing was put in.
            ConfigError: The first items: there is no room for so many.
        """
        columns = self._columns
        if columns is None:
            columns = self._allocate(layout_of(rows))
        for name, values in rows.items():
            column = columns[name]
            fits = np.can_cast(values.dtype, column.dtype, "same_kind")
            if values.shape[1:] != column.shape[1:] or not fits:
                raise InvalidBatchError(
                    f"{whose}: {name} is {values.dtype} {values.shape[1:]}, but this replay's"
                    f" spaces make it {column.dtype} {column.shape[1:]}"
                )
        count = len(next(iter(rows.values())))
        items, places = self._places.take(self.inserted, count)
        whole = len(items) == count
        columns.write(places, rows if whole else {n: rows[n][items] for n in rows})
        if self._priorities is not None:
            self._priorities.welcome(places)
        self.inserted += count

    def _draw(self, size: int, progress: float) -> Drawn:
        """Draw `size` items with replacement.

        Raises:
            ConfigError: Nothing was put in yet, or `size` is less than 1.
        """
        if size < 1:
            raise ConfigError("size", size, "nothing is asked for", "give 1 or more")
        if self._columns is None or not len(self):
            raise ConfigError("size", size, "the replay is empty", "add transitions first")
        if self._priorities is None:
            places = self._rng.integers(0, len(self), size)
            return Drawn(self._columns.read(places), None, None)
        beta = float(self._beta(progress))
        places, weight = self._priorities.draw(self._rng, size, len(self), beta)
        numbers = self._places.numbers(places, self.inserted)
        return Drawn(self._columns.read(places), weight, numbers)

    def update_priorities(self, index: np.ndarray, priority: np.ndarray) -> None:
        """Set new priorities; those of items no longer there are counted in `missed_priorities`.

        Raises:
            ConfigError: The pool has no priorities, or these are not N finite numbers from 0 up for
                N items that were put in; nothing was changed.
        """
        if self._priorities is None:
            raise ConfigError(
                "prioritized", False, "this replay has no priorities", "make it with prioritized"
            )
        index, priority = np.asarray(index), np.asarray(priority)
        if index.dtype.kind not in "iu" or index.ndim != 1 or index.shape != priority.shape:
            raise ConfigError(
                "priority",
                f"{priority.shape} for {index.dtype} {index.shape}",
                "not one number for each insertion number",
                "give index as it was sampled, and [N] priorities",
            )
        if not (np.isfinite(priority) & (priority >= 0)).all():
            bad = priority[~(np.isfinite(priority) & (priority >= 0))][0]
            raise ConfigError(
                "priority", float(bad), "no finite number from 0 up", "give |errors| or losses"
            )
        if ((index < 0) | (index >= self.inserted)).any():
            raise ConfigError(
                "index",
                int(index[(index < 0) | (index >= self.inserted)][0]),
                f"items 0 to {self.inserted - 1} were added",
                "give index as it was sampled",
            )
        places, there = self._places.find(index.astype(np.int64), self.inserted)
        self._priorities.set(places[there], priority[there])
        self.missed_priorities += len(there) - int(there.sum())

    # -- saving ----------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        """Return what data of this pool depend on."""
        spec = self._spec
        settings: dict[str, Any] = {
            "capacity": spec.capacity,
            "overwrite": spec.overwrite,
            "n_step": spec.n_step,
            "prioritized": spec.prioritized,
            "sequence_length": spec.sequence_length,
        }
        if spec.n_step > 1:
            settings["gamma"] = spec.gamma
        if spec.prioritized:
            settings["alpha"] = spec.alpha
        return settings

    def state(self) -> dict[str, Any]:
        """Return copies of everything the next draw depends on; of columns, the filled rows."""
        size = len(self)
        columns = {} if self._columns is None else self._columns.state(size)
        priorities = None if self._priorities is None else self._priorities.state(size)
        return {
            "settings": self._settings(),
            "columns": columns,
            "inserted": self.inserted,
            "missed": self.missed_priorities,
            "places": self._places.state(),
            "priorities": priorities,
            "rng": self._rng.bit_generator.state,
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue exactly where `tree` was taken: the next draw is equal.

        Raises:
            ConfigError: The state is that of other settings or spaces; nothing was changed.
        """
        for name, here in self._settings().items():
            if (there := tree["settings"].get(name)) != here:
                raise ConfigError(
                    name,
                    here,
                    f"the saved replay has {there!r}",
                    "resume with the replay's settings the run was started with",
                )
        saved: Mapping[str, np.ndarray] = tree["columns"]
        size = min(tree["inserted"], self.capacity)
        if saved:
            columns = self._columns
            if columns is None:
                columns = Columns(self.capacity, layout_of(saved), self._spec.directory)
            columns.load_state(saved, size)
            self._columns = columns
        self.inserted = int(tree["inserted"])
        self.missed_priorities = int(tree["missed"])
        self._places.load_state(tree["places"])
        if self._priorities is not None:
            spec = self._spec
            self._priorities = Priorities(self.capacity, spec.alpha, spec.priority_eps)
            self._priorities.load_state(tree["priorities"])
        self._rng.bit_generator.state = tree["rng"]

    def close(self) -> None:
        """Give memory or disk space back; the pool is empty then, and of no more use."""
        if self._columns is not None:
            self._columns.close()
            self._columns = None


def layout_of(rows: Mapping[str, np.ndarray]) -> Layout:
    """Return the layout of columns that hold such rows."""
    return {name: (values.dtype, values.shape[1:]) for name, values in rows.items()}


def _is_fraction(value: Any) -> bool:
    return isinstance(value, float) and 0.0 <= value <= 1.0
