"""A replay for a spec."""

from __future__ import annotations

from asyncrl.data import ReplaySpec, Sequences, Transitions
from asyncrl.replay.protocol import Replay
from asyncrl.replay.sequences import SequenceReplay
from asyncrl.replay.transitions import TransitionReplay


def make_replay(spec: ReplaySpec, *, seed: int) -> Replay[Transitions | Sequences]:
    """Return an empty replay of `Sequences` if `spec` gives them a length, else of `Transitions`.

    Args:
        spec: Settings.
        seed: Of drawing and of random overwriting, at least 0.

    Raises:
        ConfigError: `beta` is no schedule of numbers in [0, 1].
    """
    kind = SequenceReplay if spec.sequence_length else TransitionReplay
    return kind(spec, seed)
