"""What every formula of returns shares: one kind of array, and one recursion.

NumPy and torch call the few functions needed here by the same names, so that a formula written
against a namespace `xp`, which is one of the two modules, serves both. And every return is the
solution of one linear recursion, x_t = term_t + weight_t x_t+1: only term and weight differ.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from asyncrl.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    A = TypeVar("A", np.ndarray, Tensor, default=np.ndarray)
    """Arrays of one kind in, an array of that kind out; NumPy's where all are lists."""
else:
    from typing import TypeVar

    A = TypeVar("A", np.ndarray, Tensor)

Nested: TypeAlias = Sequence[Any]
"""Lists of numbers, or of lists of numbers."""
Steps: TypeAlias = "A | Nested"
"""One number a step: [T, ...]."""
Flags: TypeAlias = "np.ndarray | Tensor | Nested"
"""One bool a step: [T, ...]."""


@dataclass(frozen=True)
class Rollout:
    """The arrays of one call, [T, ...]: of one kind, shape, device and floating dtype."""

    xp: Any
    """The module whose arrays they are: numpy or torch."""
    arrays: dict[str, Any]
    """The numbers by name, at least float32; never the caller's memory if written to."""
    terminated: Any
    """Bool: no future."""
    carry: Any
    """1.0 where the next row continues the episode, 0.0 at an end and in the last row."""
    dtype: Any
    """The inputs' common floating dtype, which results are of."""

    def __getitem__(self, name: str) -> Any:
        return self.arrays[name]

    def future(self, next_value: Any) -> Any:
        """Return `next_value`, but 0 after a terminated step."""
        return self.xp.where(self.terminated, self.xp.zeros_like(next_value), next_value)

    def result(self, array: Any) -> Any:
        """Return `array` in the dtype of the inputs."""
        return array.to(self.dtype) if self.xp is torch else array.astype(self.dtype, copy=False)


def rollout(terminated: Flags, truncated: Flags, **numbers: Any) -> Rollout:
    """Return the arrays of a call, made alike.

    One tensor among `numbers` makes all of them tensors, on its device; else they are NumPy arrays.
    The dtype is the common one of the arrays that are of this kind already. Where they are of
    integers it is what NumPy or torch makes of them together with float32, and float64 where there
    are only lists. Tensors are detached: no gradient flows through a return.

    Raises:
        ConfigError: Shapes differ, there is no time axis, or tensors are on several devices.
    """
    tensors = [each for each in numbers.values() if isinstance(each, Tensor)]
    xp: Any
    if tensors:
        xp, boolean, convert = torch, torch.bool, _as_tensor
        dtype, wide = _torch_dtypes(tensors)
    else:
        xp, boolean, convert = np, np.bool_, _as_array
        dtype, wide = _numpy_dtypes(numbers.values())
    flags = {"terminated": terminated, "truncated": truncated}
    device = _device([*tensors, *(each for each in flags.values() if isinstance(each, Tensor))])
    arrays = {name: convert(each, wide, device) for name, each in numbers.items()}
    ends = {name: convert(each, boolean, device) for name, each in flags.items()}
    _check_shapes(arrays | ends)
    ended = ends["terminated"] | ends["truncated"]
    carry = xp.where(ended, xp.zeros_like(ended, dtype=wide), xp.ones_like(ended, dtype=wide))
    carry[-1:] = 0.0
    return Rollout(xp, arrays, ends["terminated"], carry, dtype)


def discounted_sum(term: Any, weight: Any) -> Any:
    """Return x, where x_t = term_t + weight_t x_t+1 and nothing follows the last row.

    Sums over 1, 2, 4, .. rows are joined in pairs, log2(T) operations on whole arrays in place of
    T on single rows (Hillis and Steele 1986, https://doi.org/10.1145/7902.7903).
    """
    total, reach, width = term + 0.0, weight[:-1], 1
    while width < len(total):
        # reach_t, the product of the weights up to t + width, is what the sum there counts by.
        total[:-width] += reach * total[width:]
        reach = reach[:-width] * reach[width:]
        width *= 2
    return total


def discounted_window(term: Any, weight: Any, last: Any, rows: int) -> Any:
    """Return the same sum over at most `rows` rows, the last of which adds `last` in place of term.

    Where the weight is 0, at the end of an episode or of the data, `term` and `last` are one.
    """
    total = last + 0.0
    for _ in range(min(rows, len(total)) - 1):
        total[:-1] = term[:-1] + weight[:-1] * total[1:]
    return total


def check_fractions(**numbers: float) -> None:
    """Raise `ConfigError` for what is not in [0, 1]."""
    for name, number in numbers.items():
        if not 0.0 <= number <= 1.0:
            raise ConfigError(name, number, "not a discount", "give a number in [0, 1]")


def check_steps(name: str, steps: int | None) -> None:
    """Raise `ConfigError` for a number of steps below 1; None is any number."""
    if steps is not None and steps < 1:
        raise ConfigError(name, steps, "a return sums at least one reward", "give 1 or more")


def _torch_dtypes(tensors: list[Tensor]) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtype of the result, and that to compute in: half precision is for storing."""
    dtype = functools.reduce(torch.promote_types, (each.dtype for each in tensors))
    if not dtype.is_floating_point:
        dtype = torch.promote_types(dtype, torch.float32)
    return dtype, torch.promote_types(dtype, torch.float32)


def _numpy_dtypes(values: Any) -> tuple[np.dtype[Any], np.dtype[Any]]:
    arrays = [each for each in values if isinstance(each, np.ndarray | np.generic)]
    dtype = np.result_type(*arrays) if arrays else np.dtype(np.float64)
    if dtype.kind != "f":
        dtype = np.result_type(dtype, np.float32)
    return dtype, np.result_type(dtype, np.float32)


def _as_array(values: Any, dtype: Any, device: torch.device | None) -> np.ndarray:
    del device
    return np.asarray(values, dtype)


def _as_tensor(values: Any, dtype: Any, device: torch.device | None) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach().to(dtype)
    return torch.tensor(np.asarray(values), device=device).to(dtype)


def _device(tensors: list[Tensor]) -> torch.device | None:
    devices = {each.device for each in tensors}
    if len(devices) > 1:
        raise ConfigError(
            "arrays",
            sorted(map(str, devices)),
            "the tensors of a rollout are on several devices",
            "move them to one",
        )
    return next(iter(devices), None)


def _check_shapes(arrays: dict[str, Any]) -> None:
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    if len(set(shapes.values())) > 1 or () in shapes.values():
        raise ConfigError(
            "arrays",
            shapes,
            "all arrays of a rollout have one shape, [T, ...]",
            "give one entry a step",
        )
