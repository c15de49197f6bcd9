"""Metrics as files that grow: JSON lines of every event, and a CSV table of the progress."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import BinaryIO

from asyncrl.metrics.events import Event, Progress
from asyncrl.metrics.records import as_columns, as_record, event_name
from asyncrl.metrics.sinks import GuardedSink

MAX_COLUMNS = 256
"""Columns a CSV file grows to; names that come later are left out (JSON lines have them all)."""

_TAIL = 1 << 20


class JsonlSink(GuardedSink):
    """Every event as one JSON object a line, appended and flushed at once.

    A line holds ``event`` (the kind in snake case), ``time`` (seconds since the epoch) and the
    event's fields. What is not known is absent; NaN and infinities are never written, so that any
    JSON reader reads it. A line that a killed process left unfinished is removed when the file is
    opened again.

    Args:
        path: The file, made with its folders at the first event, and appended to when it exists.
        clock: Wall time in seconds since the epoch.
    """

    def __init__(self, path: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(f"JsonlSink({str(path)!r})")
        self._path = Path(path)
        self._clock = clock
        self._file: BinaryIO | None = None

    def _write(self, event: Event) -> None:
        if self._file is None:
            self._file = _open_whole_lines(self._path)
        record = {"event": event_name(event), "time": round(self._clock(), 3), **as_record(event)}
        line = json.dumps(record, allow_nan=False, separators=(",", ":"))
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()


class CsvSink(GuardedSink):
    """Each `Progress` as one row: its fields, then one column for each loss, metric and counter.

    Those columns are called ``losses.<name>``, ``env_metrics.<name>``, ``counters.<name>``; an
    unknown value is an empty cell. When a name turns up that has no column yet, the file is written
    anew with one more column (and replaced in one step); up to `MAX_COLUMNS` of them.

    Args:
        path: The file, made with its folders at the first progress, and appended to when it exists.
        clock: Wall time in seconds since the epoch, the first column.
    """

    def __init__(self, path: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(f"CsvSink({str(path)!r})")
        self._path = Path(path)
        self._clock = clock
        self._file: BinaryIO | None = None
        self._columns: list[str] = []

    def _write(self, event: Event) -> None:
        if not isinstance(event, Progress):
            return
        row = {"time": round(self._clock(), 3), **as_columns(event)}
        if self._file is None:
            self._file = self._begin()
        new = sorted(set(row) - set(self._columns))[: MAX_COLUMNS - len(self._columns)]
        if new:
            self._file.close()
            self._file = self._widen(new)
        self._file.write(_csv_row([str(row.get(name, "")) for name in self._columns]))
        self._file.flush()

    def _begin(self) -> BinaryIO:
        file = _open_whole_lines(self._path)
        with self._path.open(newline="", encoding="utf-8") as existing:
            self._columns = next(csv.reader(existing), list[str]())
        if not self._columns:
            mappings = {"losses", "env_metrics", "counters"}
            names = (item.name for item in fields(Progress))
            self._columns = ["time", *(name for name in names if name not in mappings)]
            file.write(_csv_row(self._columns))
        return file

    def _widen(self, new: list[str]) -> BinaryIO:
        self._columns = [*self._columns, *new]
        wider = self._path.with_name(self._path.name + ".new")
        with (
            self._path.open(newline="", encoding="utf-8") as narrow,
            wider.open("wb") as file,
        ):
            rows = csv.reader(narrow)
            next(rows, None)
            file.write(_csv_row(self._columns))
            for row in rows:
                file.write(_csv_row(row + [""] * (len(self._columns) - len(row))))
        wider.replace(self._path)
        return self._path.open("ab")

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()


def _csv_row(cells: list[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _open_whole_lines(path: Path) -> BinaryIO:
    """Open `path` to append to, less the unfinished line that a killed process may have left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        return path.open("ab")  # a pipe or a device has no end to look at
    file = path.open("a+b")
    size = file.seek(0, io.SEEK_END)
    start = file.seek(max(0, size - _TAIL))
    tail = file.read()
    if tail and not tail.endswith(b"\n"):
        file.truncate(start + tail.rfind(b"\n") + 1)
    file.seek(0, io.SEEK_END)
    return file
