"""The actor as a worker of a run: takes jobs from Redis, runs them, pushes results back."""

from __future__ import annotations

import logging
import os
import platform
import secrets
import socket
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from asyncrl.actor.config import WorkerConfig
from asyncrl.actor.control import RolloutAbandoned, RolloutControl
from asyncrl.actor.heartbeat import LOST, Heartbeat, HeldJobs
from asyncrl.actor.host import RolloutHost
from asyncrl.broker import Broker, BrokerConfig, Completed, RunInfo, TakenJob, connect
from asyncrl.data import Allowed, FailureReport, JobKind
from asyncrl.errors import (
    BrokerError,
    BrokerUnavailable,
    ConfigError,
    EnvironmentFailure,
    RunNotFound,
    RunStateLost,
    WaitTimeout,
    sole_cause,
)
from asyncrl.wire import decode_weights, encode_result

_log = logging.getLogger(__name__)

LEAVING = "leaving"
"""Why a rollout is abandoned: its actor was asked to stop."""
_KINDS = (JobKind.EVAL, JobKind.TRAIN)
_LOOK_INTERVAL = 0.2
"""Seconds between two looks for a run that is not there yet."""
_AWAY_PAUSE = (0.1, 5.0)
"""First and longest pause, in seconds, between two tries to reach a server that is away."""
_FULL_PAUSE = (0.05, 1.0)
"""First and longest pause, in seconds, while the learner has no room for a result."""


def new_actor_id() -> str:
    """Return a name that no other actor, earlier or later, has."""
    host = "".join(c if c.isalnum() or c in "._-" else "-" for c in socket.gethostname())[:32]
    return f"actor-{host}-{os.getpid()}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class _Finished:
    """A job's result, encoded, on its way to the learner."""

    taken: TakenJob
    payload: bytes
    env_steps: int


