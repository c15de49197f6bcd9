from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dqn_by_hand import BOX, MOVES, small_dqn, steps, table_dqn, table_of, transitions

from asyncrl.algorithms.dqn import DQN, DQNUpdater
from asyncrl.data import PolicySpec, SpaceSpec, TrajectoryBatch, Transitions
from asyncrl.errors import ConfigError, InvalidBatchError
from asyncrl.policies import make_policy
from asyncrl.replay import RingReplay
from asyncrl.wire import decode_tree, encode_tree

PROMISED = {
    "loss",
    "q_mean",
    "td_error_abs",
    "target_q_mean",
    "learning_rate",
    "grad_norm",
    "skipped_steps",
}


def weights(updater: DQNUpdater) -> np.ndarray:
    return updater.state()["optimiser"]["weights"]


def saved(updater: DQNUpdater) -> bytes:
    return encode_tree(updater.state())


# -- learning ------------------------------------------------------------------------------------


def test_the_values_of_a_walk_to_the_right_become_those_of_its_solution():
    # States 0..4, left and right; reaching 4 pays 1 and ends. Q(s, right) = 0.9 ** (3 - s).
    rows = [(s, 0, 0.0, False, max(s - 1, 0)) for s in range(4)]
    rows += [(s, 1, float(s == 3), s == 3, s + 1) for s in range(4)]
    updater = table_dqn(
        [[0.0, 0.0]] * 5, [[0.0, 0.0]] * 5, gamma=0.9, learning_rate=0.02, target_update_interval=20
    )
    for _ in range(1500):
        updater.update(steps(*rows), 0.0)
    right = [0.9 ** (3 - s) for s in range(4)]
    left = [0.9 * right[max(s - 1, 0)] for s in range(4)]
    np.testing.assert_allclose(table_of(updater)[:4], np.stack([left, right], 1), atol=0.02)


def test_naming_the_observation_is_learned_from_a_replay():
    # Each step shows a number at random, and pays 1 for the action of the same number.
    config = DQN(
        hidden=(16,),
        gamma=0.0,
        learning_rate=0.01,
        batch_size=32,
        epsilon="linear:1.0:0.1:0.5",
    )
    number = SpaceSpec(kind="discrete", n=4, dtype="int64")
    spec = config.policy_spec(number, number)
    updater, policy = config.build(spec, seed=0), make_policy(spec)
    replay, rng = RingReplay(500, number, number, seed=0), np.random.default_rng(0)
    obs = rng.integers(0, 4, 8)
    for step in range(100):
        policy.load(updater.acting_params())
        exploration = config.exploration(step / 100)
        action = policy.act(obs, rng, exploration=exploration, greedy=False).action
        following = rng.integers(0, 4, 8)
        ends = np.ones((1, 8), np.bool_)
        replay.add(
            TrajectoryBatch(
                policy_id="policy",
                policy_version=step,
                obs=obs[None],
                action=action[None],
                reward=(action == obs).astype(np.float32)[None],
                terminated=ends,
                truncated=~ends,
                last_obs=following,
                final_obs=following,
                final_index=np.argwhere(ends).astype(np.int32),
            )
        )
        obs = following
        updater.update(replay.sample(config.batch_size), step / 100)
    policy.load(updater.acting_params())
    shown = np.arange(4)
    assert policy.act(shown, rng, exploration={}, greedy=True).action.tolist() == [0, 1, 2, 3]


def test_learning_lowers_the_loss():
    updater, data = small_dqn(target_update_interval=1000, learning_rate=0.01), transitions(0)
    losses = [updater.update(data, 0.0)["loss"] for _ in range(200)]
    assert losses[-1] < 0.3 * losses[0]


# -- the target network --------------------------------------------------------------------------


def target_of(updater: DQNUpdater) -> np.ndarray:
    return updater.state()["target"]


def test_the_target_network_is_copied_every_so_many_updates():
    updater = small_dqn(target_update_interval=3)
    first = weights(updater)
    np.testing.assert_array_equal(target_of(updater), first)
    for update in range(1, 7):
        before = target_of(updater)
        updater.update(transitions(update), 0.0)
        expected = weights(updater) if update % 3 == 0 else before
        np.testing.assert_array_equal(target_of(updater), expected)
    assert not np.array_equal(weights(updater), first)


