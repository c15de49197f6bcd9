"""The live display of a run on a terminal: a small panel below, event lines scrolling above it."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from asyncrl.metrics.events import Progress
from asyncrl.metrics.text import Line, Tone, duration, lag, number, one_line

REDRAW_SECONDS = 0.5
"""Time between two redraws."""

STALE_SECONDS = 10.0
"""Silence after which the display says how old its numbers are."""

_LABEL = 7
_STYLES: dict[Tone, str] = {
    "good": "green",
    "plain": "",
    "warning": "yellow",
    "bad": "bold red",
    "quiet": "dim",
}


class LiveView:
    """Shows the newest `Progress` in a panel that a thread redraws twice a second, until `close`.

    While it is shown, what goes to ``sys.stdout`` and ``sys.stderr``, where these are terminals,
    appears above it.

    Args:
        file: The terminal.
        clock: Monotonic time in seconds, for the elapsed time between events.
        width: Columns; None follows the terminal.
    """

    def __init__(
        self,
        file: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        width: int | None = None,
    ) -> None:
        self._clock = clock
        self._born = clock()
        self._shown: tuple[Progress, float] | None = None
        self._stop = threading.Event()
        self._redrawer = threading.Thread(target=self._redraw, name="asyncrl-console", daemon=True)
        self._console = Console(file=file, force_terminal=True, width=width, highlight=False)
        self._live = Live(
            console=self._console,
            get_renderable=self.render,
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )

    def progress(self, progress: Progress) -> None:
        """Show these numbers from the next redraw on."""
        self._shown = (progress, self._clock())
        self._start()

    def line(self, when: str, line: Line) -> None:
        """Print a line above the panel, its detail indented below it."""
        self._start()
        style = _STYLES[line.tone]
        text = Text.assemble((when, "dim"), " ", (line.text, style))
        if line.detail:
            detail = Text(line.detail, style="red" if line.tone == "bad" else "")
            self._console.print(Group(text, Padding(detail, (0, 0, 0, 4))))
        else:
            self._console.print(text)

    def close(self) -> None:
        """Draw the last numbers once more, leave them standing, and give the terminal back."""
        if self._shown is None:
            self._live.transient = True
        else:
            self._shown = (self._shown[0], self._clock())
        self._stop.set()
        if self._redrawer.is_alive():
            self._redrawer.join(timeout=1.0)
        self._live.stop()

    def _start(self) -> None:
        if not self._live.is_started:
            self._live.start(refresh=True)
            self._redrawer.start()

    def _redraw(self) -> None:
        # A terminal that went away is reported by the next event, not by this thread.
        with contextlib.suppress(OSError, ValueError):
            while not self._stop.wait(REDRAW_SECONDS):
                self._live.refresh()

    def render(self) -> RenderableType:
        """The panel as it is now."""
        if self._shown is None:
            waited = duration(self._clock() - self._born)
            return Text(f"waiting for the first results  {waited}", style="dim")
        progress, since = self._shown
        age = max(0.0, self._clock() - since)
        title = f"asyncrl  {one_line(progress.run)}  generation {progress.generation}"
        return Panel(
            Group(_head(progress, age), _numbers(progress), _named(progress)),
            title=Text(title, style="bold"),
            title_align="left",
            border_style="dim",
            padding=(0, 1),
        )


def _head(progress: Progress, age: float) -> Table:
    """Steps, rate and time at both ends of one line, above a bar."""
    ends = Table.grid(expand=True, padding=(0, 1))
    ends.add_column(no_wrap=True, overflow="ellipsis")
    ends.add_column(no_wrap=True, justify="right")
    rate = "-" if progress.steps_per_second is None else f"{progress.steps_per_second:,.0f}"
    percent = min(100, 100 * progress.env_steps // max(1, progress.total_steps))
    steps = Text.assemble(
        (f"{progress.env_steps:,}", "bold"),
        f" / {progress.total_steps:,} steps  {percent}%",
        (f"  {rate}/s", "cyan"),
    )
    if age >= STALE_SECONDS:
        times = Text(f"nothing new for {duration(age)}", style="yellow")
    else:
        times = Text(f"ETA {duration(progress.eta_seconds)}")
    ends.add_row(steps, times.append(f"  {duration(progress.seconds + age)}", style="bold"))
    head = Table.grid(expand=True)
    head.add_row(ends)
    head.add_row(
        ProgressBar(
            total=max(1, progress.total_steps),
            completed=min(progress.env_steps, progress.total_steps),
            complete_style="cyan",
            finished_style="green",
        )
    )
    return head


def _numbers(progress: Progress) -> Table:
    """Values with their units, in columns that line up from row to row."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="dim", min_width=_LABEL, no_wrap=True)
    for _ in range(4):
        grid.add_column(style="bold", justify="right", min_width=6, no_wrap=True)
        grid.add_column(no_wrap=True, min_width=8)
    grid.add_row(
        *("return", number(progress.mean_return), "mean"),
        *(number(progress.eval_return), "evaluation"),
        *(number(progress.mean_length), "length"),
        *(f"{progress.episodes:,}", "episodes"),
    )
    grid.add_row(
        *("learner", f"{progress.updates:,}", "updates"),
        *(f"{progress.policy_version:,}", "version"),
        *(lag(progress), "lag"),
    )
    grid.add_row(
        *("actors", f"{progress.actors:,}", "alive"),
        *(f"{progress.queued_jobs:,}", "queued"),
        *(f"{progress.waiting_results:,}", "waiting"),
    )
    return grid


def _named(progress: Progress) -> Table:
    """What the algorithm and the environments call by names of their own, and what went wrong."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="dim", min_width=_LABEL, no_wrap=True)
    grid.add_column()
    for label, values in (("losses", progress.losses), ("env", progress.env_metrics)):
        if values:
            cells = [
                Text.assemble((f"{one_line(name)} ", "dim"), number(value))
                for name, value in values.items()
            ]
            grid.add_row(label, Columns(cells, padding=(0, 2)))
    counted = {name: count for name, count in progress.counters.items() if count}
    if counted:
        items = "  ".join(f"{one_line(name)} {count:,}" for name, count in counted.items())
        grid.add_row("counted", Text(items, style="yellow"))
    return grid
