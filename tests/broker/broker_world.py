"""What the tests of this room share: small nouns, a broker that loses replies."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import redis.exceptions
from redis.asyncio import Redis

from asyncrl.broker import Broker, BrokerConfig, connect
from asyncrl.broker.scripts import Script
from asyncrl.data import (
    EnvSpec,
    FailureReport,
    JobKind,
    JobUnit,
    PolicySpec,
    RolloutJob,
    RunSpec,
    SpaceSpec,
)

BOTH = (JobKind.TRAIN, JobKind.EVAL)
TRAIN = (JobKind.TRAIN,)

QUICK = BrokerConfig(
    block_seconds=0.2, blob_threshold=200, retry_min=0.005, retry_max=0.05, outage_timeout=10.0
)
"""Short waits, and a blob from 200 bytes on."""

_numbers = itertools.count(1)


def make_spec(env: str = "CartPole-v1", seed: int = 0, num_envs: int = 8) -> RunSpec:
    policy = PolicySpec(
        observation=SpaceSpec(kind="box", shape=(4,)),
        action=SpaceSpec(kind="discrete", n=2, dtype="int64"),
        head="categorical",
    )
    return RunSpec(env=EnvSpec(env=env, num_envs=num_envs), policies={"policy": policy}, seed=seed)


def make_job(job_id: str = "", kind: JobKind = JobKind.TRAIN, generation: int = 1) -> RolloutJob:
    return RolloutJob(
        job_id=job_id or f"job-{next(_numbers)}",
        kind=kind,
        unit=JobUnit.STEPS,
        size=5,
        generation=generation,
    )


def make_report(actor_id: str = "a", job_id: str = "j", attempt: int = 1) -> FailureReport:
    return FailureReport(
        actor_id=actor_id,
        job_id=job_id,
        attempt=attempt,
        where="step 37 of environment 3",
        cause="ValueError: boom",
        traceback="Traceback: boom",
        seed=7,
    )


@asynccontextmanager
async def raw(url: str) -> AsyncGenerator[Any]:
    """A plain client (untyped), to look and meddle behind the broker's back."""
    client: Any = Redis.from_url(url, protocol=2)
    try:
        yield client
    finally:
        await client.aclose()


def lose_next_reply(broker: Broker, of: Script | None = None) -> None:
    """Let the server run the broker's next script (or the next `of`), and its reply never
    arrive."""
    client = broker._session.client
    original = client.script

    async def losing(script: Script, keys: Sequence[str], args: Sequence[str | bytes | int]) -> Any:
        reply = await original(script, keys, args)
        if of not in {None, script}:
            return reply
        client.script = original
        raise redis.exceptions.ConnectionError("the reply was lost")

    client.script = losing


async def connections_of(url: str, run: str) -> list[dict[str, str]]:
    """Return what the server says of each connection of the run's brokers."""
    async with raw(url) as client:
        listed = await client.client_list()
    return [entry for entry in listed if entry["name"] == f"asyncrl:{run}"]


async def waits_for_jobs(url: str, run: str) -> bool:
    """Return whether some broker of the run is blocked on the server."""
    return any("b" in entry["flags"] for entry in await connections_of(url, run))


__all__ = [
    "BOTH", "QUICK", "TRAIN", "connect", "connections_of", "lose_next_reply",
    "make_job", "make_report", "make_spec", "raw", "waits_for_jobs",
]  # fmt: skip
