"""Logs of the command line: one line an event.

The library itself only ever gets loggers; `configure_logging` is for whoever owns the process.
"""

from __future__ import annotations

import logging
import sys
from datetime import datetime
from typing import TextIO

from asyncrl.errors import ConfigError
from asyncrl.metrics.text import one_line

_LEVELS = ("debug", "info", "warning", "error", "critical")


class LineFormatter(logging.Formatter):
    """Formats a record as one line.

    Such as ``03:37:13.123 WARNING actor.worker: the server is away``.

    An exception is named at the end of the line, for example ``[ValueError: boom]``; with
    `tracebacks` its traceback follows on lines of its own.
    """

    def __init__(self, *, tracebacks: bool = False) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """The line, without a newline at its end."""
        when = datetime.fromtimestamp(record.created).astimezone()
        head = [f"{when:%H:%M:%S}.{int(record.msecs):03d}", record.levelname]
        head.append(record.name.removeprefix("asyncrl."))
        text = f"{' '.join(head)}: {record.getMessage()}"
        error = record.exc_info[1] if record.exc_info else None
        if error is None or record.exc_info is None:
            return one_line(text)
        line = one_line(f"{text} [{type(error).__name__}: {error}]")
        if self._tracebacks:
            line += "\n" + self.formatException(record.exc_info)
        return line


class _Handler(logging.StreamHandler[TextIO]):
    """Ours, so that configuring again replaces it.

    Without a stream of its own it writes to the standard error of the moment, which a live console
    redirects to above itself.
    """

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__(stream if stream is not None else sys.stderr)
        self._follow = stream is None

    def emit(self, record: logging.LogRecord) -> None:
        if self._follow:
            self.stream = sys.stderr
        super().emit(record)


def configure_logging(level: str = "warning", stream: TextIO | None = None) -> None:
    """Let asyncrl's loggers write to `stream` from `level` on; called again, it starts over.

    For programs only: a library leaves handlers to the process it is part of.

    Args:
        level: ``debug`` (with tracebacks), ``info``, ``warning``, ``error`` or ``critical``.
        stream: Where to; None is standard error.

    Raises:
        ConfigError: when there is no such level.
    """
    if level.lower() not in _LEVELS:
        raise ConfigError("log_level", level, "no such level", f"give one of {', '.join(_LEVELS)}")
    handler = _Handler(stream)
    handler.setFormatter(LineFormatter(tracebacks=level.lower() == "debug"))
    logger = logging.getLogger("asyncrl")
    for old in [old for old in logger.handlers if isinstance(old, _Handler)]:
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
