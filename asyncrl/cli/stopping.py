"""Signals, and what runs only as long as the main thing does."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


async def on_signals(stop: Callable[[signal.Signals], None]) -> None:
    """Call `stop` with the first SIGINT or SIGTERM; end the process at the second."""
    asked = False
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            if asked:
                os._exit(128 + number)
            asked = True
            stop(number)


async def run_beside(
    main: Callable[[], Awaitable[T]], others: Iterable[Callable[[], Coroutine[Any, Any, None]]]
) -> T:
    """Return what `main` gives; the others run meanwhile and are cancelled when it is done.

    An error of any of them ends all.
    """
    results: list[T] = []
    async with anyio.create_task_group() as tasks:
        for other in others:
            tasks.start_soon(other)
        results.append(await main())
        tasks.cancel_scope.cancel()
    return results[0]
