"""The off-policy learner: collection fills a replay while updates draw from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import anyio

from asyncrl.algorithms import Algorithm
from asyncrl.data import JobKind, RunSpec, Transitions, derive_seed
from asyncrl.errors import ConfigError, NoRoom
from asyncrl.learner.config import OffPolicyConfig, changed
from asyncrl.learner.learner import Learner
from asyncrl.learner.session import Session
from asyncrl.learner.state import TrainingState
from asyncrl.metrics import Sink
from asyncrl.proxy import Collector, Delivery, LostJob
from asyncrl.replay import RingReplay, SamplesPerInsertLimiter

_LOOK_INTERVAL = 1.0
"""Longest wait, in seconds, without a look at what is due."""


class OffPolicyAlgorithm(Algorithm[Transitions], Protocol):
    """An algorithm that learns from samples of a replay."""

    @property
    def rollout_steps(self) -> int:
        """Steps of every environment in one job."""
        ...

    @property
    def buffer_size(self) -> int:
        """Transitions the replay holds."""
        ...

    @property
    def batch_size(self) -> int:
        """Transitions of one update."""
        ...

    @property
    def learning_starts(self) -> int:
        """Transitions in the replay before the first update."""
        ...

    @property
    def samples_per_insert(self) -> float:
        """Transitions drawn for each one put in."""
        ...

    def exploration(self, progress: float) -> Mapping[str, float]:
        """Return the exploration parameters that go with jobs at `progress` in [0, 1]."""
        ...


class OffPolicyLearner(Learner[Transitions]):
    """Trains from a replay. Collection and updates run concurrently, tied by a limiter.

    Over a local `Actor` the two alternate instead, so that a seed gives the same bytes every time.

    Args:
        algorithm: Settings of an off-policy algorithm, such as `DQN()`.
        collector: An `Actor` or an `ActorProxy`.
        config: Options; the defaults of `OffPolicyConfig` when None.
        run: Name of the run; the collector's by default.
        folder: Where checkpoints go, and where a run is resumed from; None for neither.
        sinks: Where events go.
        agents: Agent id -> policy id; by default all agents share one policy.
        options: Fields of `OffPolicyConfig` that replace those of `config`.
    """

    def __init__(
        self,
        algorithm: OffPolicyAlgorithm,
        collector: Collector,
        config: OffPolicyConfig | None = None,
        *,
        run: str | None = None,
        folder: Path | str | None = None,
        sinks: tuple[Sink, ...] = (),
        agents: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        if algorithm.on_policy:
            raise ConfigError(
                "algorithm", type(algorithm).__name__, "it is on-policy", "use OnPolicyLearner"
            )
        self._off_policy = algorithm
        self._options = changed(config or OffPolicyConfig(), options)
        super().__init__(
            algorithm,
            collector,
            self._options,
            run=run,
            folder=folder,
            sinks=sinks,
            agents=agents,
        )

    def _new_state(self, spec: RunSpec) -> TrainingState[Transitions]:
        algorithm = self._off_policy
        return TrainingState(
            updaters={
                name: algorithm.build(shape, seed=self._seed(name), device=self._device())
                for name, shape in spec.policies.items()
            },
            replays={
                name: RingReplay(
                    algorithm.buffer_size,
                    shape.observation,
                    shape.action,
                    derive_seed(self._options.seed, "replay", name),
                )
                for name, shape in spec.policies.items()
            },
            limiters={
                name: SamplesPerInsertLimiter(
                    samples_per_insert=algorithm.samples_per_insert,
                    batch_size=algorithm.batch_size,
                    min_size=algorithm.learning_starts,
                )
                for name in spec.policies
            },
        )

    async def _recover(self, session: Session[Transitions], unsettled: list[Delivery]) -> None:
        """Put what no checkpoint covers into the replay and make the updates it allows."""
        work = _Work(self._off_policy, self._options, session)
        for delivery in unsettled:
            work.take(delivery, lag_matters=False)
            await work.make_due_updates()

    async def _train(self, session: Session[Transitions]) -> None:
        work = _Work(self._off_policy, self._options, session)
        if session.collection.concurrent:
            await self._train_concurrently(work, session)
        else:
            while session.outcome() is None:
                await work.hand_out()
                work.take(await session.collection.receive())
                await work.make_due_updates()
                await session.evaluate_if_due()
                await session.checkpoint_if_due()

    async def _train_concurrently(self, work: _Work, session: Session[Transitions]) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work.collect)
            while session.outcome() is None:
                await work.wait_for_something_to_do()
                await work.make_due_updates(self._options.updates_per_publish)
                await session.evaluate_if_due()
                await session.checkpoint_if_due()
            tasks.cancel_scope.cancel()


class _Work:
    """One learner's collecting and updating over a session."""

    def __init__(
        self,
        algorithm: OffPolicyAlgorithm,
        options: OffPolicyConfig,
        session: Session[Transitions],
    ) -> None:
        self._algorithm = algorithm
        self._options = options
        self._session = session
        self._out: set[str] = set()
        """Jobs handed out and without an outcome."""
        self._changed = anyio.Condition()

    # -- collecting ------------------------------------------------------------------------------

    async def collect(self) -> None:
        """Keep jobs out and put their results into the replay, as fast as the limiter allows."""
        while True:
            await self.hand_out()
            outcome = await self._receive()
            async with self._changed:
                while not self._has_room(outcome):
                    await self._changed.wait()
                async with self._session.intake:
                    self.take(outcome)
                self._changed.notify_all()

    def _has_room(self, outcome: Delivery | LostJob) -> bool:
        """Whether no policy would be collected for too far ahead of its updates.

        Only an update that is due makes room, and the limiter wants none before.
        """
        limiters = self._session.state.limiters
        return all(limiters[name].can_insert(new) for name, new in _transitions(outcome).items())

    async def _receive(self) -> Delivery | LostJob:
        """Wait for the next outcome; call for a checkpoint where one has to make room for it."""
        while True:
            try:
                return await self._session.collection.receive()
            except NoRoom as error:
                self._session.make_room(error)
                async with self._changed:
                    self._changed.notify_all()

    async def hand_out(self) -> None:
        """Hand out jobs until enough are out, with the exploration parameters of now."""
        session = self._session
        wanted = self._options.jobs_in_flight
        if not session.collection.concurrent:
            wanted = 1
        elif not wanted:
            wanted = max(2, 2 * session.collection.status().actors)
        parameters = self._algorithm.exploration(session.fraction)
        while len(self._out) < wanted:
            job = session.training_job(
                self._algorithm.rollout_steps,
                exploration=dict.fromkeys(session.state.updaters, parameters),
            )
            self._out.add(job.job_id)
            await session.collection.submit(job)

    def take(self, outcome: Delivery | LostJob, *, lag_matters: bool = True) -> None:
        """Put a training result into the replay; hand anything else to the session."""
        session = self._session
        job = outcome.job if isinstance(outcome, LostJob) else outcome.result.job
        known = job.job_id in self._out
        self._out.discard(job.job_id)
        if isinstance(outcome, LostJob) or job.kind is JobKind.EVAL:
            session.elsewhere(outcome)
            return
        if not known and lag_matters:
            session.elsewhere(outcome)
            return
        for batch in outcome.result.batches:
            session.state.replays[batch.policy_id].add(batch)
        for name, new in _transitions(outcome).items():
            session.state.limiters[name].inserted(new)
        session.count(outcome, lag_matters=lag_matters)

    # -- updating --------------------------------------------------------------------------------

    async def wait_for_something_to_do(self) -> None:
        """Wait until an update may be made, a checkpoint is due or the run is over."""
        session = self._session
        async with self._changed:
            while not (self._due(1) or session.checkpoint_due or session.outcome()):
                with anyio.move_on_after(_LOOK_INTERVAL):  # a checkpoint comes due by time alone
                    await self._changed.wait()

    async def make_due_updates(self, most: int | None = None) -> None:
        """Make up to `most` of the updates that the limiter allows (all when None); publish."""
        session = self._session
        left = most
        while (due := self._due(self._options.updates_per_publish)) and left != 0:
            count = due if left is None else min(due, left)
            losses = await self._update(count)
            left = None if left is None else left - count
            async with self._changed:
                self._changed.notify_all()
            await session.publish()
            await session.report(losses)

    async def _update(self, count: int) -> dict[str, float]:
        """Make `count` updates in one hop; return the mean of each metric."""
        session = self._session
        samples = self._draw(count)

        def account(_: object) -> None:
            session.state.counters.updates += count

        # What was drawn is learned from for certain: nothing can come between.
        return await session.in_thread(
            partial(_learn, session.state, samples, session.fraction), account
        )

    def _due(self, most: int) -> int:
        """Return how many updates the limiter of any policy allows now, up to `most`."""
        count = 0
        limiters = self._session.state.limiters.values()
        while count < most and any(limiter.can_sample(count + 1) for limiter in limiters):
            count += 1
        return count

    def _draw(self, count: int) -> list[dict[str, Transitions]]:
        """Draw the samples of `count` updates here, where nobody puts anything in meanwhile.

        Each is of the policies whose own limiter allows it: one that acts less learns less, and one
        that never acts hinders nobody.
        """
        state, size = self._session.state, self._algorithm.batch_size
        samples: list[dict[str, Transitions]] = []
        for _ in range(count):
            allowed = [name for name, limiter in state.limiters.items() if limiter.can_sample()]
            samples.append({name: state.replays[name].sample(size) for name in allowed})
            for name in allowed:
                state.limiters[name].sampled()
        return samples


def _learn(
    state: TrainingState[Transitions], samples: list[dict[str, Transitions]], fraction: float
) -> dict[str, float]:
    """Make one update a sample; return the mean of each metric over the updates that have it."""
    values: dict[str, list[float]] = {}
    for sample in samples:
        for policy_id, transitions in sample.items():
            prefix = f"{policy_id}/" if len(state.updaters) > 1 else ""
            for name, value in state.updaters[policy_id].update(transitions, fraction).items():
                values.setdefault(prefix + name, []).append(value)
    return {name: sum(each) / len(each) for name, each in values.items()}


def _transitions(outcome: Delivery | LostJob) -> dict[str, int]:
    """Return policy id -> transitions of it that came in."""
    counts: dict[str, int] = {}
    for batch in () if isinstance(outcome, LostJob) else outcome.result.batches:
        counts[batch.policy_id] = counts.get(batch.policy_id, 0) + batch.transitions
    return counts
