"""``python -m asyncrl.learner``."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from asyncrl.broker import Broker, BrokerConfig, connect
from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.cli.arguments import OptionGroup, parse_options
from asyncrl.cli.exits import ExitCode, run_main
from asyncrl.cli.options import RunOptions
from asyncrl.cli.records import open_sinks, write_config
from asyncrl.cli.server import write_secret
from asyncrl.cli.stopping import on_signals
from asyncrl.cli.supervise import Fleet
from asyncrl.metrics import Level, Message, Sink, configure_logging
from asyncrl.proxy import ActorProxy, ProxyConfig, env_spec

if TYPE_CHECKING:
    from asyncrl.learner import LearnerConfig, RunResult

PROGRAM = "asyncrl.learner"


def main(argv: Sequence[str] | None = None) -> int:
    """Train; return the exit code."""
    return run_main(lambda: _main(argv), PROGRAM)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """All that was asked for."""

    options: RunOptions
    algorithm: Any
    learner: LearnerConfig
    proxy: ProxyConfig
    broker: BrokerConfig
    run: str

    @property
    def folder(self) -> Path:
        return Path(self.options.runs_dir) / self.run


def _main(argv: Sequence[str] | None) -> int:
    plan = _plan(sys.argv[1:] if argv is None else list(argv))
    configure_logging(plan.options.log_level)
    return anyio.run(_train, plan)


def _plan(arguments: list[str]) -> _Plan:
    """Read the options; which groups there are depends on the algorithm."""
    # Imported here, so that a missing torch is told in one line and not by a traceback.
    from asyncrl.cli.algorithms import choose
    from asyncrl.learner import set_threads

    choice = choose(arguments)
    options, algorithm, learner, proxy, broker = parse_options(
        f"python -m {PROGRAM}",
        "Train an agent with many actors over Redis; resumes the run where it exists. "
        "Exit code 0: done, or target reached; 3: target missed; 2: wrong usage; 1: failure; "
        "130: interrupted, to be resumed.",
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
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", options.env)[:32].lower()
    run = options.run or f"{name}-{options.algo}-{time.strftime('%Y%m%d-%H%M%S')}"
    return _Plan(
        options=options,
        algorithm=algorithm,
        learner=learner,
        proxy=proxy,
        broker=broker,
        run=run,
    )


async def _train(plan: _Plan) -> int:
    with open_sinks(plan.folder) as sink:
        async with _server(plan, sink) as url, connect(url, run=plan.run, config=plan.broker) as b:
            result, signals = await _drive(plan, url, b, sink)
    return _conclude(plan, result, signals)


async def _drive(
    plan: _Plan, url: str, broker: Broker, sink: Sink
) -> tuple[RunResult, list[signal.Signals]]:
    """Run learner and local actors side by side until the learner is done."""
    from asyncrl.learner import OffPolicyLearner, OnPolicyLearner

    options = plan.options
    env = env_spec(
        options.env,
        envs=options.envs,
        kwargs=options.env_kwargs,
        trajectory=options.trajectory,
        trajectory_kwargs=options.trajectory_kwargs,
    )
    kind: Any = OnPolicyLearner if plan.algorithm.on_policy else OffPolicyLearner
    learner = kind(
        plan.algorithm,
        ActorProxy(broker, env, config=plan.proxy),
        plan.learner,
        run=plan.run,
        folder=plan.folder,
        sinks=(sink,),
    )
    signals: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        signals.append(number)
        text = f"{number.name}: writing a checkpoint and leaving; once more to leave at once"
        sink.write(Message(level=Level.WARNING, text=text))
        learner.stop()

    def prepared() -> None:
        plan.folder.mkdir(parents=True, exist_ok=True)
        parts = {each.name: getattr(plan, each.name) for each in dataclasses.fields(plan)}
        parts["options"] = dataclasses.replace(options, redis=None)
        write_config(plan.folder / "config.json", parts | {"redis": broker.url})
        cores = os.cpu_count() or 1
        if options.actors > cores:
            text = (
                f"{options.actors} actors share {cores} cores with the learner; fewer actors with "
                "more envs each collect faster"
            )
            sink.write(Message(level=Level.WARNING, text=text))
        fleet = Fleet(
            count=options.actors,
            url=url,
            run=plan.run,
            logs=plan.folder / "logs",
            log_level=options.log_level,
        )
        tasks.start_soon(fleet.supervise, sink)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(on_signals, stop)
        result = await learner.run(prepared)
        tasks.cancel_scope.cancel()
    return result, signals


@asynccontextmanager
async def _server(plan: _Plan, sink: Sink) -> AsyncIterator[str]:
    """Give the URL of the server to use, starting the bundled one where none is named."""
    if plan.options.url is not None:
        yield plan.options.url
        return
    host, port = plan.options.address
    file = plan.folder / "redis.url"
    try:
        async with EmbeddedServer(tcp_port=port, host=host) as server:
            if port is not None:
                plan.folder.mkdir(parents=True, exist_ok=True)
                write_secret(file, server.tcp_url)
                text = (
                    f"others join with: python -m asyncrl.actor --run {plan.run} --redis URL; "
                    f"the URL, with its password, is in {file}"
                )
                sink.write(Message(level=Level.INFO, text=text))
            yield server.url
    finally:
        file.unlink(missing_ok=True)


def _conclude(plan: _Plan, result: RunResult, signals: list[signal.Signals]) -> int:
    """Say how it ended and where the results are; return the exit code."""
    facts = [f"{result.env_steps:,} env steps"]
    if result.mean_return is not None:
        facts.append(f"mean return {result.mean_return:.1f}")
    if result.eval_return is not None:
        facts.append(f"evaluation {result.eval_return:.1f}")
    target = plan.learner.stop_return
    missed = target is not None and result.outcome != "target"
    ends = {
        "target": f"reached the target of {target}",
        "steps": "used up its steps",
        "time": "used up its time",
        "stopped": f"stopped, to go on from here with --run {plan.run}",
    }
    end = ends[result.outcome]
    if missed and result.outcome != "stopped":
        end += f" without reaching the target of {target}"
    print(f"run {plan.run} {end}: {', '.join(facts)}; results in {plan.folder}")
    if result.outcome == "stopped":
        interrupted = bool(signals) and signals[0] == signal.SIGINT
        return ExitCode.INTERRUPTED if interrupted else ExitCode.TERMINATED
    return ExitCode.TARGET_MISSED if missed else ExitCode.OK
