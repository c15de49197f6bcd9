from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from broker_world import QUICK, make_spec

from asyncrl.broker import Broker, connect


@pytest.fixture
async def learner(redis_url: str, run_name: str) -> AsyncIterator[Broker]:
    """The broker of a learner that just created its run."""
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        await broker.create_run(make_spec(), "first-learner")
        yield broker


@pytest.fixture
async def actor(redis_url: str, run_name: str, learner: Broker) -> AsyncIterator[Broker]:
    """An actor's broker for the learner's run."""
    assert learner.run == run_name
    async with connect(redis_url, run=run_name, config=QUICK) as broker:
        yield broker
