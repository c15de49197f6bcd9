"""From the network's outputs to actions: one pure function a head.

Each takes outputs float32 [N, K] and returns actions and, where actions are drawn, their exact
log-probabilities float32 [N].
"""

from __future__ import annotations

import math

import numpy as np

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def categorical(
    logits: np.ndarray, rng: np.random.Generator | None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw from softmax(logits) by inverting its CDF, or take the likeliest where `rng` is None.

    One uniform number a row is drawn. Sums are float64, so that thousands of actions lose nothing.
    """
    shifted = logits - logits.max(axis=1, keepdims=True)
    cumulative = np.exp(shifted).cumsum(axis=1, dtype=np.float64)
    total = cumulative[:, -1]
    if rng is None:
        action = logits.argmax(axis=1)
    else:
        threshold = rng.random(len(logits)) * total
        action = (cumulative[:, :-1] <= threshold[:, None]).sum(axis=1)
    log_prob = shifted[np.arange(len(logits)), action] - np.log(total)
    return action, log_prob.astype(np.float32)


def gaussian(
    mean: np.ndarray, log_std: np.ndarray, rng: np.random.Generator | None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw from independent normals, or take the mean where `rng` is None; actions [N, K].

    The log-density is that of the rounded float32 action, summed over the K dimensions: what a
    learner computes again from the stored action.
    """
    log_scale = float(log_std.sum(dtype=np.float64)) + HALF_LOG_2PI * mean.shape[1]
    if rng is None:
        return mean, np.full(len(mean), -log_scale, np.float32)
    std = np.exp(log_std)
    action = mean + std * rng.standard_normal(mean.shape, np.float32)
    deviation = (action - mean) / std
    log_prob = -0.5 * np.square(deviation).sum(axis=1) - log_scale
    return action, log_prob.astype(np.float32)


def epsilon_greedy(
    values: np.ndarray, rng: np.random.Generator | None, epsilon: float
) -> np.ndarray:
    """Take the action of highest value, or with probability `epsilon` any action alike.

    Nothing is drawn where `rng` is None or `epsilon` is 0.
    """
    action = values.argmax(axis=1)
    if rng is None or epsilon == 0.0:
        return action
    explore = rng.random(len(values)) < epsilon
    return np.where(explore, rng.integers(values.shape[1], size=len(values)), action)
