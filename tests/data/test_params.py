from __future__ import annotations

import numpy as np
import pytest

from asyncrl.data import HeadKind, PolicySpec, SpaceSpec
from asyncrl.data.params import check_params, initial_params, orthogonal, param_shapes
from asyncrl.errors import DataError

BOX = SpaceSpec(kind="box", shape=(3,))
MOVES = SpaceSpec(kind="discrete", n=2, dtype="int64")


def spec(head: HeadKind = "categorical") -> PolicySpec:
    action = SpaceSpec(kind="box", shape=(2, 2)) if head == "gaussian" else MOVES
    return PolicySpec(observation=BOX, action=action, head=head, hidden=(5,))


def test_layout_is_what_the_policy_spec_says():
    layers = {"0.weight": (5, 3), "0.bias": (5,), "1.weight": (2, 5), "1.bias": (2,)}
    assert param_shapes(spec()) == layers
    assert param_shapes(spec("gaussian"))["log_std"] == (4,)


@pytest.mark.parametrize(("outputs", "inputs"), [(8, 3), (3, 8), (4, 4)])
def test_orthogonal_has_orthogonal_rows_or_columns_of_the_gain(outputs: int, inputs: int):
    matrix = orthogonal(np.random.default_rng(0), outputs, inputs, 2.0).astype(np.float64)
    gram = matrix.T @ matrix if outputs >= inputs else matrix @ matrix.T
    np.testing.assert_allclose(gram, 4.0 * np.eye(min(outputs, inputs)), atol=1e-5)


def test_first_weights_depend_on_the_seed_alone():
    first, again, other = (initial_params(spec(), seed) for seed in (1, 1, 2))
    for name, array in first.items():
        assert array.dtype == np.float32
        assert array.tobytes() == again[name].tobytes()
    assert not np.array_equal(first["0.weight"], other["0.weight"])


def test_first_policy_is_nearly_uniform_and_action_values_are_not_damped():
    policy, values = initial_params(spec(), 0), initial_params(spec("q_values"), 0)
    np.testing.assert_allclose(np.linalg.norm(policy["1.weight"], axis=1), 0.01, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(values["1.weight"], axis=1), 1.0, rtol=1e-5)
    assert not policy["0.bias"].any()


def test_one_error_lists_everything_wrong_with_weights():
    params = initial_params(spec("gaussian"), 0)
    del params["log_std"]
    params["extra"] = np.zeros(1, np.float32)
    params["0.weight"] = params["0.weight"].T
    params["0.bias"] = params["0.bias"].astype(np.float64)
    params["1.bias"] = np.full_like(params["1.bias"], np.nan)
    with pytest.raises(DataError) as caught:
        check_params(spec("gaussian"), params)
    for problem in (
        "log_std is missing",
        "extra is not a parameter",
        "0.weight has shape (3, 5), not (5, 3)",
        "0.bias has dtype float64, not float32",
        "1.bias holds numbers that are not finite",
    ):
        assert problem in str(caught.value)


def test_sound_weights_pass():
    check_params(spec("gaussian"), initial_params(spec("gaussian"), 3))
