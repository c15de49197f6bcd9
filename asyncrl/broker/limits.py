"""What all processes of a run must agree on: set by its learner, stored with the run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asyncrl.errors import ConfigError

_MIB = 1024 * 1024
_FIELD = "limit:"
"""What the name of a limit starts with in the run's `meta`; `names.lua` knows it too."""


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """How much a run holds, how often it tries and what it keeps. The same for all its actors."""

    max_jobs: int = 10_000
    """Most jobs queued or running; a submit beyond it is answered FULL."""
    max_results: int = 4096
    """Most results waiting for the learner; a complete beyond it is answered FULL."""
    max_result_bytes: int = 1024 * _MIB
    """Most bytes of results waiting for the learner. One larger result is accepted when none
    waits."""
    max_attempts: int = 3
    """Attempts at a job before it is dead."""
    keep_versions: int = 3
    """Weight sets kept, the newest included."""
    weights_ttl: float = 120.0
    """Seconds a weight set lives on after it fell out of `keep_versions`, for actors amid fetching
    it."""
    blob_ttl: float = 600.0
    """Seconds an uploaded payload is kept while its result is not accepted."""
    done_keep: int = 20_000
    """Closed jobs remembered, so that a repeated complete or submit of one is recognised."""
    dead_keep: int = 1000
    """Dead jobs and bad results kept for inspection (about)."""
    events_keep: int = 1000
    """Events kept (about)."""
    finished_ttl: float = 3600.0
    """Seconds a finished run stays on the server once its results are all acknowledged, for actors
    that are still to hear of it; 0 to keep it for ever."""

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            for_ever = each.name == "finished_ttl" and value == 0
            if not for_ever and not 0 < value < math.inf:
                raise ConfigError(each.name, value, "must be positive", "give more than 0")
        if self.done_keep < self.max_jobs:
            raise ConfigError(
                "done_keep",
                self.done_keep,
                f"a takeover closes up to max_jobs={self.max_jobs} jobs at once and remembers them",
                "give at least max_jobs",
            )

    def check_outages(self, outage_timeout: float) -> None:
        """Raise `ConfigError` unless a payload outlasts two outages of `outage_timeout` seconds."""
        if self.blob_ttl < 2 * outage_timeout:
            raise ConfigError(
                "blob_ttl",
                self.blob_ttl,
                f"a payload outlasts two outages of outage_timeout={outage_timeout}",
                f"give at least {2 * outage_timeout:g}",
            )


LIMIT_NAMES = tuple(each.name for each in dataclasses.fields(RunLimits))
_DEFAULTS = RunLimits()


def limit_field(name: str) -> str:
    """Return the name of the field of `meta` that holds a limit."""
    return _FIELD + name


def limits_to_fields(limits: RunLimits) -> tuple[str, ...]:
    """Return names and values in turn, as fields of the run's `meta`."""
    pairs = ((limit_field(name), repr(getattr(limits, name))) for name in LIMIT_NAMES)
    return tuple(part for pair in pairs for part in pair)


def limits_from_fields(meta: Mapping[str, bytes]) -> RunLimits:
    """Return the limits stored in the run's `meta`.

    One that is not there (a run made by an older library) or is no number is the default, as it is
    to the scripts. Raises `ConfigError` for numbers no learner would have stored.
    """
    found: dict[str, Any] = {
        name: value
        for name in LIMIT_NAMES
        if (value := _number(name, meta.get(limit_field(name), b""))) is not None
    }
    return RunLimits(**found)


def limits_in_lua() -> str:
    """Return the defaults as the Lua table in which the scripts look for what `meta` lacks."""
    pairs = ", ".join(f"{name} = {getattr(_DEFAULTS, name)!r}" for name in LIMIT_NAMES)
    return f"local DEFAULT_LIMITS = {{{pairs}}}"


def _number(name: str, stored: bytes) -> int | float | None:
    try:
        return type(getattr(_DEFAULTS, name))(stored)
    except ValueError:
        return None
