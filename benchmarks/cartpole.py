"""CartPole-v1 from nothing to solved, through the command line as a user runs it.

PPO is solved when the mean return of the last 100 training episodes reaches 475, DQN when an
evaluation of 20 greedy episodes does. One result a seed. The exit code is 3 when any is not solved.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.result import emit, load

TOTAL_STEPS = {"ppo": 100_000, "dqn": 75_000}
"""Environment steps within which each algorithm must have solved it."""
TARGET = 475
"""Mean return at which it counts as solved; the best possible is 500."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the benchmark's options."""
    parser.add_argument(
        "--algo", choices=list(TOTAL_STEPS), nargs="+", default=list(TOTAL_STEPS), help="which"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5], help="which")
    parser.add_argument("--actors", type=int, default=2, help="local actor processes")
    parser.add_argument(
        "--total-steps", type=int, help=f"steps to solve it within, instead of {TOTAL_STEPS}"
    )


def run(options: argparse.Namespace) -> bool:
    """Run every algorithm and seed; return whether all of them were solved."""
    solved = [
        _one(algo, seed, options.actors, options.total_steps or TOTAL_STEPS[algo])
        for algo in options.algo
        for seed in options.seeds
    ]
    return all(solved)


def _one(algo: str, seed: int, actors: int, total_steps: int) -> bool:
    arguments = ["-m", "asyncrl.learner", "--algo", algo, "--env", "CartPole-v1"]
    arguments += ["--actors", str(actors), "--seed", str(seed)]
    arguments += ["--stop-return", str(TARGET), "--total-steps", str(total_steps)]
    before = load()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *arguments, "--runs-dir", folder, "--run", "bench"]
        started = time.perf_counter()
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
        last = _last_progress(Path(folder) / "bench" / "metrics.jsonl")
    solved = finished.returncode == 0
    emit(
        "cartpole",
        algo=algo,
        seed=seed,
        actors=actors,
        solved=solved,
        exit_code=finished.returncode,
        env_steps=last.get("env_steps"),
        updates=last.get("updates"),
        seconds=round(seconds, 2),
        training_seconds=round(last.get("seconds", 0.0), 2),
        mean_return=last.get("mean_return"),
        eval_return=last.get("eval_return"),
        load_before=before,
        command=" ".join(["python", *arguments]),
        error=None if finished.returncode in (0, 3) else finished.stderr[-500:],
    )
    return solved


def _last_progress(path: Path) -> dict[str, Any]:
    """Return the last progress record of a run; {} when there is none."""
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return next((r for r in reversed(records) if r.get("event") == "progress"), {})
