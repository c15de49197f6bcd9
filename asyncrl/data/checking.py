"""Whether a result is of its run: an actor may send anything, and a learner must not take it."""

from __future__ import annotations

import numpy as np

from asyncrl.data.batch import TrajectoryBatch
from asyncrl.data.job import JobKind, JobUnit
from asyncrl.data.result import RolloutResult
from asyncrl.data.spec import PolicySpec, RunSpec, SpaceSpec
from asyncrl.errors import ConfigError, InvalidBatchError


def check_result(result: RolloutResult, spec: RunSpec) -> None:
    """Raise `InvalidBatchError` unless `result` is sound in itself and of the run `spec` describes.

    Its batches are of the run's policies, spaces and heads; its counts are those of its job.
    """
    result.validate()
    job = result.job
    if job.kind is JobKind.EVAL:
        if result.batches:
            raise InvalidBatchError(f"an evaluation returned {len(result.batches)} batches")
        if len(result.episodes) != job.size:
            raise InvalidBatchError(
                f"an evaluation of {job.size} episodes returned {len(result.episodes)}"
            )
        return
    for batch in result.batches:
        _check_batch(batch, spec)
    if job.unit is JobUnit.STEPS:
        _check_segment(result)


def _check_segment(result: RolloutResult) -> None:
    """Check that a job of so many steps brought that many, of every environment."""
    steps = {batch.steps for batch in result.batches}
    if steps != {result.job.size}:
        raise InvalidBatchError(f"a job of {result.job.size} steps returned {sorted(steps)}")
    collected = sum(batch.transitions for batch in result.batches)
    if collected != result.env_steps:
        raise InvalidBatchError(f"{collected} transitions were said to be {result.env_steps}")


def _check_batch(batch: TrajectoryBatch, spec: RunSpec) -> None:
    policy = spec.policies.get(batch.policy_id)
    if policy is None:
        raise InvalidBatchError(
            f"policy {batch.policy_id!r}: the run has {', '.join(map(repr, sorted(spec.policies)))}"
        )
    if batch.agent_id:
        try:
            mapped = spec.policy_of(batch.agent_id)
        except ConfigError as error:
            raise InvalidBatchError(f"policy {batch.policy_id!r}: {error}") from error
        if mapped != batch.policy_id:
            raise _misfit(batch, f"agent {batch.agent_id!r} acts with policy {mapped!r}")
    _check_array(batch, "obs", batch.obs, policy.observation)
    _check_array(batch, "action", batch.action, policy.action)
    _check_indices(batch, policy)
    if policy.draws:
        log_prob = batch.extras.get("log_prob")
        if log_prob is None or log_prob.shape != batch.reward.shape or log_prob.dtype.kind != "f":
            raise _misfit(batch, "extras lack the log_prob of each action, [T, B] of floats")


def _check_array(batch: TrajectoryBatch, name: str, array: np.ndarray, space: SpaceSpec) -> None:
    if array.shape[2:] != space.shape or array.dtype != space.stored_dtype:
        raise _misfit(
            batch,
            f"{name} is {array.dtype} of shape {array.shape}, but the run's space makes it "
            f"{space.stored_dtype} of [T, B, *{space.shape}]",
        )


def _check_indices(batch: TrajectoryBatch, policy: PolicySpec) -> None:
    """Check that discrete observations and actions are numbers of their spaces."""
    arrays = (
        ("obs", batch.obs, policy.observation),
        ("last_obs", batch.last_obs, policy.observation),
        ("final_obs", batch.final_obs, policy.observation),
        ("action", batch.action, policy.action),
    )
    for name, array, space in arrays:
        if space.kind == "discrete" and array.size:
            least, most = int(array.min()), int(array.max())
            if least < 0 or most >= space.n:
                wrong = least if least < 0 else most
                raise _misfit(batch, f"{name} has {wrong}, not one of 0 to {space.n - 1}")


def _misfit(batch: TrajectoryBatch, problem: str) -> InvalidBatchError:
    return InvalidBatchError(f"policy {batch.policy_id!r}: {problem}")
