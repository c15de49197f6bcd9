"""What a cancellation must not interrupt: work in a thread, and what closes things in the end.

anyio's cancel scopes can be shielded, but ``task.cancel()``, which is what `asyncio.TaskGroup` and
`asyncio.timeout` do, cannot: it ends the wait for a thread while the thread goes on. Here the wait
lasts until the work is over, and only then the cancellation takes effect.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import math
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")

_LOOK_INTERVAL = 0.05
"""Seconds between two looks whether an anyio scope was cancelled, where somebody wants to know."""


async def outlast(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end as a task of its own; a cancellation of the caller is raised then.

    The work itself has to bound how long it takes.
    """
    task = asyncio.get_running_loop().create_task(work)
    return await _wait_out(task)


async def unswallowed(work: Awaitable[T]) -> T:
    """Await `work`, which may swallow a cancellation; it is raised all the same.

    `asyncio.wait_for` swallows one that comes as it is done, before Python 3.12. One of an anyio
    scope comes again by itself.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine of asyncio always runs in one
    before = task.cancelling()
    result = await work
    if task.cancelling() > before and not _scope_cancelled():
        raise asyncio.CancelledError
    return result


class WorkerThread:
    """A thread for blocking work, one piece after the other, always the same thread.

    It starts with the first piece, and as a daemon: work that hangs keeps no process from ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] | None = None

    async def run(
        self,
        work: Callable[[], T],
        *,
        then: Callable[[T], None] | None = None,
        on_cancel: Callable[[], None] | None = None,
    ) -> T:
        """Run `work` in the thread and return what it gives.

        The work begins for certain, and is over when this returns or raises. A cancellation of the
        caller waits for that; where an anyio scope was cancelled this still returns, and the
        caller's next await raises.

        Args:
            work: Called in the thread, with the caller's context variables.
            then: Called on the event loop with what the work gave, before a cancellation is raised:
                the accounting that belongs to the work.
            on_cancel: Called once, on the event loop, when the caller was cancelled and the work is
                not over; tells the work to end early.
        """
        return await _wait_out(asyncio.wrap_future(self._submit(work)), then, on_cancel)

    async def run_or_leave(self, work: Callable[[], T]) -> T:
        """Run `work` in the thread; a caller that is cancelled leaves it behind, to end alone."""
        return await asyncio.shield(asyncio.wrap_future(self._submit(work)))

    def close(self) -> None:
        """Let the thread end after its last piece of work. Another `run` starts a new one."""
        if self._inbox is not None:
            self._inbox.put(None)
            self._inbox = None

    def _submit(self, work: Callable[[], T]) -> concurrent.futures.Future[T]:
        if self._inbox is None:
            self._inbox = queue.SimpleQueue()
            threading.Thread(
                target=_serve, args=(self._inbox,), name=self._name, daemon=True
            ).start()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()  # from here on nothing can cancel it
        context = contextvars.copy_context()
        self._inbox.put(lambda: context.run(_do, work, future))
        return future


def _serve(inbox: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (piece := inbox.get()) is not None:
        piece()
        del piece  # what it holds may be large, and the next one may be long in coming


def _do(work: Callable[[], T], future: concurrent.futures.Future[T]) -> None:
    try:
        future.set_result(work())
    except StopIteration as error:  # no future takes one
        future.set_exception(RuntimeError(f"the work raised {error!r}"))
    except BaseException as error:  # a thread of its own: the caller raises it
        future.set_exception(error)


async def _wait_out(
    future: asyncio.Future[T],
    then: Callable[[T], None] | None = None,
    on_cancel: Callable[[], None] | None = None,
) -> T:
    """Wait until `future` is done and hand its result to `then`; only now raise a cancellation."""
    cancellation: asyncio.CancelledError | None = None
    while not future.done():
        try:
            with anyio.CancelScope(shield=True):
                await asyncio.wait([future], timeout=_LOOK_INTERVAL if on_cancel else None)
        except asyncio.CancelledError as error:
            cancellation = error
        if on_cancel is not None and (cancellation or _scope_cancelled()) and not future.done():
            on_cancel()
            on_cancel = None
    if then is not None and not future.cancelled() and future.exception() is None:
        then(future.result())
    if cancellation is not None:
        raise cancellation from (None if future.cancelled() else future.exception())
    return future.result()


def _scope_cancelled() -> bool:
    """Whether an anyio scope that is not shielded off was cancelled."""
    return anyio.current_effective_deadline() == -math.inf
