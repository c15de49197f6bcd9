"""From the trajectory batches of a round to one set of rows to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncrl.algorithms.device import to_tensor
from asyncrl.algorithms.networks import MLP
from asyncrl.algorithms.returns import gae
from asyncrl.data.batch import TrajectoryBatch
from asyncrl.errors import InvalidBatchError


class Rows(NamedTuple):
    """N transitions, in no order that matters; on one device, floats of the networks' dtype."""

    features: Tensor
    """[N, inputs]: what the networks' first layers take."""
    action: Tensor
    """int64 [N], or [N, K]."""
    log_prob: Tensor
    """[N]: log-probability of `action` when it was chosen."""
    advantage: Tensor
    """[N]."""
    target: Tensor
    """[N]: return to learn the value of."""
    value: Tensor
    """[N]: value before the update."""


def prepare(batches: Sequence[TrajectoryBatch], critic: MLP, gamma: float, lam: float) -> Rows:
    """Return the rows of all batches, whatever their lengths and widths, with advantages by GAE.

    The critic runs once, over every observation and every end. Where an episode was truncated, and
    after the last row, its value stands for the future; traces stop at every end of an episode.

    Raises:
        InvalidBatchError: There is no batch, or one lacks the behaviour log-probabilities.
    """
    if not batches:
        raise InvalidBatchError("an update needs at least one trajectory batch, and got none")
    obs = [_flat(batch.obs) for batch in batches]
    ends = [part for batch in batches for part in (batch.last_obs, batch.final_obs)]
    device, dtype = critic.device, critic.dtype
    features = critic.features(to_tensor(np.concatenate([*obs, *ends]), device))
    with torch.no_grad():
        values = critic.heads(features).squeeze(1)
    rows = sum(batch.transitions for batch in batches)
    advantage = _advantages(batches, values.double().cpu().numpy(), gamma, lam)
    advantages = to_tensor(advantage, device, dtype)
    action = np.concatenate([_flat(batch.action) for batch in batches])
    if action.dtype.kind == "f":
        action = action.reshape(rows, -1)
    return Rows(
        features=features[:rows],
        action=to_tensor(action, device, dtype if action.dtype.kind == "f" else torch.int64),
        log_prob=to_tensor(np.concatenate([_log_prob(batch) for batch in batches]), device, dtype),
        advantage=advantages,
        target=advantages + values[:rows],
        value=values[:rows],
    )


def _advantages(
    batches: Sequence[TrajectoryBatch], values: np.ndarray, gamma: float, lam: float
) -> np.ndarray:
    """Return float64 [N]; `values` are of all rows, then of each batch's last and final ones."""
    start, end = 0, sum(batch.transitions for batch in batches)
    advantages: list[np.ndarray] = []
    for batch in batches:
        value = values[start : start + batch.transitions].reshape(batch.steps, batch.width)
        next_value = np.concatenate([value[1:], values[None, end : end + batch.width]])
        start, end = start + batch.transitions, end + batch.width
        cuts = batch.final_index
        next_value[cuts[:, 0], cuts[:, 1]] = values[end : end + len(cuts)]
        end += len(cuts)
        reward = batch.reward.astype(np.float64)
        ends = batch.terminated, batch.truncated
        advantages.append(gae(reward, value, next_value, *ends, gamma, lam).reshape(-1))
    return np.concatenate(advantages)


def _flat(array: np.ndarray) -> np.ndarray:
    """Join the two leading axes, [T, B, ...] -> [T * B, ...]."""
    return array.reshape(-1, *array.shape[2:])


def _log_prob(batch: TrajectoryBatch) -> np.ndarray:
    log_prob = batch.extras.get("log_prob")
    if log_prob is None or log_prob.shape != batch.reward.shape:
        raise InvalidBatchError(
            f"policy {batch.policy_id!r}: extras hold {sorted(batch.extras)}; this algorithm needs"
            f' "log_prob" of shape {batch.reward.shape}, recorded by the policy that acted'
        )
    return _flat(log_prob)
