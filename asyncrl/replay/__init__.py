"""Experience replay: what was collected, kept for learning from it many times. No event loop."""

from asyncrl.replay.limiter import SamplesPerInsertLimiter
from asyncrl.replay.ring import RingReplay

__all__ = ["RingReplay", "SamplesPerInsertLimiter"]
