"""The environments and policies of one actor, and how it runs a job in them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import anyio
import numpy as np

from asyncrl.actor.control import RolloutAbandoned, RolloutControl
from asyncrl.actor.episodes import Acting, Episode, run_episode, run_without_loop
from asyncrl.actor.segments import SegmentRollout, acting_rng, evaluate
from asyncrl.actor.trajectory import Trajectory, is_async
from asyncrl.cancellation import WorkerThread, outlast
from asyncrl.data import (
    ANYTHING,
    Allowed,
    EpisodeStats,
    JobKind,
    JobUnit,
    RolloutJob,
    RolloutResult,
    RunSpec,
    TrajectoryBatch,
    WeightSet,
    check_result,
    derive_seed,
    load_object,
)
from asyncrl.envs import EnvBatch, ObservationEdge, make_env, make_env_batch
from asyncrl.errors import DataError, EnvironmentFailure, InvalidBatchError, StateError
from asyncrl.policies import make_policy

T = TypeVar("T")
_log = logging.getLogger(__name__)
CLOSE_TIMEOUT = 5.0
"""Seconds an environment may take to close."""
CANCELLED = "cancelled"
"""Why a rollout is abandoned: whoever waited for it was cancelled."""


class RolloutHost:
    """Runs jobs one at a time, each in one hop to a worker thread.

    Environments are made when first needed and made anew after a failure; a job that is abandoned
    leaves them as they are to the next. A scenario with async callbacks runs on the event loop
    instead of in the thread. What a spec from elsewhere names is imported only as far as `allowed`.
    """

    def __init__(self, spec: RunSpec, actor_id: str, allowed: Allowed = ANYTHING) -> None:
        self._spec = spec
        self._allowed = allowed
        self._actor_id = actor_id
        self._policies = {name: make_policy(shape) for name, shape in spec.policies.items()}
        self._versions: dict[str, int] = {}
        self._loaded = (-1, 0)
        self._segments: tuple[EnvBatch, SegmentRollout] | None = None
        self._evaluation: EnvBatch | None = None
        self._scenario: Trajectory | None = None
        self._edges: dict[str, ObservationEdge] = {}
        self._thread = WorkerThread(f"{actor_id}-rollouts")

    @property
    def loaded(self) -> tuple[int, int]:
        """(generation, version) of the weight set that acts; (-1, 0) before the first."""
        return self._loaded

    def load(self, weights: WeightSet) -> None:
        """Act with `weights` from the next job on; an older set than the loaded one is ignored."""
        if (weights.generation, weights.version) <= self._loaded:
            return
        for policy_id, policy in self._policies.items():
            if policy_id not in weights.policies:
                raise DataError(f"the weight set lacks policy {policy_id!r}; publish every policy")
            policy.load(weights.policies[policy_id].params)
            self._versions[policy_id] = weights.policies[policy_id].version
        self._loaded = (weights.generation, weights.version)

    async def prepare(self) -> None:
        """Make the training environments now, so that a broken constructor shows before any job."""
        await self._thread.run_or_leave(self._prepare)

    async def run(self, job: RolloutJob, control: RolloutControl) -> RolloutResult:
        """Run `job` and return its validated result.

        Raises:
            EnvironmentFailure: the environment or a callback raised, or broke its own spaces.
            RolloutAbandoned: `control` was told to stop; the environments stay.
        """
        if not self._versions:
            raise StateError(f"job {job.job_id}: no weights are loaded; publish weights first")
        started = time.perf_counter()
        try:
            if self._spec.env.trajectory is not None:
                parts = await self._run_scenario(job, control)
            else:
                parts = await self._in_thread(partial(self._run_envs, job, control), control)
        except RolloutAbandoned:
            raise  # between two steps: a segment goes on from here, all else begins with a reset
        except BaseException:
            # Whatever state the environments are in now, the next job must not start from it.
            await self.close()
            raise
        batches, episodes, env_steps, metrics = parts
        result = RolloutResult(
            job=job,
            actor_id=self._actor_id,
            env_steps=env_steps,
            batches=tuple(batches),
            episodes=episodes,
            metrics=metrics,
            weights_version=self._loaded[1],
            seconds=time.perf_counter() - started,
        )
        try:
            check_result(result, self._spec)
        except InvalidBatchError as error:
            raise EnvironmentFailure(f"the batch of job {job.job_id}", str(error), "") from error
        return result

    async def close(self) -> None:
        """Close every environment, also amid a cancellation; the host can be used again.

        Those that do not close within `CLOSE_TIMEOUT`, or whose step or constructor still hangs
        after twice that, are left behind with a warning.
        """
        await outlast(self._close())

    async def _close(self) -> None:
        scenario, self._scenario = self._scenario, None
        if scenario is not None and is_async(scenario):
            with anyio.move_on_after(CLOSE_TIMEOUT):
                closed = scenario.env.close()
                if closed is not None:
                    await closed
            scenario = None
        with anyio.move_on_after(2 * CLOSE_TIMEOUT) as waiting:
            await self._thread.run_or_leave(partial(self._close_envs, scenario))
        if waiting.cancelled_caught:
            _log.warning("the environments hang, and are left behind unclosed")
        self._thread.close()

    async def _in_thread(self, work: Callable[[], T], control: RolloutControl) -> T:
        """Run a rollout in the thread; one whose caller is cancelled ends before its next step."""
        return await self._thread.run(work, on_cancel=partial(control.abandon, CANCELLED))

    def _prepare(self) -> None:
        if self._spec.env.trajectory is not None:
            self._scenario = self._scenario or self._make_scenario()
        elif self._segments is None:
            envs = self._make_envs(self._spec.env.num_envs)
            self._segments = (envs, SegmentRollout(envs, self._spec.seed))

    def _make_envs(self, num_envs: int) -> EnvBatch:
        return make_env_batch(self._spec.env, num_envs, self._allowed)

    def _make_scenario(self) -> Trajectory:
        env = self._spec.env
        assert env.trajectory is not None  # noqa: S101 - the caller checked
        trajectory_type = load_object(env.trajectory, "trajectory", self._allowed)
        return trajectory_type(make_env(env, self._allowed), **env.trajectory_kwargs)

    def _close_envs(self, scenario: Trajectory | None) -> None:
        segments, self._segments = self._segments, None
        evaluation, self._evaluation = self._evaluation, None
        if segments is not None:
            segments[0].close(CLOSE_TIMEOUT)
        if evaluation is not None:
            evaluation.close(CLOSE_TIMEOUT)
        if scenario is not None:
            scenario.env.close()

    def _run_envs(self, job: RolloutJob, control: RolloutControl) -> _Parts:
        ((policy_id, policy),) = self._policies.items()
        if job.kind is JobKind.EVAL or job.unit is JobUnit.EPISODES:
            if job.kind is JobKind.TRAIN:
                raise DataError(
                    f"job {job.job_id}: training in whole episodes goes through a Trajectory; name "
                    "one in trajectory=, or give the job's size in steps"
                )
            width = min(self._spec.env.num_envs, job.size)
            if self._evaluation is None or self._evaluation.num_envs != width:
                if self._evaluation is not None:
                    self._evaluation.close(CLOSE_TIMEOUT)
                self._evaluation = self._make_envs(width)
            stats, steps = evaluate(self._evaluation, job, policy, self._spec.seed, control)
            return [], stats, steps, {}
        self._prepare()
        assert self._segments is not None  # noqa: S101 - just prepared
        batch, stats = self._segments[1].collect(
            job, policy, self._versions[policy_id], policy_id, control
        )
        return [batch], stats, batch.transitions, {}

    async def _run_scenario(self, job: RolloutJob, control: RolloutControl) -> _Parts:
        if job.unit is JobUnit.STEPS:
            raise DataError(f"job {job.job_id}: a Trajectory runs whole episodes; give episodes")
        if self._scenario is None:
            await self.prepare()
        assert self._scenario is not None  # noqa: S101 - just prepared
        acting = Acting(
            spec=self._spec,
            policies=self._policies,
            versions=self._versions,
            rng=acting_rng(self._spec.seed, job.job_id),
            greedy=job.kind is JobKind.EVAL,
            exploration=job.exploration,
            edges=self._edges,
        )
        work = self._run_episodes(self._scenario, acting, job, control)
        if is_async(self._scenario):
            episodes = await work
        else:
            episodes = await self._in_thread(partial(run_without_loop, work), control)
        batches = [] if job.kind is JobKind.EVAL else [b for e in episodes for b in e.batches]
        stats = EpisodeStats(
            returns=np.array([e.total_reward for e in episodes], np.float64),
            lengths=np.array([e.steps for e in episodes], np.int64),
        )
        return batches, stats, int(stats.lengths.sum()), _mean(e.metrics for e in episodes)

    async def _run_episodes(
        self, scenario: Trajectory, acting: Acting, job: RolloutJob, control: RolloutControl
    ) -> list[Episode]:
        seeds = [derive_seed(self._spec.seed, job.job_id, 0, number) for number in range(job.size)]
        return [await run_episode(scenario, acting, seed, control) for seed in seeds]


_Parts = tuple[list[TrajectoryBatch], EpisodeStats, int, Mapping[str, float]]


def _mean(metrics: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean of each metric over the episodes that report it."""
    columns: dict[str, list[float]] = {}
    for episode in metrics:
        for name, value in episode.items():
            columns.setdefault(name, []).append(float(value))
    return {name: float(np.mean(values)) for name, values in columns.items()}
