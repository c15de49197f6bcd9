"""CartPole-v1 from nothing to solved, through the command line as a user runs it.

PPO is solved when the mean return of the last 100 training episodes reaches 475, DQN when an
evaluation of 20 greedy episodes does. One result a seed: steps and seconds from process start.
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

from benchmarks.result import emit

BUDGET = {"ppo": 100_000, "dqn": 75_000}
"""Environment steps within which each algorithm must have solved it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the benchmark's options."""
    parser.add_argument("--algo", choices=sorted(BUDGET), action="append", help="default: both")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--actors", type=int, default=2, help="local actor processes")


def run(options: argparse.Namespace) -> bool:
    """Run every algorithm and seed; return whether all of them were solved."""
    passed = [
        _one(algo, seed, options.actors)
        for algo in options.algo or sorted(BUDGET)
        for seed in options.seeds
    ]
    return all(passed)


def _one(algo: str, seed: int, actors: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "asyncrl.learner", "--algo", algo, "--env", "CartPole-v1"]
        command += ["--actors", str(actors), "--seed", str(seed), "--stop-return", "475"]
        command += ["--total-steps", str(BUDGET[algo]), "--runs-dir", folder, "--run", "bench"]
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
        seconds=round(seconds, 2),
        steps_per_second=round(last.get("env_steps", 0) / seconds),
        mean_return=last.get("mean_return"),
        eval_return=last.get("eval_return"),
        command=" ".join(["python", *command[1:-4]]),
        error=None if finished.returncode in (0, 3) else finished.stderr[-500:],
    )
    return solved


def _last_progress(path: Path) -> dict[str, Any]:
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return next((r for r in reversed(records) if r.get("event") == "progress"), {})
