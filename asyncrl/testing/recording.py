"""A sink that keeps what a run says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from asyncrl.metrics import Event

E = TypeVar("E", bound=Event)


class Recorder:
    """Keeps the events of a run, in order.

    Args:
        on_event: Called with each event as it comes, for example to stop the run there.
    """

    def __init__(self, on_event: Callable[[Event], None] | None = None) -> None:
        self.events: list[Event] = []
        self._on_event = on_event

    def write(self, event: Event) -> None:
        """Keep `event`."""
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)

    def close(self) -> None:
        """Do nothing."""

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]
