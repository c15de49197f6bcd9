"""Evaluations: greedy episodes, handed out as jobs of their own every so many steps."""

from __future__ import annotations

from asyncrl.data import RolloutResult
from asyncrl.learner.config import LearnerConfig
from asyncrl.learner.state import Counters
from asyncrl.metrics import Evaluation


class Evaluator:
    """Says when an evaluation is due and turns its result into numbers."""

    def __init__(self, config: LearnerConfig) -> None:
        self._interval = config.eval_interval
        self._steps_at: dict[str, int] = {}

    @property
    def outstanding(self) -> int:
        """Evaluations handed out without a result yet."""
        return len(self._steps_at)

    def due(self, counters: Counters) -> bool:
        """Whether one should be handed out now. None is while the one before is still out."""
        at = max(counters.next_evaluation, self._interval)
        return bool(
            self._interval and not self._steps_at and counters.updates and counters.env_steps >= at
        )

    def missing(self, counters: Counters) -> bool:
        """Whether the weights of now, the last ones of the run, were never evaluated."""
        return bool(self._interval and counters.updates) and (
            counters.evaluated_at < counters.env_steps
        )

    def handed_out(self, job_id: str, counters: Counters) -> None:
        """Note that `job_id` evaluates the weights of now; the next is due an interval later."""
        self._steps_at[job_id] = counters.evaluated_at = counters.env_steps
        counters.next_evaluation = (counters.env_steps // self._interval + 1) * self._interval

    def given_up(self, job_id: str) -> None:
        """Note that `job_id` will have no result."""
        self._steps_at.pop(job_id, None)

    def result(self, result: RolloutResult, counters: Counters) -> Evaluation:
        """Return the evaluation of `result` and remember its mean return."""
        returns, lengths = result.episodes.returns, result.episodes.lengths
        evaluation = Evaluation(
            env_steps=self._steps_at.pop(result.job.job_id, counters.env_steps),
            policy_version=result.weights_version,
            episodes=len(returns),
            mean_return=float(returns.mean()),
            min_return=float(returns.min()),
            max_return=float(returns.max()),
            mean_length=float(lengths.mean()),
            env_metrics=result.metrics,
        )
        counters.eval_return = evaluation.mean_return
        return evaluation
