"""Proximal policy optimisation (Schulman et al. 2017, https://arxiv.org/abs/1707.06347)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from asyncrl.algorithms.device import resolve_device
from asyncrl.algorithms.distributions import log_prob_entropy
from asyncrl.algorithms.losses import (
    approximate_kl,
    clipped_surrogate,
    explained_variance,
    normalised,
    squared_value_loss,
)
from asyncrl.algorithms.networks import MLP, value_spec
from asyncrl.algorithms.optimiser import Adam, generator_state, load_generator_state
from asyncrl.algorithms.rows import Rows, prepare
from asyncrl.data import Activation, PolicySpec, SpaceSpec
from asyncrl.data.batch import TrajectoryBatch
from asyncrl.data.seeds import derive_seed
from asyncrl.errors import ConfigError
from asyncrl.schedules import Schedule, as_schedule


@dataclass(frozen=True, kw_only=True)
class PPO:
    """Settings of PPO.

    Discount, lambda, clip range, epochs and minibatch size are those of the paper's table 3; first
    weights, advantage normalisation, gradient clipping and Adam's epsilon those of Andrychowicz et
    al. 2021, https://arxiv.org/abs/2006.05990. The learning rate starts higher than the paper's
    0.0003, because rounds here are shorter than its 2048 steps: over 100,000 steps of 16
    environments Acrobot-v1 reaches -100 after 21,000 steps instead of 35,000, and over 150,000
    Pendulum-v1 (discount .95) ends at -250 instead of -920 (means of two seeds).
    """

    on_policy: ClassVar[bool] = True

    rollout_steps: int = 64
    """Steps of every environment in one training job."""
    learning_rate: float | str | Schedule = "linear:0.001:0"
    """Adam's step size over the run."""
    gamma: float = 0.99
    """Discount of the reward one step later."""
    lam: float = 0.95
    """Lambda of generalised advantage estimation: 0 trusts the critic, 1 the rewards alone."""
    clip_range: float | str | Schedule = 0.2
    """How far the probability ratio of an action may move from 1 before it earns nothing."""
    epochs: int = 10
    """Passes over a round's data."""
    minibatch_size: int = 64
    """Rows of one gradient step; the data are split evenly into minibatches of about this size."""
    normalize_advantage: bool = True
    """Shift and scale the advantages of each minibatch to mean 0 and standard deviation 1."""
    value_coef: float = 0.5
    """Weight of the squared error of the critic."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus, which keeps a policy from settling early."""
    max_grad_norm: float | None = 0.5
    """Longest gradient, over all parameters; a longer one is scaled down to it. None: any."""
    value_clip: float | None = None
    """How far a value may move in one update, in units of the return. None: any."""
    target_kl: float | None = None
    """End an update once the policy's approximate KL divergence exceeds this. None: never."""
    adam_eps: float = 1e-5
    """Adam's epsilon."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of the policy."""
    value_hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of the critic, a network of its own that stays in the learner."""
    activation: Activation = "tanh"
    """Non-linearity of both."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "clip_range"):
            value = as_schedule(getattr(self, name), name)(0.0)
            self._check(name, isinstance(value, int | float) and value >= 0, "one number from 0 up")
        for name in ("gamma", "lam"):
            self._check(name, 0.0 <= getattr(self, name) <= 1.0, "a number in [0, 1]")
        for name in ("rollout_steps", "epochs", "minibatch_size"):
            self._check(name, getattr(self, name) >= 1, "1 or more")
        for name in ("value_coef", "entropy_coef"):
            self._check(name, getattr(self, name) >= 0.0, "0 or more")
        for name in ("max_grad_norm", "value_clip", "target_kl", "adam_eps"):
            bound = getattr(self, name)
            self._check(name, bound is None or bound > 0.0, "more than 0")
        for name in ("hidden", "value_hidden"):
            self._check(
                name, all(width >= 1 for width in getattr(self, name)), "widths of 1 or more"
            )

    def _check(self, name: str, sound: bool, expected: str) -> None:
        if not sound:
            raise ConfigError(name, getattr(self, name), "out of range", f"give {expected}")

    def policy_spec(self, observation: SpaceSpec, action: SpaceSpec) -> PolicySpec:
        """Return the acting network: categorical for discrete actions, Gaussian for a box."""
        return PolicySpec(
            observation=observation,
            action=action,
            head="categorical" if action.kind == "discrete" else "gaussian",
            hidden=self.hidden,
            activation=self.activation,
        )

    def build(
        self,
        spec: PolicySpec,
        *,
        seed: int,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> PPOUpdater:
        """Return an updater with first weights derived from `seed`.

        Args:
            spec: From `policy_spec`.
            seed: Of the weights and of the order of minibatches.
            device: auto, cpu, cuda or mps.
            dtype: Of both networks; float64 is for checks against exact arithmetic.

        Raises:
            ConfigError: The head has no log-probabilities, or there is no such device.
        """
        if spec.head == "q_values":
            raise ConfigError(
                "head", spec.head, "PPO learns a distribution", "use categorical or gaussian"
            )
        return PPOUpdater(self, spec, seed, resolve_device(device), dtype)


class PPOUpdater:
    """Learns one policy by PPO; see `Updater` for what is promised.

    The update is joint: all batches of a round, of any lengths and widths, are one set of rows.
    Ratios are to the log-probabilities recorded when acting, so data of older policies are
    corrected for, and at lag 0 every ratio of the first minibatch is 1 up to rounding
    (`ratio_deviation`).
    """

    def __init__(
        self, config: PPO, spec: PolicySpec, seed: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.config = config
        self.actor = MLP(spec, dtype=dtype).seeded(derive_seed(seed, "actor")).to(device)
        critic = MLP(value_spec(spec, config.value_hidden), dtype=dtype)
        self.critic = critic.seeded(derive_seed(seed, "critic")).to(device)
        self._learning_rate = as_schedule(config.learning_rate)
        self._clip_range = as_schedule(config.clip_range)
        self._adam = Adam(
            [self.actor, self.critic], eps=config.adam_eps, max_grad_norm=config.max_grad_norm
        )
        # The order of minibatches is drawn on the CPU, so that it is the same on every device.
        self._shuffle = torch.Generator().manual_seed(derive_seed(seed, "shuffle"))

    def update(self, data: Sequence[TrajectoryBatch], progress: float) -> dict[str, float]:
        """Learn from a round's batches and return metrics.

        A minibatch whose loss or gradient is not finite changes nothing and is counted in
        `skipped_steps`. Metrics are means over the minibatches that counted, but for
        `ratio_deviation` (the largest of the first minibatch), `explained_variance` (of the values
        before the update), `learning_rate`, `clip_range`, `skipped_steps` and `epochs` (begun).

        Raises:
            InvalidBatchError: There is no batch, or one lacks ``"log_prob"`` in its extras.
        """
        rows = prepare(data, self.critic, self.config.gamma, self.config.lam)
        rates = float(self._learning_rate(progress)), float(self._clip_range(progress))
        tally = _Tally()
        for _ in range(self.config.epochs):
            tally.epochs += 1
            if not self._epoch(rows, *rates, tally):
                break
        metrics = tally.metrics()
        explained = explained_variance(rows.value, rows.target)
        if math.isfinite(explained):
            metrics["explained_variance"] = explained
        metrics["learning_rate"], metrics["clip_range"] = rates
        return metrics

    def _epoch(self, rows: Rows, learning_rate: float, clip_range: float, tally: _Tally) -> bool:
        """Take one pass over the rows; return False once the policy has moved past `target_kl`."""
        order = torch.randperm(len(rows.value), generator=self._shuffle).to(rows.value.device)
        count = max(1, round(len(order) / self.config.minibatch_size))
        shuffled = [torch.tensor_split(array[order], count) for array in rows]
        for minibatch in map(Rows._make, zip(*shuffled, strict=True)):
            self._adam.zero_grad()
            loss, statistics = self._loss(minibatch, clip_range)
            if not math.isfinite(loss.item()):
                tally.skipped += 1
                continue
            target_kl = self.config.target_kl
            if target_kl is not None and statistics["approx_kl"].item() > target_kl:
                tally.add(statistics)
                return False
            loss.backward()
            norm = self._adam.step(learning_rate)
            if math.isfinite(norm):
                tally.add(statistics, norm)
            else:
                tally.skipped += 1
        return True

    def _loss(self, rows: Rows, clip_range: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss [] to minimise and detached statistics, [] each."""
        config = self.config
        log_prob, entropies = log_prob_entropy(self.actor, rows.features, rows.action)
        value = self.critic.heads(rows.features).squeeze(1)
        log_ratio = log_prob - rows.log_prob
        ratio = log_ratio.exp()
        advantage = normalised(rows.advantage) if config.normalize_advantage else rows.advantage
        policy_loss = clipped_surrogate(ratio, advantage, clip_range)
        value_loss = squared_value_loss(value, rows.target, rows.value, config.value_clip)
        entropy = entropies.mean()
        loss = policy_loss + config.value_coef * value_loss
        if config.entropy_coef:
            loss = loss - config.entropy_coef * entropy
        with torch.no_grad():
            deviation = (ratio - 1.0).abs()
            statistics = {
                "policy_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy": entropy.detach(),
                "approx_kl": approximate_kl(log_ratio),
                "clip_fraction": (deviation > clip_range).to(loss.dtype).mean(),
                "ratio_deviation": deviation.max(),
            }
        return loss, statistics

    def acting_params(self) -> dict[str, np.ndarray]:
        """Return copies of the policy's parameters as float32 arrays."""
        return self.actor.acting_params()

    def state(self) -> dict[str, Any]:
        """Return weights, optimiser and the order of minibatches to come, copied."""
        return {"optimiser": self._adam.state(), "shuffle": generator_state(self._shuffle)}

    def load_state(self, tree: dict[str, Any]) -> None:
        """Continue exactly where `state` was taken.

        Raises:
            ConfigError: The state is that of other networks.
        """
        self._adam.load_state(tree["optimiser"])
        load_generator_state(self._shuffle, tree["shuffle"])


class _Tally:
    """Statistics of the minibatches of one update."""

    def __init__(self) -> None:
        self.epochs = 0
        self.skipped = 0
        self._statistics: list[dict[str, Tensor]] = []
        self._norms: list[float] = []

    def add(self, statistics: dict[str, Tensor], norm: float | None = None) -> None:
        """Count a minibatch; one that ended the update has no gradient norm."""
        self._statistics.append(statistics)
        if norm is not None:
            self._norms.append(norm)

    def metrics(self) -> dict[str, float]:
        """Return one number each; statistics are left out where every minibatch was skipped."""
        metrics: dict[str, float] = {
            "epochs": float(self.epochs),
            "skipped_steps": float(self.skipped),
        }
        if self._statistics:
            names = list(self._statistics[0])
            table = torch.stack([torch.stack(list(row.values())) for row in self._statistics])
            metrics |= dict(zip(names, table.mean(dim=0).tolist(), strict=True))
            metrics["ratio_deviation"] = self._statistics[0]["ratio_deviation"].item()
        if self._norms:
            metrics["grad_norm"] = sum(self._norms) / len(self._norms)
        return metrics
