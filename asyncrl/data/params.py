"""The acting parameters of a policy as arrays: their layout, their checks and their first values.

Actors (NumPy) and learners (torch) both load what is written down here, so that neither can drift
from the other. All are float32:

- ``"norm.mean"``, ``"norm.std"`` [vector size]: statistics of the flat observation, with
  `normalize`; they are not learned by gradients.
- ``"conv.<k>.<i>.weight"`` [out, in, kernel, kernel] and ``".bias"`` [out] of layer i over image k.
- ``"module.<name>"``: those of a user's module.
- ``"<i>.weight"`` [out, in] and ``"<i>.bias"`` [out] of linear layer i: the hidden ones and, after
  them, the last.
- ``"core.weight_ih"`` [G * H, in], ``"core.weight_hh"`` [G * H, H], ``"core.bias_ih"``,
  ``"core.bias_hh"`` [G * H]: the recurrent core, G = 4 gates (input, forget, cell, output) for an
  LSTM and 3 (reset, update, new) for a GRU, in PyTorch's order and convention.
- ``"log_std"``: the free log standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from asyncrl.data.policy import PolicySpec
from asyncrl.errors import ConfigError

LOG_STD = "log_std"
"""Name of the free log standard deviations."""
NORM_MEAN, NORM_STD = "norm.mean", "norm.std"
"""Names of the statistics of the observation."""

_GATES = {"lstm": 4, "gru": 3}
_VALUES = ("q_values", "value")


def param_shapes(spec: PolicySpec) -> dict[str, tuple[int, ...]]:
    """Return name -> shape of every acting parameter, in the order of the computation."""
    shapes: dict[str, tuple[int, ...]] = {}
    if spec.normalize:
        shapes[NORM_MEAN] = shapes[NORM_STD] = (spec.vector_size,)
    for name, inputs, outputs, kernel in _convolutions(spec):
        shapes[f"{name}.weight"] = (outputs, inputs, kernel, kernel)
        shapes[f"{name}.bias"] = (outputs,)
    shapes |= {f"module.{name}": shape for name, shape in spec.module_params}
    sizes = spec.layer_sizes()
    for layer, (inputs, outputs) in enumerate(sizes):
        if layer == len(sizes) - 1:
            shapes |= _core_shapes(spec)
        shapes[f"{layer}.weight"] = (outputs, inputs)
        shapes[f"{layer}.bias"] = (outputs,)
    if spec.free_stds:
        shapes[LOG_STD] = (spec.free_stds,)
    return shapes


def _convolutions(spec: PolicySpec) -> Iterator[tuple[str, int, int, int]]:
    """Yield (name, channels in, channels out, kernel) of every convolution."""
    for place, image in enumerate(spec.images):
        for number, (channels, _, layer) in enumerate(spec.conv_sizes(image)):
            yield f"conv.{place}.{number}", channels, layer.channels, layer.kernel


def _core_shapes(spec: PolicySpec) -> dict[str, tuple[int, ...]]:
    if spec.core == "none":
        return {}
    size = spec.core_size
    rows = _GATES[spec.core] * size
    return {
        "core.weight_ih": (rows, spec.torso_size),
        "core.weight_hh": (rows, size),
        "core.bias_ih": (rows,),
        "core.bias_hh": (rows,),
    }


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
        raise ConfigError(
            "params",
            sorted(params),
            f"not weights of this policy: {'; '.join(problems)}",
            f"load the weights of a {spec.head} policy with layers {spec.layer_sizes()}",
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

    The last layer's gain is 0.01 where actions are drawn from the outputs or made of them, so that
    a new policy acts almost uniformly whatever it sees (Andrychowicz et al. 2021,
    https://arxiv.org/abs/2006.05990), and 1 for values. A core's matrices have gain 1, gate
    by gate, and an LSTM's forget gate the bias 1 (Jozefowicz et al. 2015). Parameters of a user's
    module are not among them: they are the module's own.
    """
    rng = np.random.default_rng(seed)
    last = f"{len(spec.hidden)}.weight"
    params: dict[str, np.ndarray] = {}
    for name, shape in param_shapes(spec).items():
        if name.startswith("module."):
            continue
        if name == NORM_STD:
            params[name] = np.ones(shape, np.float32)
        elif name.startswith("core.weight"):
            gates = [
                orthogonal(rng, spec.core_size, shape[1], 1.0) for _ in range(_GATES[spec.core])
            ]
            params[name] = np.concatenate(gates)
        elif len(shape) >= 2:
            gain = (1.0 if spec.head in _VALUES else 0.01) if name == last else math.sqrt(2.0)
            matrix = orthogonal(rng, shape[0], math.prod(shape[1:]), gain)
            params[name] = matrix.reshape(shape)
        else:
            params[name] = np.zeros(shape, np.float32)
    if spec.core == "lstm":
        params["core.bias_ih"][spec.core_size : 2 * spec.core_size] = 1.0
    return params


def uniform_params(spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return first weights for `spec`, uniform in [-1/sqrt(inputs), 1/sqrt(inputs)], biases too.

    LeCun et al. 1998, Efficient BackProp, section 4.6, and what `torch.nn.Linear` does. Action
    values start smaller than with `initial_params`, so that there is less for bootstrapping to
    exaggerate. The inputs of a core are its `core_size`. Parameters of a user's module are not
    among them.
    """
    rng = np.random.default_rng(seed)
    params = initial_params(spec, seed)
    bound = 1.0
    for name, array in params.items():
        if name.startswith(("norm.", LOG_STD)):
            continue
        if array.ndim >= 2:
            bound = 1.0 / math.sqrt(math.prod(array.shape[1:]))
        if name.startswith("core."):
            bound = 1.0 / math.sqrt(spec.core_size)
        params[name] = rng.uniform(-bound, bound, array.shape).astype(np.float32)
    return params
