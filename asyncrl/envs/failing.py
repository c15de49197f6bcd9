"""Telling what went wrong inside a user's environment."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any, cast

import numpy as np

from asyncrl.errors import EnvironmentFailure

_LONGEST_ACTION = 120
_UNPACKING = re.compile(
    r"(?:not enough|too many) values to unpack \(expected (?P<expected>\d)(?:, got (?P<got>\d+))?\)"
    r"|cannot unpack non-iterable (?P<kind>.+) object"
)
_GYMNASIUM = ("gymnasium.core", "gymnasium.vector.", "gymnasium.wrappers.")
"""The modules of Gymnasium that unpack what an environment returns."""
_OLD_GYM = (
    "if that is the interface of old Gym, {} or make it through "
    "gymnasium.make('GymV21Environment-v0', env=..), which needs shimmy"
)
_EXPECTED = {
    "step": "(observation, reward, terminated, truncated, info); "
    + _OLD_GYM.format("return terminated and truncated apart"),
    "reset": "(observation, info); " + _OLD_GYM.format("return (observation, {})"),
}


class EdgeError(Exception):
    """What an environment gave cannot be used; the message says why."""


def environment_failure(
    where: str, error: BaseException, *, seed: int | None = None
) -> EnvironmentFailure:
    """Return the failure to raise for `error`, with the environment's own traceback.

    Args:
        where: What was being done: ``"step 37 of environment 3 (seed 5, last action 1)"``.
        error: What the environment raised, or the `EdgeError` about what it gave.
        seed: Seed of the episode, where known.
    """
    if isinstance(error, EdgeError):
        return EnvironmentFailure(where, str(error), "", seed=seed)
    if problem := _unpacking_problem(error):
        return EnvironmentFailure(where, problem, "", seed=seed)
    cause = "".join(traceback.format_exception_only(error)).strip()
    return EnvironmentFailure(where, cause, _own_traceback(error), seed=seed)


def unpack_step(given: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return the five values of a `step`; `EdgeError` saying what it returned if it is not five."""
    if not isinstance(given, tuple | list) or len(cast("Any", given)) != 5:
        raise EdgeError(_unexpected("step", _shape_of(given)))
    seen, reward, terminated, truncated, info = cast("Any", given)
    return seen, reward, terminated, truncated, info


def unpack_reset(given: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return the observation and the info of a `reset`; `EdgeError` if it returned anything else.

    The info has to be a mapping: a bare observation may have a length of two as well.
    """
    kind = type(given).__name__
    if not isinstance(given, tuple | list) or len(cast("Any", given)) != 2:
        raise EdgeError(_unexpected("reset", _shape_of(given)))
    seen, info = cast("Any", given)
    if not isinstance(info, Mapping):
        second = f"whose second value is {_a(type(info).__name__)} and no mapping"
        raise EdgeError(_unexpected("reset", f"{_a(kind)} of 2 {second}"))
    return seen, cast("Mapping[str, Any]", info)


def told_by_worker(cause: str, text: str) -> str:
    """Return what `_unpacking_problem` would, from a worker process's cause and traceback text."""
    frames = [line for line in text.splitlines() if line.lstrip().startswith('File "')]
    module = frames[-1].replace("/", ".").replace("\\", ".") if frames else ""
    if not any(name in module for name in _GYMNASIUM):
        return ""
    return _unpacking_text(cause, "")


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


def _unpacking_problem(error: BaseException) -> str:
    """Say what was returned where unpacking it, here or in Gymnasium, raised `error`; else ""."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not isinstance(error, TypeError | ValueError) or not frames:
        return ""
    module = f"{frames[-1].f_globals.get('__name__', '')}."
    if not module.startswith((f"{__package__}.", *_GYMNASIUM)):
        return ""
    return _unpacking_text(str(error), frames[-1].f_code.co_name)


def _unpacking_text(message: str, function: str) -> str:
    """Say it from Python's own message, which names a number or a type; "" if it is another."""
    found = _UNPACKING.search(message)
    if found is None:
        return ""
    expected, got, kind = found["expected"], found["got"], found["kind"]
    name = {"5": "step", "2": "reset"}.get(expected or "", function)
    if name not in _EXPECTED:
        return ""
    counted = _values(int(got)) if got else f"more than {expected} values"
    return _unexpected(name, kind or counted)


def _unexpected(function: str, given: str) -> str:
    return f"{function}() returned {given}, where Gymnasium expects {_EXPECTED[function]}"


def _shape_of(given: Any) -> str:
    """Return the type and length of a value that was to be unpacked."""
    if isinstance(given, np.ndarray):
        array = cast("np.ndarray", given)
        return f"a {array.dtype} array of shape {array.shape}"
    kind = type(given).__name__
    if isinstance(given, tuple | list):
        return f"{_a(kind)} of {_values(len(cast('Any', given)))}"
    return kind if given is None else f"{kind} {brief(given)}"


def _values(count: int) -> str:
    return f"{count} value{'' if count == 1 else 's'}"


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _own_traceback(error: BaseException) -> str:
    """Format the traceback without this package's own leading frames, if any are left then."""
    own: TracebackType | None = error.__traceback__
    while own is not None and own.tb_frame.f_globals.get("__package__") == __package__:
        own = own.tb_next
    return "".join(traceback.format_exception(type(error), error, own or error.__traceback__))
