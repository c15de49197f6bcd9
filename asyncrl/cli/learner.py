"""``python -m asyncrl.learner``."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from asyncrl.broker import Broker, BrokerConfig, RunLimits, connect
from asyncrl.broker.embedded import EmbeddedServer
from asyncrl.cli.arguments import OptionGroup, parse_options
from asyncrl.cli.exits import ExitCode, Stage, run_main
from asyncrl.cli.options import RunOptions
from asyncrl.cli.records import open_sinks, write_config
from asyncrl.cli.server import write_secret
from asyncrl.cli.stopping import on_signals, run_beside
from asyncrl.cli.supervise import Fleet
from asyncrl.data import EnvSpec, modules_needed
from asyncrl.metrics import Level, Message, Sink, configure_logging
from asyncrl.proxy import ActorProxy, ProxyConfig, allow_flags, env_spec

if TYPE_CHECKING:
    from asyncrl.data import TrajectoryBatch, Transitions
    from asyncrl.learner import Learner, LearnerConfig, RunResult

PROGRAM = "asyncrl.learner"
FAREWELL_TIMEOUT = 10.0
"""Seconds that a bundled server stays for the actors of other machines after its run is over."""


def main(argv: Sequence[str] | None = None) -> int:
    """Train; return the exit code."""
    return run_main(lambda stage: _main(argv, stage), PROGRAM)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """All that was asked for."""

    options: RunOptions
    algorithm: Any
    learner: LearnerConfig
    proxy: ProxyConfig
    broker: BrokerConfig
    limits: RunLimits
    run: str

    @property
    def folder(self) -> Path:
        return Path(self.options.runs_dir) / self.run

    @property
    def env(self) -> EnvSpec:
        options = self.options
        return env_spec(
            options.env,
            envs=options.envs,
            kwargs=options.env_kwargs,
            trajectory=options.trajectory,
            trajectory_kwargs=options.trajectory_kwargs,
        )


def _main(argv: Sequence[str] | None, stage: Stage) -> int:
    plan = _plan(sys.argv[1:] if argv is None else list(argv))
    configure_logging(plan.options.log_level)
    return anyio.run(_train, plan, stage)


def _plan(arguments: list[str]) -> _Plan:
    """Read the options; which groups there are depends on the algorithm."""
    # Imported here, so that a missing torch is told in one line and not by a traceback.
    from asyncrl.cli.algorithms import choose
    from asyncrl.learner import set_threads

    choice = choose(arguments)
    options, algorithm, learner, proxy, broker, limits = parse_options(
        f"python -m {PROGRAM}",
        "Train an agent with many actors over Redis; resumes the run where it exists. "
        "Exit code 0: done, or target reached; 3: target missed; 2: wrong usage; 1: failure; "
        "130: interrupted, to be resumed.",
        [
            OptionGroup("run", RunOptions),
            OptionGroup(choice.name, choice.algorithm_type, defaults=choice.algorithm),
            OptionGroup("learner", type(choice.learner), defaults=choice.learner),
            OptionGroup("proxy", ProxyConfig),
            OptionGroup("broker", BrokerConfig),
            OptionGroup("limits", RunLimits),
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
        limits=limits,
        run=run,
    )


async def _train(plan: _Plan, stage: Stage) -> int:
    with open_sinks(plan.folder) as sink:
        async with (
            _server(plan, sink) as server,
            connect(server.url, run=plan.run, config=plan.broker) as broker,
        ):
            result, signals = await _drive(plan, server, broker, sink, stage)
    return _conclude(plan, result, signals)


async def _drive(
    plan: _Plan, server: _Server, broker: Broker, sink: Sink, stage: Stage
) -> tuple[RunResult, list[signal.Signals]]:
    """Run learner and local actors side by side until the learner is done."""
    learner = _learner(plan, broker, sink)
    signals: list[signal.Signals] = []
    opened = anyio.Event()

    def stop(number: signal.Signals) -> None:
        signals.append(number)
        text = f"{number.name}: writing a checkpoint and leaving; once more to leave at once"
        sink.write(Message(level=Level.WARNING, text=text))
        learner.stop()

    def on_open() -> None:
        """Leave traces and start actors only once everything that was asked for is sound."""
        parts = {each.name: getattr(plan, each.name) for each in dataclasses.fields(plan)}
        parts["options"] = dataclasses.replace(plan.options, redis=None)
        write_config(plan.folder / "config.json", parts | {"redis": broker.url})
        stage.started = True
        opened.set()

    async def actors() -> None:
        await opened.wait()
        _warn_of_too_many_actors(plan, sink)
        await Fleet(
            count=plan.options.actors,
            url=server.url,
            run=plan.run,
            logs=plan.folder / "logs",
            log_level=plan.options.log_level,
            allow=modules_needed(plan.env),  # the learner has imported them by now
        ).supervise(sink)

    result = await run_beside(
        partial(learner.run, on_open), [partial(on_signals, stop), actors, server.watch]
    )
    if plan.options.listen is not None and result.outcome != "stopped":
        await _let_others_leave(broker)
    return result, signals


async def _let_others_leave(broker: Broker) -> None:
    """Give actors elsewhere the time to hear that the run is over, before their server goes."""
    with anyio.move_on_after(FAREWELL_TIMEOUT):
        while await broker.presence.actors():  # noqa: ASYNC110 - they are on other machines
            await anyio.sleep(0.1)


def _learner(
    plan: _Plan, broker: Broker, sink: Sink
) -> Learner[Sequence[TrajectoryBatch]] | Learner[Transitions]:
    from asyncrl.learner import OffPolicyConfig, OffPolicyLearner, OnPolicyConfig, OnPolicyLearner

    proxy = ActorProxy(broker, plan.env, config=plan.proxy, limits=plan.limits)
    shared: dict[str, Any] = {"run": plan.run, "folder": plan.folder, "sinks": (sink,)}
    if isinstance(plan.learner, OnPolicyConfig):
        return OnPolicyLearner(plan.algorithm, proxy, plan.learner, **shared)
    assert isinstance(plan.learner, OffPolicyConfig)  # noqa: S101 - the only other kind
    return OffPolicyLearner(plan.algorithm, proxy, plan.learner, **shared)


def _warn_of_too_many_actors(plan: _Plan, sink: Sink) -> None:
    cores = os.cpu_count() or 1
    if plan.options.actors > cores:
        text = (
            f"{plan.options.actors} actors share {cores} cores with the learner; fewer actors with "
            "more envs each collect faster"
        )
        sink.write(Message(level=Level.WARNING, text=text))


@dataclass(frozen=True)
class _Server:
    url: str
    watch: Callable[[], Coroutine[Any, Any, None]]
    """Waits for ever, or until the server is known to be dead, and then raises."""


@asynccontextmanager
async def _server(plan: _Plan, sink: Sink) -> AsyncGenerator[_Server]:
    """Give the server to use, starting the bundled one where none is named."""
    if plan.options.url is not None:
        yield _Server(plan.options.url, anyio.sleep_forever)
        return
    host, port = plan.options.address
    file = plan.folder / "redis.url"
    try:
        async with EmbeddedServer(tcp_port=port, host=host) as server:
            if port is not None:
                plan.folder.mkdir(parents=True, exist_ok=True)
                write_secret(file, server.tcp_url)
                text = (
                    f"others join with: python -m asyncrl.actor --run {plan.run} --redis URL"
                    f"{allow_flags(plan.env)}; the URL, with its password, is in {file}"
                )
                sink.write(Message(level=Level.INFO, text=text))
            yield _Server(server.url, server.watch)
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
