"""What a run leaves in its folder besides checkpoints: the configuration as used, and metrics."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from asyncrl.metrics import ConsoleSink, Fanout, JsonlSink, Sink, TensorBoardSink


@contextmanager
def open_sinks(folder: Path) -> Generator[Fanout]:
    """Open console, metrics.jsonl and, where installed, TensorBoard; close them in the end."""
    sinks: list[Sink] = [ConsoleSink(), JsonlSink(folder / "metrics.jsonl")]
    if find_spec("tensorboard") is not None:
        sinks.append(TensorBoardSink(folder / "tensorboard"))
    fanout = Fanout(sinks)
    try:
        yield fanout
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
