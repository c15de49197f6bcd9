from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rollouts_of_arrays import BOX, DRAWN, MOVES, acted_batch, small_ppo, small_spec

from asyncrl.algorithms.ppo import PPO, PPOUpdater
from asyncrl.data import HeadKind, PolicySpec, SpaceSpec, TrajectoryBatch
from asyncrl.errors import ConfigError, InvalidBatchError
from asyncrl.policies import MLPPolicy, make_policy

PROMISED = {
    "policy_loss",
    "value_loss",
    "entropy",
    "approx_kl",
    "clip_fraction",
    "explained_variance",
    "learning_rate",
    "grad_norm",
    "ratio_deviation",
    "skipped_steps",
}


def weights(updater: PPOUpdater) -> bytes:
    return updater.state()["optimiser"]["weights"].tobytes()


def constant(
    obs: np.ndarray, action: np.ndarray, reward: np.ndarray, log_prob: np.ndarray, **ends: bool
) -> TrajectoryBatch:
    """Return a batch of [T, 1] whose episode ends with the last row, where it stays."""
    last = np.zeros(reward.shape, np.bool_)
    last[-1] = True
    never = np.zeros_like(last)
    return TrajectoryBatch(
        policy_id="policy",
        policy_version=1,
        obs=obs,
        action=action,
        reward=reward,
        terminated=last if ends.get("terminated") else never,
        truncated=last if ends.get("truncated") else never,
        last_obs=obs[0],
        final_obs=obs[-1],
        final_index=np.array([[len(reward) - 1, 0]], np.int32),
        extras={"log_prob": log_prob},
    )


@pytest.mark.parametrize("head", DRAWN)
def test_ratio_is_one_before_the_first_step_of_every_update(head: HeadKind):
    updater = small_ppo(head)
    for seed in range(5):
        metrics = updater.update([acted_batch(updater, seed)], 0.0)
        assert metrics["ratio_deviation"] < 1e-5
        assert metrics["approx_kl"] > 0.0  # yet the policy moved after that


def test_every_promised_metric_is_a_finite_number():
    metrics = small_ppo().update([acted_batch(small_ppo(), 0)], 0.0)
    assert metrics.keys() >= PROMISED
    assert all(math.isfinite(value) for value in metrics.values())
    assert metrics["skipped_steps"] == 0


@pytest.mark.parametrize("head", DRAWN)
def test_same_seed_and_data_give_the_same_bytes(head: HeadKind):
    first, again, other = (small_ppo(head, seed=seed) for seed in (1, 1, 2))
    batches = [acted_batch(first, seed) for seed in range(3)]
    for updater in (first, again, other):
        for batch in batches:
            updater.update([batch], 0.25)
    assert weights(first) == weights(again)
    assert weights(first) != weights(other)


@pytest.mark.parametrize("done", [0, 2])
def test_loading_a_state_continues_to_the_byte(done: int):
    updater, resumed = small_ppo(seed=1), small_ppo(seed=2)
    batches = [acted_batch(updater, seed) for seed in range(4)]
    for batch in batches[:done]:
        updater.update([batch], 0.0)
    resumed.update([batches[0]], 0.0)
    resumed.load_state(updater.state())
    for batch in batches[done:]:
        assert updater.update([batch], 0.5) == resumed.update([batch], 0.5)
    assert weights(updater) == weights(resumed)
    for name, array in updater.acting_params().items():
        assert array.tobytes() == resumed.acting_params()[name].tobytes()


def test_a_state_of_another_network_is_refused():
    wider = PPO(hidden=(9,)).build(replace(small_spec(), hidden=(9,)), seed=0)
    with pytest.raises(ConfigError, match="same networks"):
        small_ppo().load_state(wider.state())


def test_an_update_leaves_the_batch_unchanged_and_takes_read_only_arrays():
    updater = small_ppo()
    batch = acted_batch(updater, 0)
    arrays = [batch.obs, batch.action, batch.reward, batch.final_obs, *batch.extras.values()]
    copies = [array.copy() for array in arrays]
    for array in arrays:
        array.setflags(write=False)
    updater.update([batch], 0.0)
    for array, copy in zip(arrays, copies, strict=True):
        assert np.array_equal(array, copy)


