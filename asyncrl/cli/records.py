"""What a run leaves in its folder besides checkpoints: the configuration as used, and metrics."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from asyncrl.errors import AsyncRLError, RolloutFailed, sole_cause
from asyncrl.metrics import ConsoleSink, Fanout, JsonlSink, Sink, TensorBoardSink


@contextmanager
def open_sinks(folder: Path) -> Generator[Fanout]:
    """Open console, metrics.jsonl and, where installed, TensorBoard; close them in the end.

    An error that ends the run loses the traceback that the console has shown already, so that what
    is printed about the error is one line.
    """
    console = ConsoleSink()
    sinks: list[Sink] = [console, JsonlSink(folder / "metrics.jsonl")]
    if find_spec("tensorboard") is not None:
        sinks.append(TensorBoardSink(folder / "tensorboard"))
    fanout = Fanout(sinks)
    try:
        yield fanout
    except (AsyncRLError, BaseExceptionGroup) as error:
        failure = sole_cause(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(failure, RolloutFailed) and console.has_shown(failure.traceback):
            failure.traceback = ""
        raise
    finally:
        fanout.close()


def write_config(path: Path, parts: dict[str, Any]) -> None:
    """Write the configuration as used, as JSON; dataclasses become objects."""
    plain = {
        name: dataclasses.asdict(part)
        if dataclasses.is_dataclass(part) and not isinstance(part, type)
        else part
        for name, part in parts.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain, indent=2, default=str) + "\n")