def test_a_soft_update_moves_the_target_network_part_of_the_way():
    updater = small_dqn(target_update_interval=1, tau=0.25)
    before = target_of(updater)
    updater.update(transitions(0), 0.0)
    expected = 0.75 * before + 0.25 * weights(updater)
    np.testing.assert_allclose(target_of(updater), expected, rtol=1e-5, atol=1e-7)


# -- promises of every updater -------------------------------------------------------------------


def test_every_promised_metric_is_a_finite_number():
    metrics = small_dqn().update(transitions(0), 0.0)
    assert metrics.keys() == PROMISED
    assert all(math.isfinite(value) for value in metrics.values())


def test_the_same_seed_and_data_give_the_same_bytes():
    def trained(seed: int) -> bytes:
        updater = small_dqn(seed, target_update_interval=3)
        for update in range(7):
            updater.update(transitions(update), update / 7)
        return saved(updater)

    assert trained(1) == trained(1)
    assert trained(1) != trained(2)


@pytest.mark.parametrize("options", [{"target_update_interval": 4}, {"tau": 0.01}])
def test_a_restored_updater_goes_on_as_if_nothing_had_happened(options: dict[str, Any]):
    options = {"learning_rate": "linear:0.01:0", **options}
    updater, restored = small_dqn(1, **options), small_dqn(2, **options)
    for update in range(6):
        updater.update(transitions(update), update / 20)
    restored.load_state(decode_tree(saved(updater)))
    assert restored.updates == 6
    for update in range(6, 16):
        data, progress = transitions(update), update / 20
        assert updater.update(data, progress) == restored.update(data, progress)
        assert saved(updater) == saved(restored)


def test_a_state_is_not_changed_by_what_follows():
    updater = small_dqn(target_update_interval=1)
    updater.update(transitions(0), 0.0)
    state = updater.state()
    before = encode_tree(state)
    updater.update(transitions(1), 0.0)
    assert encode_tree(state) == before


def test_the_state_of_another_network_is_refused():
    updater = small_dqn()
    before = saved(updater)
    with pytest.raises(ConfigError, match="the same networks"):
        updater.load_state(small_dqn(hidden=(7, 5)).state())
    assert saved(updater) == before


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_an_update_that_is_not_finite_changes_nothing_and_is_counted(poison: float):
    updater, data = small_dqn(), transitions(0)
    updater.update(data, 0.0)
    before = encode_tree(updater.state()["optimiser"])
    data.reward[3] = poison
    metrics = updater.update(data, 0.0)
    assert metrics["skipped_steps"] == 1.0
    assert all(math.isfinite(value) for value in metrics.values())
    assert encode_tree(updater.state()["optimiser"]) == before
    assert updater.updates == 2
    assert updater.update(transitions(1), 0.0)["skipped_steps"] == 0.0
    assert np.isfinite(weights(updater)).all()


def test_a_gradient_that_overflows_changes_nothing_and_is_counted():
    updater, data = small_dqn(hidden=()), transitions(0)
    before = weights(updater)
    data.obs[...] = 1e25  # a finite loss, whose gradient's norm is beyond float32
    assert updater.update(data, 0.0)["skipped_steps"] == 1.0
    np.testing.assert_array_equal(weights(updater), before)


def test_data_are_left_unchanged_and_may_be_read_only():
    data, again = transitions(0), transitions(0)
    names = ("obs", "action", "reward", "terminated", "next_obs")
    for name in names:
        getattr(data, name).flags.writeable = False
    small_dqn().update(data, 0.0)
    for name in names:
        np.testing.assert_array_equal(getattr(data, name), getattr(again, name))


def test_images_are_learned_from_as_they_are():
    image = SpaceSpec(kind="box", shape=(2, 2), dtype="uint8")
    config = DQN(hidden=(4,))
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 255, (2, 8, 2, 2), np.uint8)
    common = {
        "action": rng.integers(0, 4, 8),
        "reward": np.ones(8, np.float32),
        "terminated": np.zeros(8, np.bool_),
    }
    raw = Transitions(obs=obs[0], next_obs=obs[1], **common)
    floats = Transitions(
        obs=obs[0].astype(np.float32), next_obs=obs[1].astype(np.float32), **common
    )
    updaters = [config.build(config.policy_spec(image, MOVES), seed=0) for _ in range(2)]
    assert updaters[0].update(raw, 0.0) == updaters[1].update(floats, 0.0)


