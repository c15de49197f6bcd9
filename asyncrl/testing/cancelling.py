"""Cancelling a piece of asyncio code wherever it can be cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class CancelAt(Generic[T]):
    """Awaits `work`, and cancels the task it runs in as it suspends for the `at`-th time (from 0).

    Natively, as ``task.cancel()``, `asyncio.timeout` and `asyncio.TaskGroup` do. To try every place
    where code can be cancelled, count `at` up until `struck` stays false.
    """

    def __init__(self, work: Coroutine[Any, Any, T], at: int) -> None:
        self._work = work
        self._at = at
        self.struck = False
        """Whether the work suspended that often."""

    def __await__(self) -> Generator[Any, Any, T]:
        """Drive the work, one suspension after the other."""
        resume = partial(self._work.send, None)
        suspended = 0
        while True:
            try:
                awaited = resume()
            except StopIteration as end:
                return end.value
            if suspended == self._at:
                self.struck = True
                task = asyncio.current_task()
                assert task is not None  # noqa: S101 - a coroutine of asyncio always runs in one
                task.cancel()
            suspended += 1
            try:
                resume = partial(self._work.send, (yield awaited))
            except BaseException as error:  # whatever is thrown in is the work's to handle
                resume = partial(self._work.throw, error)
