"""What an exit code says is true."""

from __future__ import annotations

import pytest

from asyncrl.cli.exits import ExitCode, Stage, run_main
from asyncrl.errors import AsyncRLError, ConfigError, DataError, StateError

WRONG = ConfigError("envs", 0, "none", "give one")


@pytest.mark.parametrize(
    ("error", "started", "code"),
    [
        (WRONG, False, ExitCode.USAGE),
        (WRONG, True, ExitCode.FAILED),
        (StateError("too early"), False, ExitCode.FAILED),
        (DataError("action nan"), True, ExitCode.FAILED),
    ],
)
def test_wrong_usage_is_what_was_found_before_anything_started(
    error: AsyncRLError, started: bool, code: ExitCode, capsys: pytest.CaptureFixture[str]
):
    def command(stage: Stage) -> int:
        stage.started = started
        raise error

    assert run_main(command, "program") == code
    assert capsys.readouterr().err == f"program: error: {error}\n"
