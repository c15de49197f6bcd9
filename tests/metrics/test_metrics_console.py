import io
import re
import threading
from typing import Any

import pytest

from asyncrl.metrics import (
    ActorChange,
    ActorChanged,
    ConsoleSink,
    JobFailed,
    JobReassigned,
    Level,
    Message,
    Progress,
)
from asyncrl.metrics.text import duration, number, one_line, progress_line, size

TRACEBACK = (
    'Traceback (most recent call last):\n  File "env.py", line 3, in step\nValueError: boom\n'
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class LatinFile(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="ascii")


def progress(env_steps: int, **values: Any) -> Progress:
    return Progress(run="cartpole", env_steps=env_steps, total_steps=100_000, **values)


def full_progress(env_steps: int = 41_984) -> Progress:
    return progress(
        env_steps,
        seconds=83.2,
        updates=410,
        episodes=1234,
        mean_return=312.42,
        mean_length=312.4,
        eval_return=487.0,
        steps_per_second=5210.3,
        policy_version=411,
        lag_mean=1.02,
        lag_max=2,
        actors=3,
        queued_jobs=4,
        waiting_results=1,
        eta_seconds=130.0,
        losses={"policy": -0.0123, "value": 4.21},
        env_metrics={"distance": 0.31},
        counters={"reassigned": 7, "failed": 0},
    )


def failure(**values: Any) -> JobFailed:
    fields: dict[str, Any] = {
        "actor": "a1",
        "job": "1-7",
        "attempt": 2,
        "where": "step 37 of environment 3",
        "cause": "ValueError: boom",
        "traceback": TRACEBACK,
        "seed": 123,
    }
    return JobFailed(**(fields | values))


def plain(*, interval: float = 5.0) -> tuple[ConsoleSink, io.StringIO, Clock]:
    out, clock = io.StringIO(), Clock()
    return ConsoleSink(out, interval=interval, clock=clock, now=lambda: 0.0), out, clock


def live(width: int) -> tuple[ConsoleSink, io.StringIO, Clock]:
    out, clock = io.StringIO(), Clock()
    return ConsoleSink(out, live=True, width=width, clock=clock, now=lambda: 0.0), out, clock


def shown(out: io.StringIO) -> list[str]:
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    return [line for part in text.split("\n") for line in part.split("\r") if line.strip()]


def test_plain_progress_comes_first_last_and_at_most_every_interval():
    sink, out, clock = plain()
    for step in range(13):
        sink.write(progress(step))
        clock.now += 1
    sink.close()
    steps = [int(line.split()[1].split("/")[0]) for line in out.getvalue().splitlines()]
    assert steps == [0, 5, 10, 12]


def test_the_last_progress_is_not_printed_twice():
    sink, out, _ = plain()
    sink.write(progress(1))
    sink.close()
    sink.close()
    assert len(out.getvalue().splitlines()) == 1


def test_a_plain_line_holds_every_number_a_watcher_needs_in_120_columns():
    line = progress_line(full_progress())
    for text in ("41,984/100,000", "5,210/s", "return 312.4", "eval 487.0", "updates 410"):
        assert text in line
    for text in ("lag 1.0/2", "actors 3", "queue 4", "eta 2:10"):
        assert text in line
    assert len(f"00:00:00 {line}") <= 120


def test_a_narrow_plain_line_keeps_what_matters_most():
    line = progress_line(full_progress(), 60)
    assert len(line) <= 60
    assert "41,984/100,000" in line
    assert "return 312.4" in line
    assert "queue" not in line
    assert progress_line(full_progress(), 1).startswith(" 41,984")


def test_what_is_not_known_yet_is_a_dash_and_never_nan():
    line = progress_line(progress(0))
    assert "nan" not in line.lower()
    assert re.search(r"return +-", line)
    assert "lag -" in line


def test_a_failure_shows_the_environments_own_traceback_with_job_and_seed():
    sink, out, _ = plain()
    sink.write(failure())
    head, *trace = out.getvalue().splitlines()
    assert "job 1-7 failed on actor a1 (attempt 2, seed 123)" in head
    assert "step 37 of environment 3: ValueError: boom" in head
    assert [line.removeprefix("    ") for line in trace] == TRACEBACK.rstrip().splitlines()


def test_a_traceback_is_shown_once_however_many_attempts_fail_with_it():
    sink, out, _ = plain()
    sink.write(failure())
    sink.write(failure(job="1-8"))
    assert out.getvalue().count("Traceback (most") == 1
    assert "same traceback as before" in out.getvalue()
    sink.write(failure(job="1-8", attempt=3, dead=True))
    assert out.getvalue().count("Traceback (most") == 1
    assert "job 1-8 failed for good" in out.getvalue()
    assert len(out.getvalue().splitlines()) == 3 + len(TRACEBACK.splitlines())
    sink.write(failure(job="1-9", traceback=TRACEBACK.replace("line 3", "line 4")))
    assert out.getvalue().count("Traceback (most") == 2


def test_a_console_knows_which_tracebacks_it_has_shown():
    sink, _, _ = plain()
    assert not sink.has_shown(TRACEBACK)
    sink.write(failure())
    assert sink.has_shown(TRACEBACK)
    assert not sink.has_shown("")


def test_a_failure_outside_a_job_names_the_actor():
    sink, out, _ = plain()
    sink.write(failure(job="", seed=None, traceback="", where="making the environment"))
    (line,) = out.getvalue().splitlines()
    assert "actor a1 failed (attempt 2), making the environment: ValueError: boom" in line


def test_actor_and_job_events_are_one_line_each_at_once():
    sink, out, _ = plain()
    sink.write(
        ActorChanged(actor="a1", change=ActorChange.DEAD, reason="no beat\nfor 10 s", actors=2)
    )
    sink.write(JobReassigned(job="1-7", actor="a1", attempt=2, reason="dead"))
    sink.write(Message(level=Level.WARNING, text="careful"))
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0].endswith("actor a1 dead (2 alive): no beat | for 10 s")
    assert lines[1].endswith("job 1-7 taken from actor a1, attempt 2 follows: dead")
    assert lines[2].endswith("warning: careful")


