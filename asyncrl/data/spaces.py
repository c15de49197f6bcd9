"""Observation and action spaces as data: the wire's form of Gymnasium's spaces.

Elements of a leaf (a box, a discrete, multi-discrete or multi-binary space) are stored as arrays of
one dtype. Elements of a composite (a dict or a tuple, nested as deep as need be) are stored packed:
one row of bytes in which every leaf has its place. Batches, replay and wire therefore know one
array a space, whatever it is; `SpaceSpec.split` and `SpaceSpec.join` are the only way in and out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from asyncrl.errors import ConfigError

SpaceKind = Literal["box", "discrete", "multi_discrete", "multi_binary", "dict", "tuple"]

MAX_SPACE_DIMS = 6
"""Dimensions of a leaf's elements; a batch has two more, [T, B, ...]."""

MAX_SPACE_DEPTH = 8
"""Composites inside one another."""

_ALIGNMENT = 8
"""Bytes; every leaf of a packed row begins at a multiple of it."""

_NUMBERS = {
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "longdouble", "float96", "float128"),
}


class Leaf(NamedTuple):
    """One leaf of a space, and its place in a packed row."""

    path: str
    """Names from the root, joined by "/"; "" where the space itself is a leaf."""
    space: SpaceSpec
    offset: int
    """Bytes before it in a packed row."""

    @property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return math.prod(self.space.stored_shape) * self.space.stored_dtype.itemsize


