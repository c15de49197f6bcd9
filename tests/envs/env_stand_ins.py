"""Environments that do one thing, to be named by import path in the tests of this room."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

Step = tuple[Any, Any, Any, Any, dict[str, Any]]


class Counter(gymnasium.Env[Any, Any]):
    """Observes t and is rewarded with t; ends at `limit` with the flags named in `ends`."""

    def __init__(self, limit: int = 5, ends: str = "terminated") -> None:
        self.observation_space = spaces.Box(0, 1000, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._limit, self._ends, self.t = limit, ends, 0

    def _obs(self) -> Any:
        return np.array([self.t], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {"seed": seed}

    def step(self, action: Any) -> Step:
        self.t += 1
        end = self.t >= self._limit
        info = {"t": self.t}
        return (
            self._obs(),
            float(self.t),
            end and "terminated" in self._ends,
            end and "truncated" in self._ends,
            info,
        )


class Dice(Counter):
    """Observes three numbers that depend on the seed."""

    def __init__(self, limit: int = 3) -> None:
        super().__init__(limit)
        self.observation_space = spaces.Box(0, 1, (3,), np.float32)

    def _obs(self) -> Any:
        return self.np_random.random(3).astype(np.float32)


class Crasher(Counter):
    """Raises in step `at`, or in reset number `at_reset`."""

    def __init__(self, at: int = 37, at_reset: int = 0, limit: int = 1000) -> None:
        super().__init__(limit)
        self._at, self._at_reset, self._resets = at, at_reset, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._resets += 1
        if self._resets == self._at_reset:
            raise OSError("the level file is gone")
        return super().reset(seed=seed)

    def step(self, action: Any) -> Step:
        if self.t + 1 == self._at:
            self._divide_by(0)
        return super().step(action)

    def _divide_by(self, number: int) -> float:
        return 1 / number


class Observes(Counter):
    """Observes what it is told to, from step `at` on (0: from the reset on)."""

    def __init__(
        self, what: Any, at: int = 0, dtype: str = "float32", reward: Any = 1.0, actions: int = 0
    ) -> None:
        super().__init__(limit=1000)
        if actions:
            self.action_space = spaces.Box(-1, 1, (actions,))
        high = 255 if dtype == "uint8" else 10
        self.observation_space = spaces.Box(0, high, (2,), np.dtype(dtype).type)
        self._what, self._at, self._reward = what, at, reward
        self._dtype = dtype

    def _obs(self) -> Any:
        return self._what if self.t >= self._at else np.ones(2, self._dtype)

    def step(self, action: Any) -> Step:
        obs, _, *rest = super().step(action)
        return (obs, self._reward, *rest)  # pyright: ignore[reportReturnType]


class WorseEachEpisode(Counter):
    """One step an episode; observes NaN after its second reset, or at its first episode's end."""

    def __init__(self, last: bool = False) -> None:
        super().__init__(limit=1)
        self._resets, self._last = 0, last

    def _obs(self) -> Any:
        return np.full(1, np.nan, np.float32) if self._is_bad() else super()._obs()

    def _is_bad(self) -> bool:
        return self.t == 1 if self._last else self._resets > 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._resets += 1
        return super().reset(seed=seed)


class Acts(Counter):
    """Keeps the action it got."""

    got: Any

    def __init__(self, low: Any, high: Any, dtype: str = "float32", size: int = 2) -> None:
        super().__init__(limit=1000)
        bounds = [np.broadcast_to(np.asarray(bound, dtype), (size,)) for bound in (low, high)]
        self.action_space = spaces.Box(bounds[0], bounds[1], dtype=np.dtype(dtype).type)

    def step(self, action: Any) -> Step:
        self.got = action
        return super().step(action)


class Shifted(Counter):
    """Discrete spaces that start at 5 and at -1; keeps the action it got."""

    got: Any

    def __init__(self) -> None:
        super().__init__(limit=3)
        self.observation_space = spaces.Discrete(10, start=5)
        self.action_space = spaces.Discrete(3, start=-1)

    def _obs(self) -> Any:
        return np.array(5 + self.t, np.int64)

    def step(self, action: Any) -> Step:
        self.got = action
        return super().step(action)


class Tells(Shifted):
    """Observes what it is told to in a discrete space from 5 to 14."""

    def __init__(self, what: Any) -> None:
        super().__init__()
        self._what = what

    def _obs(self) -> Any:
        return self._what


