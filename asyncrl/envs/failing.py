"""Telling what went wrong inside a user's environment."""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import Any, cast

import numpy as np

from asyncrl.errors import EnvironmentFailure

_LONGEST_ACTION = 120


class EdgeError(Exception):
    """What an environment gave cannot be used; the message says why."""


def environment_failure(where: str, error: BaseException) -> EnvironmentFailure:
    """Return the failure to raise for `error`, with the environment's own traceback.

    Args:
        where: What was being done: ``"step 37 of environment 3 (seed 5, last action 1)"``.
        error: What the environment raised, or the `EdgeError` about what it gave.
    """
    if isinstance(error, EdgeError):
        return EnvironmentFailure(where, str(error), "")
    cause = "".join(traceback.format_exception_only(error)).strip()
    return EnvironmentFailure(where, cause, _own_traceback(error))


def step_place(step: int, env: int, seed: int | None, action: Any) -> str:
    """Return ``"step 37 of environment 3 (seed 5, last action 1)"``."""
    from_seed = "unseeded" if seed is None else f"seed {seed}"
    return f"step {step} of environment {env} ({from_seed}, last action {brief(action)})"


def reset_place(env: int, seed: int | None) -> str:
    """Return ``"reset of environment 3 (seed 5)"``."""
    return f"reset of environment {env} ({'unseeded' if seed is None else f'seed {seed}'})"


def brief(value: Any) -> str:
    """Return `value` on one line, shortened."""
    if isinstance(value, np.ndarray):
        text = np.array2string(cast("np.ndarray", value), precision=4, separator=", ", threshold=16)
    else:
        text = str(value)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_ACTION else text[: _LONGEST_ACTION - 3] + "..."


def _own_traceback(error: BaseException) -> str:
    """Format the traceback without this package's own leading frames, if any are left then."""
    own: TracebackType | None = error.__traceback__
    while own is not None and own.tb_frame.f_globals.get("__package__") == __package__:
        own = own.tb_next
    return "".join(traceback.format_exception(type(error), error, own or error.__traceback__))
