"""What both learners are: a run that can be awaited, iterated over, stopped and resumed."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic

import anyio

from asyncrl.algorithms import Algorithm
from asyncrl.algorithms.device import resolve_device
from asyncrl.cancellation import WorkerThread, outlast
from asyncrl.data import DEFAULT_POLICY, JobKind, PolicySpec, RunSpec, check_name, derive_seed
from asyncrl.errors import ConfigError, sole_cause
from asyncrl.learner.checkpoint import CheckpointStore
from asyncrl.learner.config import LearnerConfig
from asyncrl.learner.session import Outcome, Session, Setting
from asyncrl.learner.state import DataT, TrainingState
from asyncrl.metrics import Evaluation, Fanout, Progress, Sink
from asyncrl.proxy import AgentSpaces, Collection, Collector, Delivery, agent_spaces

_log = logging.getLogger(__name__)

CLOSING_DEADLINE = 30.0
"""Seconds that a stopped learner may take for its last checkpoint."""
SETTLING_PATIENCE = 5.0
"""Seconds of these that a server which does not answer may cost."""
UNREAD_PROGRESS = 256
"""Progress reports kept for an `async for` that lags; beyond them the training waits for it."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended."""

    outcome: Outcome
    """target: stop_return was reached. steps, time: the budget is used up. stopped: by request."""
    progress: Progress | None = None
    """Where it stood at the last update; None when there was none in this generation."""
    evaluation: Evaluation | None = None
    """The last evaluation of this generation, if any."""
    env_steps: int = 0
    """Environment steps learned from, over all generations; 0 when the run was stopped before it
    was open, so that nothing is known of the earlier ones."""
    mean_return: float | None = None
    """Mean return of the last training episodes; None when none has ended."""
    eval_return: float | None = None
    """Mean return of the newest evaluation; None when there was none."""


