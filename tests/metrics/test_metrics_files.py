import csv
import json
from pathlib import Path
from typing import Any

import pytest

from asyncrl.metrics import CsvSink, Evaluation, JsonlSink, Level, Message, Progress
from asyncrl.metrics import files as files_module


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def progress(env_steps: int, **values: Any) -> Progress:
    return Progress(run="cartpole", env_steps=env_steps, total_steps=100, **values)


def evaluation(env_steps: int) -> Evaluation:
    return Evaluation(
        env_steps=env_steps,
        policy_version=1,
        episodes=5,
        mean_return=9.0,
        min_return=8.0,
        max_return=10.0,
        mean_length=9.0,
    )


def test_an_event_is_readable_in_the_file_as_soon_as_it_was_written(tmp_path: Path):
    path = tmp_path / "deep" / "metrics.jsonl"
    sink = JsonlSink(path, clock=lambda: 12.3456)
    sink.write(progress(10, mean_return=3.5, losses={"value": 0.25}))
    (line,) = lines(path)
    assert line["event"] == "progress"
    assert line["time"] == 12.346
    assert line["mean_return"] == 3.5
    assert line["losses"] == {"value": 0.25}
    assert "eval_return" not in line
    sink.close()


def test_nothing_is_made_before_the_first_event(tmp_path: Path):
    JsonlSink(tmp_path / "runs" / "a.jsonl").close()
    CsvSink(tmp_path / "runs" / "a.csv").close()
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_run_appends_and_an_unfinished_last_line_is_removed(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    first = JsonlSink(path)
    first.write(Message(level=Level.INFO, text="one"))
    first.close()
    with path.open("ab") as file:
        file.write(b'{"event":"progress","env_st')
    second = JsonlSink(path)
    second.write(Message(level=Level.INFO, text="two\nlines"))
    second.close()
    assert [line["text"] for line in lines(path)] == ["one", "two\nlines"]


def test_points_of_evaluation_and_training_out_of_step_order_are_all_kept(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    sink = JsonlSink(path)
    for event in (progress(100), evaluation(50), progress(90), evaluation(10)):
        sink.write(event)
    sink.close()
    assert [line["env_steps"] for line in lines(path)] == [100, 50, 90, 10]


def test_a_csv_row_has_empty_cells_for_what_is_not_known(tmp_path: Path):
    path = tmp_path / "progress.csv"
    sink = CsvSink(path, clock=lambda: 1.0)
    sink.write(evaluation(1))
    sink.write(progress(10))
    sink.write(progress(20, mean_return=1.5, lag_max=2))
    sink.close()
    first, second = rows(path)
    assert (first["env_steps"], first["mean_return"], first["lag_max"]) == ("10", "", "")
    assert (second["env_steps"], second["mean_return"], second["lag_max"]) == ("20", "1.5", "2")


def test_csv_columns_that_turn_up_late_are_added_to_earlier_rows_too(tmp_path: Path):
    path = tmp_path / "progress.csv"
    sink = CsvSink(path)
    sink.write(progress(10))
    sink.write(progress(20, losses={"value": 0.5}))
    sink.close()
    resumed = CsvSink(path)
    resumed.write(progress(30, losses={"value": 0.25}, counters={"dropped.stale": 3}))
    resumed.close()
    table = rows(path)
    assert [row["env_steps"] for row in table] == ["10", "20", "30"]
    assert [row["losses.value"] for row in table] == ["", "0.5", "0.25"]
    assert [row["counters.dropped.stale"] for row in table] == ["", "", "3"]
    assert [file.name for file in tmp_path.iterdir()] == ["progress.csv"]


def test_csv_columns_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files_module, "MAX_COLUMNS", 25)
    path = tmp_path / "progress.csv"
    sink = CsvSink(path)
    for step in range(20):
        sink.write(progress(step, env_metrics={f"name{step}": 1.0}))
    sink.close()
    table = rows(path)
    assert len(table) == 20
    assert len(table[0]) == 25


def test_an_unwritable_file_is_reported_once_and_never_raises(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    blocked = tmp_path / "a-file"
    blocked.write_text("in the way", encoding="utf-8")
    for sink in (JsonlSink(blocked / "m.jsonl"), CsvSink(blocked / "m.csv")):
        caplog.clear()
        for step in range(3):
            sink.write(progress(step))
        sink.close()
        (record,) = caplog.records
        assert "m.jsonl" in record.getMessage() or "m.csv" in record.getMessage()
        assert "the training goes on" in record.getMessage()


def test_a_full_disk_ends_the_sink_and_not_the_training(caplog: pytest.LogCaptureFixture):
    sink = JsonlSink("/dev/full")
    sink.write(progress(1))
    sink.write(progress(2))
    sink.close()
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text
