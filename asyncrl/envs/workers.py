"""The processes behind a Gymnasium `VectorEnv`: which environment failed, and how to end them."""

from __future__ import annotations

import multiprocessing.connection
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from asyncrl.envs.closing import close_within

_REAP_SECONDS = 0.5
"""How long a worker whose pipe broke may take to be seen as dead."""


@dataclass(frozen=True)
class Culprit:
    """The environment that failed."""

    env: int
    """Its index."""
    cause: str = ""
    """Type and message of the exception in its worker process; "" if it ran in this process."""
    traceback: str = ""
    """Its traceback, from the worker process."""


class WorkerErrors:
    """Stands in for an `AsyncVectorEnv`'s error queue and keeps what was read from it.

    Gymnasium takes the worker's traceback from that queue, prints it and raises the bare exception;
    this keeps index and traceback for the error message.
    """

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.read: list[Culprit] = []

    def get(self, *args: Any, **kwargs: Any) -> Any:
        """Pass one entry (index, exception type, value, traceback text) on."""
        entry = self._queue.get(*args, **kwargs)
        index, kind, value, text = entry
        cause = "".join(traceback.format_exception_only(kind, value)).strip()
        self.read.append(Culprit(int(index), cause, str(text)))
        return entry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


def watch_workers(envs: VectorEnv[Any, Any, Any]) -> WorkerErrors | None:
    """Keep the errors of the worker processes of `envs`; None where it has none."""
    if not isinstance(envs.unwrapped, AsyncVectorEnv):
        return None
    inner: Any = envs.unwrapped
    inner.error_queue = keeper = WorkerErrors(inner.error_queue)
    return keeper


def find_culprit(
    error: BaseException, envs: VectorEnv[Any, Any, Any], errors: WorkerErrors | None
) -> Culprit | None:
    """Return which environment raised `error`, or None if that cannot be told.

    Args:
        error: What a step or reset of `envs` raised.
        envs: The vector environment. With worker processes it is the first that reported or, when
            none did, one that died. In a `SyncVectorEnv` it is the one its loop was at.
        errors: What `watch_workers` returned for it.
    """
    inner: Any = envs.unwrapped
    if errors is not None:
        return errors.read[0] if errors.read else _died(inner.processes)
    loop_code = (SyncVectorEnv.step.__code__, SyncVectorEnv.reset.__code__)
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code in loop_code and isinstance(frame.f_locals.get("i"), int):
            return Culprit(frame.f_locals["i"])
    return None


def close_vector(envs: VectorEnv[Any, Any, Any], timeout: float) -> bool:
    """Close `envs` with a deadline in seconds; kill worker processes that still run then.

    Returns:
        Whether it closed in time by itself.
    """
    name = f"the vector environment of {envs.num_envs}"
    if not isinstance(envs.unwrapped, AsyncVectorEnv):
        return close_within({name: envs.close}, timeout)
    inner: Any = envs.unwrapped
    # Half the time for an answer that is still due, so that Gymnasium can end its workers itself.
    in_time = close_within({name: lambda: envs.close(timeout=timeout / 2)}, timeout)
    if not inner.closed:
        for process in inner.processes:
            process.kill()
        for pipe in inner.parent_pipes:
            if pipe is not None:
                pipe.close()
        inner.closed = True  # or its finaliser would talk to them again
    return in_time


def _died(processes: Sequence[Any]) -> Culprit | None:
    ready = multiprocessing.connection.wait([p.sentinel for p in processes], _REAP_SECONDS)
    for env, process in enumerate(processes):
        if process.sentinel in ready:
            process.join(_REAP_SECONDS)  # its files close a moment before it can be reaped
            return Culprit(env, f"its worker process died with exit code {process.exitcode}")
    return None
