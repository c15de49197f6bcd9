"""Local actor processes: started, watched, restarted with growing pauses, stopped with us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import Process

from asyncrl.errors import ActorCrashLoop
from asyncrl.metrics import Level, Message, Sink

COMMAND = (sys.executable, "-m", "asyncrl.actor")
"""What an actor process runs."""
STOP_TIMEOUT = 10.0
"""Seconds between asking an actor process to leave and killing it."""
SHORT_LIFE = 10.0
"""An actor process that lived for fewer seconds than this counts as crashing at start."""
MOST_SHORT_LIVES = 3
"""Crashes at start in a row, of one actor, after which the run is given up."""
PAUSES = (0.5, 10.0)
"""First and longest pause, in seconds, before a restart."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """How many local actors there are, and what each needs."""

    count: int
    url: str
    """Redis URL; it reaches the processes through their environment, never their command line."""
    run: str
    logs: Path
    """Folder for one log file an actor."""
    log_level: str = "info"
    allow: Sequence[str] = ()
    """Modules whose code the run may name."""

    async def supervise(self, sink: Sink) -> None:
        """Keep the processes running until cancelled; stop them all before returning.

        Raises `ActorCrashLoop` when one of them cannot be kept running.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        async with anyio.create_task_group() as tasks:
            for index in range(self.count):
                tasks.start_soon(self._keep_running, index, sink)

    async def _keep_running(self, index: int, sink: Sink) -> None:
        name = f"local-{index}"
        log = self.logs / f"actor-{index}.log"
        pause, longest = PAUSES
        short_lives = 0
        while True:
            started = time.monotonic()
            code = await self._run_once(log)
            if code == 0:
                return
            lived = time.monotonic() - started
            short_lives = short_lives + 1 if lived < SHORT_LIFE else 0
            if lived >= SHORT_LIFE:
                pause = PAUSES[0]
            how = f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with {code}"
            if short_lives >= MOST_SHORT_LIVES or code == 2:
                raise ActorCrashLoop(
                    f"local actor {name} {how} after {lived:.1f} s, {short_lives} times in a row; "
                    f"the end of its log {log}:\n{_tail(log)}"
                )
            text = f"local actor {name} {how} after {lived:.1f} s; starting another in {pause:g} s"
            sink.write(Message(level=Level.WARNING, text=text))
            await anyio.sleep(pause)
            pause = min(longest, 2 * pause)

    async def _run_once(self, log: Path) -> int:
        """Run one actor process to its end and return its exit code (negative for a signal)."""
        command = [*COMMAND, "--run", self.run, "--supervised", "--log-level", self.log_level]
        for module in self.allow:
            command += ["--allow", module]
        environment = os.environ | {"ASYNCRL_REDIS_URL": self.url}
        # One intra-op thread an actor: several actors on one machine must not fight over cores.
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            environment.setdefault(name, "1")
        with log.open("ab") as output:
            process = await anyio.open_process(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,  # Ctrl-C reaches the learner alone, which stops its actors
            )
        try:
            return await process.wait()
        finally:
            await _stop(process)


async def _stop(process: Process) -> None:
    """Ask the process to leave, kill it after a while, and let go of its pipe in any case."""
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            with anyio.move_on_after(STOP_TIMEOUT):
                await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
        await process.aclose()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _tail(log: Path, lines: int = 20) -> str:
    text = log.read_text(errors="replace") if log.exists() else ""
    return "\n".join(text.splitlines()[-lines:])
