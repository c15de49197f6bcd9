"""An environment and a scenario of your own: a thermostat whose reward comes late.

Run it:  python examples/custom_env.py       (20000 environment steps, or as many as you name)

Or over actor processes, from the folder that holds this file:

    python -m asyncrl.learner --env custom_env:Thermostat --trajectory custom_env:Comfort \
        --episodes-per-job 8
"""

import asyncio
import sys

import gymnasium as gym
import numpy as np

import asyncrl


class Thermostat(gym.Env):
    """Keep a leaking room at 21 degrees by switching its heating, every half hour of a day."""

    observation_space = gym.spaces.Box(-100.0, 100.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.half_hours = 0
        self.outside = float(self.np_random.uniform(-10, 10))
        self.inside = float(self.np_random.uniform(10, 30))
        return self.observe(), {}

    def step(self, action):
        self.half_hours += 1
        self.inside += 3.0 * float(action) + 0.05 * (self.outside - self.inside)
        return self.observe(), 0.0, False, self.half_hours == 48, {}

    def observe(self):
        return np.array([self.inside - 21, self.outside / 10], np.float32)


class Comfort(asyncrl.Trajectory):
    """Judge the comfort of every half hour once the day is over."""

    def get_reward(self):
        return None  # not known yet

    def on_finish(self):
        steps = self.steps["agent"]
        after = [*(step.state for step in steps[1:]), self.final_states["agent"]]
        for step, state in zip(steps, after, strict=True):
            step.reward = -abs(float(state[0])) / 10
        return super().on_finish()


async def main() -> None:
    learner = asyncrl.OnPolicyLearner(
        asyncrl.PPO(gamma=0.9),
        asyncrl.Actor(Thermostat, trajectory=Comfort),
        episodes_per_job=8,
        total_steps=int(sys.argv[1]) if len(sys.argv) > 1 else 20_000,
    )
    async for progress in learner:
        print(f"{progress.env_steps} steps, mean return {progress.mean_return:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
