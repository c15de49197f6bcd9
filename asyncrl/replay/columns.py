"""Named columns of equal length: one array each, in memory or in files."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from asyncrl.errors import ConfigError


class Columns(Mapping[str, np.ndarray]):
    """Arrays [capacity, ...] of zeros, by name.

    Arrays in files are mapped into memory. The files lose their names as soon as they are mapped,
    so that the disk space is free again once the columns are closed, or the process is gone for
    whatever reason.

    Args:
        capacity: Rows.
        layout: Name -> (dtype, shape of one row).
        directory: Folder for the files, made where it is missing; None for memory.

    Raises:
        ConfigError: They do not fit into memory or on the disk, or the folder cannot be written.
    """

    def __init__(
        self,
        capacity: int,
        layout: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]],
        directory: str | Path | None = None,
    ) -> None:
        self._capacity = capacity
        self._directory = directory
        needed = sum(
            capacity * math.prod(shape) * np.dtype(dtype).itemsize
            for dtype, shape in layout.values()
        )
        if directory is not None:
            _make_room(Path(directory), needed)
        try:
            self._arrays = {
                name: self._zeros(capacity, np.dtype(dtype), shape)
                for name, (dtype, shape) in layout.items()
            }
        except (MemoryError, OSError) as error:
            raise ConfigError(
                "capacity" if directory is None else "directory",
                capacity if directory is None else str(directory),
                f"{needed} bytes for {capacity} rows cannot be had: {error}",
                "hold fewer, or choose another directory",
            ) from error

    def _zeros(self, rows: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        size = rows * math.prod(shape)
        if self._directory is None or size == 0:
            return np.zeros((rows, *shape), dtype)
        with tempfile.TemporaryFile(prefix="replay-", dir=self._directory) as file:
            file.truncate(size * dtype.itemsize)
            return np.asarray(np.memmap(file, dtype, "r+", shape=(rows, *shape)))

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def capacity(self) -> int:
        """Rows."""
        return self._capacity

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, in memory or in files."""
        return sum(array.nbytes for array in self._arrays.values())

    def write(self, places: np.ndarray, rows: Mapping[str, np.ndarray]) -> None:
        """Put rows [N, ...] at `places` [N], all different."""
        for name, values in rows.items():
            self._arrays[name][places] = values

    def read(self, places: np.ndarray) -> dict[str, np.ndarray]:
        """Return copies of the rows at `places` [N], [N, ...] each."""
        return {name: array.take(places, axis=0) for name, array in self._arrays.items()}

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows; those there are stay."""
        for name, array in self._arrays.items():
            larger = self._zeros(capacity, array.dtype, array.shape[1:])
            larger[: self._capacity] = array
            self._arrays[name] = larger
        self._capacity = capacity

    def state(self, size: int) -> dict[str, np.ndarray]:
        """Return copies, in memory, of the first `size` rows."""
        return {name: np.array(array[:size]) for name, array in self._arrays.items()}

    def load_state(self, state: Mapping[str, np.ndarray], size: int) -> None:
        """Take over the first `size` rows.

        Raises:
            ConfigError: The state has other columns, shapes or dtypes; nothing was changed.
        """
        if set(state) != set(self._arrays):
            raise _another(sorted(state), sorted(self._arrays))
        for name, array in self._arrays.items():
            rows = state[name]
            if rows.shape != (size, *array.shape[1:]) or rows.dtype != array.dtype:
                raise _another(f"{name} {rows.dtype} {rows.shape}", f"{array.dtype} {array.shape}")
        for name, array in self._arrays.items():
            array[:size] = state[name]

    def close(self) -> None:
        """Let go of the arrays, and of the files' disk space."""
        self._arrays = {}


class Rows(Mapping[str, np.ndarray]):
    """The rows of `columns` at `places`; a column is copied when it is looked at."""

    def __init__(self, columns: Mapping[str, np.ndarray], places: np.ndarray) -> None:
        self._columns = columns
        self._places = places

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name].take(self._places, axis=0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _make_room(directory: Path, needed: int) -> None:
    """Make `directory`; `ConfigError` if it cannot be, or its disk has less than `needed` bytes."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(directory).free
    except OSError as error:
        raise ConfigError(
            "directory", str(directory), f"no folder: {error}", "choose another"
        ) from error
    if free < needed:
        raise ConfigError(
            "directory",
            str(directory),
            f"{needed} bytes are needed, and {free} are free",
            "hold fewer transitions, or choose another disk",
        )


def _another(saved: object, held: object) -> ConfigError:
    return ConfigError(
        "state",
        saved,
        f"this replay holds {held}",
        "resume with the capacity and the environment the run was started with",
    )
