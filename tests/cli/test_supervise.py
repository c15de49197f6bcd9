"""Local actor processes: threads, restarts, giving up."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import anyio
import pytest

from asyncrl.cli import supervise
from asyncrl.cli.supervise import Fleet
from asyncrl.errors import ActorCrashLoop, sole_cause
from asyncrl.metrics import Message
from asyncrl.testing import Recorder


def fleet(folder: Path, count: int = 1) -> Fleet:
    return Fleet(count=count, url="unix:///nowhere", run="r", logs=folder / "logs")


def pretend(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let an actor process run `program` instead."""
    monkeypatch.setattr(supervise, "COMMAND", (sys.executable, "-c", program))


async def test_an_actor_process_has_one_thread_for_sums_and_its_url_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    pretend(
        monkeypatch,
        "import os, sys; print([os.environ[n] for n in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS',"
        "'MKL_NUM_THREADS', 'ASYNCRL_REDIS_URL')], sys.argv)",
    )
    await fleet(tmp_path).supervise(Recorder())
    (log,) = (tmp_path / "logs").iterdir()
    text = log.read_text()
    assert text.startswith("['1', '1', '1', 'unix:///nowhere']")
    assert "unix" not in text.partition("]")[2]  # never on the command line


async def test_an_actor_process_is_told_which_modules_its_run_may_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pretend(monkeypatch, "import sys; print(*sys.argv)")
    await dataclasses.replace(fleet(tmp_path), allow=("house", "heating.plans")).supervise(
        Recorder()
    )
    (log,) = (tmp_path / "logs").iterdir()
    assert log.read_text().endswith("--allow house --allow heating.plans\n")


async def test_a_crashing_actor_is_restarted_and_given_up_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(supervise, "PAUSES", (0.01, 0.02))
    pretend(monkeypatch, "import sys; print('no licence'); sys.exit(1)")
    recorder = Recorder()
    with pytest.raises(BaseExceptionGroup) as group:
        await fleet(tmp_path, 2).supervise(recorder)
    cause = sole_cause(group.value)
    assert isinstance(cause, ActorCrashLoop)
    assert "exited with 1" in str(cause)
    assert "no licence" in str(cause)
    texts = [event.text for event in recorder.events if isinstance(event, Message)]
    assert all("starting another" in text for text in texts)
    assert len(texts) >= 2


async def test_a_usage_error_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pretend(monkeypatch, "import sys; sys.exit(2)")
    recorder = Recorder()
    with pytest.raises(BaseExceptionGroup) as group:
        await fleet(tmp_path).supervise(recorder)
    assert "exited with 2" in str(sole_cause(group.value))
    assert recorder.events == []


async def test_a_signal_is_named_and_the_process_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(supervise, "PAUSES", (0.01, 0.02))
    marker = tmp_path / "once"
    pretend(
        monkeypatch,
        f"import os, pathlib, signal; p = pathlib.Path({str(marker)!r})\n"
        "if not p.exists(): p.touch(); os.kill(os.getpid(), signal.SIGKILL)",
    )
    recorder = Recorder()
    await fleet(tmp_path).supervise(recorder)
    (message,) = recorder.events
    assert isinstance(message, Message)
    assert "was killed by SIGKILL" in message.text


async def test_a_process_that_ignores_the_request_to_leave_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(supervise, "STOP_TIMEOUT", 0.2)
    ready = tmp_path / "ready"
    pretend(
        monkeypatch,
        "import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(3600)",
    )
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fleet(tmp_path).supervise, Recorder())
            while not ready.exists():  # noqa: ASYNC110 - another process sets it
                await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()
