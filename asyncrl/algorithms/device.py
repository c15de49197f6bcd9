"""Where the learner computes, and how arrays get there."""

from __future__ import annotations

import numpy as np
import torch

from asyncrl.errors import ConfigError


def resolve_device(name: str = "cpu") -> torch.device:
    """Return the torch device called `name`: auto, cpu, cuda, cuda:<index> or mps.

    "auto" is the accelerator of this machine, if it has one, else the CPU.

    Raises:
        ConfigError: The name is none of these, or this machine has no such device.
    """
    if name == "auto":
        name = next((kind for kind in ("cuda", "mps") if _count(kind)), "cpu")
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (index and not index.isdecimal()):
        raise ConfigError(
            "device", name, "no such device", "use auto, cpu, cuda, cuda:<index> or mps"
        )
    if int(index or 0) >= _count(kind):
        raise ConfigError(
            "device", name, f"this machine has {_count(kind)} {kind} devices", "use auto or cpu"
        )
    return torch.device(name)


def _count(kind: str) -> int:
    if kind == "cuda":
        return torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "mps":
        return int(torch.backends.mps.is_available())
    return 1


def to_tensor(
    array: np.ndarray, device: torch.device, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Return a copy of `array` on `device`, as `dtype` (default: the array's own).

    The array may be read-only, as decoded messages are; the tensor never shares its memory.
    """
    return torch.tensor(array, dtype=dtype, device=device)
