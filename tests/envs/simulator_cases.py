"""Configured environments, and Gymnasium ones to register, for what is stepped by a Simulator."""

import time
from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from leanfast.config import Env


def configured(**values) -> Env:
    return Env(**{"num_envs": 4, "threads": None, "params": {}, **values})


def registered(name: str, entry_point, **values) -> str:
    """The id, of any version: the registry outlives a test."""
    gymnasium.registry.pop(f"{name}-v0", None)
    gymnasium.register(f"{name}-v0", entry_point=entry_point, **values)
    return f"{name}-v0"


class Still(gymnasium.Env):
    """Nothing ever happens in it; its spaces are given."""

    def __init__(self, action_space=Discrete(2), observation_space=Box(0, 1, (1,), np.float32)):  # noqa: B008
        self.action_space, self.observation_space = action_space, observation_space

    def reset(self, *, seed=None, options=None):
        return self.observation_space.low.copy(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self.observation_space.low.copy(), float(np.sum(action)), False, False, {}


class OnlySmallSeeds(Still):
    """As those that hand their seed to C."""

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            assert 0 <= seed < 2**31
            self.given = seed
        return super().reset()


class Sleeper(Still):
    """A step takes `action` minutes."""

    def step(self, action):
        time.sleep(60 * action)
        return super().step(action)


class Runners(VectorEnv):
    """Vectorised by itself, resets in the same step: env i's episodes take i + 1 steps, and what
    it observes is how many it has taken."""

    metadata: ClassVar = {"autoreset_mode": AutoresetMode.SAME_STEP}
    single_observation_space, single_action_space = Box(0, 1000, (1,)), Discrete(2)

    def __init__(self, num_envs, max_episode_steps=None):
        self.num_envs = num_envs
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed=None, options=None):
        self.count = np.zeros((self.num_envs, 1), np.float32)
        return self.count.copy(), {}

    def step(self, actions):
        self.count += 1
        last, done = self.count.copy(), self.count[:, 0] > np.arange(self.num_envs)
        self.count[done] = 0
        final = np.full(self.num_envs, None)
        for env in done.nonzero()[0]:
            final[env] = last[env]
        infos = {"final_obs": final, "_final_obs": done} if done.any() else {}
        return self.count.copy(), np.ones(self.num_envs), done, np.zeros_like(done), infos


UNFIT_ACTIONS = (
    MultiDiscrete([2, 3]),
    MultiBinary(2),
    Dict({"a": Discrete(2)}),
    Tuple([Discrete(2)]),
)
UNFIT_OBSERVATIONS = (Discrete(16), Dict({"a": Discrete(2)}), Tuple([Discrete(2), Discrete(3)]))
