"""Jobs, results, weights, failure reports and trees as messages, field by field.

Every decoder checks the type of every field, ignores fields it does not know (a newer minor version
may add some) and translates whatever a noun's own checks say into `WireError`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncrl.data import (
    EpisodeStats,
    FailureReport,
    JobKind,
    JobUnit,
    PolicyWeights,
    RolloutJob,
    RolloutResult,
    TrajectoryBatch,
    WeightSet,
)
from asyncrl.wire.codec import Kind, Parts, pack, pack_parts
from asyncrl.wire.fields import Fields, decode
from asyncrl.wire.limits import CHECKPOINT_LIMITS, DEFAULT_LIMITS, WEIGHT_LIMITS, WireLimits


def fingerprint(data: bytes) -> str:
    """Return the SHA-256 of `data`, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def encode_job(job: RolloutJob) -> bytes:
    """Return `job` as bytes."""
    return pack(Kind.JOB, _job(job))


def decode_job(data: bytes, limits: WireLimits = DEFAULT_LIMITS) -> RolloutJob:
    """Return the job in `data`; `WireError` unless it is one."""
    return decode(Kind.JOB, data, limits, _read_job)


def encode_result(result: RolloutResult) -> bytes:
    """Return `result` as bytes."""
    return pack(
        Kind.RESULT,
        {
            "job": _job(result.job),
            "actor_id": result.actor_id,
            "env_steps": result.env_steps,
            "batches": [_batch(batch) for batch in result.batches],
            "returns": result.episodes.returns,
            "lengths": result.episodes.lengths,
            "metrics": {name: float(value) for name, value in result.metrics.items()},
            "weights_version": result.weights_version,
            "seconds": result.seconds,
        },
    )


def decode_result(data: bytes, limits: WireLimits = DEFAULT_LIMITS) -> RolloutResult:
    """Return the result in `data`, its arrays read-only views; `WireError` unless it is one.

    Shapes and numbers are not checked here: call `RolloutResult.validate`.
    """
    return decode(Kind.RESULT, data, limits, _read_result)


def encode_weights(weights: WeightSet) -> bytes:
    """Return `weights` as bytes."""
    policies = {
        name: {"version": policy.version, "params": dict(policy.params)}
        for name, policy in weights.policies.items()
    }
    head = {"generation": weights.generation, "version": weights.version}
    return pack(Kind.WEIGHTS, {**head, "policies": policies}, WEIGHT_LIMITS)


def decode_weights(data: bytes, limits: WireLimits = WEIGHT_LIMITS) -> WeightSet:
    """Return the weight set in `data`, its arrays read-only views; `WireError` unless it is one."""
    return decode(Kind.WEIGHTS, data, limits, _read_weights)


def encode_failure(report: FailureReport) -> bytes:
    """Return `report` as bytes: its texts cut to what fits, lone surrogates escaped.

    A report is never lost to its own words: file names in a traceback may be undecodable.
    """
    return pack(
        Kind.FAILURE,
        {
            "actor_id": report.actor_id,
            "job_id": report.job_id,
            "attempt": report.attempt,
            "where": _escaped(report.where)[:_LONG_TEXT],
            "cause": _escaped(report.cause)[:_LONG_TEXT],
            "traceback": _escaped(report.traceback)[-_LONG_TEXT:],
            "seed": report.seed,
        },
    )


def decode_failure(data: bytes, limits: WireLimits = DEFAULT_LIMITS) -> FailureReport:
    """Return the failure report in `data`; `WireError` unless it is one."""
    return decode(Kind.FAILURE, data, limits, _read_failure)


def encode_tree(tree: Mapping[str, Any]) -> bytes:
    """Return a tree of dicts, lists, None, bools, ints of any size, floats, text, bytes, arrays.

    Keys are text, tuples become lists, NumPy scalars plain numbers. The arrays are copied once,
    into the bytes returned.

    Raises:
        WireError: It holds something else, or is nested deeper than `CHECKPOINT_LIMITS` says.
    """
    return pack(Kind.TREE, dict(tree), CHECKPOINT_LIMITS)


