"""The learner's networks: the same MLP that acts in NumPy, with gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from asyncrl.algorithms.device import to_tensor
from asyncrl.data import PolicySpec, SpaceSpec
from asyncrl.data.params import LOG_STD, check_params, initial_params


def value_spec(spec: PolicySpec, hidden: tuple[int, ...]) -> PolicySpec:
    """Return the shape of a state-value network over the observations of `spec`: one output."""
    scalar = SpaceSpec(kind="discrete", dtype="int64", n=1)
    return replace(spec, action=scalar, head="q_values", hidden=hidden)


class MLP(nn.Module):
    """The network of a `PolicySpec`; parameters are named as the spec says.

    `features` turns observations into what the first layer takes, `heads` runs the layers on that,
    and calling the module does both. An algorithm that visits the same observations many times
    computes the features once.
    """

    log_std: nn.Parameter
    """[action size]: log standard deviation of a Gaussian head; other heads have none."""

    def __init__(self, spec: PolicySpec, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.spec = spec
        self.dtype = dtype
        self._layers: list[nn.Linear] = []
        for layer, (inputs, outputs) in enumerate(spec.layer_sizes()):
            # Made without storage first: PyTorch would initialise from its global generator.
            linear = nn.Linear(inputs, outputs, device="meta", dtype=dtype).to_empty(device="cpu")
            self.add_module(str(layer), linear)
            self._layers.append(linear)
        self._activate = torch.tanh if spec.activation == "tanh" else torch.relu
        if spec.head == "gaussian":
            self.register_parameter(
                LOG_STD, nn.Parameter(torch.zeros(spec.action.size, dtype=dtype))
            )
        self.load_params(initial_params(spec, 0))

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self._layers[0].weight.device

    def seeded(self, seed: int) -> MLP:
        """Set the parameters to `initial_params(spec, seed)` and return this network."""
        self.load_params(initial_params(self.spec, seed))
        return self

    def features(self, obs: Tensor) -> Tensor:
        """Return [N, inputs] of the network's dtype: a box flattened, a discrete value one-hot.

        Args:
            obs: [N, *observation shape] of any dtype; int64 [N] for a discrete space.
        """
        if self.spec.observation.kind == "discrete":
            return functional.one_hot(obs, self.spec.observation.n).to(self.dtype)
        return obs.reshape(len(obs), -1).to(self.dtype)

    def heads(self, features: Tensor) -> Tensor:
        """Return [N, outputs] from [N, inputs]: logits, means or action values."""
        x = features
        for layer in self._layers[:-1]:
            x = self._activate(functional.linear(x, layer.weight, layer.bias))
        last = self._layers[-1]
        return functional.linear(x, last.weight, last.bias)

    def forward(self, obs: Tensor) -> Tensor:
        """Return [N, outputs] from observations [N, *observation shape]."""
        return self.heads(self.features(obs))

    def acting_params(self) -> dict[str, np.ndarray]:
        """Return copies of the parameters as float32 arrays: what an actor loads."""
        return {
            name: parameter.detach().to("cpu", torch.float32, copy=True).numpy()
            for name, parameter in self.named_parameters()
        }

    def load_params(self, params: Mapping[str, np.ndarray]) -> None:
        """Copy acting parameters into this network, in place.

        Raises:
            ConfigError: Names, shapes, dtypes or numbers are not those of this network's weights.
        """
        check_params(self.spec, params)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(to_tensor(params[name], parameter.device, parameter.dtype))
