"""Signals: the first asks to stop, the second forces it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import anyio


async def on_signals(stop: Callable[[signal.Signals], None]) -> None:
    """Call `stop` with the first SIGINT or SIGTERM; end the process at the second."""
    asked = False
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            if asked:
                os._exit(128 + number)
            asked = True
            stop(number)
