from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rollouts_of_arrays import DRAWN, acted_batch, small_ppo, small_spec

from asyncrl.algorithms.losses import (
    approximate_kl,
    clipped_surrogate,
    explained_variance,
    normalised,
    squared_value_loss,
)
from asyncrl.algorithms.ppo import PPO, PPOUpdater
from asyncrl.algorithms.rows import Rows, prepare
from asyncrl.data import HeadKind, TrajectoryBatch

CONFIGS = {
    "plain": PPO(normalize_advantage=False, value_hidden=(7,)),
    "everything": PPO(value_clip=0.1, entropy_coef=0.03, value_coef=0.7, value_hidden=(7,)),
}


def tensors(*columns: list[float]) -> list[torch.Tensor]:
    return [torch.tensor(column, dtype=torch.float64) for column in columns]


def test_surrogate_by_hand():
    ratio, advantage = tensors([1.5, 1.5, 0.5, 0.5, 1.1], [1.0, -1.0, 1.0, -1.0, 2.0])
    # min of: 1.5|1.2, -1.5|-1.2, .5|.8, -.5|-.8, 2.2|2.2
    expected = -(1.2 - 1.5 + 0.5 - 0.8 + 2.2) / 5
    assert clipped_surrogate(ratio, advantage, 0.2).item() == pytest.approx(expected)


