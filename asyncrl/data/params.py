"""The acting parameters of a policy as arrays: their layout, their checks and their first values.

Actors (NumPy) and learners (torch) both load what is written down here, so that neither can drift
from the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from asyncrl.data.spec import PolicySpec
from asyncrl.errors import DataError

LOG_STD = "log_std"
"""Name of the free log standard deviation of a Gaussian head."""


def param_shapes(spec: PolicySpec) -> dict[str, tuple[int, ...]]:
    """Return name -> shape of every acting parameter, in the order of the layers."""
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, (inputs, outputs) in enumerate(spec.layer_sizes()):
        shapes[f"{layer}.weight"] = (outputs, inputs)
        shapes[f"{layer}.bias"] = (outputs,)
    if spec.head == "gaussian":
        shapes[LOG_STD] = (spec.action.size,)
    return shapes


def check_params(spec: PolicySpec, params: Mapping[str, np.ndarray]) -> None:
    """Raise one `ConfigError` that lists everything wrong with `params` as weights for `spec`.

    Names and shapes must be those of `param_shapes`, the dtype float32, and every number finite.
    """
    expected = param_shapes(spec)
    problems = [f"{name} is missing" for name in expected if name not in params]
    problems += [f"{name} is not a parameter" for name in params if name not in expected]
    for name, shape in expected.items():
        if name not in params:
            continue
        array = params[name]
        if array.shape != shape:
            problems.append(f"{name} has shape {array.shape}, not {shape}")
        elif array.dtype != np.float32:
            problems.append(f"{name} has dtype {array.dtype}, not float32")
        elif not np.isfinite(array).all():
            problems.append(f"{name} holds numbers that are not finite")
    if problems:
        raise DataError(
            f"not weights of a {spec.head} policy with layers {spec.layer_sizes()}: "
            f"{'; '.join(problems)}"
        )


def orthogonal(rng: np.random.Generator, outputs: int, inputs: int, gain: float) -> np.ndarray:
    """Return a float32 [outputs, inputs] matrix whose rows or columns are orthogonal, times `gain`.

    Saxe et al. 2014, https://arxiv.org/abs/1312.6120: the Q of a Gaussian matrix, signs corrected
    so that it is uniform over orthogonal matrices.
    """
    normal = rng.standard_normal((max(outputs, inputs), min(outputs, inputs)))
    q, r = np.linalg.qr(normal)
    q *= np.where(np.diagonal(r) < 0, -1.0, 1.0)
    return np.ascontiguousarray(gain * (q if outputs >= inputs else q.T), dtype=np.float32)


def initial_params(spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return first weights for `spec`: orthogonal with gain sqrt(2), zero biases, log-std 0.

    The last layer's gain is 0.01 for a categorical or Gaussian head, so that a new policy acts
    almost uniformly whatever it sees (Andrychowicz et al. 2021, https://arxiv.org/abs/2006.05990),
    and 1 for action values.
    """
    rng = np.random.default_rng(seed)
    sizes = spec.layer_sizes()
    last = 1.0 if spec.head == "q_values" else 0.01
    params: dict[str, np.ndarray] = {}
    for layer, (inputs, outputs) in enumerate(sizes):
        gain = last if layer == len(sizes) - 1 else math.sqrt(2.0)
        params[f"{layer}.weight"] = orthogonal(rng, outputs, inputs, gain)
        params[f"{layer}.bias"] = np.zeros(outputs, np.float32)
    if spec.head == "gaussian":
        params[LOG_STD] = np.zeros(spec.action.size, np.float32)
    return params


def uniform_params(spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return first weights for `spec`, uniform in [-1/sqrt(inputs), 1/sqrt(inputs)], biases too.

    LeCun et al. 1998, Efficient BackProp, section 4.6, and what `torch.nn.Linear` does. Action
    values start smaller than with `initial_params`, so that there is less for bootstrapping to
    exaggerate.
    """
    rng = np.random.default_rng(seed)
    params: dict[str, np.ndarray] = {}
    for layer, (inputs, outputs) in enumerate(spec.layer_sizes()):
        bound = 1.0 / math.sqrt(inputs)
        weight, bias = (rng.uniform(-bound, bound, size) for size in ((outputs, inputs), outputs))
        params[f"{layer}.weight"] = weight.astype(np.float32)
        params[f"{layer}.bias"] = bias.astype(np.float32)
    if spec.head == "gaussian":
        params[LOG_STD] = np.zeros(spec.action.size, np.float32)
    return params
