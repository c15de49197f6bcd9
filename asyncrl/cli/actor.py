"""``python -m asyncrl.actor``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import anyio

from asyncrl.actor import ActorWorker, WorkerConfig
from asyncrl.broker import BrokerConfig
from asyncrl.cli.arguments import OptionGroup, parse_options
from asyncrl.cli.exits import ExitCode, run_main
from asyncrl.cli.options import ActorOptions
from asyncrl.cli.stopping import on_signals, run_beside
from asyncrl.metrics import configure_logging

PROGRAM = "asyncrl.actor"


def main(argv: Sequence[str] | None = None) -> int:
    """Work for a run until it is complete; return the exit code."""
    return run_main(lambda _: _main(argv), PROGRAM)


def _main(argv: Sequence[str] | None) -> int:
    options, worker_config, broker_config = parse_options(
        f"python -m {PROGRAM}",
        "Work for a run: take rollout jobs from Redis, run them in environments here, push the "
        "results back. Joins late, leaves early, needs one connection to Redis and nothing else.",
        [
            OptionGroup("actor", ActorOptions),
            OptionGroup("worker", WorkerConfig),
            OptionGroup("broker", BrokerConfig),
        ],
        argv,
    )
    configure_logging(options.log_level, sys.stderr)
    assert options.url is not None  # noqa: S101 - ActorOptions checked
    worker = ActorWorker(
        options.url,
        options.run,
        worker_config,
        broker_config,
        allow=options.allow,
        actor_id=options.name,
        on_hung=lambda: os._exit(ExitCode.FAILED),
    )
    return anyio.run(_work, worker, options.supervised)


async def _work(worker: ActorWorker, supervised: bool) -> int:
    code = ExitCode.OK

    def leave(number: signal.Signals) -> None:
        nonlocal code
        code = ExitCode.INTERRUPTED if number == signal.SIGINT else ExitCode.TERMINATED
        worker.stop()

    beside: list[Callable[[], Coroutine[Any, Any, None]]] = [partial(on_signals, leave)]
    if supervised:
        beside.append(partial(_leave_with_parent, worker))
    await run_beside(worker.run, beside)
    return code


async def _leave_with_parent(worker: ActorWorker) -> None:
    """Stop the worker when standard input ends, which it does when the parent is gone."""
    await anyio.wait_readable(sys.stdin.fileno())
    worker.stop()
