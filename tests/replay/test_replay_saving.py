from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_rollouts import counting_batch, random_batch

from asyncrl.data import ReplaySpec, Sequences, Transitions
from asyncrl.errors import ConfigError
from asyncrl.replay import Replay, make_replay
from asyncrl.wire import decode_tree, encode_tree

AnyReplay = Replay[Transitions | Sequences]
KINDS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "random": {"overwrite": "random"},
    "n_step": {"n_step": 3},
    "prioritized": {"prioritized": True},
    "prioritized_random_n_step": {"prioritized": True, "overwrite": "random", "n_step": 2},
    "sequences": {"sequence_length": 4, "burn_in": 1},
    "prioritized_sequences": {"sequence_length": 3, "prioritized": True, "overwrite": "random"},
}


def contents(sample: Transitions | Sequences) -> dict[str, bytes]:
    return {
        name: value.tobytes() if isinstance(value, np.ndarray) else b""
        for name, value in vars(sample).items()
    }


def use(replay: AnyReplay, seed: int) -> None:
    """Add, draw, add and report priorities, some of them late, as a learner does."""
    replay.add(random_batch(seed, 1 + seed % 7, 2, state_size=3))
    sample = replay.sample(5, 0.5)
    replay.add(random_batch(seed + 50, 3, 2, state_size=3))
    if sample.index is not None:
        errors = np.random.default_rng(seed).exponential(size=5)
        replay.update_priorities(sample.index, errors)


def used(spec: ReplaySpec, rounds: int) -> AnyReplay:
    replay = make_replay(spec, seed=5)
    for seed in range(2, 2 + rounds):
        use(replay, seed)
    return replay


@pytest.mark.parametrize("kind", KINDS)
@given(rounds=st.integers(0, 12), capacity=st.integers(6, 60))
def test_case_42_a_restored_replay_draws_and_goes_on_the_same(
    kind: str, rounds: int, capacity: int
):
    spec = ReplaySpec(capacity=capacity, **KINDS[kind])
    replay = used(spec, rounds)
    saved = encode_tree(replay.state())
    restored = make_replay(spec, seed=99)
    restored.load_state(decode_tree(saved))
    assert len(restored) == len(replay)
    assert restored.inserted == replay.inserted
    assert restored.missed_priorities == replay.missed_priorities
    if rounds:
        assert contents(replay.sample(7, 0.3)) == contents(restored.sample(7, 0.3))
    for seed in range(20, 26):
        use(replay, seed)
        use(restored, seed)
    assert contents(replay.sample(7, 0.3)) == contents(restored.sample(7, 0.3))
    assert encode_tree(replay.state()) == encode_tree(restored.state())


@pytest.mark.parametrize("kind", KINDS)
def test_a_used_replay_can_go_back_to_a_state(kind: str):
    replay = used(ReplaySpec(capacity=30, **KINDS[kind]), 8)
    saved = encode_tree(replay.state())
    first = contents(replay.sample(9, 0.0))
    for seed in range(30, 35):
        use(replay, seed)
    replay.load_state(decode_tree(saved))
    assert encode_tree(replay.state()) == saved
    assert contents(replay.sample(9, 0.0)) == first


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_is_not_changed_by_what_follows(kind: str):
    replay = used(ReplaySpec(capacity=30, **KINDS[kind]), 8)
    state = replay.state()
    saved = encode_tree(state)
    for seed in range(30, 35):
        use(replay, seed)
    assert encode_tree(state) == saved


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_is_a_copy(kind: str):
    replay = used(ReplaySpec(capacity=30, **KINDS[kind]), 8)
    before = encode_tree(replay.state())
    sample = replay.sample(3, 0.0)
    for value in vars(sample).values():
        if isinstance(value, np.ndarray):
            value[...] = 0
    changed = replay.state()
    changed["rng"] = decode_tree(before)["rng"]
    assert encode_tree(changed) == before


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("capacity", 31),
        ("overwrite", "ring"),
        ("n_step", 2),
        ("gamma", 0.5),
        ("alpha", 0.7),
        ("prioritized", False),
    ],
)
def test_the_state_of_other_settings_is_refused_and_changes_nothing(option: str, value: Any):
    settings: dict[str, Any] = {
        "capacity": 30,
        "overwrite": "random",
        "n_step": 3,
        "prioritized": True,
    }
    state = used(ReplaySpec(**settings), 4).state()
    other = make_replay(ReplaySpec(**(settings | {option: value})), seed=0)
    with pytest.raises(ConfigError, match=f"{option}=.* the run was started with"):
        other.load_state(state)
    assert len(other) == other.nbytes == 0


