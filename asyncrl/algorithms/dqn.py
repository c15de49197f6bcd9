"""Deep Q-learning (Mnih et al. 2015, https://doi.org/10.1038/nature14236), double by default.

Double Q-learning: van Hasselt et al. 2016, https://arxiv.org/abs/1509.06461.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from asyncrl.algorithms.device import resolve_device, to_tensor
from asyncrl.algorithms.networks import MLP
from asyncrl.algorithms.optimiser import Adam
from asyncrl.data import Activation, PolicySpec, SpaceSpec, Transitions, derive_seed
from asyncrl.data.params import uniform_params
from asyncrl.errors import ConfigError, InvalidBatchError
from asyncrl.schedules import Schedule, as_schedule


@dataclass(frozen=True, kw_only=True)
class DQN:
    """Settings of DQN."""

    on_policy: ClassVar[bool] = False

    rollout_steps: int = 16
    """Steps of every environment in one training job."""
    learning_rate: float | str | Schedule = 5e-4
    """Adam's step size over the run."""
    gamma: float = 0.99
    """Discount of the reward one step later."""
    buffer_size: int = 100_000
    """Transitions the replay holds; once it is full the oldest are overwritten."""
    batch_size: int = 64
    """Transitions of one update."""
    learning_starts: int = 1_000
    """Transitions in the replay before the first update."""
    samples_per_insert: float = 8.0
    """Transitions drawn from the replay for each one put in: with 8 and a batch size of 64, one
    update every 8 environment steps."""
    target_update_interval: int = 250
    """Updates between two moves of the target network."""
    tau: float = 1.0
    """How far the target network moves towards the learned one: 1 copies it."""
    double: bool = True
    """Choose the next action by the learned network and value it by the target network, which
    overestimates less; otherwise the target network does both."""
    huber_threshold: float = 1.0
    """Error up to which the loss is squared, and beyond which it grows by a straight line. Where
    returns are far from 1, give about their size: with 1, rare large errors (an episode's end)
    weigh no more than common ones."""
    epsilon: float | str | Schedule = "linear:1.0:0.05:0.2"
    """Probability of a random action over the run, in actors that explore."""
    max_grad_norm: float | None = 10.0
    """Longest gradient, over all parameters; a longer one is scaled down to it. None: any."""
    hidden: tuple[int, ...] = (128, 128)
    """Widths of the hidden layers."""
    activation: Activation = "relu"
    """Non-linearity between the layers."""
    adam_eps: float = 1e-8
    """Adam's epsilon."""

    def __post_init__(self) -> None:
        self._check_schedule("learning_rate", math.inf, "one number from 0 up")
        self._check_schedule("epsilon", 1.0, "a probability in [0, 1]")
        counts = "rollout_steps buffer_size batch_size learning_starts target_update_interval"
        for name in counts.split():
            self._check(name, getattr(self, name) >= 1, "1 or more")
        self._check(
            "buffer_size",
            self.buffer_size >= self.learning_starts,
            f"at least learning_starts, {self.learning_starts}, so that learning starts",
        )
        self._check("gamma", 0.0 <= self.gamma <= 1.0, "a number in [0, 1]")
        self._check("tau", 0.0 < self.tau <= 1.0, "more than 0, up to 1")
        self._check("samples_per_insert", self.samples_per_insert > 0.0, "more than 0")
        for name in ("huber_threshold", "max_grad_norm", "adam_eps"):
            bound = getattr(self, name)
            self._check(name, bound is None or bound > 0.0, "more than 0")
        self._check("hidden", all(width >= 1 for width in self.hidden), "widths of 1 or more")

    def _check(self, name: str, sound: bool, expected: str) -> None:
        if not sound:
            raise ConfigError(name, getattr(self, name), "out of range", f"give {expected}")

    def _check_schedule(self, name: str, most: float, expected: str) -> None:
        schedule = as_schedule(getattr(self, name), name)
        points = [schedule(percent / 100) for percent in range(101)]
        sound = all(isinstance(point, float) and 0.0 <= point <= most for point in points)
        self._check(name, sound, expected)

    def exploration(self, progress: float) -> Mapping[str, float]:
        """Return ``{"epsilon": e}``: the probability of a random action at `progress`."""
        return {"epsilon": float(as_schedule(self.epsilon)(progress))}

    def policy_spec(self, observation: SpaceSpec, action: SpaceSpec) -> PolicySpec:
        """Return the acting network, one value an action.

        Raises:
            ConfigError: The actions are not discrete.
        """
        if action.kind != "discrete":
            raise ConfigError(
                "action",
                action,
                "DQN values each of a finite number of actions",
                "use PPO for continuous actions, or an environment with discrete ones",
            )
        return PolicySpec(
            observation=observation,
            action=action,
            head="q_values",
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
    ) -> DQNUpdater:
        """Return an updater with first weights derived from `seed`.

        Args:
            spec: From `policy_spec`.
            seed: Of the weights; updates themselves draw nothing.
            device: auto, cpu, cuda or mps.
            dtype: Of both networks; float64 is for checks against exact arithmetic.

        Raises:
            ConfigError: The head has no action values, or there is no such device.
        """
        if spec.head != "q_values":
            raise ConfigError("head", spec.head, "DQN learns action values", "use q_values")
        return DQNUpdater(self, spec, seed, resolve_device(device), dtype)