@pytest.mark.parametrize("make", [plain, lambda: live(100)])
def test_a_remote_actor_cannot_steer_the_terminal(make: Any):
    sink, out, _ = make()
    sink.write(failure(cause="\x1b[2Jgone", traceback="\x1b]0;title\x07 [bold]markup[/bold]"))
    sink.close()
    assert "\x1b[2J" not in out.getvalue()
    assert "\x1b]0;" not in out.getvalue()
    assert r"\x1b[2Jgone" in out.getvalue()
    assert "[bold]markup[/bold]" in out.getvalue()


def test_a_stream_that_cannot_encode_a_character_still_gets_the_line():
    out = LatinFile()
    sink = ConsoleSink(out)
    sink.write(Message(level=Level.INFO, text="naïve"))
    out.seek(0)
    assert r"na\xefve" in out.read()


def test_a_closed_pipe_ends_the_console_and_not_the_training(caplog: pytest.LogCaptureFixture):
    class Closed(io.StringIO):
        def write(self, s: str, /) -> int:
            raise BrokenPipeError

    sink = ConsoleSink(Closed())
    sink.write(progress(1))
    sink.write(progress(2))
    sink.close()
    assert len(caplog.records) == 1


def test_only_a_capable_terminal_gets_the_live_panel(monkeypatch: pytest.MonkeyPatch):
    for term, panel in (("xterm-256color", True), ("dumb", False)):
        monkeypatch.setenv("TERM", term)
        out = Terminal()
        sink = ConsoleSink(out, width=80)
        sink.write(progress(1))
        sink.close()
        assert ("\x1b[" in out.getvalue()) == panel


@pytest.mark.parametrize("width", [80, 120])
def test_the_live_panel_shows_every_number_within_the_width(width: int):
    sink, out, _ = live(width)
    sink.write(full_progress())
    sink.close()
    lines = shown(out)
    text = "\n".join(lines)
    assert "…" not in text
    assert max(map(len, lines)) <= width
    for part in ("cartpole", "41,984 / 100,000 steps", "41%", "5,210/s", "ETA 2:10", "1:23"):
        assert part in text
    for part in ("312.4 mean", "487.0 evaluation", "410 updates", "411 version", "1.0/2 lag"):
        assert part in text
    for part in ("3 alive", "4 queued", "1 waiting", "policy -0.012", "distance 0.310"):
        assert part in text
    assert "reassigned 7" in text
    assert "failed" not in text


def test_live_event_lines_stand_above_the_panel_and_the_last_numbers_stay():
    sink, out, _ = live(100)
    sink.write(progress(1))
    sink.write(failure())
    sink.write(full_progress(99_999))
    sink.close()
    lines = shown(out)
    assert any("job 1-7 failed on actor a1" in line for line in lines)
    assert any(line.startswith("    Traceback (most recent") for line in lines)
    last_panel = lines[max(i for i, line in enumerate(lines) if "asyncrl  cartpole" in line) :]
    assert "99,999 / 100,000 steps  99%" in last_panel[1]
    assert lines[-1].startswith("╰")


def test_the_live_panel_says_when_nothing_new_arrives():
    sink, out, clock = live(80)
    sink.write(full_progress())
    clock.now += 75
    sink.write(Message(level=Level.INFO, text="still here"))
    view: Any = sink._view
    view._live.refresh()
    assert "nothing new for 1:15" in "\n".join(shown(out))
    out.truncate(0)
    out.seek(0)
    sink.close()
    assert "nothing new" not in "\n".join(shown(out))


def test_closing_the_live_panel_ends_its_thread_and_shows_the_cursor_again():
    before = threading.active_count()
    sink, out, _ = live(80)
    sink.write(Message(level=Level.INFO, text="early"))
    assert "waiting for the first results" in "\n".join(shown(out))
    sink.close()
    sink.close()
    assert threading.active_count() == before
    assert out.getvalue().rfind("\x1b[?25h") > out.getvalue().rfind("\x1b[?25l")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0.000"), (312.42, "312.4"), (12345.6, "12,346"), (-4.214, "-4.21")],
)
def test_numbers_are_shown_at_a_precision_that_suits_them(value: float | None, text: str):
    assert number(value) == text


def test_small_and_huge_numbers_are_shown_in_exponents():
    assert number(2.5e-4) == "2.50e-04"
    assert number(-3e8) == "-3.00e+08"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0:00"), (59.6, "1:00"), (3725, "1:02:05"), (90061, "1d 01:01:01")],
)
def test_durations_read_like_a_clock(seconds: float | None, text: str):
    assert duration(seconds) == text


def test_sizes_read_in_the_unit_that_fits():
    assert [size(n) for n in (512, 1536, 3 << 20, 5 << 30)] == [
        "512 B",
        "1.5 KiB",
        "3.0 MiB",
        "5.0 GiB",
    ]


def test_any_text_becomes_one_printable_line():
    assert one_line("a\n\n  b\tc\x00") == r"a | b    c\x00"
