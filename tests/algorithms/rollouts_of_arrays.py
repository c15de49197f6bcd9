"""Trajectory batches made of random numbers, and the policies that act in them."""

from __future__ import annotations

import numpy as np

from asyncrl.algorithms.ppo import PPO, PPOUpdater
from asyncrl.data import HeadKind, PolicySpec, SpaceSpec, TrajectoryBatch
from asyncrl.policies import make_policy

BOX = SpaceSpec(kind="box", shape=(3,))
MOVES = SpaceSpec(kind="discrete", n=4, dtype="int64")
JOINTS = SpaceSpec(kind="box", shape=(2,))
DRAWN: tuple[HeadKind, ...] = ("categorical", "gaussian")


def small_spec(head: HeadKind = "categorical") -> PolicySpec:
    action = JOINTS if head == "gaussian" else MOVES
    return PolicySpec(observation=BOX, action=action, head=head, hidden=(6, 5))


def random_cuts(
    rng: np.random.Generator, steps: int, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return terminated and truncated [T, B] (sometimes both), and where: int32 [K, 2]."""
    terminated = rng.random((steps, width)) < 0.15
    truncated = rng.random((steps, width)) < 0.15
    return terminated, truncated, np.argwhere(terminated | truncated).astype(np.int32)


def acted_batch(updater: PPOUpdater, seed: int, steps: int = 8, width: int = 3) -> TrajectoryBatch:
    """Return a rollout of the updater's present policy through random observations."""
    rng = np.random.default_rng(seed)
    policy = make_policy(updater.actor.spec)
    policy.load(updater.acting_params())
    terminated, truncated, cuts = random_cuts(rng, steps, width)
    obs = rng.standard_normal((steps, width, 3)).astype(np.float32)
    acted = [policy.act(row, rng, exploration={}, greedy=False) for row in obs]
    batch = TrajectoryBatch(
        policy_id="policy",
        policy_version=1,
        obs=obs,
        action=np.stack([step.action for step in acted]),
        reward=rng.standard_normal((steps, width)).astype(np.float32),
        terminated=terminated,
        truncated=truncated,
        last_obs=rng.standard_normal((width, 3)).astype(np.float32),
        final_obs=rng.standard_normal((len(cuts), 3)).astype(np.float32),
        final_index=cuts,
        extras={"log_prob": np.stack([step.extras["log_prob"] for step in acted])},
    )
    batch.validate()
    return batch


def small_ppo(head: HeadKind = "categorical", *, seed: int = 0, config: PPO | None = None):
    """Return an updater for `small_spec(head)`."""
    config = config or PPO(epochs=2, minibatch_size=16, value_hidden=(7,))
    return config.build(small_spec(head), seed=seed)