def td_target(reward: Tensor, terminated: Tensor, next_value: Tensor, gamma: float) -> Tensor:
    """Return r + gamma V(s'), [N], with V(s') = 0 after a terminal state.

    An episode that was only cut off goes on in `next_value`.

    Args:
        reward: [N].
        terminated: [N] bool.
        next_value: [N], value of the true successor.
        gamma: Discount.
    """
    return torch.where(terminated, reward, reward + gamma * next_value)


def next_values(target_q: Tensor, choosing_q: Tensor) -> Tensor:
    """Return the value [N] that `target_q` gives to the action that `choosing_q` likes best.

    Args:
        target_q: [N, actions], of the target network.
        choosing_q: [N, actions]: of the learned network for double Q-learning (van Hasselt et al.
            2016, equation 4), `target_q` itself for the plain maximum (Mnih et al. 2015).
    """
    return target_q.gather(1, choosing_q.argmax(dim=1, keepdim=True)).squeeze(1)


class DQNUpdater:
    """Learns action values by DQN; see `Updater` for what is promised.

    The loss is Huber's: half a squared error, whose gradient is clipped to [-t, t] with the
    threshold t = `huber_threshold`, in Mnih et al. 2015 1.
    """

    def __init__(
        self, config: DQN, spec: PolicySpec, seed: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.config = config
        first = uniform_params(spec, derive_seed(seed, "q"))
        self.network, self.target = MLP(spec, dtype=dtype), MLP(spec, dtype=dtype)
        for network in (self.network, self.target):
            network.load_params(first)
            network.to(device)
        self.target.requires_grad_(False)
        self.updates = 0
        """Calls of `update` so far, skipped ones included."""
        self._learning_rate = as_schedule(config.learning_rate)
        self._adam = Adam([self.network], eps=config.adam_eps, max_grad_norm=config.max_grad_norm)

    def update(self, data: Transitions, progress: float) -> dict[str, float]:
        """Make one gradient step on `data`, move the target network when due, return metrics.

        A loss or gradient that is not finite changes nothing and is counted in `skipped_steps`;
        the metrics are then that and `learning_rate` alone.

        Raises:
            InvalidBatchError: There are no transitions.
        """
        if not len(data):
            raise InvalidBatchError("an update needs at least one transition, and got none")
        learning_rate = float(self._learning_rate(progress))
        metrics = {"learning_rate": learning_rate, "skipped_steps": 1.0}
        self._adam.zero_grad()
        loss, statistics = self._loss(data)
        if math.isfinite(loss.item()):
            loss.backward()
            norm = self._adam.step(learning_rate)
            if math.isfinite(norm):
                values = torch.stack(list(statistics.values())).tolist()
                metrics |= dict(zip(statistics, values, strict=True))
                metrics |= {"grad_norm": norm, "skipped_steps": 0.0}
        self.updates += 1
        if self.updates % self.config.target_update_interval == 0:
            self._move_target()
        return metrics

    def _loss(self, data: Transitions) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss [] to minimise and detached statistics, [] each."""
        network = self.network
        q = network(self._tensor(data.obs)).gather(1, self._tensor(data.action)[:, None]).squeeze(1)
        with torch.no_grad():
            next_features = network.features(self._tensor(data.next_obs))
            target_q = self.target.heads(next_features)
            choosing_q = network.heads(next_features) if self.config.double else target_q
            target = td_target(
                self._tensor(data.reward).to(q.dtype),
                self._tensor(data.terminated),
                next_values(target_q, choosing_q),
                self.config.gamma,
            )
        loss = functional.huber_loss(q, target, delta=self.config.huber_threshold)
        with torch.no_grad():
            statistics = {
                "loss": loss.detach(),
                "q_mean": q.mean(),
                "target_q_mean": target.mean(),
                "td_error_abs": (q - target).abs_().mean(),
            }
        return loss, statistics

    def _tensor(self, array: np.ndarray) -> Tensor:
        """Return `array` on the device; on the CPU it shares the array's memory where it can."""
        writable = np.require(array, requirements=("C", "W"))  # torch warns about read-only memory
        return torch.from_numpy(writable).to(self.network.device)

    @torch.no_grad()
    def _move_target(self) -> None:
        pairs = zip(self.target.parameters(), self.network.parameters(), strict=True)
        for target, parameter in pairs:
            if self.config.tau == 1.0:
                target.copy_(parameter)
            else:
                target.lerp_(parameter, self.config.tau)

    def acting_params(self) -> dict[str, np.ndarray]:
        """Return copies of the learned network's parameters as float32 arrays."""
        return self.network.acting_params()

    def state(self) -> dict[str, Any]:
        """Return weights, optimiser, target network and the count of updates, copied."""
        target = parameters_to_vector(self.target.parameters())
        return {
            "optimiser": self._adam.state(),
            "target": target.detach().cpu().numpy().copy(),
            "updates": self.updates,
        }

    def load_state(self, tree: dict[str, Any]) -> None:
        """Continue exactly where `state` was taken.

        Raises:
            ConfigError: The state is that of another network.
        """
        self._adam.load_state(tree["optimiser"])  # refuses another network's sizes
        device, dtype = self.network.device, self.network.dtype
        vector_to_parameters(to_tensor(tree["target"], device, dtype), self.target.parameters())
        self.updates = int(tree["updates"])
