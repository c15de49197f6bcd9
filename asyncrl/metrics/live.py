"""The live display of a run on a terminal: a small panel below, event lines scrolling above it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from asyncrl.metrics.events import Progress
from asyncrl.metrics.text import Line, Tone, duration, lag, number, one_line

STALE_SECONDS = 10.0
"""Silence after which the display says how old its numbers are."""

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
        self._console = Console(file=file, force_terminal=True, width=width, highlight=False)
        self._live = Live(
            console=self._console,
            get_renderable=self.render,
            refresh_per_second=2,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )
        self._shown: tuple[Progress, float] | None = None

    def progress(self, progress: Progress) -> None:
        """Show these numbers from the next redraw on."""
        self._shown = (progress, self._clock())
        if not self._live.is_started:
            self._live.start(refresh=True)

    def line(self, when: str, line: Line) -> None:
        """Print a line above the panel, its detail indented below it."""
        self._console.print(Text.assemble((when, "dim"), " ", (line.text, _STYLES[line.tone])))
        for detail in line.detail.split("\n") if line.detail else ():
            self._console.print(Text("    " + detail, style="red" if line.tone == "bad" else ""))

    def close(self) -> None:
        """Draw the last numbers once more, leave them standing, and give the terminal back."""
        self._live.stop()

    def render(self) -> RenderableType:
        """The panel as it is now."""
        if self._shown is None:
            return Text("waiting for the first results", style="dim")
        progress, since = self._shown
        age = max(0.0, self._clock() - since)
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", no_wrap=True)
        rows.add_column(no_wrap=True, overflow="ellipsis")
        for label, text in _rows(progress):
            rows.add_row(label, text)
        return Panel(
            Group(_head(progress, age), _bar(progress), rows),
            title=Text(f"asyncrl  {one_line(progress.run)}", style="bold"),
            title_align="left",
            border_style="dim",
            padding=(0, 1),
        )


def _head(progress: Progress, age: float) -> Table:
    """Steps, rate and time, at both ends of one line."""
    head = Table.grid(expand=True)
    head.add_column(no_wrap=True, overflow="ellipsis")
    head.add_column(no_wrap=True, justify="right")
    rate = "-" if progress.steps_per_second is None else f"{progress.steps_per_second:,.0f}"
    share = progress.env_steps / max(1, progress.total_steps)
    steps = Text.assemble(
        (f"{progress.env_steps:,}", "bold"),
        f" / {progress.total_steps:,} steps  {min(1.0, share):.0%}",
        (f"  {rate}/s", "cyan"),
    )
    clock = Text(f"{duration(progress.seconds + age)}  ETA {duration(progress.eta_seconds)}")
    if age >= STALE_SECONDS:
        clock = Text(f"nothing new for {duration(age)}  ", style="yellow").append_text(clock)
    head.add_row(steps, clock)
    return head


def _bar(progress: Progress) -> ProgressBar:
    return ProgressBar(
        total=max(1, progress.total_steps),
        completed=min(progress.env_steps, progress.total_steps),
        complete_style="cyan",
        finished_style="green",
    )


def _rows(progress: Progress) -> Iterable[tuple[str, Text]]:
    yield (
        "return",
        _cells(
            (number(progress.mean_return), "mean"),
            (number(progress.eval_return), "evaluation"),
            (number(progress.mean_length), "steps an episode"),
            (f"{progress.episodes:,}", "episodes"),
        ),
    )
    yield (
        "learner",
        _cells(
            (f"{progress.updates:,}", "updates"),
            (f"{progress.policy_version:,}", "weight sets"),
            (lag(progress), "lag mean/max"),
            (f"{progress.generation}", "generation"),
        ),
    )
    yield (
        "actors",
        _cells(
            (f"{progress.actors}", "alive"),
            (f"{progress.queued_jobs}", "jobs queued"),
            (f"{progress.waiting_results}", "results waiting"),
        ),
    )
    yield from _named("losses", progress.losses)
    yield from _named("env", progress.env_metrics)
    counted = {name: count for name, count in progress.counters.items() if count}
    if counted:
        items = "  ".join(f"{one_line(name)} {count:,}" for name, count in counted.items())
        yield "counted", Text(items, style="yellow")


def _cells(*cells: tuple[str, str]) -> Text:
    """Values with their units, in columns that line up from row to row."""
    text = Text()
    for index, (value, unit) in enumerate(cells):
        text.append(f"{value:>7}" if index == 0 else f"{value:>8}", style="bold")
        text.append(f" {unit:<11}" if index < len(cells) - 1 else f" {unit}")
    return text


def _named(label: str, values: Mapping[str, float]) -> Iterable[tuple[str, Text]]:
    if values:
        text = Text()
        for name, value in values.items():
            text.append(f"{one_line(name)} ", style="dim").append(f"{number(value)}  ")
        yield label, text
