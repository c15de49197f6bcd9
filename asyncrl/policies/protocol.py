"""What a rollout needs of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from asyncrl.data.spec import PolicySpec


class Acted(NamedTuple):
    """What a policy did for N observations."""

    action: np.ndarray
    """int64 [N] for a discrete space, zero-based; float32 [N, *action shape], raw, for a box."""
    extras: dict[str, np.ndarray]
    """What to keep with each step, [N, ...] each: ``"log_prob"`` float32 [N], the log-probability
    (density, for a box) of `action` under the policy that chose it; nothing for action values."""


class Policy(Protocol):
    """Acts with weights it was given. Random numbers come from the caller alone."""

    @property
    def spec(self) -> PolicySpec:
        """The shape of the network."""
        ...

    def load(self, params: Mapping[str, np.ndarray]) -> None:
        """Act with copies of `params` from now on; all of them, or on an error none.

        Raises:
            DataError: Names, shapes, dtypes or numbers are not those of weights for `spec`.
        """
        ...

    def act(
        self,
        obs: np.ndarray,
        rng: np.random.Generator,
        *,
        exploration: Mapping[str, float],
        greedy: bool,
    ) -> Acted:
        """Choose an action for each of N observations.

        Args:
            obs: [N, *observation shape]; int64 [N] for a discrete space.
            rng: Drawn from only where the choice is random.
            exploration: Parameters of the rollout job: ``"epsilon"`` for action values, else none.
            greedy: Take the likeliest or most valuable action, or the mean, and ignore
                `exploration`.

        Raises:
            StateError: No weights were loaded.
            DataError: Observations are of another shape, or an exploration parameter is unknown or
                out of range.
        """
        ...
