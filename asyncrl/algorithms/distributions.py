"""Log-probabilities and entropies of the policy heads, differentiable."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from asyncrl.algorithms.networks import MLP


def log_prob_entropy(policy: MLP, features: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-probability [N] of each action, and entropies: [N], or [] where all share one.

    Args:
        policy: A network with a categorical or Gaussian head.
        features: [N, inputs], see `MLP.features`.
        action: int64 [N], or [N, K] of the network's dtype for a Gaussian head.
    """
    outputs = policy.heads(features)
    if policy.spec.head == "gaussian":
        return gaussian(outputs, policy.log_std, action)
    return categorical(outputs, action)


def categorical(logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-probabilities [N] of `action` int64 [N], and entropies [N], of softmax(logits)."""
    log_probs = torch.log_softmax(logits, dim=1)
    entropy = -(log_probs.exp() * log_probs).sum(dim=1)
    return log_probs.gather(1, action[:, None]).squeeze(1), entropy


def gaussian(mean: Tensor, log_std: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-densities [N] of `action` [N, K] and the entropy [] of independent normals."""
    log_scale = log_std.sum() + 0.5 * math.log(2.0 * math.pi) * len(log_std)
    deviation = (action - mean) * torch.exp(-log_std)
    return -0.5 * deviation.square().sum(dim=1) - log_scale, log_scale + 0.5 * len(log_std)
