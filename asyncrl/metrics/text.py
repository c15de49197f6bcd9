"""Events in words: what a person reads on a console, without colours or layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asyncrl.metrics.events import (
    ActorChange,
    ActorChanged,
    Checkpointed,
    Evaluation,
    Event,
    JobFailed,
    JobReassigned,
    Level,
    Message,
    Progress,
)

Tone = Literal["good", "plain", "warning", "bad", "quiet"]

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CONTROLS_BUT_NEWLINE = {**_CONTROLS, ord("\n"): "\n", ord("\r"): "", ord("\t"): "    "}
_ACTOR_TONES: dict[ActorChange, Tone] = {
    ActorChange.JOINED: "good",
    ActorChange.LEFT: "plain",
    ActorChange.DEAD: "bad",
}
_LEVEL_TONES: dict[Level, Tone] = {
    Level.DEBUG: "quiet",
    Level.INFO: "plain",
    Level.WARNING: "warning",
    Level.ERROR: "bad",
}


@dataclass(frozen=True)
class Line:
    """One line about an event, with what belongs below it (a traceback) in `detail`."""

    text: str
    tone: Tone = "plain"
    detail: str = ""


def printable(text: str) -> str:
    r"""`text`, control characters made visible (``\x1b``): a remote actor steers no terminal."""
    return text.translate(_CONTROLS_BUT_NEWLINE)


def one_line(text: str) -> str:
    """`text` as one printable line, its lines joined by ``" | "``."""
    return " | ".join(part.strip() for part in printable(text).split("\n") if part.strip())


def traceback_text(text: str) -> str:
    """`text`, a formatted traceback, as it stands below the line about a failure."""
    return printable(text).rstrip()


def number(value: float | None) -> str:
    """A measured number at a precision that suits its size; ``-`` when there is none."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-3:
        return f"{value:.2e}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 1 else f"{value:.3f}"


def duration(seconds: float | None) -> str:
    """``4:05``, ``1:04:05``, ``2d 01:04:05``; ``-`` when unknown."""
    if seconds is None:
        return "-"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour:02d}:{minute:02d}:{second:02d}"
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"


def size(nbytes: float) -> str:
    """``512 B``, ``1.5 KiB``, ``12.0 MiB``."""
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} GiB"


def lag(progress: Progress) -> str:
    """Mean and largest lag, ``1.5/2``; ``-`` before anything was learned from."""
    if progress.lag_mean is None:
        return "-"
    return f"{progress.lag_mean:.1f}/{progress.lag_max if progress.lag_max is not None else '-'}"


def progress_line(progress: Progress, width: int | None = None) -> str:
    """Where the run stands, in aligned columns; the least important give way to fit `width`."""
    total = f"{progress.total_steps:,}"
    done = f"{progress.env_steps:,}"
    rate = "-" if progress.steps_per_second is None else f"{progress.steps_per_second:,.0f}"
    columns = [
        (0, f"{done:>{len(total)}}/{total} steps"),
        (2, f"{rate:>5}/s"),
        (0, f"return {number(progress.mean_return):>5}"),
        (1, f"eval {number(progress.eval_return):>5}"),
        (6, f"updates {progress.updates:<4}"),
        (5, f"lag {lag(progress):<5}"),
        (4, f"actors {progress.actors}"),
        (7, f"queue {progress.queued_jobs:<2}"),
        (3, f"eta {duration(progress.eta_seconds)}"),
    ]
    while width is not None and len("  ".join(text for _, text in columns)) > width:
        least = max(columns)
        if least[0] == 0:
            break
        columns.remove(least)
    return "  ".join(text for _, text in columns).rstrip()


def describe(event: Event) -> Line | None:
    """The line about an event; None for `Progress`, which is shown on its own."""
    line: Line | None = None
    match event:
        case JobFailed():
            line = _failed(event)
        case JobReassigned():
            line = Line(_reassigned(event), "warning")
        case ActorChanged():
            line = _actor(event)
        case Evaluation():
            line = Line(_evaluation(event), "good")
        case Checkpointed():
            line = Line(_checkpointed(event), "quiet")
        case Message():
            mark = f"{event.level}: " if event.level in {Level.WARNING, Level.ERROR} else ""
            line = Line(one_line(mark + event.text), _LEVEL_TONES[event.level])
        case Progress():
            pass
    return line


def _reassigned(event: JobReassigned) -> str:
    text = f"job {event.job} taken from actor {event.actor}, attempt {event.attempt} follows"
    return one_line(f"{text}: {event.reason}")


def _checkpointed(event: Checkpointed) -> str:
    held = "" if event.nbytes is None else f", {size(event.nbytes)}"
    return one_line(f"checkpoint at {event.env_steps:,} steps{held}: {event.path}")


def _actor(event: ActorChanged) -> Line:
    count = "" if event.actors is None else f" ({event.actors} alive)"
    reason = f": {event.reason}" if event.reason else ""
    text = f"actor {event.actor} {event.change}{count}{reason}"
    return Line(one_line(text), _ACTOR_TONES[event.change])


def _evaluation(event: Evaluation) -> str:
    return (
        f"evaluation at {event.env_steps:,} steps (version {event.policy_version}): "
        f"return {number(event.mean_return)} over {event.episodes} episodes, "
        f"{number(event.min_return)} to {number(event.max_return)}"
    )


def _failed(event: JobFailed) -> Line:
    seed = "" if event.seed is None else f", seed {event.seed}"
    outcome = "failed for good" if event.dead else "failed"
    subject = (
        f"job {event.job} {outcome} on actor {event.actor}"
        if event.job
        else f"actor {event.actor} {outcome}"
    )
    text = f"{subject} (attempt {event.attempt}{seed}), {event.where}: {event.cause}"
    return Line(one_line(text), "bad", traceback_text(event.traceback))
