"""The trajectory batch: the library's one definition of a transition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from asyncrl.errors import InvalidBatchError

_NO_CUTS = np.zeros((0, 2), np.int32)
_NO_STATE = np.zeros((0, 0), np.float32)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrajectoryBatch:
    """T consecutive steps of B environments under one policy, time-major and contiguous.

    Row t of column b is the transition (obs[t, b], action[t, b]) -> reward[t, b] and the next
    observation, which is: the row of `final_obs` for (t, b) where the episode ended there
    (terminated or truncated), else obs[t + 1, b], and last_obs[b] after the last row. A reset is
    never a transition. One agent's whole episode has B = 1.
    """

    policy_id: str
    policy_version: int
    """Version of the policy that chose every action here."""
    obs: np.ndarray
    """[T, B, *stored shape], in the stored dtype of the observation space: uint8 stays uint8, other
    numbers float32, discrete observations int64, composite ones packed bytes (`SpaceSpec`)."""
    action: np.ndarray
    """[T, B, *stored shape], raw: before any clipping. int64 for discrete spaces, float32 for a
    box, uint8 for multi-binary and (packed) composite ones."""
    reward: np.ndarray
    """[T, B] float32."""
    terminated: np.ndarray
    """[T, B] bool: the episode reached a terminal state; its value is 0 from there on."""
    truncated: np.ndarray
    """[T, B] bool: the episode was cut off (a time limit); bootstrap from `final_obs`. Where both
    are true it counts as terminated."""
    last_obs: np.ndarray
    """[B, *observation shape]: what follows the last row, to bootstrap from. After a cut: the next
    episode's first."""
    final_obs: np.ndarray
    """[K, *observation shape]: last observation of each of the K episodes that ended in this
    batch."""
    final_index: np.ndarray = field(default_factory=_NO_CUTS.copy)
    """[K, 2] int32: the (t, b) each row of `final_obs` belongs to, in ascending order."""
    extras: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    """What the policy recorded while acting, [T, B, ...] each; ``"log_prob"`` [T, B] float32 where
    actions are drawn."""
    initial_state: np.ndarray = field(default_factory=_NO_STATE.copy)
    """[B, S] float32: what the policy carried from step to step, before row 0; (0, 0) where it
    carries nothing. It is 0 at the start of an episode, so also after every end inside."""
    agent_id: str = ""
    """Whose steps these are in a multi-agent scenario."""

    @property
    def steps(self) -> int:
        """T."""
        return self.obs.shape[0]

    @property
    def width(self) -> int:
        """B."""
        return self.obs.shape[1]

    @property
    def transitions(self) -> int:
        """T * B."""
        return self.steps * self.width

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (
            self.obs,
            self.action,
            self.reward,
            self.last_obs,
            self.final_obs,
            self.initial_state,
            *self.extras.values(),
        )
        return (
            sum(a.nbytes for a in arrays)
            + self.terminated.nbytes
            + self.truncated.nbytes
            + self.final_index.nbytes
        )

    def next_obs(self) -> np.ndarray:
        """Return [T, B, *observation shape]: what followed each step, at an end the last one."""
        following = np.concatenate([self.obs[1:], self.last_obs[None]])
        if len(self.final_index):
            following[self.final_index[:, 0], self.final_index[:, 1]] = self.final_obs
        return following

    def validate(self) -> None:
        """Raise `InvalidBatchError` naming array and place if shapes, dtypes or numbers are bad."""
        if self.obs.ndim < 2 or self.steps == 0 or self.width == 0:
            raise self._invalid("obs", f"shape {self.obs.shape} is not [T >= 1, B >= 1, ...]")
        lead, item = self.obs.shape[:2], self.obs.shape[2:]
        self._check_dtype("obs", self.obs, "uint8", "float32", "int64")
        self._check_dtype("action", self.action, "int64", "float32", "uint8")
        for name, dtype in (("reward", "float32"), ("terminated", "bool"), ("truncated", "bool")):
            array: np.ndarray = getattr(self, name)
            if array.shape != lead:
                raise self._invalid(name, f"shape {array.shape} is not [T, B] = {lead}")
            self._check_dtype(name, array, dtype)
        for name, array in {"action": self.action, **self.extras}.items():
            if array.shape[:2] != lead:
                raise self._invalid(
                    name, f"shape {array.shape} does not start with [T, B] = {lead}"
                )
        self._validate_observations(item)
        self._validate_state()
        self._validate_cuts()
        for name, array in self._floats().items():
            self._check_finite(name, array)

    def _validate_observations(self, item: tuple[int, ...]) -> None:
        if self.last_obs.shape != (self.width, *item):
            raise self._invalid(
                "last_obs", f"shape {self.last_obs.shape} is not [B, ...] = {(self.width, *item)}"
            )
        if self.final_obs.ndim == 0 or self.final_obs.shape[1:] != item:
            raise self._invalid(
                "final_obs", f"shape {self.final_obs.shape} is not [K, ...] = {('K', *item)}"
            )
        for name, array in (("last_obs", self.last_obs), ("final_obs", self.final_obs)):
            if array.dtype != self.obs.dtype:
                raise self._invalid(
                    name, f"dtype {array.dtype} is not that of obs, {self.obs.dtype}"
                )

    def _validate_state(self) -> None:
        self._check_dtype("initial_state", self.initial_state, "float32")
        shape = self.initial_state.shape
        if len(shape) != 2 or (shape != (0, 0) and shape[0] != self.width):
            raise self._invalid("initial_state", f"shape {shape} is not [B, S], B = {self.width}")

    def _validate_cuts(self) -> None:
        self._check_dtype("final_index", self.final_index, "int32")
        if self.final_index.shape != (len(self.final_obs), 2):
            raise self._invalid(
                "final_index",
                f"shape {self.final_index.shape} is not [K, 2] = {(len(self.final_obs), 2)}",
            )
        ends = np.argwhere(self.terminated | self.truncated)
        if not np.array_equal(ends, self.final_index):
            raise self._invalid(
                "final_index", "does not name exactly the steps at which an episode ended, in order"
            )

    def _check_dtype(self, name: str, array: np.ndarray, *allowed: str) -> None:
        if array.dtype.name not in allowed:
            raise self._invalid(name, f"dtype {array.dtype} is not {' or '.join(allowed)}")

    def _floats(self) -> dict[str, np.ndarray]:
        named = {
            "obs": self.obs,
            "action": self.action,
            "reward": self.reward,
            "last_obs": self.last_obs,
            "initial_state": self.initial_state,
        }
        named |= {"final_obs": self.final_obs, **self.extras}
        return {name: array for name, array in named.items() if array.dtype.kind in "fc"}

    def _check_finite(self, name: str, array: np.ndarray) -> None:
        finite = np.isfinite(array)
        if finite.all():
            return
        place = tuple(int(i) for i in np.argwhere(~finite)[0])
        if name == "final_obs":
            step, environment = self.final_index[place[0]]
            where = f"at step {step}, environment {environment}"
        elif name == "initial_state":
            where = f"of environment {place[0]}"
        elif name == "last_obs":
            where = f"after the last step, environment {place[0]}"
        else:
            where = f"at step {place[0]}, environment {place[1]}"
        raise self._invalid(name, f"{array[place]} {where}")

    def _invalid(self, name: str, problem: str) -> InvalidBatchError:
        whose = f" of agent {self.agent_id!r}" if self.agent_id else ""
        return InvalidBatchError(f"policy {self.policy_id!r}{whose}: {name}: {problem}")
