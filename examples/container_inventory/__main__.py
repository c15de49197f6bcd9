"""``python -m examples.container_inventory``: train, then compare with policies that do not."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, get_args

import anyio

from asyncrl.errors import AsyncRLError
from asyncrl.learner import set_threads
from examples.container_inventory.env import ContainerEnv
from examples.container_inventory.evaluation import BASELINES, Choosers, compare, table
from examples.container_inventory.training import AlgorithmName, Plan, Printer, algorithm, train


def main(argv: list[str] | None = None) -> int:
    """Train and compare; return the exit code: 1 where the learned policy loses."""
    arguments = _parser().parse_args(argv)
    set_threads(1)
    try:
        return _run(arguments)
    except AsyncRLError as error:
        print(f"container_inventory: {error}", file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    topology = arguments.topology
    env = ContainerEnv(topology, ticks=arguments.ticks)
    policies: Choosers = BASELINES
    facts: dict[str, Any] = {"algo": None}
    if arguments.algo != "none":
        plan = Plan(
            algo=arguments.algo,
            steps=arguments.steps,
            seed=arguments.seed,
            remote=arguments.remote,
            topology=topology,
            ticks=arguments.ticks,
        )
        started = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="containers-") as folder:
            sinks = (Printer(max(1, plan.steps // 10)),)
            learned = anyio.run(train, plan, Path(folder), sinks)
        policies = {"learned": lambda _: learned, **BASELINES}
        facts = {
            "algo": plan.algo,
            "algorithm": type(algorithm(plan.algo)).__name__,
            "seed": plan.seed,
            "steps": plan.steps,
            "remote": plan.remote,
            "train_seconds": round(time.perf_counter() - started, 1),
        }
    compared = compare(env, policies, arguments.episodes)
    print(table(compared))
    facts |= {"topology": topology, "episodes": arguments.episodes, "cores": os.cpu_count()}
    print(json.dumps({**facts, "policies": compared}))
    if "learned" not in compared:
        return 0
    margins = compared["learned"]["less_than"]
    return 0 if min(margins["no-op"], margins["random"]) > 0 else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.container_inventory",
        description="Train one policy a port, then play the same episodes with it and with "
        "policies that do not learn. The last line printed is JSON.",
    )
    parser.add_argument(
        "--algo",
        choices=[*get_args(AlgorithmName), "none"],
        default="dqn",
        help="dqn (off-policy), ac (actor-critic) or ppo (on-policy); none only compares",
    )
    parser.add_argument("--steps", type=int, default=Plan.steps, help="decisions to learn from")
    parser.add_argument("--seed", type=int, default=0, help="seed of the training")
    parser.add_argument(
        "--remote", type=int, default=0, help="actor processes; 0 collects in this process"
    )
    parser.add_argument(
        "--topology",
        type=_topology,
        default="four-ports",
        help="four-ports, ring-N with N pairs, or a JSON object",
    )
    parser.add_argument("--ticks", type=int, default=None, help="length of an episode")
    parser.add_argument(
        "--episodes", type=int, default=20, help="episodes of the comparison, 2 or more"
    )
    return parser


def _topology(text: str) -> Any:
    return json.loads(text) if text.lstrip().startswith("{") else text


if __name__ == "__main__":
    sys.exit(main())
