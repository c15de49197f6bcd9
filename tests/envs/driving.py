"""A small loop over a batch that records transitions as a rollout would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from asyncrl.data import EnvSpec, EpisodeStats, derive_seed
from asyncrl.envs import EnvBatch, EpisodeTracker, make_env_batch


@dataclass
class Recorded:
    """Valid rows of each environment, in order: (obs, reward, next obs, ended)."""

    rows: list[list[tuple[np.ndarray, float, np.ndarray, bool]]]
    episodes: EpisodeStats = field(default_factory=EpisodeStats)
    first: list[np.ndarray] = field(default_factory=list[np.ndarray])


def batch_of(name: str, num_envs: int = 1, /, **kwargs: object) -> EnvBatch:
    return make_env_batch(EnvSpec(env=f"env_stand_ins:{name}", kwargs=kwargs), num_envs)


def seeder(*parts: int | str) -> Callable[[int], int]:
    """Return next_seed: a new seed at every call."""
    calls = [0]

    def next_seed(b: int) -> int:
        calls[0] += 1
        return derive_seed(*parts, b, calls[0])

    return next_seed


def zeros(batch: EnvBatch) -> np.ndarray:
    dtype = np.int64 if batch.action.kind == "discrete" else np.float32
    return np.zeros((batch.num_envs, *batch.action.shape), dtype)


def drive(batch: EnvBatch, steps: int) -> Recorded:
    tracker = EpisodeTracker(batch.num_envs)
    recorded = Recorded([[] for _ in range(batch.num_envs)])
    obs = batch.reset([derive_seed("drive", b) for b in range(batch.num_envs)])
    recorded.first = list(obs)
    next_seed = seeder("drive")
    for _ in range(steps):
        step = batch.step(zeros(batch), next_seed)
        ended = step.terminated | step.truncated
        tracker.add(step.reward, ended, step.valid)
        for b in np.flatnonzero(step.valid):
            following = step.final_obs[int(b)] if ended[b] else step.obs[b]
            row = (obs[b], float(step.reward[b]), following, bool(ended[b]))
            recorded.rows[int(b)].append(row)
        assert list(step.final_obs) == np.flatnonzero(ended).tolist()
        obs = step.obs
    recorded.episodes = tracker.take()
    return recorded