def encode_tree_parts(tree: Mapping[str, Any]) -> Parts:
    """Return what `encode_tree` does in parts, to be written before an array changes: no copy."""
    return pack_parts(Kind.TREE, dict(tree), CHECKPOINT_LIMITS)


def decode_tree(data: bytes, limits: WireLimits = CHECKPOINT_LIMITS) -> dict[str, Any]:
    """Return the tree in `data`, its arrays read-only views; `WireError` unless it is one."""
    return dict(decode(Kind.TREE, data, limits, lambda fields: fields.raw))


_LONG_TEXT = 64 * 1024
"""Characters of a failure's texts that travel."""


def _escaped(text: str) -> str:
    """Return `text` with its lone surrogates, which UTF-8 does not have, written out."""
    return text.encode(errors="backslashreplace").decode()


# -- jobs ----------------------------------------------------------------------------------------


def _job(job: RolloutJob) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "kind": job.kind.value,
        "unit": job.unit.value,
        "size": job.size,
        "round": job.round,
        "generation": job.generation,
        "attempt": job.attempt,
        "min_version": job.min_version,
        "exploration": {
            policy: {name: float(value) for name, value in parameters.items()}
            for policy, parameters in job.exploration.items()
        },
    }


def _read_job(fields: Fields) -> RolloutJob:
    exploration = fields.child("exploration")
    return RolloutJob(
        job_id=fields.text("job_id"),
        kind=fields.choice("kind", JobKind),
        unit=fields.choice("unit", JobUnit),
        size=fields.integer("size"),
        round=fields.integer("round"),
        generation=fields.integer("generation"),
        attempt=fields.integer("attempt"),
        min_version=fields.integer("min_version"),
        exploration={policy: exploration.child(policy).numbers() for policy in exploration.raw},
    )


# -- results -------------------------------------------------------------------------------------


def _batch(batch: TrajectoryBatch) -> dict[str, Any]:
    return {
        "policy_id": batch.policy_id,
        "policy_version": batch.policy_version,
        "agent_id": batch.agent_id,
        "extras": dict(batch.extras),
        **{name: getattr(batch, name) for name in _BATCH_ARRAYS},
    }


_BATCH_ARRAYS = [
    "obs",
    "action",
    "reward",
    "terminated",
    "truncated",
    "last_obs",
    "final_obs",
    "final_index",
]


def _read_batch(fields: Fields) -> TrajectoryBatch:
    return TrajectoryBatch(
        policy_id=fields.text("policy_id"),
        policy_version=fields.integer("policy_version"),
        agent_id=fields.text("agent_id"),
        extras=fields.child("extras").arrays(),
        **{name: fields.array(name) for name in _BATCH_ARRAYS},
    )


def _read_result(fields: Fields) -> RolloutResult:
    return RolloutResult(
        job=_read_job(fields.child("job")),
        actor_id=fields.text("actor_id"),
        env_steps=fields.integer("env_steps"),
        batches=tuple(_read_batch(each) for each in fields.children("batches")),
        episodes=EpisodeStats(
            returns=fields.array("returns", np.float64), lengths=fields.array("lengths", np.int64)
        ),
        metrics=fields.child("metrics").numbers(),
        weights_version=fields.integer("weights_version"),
        seconds=fields.number("seconds"),
    )


# -- weights -------------------------------------------------------------------------------------


def _read_weights(fields: Fields) -> WeightSet:
    policies = fields.child("policies")
    return WeightSet(
        generation=fields.integer("generation"),
        version=fields.integer("version"),
        policies={
            name: PolicyWeights(
                version=policies.child(name).integer("version"),
                params=policies.child(name).child("params").arrays(),
            )
            for name in policies.raw
        },
    )


def _read_failure(fields: Fields) -> FailureReport:
    return FailureReport(
        actor_id=fields.text("actor_id"),
        job_id=fields.text("job_id"),
        attempt=fields.integer("attempt"),
        where=fields.text("where"),
        cause=fields.text("cause"),
        traceback=fields.text("traceback"),
        seed=fields.optional_integer("seed"),
    )