def test_value_loss_by_hand():
    value, target, old = tensors([2.0, 0.2, 1.2], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    free = squared_value_loss(value, target, old, None)
    assert free.item() == pytest.approx((4.0 + 0.04 + 1.44) / 3)
    # Held within .5 of 1 the values are 1.5, .5 and 1.2; the larger error counts.
    held = squared_value_loss(value, target, old, 0.5)
    assert held.item() == pytest.approx((4.0 + 0.25 + 1.44) / 3)


def test_a_value_past_its_clip_range_learns_nothing_more():
    value, target, old = tensors([0.2], [0.0], [1.0])
    value.requires_grad_()
    squared_value_loss(value, target, old, 0.5).backward()
    assert value.grad is not None
    assert value.grad.item() == 0.0


def test_approximate_kl_by_hand():
    assert approximate_kl(torch.tensor([math.log(2.0)])).item() == pytest.approx(1 - math.log(2.0))
    assert approximate_kl(torch.zeros(3)).item() == 0.0


def test_normalised_advantages_and_explained_variance_by_hand():
    advantage, prediction, constant = tensors([1.0, 3.0], [1.0, 2.0], [4.0, 4.0])
    torch.testing.assert_close(normalised(advantage), torch.tensor([-1.0, 1.0]).double())
    assert normalised(advantage[:1]).tolist() == [0.0]
    assert explained_variance(prediction, advantage) == pytest.approx(0.75)  # 1 - .25 / 1
    assert explained_variance(prediction, constant) == 0.0


class Reference:
    """PPO's loss again, in NumPy, as a function of one flat vector of weights."""

    def __init__(self, updater: PPOUpdater, rows: Rows, clip_range: float) -> None:
        self.config, self.clip_range = updater.config, clip_range
        self.head = updater.actor.spec.head
        self.rows = SimpleNamespace(**{name: x.numpy() for name, x in rows._asdict().items()})
        self.shapes = [
            (net, name, tuple(parameter.shape))
            for net, module in (("actor", updater.actor), ("critic", updater.critic))
            for name, parameter in module.named_parameters()
        ]

    def __call__(self, weights: np.ndarray) -> float:
        params: dict[str, dict[str, np.ndarray]] = {"actor": {}, "critic": {}}
        start = 0
        for net, name, shape in self.shapes:
            end = start + math.prod(shape)
            params[net][name] = weights[start:end].reshape(shape)
            start = end
        log_prob, entropy = self.log_prob_entropy(params["actor"])
        advantage = self.rows.advantage
        if self.config.normalize_advantage:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        ratio = np.exp(log_prob - self.rows.log_prob)
        clipped = np.clip(ratio, 1 - self.clip_range, 1 + self.clip_range)
        policy_loss = -np.minimum(ratio * advantage, clipped * advantage).mean()
        value = forward(params["critic"], self.rows.features)[:, 0]
        error = (value - self.rows.target) ** 2
        if self.config.value_clip is not None:
            moved = np.clip(
                value - self.rows.value, -self.config.value_clip, self.config.value_clip
            )
            error = np.maximum(error, (self.rows.value + moved - self.rows.target) ** 2)
        value_loss = self.config.value_coef * error.mean()
        return float(policy_loss + value_loss - self.config.entropy_coef * entropy)

    def log_prob_entropy(self, params: dict[str, np.ndarray]) -> tuple[np.ndarray, float]:
        outputs, action = forward(params, self.rows.features), self.rows.action
        if self.head == "gaussian":
            std = np.exp(params["log_std"])
            density = np.exp(-((action - outputs) ** 2) / (2 * std**2)) / np.sqrt(
                2 * np.pi * std**2
            )
            return np.log(density.prod(axis=1)), float(
                np.log(std * np.sqrt(2 * np.pi * np.e)).sum()
            )
        probability = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
        entropy = -(probability * np.log(probability)).sum(axis=1).mean()
        return np.log(probability[np.arange(len(action)), action]), float(entropy)


def forward(params: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    layers = sum(name.endswith("weight") for name in params)
    for i in range(layers):
        x = x @ params[f"{i}.weight"].T + params[f"{i}.bias"]
        if i < layers - 1:
            x = np.tanh(x)
    return x


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
@pytest.mark.parametrize("head", DRAWN)
def test_loss_and_gradient_agree_with_a_second_implementation(head: HeadKind, config: PPO):
    updater = config.build(small_spec(head), seed=3, dtype=torch.float64)
    rows = prepare([acted_batch(updater, seed=1)], updater.critic, 0.99, 0.95)
    rng = np.random.default_rng(0)
    # Ratios and values moved away from where they were, so that the clips bite on some rows.
    noise = torch.from_numpy(rng.normal(0, 0.3, (2, len(rows.value))))
    rows = rows._replace(log_prob=rows.log_prob + noise[0], value=rows.value + noise[1])
    reference = Reference(updater, rows, 0.2)

    optimiser: Any = updater._adam
    optimiser.zero_grad()
    loss, statistics = updater._loss(rows, 0.2)
    loss.backward()
    assert 0.1 < statistics["clip_fraction"].item() < 0.9
    weights = optimiser.weights()
    assert loss.item() == pytest.approx(reference(weights), rel=1e-9)
    numeric = np.empty_like(weights)
    for i in range(len(weights)):
        step = np.zeros_like(weights)
        step[i] = 1e-6
        numeric[i] = (reference(weights + step) - reference(weights - step)) / 2e-6
    np.testing.assert_allclose(optimiser._grad.numpy(), numeric, rtol=1e-5, atol=1e-8)


def targets(batch: TrajectoryBatch, updater: PPOUpdater, lam: float = 1.0) -> np.ndarray:
    rows = prepare([batch], updater.critic, 0.9, lam)
    return rows.target.numpy().reshape(batch.reward.shape)


def test_rows_bootstrap_from_final_and_last_observations_and_never_from_the_next_episode():
    updater = small_ppo()
    batch = acted_batch(updater, seed=4, steps=12, width=4)
    assert len(batch.final_index) > 3

    def value(obs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return updater.critic(torch.tensor(obs)).numpy()[:, 0]

    finals = dict(zip(map(tuple, batch.final_index.tolist()), value(batch.final_obs), strict=True))
    expected = np.zeros(batch.reward.shape)
    following = value(batch.last_obs)
    for t in reversed(range(batch.steps)):
        for b in range(batch.width):
            future = finals.get((t, b), following[b])
            expected[t, b] = batch.reward[t, b] + 0.9 * (0.0 if batch.terminated[t, b] else future)
        following = expected[t]
    np.testing.assert_allclose(targets(batch, updater), expected, atol=1e-5)


def test_rows_of_batches_of_different_sizes_are_joined_after_their_own_advantages():
    updater = small_ppo("gaussian")
    sizes = ((8, 3), (1, 1), (5, 4))
    batches = [acted_batch(updater, i, *size) for i, size in enumerate(sizes)]
    joint = prepare(batches, updater.critic, 0.9, 0.8)
    apart = [prepare([batch], updater.critic, 0.9, 0.8) for batch in batches]
    for name, array in joint._asdict().items():
        expected = torch.cat([getattr(rows, name) for rows in apart])
        torch.testing.assert_close(array, expected, msg=name)


def test_a_discount_of_zero_leaves_only_the_reward():
    updater = small_ppo()
    batch = acted_batch(updater, seed=0)
    rows = prepare([replace(batch)], updater.critic, 0.0, 0.95)
    np.testing.assert_allclose(rows.target.numpy(), batch.reward.reshape(-1), atol=1e-6)
