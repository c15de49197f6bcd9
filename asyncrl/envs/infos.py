"""Gymnasium's vectorised infos, taken apart again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

_FINAL = ("final_obs", "final_info", "_final_obs", "_final_info")


def split_infos(infos: Mapping[str, Any], num_envs: int) -> list[dict[str, Any]]:
    """Return what each environment said, from arrays of B under each key.

    Args:
        infos: Key -> array or list of B values; a boolean array under ``"_" + key`` marks the
            environments that said it. A mapping is taken apart in the same way; anything that is
            not one value an environment is given to all.
        num_envs: B.

    Returns:
        [B] dicts. At the end of an episode under SAME_STEP autoreset: what its last step said.
    """
    rows = _split(infos, num_envs)
    final = infos.get("final_info")
    if final is None:
        return rows
    ended = _said(infos, "final_info", num_envs)
    finals = (
        _split(cast("Mapping[str, Any]", final), num_envs) if isinstance(final, Mapping) else final
    )
    for b in np.flatnonzero(ended):
        rows[b] = dict(finals[b])
    return rows


def final_observation(infos: Mapping[str, Any], b: int) -> Any | None:
    """Return the last observation of environment b's episode that ended, or None if missing."""
    final = infos.get("final_obs")
    return None if final is None else final[b]


def _split(infos: Mapping[str, Any], num_envs: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{} for _ in range(num_envs)]
    for key, value in infos.items():
        if key in _FINAL or (key.startswith("_") and key[1:] in infos):
            continue
        for b in np.flatnonzero(_said(infos, key, num_envs)):
            rows[b][key] = None
        values: Any = [value] * num_envs
        if isinstance(value, Mapping):
            values = _split(cast("Mapping[str, Any]", value), num_envs)
        elif isinstance(value, np.ndarray | list | tuple) and len(cast("Any", value)) == num_envs:
            values = cast("Any", value)
        for row, one in zip(rows, values, strict=True):
            if key in row:
                row[key] = one
    return rows


def _said(infos: Mapping[str, Any], key: str, num_envs: int) -> np.ndarray:
    """Return [B] bool: which environments said `key`."""
    mask = infos.get(f"_{key}")
    return np.ones(num_envs, np.bool_) if mask is None else np.asarray(mask, np.bool_)
