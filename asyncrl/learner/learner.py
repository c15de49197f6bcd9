"""What both learners are: a run that can be awaited, iterated over, stopped and resumed."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias

import anyio

from asyncrl.algorithms import Algorithm
from asyncrl.algorithms.device import resolve_device
from asyncrl.data import DEFAULT_POLICY, PolicySpec, RunSpec, check_name, derive_seed
from asyncrl.errors import AsyncRLError, ConfigError, sole_cause
from asyncrl.learner.checkpoint import CheckpointStore
from asyncrl.learner.config import LearnerConfig
from asyncrl.learner.session import Outcome, Session, Setting
from asyncrl.learner.state import DataT, TrainingState
from asyncrl.metrics import Evaluation, Fanout, Progress, Sink
from asyncrl.policies import Policy, make_policy
from asyncrl.proxy import AgentSpaces, Collector, Delivery, agent_spaces

CLOSING_DEADLINE = 30.0
"""Seconds that a stopped learner may take for its last checkpoint."""
SETTLING_PATIENCE = 5.0
"""Seconds of these that a server which does not answer may cost."""
AgentMapping: TypeAlias = Mapping[str, str] | Callable[[str], str]
"""Agent id -> policy id."""
UNREAD_PROGRESS = 256
"""Progress reports kept for an `async for` that lags; beyond them the training waits for it."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended."""

    outcome: Outcome
    """target: stop_return was reached. steps, time: the budget is used up. stopped: by request."""
    progress: Progress | None
    """Where it stood at the last update; None when there was none in this generation."""
    evaluation: Evaluation | None
    """The last evaluation of this generation, if any."""
    env_steps: int
    """Environment steps learned from, over all generations."""
    mean_return: float | None
    """Mean return of the last training episodes; None when none has ended."""
    eval_return: float | None
    """Mean return of the newest evaluation; None when there was none."""
    policies: Mapping[str, Policy]
    """Policy id -> what was learned, ready to act; its weights are those of the last update."""


class Learner(ABC, Generic[DataT]):
    """Drives a training run over a collector.

    Args:
        algorithm: Settings of the algorithm, such as `PPO()`.
        collector: An `Actor` or an `ActorProxy`.
        config: Options.
        run: Name of the run; the collector's by default.
        folder: Where checkpoints go, and where a run is resumed from; None for neither.
        sinks: Where events go.
        agents: Agent id -> policy id, as a mapping or a function; by default all agents share one
            policy.
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
        agents: AgentMapping | None,
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
            RolloutFailed: jobs fail on every attempt.
            EnvironmentFailure: the local actor's environment raised.
            Fenced: a newer learner took the run over.
            BrokerError: Redis is gone for longer than the broker's outage time-out.
        """
        return await self._run(_ignore, on_open)

    def stop(self) -> None:
        """Ask the run to end: jobs are cancelled, a checkpoint is written, `run` returns."""
        self._stopped = True
        if self._scope is not None:
            self._scope.cancel()

    async def __aiter__(self) -> AsyncGenerator[Progress]:
        """Train, yielding where the run stands after every update.

        To end early call `stop` in the loop, which then goes on to its end: that way the last
        checkpoint is written when the loop is over. A plain ``break`` stops the run as well, but
        only when the iterator is closed, which ``contextlib.aclosing`` does at once.
        """
        queue: asyncio.Queue[Progress | None] = asyncio.Queue(UNREAD_PROGRESS)
        task = asyncio.get_running_loop().create_task(self._run(queue.put), name=self._run_name)
        task.add_done_callback(lambda _: _wake(queue))
        try:
            while (progress := await queue.get()) is not None:
                yield progress
            await task
        finally:
            if not task.done():
                self.stop()
                with suppress(AsyncRLError):
                    await task

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
        spaces = await anyio.to_thread.run_sync(agent_spaces, self._collector.env)
        policies, agents = self._policies(spaces)
        spec = RunSpec(
            env=self._collector.env, policies=policies, agents=agents, seed=self._config.seed
        )
        store = None
        if self._folder is not None:
            store = CheckpointStore(
                self._folder / "checkpoints", keep=self._config.keep_checkpoints
            )
        async with self._collector.open(spec, self._sink) as collection:
            setting = Setting(
                run=self._run_name,
                spec=spec,
                config=self._config,
                collection=collection,
                sink=self._sink,
                store=store,
                observer=observer,
            )
            session = Session(setting, self._new_state(spec))
            unsettled = await session.resume()
            if on_open is not None:
                on_open()
            return await self._drive(session, unsettled)

    async def _drive(self, session: Session[DataT], unsettled: list[Delivery]) -> RunResult:
        """Train and close: whatever ends the training, what was learned is kept."""
        learned = session.state.counters.updates
        try:
            with anyio.CancelScope() as self._scope:
                if self._stopped:
                    self._scope.cancel()
                await session.publish()
                await self._recover(session, unsettled)
                await self._train(session)
        finally:
            self._scope = None
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSING_DEADLINE):
                if session.state.counters.updates > learned or unsettled:
                    await session.checkpoint(patience=SETTLING_PATIENCE)
        outcome = session.outcome()
        if outcome is not None:
            await session.collection.finish()
        self.result = RunResult(
            outcome=outcome or "stopped",
            progress=session.newest,
            evaluation=session.evaluation,
            env_steps=session.state.counters.env_steps,
            mean_return=session.state.window.mean_return,
            eval_return=session.state.counters.eval_return,
            policies=_learned(session),
        )
        return self.result

    def _policies(
        self, spaces: Mapping[str, AgentSpaces]
    ) -> tuple[dict[str, PolicySpec], dict[str, str]]:
        agents = self._policy_of_agents(spaces)
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

    def _policy_of_agents(self, spaces: Mapping[str, AgentSpaces]) -> dict[str, str]:
        """Return the mapping as data: a function is asked for every agent of the scenario."""
        if self._agents is None:
            return dict.fromkeys(spaces, DEFAULT_POLICY)
        if callable(self._agents):
            return {agent: self._agents(agent) for agent in spaces}
        return dict(self._agents)

    def _seed(self, policy_id: str) -> int:
        return derive_seed(self._config.seed, "policy", policy_id)

    def _device(self) -> str:
        return str(resolve_device(self._config.device))

    @abstractmethod
    def _new_state(self, spec: RunSpec) -> TrainingState[DataT]:
        """Return the state of a run that has just begun."""

    @abstractmethod
    async def _recover(self, session: Session[DataT], unsettled: list[Delivery]) -> None:
        """Learn from results accepted by an earlier generation and covered by no checkpoint."""

    @abstractmethod
    async def _train(self, session: Session[DataT]) -> None:
        """Train until `session.outcome()` says why the run is over."""


def _learned(session: Session[Any]) -> dict[str, Policy]:
    """Return policy id -> a policy with the newest weights."""
    policies: dict[str, Policy] = {}
    for name, updater in session.state.updaters.items():
        policies[name] = make_policy(session.setting.spec.policies[name])
        policies[name].load(updater.acting_params())
    return policies


async def _ignore(_: Progress) -> None:
    """Observe nothing."""


def _wake(queue: asyncio.Queue[Progress | None]) -> None:
    with suppress(asyncio.QueueFull):
        queue.put_nowait(None)