@dataclass(frozen=True, kw_only=True)
class SpaceSpec:
    """An observation or action space as data.

    `low` and `high` are one number where all elements share it, else one number per element in C
    order.
    """

    kind: SpaceKind
    shape: tuple[int, ...] = ()
    """Shape of one element of a leaf; () for a discrete space and for composites."""
    dtype: str = "float32"
    """NumPy name of a leaf's dtype; "int64" for discrete and multi-discrete spaces, "int8" for
    multi-binary ones."""
    low: float | tuple[float, ...] = -float("inf")
    high: float | tuple[float, ...] = float("inf")
    n: int = 0
    """Number of values of a discrete space, which runs from `start` to `start + n - 1`."""
    start: int = 0
    nvec: tuple[int, ...] = ()
    """Number of values of each element of a multi-discrete space, in C order."""
    starts: tuple[int, ...] = ()
    """Smallest value of each element of a multi-discrete space; empty where all are 0."""
    children: tuple[tuple[str, SpaceSpec], ...] = ()
    """(name, space) of each part of a dict, or of a tuple, whose names are "0", "1", .."""

    def __post_init__(self) -> None:
        problem = getattr(self, f"_{self.kind}_problem")()
        if problem:
            parts = ", ".join(name for name, _ in self.children)
            shown = f"{self.kind}({parts})" if self.is_composite else self
            raise ConfigError("space", shown, problem, "describe the space as its environment does")

    def _discrete_problem(self) -> str:
        if self.n < 1:
            return f"n={self.n}, but a discrete space has at least one value"
        return "" if self.shape == () else f"shape={self.shape}, but a discrete space has none"

    def _box_problem(self) -> str:
        problem = self._shape_problem()
        if problem:
            return problem
        if self.dtype not in _NUMBERS:
            return f"dtype={self.dtype!r} is not the name of a NumPy dtype of numbers"
        width = math.prod(self.shape)
        for name, bound in (("low", self.low), ("high", self.high)):
            if isinstance(bound, tuple) and len(bound) != width:
                return f"{name} has {len(bound)} numbers, but the shape {self.shape} {width}"
        low, high = np.asarray(self.low, np.float64), np.asarray(self.high, np.float64)
        return "" if (low <= high).all() else "low is not at most high everywhere"

    def _multi_discrete_problem(self) -> str:
        problem = self._shape_problem()
        width = math.prod(self.shape) if not problem else 0
        if problem or not self.nvec:
            return problem or "nvec is empty, but a multi-discrete space has at least one element"
        if len(self.nvec) != width:
            return f"nvec has {len(self.nvec)} numbers, but the shape {self.shape} {width}"
        if min(self.nvec) < 1:
            return f"nvec={self.nvec}, but every element has at least one value"
        if self.starts and len(self.starts) != width:
            return f"starts has {len(self.starts)} numbers, but the shape {self.shape} {width}"
        return ""

    def _multi_binary_problem(self) -> str:
        return self._shape_problem()

    def _dict_problem(self) -> str:
        names = [name for name, _ in self.children]
        if not names:
            return f"a {self.kind} space has no parts"
        if len(set(names)) != len(names):
            return f"two parts have one name: {names}"
        bad = [name for name in names if not name or "/" in name]
        if bad:
            return f"a part is named {bad[0]!r}; names are not empty and have no slash"
        if self._depth > MAX_SPACE_DEPTH:
            return f"it is nested more than {MAX_SPACE_DEPTH} deep"
        return ""

    def _tuple_problem(self) -> str:
        names = [name for name, _ in self.children]
        if names != [str(place) for place in range(len(names))]:
            return f"the parts of a tuple are named by their places, not {names}"
        return self._dict_problem()

    def _shape_problem(self) -> str:
        if len(self.shape) > MAX_SPACE_DIMS:  # before its product: hostile ones take minutes
            return f"the shape has {len(self.shape)} dimensions, at most {MAX_SPACE_DIMS} can be"
        if any(width < 0 for width in self.shape):
            return f"shape={self.shape} has a negative width"
        return ""

    @property
    def _depth(self) -> int:
        return 1 + max((child._depth for _, child in self.children), default=0)

    # -- sizes -----------------------------------------------------------------------------------

    @property
    def is_composite(self) -> bool:
        """Whether the space is a dict or a tuple."""
        return self.kind in ("dict", "tuple")

    @cached_property
    def size(self) -> int:
        """Number of scalars in one element, each discrete value counted as its one-hot vector."""
        if self.is_composite:
            return sum(child.size for _, child in self.children)
        if self.kind == "discrete":
            return self.n
        return sum(self.nvec) if self.kind == "multi_discrete" else math.prod(self.shape)

    @cached_property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape in which one element is stored: `shape`, or (bytes,) for a composite."""
        if not self.is_composite:
            return self.shape
        last = self.leaves[-1]
        return (-(-(last.offset + last.nbytes) // _ALIGNMENT) * _ALIGNMENT,)

    @cached_property
    def stored_dtype(self) -> np.dtype[Any]:
        """Dtype in which elements are stored: uint8, float32 or int64.

        A box of uint8, multi-binary and packed composite elements are uint8; discrete and
        multi-discrete ones int64, counted from 0; all other boxes float32.
        """
        if self.kind in ("discrete", "multi_discrete"):
            return np.dtype(np.int64)
        if self.kind == "box" and self.dtype != "uint8":
            return np.dtype(np.float32)
        return np.dtype(np.uint8)

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, in the order of the parts."""
        leaves: list[Leaf] = []
        end = 0
        for path, space in self._walk(""):
            leaf = Leaf(path, space, -(-end // _ALIGNMENT) * _ALIGNMENT)
            leaves.append(leaf)
            end = leaf.offset + leaf.nbytes
        return tuple(leaves)

    def _walk(self, path: str) -> Iterator[tuple[str, SpaceSpec]]:
        if not self.is_composite:
            yield path, self
        for name, child in self.children:
            yield from child._walk(f"{path}/{name}" if path else name)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high) of a box, each float64 of shape `shape`."""
        low, high = (
            np.broadcast_to(np.asarray(bound, np.float64).reshape(-1), (math.prod(self.shape),))
            for bound in (self.low, self.high)
        )
        return low.reshape(self.shape), high.reshape(self.shape)

    # -- packing ---------------------------------------------------------------------------------

    def split(self, stored: np.ndarray) -> dict[str, np.ndarray]:
        """Return path -> [..., *leaf shape] of every leaf of stored elements [..., *stored_shape].

        Each array has the leaf's stored dtype. A leaf's own array is returned as it is, under "";
        parts of a packed one are copies.

        Raises:
            ConfigError: `stored` does not end in `stored_shape`, or a composite is not bytes.
        """
        if not self.is_composite:
            return {"": stored}
        width = self.stored_shape[0]
        if stored.dtype != np.uint8 or not stored.ndim or stored.shape[-1] != width:
            raise ConfigError(
                "stored",
                f"{stored.dtype} array of shape {stored.shape}",
                f"not packed elements of this {self.kind} space, uint8 [..., {width}]",
                "pack them with join()",
            )
        lead = stored.shape[:-1]
        parts: dict[str, np.ndarray] = {}
        for path, space, offset in self.leaves:
            count = math.prod(space.stored_shape)
            cut = stored[..., offset : offset + count * space.stored_dtype.itemsize]
            part = np.ascontiguousarray(cut).view(space.stored_dtype)
            parts[path] = part.reshape((*lead, *space.stored_shape))
        return parts

    def join(self, parts: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return stored elements [..., *stored_shape] from path -> [..., *leaf shape].

        The inverse of `split`; every leaf must be there, in its stored dtype or one that casts to
        it safely.

        Raises:
            ConfigError: A leaf is missing, or has another shape.
        """
        if set(parts) != {leaf.path for leaf in self.leaves}:
            raise ConfigError(
                "parts",
                sorted(parts),
                f"the leaves of this space are {[leaf.path for leaf in self.leaves]}",
                "give one array for each",
            )
        if not self.is_composite:
            return np.asarray(parts[""], self.stored_dtype)
        first = self.leaves[0]
        shape = np.shape(parts[first.path])
        lead = shape[: len(shape) - len(first.space.stored_shape)]
        packed = np.zeros((*lead, *self.stored_shape), np.uint8)
        for leaf in self.leaves:
            array = np.require(parts[leaf.path], leaf.space.stored_dtype, "C")
            if array.shape != (*lead, *leaf.space.stored_shape):
                raise ConfigError(
                    f"parts[{leaf.path!r}]",
                    array.shape,
                    f"expected {(*lead, *leaf.space.stored_shape)}",
                    "give one element of the leaf for each of the others",
                )
            flat = array.reshape((*lead, math.prod(leaf.space.stored_shape))).view(np.uint8)
            packed[..., leaf.offset : leaf.offset + leaf.nbytes] = flat
        return packed


def composite(kind: Literal["dict", "tuple"], parts: Mapping[str, SpaceSpec]) -> SpaceSpec:
    """Return the dict or tuple space of `parts`, in their order."""
    return SpaceSpec(kind=kind, children=tuple(parts.items()))
