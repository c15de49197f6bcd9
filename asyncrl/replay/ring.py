"""A ring of single transitions, drawn uniformly, whose columns are made for known spaces."""

from __future__ import annotations

import numpy as np

from asyncrl.data import ReplaySpec, SpaceSpec, Transitions
from asyncrl.replay.transitions import TransitionReplay


class RingReplay(TransitionReplay):
    """The last `capacity` transitions, drawn uniformly.

    Args:
        capacity: Transitions held at most.
        observation: Space of one observation.
        action: Space of one action.
        seed: Of the drawing.
    """

    def __init__(self, capacity: int, observation: SpaceSpec, action: SpaceSpec, seed: int) -> None:
        super().__init__(ReplaySpec(capacity=capacity), seed)
        obs = (observation.stored_dtype, observation.stored_shape)
        self._allocate(
            {
                "obs": obs,
                "action": (action.stored_dtype, action.stored_shape),
                "reward": (np.dtype(np.float32), ()),
                "terminated": (np.dtype(np.bool_), ()),
                "next_obs": obs,
            }
        )

    def sample(self, size: int, progress: float = 0.0) -> Transitions:
        """Draw `size` transitions; `progress` changes nothing."""
        return super().sample(size, progress)
