"""A cancellation waits for the thread, whichever way it comes, and then goes on as it does."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from asyncrl.cancellation import WorkerThread, outlast, unswallowed
from asyncrl.testing import wait_until

Canceller = Callable[["Gate"], None]


class Gate:
    """Work that goes on until it is let go, and says when it is over."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.leave = threading.Event()
        self.over = False

    def work(self) -> str:
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self.leave.wait(10.0)
        self.over = True
        return "done"


async def test_work_runs_in_one_thread_in_order_and_hands_back_what_it_gives():
    thread = WorkerThread("test-worker")
    names = [await thread.run(lambda: threading.current_thread().name) for _ in range(2)]
    assert names == ["test-worker"] * 2
    order: list[int] = []
    async with asyncio.TaskGroup() as tasks:
        for number in range(20):
            tasks.create_task(thread.run(lambda number=number: order.append(number)))
    assert order == list(range(20))
    thread.close()


async def test_what_the_work_raises_is_raised():
    thread = WorkerThread("test-worker")

    def fail(error: BaseException) -> None:
        raise error

    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await thread.run(lambda: fail(StopIteration(3)))
    with pytest.raises(SystemExit):
        await thread.run(lambda: fail(SystemExit(3)))
    assert await thread.run(lambda: "the thread is there still") == "the thread is there still"
    thread.close()


async def test_a_closed_thread_ends_and_the_next_work_starts_another():
    def alive() -> bool:
        return any(each.name == "test-closing" for each in threading.enumerate())

    thread = WorkerThread("test-closing")
    await thread.run(lambda: None)
    assert alive()
    thread.close()
    await wait_until(lambda: not alive(), 5.0, "the thread to end")
    assert await thread.run(lambda: 3) == 3
    thread.close()


async def test_the_work_sees_the_callers_context():
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set by the caller")
    thread = WorkerThread("test-worker")
    assert await thread.run(variable.get) == "set by the caller"
    thread.close()


async def test_a_native_cancel_waits_for_the_work_and_its_accounting():
    gate, thread = Gate(), WorkerThread("test-worker")
    accounted: list[str] = []

    async def caller() -> None:
        await thread.run(gate.work, then=accounted.append)
        accounted.append("never")

    task = asyncio.get_running_loop().create_task(caller())
    await gate.begun.wait()
    task.cancel("first")
    task.cancel("second")
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    gate.leave.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.over
    assert accounted == ["done"]
    assert task.cancelling() == 2
    thread.close()


async def test_a_timeout_is_still_a_timeout():
    gate, thread = Gate(), WorkerThread("test-worker")
    results: list[str] = []

    async def limited() -> None:
        async with asyncio.timeout(0):
            await thread.run(gate.work, then=results.append, on_cancel=gate.leave.set)
            results.append("never")

    with pytest.raises(TimeoutError):
        await limited()
    assert gate.over
    assert results == ["done"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)  # and nothing is left to come
    thread.close()


async def test_a_task_group_waits_for_the_work_of_a_task_it_cancels():
    gate, thread = Gate(), WorkerThread("test-worker")

    async def fail() -> None:
        await gate.begun.wait()
        raise ZeroDivisionError

    async def together() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(thread.run(gate.work, on_cancel=gate.leave.set))
            tasks.create_task(fail())

    with pytest.raises(ExceptionGroup) as failures:
        await together()
    assert [type(each) for each in failures.value.exceptions] == [ZeroDivisionError]
    assert gate.over
    thread.close()


async def test_an_anyio_scope_waits_for_the_work_too():
    gate, thread = Gate(), WorkerThread("test-worker")
    results: list[str] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        results.append(await thread.run(gate.work, on_cancel=gate.leave.set))
        await anyio.lowlevel.checkpoint()
        results.append("never")
    assert scope.cancelled_caught
    assert gate.over
    assert results == ["done"]
    await anyio.lowlevel.checkpoint()  # and nothing is left to come
    thread.close()


async def test_the_work_is_told_once_that_nobody_wants_it():
    gate, thread = Gate(), WorkerThread("test-worker")
    told: list[bool] = []

    def tell() -> None:
        told.append(gate.over)
        gate.leave.set()

    task = asyncio.get_running_loop().create_task(thread.run(gate.work, on_cancel=tell))
    await gate.begun.wait()
    task.cancel()
    task.cancel()
    await asyncio.wait([task])
    assert told == [False]
    thread.close()


async def test_of_work_that_ends_early_because_it_was_cancelled_the_cancel_is_what_counts():
    gate, thread = Gate(), WorkerThread("test-worker")

    def give_up() -> None:
        gate.work()
        raise RuntimeError("told to stop")

    task = asyncio.get_running_loop().create_task(thread.run(give_up, on_cancel=gate.leave.set))
    await gate.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    thread.close()


async def test_work_that_may_be_left_behind_is_left_and_ends_alone():
    gate, thread = Gate(), WorkerThread("test-worker")

    async def limited() -> None:
        async with asyncio.timeout(0.01):
            await thread.run_or_leave(gate.work)

    with pytest.raises(TimeoutError):
        await limited()
    assert not gate.over
    gate.leave.set()
    await wait_until(lambda: gate.over, 5.0, "the work to end")
    thread.close()


async def test_failed_work_is_not_accounted_for():
    thread = WorkerThread("test-worker")
    accounted: list[float] = []
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 / 0, then=accounted.append)
    assert accounted == []
    thread.close()


async def test_what_must_be_done_to_the_end_is():
    begun, go = asyncio.Event(), asyncio.Event()
    steps: list[str] = []

    async def closing() -> str:
        begun.set()
        await go.wait()
        steps.append("closed")
        return "well"

    async def caller() -> None:
        try:
            await outlast(closing())
        except asyncio.CancelledError:
            steps.append("cancelled")
            raise

    task = asyncio.get_running_loop().create_task(caller())
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["closed", "cancelled"]
    assert await outlast(closing()) == "well"


@pytest.mark.parametrize("how", ["native", "timeout", "scope"])
async def test_a_swallowed_cancellation_takes_effect(how: str):
    """As Python 3.11's `asyncio.wait_for` may, with which redis-py writes its commands."""
    reached: list[str] = []
    waiting = asyncio.Event()

    async def swallow() -> str:
        waiting.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "swallowed"
        return "slept"

    async def caller(scope: anyio.CancelScope) -> None:
        try:
            with scope:
                async with asyncio.timeout(0.01 if how == "timeout" else None):
                    reached.append(await unswallowed(swallow()))
                await asyncio.sleep(0)
                reached.append("never")
        except TimeoutError:
            reached.append("timeout")
        await asyncio.sleep(0)
        reached.append("after")

    scope = anyio.CancelScope()
    task = asyncio.get_running_loop().create_task(caller(scope))
    await waiting.wait()
    if how == "native":
        task.cancel()
    elif how == "scope":
        scope.cancel()
    await asyncio.wait([task])
    assert task.cancelled() == (how == "native")
    expected = {"native": [], "timeout": ["timeout", "after"], "scope": ["swallowed", "after"]}
    assert reached == expected[how]
