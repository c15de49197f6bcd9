"""Rollouts over an `EnvBatch`: fixed-length segments to learn from, whole episodes to measure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from asyncrl.actor.control import RolloutControl
from asyncrl.data import EpisodeStats, RolloutJob, TrajectoryBatch, derive_seed
from asyncrl.envs import EnvBatch, EpisodeTracker, StepBatch
from asyncrl.policies import Policy


class EpisodeSeeds:
    """Seeds of one job's episodes: (run seed, job id, environment index, episode within the job).

    Episode 0 of an environment is the one it is reset into at the start, where it is reset at all.
    """

    def __init__(self, run_seed: int, job_id: str, num_envs: int) -> None:
        self._run_seed = run_seed
        self._job_id = job_id
        self._episodes = [0] * num_envs

    def first(self) -> list[int]:
        """Return the seed of every environment's episode 0."""
        return [self._seed(index, 0) for index in range(len(self._episodes))]

    def next(self, index: int) -> int:
        """Return the seed of the next episode of environment `index`."""
        self._episodes[index] += 1
        return self._seed(index, self._episodes[index])

    def _seed(self, index: int, episode: int) -> int:
        return derive_seed(self._run_seed, self._job_id, index, episode)


def acting_rng(run_seed: int, job_id: str) -> np.random.Generator:
    """Return the generator that draws a job's actions; the same for every attempt of the job."""
    return np.random.default_rng(derive_seed(run_seed, job_id, "actions"))


class SegmentRollout:
    """Collects fixed-length segments; episodes carry on from one segment to the next."""

    def __init__(self, envs: EnvBatch, run_seed: int) -> None:
        self._envs = envs
        self._run_seed = run_seed
        self._tracker = EpisodeTracker(envs.num_envs)
        self._obs: np.ndarray | None = None

    def collect(
        self, job: RolloutJob, policy: Policy, version: int, policy_id: str, control: RolloutControl
    ) -> tuple[TrajectoryBatch, EpisodeStats]:
        """Run `job.size` steps in every environment and return them with the episodes that ended.

        Raises `EnvironmentFailure`, after which the environments are in an unknown state and must
        be made anew, or `RolloutAbandoned` when `control` says so. That comes between two steps:
        the next segment goes on from there, and the episodes that ended come with its own. Were
        they cut off instead, the long ones would be missing from what is learned and reported.
        """
        seeds = EpisodeSeeds(self._run_seed, job.job_id, self._envs.num_envs)
        obs = self._obs
        if obs is None:
            obs = self._envs.reset(seeds.first())
        exploration = job.exploration.get(policy_id, {})
        rng = acting_rng(self._run_seed, job.job_id)
        rows = _Rows(job.size, self._envs.num_envs, obs)
        while not rows.full:
            acted = policy.act(obs, rng, exploration=exploration, greedy=False)
            rows.before_step(obs, acted.action, acted.extras)
            step = self._envs.step(acted.action, seeds.next)
            self._tracker.add(step.reward, step.terminated | step.truncated, step.valid)
            rows.after_step(step)
            obs = self._obs = step.obs
            control.advance(self._envs.num_envs)
        return rows.batch(policy_id, version), self._tracker.take()


