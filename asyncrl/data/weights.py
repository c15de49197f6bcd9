"""Weights as they are published: what actors act with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True, eq=False)
class PolicyWeights:
    """Acting parameters of one policy."""

    version: int
    """Policy version: how many different weights of this policy have been published, this one
    included."""
    params: Mapping[str, np.ndarray]
    """Parameter name -> float32 array, as `PolicySpec` lays them out."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightSet:
    """Everything published at once: one entry a policy. (generation, version) only ever grows."""

    generation: int
    """Generation of the learner that published it; 0 without a broker."""
    version: int
    """1 for the run's first weight set; a restarted learner goes on counting."""
    policies: Mapping[str, PolicyWeights]
