"""``python -m asyncrl.learner``."""

from __future__ import annotations

import dataclasses
import json
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio

from asyncrl.broker import BrokerConfig, connect, redact
from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.cli.arguments import OptionGroup, parse_options
from asyncrl.cli.exits import ExitCode, run_main
from asyncrl.cli.options import RunOptions
from asyncrl.cli.stopping import on_signals
from asyncrl.cli.supervise import Fleet
from asyncrl.metrics import (
    ConsoleSink,
    JsonlSink,
    Level,
    Message,
    Sink,
    TensorBoardSink,
    configure_logging,
)
from asyncrl.proxy import ActorProxy, ProxyConfig, env_spec

PROGRAM = "asyncrl.learner"


def main(argv: Sequence[str] | None = None) -> int:
    """Train; return the exit code."""
    return run_main(lambda: _main(argv), PROGRAM)


@dataclass(frozen=True)
class _Plan:
    """All that was asked for."""

    options: RunOptions
    algorithm: Any
    learner: Any
    """OnPolicyConfig or OffPolicyConfig."""
    proxy: ProxyConfig
    broker: BrokerConfig
    run: str

    @property
    def folder(self) -> Path:
        return self.options.folder(self.run)


def _main(argv: Sequence[str] | None) -> int:
    arguments = sys.argv[1:] if argv is None else list(argv)
    plan = _plan(arguments)
    configure_logging(plan.options.log_level, sys.stderr)
    return anyio.run(_train, plan)


def _plan(arguments: list[str]) -> _Plan:
    """Read the options; which groups there are depends on the algorithm and its preset."""
    from asyncrl.cli.algorithms import choose
    from asyncrl.learner import set_threads

    choice = choose(arguments)
    options, algorithm, learner, proxy, broker = parse_options(
        f"python -m {PROGRAM}",
        "Train an agent with many actors over Redis. Resumes the run where it exists. "
        "Exit code 0: done or target reached; 3: target missed; 2: wrong usage; 1: failure.",
        [
            OptionGroup("run", RunOptions),
            OptionGroup(choice.name, type(choice.algorithm), defaults=choice.algorithm),
            OptionGroup("learner", type(choice.learner), defaults=choice.learner),
            OptionGroup("proxy", ProxyConfig),
            OptionGroup("broker", BrokerConfig),
        ],
        arguments,
    )
    set_threads(options.threads)
    if not options.envs:
        options = dataclasses.replace(options, envs=choice.envs)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", options.env)[:32]
    run = options.run or f"{name}-{options.algo}-{time.strftime('%Y%m%d-%H%M%S')}".lower()
    return _Plan(options, algorithm, learner, proxy, broker, run)


async def _train(plan: _Plan) -> int:
    plan.folder.mkdir(parents=True, exist_ok=True)
    with _sinks(plan) as sinks:
        async with _server(plan) as url:
            return await _train_on(plan, url, sinks)


async def _train_on(plan: _Plan, url: str, sinks: tuple[Sink, ...]) -> int:
    from asyncrl.learner import OffPolicyLearner, OnPolicyLearner

    options = plan.options
    env = env_spec(
        options.env,
        envs=options.envs,
        kwargs=options.env_kwargs,
        trajectory=options.trajectory,
        trajectory_kwargs=options.trajectory_kwargs,
    )
    signalled: list[signal.Signals] = []
    async with connect(url, run=plan.run, config=plan.broker) as broker:
        proxy = ActorProxy(broker, env, config=plan.proxy)
        kind = OnPolicyLearner if plan.algorithm.on_policy else OffPolicyLearner
        learner = kind(
            plan.algorithm, proxy, plan.learner, run=plan.run, folder=plan.folder, sinks=sinks
        )

        def stop(number: signal.Signals) -> None:
            signalled.append(number)
            text = f"{number.name}: writing a checkpoint and leaving; once more to leave at once"
            sinks[0].write(Message(level=Level.WARNING, text=text))
            learner.stop()

        _write_config(plan, url)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(on_signals, stop)
            fleet = Fleet(
                count=options.actors,
                url=url,
                run=plan.run,
                logs=plan.folder / "logs",
                log_level=options.log_level,
            )
            tasks.start_soon(fleet.supervise, sinks[0])
            result = await learner.run()
            tasks.cancel_scope.cancel()
    return _conclude(plan, result, signalled, sinks[0])


def _conclude(plan: _Plan, result: Any, signalled: list[signal.Signals], console: Sink) -> int:
    """Say how it ended and where the results are; return the exit code."""
    facts = [f"{result.env_steps} env steps"]
    if result.mean_return is not None:
        facts.append(f"mean return {result.mean_return:.1f}")
    if result.eval_return is not None:
        facts.append(f"evaluation {result.eval_return:.1f}")
    target = plan.learner.stop_return
    ends = {
        "target": f"reached the target of {target}",
        "steps": "used up its steps" + ("" if target is None else f", target {target} not reached"),
        "time": "used up its time" + ("" if target is None else f", target {target} not reached"),
        "stopped": "stopped; the same command with --run " + plan.run + " goes on from here",
    }
    text = f"run {plan.run} {ends[result.outcome]}: {', '.join(facts)}; results in {plan.folder}"
    console.write(Message(level=Level.INFO, text=text))
    if result.outcome == "stopped":
        interrupted = bool(signalled) and signalled[0] == signal.SIGINT
        return ExitCode.INTERRUPTED if interrupted else ExitCode.TERMINATED
    missed = target is not None and result.outcome != "target"
    return ExitCode.TARGET_MISSED if missed else ExitCode.OK


@asynccontextmanager
async def _server(plan: _Plan) -> AsyncIterator[str]:
    """Give the URL of the server to use, starting the bundled one where none is named."""
    if plan.options.url is not None:
        yield plan.options.url
        return
    async with EmbeddedServer(tcp_port=plan.options.listen) as server:
        file = plan.folder / "redis.url"
        if server.tcp_url is not None:
            file.touch(mode=0o600)
            file.write_text(server.tcp_url + "\n")
        try:
            yield server.url
        finally:
            file.unlink(missing_ok=True)


class _sinks:  # noqa: N801 - used as a function
    """Opens the sinks of a run, the console first; closes them all in the end."""

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._open: list[Sink] = []

    def __enter__(self) -> tuple[Sink, ...]:
        folder = self._plan.folder
        self._open = [ConsoleSink(), JsonlSink(folder / "metrics.jsonl")]
        if find_spec("tensorboard") is not None:
            self._open.append(TensorBoardSink(folder / "tensorboard"))
        return tuple(self._open)

    def __exit__(self, *_: object) -> None:
        for sink in reversed(self._open):
            sink.close()


def _write_config(plan: _Plan, url: str) -> None:
    """Keep the configuration as used in the run folder; the URL without its password."""
    config = {
        "run": plan.run,
        "redis": redact(url),
        "options": dataclasses.asdict(plan.options) | {"redis": None},
        "algorithm": {"name": plan.options.algo, **_plain(plan.algorithm)},
        "learner": _plain(plan.learner),
        "proxy": _plain(plan.proxy),
        "broker": _plain(plan.broker),
    }
    path = plan.folder / "config.json"
    path.write_text(json.dumps(config, indent=2, default=str) + "\n")


def _plain(config: Any) -> dict[str, Any]:
    return {each.name: getattr(config, each.name) for each in dataclasses.fields(config)}