class ActorWorker:
    """Works for one run until the run is complete or `stop` is called.

    Args:
        url: The Redis server.
        run: Name of the run; spaces, policies and settings come from there.
        config: Options.
        broker_config: Options of the connection.
        allow: Modules, each with all below it, whose code the run may name as its environment or
            trajectory. Without any it may name what is registered with Gymnasium.
        actor_id: Name of this actor; a fresh one by default.
        on_hung: Called when an environment hangs so that not even a lost job ends: a thread cannot
            be killed, so only the end of the process frees the actor. By default it is logged.
    """

    def __init__(
        self,
        url: str,
        run: str,
        config: WorkerConfig | None = None,
        broker_config: BrokerConfig | None = None,
        *,
        allow: Sequence[str] = (),
        actor_id: str | None = None,
        on_hung: Callable[[], None] | None = None,
    ) -> None:
        self._config = config or WorkerConfig()
        self._connect = partial(connect, url, run=run, config=broker_config or BrokerConfig())
        self._run_name = run
        self._allowed = Allowed(allow)
        self.actor_id = actor_id or new_actor_id()
        self._held = HeldJobs()
        self._current: RolloutControl | None = None
        self._scope: anyio.CancelScope | None = None
        self._stopping = False
        self._on_hung = on_hung
        self._served = False
        self._away_since: float | None = None
        self._unsent: _Finished | None = None

    def stop(self) -> None:
        """Leave: the running job goes back without counting as an attempt. Idempotent."""
        self._stopping = True
        if self._current is not None:
            self._current.abandon(LEAVING)
        if self._scope is not None:
            self._scope.cancel()

    async def run(self) -> None:
        """Work until the run is complete or `stop` is called.

        While the server is away this tries again with growing pauses, and keeps a finished result.

        Raises:
            BrokerUnavailable: the server is not there at first, or not for `reconnect_timeout`.
            WaitTimeout: no run of this name appeared within `wait_for_run`.
            EnvironmentFailure: making the environment raised here.
            ConfigError: the environment is not to be found here.
            NotAllowed: the run names code that this actor was not started for.
        """
        with anyio.CancelScope() as self._scope:
            if not self._stopping:
                await self._work_through_outages()

    async def _work_through_outages(self) -> None:
        pause, longest = _AWAY_PAUSE
        while True:
            try:
                await self._serve_once()
                return
            except RunStateLost as error:
                _log.warning("%s; waiting for the run to be made anew", error)
                self._unsent = None
            except BrokerUnavailable as error:
                now = time.monotonic()
                if self._away_since is None:
                    self._away_since, pause = now, _AWAY_PAUSE[0]
                away = now - self._away_since
                if not self._served or away >= self._config.reconnect_timeout:
                    raise
                _log.warning("the server is away: %s; trying again in %.1f s", error, pause)
                await anyio.sleep(pause)
                pause = min(longest, 2 * pause)

    async def _serve_once(self) -> None:
        """Connect and work until the run is complete or something ends it."""
        try:
            async with self._connect() as broker:
                info = await self._find_run(broker)
                if info.state == "finished":
                    _log.info("run %r is complete; nothing to do", self._run_name)
                else:
                    await self._serve(broker, info)
        except BaseExceptionGroup as group:
            raise sole_cause(group) from None

    async def _find_run(self, broker: Broker) -> RunInfo:
        """Wait for the run to appear."""
        started = time.monotonic()
        told = False
        while True:
            try:
                return await broker.read_run()
            except RunNotFound as error:
                waited = time.monotonic() - started
                if waited >= self._config.wait_for_run:
                    raise WaitTimeout(
                        f"run {self._run_name!r} to appear on {broker.url}",
                        waited,
                        "start its learner first, or check the name of the run",
                    ) from error
                if not told:
                    _log.info("run %r is not there yet; waiting for it", self._run_name)
                    told = True
                await anyio.sleep(_LOOK_INTERVAL)

    async def _serve(self, broker: Broker, info: RunInfo) -> None:
        """Work for the run until it is complete; close and say goodbye whatever ends it."""
        self._served, self._away_since = True, None
        host = RolloutHost(info.spec, self.actor_id, self._allowed)
        try:
            await self._prepare(broker, host)
            async with self._beating():
                await self._work(broker, host)
        finally:
            with anyio.move_on_after(self._config.drain_timeout, shield=True):
                await host.close()
                await self._say_goodbye(broker)

    async def _prepare(self, broker: Broker, host: RolloutHost) -> None:
        try:
            await host.prepare()
        except (EnvironmentFailure, ConfigError) as error:
            await broker.events.report(self._report_on(error, job_id="", attempt=1))
            raise

    @asynccontextmanager
    async def _beating(self) -> AsyncGenerator[None]:
        loop_token = anyio.lowlevel.current_token()

        def drain() -> None:
            anyio.from_thread.run_sync(self.stop, token=loop_token)

        heartbeat = Heartbeat(
            self._connect,
            self.actor_id,
            self._config.heartbeat_interval,
            self._held,
            drain,
            {
                "host": socket.gethostname(),
                "pid": str(os.getpid()),
                "python": platform.python_version(),
            },
        )
        await anyio.to_thread.run_sync(heartbeat.__enter__)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(heartbeat.__exit__, None, None, None)

    # -- jobs ------------------------------------------------------------------------------------

    async def _work(self, broker: Broker, host: RolloutHost) -> None:
        """Run jobs one after the other; each result is pushed while the next job is run."""
        send, receive = anyio.create_memory_object_stream[_Finished](0)
        async with receive, anyio.create_task_group() as tasks:
            tasks.start_soon(self._push_all, broker, receive)
            tasks.start_soon(self._watch_for_hangs)
            async with send:
                while not self._stopping:
                    for taken in await broker.jobs.take(self.actor_id, _KINDS, count=1):
                        await self._do(broker, host, taken, send)

    async def _watch_for_hangs(self) -> None:
        """Notice a rollout that does not even end when it is told to."""
        limit = self._config.abandon_timeout
        told: RolloutControl | None = None
        while True:
            await anyio.sleep(limit / 4)
            control = self._current
            if control is None or control is told or control.abandoned_at is None:
                continue
            if time.monotonic() - control.abandoned_at >= limit:
                told = control
                _log.error("the environment hangs: it did not stop within %g s", limit)
                if self._on_hung is not None:
                    self._on_hung()

    async def _do(
        self,
        broker: Broker,
        host: RolloutHost,
        taken: TakenJob,
        send: MemoryObjectSendStream[_Finished],
    ) -> None:
        """Run one job and pass its result on, or say why there is none."""
        control = self._current = RolloutControl()
        self._held.add(taken.token, taken.job.job_id, control)
        try:
            if not await self._ready_to_begin(broker, host, taken):
                self._held.remove(taken.token)
                return
            result = await host.run(taken.job, control)
            payload = await anyio.to_thread.run_sync(encode_result, result)
        except RolloutAbandoned as abandoned:
            self._held.remove(taken.token)
            if str(abandoned) != LOST:
                await self._give_back(broker, taken)
        except BrokerUnavailable:
            raise
        except Exception as error:
            self._held.remove(taken.token)
            await self._report(broker, taken, error)
        else:
            self._current = None  # the rollout is over: however long its result waits, it hangs not
            self._held.finish(taken.token, len(payload))
            await send.send(_Finished(taken, payload, result.env_steps))
        finally:
            self._current = None

    async def _ready_to_begin(self, broker: Broker, host: RolloutHost, taken: TakenJob) -> bool:
        """Whether the job is still wanted; loads newer weights first.

        The newest on the server may be older than the job asks for where the server came back with
        older data: then this waits for others, and fails the attempt when none come.
        """
        begun = await broker.jobs.begin(self.actor_id, taken)
        if not begun.ok:
            _log.info("job %s was taken back before it began", taken.job.job_id)
            return False
        wanted = max(
            (begun.generation, begun.version), (taken.job.generation, taken.job.min_version)
        )
        if wanted > host.loaded:
            payload = await broker.weights.fetch(wanted)
            host.load(await anyio.to_thread.run_sync(decode_weights, payload))
        return True

    async def _report(self, broker: Broker, taken: TakenJob, error: Exception) -> None:
        """Report a failed attempt."""
        report = self._report_on(error, job_id=taken.job.job_id, attempt=taken.job.attempt)
        _log.error("job %s failed in %s: %s", report.job_id, report.where, report.cause)
        await broker.jobs.fail(self.actor_id, taken, report)

    def _report_on(self, error: Exception, *, job_id: str, attempt: int) -> FailureReport:
        """Return what the learner is told, with the environment's own traceback where there is one.

        Options that do not fit need none: their message says what to do.
        """
        if isinstance(error, EnvironmentFailure):
            where, cause, text = error.where, error.cause, error.traceback
        else:
            where = "the rollout" if job_id else "making the environment"
            cause = f"{type(error).__name__}: {error}"
            text = traceback.format_exc() if job_id else ""
        return FailureReport(
            actor_id=self.actor_id,
            job_id=job_id,
            attempt=attempt,
            where=where,
            cause=cause,
            traceback=text,
            seed=error.seed if isinstance(error, EnvironmentFailure) else None,
        )

    async def _give_back(self, broker: Broker, taken: TakenJob) -> None:
        with anyio.CancelScope(shield=True), anyio.move_on_after(self._config.drain_timeout):
            await broker.jobs.release(self.actor_id, taken)

    # -- results ---------------------------------------------------------------------------------

    async def _push_all(
        self, broker: Broker, receive: MemoryObjectReceiveStream[_Finished]
    ) -> None:
        """Push results one after the other, while the next job is fetched and run."""
        if self._unsent is not None:
            await self._push(broker, self._unsent)
        async for finished in receive:
            await self._push(broker, finished)

    async def _push(self, broker: Broker, finished: _Finished) -> None:
        """Push one result; waits, and says so in every beat, while there is no room for it."""
        self._unsent = finished
        pause, longest = _FULL_PAUSE
        try:
            while True:
                answer = await broker.jobs.complete(
                    self.actor_id, finished.taken, finished.payload, finished.env_steps
                )
                if answer is not Completed.FULL:
                    break
                self._held.no_room_for(len(finished.payload))
                await anyio.sleep(pause)
                pause = min(longest, 2 * pause)
        finally:
            self._held.no_room_for(None)
        if answer is Completed.STALE:
            _log.info("the result of job %s came too late", finished.taken.job.job_id)
        self._held.remove(finished.taken.token)
        self._unsent = None

    async def _say_goodbye(self, broker: Broker) -> None:
        """Push what is finished, give back what is not, and leave the list of actors."""
        try:
            if self._unsent is not None:
                # One that finds no room is made anew elsewhere, which must be said in time.
                with anyio.move_on_after(self._config.drain_timeout / 2):
                    await self._push(broker, self._unsent)
            await broker.presence.leave(self.actor_id)
        except BrokerError as error:
            _log.info("left without a word: %s", error)
