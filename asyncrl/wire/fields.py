"""A decoded mapping whose fields are read by type; anything else is a `WireError` that names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar, cast

import numpy as np

from asyncrl.errors import WireError

E = TypeVar("E", bound=StrEnum)
L = TypeVar("L", bound=str)
V = TypeVar("V")

_LARGEST = 2**63


class Fields:
    """One mapping of a message."""

    def __init__(self, raw: Any, where: str) -> None:
        if not isinstance(raw, dict):
            raise WireError(f"{where} is a {type(raw).__name__}, not a mapping")
        self.raw = cast("dict[str, Any]", raw)
        self._where = where
        for key in self.raw:
            if type(key) is not str:
                raise WireError(f"{where} has the key {key!r}, which is not text")

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
        value = self._get(name)
        if type(value) is int and abs(value) < 2**1000:
            return float(value)
        return self._typed(name, float)

    def choice(self, name: str, choices: type[E]) -> E:
        """Return a member of an enumeration of texts."""
        try:
            return choices(self.text(name))
        except ValueError:
            raise self._wrong(name, f"one of {', '.join(choices)}", self.raw[name]) from None

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
            raise self._wrong(name, f"an array of {np.dtype(dtype).name}", value.dtype)
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers as a tuple; none may be negative."""
        values = self._typed(name, list)
        if not all(type(value) is int and 0 <= value < 2**31 for value in values):
            raise self._wrong(name, "a list of whole numbers", cast("object", values))
        return tuple(values)

    def bound(self, name: str) -> float | tuple[float, ...]:
        """Return one number, or a list of them as a tuple."""
        value = self._get(name)
        if not isinstance(value, list):
            return self.number(name)
        values = cast("list[Any]", value)
        if not all(type(each) in (int, float) for each in values):
            raise self._wrong(name, "numbers", values)
        return tuple(float(each) for each in values)

    def mapping(self, name: str) -> Fields:
        """Return a mapping inside this one."""
        return Fields(self._get(name), f"{self._where}.{name}")

    child = mapping

    def mappings(self, name: str) -> list[Fields]:
        """Return a list of mappings."""
        values = self._typed(name, list)
        return [Fields(each, f"{self._where}.{name}[{i}]") for i, each in enumerate(values)]

    def numbers(self) -> dict[str, float]:
        """Return this mapping, all of whose values must be numbers."""
        return self._all(self.number)

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
            raise WireError(f"{self._where} lacks {name}")
        return self.raw[name]

    def _typed(self, name: str, kind: type[V]) -> V:
        value = self._get(name)
        if type(value) is not kind:
            raise self._wrong(name, kind.__name__, value)
        return value

    def _wrong(self, name: str, expected: str, value: object) -> WireError:
        given = f"{type(value).__name__} {str(value)[:60]}"
        return WireError(f"{self._where}.{name} is {given}, expected {expected}")
