"""The local actor: collects in the learner's own process, one job at a time, bit-exact."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio.lowlevel

from asyncrl.actor.control import RolloutAbandoned, RolloutControl
from asyncrl.actor.host import RolloutHost
from asyncrl.data import EnvSpec, RolloutJob, RunSpec, WeightSet
from asyncrl.errors import StateError
from asyncrl.metrics import Sink
from asyncrl.proxy import CollectionStatus, Delivery, LostJob, env_spec

LOCAL_ACTOR = "local"


class Actor:
    """An actor in this process, for learners without Redis.

    Args:
        env: Gymnasium id, import path ``"module:attr"``, or a class or function at the top level of
            a module that makes one environment (or a Gymnasium vector environment).
        envs: Environments stepped side by side.
        kwargs: Keyword arguments of the environment's factory.
        trajectory: The `Trajectory` subclass (or its import path) that holds the scenario's logic;
            jobs are then whole episodes. None for the Gymnasium default in fixed-length segments.
        trajectory_kwargs: Keyword arguments of the trajectory.
    """

    def __init__(
        self,
        env: str | Callable[..., Any] | EnvSpec,
        *,
        envs: int = 8,
        kwargs: Mapping[str, Any] | None = None,
        trajectory: str | type | None = None,
        trajectory_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self._env = env_spec(
            env,
            envs=envs,
            kwargs=kwargs,
            trajectory=trajectory,
            trajectory_kwargs=trajectory_kwargs,
        )

    @property
    def env(self) -> EnvSpec:
        """The environments, as data."""
        return self._env

    @property
    def run(self) -> str:
        """Name of the run, which a local actor cannot tell from others."""
        return "run"

    @asynccontextmanager
    async def open(self, spec: RunSpec, sink: Sink) -> AsyncGenerator[LocalCollection]:
        """Make the environments and collect for the run until the context ends."""
        del sink  # failures of the local environments are raised, nothing else happens here
        host = RolloutHost(spec, LOCAL_ACTOR)
        try:
            await host.prepare()
            yield LocalCollection(host)
        finally:
            await host.close()


class LocalCollection:
    """The `Collection` of an `Actor`: a job runs inside `receive`, with the weights of then."""

    concurrent = False
    generation = 0
    published = 0
    capacity = None

    def __init__(self, host: RolloutHost) -> None:
        self._host = host
        self._jobs: deque[RolloutJob] = deque()

    async def unsettled(self) -> Sequence[Delivery]:
        """Return nothing: without a server nothing outlives the process."""
        return ()

    async def publish(self, weights: WeightSet) -> None:
        """Act with `weights` from the next job on."""
        self._host.load(weights)

    async def submit(self, job: RolloutJob) -> None:
        """Queue `job`."""
        self._jobs.append(job)

    async def receive(self) -> Delivery | LostJob:
        """Run the oldest job to its end and return its result."""
        await anyio.lowlevel.checkpoint()
        if not self._jobs:
            raise StateError("there is no job to wait for; submit one first")
        job = self._jobs.popleft()
        try:
            result = await self._host.run(job, RolloutControl())
        except RolloutAbandoned:
            # Only a cancellation abandons a local rollout; this is where it takes effect.
            await anyio.lowlevel.checkpoint()
            raise
        return Delivery(result=result, receipt=job.job_id, nbytes=result.nbytes)

    def outstanding(self) -> Sequence[RolloutJob]:
        """Return the jobs that did not run yet, oldest first."""
        return list(self._jobs)

    async def cancel(self, job_ids: Sequence[str]) -> None:
        """Forget queued jobs."""
        unwanted = set(job_ids)
        self._jobs = deque(job for job in self._jobs if job.job_id not in unwanted)

    async def settle(self, trained: Sequence[str], dropped: Mapping[str, str]) -> None:
        """Do nothing: there is no record to let go of."""

    async def finish(self) -> None:
        """Do nothing: the local actor leaves with its context."""

    def status(self) -> CollectionStatus:
        """Return one actor and the jobs that wait for it."""
        return CollectionStatus(actors=1, queued_jobs=len(self._jobs))
