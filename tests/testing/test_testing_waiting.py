from __future__ import annotations

from collections.abc import Iterator

import pytest

from asyncrl.errors import WaitTimeout
from asyncrl.testing import wait_until, wait_until_sync


@pytest.fixture
def answers() -> Iterator[str]:
    return iter(["", "", "found"])


async def test_waiting_returns_what_the_condition_found(answers: Iterator[str]) -> None:
    assert await wait_until(lambda: next(answers), 5, "an answer") == "found"


async def test_the_condition_may_be_async(answers: Iterator[str]) -> None:
    async def ask() -> str:
        return next(answers)

    assert await wait_until(ask, 5, "an answer") == "found"


def test_waiting_works_without_a_loop(answers: Iterator[str]) -> None:
    assert wait_until_sync(lambda: next(answers), 5, "an answer") == "found"


async def test_the_deadline_names_what_was_waited_for() -> None:
    with pytest.raises(WaitTimeout, match=r"waited 0\.0 s for a miracle"):
        await wait_until(lambda: False, 0.02, "a miracle")
    with pytest.raises(WaitTimeout, match=r"waited 0\.0 s for a miracle"):
        wait_until_sync(lambda: False, 0.02, "a miracle")
