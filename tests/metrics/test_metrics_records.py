import json
from pathlib import Path

import numpy as np
import pytest

from asyncrl.metrics import (
    ActorChange,
    ActorChanged,
    Checkpointed,
    Evaluation,
    Event,
    JobFailed,
    JobReassigned,
    Level,
    Message,
    Progress,
)
from asyncrl.metrics.records import as_columns, as_record, event_name, finite
from asyncrl.metrics.text import describe

EVENTS: list[Event] = [
    Progress(run="r", env_steps=1, total_steps=2),
    Evaluation(
        env_steps=1,
        policy_version=1,
        episodes=2,
        mean_return=1.0,
        min_return=0.0,
        max_return=2.0,
        mean_length=3.0,
    ),
    ActorChanged(actor="a", change=ActorChange.DEAD),
    JobFailed(actor="a", job="j", attempt=1, where="step 1", cause="ValueError: no"),
    JobReassigned(job="j", actor="a", attempt=2, reason="dead"),
    Checkpointed(path="p", env_steps=1, updates=1),
    Message(level=Level.INFO, text="hello"),
]


def test_every_event_has_a_name_of_its_own_and_survives_json():
    names = [event_name(event) for event in EVENTS]
    assert names == [
        "progress",
        "evaluation",
        "actor_changed",
        "job_failed",
        "job_reassigned",
        "checkpointed",
        "message",
    ]
    for event in EVENTS:
        record = as_record(event)
        assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_every_event_but_progress_is_one_line_to_a_reader():
    for event in EVENTS:
        line = describe(event)
        if isinstance(event, Progress):
            assert line is None
        else:
            assert line is not None
            assert line.text
            assert "\n" not in line.text


def test_a_mean_return_before_any_episode_ended_is_absent_not_nan():
    record = as_record(Progress(run="r", env_steps=5, total_steps=10))
    assert "mean_return" not in record
    assert "lag_mean" not in record
    assert record["env_steps"] == 5


def test_non_finite_numbers_are_left_out_at_every_depth():
    progress = Progress(
        run="r",
        env_steps=1,
        total_steps=2,
        mean_return=float("nan"),
        losses={"policy": float("inf"), "value": 0.5},
    )
    record = as_record(progress)
    assert "mean_return" not in record
    assert record["losses"] == {"value": 0.5}
    assert as_columns(progress)["losses.value"] == 0.5
    assert "losses.policy" not in as_columns(progress)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (2**70, 2**70),
        (float("-inf"), None),
        (np.float64("nan"), None),
        (True, None),
        ("3", None),
        (None, None),
    ],
)
def test_numpy_and_python_numbers_become_plain_ones(value: object, number: float | None):
    result = finite(value)
    assert result == number
    assert type(result) in {int, float, type(None)}


def test_a_path_given_where_text_belongs_is_still_written():
    event = Checkpointed(path=Path("runs") / "x", env_steps=1, updates=1)  # pyright: ignore[reportArgumentType]
    assert as_record(event)["path"] == "runs/x"
