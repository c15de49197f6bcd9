"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from asyncrl.errors import WaitTimeout

T = TypeVar("T")

_POLL_SECONDS = 0.01
_HINT = "the condition never held"


async def wait_until(
    condition: Callable[[], T | Awaitable[T]],
    timeout: float,  # noqa: ASYNC109 - the deadline is the point
    reason: str,
) -> T:
    """Call `condition`, plain or async, until it returns something true; return that.

    Raises:
        WaitTimeout: `timeout` seconds passed; the message names `reason`.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = cast("T", await value)
        if value:
            return cast("T", value)
        if time.monotonic() >= deadline:
            raise WaitTimeout(reason, timeout, _HINT)
        await asyncio.sleep(_POLL_SECONDS)


def wait_until_sync(condition: Callable[[], T], timeout: float, reason: str) -> T:
    """Call `condition` until it returns something true; return that. For code without a loop.

    Raises:
        WaitTimeout: `timeout` seconds passed; the message names `reason`.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise WaitTimeout(reason, timeout, _HINT)
        time.sleep(_POLL_SECONDS)
