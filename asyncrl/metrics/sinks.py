"""Where events go: the protocol of a sink, what ours have in common, and one that feeds several."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Protocol

from asyncrl.metrics.events import Event

_logger = logging.getLogger(__name__)


class Sink(Protocol):
    """Takes the events of a run.

    Neither method raises into the training: a sink that cannot write says so once, through the
    logger of this package, and ignores what follows. Both may be called from any thread. `write`
    does at most a small local write, so that it may be called on an event loop.
    """

    def write(self, event: Event) -> None:
        """Take one event. Does nothing after `close` or after a failure."""
        ...

    def close(self) -> None:
        """Write what is still held back and let go of files and threads. May be called again."""
        ...


class GuardedSink(ABC):
    """A sink that stops itself at its first error instead of passing it on.

    Subclasses write in `_write` and let go in `_close`; both may raise and run one at a time.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()
        self._open = True

    def write(self, event: Event) -> None:
        """Take one event; an error is reported once and closes this sink; training goes on."""
        with self._lock:
            if self._open and not self._attempt(lambda: self._write(event)):
                self._open = False
                self._attempt(self._close, quiet=True)

    def close(self) -> None:
        """Write what is still held back and let go. May be called again."""
        with self._lock:
            if self._open:
                self._open = False
                self._attempt(self._close)

    def _attempt(self, action: Callable[[], None], *, quiet: bool = False) -> bool:
        try:
            action()
        except Exception as error:  # whatever goes wrong in reporting must not end the training
            if not quiet:
                _report(self._name, error)
            return False
        return True

    @abstractmethod
    def _write(self, event: Event) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...


class Fanout:
    """Passes each event to several sinks, in order; one that raises is reported and left out."""

    def __init__(self, sinks: Iterable[Sink] = ()) -> None:
        self._sinks = list(sinks)
        self._lock = threading.RLock()

    def write(self, event: Event) -> None:
        """Give the event to every sink that still works."""
        with self._lock:
            for sink in tuple(self._sinks):
                try:
                    sink.write(event)
                except Exception as error:  # a sink of someone else's that breaks its promise
                    self._sinks.remove(sink)
                    _report(type(sink).__name__, error)

    def close(self) -> None:
        """Close every sink, the last one first; one that raises does not keep the others open."""
        with self._lock:
            while self._sinks:
                sink = self._sinks.pop()
                try:
                    sink.close()
                except Exception as error:  # as above
                    _report(type(sink).__name__, error)


def _report(name: str, error: Exception) -> None:
    _logger.error(
        "%s stopped writing and is off from here on, the training goes on: %s: %s",
        name,
        type(error).__name__,
        error,
    )
