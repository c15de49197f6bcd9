"""Experience replay: what was collected, kept for learning from it many times. No event loop."""

from asyncrl.replay.limiter import SamplesPerInsertLimiter
from asyncrl.replay.make import make_replay
from asyncrl.replay.protocol import Replay
from asyncrl.replay.ring import RingReplay
from asyncrl.replay.sequences import SequenceReplay
from asyncrl.replay.store import Selection, Store
from asyncrl.replay.transitions import TransitionReplay

__all__ = [
    "Replay",
    "RingReplay",
    "SamplesPerInsertLimiter",
    "Selection",
    "SequenceReplay",
    "Store",
    "TransitionReplay",
    "make_replay",
]
