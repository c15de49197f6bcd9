"""Events as plain JSON-ready values, and as flat columns of numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import TypeAlias, cast

from asyncrl.metrics.events import Event, Progress

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"


def event_name(event: Event) -> str:
    """Name of an event's kind in snake case, such as ``"progress"`` or ``"actor_changed"``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()


def finite(value: object) -> float | int | None:
    """A number (Python's or NumPy's) as int or float; None when it is none, NaN or infinite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    if isinstance(value, Integral):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else None


def as_record(event: Event) -> dict[str, Plain]:
    """The event's fields as JSON-ready values, without those that are None, NaN or infinite."""
    record: dict[str, Plain] = {}
    for item in fields(event):
        value = _plain(getattr(event, item.name))
        if value is not None:
            record[item.name] = value
    return record


def as_columns(progress: Progress) -> dict[str, int | float | str]:
    """The fields of a `Progress` by column; mappings become ``losses.<name>`` and so on."""
    columns: dict[str, int | float | str] = {}
    for name, value in as_record(progress).items():
        if isinstance(value, dict):
            columns |= {
                f"{name}.{key}": number
                for key, number in value.items()
                if isinstance(number, int | float)
            }
        elif isinstance(value, int | float | str):
            columns[name] = value
    return columns


def _plain(value: object) -> Plain:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Real):
        return finite(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        pairs = ((str(key), _plain(item)) for key, item in items)
        return {key: item for key, item in pairs if item is not None}
    if isinstance(value, Sequence):
        return [_plain(item) for item in cast("Sequence[object]", value)]
    return str(value)
