"""DQN's loss and gradient a second time, in NumPy and float64, one transition at a time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from asyncrl.algorithms.dqn import DQN, DQNUpdater
from asyncrl.data import PolicySpec, SpaceSpec, Transitions

BOX = SpaceSpec(kind="box", shape=(3,))
MOVES = SpaceSpec(kind="discrete", n=4, dtype="int64")
Layers = list[tuple[np.ndarray, np.ndarray]]


def layers(params: Mapping[str, np.ndarray]) -> Layers:
    """Return (weight, bias) of every layer in float64."""
    count = len(params) // 2
    return [
        (params[f"{i}.weight"].astype(np.float64), params[f"{i}.bias"].astype(np.float64))
        for i in range(count)
    ]


def forward(network: Layers, obs: np.ndarray, activation: str) -> list[np.ndarray]:
    """Return what goes into each layer, then the values [actions], of one observation."""
    values = [obs.astype(np.float64).reshape(-1)]
    for i, (weight, bias) in enumerate(network):
        out = weight @ values[-1] + bias
        if i < len(network) - 1:
            out = np.tanh(out) if activation == "tanh" else np.maximum(out, 0.0)
        values.append(out)
    return values


def loss_and_gradient(
    config: DQN, online: Layers, target: Layers, data: Transitions
) -> tuple[float, Layers]:
    """Return the mean Huber loss and its gradient by the online network's layers."""
    loss, count = 0.0, len(data)
    gradient = [(np.zeros_like(weight), np.zeros_like(bias)) for weight, bias in online]
    for i in range(count):
        values = forward(online, data.obs[i], config.activation)
        following = forward(target, data.next_obs[i], config.activation)[-1]
        liked = forward(online, data.next_obs[i], config.activation)[-1]
        best = int(np.argmax(liked if config.double else following))
        future = 0.0 if data.terminated[i] else config.gamma * following[best]
        error = float(values[-1][data.action[i]]) - (float(data.reward[i]) + float(future))
        bent = abs(error) > config.huber_threshold
        linear = config.huber_threshold * (abs(error) - 0.5 * config.huber_threshold)
        loss += (linear if bent else 0.5 * error**2) / count
        back = np.zeros_like(values[-1])
        back[data.action[i]] = (
            np.clip(error, -config.huber_threshold, config.huber_threshold) / count
        )
        for layer in reversed(range(len(online))):
            if layer < len(online) - 1:
                out = values[layer + 1]
                back = back * (1.0 - out**2 if config.activation == "tanh" else out > 0.0)
            gradient[layer][0][...] += np.outer(back, values[layer])
            gradient[layer][1][...] += back
            back = online[layer][0].T @ back
    return loss, gradient


def transitions(seed: int, count: int = 16, scale: float = 1.0) -> Transitions:
    """Return random transitions of `BOX` and `MOVES`; a quarter of them end their episode."""
    rng = np.random.default_rng(seed)
    return Transitions(
        obs=rng.standard_normal((count, 3), np.float32),
        action=rng.integers(0, 4, count),
        reward=scale * rng.standard_normal(count, np.float32),
        terminated=rng.random(count) < 0.25,
        next_obs=rng.standard_normal((count, 3), np.float32),
    )


def small_dqn(seed: int = 0, **options: object) -> DQNUpdater:
    """Return an updater over `BOX` and `MOVES`, with small layers unless told otherwise."""
    config = DQN(**{"hidden": (6, 5), **options})  # pyright: ignore[reportArgumentType]
    return config.build(config.policy_spec(BOX, MOVES), seed=seed)


def table_dqn(q: list[list[float]], target: list[list[float]], **options: object) -> DQNUpdater:
    """Return an updater whose networks are the tables `q` and `target`, [states][actions]."""
    observation = SpaceSpec(kind="discrete", n=len(q), dtype="int64")
    action = SpaceSpec(kind="discrete", n=len(q[0]), dtype="int64")
    spec = PolicySpec(observation=observation, action=action, head="q_values", hidden=())
    config = DQN(hidden=(), **options)  # pyright: ignore[reportArgumentType]
    updater = config.build(spec, seed=0)
    for network, table in ((updater.network, q), (updater.target, target)):
        weight = np.array(table, np.float32).T
        network.load_params({"0.weight": weight, "0.bias": np.zeros(len(q[0]), np.float32)})
    return updater


def steps(*rows: tuple[int, int, float, bool, int]) -> Transitions:
    """Return transitions between numbered states: (state, action, reward, terminated, next)."""
    state, action, reward, terminated, following = zip(*rows, strict=True)
    return Transitions(
        obs=np.array(state),
        action=np.array(action),
        reward=np.array(reward, np.float32),
        terminated=np.array(terminated),
        next_obs=np.array(following),
    )


def table_of(updater: DQNUpdater) -> np.ndarray:
    """Return the action values [states, actions] of a network without hidden layers."""
    params = updater.acting_params()
    return params["0.weight"].T + params["0.bias"]