class _Rows:
    """The columns of one segment while it fills.

    Every environment has its own next row, because an environment that resets itself as a step of
    its own (NEXT_STEP autoreset) falls behind the others; those ahead write to a spare row that is
    cut off in the end.
    """

    def __init__(self, size: int, width: int, obs: np.ndarray) -> None:
        self._size = size
        self._columns = np.arange(width)
        self._next = np.zeros(width, np.int64)
        self._row: int | None = 0
        """The row all environments are at; None once they have drifted apart."""
        self._obs = np.empty((size + 1, *obs.shape), obs.dtype)
        self._action: np.ndarray | None = None
        self._extras: dict[str, np.ndarray] = {}
        self._reward = np.empty((size + 1, width), np.float32)
        self._terminated = np.empty((size + 1, width), np.bool_)
        self._truncated = np.empty((size + 1, width), np.bool_)
        self._last_obs = np.empty_like(obs)
        self._finals: list[tuple[int, int, np.ndarray]] = []

    @property
    def full(self) -> bool:
        """Whether every environment has filled its column."""
        if self._row is not None:
            return self._row == self._size
        return bool((self._next == self._size).all())

    @property
    def _place(self) -> int | tuple[np.ndarray, np.ndarray]:
        return self._row if self._row is not None else (self._next, self._columns)

    def before_step(
        self, obs: np.ndarray, action: np.ndarray, extras: Mapping[str, np.ndarray]
    ) -> None:
        """Record what was seen and chosen; the environments may overwrite `obs` afterwards."""
        if self._action is None:
            self._action = np.empty((self._size + 1, *action.shape), action.dtype)
            self._extras = {
                name: np.empty((self._size + 1, *value.shape), value.dtype)
                for name, value in extras.items()
            }
        self._obs[self._place] = obs
        self._action[self._place] = action
        for name, value in extras.items():
            self._extras[name][self._place] = value

    def after_step(self, step: StepBatch) -> None:
        """Record what came of it and move on to the next rows."""
        place = self._place
        self._reward[place] = step.reward
        self._terminated[place] = step.terminated
        self._truncated[place] = step.truncated
        if self._row is not None and step.valid.all():
            self._finals += [(self._row, b, final) for b, final in sorted(step.final_obs.items())]
            self._row += 1
            if self._row == self._size:
                self._last_obs[...] = step.obs
            return
        if self._row is not None:
            self._next[:] = self._row
            self._row = None
        recorded = step.valid & (self._next < self._size)
        self._finals += [
            (int(self._next[b]), b, final) for b, final in step.final_obs.items() if recorded[b]
        ]
        self._next += recorded
        filled = recorded & (self._next == self._size)
        self._last_obs[filled] = step.obs[filled]

    def batch(self, policy_id: str, version: int) -> TrajectoryBatch:
        """Return the filled rows."""
        assert self._action is not None  # noqa: S101 - a job has at least one step
        size = self._size
        finals = sorted(self._finals, key=lambda final: final[:2])
        shape = self._obs.shape[2:]
        return TrajectoryBatch(
            policy_id=policy_id,
            policy_version=version,
            obs=self._obs[:size],
            action=self._action[:size],
            reward=self._reward[:size],
            terminated=self._terminated[:size],
            truncated=self._truncated[:size],
            last_obs=self._last_obs,
            final_obs=np.array([f for _, _, f in finals], self._obs.dtype).reshape(-1, *shape),
            final_index=np.array([(t, b) for t, b, _ in finals], np.int32).reshape(-1, 2),
            extras={name: value[:size] for name, value in self._extras.items()},
        )


def evaluate(
    envs: EnvBatch, job: RolloutJob, policy: Policy, run_seed: int, control: RolloutControl
) -> tuple[EpisodeStats, int]:
    """Run `job.size` whole episodes greedily; return their statistics and the steps taken.

    Each environment runs an equal share of the episodes, fixed beforehand, so that short episodes
    are not over-represented; `envs` should be no wider than `job.size`.
    """
    width = envs.num_envs
    quota = np.full(width, job.size // width)
    quota[: job.size % width] += 1
    seeds = EpisodeSeeds(run_seed, job.job_id, width)
    rng = acting_rng(run_seed, job.job_id)
    obs = envs.reset(seeds.first())
    total, length = np.zeros(width), np.zeros(width, np.int64)
    finished: list[tuple[int, int, float, int]] = []
    done = np.zeros(width, np.int64)
    while (done < quota).any():
        acted = policy.act(obs, rng, exploration={}, greedy=True)
        step = envs.step(acted.action, seeds.next)
        total += np.where(step.valid, step.reward, 0.0)
        length += step.valid
        for b in np.flatnonzero((step.terminated | step.truncated) & step.valid):
            if done[b] < quota[b]:
                finished.append((int(done[b]), int(b), float(total[b]), int(length[b])))
            done[b] += 1
            total[b], length[b] = 0.0, 0
        obs = step.obs
        control.advance(width)
    finished.sort()
    stats = EpisodeStats(
        returns=np.array([f[2] for f in finished], np.float64),
        lengths=np.array([f[3] for f in finished], np.int64),
    )
    return stats, int(stats.lengths.sum())
