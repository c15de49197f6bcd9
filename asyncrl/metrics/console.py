"""Progress and events for a person: a live panel on a terminal, plain lines everywhere else."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Protocol, TextIO

from asyncrl.metrics.events import Event, Progress
from asyncrl.metrics.sinks import GuardedSink
from asyncrl.metrics.text import Line, describe, progress_line, traceback_text

_REMEMBERED_TRACEBACKS = 32


class _View(Protocol):
    """How progress and lines are shown."""

    def progress(self, progress: Progress) -> None: ...

    def line(self, when: str, line: Line) -> None: ...

    def close(self) -> None: ...


class ConsoleSink(GuardedSink):
    """Shows a run to whoever watches it.

    On a terminal the newest `Progress` stands in a panel and every other event scrolls by above it;
    elsewhere (a pipe, a file, ``TERM=dumb``) everything is one plain line, progress at most every
    `interval` seconds but always the first and the last. A failed job brings the environment's own
    traceback; further attempts that fail with the same one are a line each.

    Args:
        file: Where to; None is standard output.
        live: True or False to force the panel or plain lines; None looks at `file`.
        interval: Least time between two plain progress lines, in seconds.
        width: Columns; None follows the terminal, and leaves plain lines as long as they are.
        clock: Monotonic time in seconds.
        now: Wall time in seconds since the epoch.
    """

    def __init__(
        self,
        file: TextIO | None = None,
        *,
        live: bool | None = None,
        interval: float = 5.0,
        width: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("ConsoleSink")
        out = sys.stdout if file is None else file
        self._now = now
        self._tracebacks = deque[str](maxlen=_REMEMBERED_TRACEBACKS)
        self._view: _View
        if _is_capable(out) if live is None else live:
            from asyncrl.metrics.live import LiveView

            self._view = LiveView(out, clock=clock, width=width)
        else:
            self._view = PlainView(out, interval=interval, clock=clock, now=now, width=width)

    def has_shown(self, traceback: str) -> bool:
        """Whether this traceback was shown, and not so long ago that it is forgotten."""
        return traceback_text(traceback) in self._tracebacks

    def _write(self, event: Event) -> None:
        if isinstance(event, Progress):
            self._view.progress(event)
        elif (line := describe(event)) is not None:
            self._view.line(_stamp(self._now()), self._once(line))

    def _once(self, line: Line) -> Line:
        """The line, less a traceback that was shown before: failing environments repeat theirs."""
        if not line.detail:
            return line
        if line.detail in self._tracebacks:
            return Line(f"{line.text} (same traceback as before)", line.tone)
        self._tracebacks.append(line.detail)
        return line

    def _close(self) -> None:
        self._view.close()


class PlainView:
    """One line an event, flushed at once; progress no more often than every `interval` seconds."""

    def __init__(
        self,
        file: TextIO,
        *,
        interval: float,
        clock: Callable[[], float],
        now: Callable[[], float],
        width: int | None = None,
    ) -> None:
        self._file = file
        self._interval = interval
        self._clock = clock
        self._now = now
        self._width = width
        self._next = float("-inf")
        self._held: Progress | None = None

    def progress(self, progress: Progress) -> None:
        """Print the progress, or hold it back when the last line is too fresh."""
        self._held = progress
        if self._clock() >= self._next:
            self._print_progress(progress)

    def line(self, when: str, line: Line) -> None:
        """Print a line, its detail indented below it."""
        detail = "".join("\n    " + text for text in line.detail.split("\n")) if line.detail else ""
        self._print(f"{when} {line.text}{detail}")

    def close(self) -> None:
        """Print the last progress if it was held back."""
        if self._held is not None:
            self._print_progress(self._held)

    def _print_progress(self, progress: Progress) -> None:
        self._held = None
        self._next = self._clock() + self._interval
        when = _stamp(self._now())
        width = None if self._width is None else self._width - len(when) - 1
        self._print(f"{when} {progress_line(progress, width)}")

    def _print(self, text: str) -> None:
        encoding = getattr(self._file, "encoding", None) or "utf-8"
        self._file.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        self._file.flush()


def _stamp(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds).astimezone():%H:%M:%S}"


def _is_capable(file: TextIO) -> bool:
    """Whether `file` is a terminal that can redraw lines."""
    return file.isatty() and os.environ.get("TERM", "") not in {"", "dumb", "unknown"}