def test_schedules_follow_progress():
    updater = small_ppo(config=PPO(learning_rate="linear:0.01:0", clip_range="linear:0.4:0.2"))
    metrics = updater.update([acted_batch(updater, 0)], 0.75)
    assert metrics["learning_rate"] == pytest.approx(0.0025)
    assert metrics["clip_range"] == pytest.approx(0.25)
    before = weights(updater)
    updater.update([acted_batch(updater, 0)], 1.0)
    assert weights(updater) == before


def lagging(updater: PPOUpdater) -> TrajectoryBatch:
    """Return a batch all of whose ratios are 2: an approximate KL of 1 - log 2 = 0.307."""
    batch = acted_batch(updater, 0)
    return replace(batch, extras={"log_prob": batch.extras["log_prob"] - np.float32(math.log(2.0))})


def test_an_update_ends_before_the_step_that_follows_too_large_a_divergence():
    updater = small_ppo(config=PPO(target_kl=0.30, minibatch_size=8))
    before = weights(updater)
    metrics = updater.update([lagging(updater)], 0.0)
    assert metrics["epochs"] == 1
    assert metrics["approx_kl"] == pytest.approx(1 - math.log(2.0), rel=1e-4)
    assert weights(updater) == before
    lenient = small_ppo(config=PPO(target_kl=10.0, minibatch_size=8, epochs=3))
    assert lenient.update([lagging(lenient)], 0.0)["epochs"] == 3


def test_a_batch_of_nan_changes_nothing_and_is_counted():
    updater = small_ppo(config=PPO(epochs=3, minibatch_size=8))
    updater.update([acted_batch(updater, 0)], 0.0)
    before = weights(updater)
    batch = acted_batch(updater, 1)
    metrics = updater.update([replace(batch, reward=batch.reward * np.float32("nan"))], 0.0)
    assert weights(updater) == before
    assert metrics["skipped_steps"] == 9  # 3 epochs of 24 rows in minibatches of 8
    assert all(math.isfinite(value) for value in metrics.values())
    updater.update([acted_batch(updater, 1)], 0.0)
    assert weights(updater) != before


def test_only_the_minibatch_with_a_broken_row_is_skipped():
    updater = small_ppo(config=PPO(epochs=3, minibatch_size=8))
    batch = acted_batch(updater, 0)
    log_prob = batch.extras["log_prob"].copy()
    log_prob[2, 1] = np.nan
    metrics = updater.update([replace(batch, extras={"log_prob": log_prob})], 0.0)
    assert metrics["skipped_steps"] == 3
    assert all(np.isfinite(array).all() for array in updater.acting_params().values())


def test_rows_are_split_evenly_so_that_no_minibatch_is_tiny():
    updater = small_ppo(config=PPO(epochs=1, minibatch_size=23))
    updater.update([acted_batch(updater, 0)], 0.0)
    assert updater.state()["optimiser"]["steps"] == 1  # 24 rows: one minibatch, not 23 and 1


def test_data_without_behaviour_log_probs_is_refused():
    updater = small_ppo()
    with pytest.raises(InvalidBatchError, match="log_prob"):
        updater.update([replace(acted_batch(updater, 0), extras={})], 0.0)
    with pytest.raises(InvalidBatchError, match="at least one"):
        updater.update([], 0.0)


def learn_values(obs: np.ndarray, space: SpaceSpec, **ends: bool) -> np.ndarray:
    """Return V(obs) once reward 1 a step for 10 steps, gamma .9, is learned."""
    config = PPO(gamma=0.9, lam=0.95, learning_rate=0.03, value_hidden=(16,), max_grad_norm=None)
    updater = config.build(config.policy_spec(space, MOVES), seed=0)
    flat = np.zeros((10, 1))
    log_prob = np.full((10, 1), math.log(0.25), np.float32)
    batch = constant(obs, flat.astype(np.int64), np.ones((10, 1), np.float32), log_prob, **ends)
    batch.validate()
    for i in range(60):
        updater.update([batch], i / 60)
    critic = MLPPolicy(updater.critic.spec)
    critic.load(updater.critic.acting_params())
    return critic.outputs(obs[:, 0])[:, 0]


