"""What an exit code says is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncrl.cli.exits import ExitCode, Stage, run_main
from asyncrl.cli.learner import main
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


def test_options_that_do_not_fit_the_run_are_found_before_an_actor_starts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    given = ["--run", "r", "--runs-dir", str(tmp_path), "--jobs-per-round", "4"]
    assert main([*given, "--max-results", "7"]) == ExitCode.USAGE
    assert "half of max_results=7" in capfd.readouterr().err
    assert not (tmp_path / "r" / "logs").exists()