class Learner(ABC, Generic[DataT]):
    """Drives a training run over a collector.

    Args:
        algorithm: Settings of the algorithm, such as `PPO()`.
        collector: An `Actor` or an `ActorProxy`.
        config: Options.
        run: Name of the run; the collector's by default.
        folder: Where checkpoints go, and where a run is resumed from; None for neither.
        sinks: Where events go.
        agents: Agent id -> policy id; by default all agents share one policy.
    """

    def __init__(
        self,
        algorithm: Algorithm[DataT],
        collector: Collector,
        config: LearnerConfig,
        *,
        run: str | None,
        folder: Path | str | None,
        sinks: tuple[Sink, ...],
        agents: Mapping[str, str] | None,
    ) -> None:
        self._algorithm = algorithm
        self._collector = collector
        self._config = config
        self._run_name = check_name("run", run or collector.run)
        self.result: RunResult | None = None
        """How the run ended, once it has; for those who iterate instead of awaiting."""
        self._folder = None if folder is None else Path(folder)
        self._sink = Fanout(sinks)
        self._agents = agents
        self._scope: anyio.CancelScope | None = None
        self._stopped = False

    async def run(self, on_open: Callable[[], None] | None = None) -> RunResult:
        """Train until a stop condition holds or `stop` is called; resume from a checkpoint.

        A checkpoint is written in the end, also when this is cancelled or fails.

        Args:
            on_open: Called once the run is open: options, environment and server are sound then.

        Raises:
            ConfigError: algorithm, spaces and options do not go together.
            NoRoom: the results of one update are more than the run may hold.
            RolloutFailed: jobs fail on every attempt.
            EnvironmentFailure: the local actor's environment raised.
            Fenced: a newer learner took the run over.
            BrokerError: Redis is gone for longer than the broker's outage time-out.
        """
        return await self._run(_ignore, on_open)

    def stop(self) -> None:
        """Ask the run to end: jobs are cancelled, a checkpoint is written, `run` returns.

        It ends whatever it waits for, but for an update or a step of a local environment that is
        being made.
        """
        self._stopped = True
        if self._scope is not None:
            self._scope.cancel()

    async def __aiter__(self) -> AsyncGenerator[Progress]:
        """Train, yielding where the run stands after every update.

        To end early call `stop` in the loop, which then goes on to its end: that way the last
        checkpoint is written when the loop is over. A plain ``break`` stops the run as well, but
        only when the iterator is closed, which ``contextlib.aclosing`` does at once.
        """
        reports = _Reports()
        task = asyncio.get_running_loop().create_task(self._run(reports.put), name=self._run_name)
        task.add_done_callback(lambda _: reports.end())
        try:
            while (progress := await reports.get()) is not None:
                yield progress
        except BaseException:  # the reader left or was cancelled
            self.stop()
            await outlast(asyncio.wait([task]))
            _say_what_failed(task)
            raise
        task.result()

    async def _run(
        self,
        observer: Callable[[Progress], Awaitable[None]],
        on_open: Callable[[], None] | None = None,
    ) -> RunResult:
        try:
            return await self._open(observer, on_open)
        except BaseExceptionGroup as group:
            raise sole_cause(group) from None

    async def _open(
        self,
        observer: Callable[[Progress], Awaitable[None]],
        on_open: Callable[[], None] | None,
    ) -> RunResult:
        with anyio.CancelScope() as self._scope:
            if self._stopped:
                self._scope.cancel()
            spec = await self._spec()
            async with self._collector.open(spec, self._sink) as collection:
                session = Session(self._setting(spec, collection, observer), self._new_state(spec))
                try:
                    self._check_fits(collection)
                    unsettled = await session.resume()
                    if on_open is not None:
                        on_open()
                    return await self._drive(session, unsettled)
                finally:
                    session.close()
        self.result = RunResult(outcome="stopped")
        return self.result

    async def _spec(self) -> RunSpec:
        """Look at the environment and return what the run trains."""
        thread = WorkerThread(f"{self._run_name}-spaces")
        try:
            spaces = await thread.run_or_leave(partial(agent_spaces, self._collector.env))
        finally:
            thread.close()
        policies, agents = self._policies(spaces)
        return RunSpec(
            env=self._collector.env, policies=policies, agents=agents, seed=self._config.seed
        )

    def _setting(
        self,
        spec: RunSpec,
        collection: Collection,
        observer: Callable[[Progress], Awaitable[None]],
    ) -> Setting:
        store = None
        if self._folder is not None:
            store = CheckpointStore(
                self._folder / "checkpoints", keep=self._config.keep_checkpoints
            )
        return Setting(
            run=self._run_name,
            spec=spec,
            config=self._config,
            collection=collection,
            sink=self._sink,
            store=store,
            observer=observer,
        )

    async def _drive(self, session: Session[DataT], unsettled: list[Delivery]) -> RunResult:
        """Train and close: whatever ends the training, what was learned is kept."""
        learned = session.state.counters.updates
        try:
            with anyio.CancelScope() as self._scope:
                if self._stopped:
                    self._scope.cancel()
                await session.publish()
                await self._recover(session, unsettled)
                with anyio.move_on_after(session.seconds_left):
                    await self._train(session)
                    await session.call_back(JobKind.TRAIN)
                    await session.finish_evaluations()
        finally:
            self._scope = None
            if session.state.counters.updates > learned or unsettled:
                await outlast(_keep(session))
        outcome = session.outcome()
        if outcome is not None:
            await session.call_back(*JobKind)
            await session.collection.finish()
        self.result = RunResult(
            outcome=outcome or "stopped",
            progress=session.newest,
            evaluation=session.evaluation,
            env_steps=session.state.counters.env_steps,
            mean_return=session.state.window.mean_return,
            eval_return=session.state.counters.eval_return,
        )
        return self.result

    def _policies(
        self, spaces: Mapping[str, AgentSpaces]
    ) -> tuple[dict[str, PolicySpec], dict[str, str]]:
        agents = dict(self._agents or dict.fromkeys(spaces, DEFAULT_POLICY))
        policies: dict[str, PolicySpec] = {}
        for agent, (observation, action) in spaces.items():
            policy_id = agents.get(agent) or agents.get("*")
            if policy_id is None:
                raise ConfigError(
                    "agents", agent, "no policy is mapped to this agent", "add it, or '*'"
                )
            spec = self._algorithm.policy_spec(observation, action)
            if policies.setdefault(policy_id, spec) != spec:
                raise ConfigError(
                    "agents",
                    policy_id,
                    f"agent {agent!r} has other spaces than the policy's other agents",
                    "give it a policy of its own",
                )
        return policies, agents

    def _seed(self, policy_id: str) -> int:
        return derive_seed(self._config.seed, "policy", policy_id)

    def _device(self) -> str:
        return str(resolve_device(self._config.device))

    def _check_fits(self, collection: Collection) -> None:
        """Raise `ConfigError` where the options do not go together with the run's limits."""

    @abstractmethod
    def _new_state(self, spec: RunSpec) -> TrainingState[DataT]:
        """Return the state of a run that has just begun."""

    @abstractmethod
    async def _recover(self, session: Session[DataT], unsettled: list[Delivery]) -> None:
        """Learn from results accepted by an earlier generation and covered by no checkpoint."""

    @abstractmethod
    async def _train(self, session: Session[DataT]) -> None:
        """Train until `session.outcome()` says why the run is over."""


class _Reports:
    """Progress on its way to an `async for`: bounded, but there is always room for the end."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Progress | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(UNREAD_PROGRESS)

    async def put(self, progress: Progress) -> None:
        """Wait for room, then hand in."""
        await self._room.acquire()
        self._queue.put_nowait(progress)

    def end(self) -> None:
        """Say that nothing comes any more."""
        self._queue.put_nowait(None)

    async def get(self) -> Progress | None:
        """Wait for the next report; None after the last."""
        progress = await self._queue.get()
        self._room.release()
        return progress


async def _ignore(_: Progress) -> None:
    """Observe nothing."""


async def _keep(session: Session[DataT]) -> None:
    """Write the last checkpoint of a generation, within `CLOSING_DEADLINE`."""
    with anyio.move_on_after(CLOSING_DEADLINE):
        await session.checkpoint(patience=SETTLING_PATIENCE)


def _say_what_failed(task: asyncio.Task[RunResult]) -> None:
    """Log the error of a run whose reader left before it could be raised there."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("the run was told to stop because its reader left, and failed: %s", error)