def test_truncation_at_a_limit_the_policy_cannot_see_is_worth_ten():
    space = SpaceSpec(kind="discrete", n=2, dtype="int64")
    value = learn_values(np.ones((10, 1), np.int64), space, truncated=True)
    np.testing.assert_allclose(value, 10.0, atol=0.2)


def test_termination_is_worth_one_at_the_last_step():
    space = SpaceSpec(kind="discrete", n=10, dtype="int64")
    value = learn_values(np.arange(10, dtype=np.int64)[:, None], space, terminated=True)
    np.testing.assert_allclose(value, (1 - 0.9 ** np.arange(10, 0, -1)) / 0.1, atol=0.2)


def play(updater: PPOUpdater, obs: np.ndarray, score: Any, rng: np.random.Generator):
    """Return one round of one-step episodes: act on [T, B] observations, and score each action."""
    policy = make_policy(updater.actor.spec)
    policy.load(updater.acting_params())
    acted = [policy.act(row, rng, exploration={}, greedy=False) for row in obs]
    action = np.stack([step.action for step in acted])
    ended = np.ones(obs.shape[:2], np.bool_)
    batch = TrajectoryBatch(
        policy_id="policy",
        policy_version=1,
        obs=obs,
        action=action,
        reward=score(obs, action).astype(np.float32),
        terminated=ended,
        truncated=~ended,
        last_obs=obs[-1],
        final_obs=obs.reshape(-1, *obs.shape[2:]),
        final_index=np.argwhere(ended).astype(np.int32),
        extras={"log_prob": np.stack([step.extras["log_prob"] for step in acted])},
    )
    batch.validate()
    return batch


def test_repeating_what_it_sees_is_learned():
    states = SpaceSpec(kind="discrete", n=4, dtype="int64")
    config = PPO(learning_rate=0.01, minibatch_size=64, hidden=(16,))
    updater = config.build(config.policy_spec(states, MOVES), seed=0)
    rng = np.random.default_rng(0)
    for i in range(15):
        obs = rng.integers(4, size=(16, 8))
        updater.update([play(updater, obs, np.equal, rng)], i / 15)
    obs = rng.integers(4, size=(16, 8))
    assert play(updater, obs, np.equal, rng).reward.mean() > 0.95


def test_a_continuous_target_is_learned():
    joint = SpaceSpec(kind="box", shape=(1,))
    config = PPO(learning_rate=0.01, minibatch_size=64, hidden=(16,))
    updater = config.build(config.policy_spec(BOX, joint), seed=0)
    rng = np.random.default_rng(0)

    def score(obs: np.ndarray, action: np.ndarray) -> np.ndarray:
        return -((action[..., 0] - obs[..., 0]) ** 2)

    def fresh() -> np.ndarray:
        return rng.uniform(-1, 1, (16, 8, 3)).astype(np.float32)

    first = play(updater, fresh(), score, rng).reward.mean()
    for i in range(60):
        updater.update([play(updater, fresh(), score, rng)], i / 60)
    assert play(updater, fresh(), score, rng).reward.mean() > 0.1 * first


def test_heads_follow_the_action_space():
    config = PPO(hidden=(5,), activation="relu")
    discrete = config.policy_spec(BOX, MOVES)
    assert discrete == PolicySpec(
        observation=BOX, action=MOVES, head="categorical", hidden=(5,), activation="relu"
    )
    assert config.policy_spec(BOX, BOX).head == "gaussian"
    with pytest.raises(ConfigError, match="head="):
        config.build(replace(discrete, head="q_values"), seed=0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"gamma": 1.1},
        {"lam": -0.1},
        {"epochs": 0},
        {"minibatch_size": 0},
        {"rollout_steps": 0},
        {"entropy_coef": -1.0},
        {"max_grad_norm": 0.0},
        {"value_clip": -1.0},
        {"target_kl": 0.0},
        {"learning_rate": -0.1},
        {"hidden": (4, 0)},
    ],
)
def test_settings_are_checked_by_name(wrong: dict[str, Any]):
    with pytest.raises(ConfigError) as caught:
        PPO(**wrong)
    assert caught.value.field in wrong


def test_a_schedule_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match="sometimes"):
        PPO(learning_rate="sometimes")
