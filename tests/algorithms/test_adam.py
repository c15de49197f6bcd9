"""Our Adam against torch's, in float64, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from asyncrl.algorithms.optimiser import Adam


def modules(seed: int = 0) -> list[nn.Module]:
    torch.manual_seed(seed)
    return [nn.Linear(3, 4).double(), nn.Linear(4, 2).double()]


def fill(parts: list[nn.Module], step: int) -> None:
    """Give every parameter the same made-up gradient, whoever optimises it."""
    numbers = torch.Generator().manual_seed(step)
    for part in parts:
        for parameter in part.parameters():
            made = torch.randn(parameter.shape, generator=numbers, dtype=torch.float64)
            assert parameter.grad is None or parameter.grad.shape == made.shape
            if parameter.grad is None:
                parameter.grad = made.clone()
            else:
                parameter.grad.copy_(made)


def flat(parts: list[nn.Module]) -> np.ndarray:
    values = [p.detach().reshape(-1) for part in parts for p in part.parameters()]
    return torch.cat(values).numpy()


@pytest.mark.parametrize("max_grad_norm", [None, 0.5, 100.0])
def test_it_steps_as_torchs_adam_does(max_grad_norm: float | None):
    ours, theirs = modules(), modules()
    adam = Adam(ours, eps=1e-5, max_grad_norm=max_grad_norm)
    parameters = [p for part in theirs for p in part.parameters()]
    reference = torch.optim.Adam(parameters, eps=1e-5)
    for step in range(50):
        rate = 1e-2 * (1 - step / 50)
        adam.zero_grad()
        fill(ours, step)
        fill(theirs, step)
        norm = adam.step(rate)
        bound = math.inf if max_grad_norm is None else max_grad_norm
        expected = nn.utils.clip_grad_norm_(parameters, bound)
        assert norm == pytest.approx(float(expected))
        reference.param_groups[0]["lr"] = rate
        reference.step()
    np.testing.assert_allclose(flat(ours), flat(theirs), rtol=1e-5, atol=1e-8)


def test_the_first_step_is_the_learning_rate_against_the_gradients_sign():
    part = nn.Linear(1, 1, bias=False).double()
    before = float(part.weight.detach())
    adam = Adam([part], eps=0.0)
    adam.zero_grad()
    assert part.weight.grad is not None
    part.weight.grad.fill_(-7.0)
    adam.step(0.1)
    assert float(part.weight.detach()) == pytest.approx(before + 0.1)