class Spaced(Counter):
    """Has an action space of the kind named."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.action_space = {
            "multi": spaces.MultiDiscrete([2, 3]),
            "tuple": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]),
            "dict": spaces.Dict({"a": spaces.Discrete(2)}),
        }[kind]


class Broken(Counter):
    """Cannot be made; or only the first `good` can."""

    made = 0

    def __init__(self, log: str = "", good: int = 0) -> None:
        super().__init__()
        self._log = log
        Broken.made += 1
        if Broken.made > good:
            Broken.made = 0
            self._load_the_level()

    def _load_the_level(self) -> None:
        raise FileNotFoundError("no level called 7")

    def close(self) -> None:
        with Path(self._log).open("a") as log:
            log.write("closed\n")


class Closes(Counter):
    """Writes a file when closed, hangs until `released`, or raises."""

    released = threading.Event()

    def __init__(self, path: str, how: str = "writes") -> None:
        super().__init__()
        self._path, self._how = path, how

    def close(self) -> None:
        if self._how == "hangs":
            self.released.wait(30)
        if self._how == "raises":
            raise RuntimeError("the display is gone")
        with Path(self._path).open("a") as log:
            log.write("closed\n")


class Old(Counter):
    """Has the interface of old Gym, in `reset`, in `step`, or in something else than either."""

    def __init__(self, what: str, wide: int = 1) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 1000, (wide,), np.float32)
        self._what, self._wide = what, wide

    def _obs(self) -> Any:
        return np.full(self._wide, self.t, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        obs, info = super().reset(seed=seed)
        return obs if self._what == "reset" else (obs, info)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        if self._what == "none":
            return None
        return obs, reward, terminated or truncated, info


class UnpacksBadly(Counter):
    """Has a bug that sounds like an old interface."""

    def step(self, action: Any) -> Any:
        a, b, c, d, e = [action] * 4
        return a, b, c, d, e


def old_with_limit(what: str) -> Any:
    return gymnasium.wrappers.TimeLimit(Old(what), 5)


def nothing_to_see(where: str, wide: int) -> Any:
    """Make an environment with a space that has no elements."""
    env = Counter()
    setattr(env, f"{where}_space", spaces.Box(-1, 1, (wide, 0) if wide else (0,), np.float32))
    return env


class NativeVector(VectorEnv[Any, Any, Any]):
    """Vectorised by itself: counts to `limit`; takes one seed, and shows it in the observation."""

    def __init__(self, num_envs: int, mode: str = "Disabled", limit: int = 3) -> None:
        self.num_envs = num_envs
        self.single_observation_space = spaces.Box(0, 1e9, (2,), np.float64)
        self.single_action_space = spaces.Discrete(2)
        self.metadata = {"autoreset_mode": mode} if mode else {}
        self._limit, self.t = limit, np.zeros(num_envs)
        self.seed = np.zeros(num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        assert seed is None or isinstance(seed, int)
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_))
        self.t[mask] = 0
        self.seed[mask] = seed
        return self._obs(), {}

    def step(self, actions: Any) -> Any:
        self.t += 1
        ended = self.t >= self._limit
        return self._obs(), self.t.copy(), ended, np.zeros_like(ended), {}

    def _obs(self) -> Any:
        return np.stack([self.t, self.seed], axis=1)


class FaultyVector(NativeVector):
    """Does one thing wrong."""

    def __init__(self, num_envs: int, what: str, mode: str) -> None:
        super().__init__(num_envs, mode, limit=1)
        self._what = what

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if self._what == "reset":
            raise RuntimeError("the simulator stopped")
        if self._what == "old reset":
            return self._obs()
        obs, info = super().reset(seed=seed, options=options)
        return (obs[:1] if self._what == "shape" else obs), info

    def step(self, actions: Any) -> Any:
        if self._what == "step":
            raise RuntimeError("the simulator stopped")
        obs, reward, *rest = super().step(actions)
        if self._what == "old step":
            return obs, reward, *rest[1:]
        return (obs, reward[:, None] if self._what == "reward" else reward, *rest)


def vector(
    num_envs: int, env: str = "Counter", kind: str = "sync", mode: str = "NextStep", **kwargs: Any
) -> Any:
    """Make a Gymnasium vector of `env`; counters have limits 3, 4, 5, .. unless one is given."""

    def maker(b: int) -> Callable[[], Any]:
        own = {"limit": 3 + b} if env in ("Counter", "Dice") else {}
        return lambda: globals()[env](**(own | kwargs))

    makers = [maker(b) for b in range(num_envs)]
    if env == "Crasher" and "at" in kwargs:  # the last one crashes
        makers[:-1] = [Counter] * (num_envs - 1)
    if kind == "sync":
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode(mode))
    return AsyncVectorEnv(makers, autoreset_mode=AutoresetMode(mode), context="fork")


def without_shared_memory(num_envs: int, mode: str) -> Any:
    return AsyncVectorEnv(
        [Counter] * num_envs,
        autoreset_mode=AutoresetMode(mode),
        context="fork",
        shared_memory=False,
    )


def changing() -> Any:
    """Make environments of another action space each time."""
    env = Counter()
    changing_counts.append(0)
    env.action_space = spaces.Discrete(1 + len(changing_counts))
    return env


changing_counts: list[int] = []


def vector_of_two() -> Any:
    return vector(2)


def hanging_worker(num_envs: int) -> Any:
    """Make workers whose environments never answer a close."""
    return AsyncVectorEnv([Sleeper] * num_envs, context="fork")


class Sleeper(Counter):
    def close(self) -> None:
        if multiprocessing.parent_process() is not None:  # Gymnasium makes and closes one here
            time.sleep(3600)


def not_an_env() -> list[int]:
    return []


def quits() -> None:
    raise SystemExit(3)


NUMBER = 7

if "asyncrl-tests/StandIn-v1" not in gymnasium.registry:
    gymnasium.register(
        "asyncrl-tests/StandIn-v1", entry_point=f"{__name__}:Counter", max_episode_steps=4
    )
    gymnasium.register("StandIn-v3", entry_point=f"{__name__}:Counter")
    gymnasium.register("StandInVector-v0", vector_entry_point=f"{__name__}:NativeVector")
