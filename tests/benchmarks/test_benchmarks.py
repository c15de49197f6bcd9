"""The benchmarks run, and print what is needed to judge a number."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main, parser

ROOT = Path(__file__).resolve().parents[2]


def test_a_result_says_what_was_measured_how_and_where():
    command = [sys.executable, "-m", "benchmarks", "cartpole"]
    command += ["--algo", "ppo", "--seeds", "7", "--actors", "1", "--total-steps", "1000"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=55, check=False
    )
    assert done.returncode == 3, done.stderr  # nobody solves it in so few steps
    (line,) = done.stdout.splitlines()
    result = json.loads(line)
    assert result["benchmark"] == "cartpole"
    assert (result["algo"], result["seed"], result["actors"]) == ("ppo", 7, 1)
    assert (result["solved"], result["exit_code"], result["error"]) == (False, 3, None)
    assert result["env_steps"] >= 1000
    assert result["updates"] >= 1
    assert 0 < result["training_seconds"] < result["seconds"]
    assert 8 < result["mean_return"] < 475
    assert result["eval_return"] is None
    assert result["load_before"] >= 0
    assert result["command"] == (
        "python -m asyncrl.learner --algo ppo --env CartPole-v1 --actors 1 --seed 7 "
        "--stop-return 475 --total-steps 1000"
    )
    assert all(result[name] for name in ("commit", "machine", "python"))


def test_all_algorithms_and_five_seeds_are_run_by_default():
    options = parser().parse_args(["cartpole"])
    assert (options.algo, options.seeds) == (["ppo", "dqn"], [1, 2, 3, 4, 5])


def results(path: Path, algo: str, steps: list[int | None]) -> Path:
    """Write a file of results that took so many steps; None where it was not solved."""
    records: list[dict[str, Any]] = [
        {
            "benchmark": "cartpole",
            "algo": algo,
            "solved": each is not None,
            "env_steps": each,
            "seconds": (each or 0) / 1000,
            "training_seconds": (each or 0) / 2000,
        }
        for each in steps
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


def test_a_comparison_shows_median_range_and_ratio_of_the_solved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    old = results(tmp_path / "old.jsonl", "ppo", [3_000, 4_000, 8_000])
    new = results(tmp_path / "new.jsonl", "ppo", [2_000, 1_000, None])
    assert main(["compare", str(old), str(new)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "| benchmark | algo | measure | old | new | ratio |",
        "| --- | --- | --- | --- | --- | --- |",
        "| cartpole | ppo | solved | 3 of 3 | 2 of 3 |  |",
        "| cartpole | ppo | env_steps | 4,000 (3,000 to 8,000) | 1,500 (1,000 to 2,000) | 0.38 |",
        "| cartpole | ppo | seconds | 4.0 (3.0 to 8.0) | 1.5 (1.0 to 2.0) | 0.38 |",
        "| cartpole | ppo | training_seconds | 2.0 (1.5 to 4.0) | 0.8 (0.5 to 1.0) | 0.38 |",
    ]


def test_what_one_file_lacks_is_left_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    old = results(tmp_path / "old.jsonl", "ppo", [None])
    new = results(tmp_path / "new.jsonl", "dqn", [50_000])
    main(["compare", str(old), str(new)])
    lines = capsys.readouterr().out.splitlines()
    assert "| cartpole | ppo | env_steps | - | - | - |" in lines
    assert "| cartpole | dqn | env_steps | - | 50,000 (50,000 to 50,000) | - |" in lines
    main(["compare", str(new)])
    assert "| cartpole | dqn | solved | 1 of 1 |" in capsys.readouterr().out
