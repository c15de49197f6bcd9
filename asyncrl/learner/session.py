"""One generation of a run: the state, and everything around an update that both learners share."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import anyio

from asyncrl.cancellation import WorkerThread
from asyncrl.data import (
    JobKind,
    JobUnit,
    PolicyWeights,
    RolloutJob,
    RunSpec,
    WeightSet,
)
from asyncrl.errors import (
    BrokerError,
    CheckpointError,
    ConfigError,
    Fenced,
    NoRoom,
    RolloutFailed,
)
from asyncrl.learner.checkpoint import Checkpoint, CheckpointStore, Saved
from asyncrl.learner.config import LearnerConfig
from asyncrl.learner.evaluation import Evaluator
from asyncrl.learner.state import DataT, TrainingState
from asyncrl.metrics import (
    Checkpointed,
    Evaluation,
    Level,
    Message,
    Progress,
    RateMeter,
    Sink,
    eta,
)
from asyncrl.proxy import SUPERSEDED, Collection, Delivery, LostJob
from asyncrl.wire import run_fingerprint

T = TypeVar("T")
_log = logging.getLogger(__name__)
Outcome = Literal["target", "steps", "time", "stopped"]

EVALUATED = "evaluated"
"""Why evaluation results are let go of: they are for looking at, not for training."""
_FENCE_CHECK = 2.0
"""Seconds to ask whether this learner still owns the run, before it writes a checkpoint."""
IDLE_REPORTS = 10
"""Reports of progress after which a policy that has never acted is named."""
EVALUATION_DEADLINE = 300.0
"""Seconds a run that is otherwise over waits for its last evaluation."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a session works with and never changes."""

    run: str
    spec: RunSpec
    config: LearnerConfig
    collection: Collection
    sink: Sink
    store: CheckpointStore | None
    observer: Callable[[Progress], Awaitable[None]]