def test_an_update_of_nothing_is_refused():
    empty = transitions(0, count=0)
    with pytest.raises(InvalidBatchError, match="at least one transition"):
        small_dqn().update(empty, 0.0)


def test_actors_get_copies_that_act_like_the_learned_network():
    updater = small_dqn()
    params = updater.acting_params()
    policy = make_policy(updater.network.spec)
    policy.load(params)
    obs = transitions(0).obs
    rng = np.random.default_rng(0)
    greedy = policy.act(obs, rng, exploration={}, greedy=True).action
    values = updater.network(updater._tensor(obs)).detach().numpy()
    np.testing.assert_array_equal(greedy, values.argmax(axis=1))
    updater.update(transitions(0), 0.0)
    assert not np.array_equal(params["0.weight"], updater.acting_params()["0.weight"])


# -- settings ------------------------------------------------------------------------------------


def test_the_learning_rate_follows_progress():
    updater = small_dqn(learning_rate="linear:0.01:0")
    assert updater.update(transitions(0), 0.5)["learning_rate"] == pytest.approx(0.005)
    before = weights(updater)
    assert updater.update(transitions(1), 1.0)["learning_rate"] == 0.0
    np.testing.assert_array_equal(weights(updater), before)


def test_a_long_gradient_is_cut_to_its_bound():
    # Adam's steps do not depend on the gradient's length, unless it is near Adam's epsilon.
    loose, tight = small_dqn(max_grad_norm=None), small_dqn(max_grad_norm=1e-9)
    first = weights(tight)
    norms = [updater.update(transitions(0), 0.0)["grad_norm"] for updater in (loose, tight)]
    assert norms[0] == norms[1] > 0.1  # the metric is of the gradient as it was
    assert abs(weights(tight) - first).max() < 0.2 * abs(weights(loose) - first).max()


def test_exploration_follows_progress():
    config = DQN(epsilon="linear:1.0:0.1:0.5")
    assert [config.exploration(at)["epsilon"] for at in (0.0, 0.25, 0.5, 1.0)] == pytest.approx(
        [1.0, 0.55, 0.1, 0.1]
    )
    assert DQN(epsilon=0.2).exploration(0.7) == {"epsilon": 0.2}


def test_continuous_actions_are_refused_with_what_to_do():
    with pytest.raises(ConfigError, match=r"action=SpaceSpec.*use PPO for continuous") as caught:
        DQN().policy_spec(BOX, SpaceSpec(kind="box", shape=(2,)))
    assert caught.value.field == "action"


def test_a_policy_that_draws_its_actions_is_refused():
    spec = PolicySpec(observation=BOX, action=MOVES, head="categorical")
    with pytest.raises(ConfigError, match="head='categorical'"):
        DQN().build(spec, seed=0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rollout_steps", 0),
        ("learning_rate", -1.0),
        ("learning_rate", "linear:0.1:-0.1"),
        ("learning_rate", "steep"),
        ("gamma", 1.01),
        ("buffer_size", 0),
        ("buffer_size", 500),
        ("batch_size", 0),
        ("learning_starts", 0),
        ("samples_per_insert", 0.0),
        ("target_update_interval", 0),
        ("tau", 0.0),
        ("tau", 1.5),
        ("epsilon", 1.5),
        ("epsilon", "linear:1:-0.1"),
        ("epsilon", "two_phase_linear:0:2:0"),
        ("epsilon", "linear:[0.1,0.2]:0"),
        ("huber_threshold", 0.0),
        ("max_grad_norm", 0.0),
        ("hidden", (64, 0)),
        ("adam_eps", 0.0),
    ],
)
def test_settings_out_of_range_are_refused_by_name(name: str, value: Any):
    with pytest.raises(ConfigError) as caught:
        DQN(**{name: value})
    assert caught.value.field == name
    assert caught.value.value == value
