"""Losses: free functions of tensors, read next to the paper they come from."""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_surrogate(ratio: Tensor, advantage: Tensor, clip_range: float) -> Tensor:
    """Return PPO's policy loss: minus the mean clipped surrogate objective.

    Schulman et al. 2017, https://arxiv.org/abs/1707.06347, equation 7:
    L = E[min(ratio A, clip(ratio, 1 - c, 1 + c) A)].

    Args:
        ratio: [N], probability now over probability when acting.
        advantage: [N].
        clip_range: c.
    """
    clipped = ratio.clamp(1.0 - clip_range, 1.0 + clip_range)
    return -torch.minimum(ratio * advantage, clipped * advantage).mean()


def squared_value_loss(
    value: Tensor, target: Tensor, old_value: Tensor, clip_range: float | None
) -> Tensor:
    """Return the mean squared error of values [N] to targets [N].

    With a `clip_range`, the larger of this error and that of the value held within the range around
    `old_value`, as in OpenAI's reference implementation of PPO: a value may not leave the range in
    one update. (Its worth is doubted: Andrychowicz et al. 2021, https://arxiv.org/abs/2006.05990.)
    """
    error = (value - target).square()
    if clip_range is None:
        return error.mean()
    held = old_value + (value - old_value).clamp(-clip_range, clip_range)
    return torch.maximum(error, (held - target).square()).mean()


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """Estimate KL(acting policy || current policy), [], from the log-ratios [N] of its actions.

    The mean of (ratio - 1) - log ratio: unbiased, never negative (Schulman 2020,
    http://joschu.net/blog/kl-approx.html).
    """
    return (torch.expm1(log_ratio) - log_ratio).mean()


def normalised(advantage: Tensor) -> Tensor:
    """Return advantages [N] with mean 0 and standard deviation 1; one alone becomes 0."""
    centred = advantage - advantage.mean()
    return centred / (centred.square().mean().sqrt() + 1e-8)


def explained_variance(prediction: Tensor, target: Tensor) -> float:
    """Return 1 - Var(target - prediction) / Var(target): 1 is perfect, 0 no better than a constant.

    It is 0 where the targets do not vary.
    """
    variance = target.var(correction=0)
    if variance == 0:
        return 0.0
    return 1.0 - float((target - prediction).var(correction=0) / variance)
