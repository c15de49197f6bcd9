"""Metrics for TensorBoard, through the `tensorboard` package alone: no torch, no TensorFlow."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from asyncrl.errors import MissingExtraError
from asyncrl.metrics.events import Evaluation, Event, Progress
from asyncrl.metrics.records import finite
from asyncrl.metrics.sinks import GuardedSink

_PREFIX = "events.out.tfevents."
_PROGRESS_TAGS = {
    "mean_return": "train/mean_return",
    "mean_length": "train/mean_length",
    "episodes": "train/episodes",
    "updates": "train/updates",
    "policy_version": "train/policy_version",
    "steps_per_second": "speed/steps_per_second",
    "seconds": "speed/seconds",
    "lag_mean": "lag/mean",
    "lag_max": "lag/max",
    "actors": "fleet/actors",
    "queued_jobs": "fleet/queued_jobs",
    "waiting_results": "fleet/waiting_results",
}


class TensorBoardSink(GuardedSink):
    """`Progress` and `Evaluation` as scalars over environment steps, flushed at once.

    Tags: ``train/...``, ``eval/...``, ``lag/...``, ``fleet/...``, ``speed/...``, ``loss/<name>``,
        ``env/<name>``, ``eval_env/<name>``, ``counter/<name>``. An evaluation is drawn at the step
        whose weights it measured, which may be an earlier step than the last one written: no point
        is dropped for that. A resumed run adds a file to the same folder.

    Args:
        directory: The log folder, made at the first event.
        clock: Wall time in seconds since the epoch.

    Raises:
        MissingExtraError: when `tensorboard` is not installed.
    """

    def __init__(self, directory: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(f"TensorBoardSink({str(directory)!r})")
        self._directory = Path(directory)
        self._clock = clock
        self._event_proto = _module("tensorboard.compat.proto.event_pb2")
        self._summary_proto = _module("tensorboard.compat.proto.summary_pb2")
        self._record_writer = _module("tensorboard.summary.writer.record_writer")
        self._records: Any = None

    def _write(self, event: Event) -> None:
        if isinstance(event, Progress):
            self._add(event.env_steps, _progress_scalars(event))
        elif isinstance(event, Evaluation):
            self._add(event.env_steps, _evaluation_scalars(event))

    def _add(self, step: int, scalars: dict[str, object]) -> None:
        now = self._clock()
        if self._records is None:
            self._records = self._record_writer.RecordWriter(_open_next(self._directory, now))
            # Readers drop points whose step goes back, unless the file says it is of version 2.
            self._put(self._event_proto.Event(wall_time=now, file_version="brain.Event:2"))
        value = self._summary_proto.Summary.Value
        numbers = {tag: finite(number) for tag, number in scalars.items()}
        values = [
            value(tag=tag, simple_value=number)
            for tag, number in numbers.items()
            if number is not None
        ]
        summary = self._summary_proto.Summary(value=values)
        self._put(self._event_proto.Event(wall_time=now, step=step, summary=summary))
        self._records.flush()

    def _put(self, proto: Any) -> None:
        self._records.write(proto.SerializeToString())

    def _close(self) -> None:
        if self._records is not None:
            self._records.close()


def _progress_scalars(progress: Progress) -> dict[str, object]:
    scalars: dict[str, object] = {
        tag: getattr(progress, name) for name, tag in _PROGRESS_TAGS.items()
    }
    scalars |= {f"loss/{name}": number for name, number in progress.losses.items()}
    scalars |= {f"env/{name}": number for name, number in progress.env_metrics.items()}
    scalars |= {f"counter/{name}": number for name, number in progress.counters.items()}
    return scalars


def _evaluation_scalars(evaluation: Evaluation) -> dict[str, object]:
    names = ("mean_return", "min_return", "max_return", "mean_length")
    scalars: dict[str, object] = {f"eval/{name}": getattr(evaluation, name) for name in names}
    scalars |= {f"eval_env/{name}": number for name, number in evaluation.env_metrics.items()}
    return scalars


def _open_next(directory: Path, now: float) -> Any:
    """A new event file that sorts after those in `directory`: TensorBoard reads them by name."""
    directory.mkdir(parents=True, exist_ok=True)
    stamps = [path.name.removeprefix(_PREFIX)[:10] for path in directory.glob(f"{_PREFIX}*")]
    newest = max((int(stamp) for stamp in stamps if stamp.isdigit()), default=0)
    stamp = max(int(now), newest + 1)
    return (directory / f"{_PREFIX}{stamp:010d}.asyncrl.{os.getpid()}").open("xb")


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "tensorboard":
            raise
        raise MissingExtraError(
            "tensorboard", "tensorboard", "writing TensorBoard files"
        ) from error
