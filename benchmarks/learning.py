"""Trains every task of a suite and says whether it was solved within its budget of steps.

An evaluation of 20 greedy episodes is made after every 5 % of the budget; the best one decides. A
run ends there, unless `--whole-budget` is given. One result for each task and seed; the exit code
is 3 when any is not solved.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import torch

import asyncrl
from asyncrl.cli.supervise import Fleet
from asyncrl.errors import sole_cause
from asyncrl.metrics import Evaluation, Event, Fanout
from asyncrl.proxy import Collector
from benchmarks.result import emit, load
from benchmarks.suites import SUITES, Task

EPISODES = 20
"""Greedy episodes of an evaluation."""
EVALUATIONS = 20
"""Evaluations in a budget of steps."""


class _Evaluations:
    """A sink that keeps what evaluations found."""

    def __init__(self) -> None:
        self.found: list[Evaluation] = []

    def write(self, event: Event) -> None:
        """Keep an evaluation."""
        if isinstance(event, Evaluation):
            self.found.append(event)

    def close(self) -> None:
        """Do nothing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the benchmark's options."""
    parser.add_argument("--suite", choices=list(SUITES), default="quick", help="which tasks")
    parser.add_argument("--only", nargs="+", default=[""], help="tasks whose name has one of these")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="which")
    parser.add_argument(
        "--actors", type=int, default=0, help="actor processes over Redis; 0 for none, in-process"
    )
    parser.add_argument(
        "--lag", type=int, default=0, help="policy versions an on-policy batch may be behind"
    )
    parser.add_argument("--steps", type=int, help="budget of every task, instead of its own")
    parser.add_argument(
        "--whole-budget", action="store_true", help="go on after a task has been solved"
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines, for programs")


def run(options: argparse.Namespace) -> bool:
    """Run every task with every seed; return whether all of them were solved."""
    tasks = [
        task for task in SUITES[options.suite] if any(part in task.name for part in options.only)
    ]
    if not tasks:
        names = ", ".join(task.name for task in SUITES[options.suite])
        print(f"no task is called like {' or '.join(options.only)}; there are {names}")
        return False
    torch.set_num_threads(1)  # networks this small only wait for other threads
    return all([_one(task, seed, options) for task in tasks for seed in options.seeds])


def _one(task: Task, seed: int, options: argparse.Namespace) -> bool:
    before, started = load(), time.perf_counter()
    evaluations = _Evaluations()
    with tempfile.TemporaryDirectory() as folder:
        try:
            result = anyio.run(_train, task, seed, options, evaluations, Path(folder))
        except BaseExceptionGroup as group:
            raise sole_cause(group) from None
    returns = [each.mean_return for each in evaluations.found]
    passed = bool(returns) and max(returns) >= task.bar
    facts: dict[str, Any] = {
        "task": task.name,
        "algo": task.algo,
        "env": task.env,
        "seed": seed,
        "actors": options.actors,
        "lag": options.lag,
        "budget": options.steps or task.steps,
        "env_steps": result.env_steps,
        "seconds": round(time.perf_counter() - started, 2),
        "best_eval": max(returns, default=None),
        "final_eval": returns[-1] if returns else None,
        "evaluations": len(returns),
        "mean_return": result.mean_return,
        "bar": task.bar,
        "pass": passed,
        "load_before": before,
    }
    if options.json:
        emit("learning", **facts)
    else:
        best = "none" if not returns else f"{max(returns):.1f}"
        print(
            f"{'pass' if passed else 'FAIL'}  {task.name:<24} seed {seed}  best evaluation {best} "
            f"(bar {task.bar:g}) in {result.env_steps:,} steps, {facts['seconds']} s",
            flush=True,
        )
    return passed


async def _train(
    task: Task, seed: int, options: argparse.Namespace, evaluations: _Evaluations, folder: Path
) -> asyncrl.RunResult:
    """Train a task in this process, or over actor processes that a server of our own connects."""
    chosen = task.settings()
    where: dict[str, Any] = {"envs": chosen.envs, "kwargs": task.kwargs}
    if not options.actors:
        return await _learner(task, seed, options, evaluations, asyncrl.Actor(task.env, **where))
    run = f"{task.name}-{seed}"
    async with (
        asyncrl.EmbeddedServer() as server,
        asyncrl.connect(server.url, run=run) as broker,
        anyio.create_task_group() as tasks,
    ):
        fleet = Fleet(count=options.actors, url=server.url, run=run, logs=folder)
        tasks.start_soon(fleet.supervise, Fanout(()))
        proxy = asyncrl.ActorProxy(broker, task.env, **where)
        result = await _learner(task, seed, options, evaluations, proxy)
        tasks.cancel_scope.cancel()
        return result


async def _learner(
    task: Task,
    seed: int,
    options: argparse.Namespace,
    evaluations: _Evaluations,
    collector: Collector,
) -> asyncrl.RunResult:
    chosen = task.settings()
    budget = options.steps or task.steps
    how: dict[str, Any] = {
        **chosen.learner,
        "total_steps": budget,
        "eval_interval": max(1, budget // EVALUATIONS),
        "eval_episodes": EPISODES,
        "stop_on": "eval",
        "stop_return": None if options.whole_budget else task.bar,
        "seed": seed,
        "device": "cpu",
        "sinks": (evaluations,),
    }
    if not chosen.algorithm.on_policy:
        return await asyncrl.OffPolicyLearner(chosen.algorithm, collector, **how).run()
    jobs = max(how.get("jobs_per_round", 1), options.actors)
    how |= {"max_lag": options.lag, "jobs_per_round": jobs}
    return await asyncrl.OnPolicyLearner(chosen.algorithm, collector, **how).run()


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for; return 0, or 3 when a task was not solved."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning", description=__doc__)
    add_arguments(parser)
    return 0 if run(parser.parse_args(argv)) else 3


if __name__ == "__main__":
    sys.exit(main())
