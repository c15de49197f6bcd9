from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest

from asyncrl.data import HeadKind, PolicySpec, SpaceSpec
from asyncrl.errors import ConfigError, DataError, StateError
from asyncrl.policies import Acted, Policy, initial_params, make_policy
from asyncrl.policies.heads import categorical, epsilon_greedy, gaussian

BOX = SpaceSpec(kind="box", shape=(2, 3))
MOVES = SpaceSpec(kind="discrete", n=4, dtype="int64")
JOINTS = SpaceSpec(kind="box", shape=(2, 1), low=-1.0, high=1.0)


DRAWN: tuple[HeadKind, ...] = ("categorical", "gaussian")
HEADS: tuple[HeadKind, ...] = (*DRAWN, "q_values")


def spec(head: HeadKind = "categorical", observation: SpaceSpec = BOX) -> PolicySpec:
    action = JOINTS if head == "gaussian" else MOVES
    return PolicySpec(observation=observation, action=action, head=head, hidden=(16, 16))


def loaded(of: PolicySpec, seed: int = 0) -> Policy:
    policy = make_policy(of)
    rng = np.random.default_rng(seed)
    shapes = initial_params(of, seed)
    policy.load({k: rng.normal(0, 0.5, v.shape).astype(np.float32) for k, v in shapes.items()})
    return policy


def observations(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 2, 3)).astype(np.float32)


def act(
    policy: Policy,
    obs: np.ndarray,
    exploration: Mapping[str, float] | None = None,
    *,
    seed: int = 2,
    greedy: bool = False,
) -> Acted:
    rng = np.random.default_rng(seed)
    return policy.act(obs, rng, exploration=exploration or {}, greedy=greedy)


@pytest.mark.parametrize("n", [1, 5])
def test_actions_and_extras_have_the_promised_shapes_and_dtypes(n: int):
    for head in HEADS:
        acted = act(loaded(spec(head)), observations(n))
        if head == "gaussian":
            assert acted.action.shape == (n, 2, 1)
            assert acted.action.dtype == np.float32
        else:
            assert acted.action.shape == (n,)
            assert acted.action.dtype == np.int64
        if head == "q_values":
            assert not acted.extras
        else:
            assert acted.extras["log_prob"].shape == (n,)
            assert acted.extras["log_prob"].dtype == np.float32


@pytest.mark.parametrize("head", HEADS)
def test_same_generator_state_gives_the_same_actions(head: HeadKind):
    policy, obs = loaded(spec(head)), observations(64)
    exploration = {"epsilon": 0.5} if head == "q_values" else {}
    first, again = (act(policy, obs, exploration).action for _ in range(2))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != act(policy, obs, exploration, seed=3).action.tobytes()


def test_categorical_draws_with_the_probabilities_of_its_log_probs():
    logits = np.tile(np.array([0.0, 1.0, -1.0, -200.0], np.float32), (100_000, 1))
    action, log_prob = categorical(logits, np.random.default_rng(0))
    expected = np.exp(logits[0].astype(np.float64))
    expected /= expected.sum()
    frequencies = np.bincount(action, minlength=4) / len(action)
    np.testing.assert_allclose(frequencies, expected, atol=0.005)  # 3 standard errors
    assert frequencies[3] == 0.0
    np.testing.assert_allclose(np.exp(log_prob), expected[action], rtol=1e-5)


def test_categorical_survives_extreme_logits():
    logits = np.array([[1e30, 0.0], [-1e30, -1e30]], np.float32)
    action, log_prob = categorical(logits, np.random.default_rng(0))
    assert action[0] == 0
    np.testing.assert_allclose(log_prob, [0.0, math.log(0.5)], atol=1e-6)


def test_gaussian_log_prob_is_the_closed_form():
    mean = np.array([[1.0, -2.0]], np.float32)
    log_std = np.array([0.5, -1.0], np.float32)
    action, log_prob = gaussian(mean, log_std, np.random.default_rng(0))
    expected = sum(
        -((float(a) - float(m)) ** 2) / (2 * math.exp(2 * s)) - s - 0.5 * math.log(2 * math.pi)
        for a, m, s in zip(action[0], mean[0], (0.5, -1.0), strict=True)
    )
    assert log_prob[0] == pytest.approx(expected, abs=1e-5)


def test_gaussian_draws_with_its_mean_and_deviation():
    mean = np.tile(np.array([1.0, -2.0], np.float32), (100_000, 1))
    action, _ = gaussian(mean, np.array([0.5, -1.0], np.float32), np.random.default_rng(0))
    np.testing.assert_allclose(action.mean(axis=0), [1.0, -2.0], atol=0.02)
    np.testing.assert_allclose(action.std(axis=0), np.exp([0.5, -1.0]), rtol=0.01)


