"""Gymnasium environments whose numbers break, for `env.id=breaking_env:NaN-v0`."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Breaking(gymnasium.Env):
    """Fine for `after` steps; then it shows `observation` or pays `reward`, once."""

    observation_space, action_space = Box(-np.inf, np.inf, (3,), np.float32), Discrete(2)

    def __init__(self, observation=0.5, reward=1.0, after=150):
        self.broken, self.after, self.steps = (observation, reward), after, 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.steps += 1
        observation, reward = self.broken if self.steps == self.after else (0.5, 1.0)
        shown = np.array([0.5, observation, self.steps], np.float32)
        return shown, reward, self.steps % 20 == 0, False, {}


def register(name, **values):
    gymnasium.register(f"{name}-v0", Breaking, kwargs=values, disable_env_checker=True)


register("NaN", observation=np.nan)
register("Infinite", observation=-np.inf)
register("InfiniteReward", reward=np.inf)
register("HugeReward", reward=3e38)  # whose square no float32 holds
