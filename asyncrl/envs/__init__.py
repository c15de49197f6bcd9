"""Environments: made from data, stepped side by side, checked at their edge.

The one door to Gymnasium.
"""

from asyncrl.envs.batch import EnvBatch, StepBatch
from asyncrl.envs.build import EnvDescription, describe, make_env_batch
from asyncrl.envs.edges import ActionEdge, ObservationEdge
from asyncrl.envs.episodes import EpisodeTracker
from asyncrl.envs.failing import EdgeError, environment_failure, unpack_reset, unpack_step
from asyncrl.envs.make import make_env
from asyncrl.envs.spaces import space_spec

__all__ = [
    "ActionEdge",
    "EdgeError",
    "EnvBatch",
    "EnvDescription",
    "EpisodeTracker",
    "ObservationEdge",
    "StepBatch",
    "describe",
    "environment_failure",
    "make_env",
    "make_env_batch",
    "space_spec",
    "unpack_reset",
    "unpack_step",
]
