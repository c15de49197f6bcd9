"""An environment and a scenario of your own: a thermostat with a reward that comes late.

Run it:  python examples/custom_env.py
"""

import anyio
import gymnasium as gym
import numpy as np

import asyncrl


class Thermostat(gym.Env):
    """Keep a leaking room at 21 degrees by switching the heating."""

    observation_space = gym.spaces.Box(-50.0, 50.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.minute = 0
        self.outside = float(self.np_random.uniform(-10, 10))
        self.inside = float(self.np_random.uniform(10, 30))
        return self._observe(), {}

    def step(self, action):
        self.minute += 1
        self.inside += 1.5 * float(action) + 0.05 * (self.outside - self.inside)
        return self._observe(), 0.0, False, self.minute == 48, {}

    def _observe(self):
        return np.array([self.inside - 21, self.outside / 10], np.float32)


class Comfort(asyncrl.Trajectory):
    """The scenario: comfort is judged at the end of the day, looking back over every minute."""

    def get_reward(self):
        return None  # not known yet

    def on_finish(self):
        for step in self.steps["agent"]:
            step.reward = -abs(float(step.state[0])) / 10
        return super().on_finish()


async def main() -> None:
    actor = asyncrl.Actor(Thermostat, trajectory=Comfort)
    learner = asyncrl.OnPolicyLearner(
        asyncrl.PPO(gamma=0.9, learning_rate=1e-3),
        actor,
        episodes_per_job=8,
        total_steps=20_000,
        eval_interval=5_000,
    )
    result = await learner.run()
    print(f"mean return {result.mean_return:.1f} while learning, {result.eval_return:.1f} greedy")


if __name__ == "__main__":
    anyio.run(main)
