"""Checkpoints on disk: written whole or not at all, verified when read, the oldest pruned.

A checkpoint is a folder ``<env steps, 12 digits>-<number, the newest highest>`` with ``state.arl``
(all state in the wire codec: no pickle) and ``manifest.json`` (size, SHA-256, version, and what a
person wants to know).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asyncrl.errors import CheckpointError, WireError
from asyncrl.wire import PROTOCOL_VERSION, decode_tree, encode_tree_parts, fingerprint

_log = logging.getLogger(__name__)
_STATE = "state.arl"
_MANIFEST = "manifest.json"
_PARTIAL = ".partial-"
_PIECE = 4 * 2**20
"""Bytes written at a time."""
_NAME = re.compile(r"^[0-9]+-[0-9]+$")


@dataclass(frozen=True)
class Checkpoint:
    """One verified checkpoint."""

    path: Path
    manifest: Mapping[str, Any]
    tree: Mapping[str, Any]


@dataclass(frozen=True)
class Saved:
    """What `CheckpointStore.save` wrote."""

    path: Path
    nbytes: int
    env_steps: int


class CheckpointStore:
    """The checkpoints of one run, in one folder."""

    def __init__(self, folder: Path, *, keep: int = 3) -> None:
        self._folder = folder
        self._keep = keep

    def save(self, tree: Mapping[str, Any], manifest: Mapping[str, Any], env_steps: int) -> Saved:
        """Write a checkpoint, make it durable, then drop the oldest ones.

        The arrays of `tree` are written as they are, without a copy, in pieces between which other
        threads run; nobody may change them meanwhile. Raises `CheckpointError` naming the folder
        when the disk refuses; older checkpoints stay.
        """
        parts = encode_tree_parts(tree)
        facts = {**manifest, "protocol": PROTOCOL_VERSION, "env_steps": env_steps}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            target = self._folder / f"{env_steps:012d}-{self._next_number():04d}"
            partial = self._folder / f"{_PARTIAL}{target.name}"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            nbytes, digest = _write(partial / _STATE, parts)
            facts |= {"bytes": nbytes, "sha256": digest}
            _write(partial / _MANIFEST, [json.dumps(facts, indent=2, sort_keys=True).encode()])
            partial.rename(target)
            _sync_folder(self._folder)
        except OSError as error:
            raise CheckpointError(
                f"cannot write a checkpoint to {self._folder}: {error}; free or make room there"
            ) from error
        self._prune()
        return Saved(target, nbytes, env_steps)

    def latest(self) -> Checkpoint | None:
        """Return the newest checkpoint that verifies; None when there is none.

        A torn or damaged one is skipped with a warning. Raises `CheckpointError` when there are
        checkpoints and not one of them can be read, rather than starting the run over silently.
        """
        names = self._names()
        for name in reversed(names):
            try:
                return self._read(self._folder / name)
            except CheckpointError as error:
                _log.warning("%s; trying the one before", error)
        if names:
            raise CheckpointError(
                f"none of the {len(names)} checkpoints in {self._folder} can be read; "
                "move the folder away to start the run over"
            )
        return None

    def _names(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        names = [entry.name for entry in self._folder.iterdir() if _NAME.match(entry.name)]
        return sorted(names, key=_number)

    def _next_number(self) -> int:
        """Return one more than the largest number in use, so that numbers tell the order."""
        return max(map(_number, self._names()), default=0) + 1

    def _read(self, path: Path) -> Checkpoint:
        try:
            manifest = json.loads((path / _MANIFEST).read_bytes())
            payload = (path / _STATE).read_bytes()
        except (OSError, ValueError) as error:
            raise CheckpointError(f"checkpoint {path} is incomplete: {error}") from error
        if fingerprint(payload) != manifest.get("sha256"):
            raise CheckpointError(f"checkpoint {path} is damaged: its checksum does not match")
        try:
            return Checkpoint(path, manifest, decode_tree(payload))
        except WireError as error:
            raise CheckpointError(f"checkpoint {path} cannot be decoded: {error}") from error

    def _prune(self) -> None:
        for name in self._names()[: -self._keep]:
            shutil.rmtree(self._folder / name, ignore_errors=True)
        for leftover in self._folder.glob(f"{_PARTIAL}*"):
            shutil.rmtree(leftover, ignore_errors=True)


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _write(path: Path, parts: Iterable[bytes | memoryview]) -> tuple[int, str]:
    """Write `parts` durably; return their size and their SHA-256."""
    digest, nbytes = hashlib.sha256(), 0
    with path.open("wb") as file:
        for part in parts:
            flat = memoryview(part)
            if not flat.nbytes:
                continue  # an array without elements, whose view cannot be flattened
            flat = flat.cast("B")
            for start in range(0, len(flat), _PIECE):
                piece = flat[start : start + _PIECE]
                digest.update(piece)
                nbytes += file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return nbytes, digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