def test_the_state_of_other_spaces_is_refused_and_changes_nothing():
    state = used(ReplaySpec(capacity=30), 4).state()
    other = make_replay(ReplaySpec(capacity=30), seed=0)
    other.add(counting_batch(0, 3))
    before = encode_tree(other.state())
    with pytest.raises(ConfigError, match="the run was started with"):
        other.load_state(state)
    assert encode_tree(other.state()) == before


# -- files ---------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Path]:
    """A folder that a test must leave without files."""
    folder = tmp_path / "replay"
    yield folder
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_files_change_nothing_but_where_the_data_are(kind: str, files: Path):
    in_memory = used(ReplaySpec(capacity=30, **KINDS[kind]), 8)
    on_disk = used(ReplaySpec(capacity=30, directory=str(files), **KINDS[kind]), 8)
    assert contents(on_disk.sample(9, 0.0)) == contents(in_memory.sample(9, 0.0))
    saved = encode_tree(on_disk.state())
    assert saved == encode_tree(in_memory.state())
    restored = make_replay(ReplaySpec(capacity=30, directory=str(files), **KINDS[kind]), seed=1)
    restored.load_state(decode_tree(saved))
    assert contents(restored.sample(9, 0.0)) == contents(in_memory.sample(9, 0.0))
    for replay in (on_disk, restored):
        replay.close()


def test_the_columns_are_mapped_files(files: Path):
    replay = used(ReplaySpec(capacity=30, directory=str(files)), 1)
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("only Linux lists what a process has mapped")
    mapped = [line for line in maps.read_text().splitlines() if str(files) in line]
    assert len(mapped) == 5  # obs, action, reward, terminated, next_obs
    replay.close()
    assert str(files) not in maps.read_text()


def test_replays_share_a_folder(files: Path):
    replays = [make_replay(ReplaySpec(capacity=9, directory=str(files)), seed=0) for _ in range(2)]
    for first, replay in enumerate(replays):
        replay.add(counting_batch(100 * first, 9))
    for first, replay in enumerate(replays):
        assert (replay.sample(20, 0.0).reward // 100 == first).all()
        replay.close()


def test_a_disk_too_small_is_refused_before_anything_is_written(files: Path):
    replay = make_replay(ReplaySpec(capacity=10**15, directory=str(files)), seed=0)
    with pytest.raises(ConfigError, match="bytes are needed"):
        replay.add(counting_batch(0, 3))


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path):
    taken = tmp_path / "file"
    taken.touch()
    replay = make_replay(ReplaySpec(capacity=3, directory=str(taken)), seed=0)
    with pytest.raises(ConfigError, match=r"directory=.* choose another"):
        replay.add(counting_batch(0, 3))


def test_a_replay_larger_than_memory_is_refused():
    replay = make_replay(ReplaySpec(capacity=10**16), seed=0)
    with pytest.raises(ConfigError, match=r"capacity=10000000000000000: .* cannot be had"):
        replay.add(counting_batch(0, 3))


def test_bytes_are_those_of_the_full_replay():
    replay = make_replay(ReplaySpec(capacity=100), seed=0)
    assert replay.nbytes == 0
    replay.add(counting_batch(0, 3))
    assert replay.nbytes == 100 * (4 + 8 + 4 + 1 + 4)
