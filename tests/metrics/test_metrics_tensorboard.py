import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asyncrl.errors import MissingExtraError
from asyncrl.metrics import Evaluation, Level, Message, Progress, TensorBoardSink


def progress(env_steps: int, **values: Any) -> Progress:
    return Progress(run="cartpole", env_steps=env_steps, total_steps=100, **values)


def evaluation(env_steps: int, mean_return: float) -> Evaluation:
    return Evaluation(
        env_steps=env_steps,
        policy_version=1,
        episodes=5,
        mean_return=mean_return,
        min_return=0.0,
        max_return=10.0,
        mean_length=9.0,
        env_metrics={"distance": 2.0},
    )


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard's own reader makes of the folder: tag -> [(step, value)]."""
    accumulators: Any = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    accumulator = accumulators.EventAccumulator(str(directory), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {
        tag: [(point.step, point.value) for point in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }


def test_tensorboard_reads_progress_and_evaluation_over_env_steps(tmp_path: Path):
    sink = TensorBoardSink(tmp_path / "tb")
    sink.write(Message(level=Level.INFO, text="no scalar"))
    sink.write(
        progress(
            10, mean_return=1.5, losses={"value": 0.5}, counters={"dropped.stale": 2}, lag_max=0
        )
    )
    sink.write(evaluation(10, 4.0))
    sink.close()
    points = scalars(tmp_path / "tb")
    assert points["train/mean_return"] == [(10, 1.5)]
    assert points["loss/value"] == [(10, 0.5)]
    assert points["counter/dropped.stale"] == [(10, 2.0)]
    assert points["lag/max"] == [(10, 0.0)]
    assert points["eval/mean_return"] == [(10, 4.0)]
    assert points["eval_env/distance"] == [(10, 2.0)]


def test_points_whose_step_goes_back_are_not_dropped(tmp_path: Path):
    sink = TensorBoardSink(tmp_path)
    for step in (100, 90, 110):
        sink.write(progress(step, mean_return=float(step)))
        sink.write(evaluation(step - 50, float(step)))
    sink.close()
    points = scalars(tmp_path)
    assert points["train/mean_return"] == [(100, 100.0), (90, 90.0), (110, 110.0)]
    assert points["eval/mean_return"] == [(50, 100.0), (40, 90.0), (60, 110.0)]


def test_a_value_that_is_absent_or_not_finite_is_no_point(tmp_path: Path):
    sink = TensorBoardSink(tmp_path)
    sink.write(progress(1, losses={"policy": float("nan"), "value": 1.0}))
    sink.close()
    points = scalars(tmp_path)
    assert "train/mean_return" not in points
    assert "loss/policy" not in points
    assert points["loss/value"] == [(1, 1.0)]


def test_a_resumed_run_adds_a_file_that_is_read_after_the_first(tmp_path: Path):
    for generation, step in ((1, 10), (2, 5)):
        sink = TensorBoardSink(tmp_path, clock=lambda: 1000.0)
        sink.write(progress(step, mean_return=float(generation)))
        sink.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [name.split(".")[3] for name in names] == ["0000001000", "0000001001"]
    assert scalars(tmp_path)["train/mean_return"] == [(10, 1.0), (5, 2.0)]


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"asyncrl\[tensorboard\]"):
        TensorBoardSink(tmp_path)


def test_an_unwritable_folder_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    blocked = tmp_path / "a-file"
    blocked.write_text("in the way", encoding="utf-8")
    sink = TensorBoardSink(blocked / "tb")
    sink.write(progress(1))
    sink.write(progress(2))
    sink.close()
    assert len(caplog.records) == 1


def test_writing_needs_neither_torch_nor_tensorflow_and_the_package_is_light():
    code = (
        "import sys, tempfile\n"
        "import asyncrl.metrics as m\n"
        "assert not {'rich', 'tensorboard', 'google', 'numpy'} & set(sys.modules), 'not light'\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    sink = m.TensorBoardSink(folder)\n"
        "    sink.write(m.Progress(run='r', env_steps=1, total_steps=2))\n"
        "    sink.close()\n"
        "assert not {'torch', 'tensorflow'} & set(sys.modules), 'heavy'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
