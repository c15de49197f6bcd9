"""Exit codes, and errors as one clear line each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import IntEnum

from asyncrl.errors import (
    AsyncRLError,
    ConfigError,
    EnvironmentFailure,
    MissingExtraError,
    RolloutFailed,
    sole_cause,
)


class ExitCode(IntEnum):
    """What the exit code of a command says."""

    OK = 0
    """Done: the target was reached, or the budget used up where no target was set."""
    FAILED = 1
    """Something went wrong while running."""
    USAGE = 2
    """An option, or what it names, is wrong; nothing was started."""
    TARGET_MISSED = 3
    """The budget is used up and the target was not reached."""
    INTERRUPTED = 130
    """Ctrl-C; the run can be resumed."""
    TERMINATED = 143
    """SIGTERM; the run can be resumed."""


class Stage:
    """How far a command has come: an option that turns out wrong later than that ends with 1."""

    started = False
    """Whether anything was started, so that "nothing was started" would be false."""


def run_main(command: Callable[[Stage], int], program: str) -> int:
    """Run a command; print an error as one line (an environment's own traceback before it)."""
    stage = Stage()
    try:
        try:
            return command(stage)
        except BaseExceptionGroup as group:
            raise sole_cause(group) from None
    except AsyncRLError as error:
        return explain(error, program, stage)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def explain(error: AsyncRLError, program: str, stage: Stage) -> int:
    """Print `error` to standard error; return the exit code that goes with it."""
    own = error.traceback if isinstance(error, EnvironmentFailure | RolloutFailed) else ""
    if own:
        print(own.rstrip(), file=sys.stderr)
    print(f"{program}: error: {error}", file=sys.stderr)
    usage = isinstance(error, ConfigError | MissingExtraError) and not stage.started
    return ExitCode.USAGE if usage else ExitCode.FAILED