class Session(Generic[DataT]):
    """Publishes, counts, evaluates, checkpoints and settles, so that a learner only learns."""

    def __init__(self, setting: Setting, state: TrainingState[DataT]) -> None:
        self.setting = setting
        self.state = state
        self.config = setting.config
        self.collection = setting.collection
        self.evaluator = Evaluator(setting.config)
        self.newest: Progress | None = None
        self.evaluation: Evaluation | None = None
        self._uncovered: dict[str, int] = {}
        """Receipt -> bytes of deliveries learned from since the last checkpoint."""
        self._dropped: dict[str, str] = {}
        self._room_wanted = False
        """Whether results wait for what a checkpoint lets go of."""
        self._lags: list[int] = []
        self._env_metrics: dict[str, float] = {}
        self._lost_in_a_row = 0
        self._opened = self._checkpointed = time.monotonic()
        self._rate = RateMeter()
        self._thread = WorkerThread(f"{setting.run}-updates")
        self.intake = anyio.Lock()
        """Held while what came in is put into the state, and while a checkpoint is made of it."""
        self._acted: set[str] = set()
        """Policies that this generation has data of."""
        self._reports = 0
        self._published_updates: int | None = None
        """`Counters.updates` of the newest published weights of this generation."""

    # -- opening ---------------------------------------------------------------------------------

    async def resume(self) -> list[Delivery]:
        """Load the newest checkpoint; return the accepted results that it does not cover.

        Raises:
            ConfigError: the folder holds a run of another environment or other networks.
            CheckpointError: there are checkpoints, but none can be read.
        """
        counters = self.state.counters
        covered: set[str] = set()
        if self.setting.store is not None:
            checkpoint = await self.in_thread(self.setting.store.latest)
            if checkpoint is not None:
                self._check_same_run(checkpoint.path, checkpoint.manifest)
                self._load(checkpoint)
                counters = self.state.counters
                covered = set(checkpoint.tree["covered"])
        counters.version = max(counters.version, self.collection.published)
        unsettled = await self.collection.unsettled()
        known = [each.receipt for each in unsettled if each.receipt in covered]
        if known:
            await self.collection.settle(known, {})
        return [each for each in unsettled if each.receipt not in covered]

    def _load(self, checkpoint: Checkpoint) -> None:
        try:
            self.state.load(checkpoint.tree["state"])
        except (KeyError, TypeError) as error:
            raise CheckpointError(
                f"checkpoint {checkpoint.path} holds another state than this version of asyncrl "
                f"writes ({error!r}); go on with the version that wrote it, or start another run"
            ) from error

    def _check_same_run(self, path: Path, manifest: Mapping[str, Any]) -> None:
        env = self.setting.spec.env.env
        if manifest.get("fingerprint") == run_fingerprint(self.setting.spec):
            return
        known = manifest.get("env")
        difference = (
            f"it trains {known}, not {env}"
            if known != env
            else "its spaces, networks or environment options are others"
        )
        raise ConfigError(
            "run",
            self.setting.run,
            f"this run exists in {path.parent.parent} and {difference}",
            "choose another run name, or go on with the options it was started with",
        )

    # -- jobs and weights ------------------------------------------------------------------------

    def training_job(
        self,
        rollout_steps: int,
        *,
        round_number: int = 0,
        exploration: Mapping[str, Mapping[str, float]] | None = None,
    ) -> RolloutJob:
        """Return a new job to learn from: whole episodes of a `Trajectory`, else a segment."""
        if self.setting.spec.env.trajectory is not None:
            unit, size = JobUnit.EPISODES, self.config.episodes_per_job
        else:
            unit, size = JobUnit.STEPS, self.config.segment_steps or rollout_steps
        return self._job(
            JobKind.TRAIN, unit, size, round_number=round_number, exploration=exploration
        )

    def _job(
        self,
        kind: JobKind,
        unit: JobUnit,
        size: int,
        *,
        round_number: int = 0,
        exploration: Mapping[str, Mapping[str, float]] | None = None,
    ) -> RolloutJob:
        """Return a new job that wants at least the newest published weights."""
        counters = self.state.counters
        if kind is JobKind.TRAIN:
            number = counters.jobs = counters.jobs + 1
        else:
            number = counters.evaluations = counters.evaluations + 1
        return RolloutJob(
            job_id=f"g{self.collection.generation}-{kind.value}-{number}",
            kind=kind,
            unit=unit,
            size=size,
            round=round_number,
            generation=self.collection.generation,
            min_version=counters.version,
            exploration=exploration or {},
        )

    async def publish(self) -> None:
        """Publish the weights of every policy as the next version."""
        counters = self.state.counters
        version = counters.version + 1
        weights = WeightSet(
            generation=self.collection.generation,
            version=version,
            policies={
                name: PolicyWeights(version=version, params=updater.acting_params())
                for name, updater in self.state.updaters.items()
            },
        )
        counters.version = version
        updates = counters.updates
        await self.collection.publish(weights)
        self._published_updates = updates

    async def call_back(self, *kinds: JobKind) -> None:
        """Cancel every job of these kinds that has no outcome yet."""
        out = [job.job_id for job in self.collection.outstanding() if job.kind in kinds]
        if out:
            await self.collection.cancel(out)

    async def in_thread(self, work: Callable[[], T], then: Callable[[T], None] | None = None) -> T:
        """Run `work` in this session's one worker thread, to its end even when cancelled.

        It begins for certain, and once it is over `then` accounts for it before anything else can
        happen.
        """
        return await self._thread.run(work, then=then)

    def close(self) -> None:
        """Let go of the worker thread."""
        self._thread.close()

    # -- accounting ------------------------------------------------------------------------------

    def count(self, delivery: Delivery, *, lag_matters: bool = True) -> None:
        """Count a delivery as learned from; it is let go of once a checkpoint covers it."""
        result, counters = delivery.result, self.state.counters
        self._lost_in_a_row = 0
        counters.env_steps += result.env_steps
        counters.episodes += len(result.episodes)
        self.state.window.extend(result.episodes.returns.tolist(), result.episodes.lengths.tolist())
        self._uncovered[delivery.receipt] = delivery.nbytes
        self._rate.add(result.env_steps)
        self._env_metrics |= result.metrics
        self._acted |= {batch.policy_id for batch in result.batches}
        if lag_matters:
            self._lags += [counters.version - batch.policy_version for batch in result.batches]

    def elsewhere(self, outcome: Delivery | LostJob) -> None:
        """Take an outcome that is not for learning: an evaluation, or one that came too late.

        Raises `RolloutFailed` when nothing but lost jobs has come for a while.
        """
        if isinstance(outcome, LostJob):
            self.evaluator.given_up(outcome.job.job_id)
            self.lost(outcome)
        elif outcome.result.job.kind is JobKind.EVAL:
            self.evaluation = self.evaluator.result(outcome.result, self.state.counters)
            self.setting.sink.write(self.evaluation)
            self._dropped[outcome.receipt] = EVALUATED
        else:
            self._dropped[outcome.receipt] = SUPERSEDED

    def lost(self, outcome: LostJob, *, limit: int = 3) -> None:
        """Count a lost job; raise `RolloutFailed` after `limit` with no result in between."""
        self._lost_in_a_row += 1
        if self._lost_in_a_row >= limit:
            report = outcome.report
            raise RolloutFailed(
                f"{limit} jobs in a row failed on every attempt; the last one, {report.job_id} on "
                f"actor {report.actor_id}, in {report.where}: {report.cause}",
                report.traceback,
            )

    async def evaluate_if_due(self) -> None:
        """Hand out an evaluation of the newest weights when one is due."""
        if self.evaluator.due(self.state.counters):
            await self._evaluate()

    async def finish_evaluations(self) -> None:
        """Wait for evaluations that are out, then for one of the last weights of the run."""
        with anyio.move_on_after(EVALUATION_DEADLINE):
            await self._await_evaluations()
            if self.outcome() != "target" and self.evaluator.missing(self.state.counters):
                await self._evaluate()
                await self._await_evaluations()

    async def _evaluate(self) -> None:
        if self._published_updates != self.state.counters.updates:
            await self.publish()  # the last publish was cancelled
        job = self._job(JobKind.EVAL, JobUnit.EPISODES, self.config.eval_episodes)
        self.evaluator.handed_out(job.job_id, self.state.counters)
        await self.collection.submit(job)

    async def _await_evaluations(self) -> None:
        while self.evaluator.outstanding:
            try:
                self.elsewhere(await self.collection.receive())
            except NoRoom as error:
                self.make_room(error)
                await self.checkpoint_if_due()

    # -- stopping and reporting ------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Seconds trained, over all generations."""
        return self.state.counters.seconds + time.monotonic() - self._opened

    @property
    def seconds_left(self) -> float | None:
        """Seconds until `stop_seconds` is reached, at least 0; None for no limit."""
        limit = self.config.stop_seconds
        return None if limit is None else max(0.0, limit - self.seconds)

    def outcome(self) -> Outcome | None:
        """Return why the run is over; None while it is not."""
        config, counters = self.config, self.state.counters
        if config.stop_return is not None:
            window = self.state.window
            score = counters.eval_return if config.stops_on_eval else None
            if not config.stops_on_eval and window.full:
                score = window.mean_return
            if score is not None and score >= config.stop_return:
                return "target"
        if counters.env_steps >= config.total_steps:
            return "steps"
        if config.stop_seconds is not None and self.seconds >= config.stop_seconds:
            return "time"
        return None

    @property
    def fraction(self) -> float:
        """Environment steps done as a fraction of the run's total, in [0, 1]."""
        return min(1.0, self.state.counters.env_steps / self.config.total_steps)

    async def report(self, losses: Mapping[str, float]) -> None:
        """Tell the sink and the observer where the run stands."""
        counters, window = self.state.counters, self.state.window
        status, rate = self.collection.status(), self._rate.rate()
        lags, self._lags = self._lags, []
        progress = Progress(
            run=self.setting.run,
            generation=max(1, self.collection.generation),
            seconds=self.seconds,
            env_steps=counters.env_steps,
            total_steps=self.config.total_steps,
            updates=counters.updates,
            episodes=counters.episodes,
            mean_return=window.mean_return,
            mean_length=window.mean_length,
            eval_return=counters.eval_return,
            steps_per_second=rate,
            policy_version=counters.version,
            lag_mean=sum(lags) / len(lags) if lags else None,
            lag_max=max(lags, default=None),
            actors=status.actors,
            queued_jobs=status.queued_jobs,
            waiting_results=status.waiting_results,
            eta_seconds=eta(counters.env_steps, self.config.total_steps, rate),
            losses=losses,
            env_metrics=dict(self._env_metrics),
            counters=status.counters,
        )
        self.newest = progress
        self.setting.sink.write(progress)
        self._reports += 1
        if self._reports == IDLE_REPORTS:
            self._warn_of_idle_policies()
        await self.setting.observer(progress)

    def _warn_of_idle_policies(self) -> None:
        for name in sorted(set(self.setting.spec.policies) - self._acted):
            agents = [agent for agent, policy in self.setting.spec.agents.items() if policy == name]
            text = (
                f"policy {name!r} has never acted in {self._reports} reports of progress, so that "
                f"it learns nothing; is any of its agents ({', '.join(agents)}) in the scenario?"
            )
            self.setting.sink.write(Message(level=Level.WARNING, text=text))

    # -- checkpoints -----------------------------------------------------------------------------

    @property
    def checkpoint_due(self) -> bool:
        """Whether it is time for a checkpoint, or there are so many results that none covers.

        Results that are learned from stay on the server until a checkpoint covers them, and actors
        must wait once they come to `Collection.capacity`: long before that one is due.
        """
        if self.setting.store is None:
            return bool(self._uncovered or self._dropped)
        results, nbytes = len(self._uncovered), sum(self._uncovered.values())
        capacity = self.collection.capacity
        crowded = capacity is not None and (
            results >= capacity.results / 4 or nbytes >= capacity.nbytes / 4
        )
        heavy = nbytes >= self.config.checkpoint_bytes
        old = time.monotonic() - self._checkpointed >= self.config.checkpoint_seconds
        return crowded or heavy or old or self._room_wanted

    def make_room(self, error: NoRoom) -> None:
        """Call for a checkpoint, which lets go of results; raise `error` where there are none."""
        if not (self._uncovered or self._dropped):
            raise error
        self._room_wanted = True

    async def checkpoint_if_due(self) -> None:
        """Write a checkpoint when one is due; let go of what needs none at once."""
        if self.checkpoint_due:
            await self.checkpoint()
        elif self._dropped:
            await self._settle(())

    async def checkpoint(self, *, patience: float | None = None) -> None:
        """Write a checkpoint, then let go of the results it covers.

        Letting go may take `patience` seconds (None: as long as the broker tries); what is not let
        go of by then is known as covered to the next generation.

        The receipts are part of the checkpoint: should the process die before they are settled, the
        next generation knows that they were learned from. Raises `Fenced`, with nothing written,
        when a newer learner took the run over; a server that does not answer hinders nothing.
        """
        with anyio.move_on_after(_FENCE_CHECK):
            try:
                await self.collection.settle((), {})
            except Fenced:
                raise
            except BrokerError as error:
                _log.warning("writing a checkpoint all the same: %s", error)
        if self.setting.store is None:
            with anyio.move_on_after(patience):
                await self._settle()
            return
        started = time.monotonic()
        async with self.intake:
            covered = list(self._uncovered)
            saved = await self.in_thread(partial(self._save, self.setting.store, covered))
        with anyio.move_on_after(patience):
            await self._settle(covered)
        self._room_wanted = False
        self._checkpointed = time.monotonic()
        counters = self.state.counters
        self.setting.sink.write(
            Checkpointed(
                path=str(saved.path),
                env_steps=saved.env_steps,
                updates=counters.updates,
                nbytes=saved.nbytes,
                seconds=self._checkpointed - started,
                covered=len(covered),
            )
        )

    def _save(self, store: CheckpointStore, covered: Sequence[str]) -> Saved:
        """Write the state as it is, in the worker thread, while nothing comes in."""
        counters = self.state.counters
        tree = self.state.tree()
        tree["counters"]["seconds"] = self.seconds
        manifest = {
            "run": self.setting.run,
            "env": self.setting.spec.env.env,
            "fingerprint": run_fingerprint(self.setting.spec),
            "generation": self.collection.generation,
            "updates": counters.updates,
            "mean_return": self.state.window.mean_return,
            "eval_return": counters.eval_return,
        }
        content = {"state": tree, "covered": list(covered)}
        return store.save(content, manifest, counters.env_steps)

    async def _settle(self, covered: Sequence[str] | None = None) -> None:
        trained = list(self._uncovered) if covered is None else covered
        dropped = dict(self._dropped)
        if trained or dropped:
            await self.collection.settle(trained, dropped)
        # Only now: what could not be let go of is tried again with the next ones.
        for receipt in trained:
            del self._uncovered[receipt]
        for receipt in dropped:
            del self._dropped[receipt]
