"""A decoded mapping whose fields are read by type; anything else is a `WireError` that names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar, cast

import numpy as np

from asyncrl.errors import ConfigError, WireError
from asyncrl.wire.codec import Kind, unpack
from asyncrl.wire.limits import WireLimits

E = TypeVar("E", bound=StrEnum)
L = TypeVar("L", bound=str)
V = TypeVar("V")

_LARGEST = 2**63
_BRIEF = 60
"""Characters of a value or name that an error repeats."""
_BRIEF_ERROR = 400
"""Characters of a noun's own error that are repeated."""


def decode(kind: Kind, data: bytes, limits: WireLimits, read: Callable[[Fields], V]) -> V:
    """Return what `read` makes of the mapping in `data`.

    Raises:
        WireError: `data` is no message of `kind`, a field is missing or of another type, or the
            noun says that it cannot be so.
    """
    fields = Fields(unpack(kind, data, limits), kind.name.lower())
    try:
        return read(fields)
    except ConfigError as error:
        reason = str(error)[:_BRIEF_ERROR]
        raise WireError(f"a {kind.name.lower()} that cannot be: {reason}") from error


class Fields:
    """One mapping of a message, all of whose keys are text."""

    def __init__(self, raw: Any, where: str) -> None:
        if type(raw) is not dict:
            raise WireError(f"{where} is {_brief(raw)}, not a mapping")
        self.raw = cast("dict[str, Any]", raw)
        self._where = where

    def text(self, name: str) -> str:
        """Return a text field."""
        return self._typed(name, str)

    def optional_text(self, name: str) -> str | None:
        """Return a text field that may be None."""
        return None if self._get(name) is None else self.text(name)

    def integer(self, name: str) -> int:
        """Return a whole number of at most 64 bits."""
        value = self._typed(name, int)
        if not -_LARGEST <= value < _LARGEST:
            raise self._wrong(name, "a 64-bit integer", value)
        return value

    def optional_integer(self, name: str) -> int | None:
        """Return a whole number that may be None."""
        return None if self._get(name) is None else self.integer(name)

    def number(self, name: str) -> float:
        """Return a number as float."""
        return self._float(name, self._get(name))

    def choice(self, name: str, choices: type[E]) -> E:
        """Return a member of an enumeration of texts."""
        value = self.text(name)
        try:
            return choices(value)
        except ValueError:
            raise self._wrong(name, f"one of {', '.join(choices)}", value) from None

    def literal(self, name: str, choices: Sequence[L]) -> L:
        """Return one of a few texts."""
        value = self.text(name)
        for choice in choices:
            if value == choice:
                return choice
        raise self._wrong(name, f"one of {', '.join(choices)}", value)

    def array(self, name: str, dtype: type[np.generic] | None = None) -> np.ndarray:
        """Return an array, of `dtype` if one is asked for."""
        value = self._typed(name, np.ndarray)
        if dtype is not None and value.dtype != dtype:
            raise self._wrong(name, f"an array of {np.dtype(dtype).name}", value)
        return value

    def flag(self, name: str) -> bool:
        """Return a truth value."""
        return self._typed(name, bool)

    def optional_number(self, name: str) -> float | None:
        """Return a number that may be None."""
        return None if self._get(name) is None else self.number(name)

    def names(self, name: str) -> tuple[str, ...]:
        """Return a list of texts as a tuple."""
        for value in self._list(name):
            if type(value) is not str:
                raise self._wrong(name, "texts", value)
        return tuple(self._list(name))

    def whole_numbers(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers of at most 64 bits as a tuple."""
        for value in self._list(name):
            if type(value) is not int or not -_LARGEST <= value < _LARGEST:
                raise self._wrong(name, "64-bit integers", value)
        return tuple(self._list(name))

    def sizes(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers, none negative and none beyond 31 bits, as a tuple."""
        values = self._list(name)
        for value in values:
            if type(value) is not int or not 0 <= value < 2**31:
                raise self._wrong(name, "sizes", value)
        return tuple(values)

    def bound(self, name: str) -> float | tuple[float, ...]:
        """Return one number, or a list of them as a tuple."""
        if type(self._get(name)) is not list:
            return self.number(name)
        return tuple(self._float(name, each) for each in self._list(name))

    def optional_interval(self, name: str) -> tuple[float, float] | None:
        """Return two numbers as a tuple, or None."""
        if self._get(name) is None:
            return None
        values = self._list(name)
        if len(values) != 2:
            raise self._wrong(name, "two numbers", values)
        return self._float(name, values[0]), self._float(name, values[1])

    def child(self, name: str) -> Fields:
        """Return a mapping inside this one."""
        return Fields(self._get(name), self._path(name))

    def children(self, name: str) -> list[Fields]:
        """Return a list of mappings."""
        path = self._path(name)
        return [Fields(each, f"{path}[{i}]") for i, each in enumerate(self._list(name))]

    def numbers(self) -> dict[str, float]:
        """Return this mapping, all of whose values must be numbers."""
        return self._all(self.number)

    def integers(self) -> dict[str, int]:
        """Return this mapping, all of whose values must be whole numbers."""
        return self._all(self.integer)

    def texts(self) -> dict[str, str]:
        """Return this mapping, all of whose values must be text."""
        return self._all(self.text)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return this mapping, all of whose values must be arrays."""
        return self._all(self.array)

    def _all(self, read: Callable[[str], V]) -> dict[str, V]:
        return {name: read(name) for name in self.raw}

    def _get(self, name: str) -> Any:
        if name not in self.raw:
            raise WireError(f"{self._where} lacks {name[:_BRIEF]}")
        return self.raw[name]

    def _typed(self, name: str, kind: type[V]) -> V:
        value = self._get(name)
        if type(value) is not kind:
            raise self._wrong(name, kind.__name__, value)
        return value

    def _list(self, name: str) -> list[Any]:
        return cast("list[Any]", self._typed(name, list))

    def _float(self, name: str, value: Any) -> float:
        if type(value) is float:
            return value
        if type(value) is int and -_LARGEST <= value < 2 * _LARGEST:
            return float(value)
        raise self._wrong(name, "a number", value)

    def _path(self, name: str) -> str:
        return f"{self._where}.{name[:_BRIEF]}"

    def _wrong(self, name: str, expected: str, value: object) -> WireError:
        return WireError(f"{self._path(name)} is {_brief(value)}, expected {expected}")


def _brief(value: object) -> str:
    """Return a value of a message in a few words: it may be megabytes, or an endless number."""
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, str):
        return f"the text {value[:_BRIEF]!r}"
    if isinstance(value, int):
        bits = value.bit_length()
        return repr(value) if bits <= 64 else f"a whole number of {bits} bits"
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray", value)
        return f"an array of {array.dtype} {array.shape}"
    return f"a {type(value).__name__}"
