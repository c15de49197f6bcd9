"""Option values: from the text of a flag or the value in a TOML file to what a field's type says.

Supported are bool, int, float, str, Path, enumerations, Literal, tuple[X, ...], Mapping (JSON
text), types with a ``parse`` class method that takes text, and unions of these, None included.
Other members of a union are what only code can give.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, cast, get_args, get_origin

_NONE = "none"


class ValueProblem(ValueError):
    """A value that does not fit; the message is what was expected, such as "a whole number"."""


def is_supported(annotation: Any) -> bool:
    """Return whether text can become a value of this type."""
    return any(member is not types.NoneType for member in _readable(annotation))


def is_flag(annotation: Any) -> bool:
    """Return whether the type is bool, so that the option takes no value."""
    return annotation is bool


def is_repeatable(annotation: Any) -> bool:
    """Return whether the type is a list of texts, whose option may be given once for each."""
    return annotation == tuple[str, ...]


def metavar(annotation: Any) -> str:
    """Return what stands for the value in help: INT, none|FLOAT, {a,b}, INT,INT,..."""
    names = dict.fromkeys(_metavar(member) for member in _readable(annotation))
    return "|".join(names)


def to_text(value: object) -> str:
    """Write a value as it would be given on the command line."""
    match value:
        case None:
            return _NONE
        case bool():
            return "on" if value else "off"
        case tuple():
            return ",".join(to_text(each) for each in cast("tuple[object, ...]", value))
        case Mapping():
            return json.dumps(value)
        case Enum():
            return str(value.value)
        case _:
            return f"{value:g}" if isinstance(value, float) else str(value)


def from_text(annotation: Any, text: str) -> object:
    """Return the value a flag's text stands for.

    Raises:
        ValueProblem: It stands for none.
    """
    return _first(annotation, text, _member_from_text)


def from_toml(annotation: Any, value: object) -> object:
    """Return the value of a field for a TOML value, which has a type of its own.

    Raises:
        ValueProblem: It is of another type.
    """
    return _first(annotation, value, _member_from_toml)


def _first(annotation: Any, value: Any, read: Callable[[Any, Any], object]) -> object:
    """Return what the first member of a union that can read the value makes of it."""
    expected: list[str] = []
    for member in _readable(annotation):
        try:
            return read(member, value)
        except ValueProblem as problem:
            expected.append(str(problem))
    raise ValueProblem(" or ".join(expected))


def _readable(annotation: Any) -> list[Any]:
    """Return the members of a union (or the type itself) that text can become, text itself last."""
    union = get_origin(annotation) in {Union, types.UnionType}
    members = get_args(annotation) if union else (annotation,)
    readable = [member for member in members if _is_readable(member)]
    return sorted(readable, key=lambda member: (member is str, member is not types.NoneType))


def _is_readable(member: Any) -> bool:
    origin = get_origin(member)
    if origin is tuple:
        return get_args(member)[1:] == (Ellipsis,) and is_supported(get_args(member)[0])
    if origin is not None:
        return origin is Literal or issubclass(origin, Mapping)
    if member in {bool, int, float, str, Path, types.NoneType}:
        return True
    return isinstance(member, type) and (issubclass(member, Enum) or _hook(member) is not None)


def _hook(member: Any) -> Callable[[str], object] | None:
    return getattr(member, "parse", None)


def _metavar(member: Any) -> str:
    origin = get_origin(member)
    if origin is Literal:
        return "{" + ",".join(map(str, get_args(member))) + "}"
    if origin is tuple:
        inner = metavar(get_args(member)[0])
        return f"{inner},{inner},..."
    if origin is not None:
        return "JSON"
    if member is types.NoneType:
        return _NONE
    if issubclass(member, Enum):
        return "{" + ",".join(str(each.value) for each in member) + "}"
    names: dict[Any, str] = {str: "TEXT", Path: "PATH"}
    return names.get(member) or str(member.__name__).upper()


def _member_from_text(member: Any, text: str) -> object:
    origin = get_origin(member)
    if origin is tuple:
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        return tuple(from_text(get_args(member)[0], part) for part in parts)
    if origin is not None and origin is not Literal:
        return _mapping_from_json(text)
    if member is types.NoneType:
        if text.lower() == _NONE:
            return None
        raise ValueProblem(_NONE)
    reader = _TEXT_READERS.get(member)
    return _chosen(member, text) if reader is None else reader(text)


def _member_from_toml(member: Any, value: object) -> object:
    origin = get_origin(member)
    if origin is tuple:
        if isinstance(value, list):
            return tuple(from_toml(get_args(member)[0], each) for each in cast("list[Any]", value))
        raise ValueProblem("a list, such as [64, 64]")
    if origin is not None and origin is not Literal:
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        raise ValueProblem("a table")
    if member is bool:
        if isinstance(value, bool):
            return value
        raise ValueProblem(_EXPECTED[bool])
    if member in {int, float} and isinstance(value, int | float) and not isinstance(value, bool):
        return _number(member, value)
    if isinstance(value, str) and member not in {int, float}:
        return _member_from_text(member, value)
    return _chosen(member, value)


def _chosen(member: Any, value: object) -> object:
    """Return a Literal's or an enumeration's choice, or what the type's own hook reads."""
    if get_origin(member) is Literal:
        return _choice({choice: choice for choice in get_args(member)}, value)
    if isinstance(member, type) and issubclass(member, Enum):
        return _choice({each.value: each for each in member}, value)
    hook = _hook(member)
    if hook is None or not isinstance(value, str):
        raise ValueProblem(_EXPECTED.get(member, _EXPECTED[str]))
    try:
        return hook(value)
    except ValueError as error:  # a ConfigError is one
        raise ValueProblem(str(error)) from error


def _choice(choices: Mapping[Any, object], value: object) -> object:
    for name, choice in choices.items():
        if value in (name, str(name)):
            return choice
    raise ValueProblem(f"one of {_listed(choices)}")


def _listed(choices: Iterable[object]) -> str:
    return ", ".join(str(choice) for choice in choices)


def _mapping_from_json(text: str) -> dict[str, Any]:
    problem = ValueProblem("a JSON object, such as '{\"size\": 8}'")
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError:
        raise problem from None
    if not isinstance(value, dict):
        raise problem
    return cast("dict[str, Any]", value)


def _number(member: Any, number: int | float) -> int | float:
    """Return a number as the type says: 1e5 is a whole number too, NaN is no number."""
    if math.isnan(number) or (member is int and number % 1 != 0):  # which infinities are not either
        raise ValueProblem(_EXPECTED[member])
    return int(number) if member is int else float(number)


def _int(text: str) -> int | float:
    try:
        return int(text)  # exact, where a float would round
    except ValueError:
        return _read_number(int, text)


def _float(text: str) -> int | float:
    return _read_number(float, text)


def _read_number(member: Any, text: str) -> int | float:
    try:
        return _number(member, float(text))
    except ValueError:
        raise ValueProblem(_EXPECTED[member]) from None


def _bool(text: str) -> bool:
    known = {"on": True, "true": True, "off": False, "false": False}
    if text.lower() not in known:
        raise ValueProblem(_EXPECTED[bool])
    return known[text.lower()]


_EXPECTED: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    types.NoneType: _NONE,
}
_TEXT_READERS: dict[Any, Callable[[str], object]] = {
    bool: _bool,
    int: _int,
    float: _float,
    str: str,
    Path: Path,
}
