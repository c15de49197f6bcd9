"""Closing environments with a deadline, because a user's `close` may hang."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)

_GRACE_SECONDS = 0.05
"""How long one close is awaited before the next one starts beside it."""


def close_within(closers: Mapping[str, Callable[[], object]], timeout: float) -> bool:
    """Call every closer in a daemon thread and wait `timeout` seconds in all.

    Quick ones run one after the other; a slow one does not keep the rest from being closed.

    Args:
        closers: What is closed, in words (``"environment 3"``) -> its close.
        timeout: Seconds for all of them.

    Returns:
        Whether all returned in time. One that raised counts as closed; it and those that hang are
        logged as warnings.
    """
    deadline = time.monotonic() + timeout
    threads: dict[str, threading.Thread] = {}
    for name, close in closers.items():
        thread = threading.Thread(
            target=_close_one, args=(name, close), name=f"asyncrl-close-{name}", daemon=True
        )
        thread.start()
        threads[name] = thread
        thread.join(min(_GRACE_SECONDS, _until(deadline)))
    for thread in threads.values():
        thread.join(_until(deadline))
    hanging = [name for name, thread in threads.items() if thread.is_alive()]
    for name in hanging:
        _log.warning("%s did not close within %.1f s and is left behind", name, timeout)
    return not hanging


def _close_one(name: str, close: Callable[[], object]) -> None:
    try:
        close()
    except BaseException:  # a thread of its own: whatever a user's close raises ends here
        _log.warning("closing %s failed", name, exc_info=True)


def _until(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
