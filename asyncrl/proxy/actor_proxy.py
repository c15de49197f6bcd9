"""ActorProxy: the coordinator of remote actors, with the interface of a local one."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import anyio
import anyio.to_thread

from asyncrl.broker import Broker, ResultEntry, RunInfo, RunLimits, Submitted
from asyncrl.data import (
    EnvSpec,
    FailureReport,
    RolloutJob,
    RolloutResult,
    RunSpec,
    WeightSet,
    check_result,
)
from asyncrl.errors import BrokerError, InvalidBatchError, WaitTimeout, WireError
from asyncrl.metrics import Level, Message, Sink
from asyncrl.proxy.collector import Capacity, CollectionStatus, Delivery, LostJob
from asyncrl.proxy.config import ProxyConfig
from asyncrl.proxy.monitor import Monitor
from asyncrl.proxy.rounds import SUPERSEDED
from asyncrl.proxy.scenario import allow_flags, env_spec
from asyncrl.wire import decode_result, encode_weights

_log = logging.getLogger(__name__)
_LAST_LOOK = 2.0
"""Seconds the last look at actors and jobs may take."""
_UNREAD = 8
"""Decoded results held in memory for the learner; the others wait in Redis."""


class ActorProxy:
    """Collects over remote actors that joined the run of `broker`.

    Args:
        broker: The run on a Redis server.
        env: Gymnasium id or import path ``"module:attr"`` (or a class or function that has one) of
            the environment's factory; every actor imports it on its own machine.
        envs: Environments stepped side by side in each actor.
        kwargs: Keyword arguments of the factory; they travel as data.
        trajectory: Import path of the `Trajectory` subclass (or the class), None for the default.
        trajectory_kwargs: Keyword arguments of the trajectory.
        config: Options.
        limits: What all processes of the run must agree on; stored with it for its actors.
    """

    def __init__(
        self,
        broker: Broker,
        env: str | Callable[..., Any] | EnvSpec,
        *,
        envs: int = 8,
        kwargs: Mapping[str, Any] | None = None,
        trajectory: str | type | None = None,
        trajectory_kwargs: Mapping[str, Any] | None = None,
        config: ProxyConfig | None = None,
        limits: RunLimits | None = None,
    ) -> None:
        self._broker = broker
        self._limits = limits or RunLimits()
        self._config = config or ProxyConfig()
        self._env = env_spec(
            env,
            envs=envs,
            kwargs=kwargs,
            trajectory=trajectory,
            trajectory_kwargs=trajectory_kwargs,
            remote=True,
        )

    @property
    def env(self) -> EnvSpec:
        """The environments, as data."""
        return self._env

    @property
    def run(self) -> str:
        """Name of the run."""
        return self._broker.run

    @asynccontextmanager
    async def open(self, spec: RunSpec, sink: Sink) -> AsyncGenerator[RemoteCollection]:
        """Create the run, or take it over, and watch over its actors until the context ends.

        Raises:
            RunMismatch: the run on the server trains something else or speaks another protocol.
        """
        owner = f"{socket.gethostname()}:{os.getpid()}"
        info = await self._broker.create_run(spec, owner, self._limits)
        for text in await self._broker.concerns():
            sink.write(Message(level=Level.WARNING, text=text))
        async with anyio.create_task_group() as tasks:
            collection = RemoteCollection(self._broker, info, self._config, sink)
            unsettled = await collection.read_unsettled()
            tasks.start_soon(collection.take_in)
            tasks.start_soon(collection.watch)
            collection.remember(unsettled)
            try:
                yield collection
            finally:
                await collection.look_once_more()
                tasks.cancel_scope.cancel()


class RemoteCollection:
    """The `Collection` of an `ActorProxy`."""

    concurrent = True

    def __init__(
        self,
        broker: Broker,
        info: RunInfo,
        config: ProxyConfig,
        sink: Sink,
    ) -> None:
        self._broker = broker
        self._info = info
        self._config = config
        self._sink = sink
        # Not a stream of anyio, whose receivers lose what comes in as they are cancelled natively.
        self._outcomes: asyncio.Queue[Delivery | LostJob] = asyncio.Queue(_UNREAD)
        self._unsettled: list[Delivery] = []
        self._jobs: dict[str, RolloutJob] = {}
        self._kept: set[str] = set()
        """Receipts of what the learner was given and has not settled."""
        self._counters: Counter[str] = Counter()
        self._intake = anyio.CancelScope()
        self._monitor = Monitor(broker, info.limits, config, sink, self._counters, self._lost)

    @property
    def generation(self) -> int:
        """Generation of this learner, from 1 on."""
        return self._info.generation

    @property
    def published(self) -> int:
        """Version of the newest weight set when the run was opened; 0 for none."""
        return 0 if self._info.weights is None else self._info.weights[1]

    @property
    def capacity(self) -> Capacity:
        """How much may wait on the server."""
        limits = self._info.limits
        return Capacity(results=limits.max_results, nbytes=limits.max_result_bytes)

    async def unsettled(self) -> Sequence[Delivery]:
        """Return results accepted earlier that no checkpoint covers yet, in the order accepted."""
        return self._unsettled

    async def publish(self, weights: WeightSet) -> None:
        """Publish; actors load them before their next job. Raises `Fenced`."""
        payload = await anyio.to_thread.run_sync(encode_weights, weights)
        await self._broker.weights.publish(weights.version, payload, weights.generation)

    async def submit(self, job: RolloutJob) -> None:
        """Hand out `job`; waits while the run holds as many jobs as it may.

        Raises:
            Fenced: a newer learner took over.
            WaitTimeout: the bound was reached for `result_timeout` seconds.
        """
        self._jobs[job.job_id] = job
        deadline = time.monotonic() + self._config.result_timeout
        while await self._broker.jobs.submit(job) is Submitted.FULL:
            if time.monotonic() >= deadline:
                raise WaitTimeout(
                    f"room for job {job.job_id}",
                    self._config.result_timeout,
                    "the bound on jobs is reached; are actors alive?",
                )
            await anyio.sleep(self._config.poll_interval)

    async def receive(self) -> Delivery | LostJob:
        """Wait for the next outcome.

        Raises:
            NoRoom: every result out waits for room, and the learner has read all on the server.
            WaitTimeout: no actor is there for `actor_timeout`, or nothing came for
                `result_timeout` seconds although some are.
        """
        started = time.monotonic()
        warned = started
        while True:
            with anyio.move_on_after(self._config.poll_interval):
                return self._handed_out(await self._outcomes.get())
            self._check_room()
            waited = time.monotonic() - started
            nobody = self._monitor.alive == 0
            limit = self._config.actor_timeout if nobody else self._config.result_timeout
            if waited >= limit:
                raise self._silence(waited, nobody)
            if nobody and time.monotonic() - warned >= self._config.warn_interval:
                warned = time.monotonic()
                self._sink.write(Message(level=Level.WARNING, text=self._nobody(waited)))

    def _handed_out(self, outcome: Delivery | LostJob) -> Delivery | LostJob:
        """Note that the learner has `outcome` now; return it."""
        if isinstance(outcome, Delivery):
            self._kept.add(outcome.receipt)
        job = outcome.result.job if isinstance(outcome, Delivery) else outcome.job
        self._jobs.pop(job.job_id, None)
        return outcome

    def _check_room(self) -> None:
        """Raise `NoRoom` where only the learner, which has read everything, could make any."""
        shortage = self._monitor.room.standstill
        if shortage is None or not self._outcomes.empty():
            return
        if shortage.backlog.results == len(self._kept):
            raise shortage.error()

    def outstanding(self) -> Sequence[RolloutJob]:
        """Return the jobs that were submitted and have no outcome, oldest first."""
        return list(self._jobs.values())

    async def cancel(self, job_ids: Sequence[str]) -> None:
        """Give up jobs, wherever they are; actors drop them at their next beat."""
        for job_id in job_ids:
            self._jobs.pop(job_id, None)
        await self._broker.jobs.cancel(job_ids)

    async def settle(self, trained: Sequence[str], dropped: Mapping[str, str]) -> None:
        """Acknowledge and delete results. Raises `Fenced`."""
        await self._broker.results.ack(trained, dropped, self.generation)
        self._kept.difference_update(trained, dropped)

    async def finish(self) -> None:
        """Mark the run as complete, so that its actors leave; drop results nobody waits for.

        Only then does the run expire, `RunLimits.finished_ttl` seconds later.
        """
        await self._broker.finish_run(self.generation)
        self._intake.cancel()
        await self.cancel(sorted(await self._broker.jobs.live()))
        while await self._broker.results.read(block=False):
            pass
        left = await self._broker.results.read_pending()
        dropped = {entry.entry_id: SUPERSEDED for entry in left}
        await self._broker.results.ack((), dropped, self.generation)
        await self._broker.finish_run(self.generation)

    def status(self) -> CollectionStatus:
        """Return numbers to show, as of the last look."""
        return CollectionStatus(
            actors=self._monitor.alive,
            queued_jobs=self._monitor.backlog.queued,
            waiting_results=self._monitor.backlog.results,
            counters=dict(self._counters),
        )

    # -- run by ActorProxy.open ------------------------------------------------------------------

    async def read_unsettled(self) -> list[Delivery]:
        """Read what earlier generations left unsettled; bad results are dropped and counted."""
        found: list[Delivery] = []
        after = "0-0"
        while entries := await self._broker.results.read_pending(after, count=16):
            deliveries = [await self._delivery(entry) for entry in entries]
            found += [each for each in deliveries if each is not None]
            after = entries[-1].entry_id
        return found

    def remember(self, unsettled: list[Delivery]) -> None:
        """Keep `unsettled` for the learner to ask for."""
        self._unsettled = unsettled
        self._kept.update(each.receipt for each in unsettled)

    async def take_in(self) -> None:
        """Read results until the run is finished; a full buffer leaves the others in Redis."""
        with self._intake:
            while True:
                for entry in await self._broker.results.read(count=2):
                    delivery = await self._delivery(entry)
                    if delivery is not None:
                        await self._outcomes.put(delivery)

    async def watch(self) -> None:
        """Watch actors and jobs for ever."""
        await self._monitor.run(self._outcomes.put, new=self.generation == 1)

    async def look_once_more(self) -> None:
        """Report what happened since the last look, so that no failure goes unsaid."""
        with anyio.move_on_after(_LAST_LOOK, shield=True), suppress(BrokerError):
            await self._monitor.look()

    async def _delivery(self, entry: ResultEntry) -> Delivery | None:
        """Return the entry's result, of the job as it was handed out; None where it is refused."""
        try:
            result = await anyio.to_thread.run_sync(self._decode, entry)
        except (WireError, InvalidBatchError) as error:
            await self._refuse(entry, error)
            return None
        return Delivery(result=result, receipt=entry.entry_id, nbytes=entry.nbytes)

    def _decode(self, entry: ResultEntry) -> RolloutResult:
        """Return the entry's result, checked against the entry, its job and the run."""
        if entry.payload is None:
            raise WireError("its payload is gone from the server")
        result = decode_result(entry.payload)
        job = self._jobs.get(entry.job_id)
        if job is not None:
            job = replace(job, attempt=max(1, entry.attempt))
        elif (result.job.job_id, result.job.kind) == (entry.job_id, entry.kind):
            job = result.job  # of an earlier generation, or one that was called back
        else:
            raise InvalidBatchError(f"it is of {result.job.kind} job {result.job.job_id!r}")
        result = replace(result, job=job)
        check_result(result, self._info.spec)
        if result.env_steps != entry.env_steps:
            raise InvalidBatchError(
                f"{result.env_steps} environment steps were announced as {entry.env_steps}"
            )
        return result

    async def _refuse(self, entry: ResultEntry, error: Exception) -> None:
        """Let go of a bad result by name, so that it neither ends the learner nor comes back.

        Its job goes to another attempt; what becomes of it in the end the monitor hears.
        """
        self._counters["rejected"] += 1
        text = (
            f"result {entry.entry_id} of job {entry.job_id} by actor {entry.actor_id} is "
            f"refused: {error}"
        )
        self._sink.write(Message(level=Level.ERROR, text=text))
        report = FailureReport(
            actor_id=entry.actor_id,
            job_id=entry.job_id,
            attempt=entry.attempt,
            where="checking its result",
            cause=f"{type(error).__name__}: {error}",
        )
        await self._broker.results.reject(entry, report, self._jobs.get(entry.job_id))

    def _lost(self, report: FailureReport) -> LostJob | None:
        job = self._jobs.get(report.job_id)
        return None if job is None else LostJob(job=job, report=report)

    def _nobody(self, waited: float) -> str:
        return (
            f"no actor is on run {self._broker.run!r} for {waited:.0f} s; "
            f"start one: python -m asyncrl.actor --redis {self._broker.url} "
            f"--run {self._broker.run}{allow_flags(self._info.spec.env)}"
        )

    def _silence(self, waited: float, nobody: bool) -> WaitTimeout:
        if nobody:
            return WaitTimeout("an actor", waited, self._nobody(waited))
        if waiting := self._monitor.room.waiting:
            hint = f"{waiting} finished ones find no room on {self._broker.address}; has it memory?"
            return WaitTimeout("a result", waited, hint)
        return WaitTimeout(
            "a result",
            waited,
            f"{self._monitor.alive} actors are alive but finish nothing; give jobs fewer steps or "
            "raise result_timeout",
        )
