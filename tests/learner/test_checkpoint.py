"""Checkpoints are whole or absent, verified, and the newest that verifies wins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from asyncrl.errors import CheckpointError
from asyncrl.learner.checkpoint import CheckpointStore


def save(store: CheckpointStore, steps: int) -> Path:
    tree = {"weights": np.arange(steps, dtype=np.float32), "big": 2**127, "none": None}
    return store.save(tree, {"run": "r"}, steps).path


def test_what_is_saved_is_what_is_loaded(tmp_path: Path):
    store = CheckpointStore(tmp_path)
    save(store, 5)
    found = store.latest()
    assert found is not None
    np.testing.assert_array_equal(found.tree["weights"], np.arange(5, dtype=np.float32))
    assert found.tree["big"] == 2**127
    assert found.tree["none"] is None
    assert found.manifest["run"] == "r"
    assert found.manifest["env_steps"] == 5


def test_no_checkpoint_is_none(tmp_path: Path):
    assert CheckpointStore(tmp_path / "missing").latest() is None


def test_only_the_newest_are_kept_and_nothing_half_written_stays(tmp_path: Path):
    store = CheckpointStore(tmp_path, keep=2)
    (tmp_path / ".partial-000000000001-0001").mkdir()
    for steps in (10, 20, 30):
        save(store, steps)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000000000020-0002", "000000000030-0003"]


def test_the_newest_is_told_by_when_it_was_written_not_by_its_steps(tmp_path: Path):
    store = CheckpointStore(tmp_path)
    save(store, 300)
    save(store, 200)  # went on from an older checkpoint, the newer one being damaged
    found = store.latest()
    assert found is not None
    assert found.manifest["env_steps"] == 200


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "manifest"])
def test_a_damaged_checkpoint_is_skipped_for_the_one_before(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
):
    store = CheckpointStore(tmp_path)
    save(store, 10)
    newest = save(store, 20)
    state = newest / "state.arl"
    payload = state.read_bytes()
    if damage == "truncate":
        state.write_bytes(payload[:-1])
    elif damage == "flip":
        state.write_bytes(payload[:-1] + bytes([payload[-1] ^ 1]))
    elif damage == "remove":
        state.unlink()
    else:
        (newest / "manifest.json").write_text("{")
    found = store.latest()
    assert found is not None
    assert found.manifest["env_steps"] == 10
    assert newest.name in caplog.text


def test_when_none_can_be_read_the_run_does_not_start_over_silently(tmp_path: Path):
    store = CheckpointStore(tmp_path)
    (save(store, 10) / "state.arl").write_bytes(b"")
    with pytest.raises(CheckpointError, match="none of the 1 checkpoints"):
        store.latest()


def test_a_full_disk_names_the_folder(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"cannot write a checkpoint to .*file"):
        save(CheckpointStore(tmp_path / "file"), 1)
