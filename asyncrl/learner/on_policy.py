"""The on-policy learner: rounds of jobs, one joint update a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from asyncrl.algorithms import Algorithm
from asyncrl.data import JobKind, RunSpec, TrajectoryBatch
from asyncrl.errors import ConfigError, NoRoom
from asyncrl.learner.config import OnPolicyConfig, changed
from asyncrl.learner.learner import Learner
from asyncrl.learner.session import Session
from asyncrl.learner.state import TrainingState
from asyncrl.metrics import Sink
from asyncrl.proxy import Collection, Collector, Delivery, Round, Rounds, UpdateTrigger

Batches = Sequence[TrajectoryBatch]


class OnPolicyAlgorithm(Algorithm[Batches], Protocol):
    """An algorithm that learns from what the newest policies just collected."""

    @property
    def rollout_steps(self) -> int:
        """Steps of every environment in one job."""
        ...


class OnPolicyLearner(Learner[Batches]):
    """Trains in rounds: hands out jobs, learns once from all that came back, publishes.

    With ``max_lag=0`` a round is collected by exactly the newest policy. With ``max_lag=n`` up to n
    further rounds are being collected while an update runs; a batch is then at most n versions old,
    and the algorithm corrects with the behaviour log-probabilities it carries.

    Args:
        algorithm: Settings of an on-policy algorithm, such as `PPO()`.
        collector: An `Actor` or an `ActorProxy`.
        config: Options; the defaults of `OnPolicyConfig` when None.
        run: Name of the run; the collector's by default.
        folder: Where checkpoints go, and where a run is resumed from; None for neither.
        sinks: Where events go.
        agents: Agent id -> policy id; by default all agents share one policy.
        options: Fields of `OnPolicyConfig` that replace those of `config`.
    """

    def __init__(
        self,
        algorithm: OnPolicyAlgorithm,
        collector: Collector,
        config: OnPolicyConfig | None = None,
        *,
        run: str | None = None,
        folder: Path | str | None = None,
        sinks: tuple[Sink, ...] = (),
        agents: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        if not algorithm.on_policy:
            raise ConfigError(
                "algorithm", type(algorithm).__name__, "it is off-policy", "use OffPolicyLearner"
            )
        self._on_policy = algorithm
        self._options = changed(config or OnPolicyConfig(), options)
        super().__init__(
            algorithm,
            collector,
            self._options,
            run=run,
            folder=folder,
            sinks=sinks,
            agents=agents,
        )

    def _new_state(self, spec: RunSpec) -> TrainingState[Batches]:
        return TrainingState(
            updaters={
                name: self._algorithm.build(shape, seed=self._seed(name), device=self._device())
                for name, shape in spec.policies.items()
            }
        )

    async def _recover(self, session: Session[Batches], unsettled: list[Delivery]) -> None:
        """Repeat the updates that no checkpoint covers, round by round in the order accepted."""
        rounds: dict[tuple[int, int], list[Delivery]] = {}
        for delivery in unsettled:
            job = delivery.result.job
            if job.kind is JobKind.EVAL:
                session.elsewhere(delivery)
            else:
                rounds.setdefault((job.generation, job.round), []).append(delivery)
        for (_, number), deliveries in rounds.items():
            await self._update(session, deliveries, lag_matters=False)
            session.state.counters.rounds = max(session.state.counters.rounds, number)

    async def _train(self, session: Session[Batches]) -> None:
        rounds = Rounds(
            session.collection,
            UpdateTrigger.parse(self._options.update_trigger),
            session.elsewhere,
        )
        while session.outcome() is None:
            await session.evaluate_if_due()
            while len(rounds) <= self._options.max_lag:
                await self._issue(session, rounds)
            gathered = await self._gather(session, rounds)
            await self._update(session, gathered.deliveries)
            await session.checkpoint_if_due()

    async def _gather(self, session: Session[Batches], rounds: Rounds) -> Round:
        """Wait for the next round; raise `NoRoom` where it does not fit on the server by itself."""
        while True:
            try:
                return await rounds.gather()
            except NoRoom as error:
                session.make_room(error)
                await session.checkpoint_if_due()

    def _check_fits(self, collection: Collection) -> None:
        """Raise `ConfigError` when the rounds in flight could fill the server by their number."""
        capacity = collection.capacity
        jobs = self._options.jobs_per_round * (1 + self._options.max_lag)
        if capacity is not None and jobs > capacity.results / 2:
            raise ConfigError(
                "jobs_per_round",
                self._options.jobs_per_round,
                f"with max_lag={self._options.max_lag} that is {jobs} results at once, and only "
                f"half of max_results={capacity.results} may be those of rounds in flight",
                "give fewer, longer jobs, or raise max_results",
            )

    async def _issue(self, session: Session[Batches], rounds: Rounds) -> None:
        session.state.counters.rounds += 1
        number = session.state.counters.rounds
        steps = self._on_policy.rollout_steps
        jobs = [
            session.training_job(steps, round_number=number)
            for _ in range(self._options.jobs_per_round)
        ]
        await rounds.issue(number, jobs)

    async def _update(
        self, session: Session[Batches], deliveries: list[Delivery], *, lag_matters: bool = True
    ) -> None:
        """Make one joint update from all deliveries of a round, publish, report."""
        deliveries = sorted(deliveries, key=lambda each: _number(each.result.job.job_id))
        work = partial(self._learn, session.state, deliveries, session.fraction)

        def account(_: object) -> None:
            for delivery in deliveries:
                session.count(delivery, lag_matters=lag_matters)
            session.state.counters.updates += 1

        losses = await session.in_thread(work, account)
        await session.publish()
        await session.report(losses)

    def _learn(
        self, state: TrainingState[Batches], deliveries: list[Delivery], fraction: float
    ) -> dict[str, float]:
        batches: dict[str, list[TrajectoryBatch]] = {}
        for delivery in deliveries:
            for batch in delivery.result.batches:
                batches.setdefault(batch.policy_id, []).append(batch)
        losses: dict[str, float] = {}
        for policy_id, updater in state.updaters.items():
            if policy_id in batches:
                prefix = f"{policy_id}/" if len(state.updaters) > 1 else ""
                metrics = updater.update(batches[policy_id], fraction)
                losses |= {prefix + name: value for name, value in metrics.items()}
        return losses


def _number(job_id: str) -> int:
    return int(job_id.rpartition("-")[2])
