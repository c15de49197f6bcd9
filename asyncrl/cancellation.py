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
    """Run `work` to its end as a task of its own, whoever cancels the caller meanwhile.

    A cancellation takes effect at the caller's next await, or at once where `work` raised. The work
    itself has to bound how long it takes.
    """
    task = asyncio.get_running_loop().create_task(work)
    return _hand_over(task, await _wait_out(task))


async def unswallowed(work: Awaitable[T]) -> T:
    """Await `work`, which may swallow a cancellation; it comes at the caller's next await then.

    `asyncio.wait_for` swallows one that comes as it is done, before Python 3.12.
    """
    task = _current_task()
    before = task.cancelling()
    result = await work
    for _ in range(task.cancelling() - before):
        _cancel_next(task)
    return result


class WorkerThread:
    """A thread for blocking work, one piece after the other, always the same thread.

    It starts with the first piece, and as a daemon: work that hangs keeps no process from ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] | None = None

    async def run(self, work: Callable[[], T], *, on_cancel: Callable[[], None] | None = None) -> T:
        """Run `work` in the thread and return what it gives, also when the caller is cancelled.

        The work begins for certain, and is over when this returns or raises. A cancellation takes
        effect at the caller's next await, so that nothing gets between the work and the accounting
        that follows it; or at once where the work raised.

        Args:
            work: Called in the thread, with the caller's context variables.
            on_cancel: Called once, on the event loop, when the caller was cancelled and the work is
                not over; tells the work to end early.
        """
        future = asyncio.wrap_future(self._submit(work))
        return _hand_over(future, await _wait_out(future, on_cancel))

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
    future: asyncio.Future[Any], on_cancel: Callable[[], None] | None = None
) -> list[asyncio.CancelledError]:
    """Wait until `future` is done; return the native cancellations that came meanwhile."""
    cancellations: list[asyncio.CancelledError] = []
    while not future.done():
        try:
            with anyio.CancelScope(shield=True):
                await asyncio.wait([future], timeout=_LOOK_INTERVAL if on_cancel else None)
        except asyncio.CancelledError as error:
            cancellations.append(error)
        if on_cancel is not None and (cancellations or _scope_cancelled()) and not future.done():
            on_cancel()
            on_cancel = None
    return cancellations


def _hand_over(future: asyncio.Future[T], cancellations: list[asyncio.CancelledError]) -> T:
    """Return the result of a future that is done, with its cancellations still to come."""
    error = None if future.cancelled() else future.exception()
    if cancellations and (error is not None or future.cancelled()):
        raise cancellations[-1] from error
    for each in cancellations:
        _cancel_next(_current_task(), *each.args)
    return future.result()


def _cancel_next(task: asyncio.Task[Any], *message: Any) -> None:
    """Let a cancellation that was caught come again at the next await of the running task.

    One of an anyio scope comes again by itself, until the scope is left.
    """
    if not _scope_cancelled():
        task.uncancel()  # so that the requests add up to as many as there were
        task.cancel(*message)


def _scope_cancelled() -> bool:
    """Whether an anyio scope that is not shielded off was cancelled."""
    return anyio.current_effective_deadline() == -math.inf


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine of asyncio always runs in one
    return task