def test_greedy_takes_the_mode_and_draws_nothing():
    for head in HEADS:
        policy, obs = loaded(spec(head)), observations(9)
        rng = np.random.default_rng(0)
        before = rng.bit_generator.state
        exploration = {"epsilon": 1.0} if head == "q_values" else {}
        action = policy.act(obs, rng, exploration=exploration, greedy=True).action
        assert rng.bit_generator.state == before
        if head == "gaussian":
            assert np.array_equal(act(policy, obs, greedy=True, seed=8).action, action)
        else:
            likeliest = np.bincount(
                [act(policy, obs[:1], seed=s).action[0] for s in range(300)], minlength=4
            )
            assert likeliest[action[0]] == likeliest.max()


def test_epsilon_is_the_share_of_actions_taken_at_random():
    values = np.tile(np.array([0.0, 3.0, 1.0, 2.0], np.float32), (100_000, 1))
    rng = np.random.default_rng(0)
    assert (epsilon_greedy(values, rng, 0.0) == 1).all()
    frequencies = np.bincount(epsilon_greedy(values, rng, 0.4), minlength=4) / len(values)
    np.testing.assert_allclose(frequencies, [0.1, 0.7, 0.1, 0.1], atol=0.005)
    uniform = np.bincount(epsilon_greedy(values, rng, 1.0), minlength=4) / len(values)
    np.testing.assert_allclose(uniform, 0.25, atol=0.005)


def test_without_epsilon_action_values_are_acted_on_greedily():
    policy, obs = loaded(spec("q_values")), observations(50)
    assert np.array_equal(act(policy, obs).action, act(policy, obs, greedy=True).action)


@pytest.mark.parametrize(
    "exploration", [{"epsilon": 1.5}, {"epsilon": float("nan")}, {"eps": 0.1}, {"epsilon": {}}]
)
def test_unusable_exploration_is_refused_by_name(exploration: dict[str, float]):
    with pytest.raises(DataError, match="epsilon"):
        act(loaded(spec("q_values")), observations(1), exploration)
    for head in DRAWN:
        with pytest.raises(DataError, match="exploration"):
            act(loaded(spec(head)), observations(1), exploration)


def test_discrete_observations_act_like_their_one_hot_vectors():
    states = SpaceSpec(kind="discrete", n=6, dtype="int64")
    discrete = loaded(spec("q_values", states))
    flat = loaded(spec("q_values", SpaceSpec(kind="box", shape=(6,))))
    obs = np.array([0, 5, 2, 2], np.int64)
    one_hot = np.eye(6, dtype=np.float32)[obs]
    assert np.array_equal(act(discrete, obs).action, act(flat, one_hot).action)


def test_bytes_act_like_the_numbers_they_hold():
    policy = loaded(spec("gaussian"))
    pixels = np.random.default_rng(0).integers(0, 256, (3, 2, 3), np.uint8)
    floats = pixels.astype(np.float32)
    assert np.array_equal(act(policy, pixels).action, act(policy, floats).action)


def test_observations_are_left_unchanged_even_by_a_network_without_hidden_layers():
    bare = PolicySpec(observation=BOX, action=MOVES, head="categorical", hidden=())
    obs = observations(3)
    obs.setflags(write=False)
    assert act(loaded(bare), obs).action.shape == (3,)


def test_observations_of_another_shape_are_refused():
    with pytest.raises(DataError, match=r"\(3, 2\)"):
        act(loaded(spec()), np.zeros((3, 2), np.float32))


def test_acting_without_weights_is_refused():
    with pytest.raises(StateError, match="no weights"):
        act(make_policy(spec()), observations(1))


def test_bad_weights_are_refused_and_the_old_ones_stay():
    policy, obs = loaded(spec()), observations(20)
    before = act(policy, obs).action
    bad = initial_params(policy.spec, 5)
    bad["1.weight"] = np.full_like(bad["1.weight"], np.inf)
    with pytest.raises(DataError, match="not finite"):
        policy.load(bad)
    assert np.array_equal(act(policy, obs).action, before)


def test_weights_are_copied_when_loaded():
    policy, obs = make_policy(spec("gaussian")), observations(4)
    params = initial_params(policy.spec, 1)
    policy.load(params)
    before = act(policy, obs).action
    for array in params.values():
        array.fill(1.0)
    assert np.array_equal(act(policy, obs).action, before)


def test_a_head_that_cannot_act_in_the_space_is_refused():
    with pytest.raises(ConfigError, match=r"head='gaussian'.*box"):
        make_policy(PolicySpec(observation=BOX, action=MOVES, head="gaussian"))
    with pytest.raises(ConfigError, match=r"head='q_values'.*discrete"):
        make_policy(PolicySpec(observation=BOX, action=JOINTS, head="q_values"))


def test_acting_does_not_import_torch():
    code = "import sys, asyncrl.policies; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
