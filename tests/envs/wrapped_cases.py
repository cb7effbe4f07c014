"""Environments whose every step is known, and what the tests of wrapped ones share."""

from typing import ClassVar

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from leanfast.envs.native import Batch


class Counting(gymnasium.Env):
    """Observes (steps so far, this episode's length); terminates and truncates in turn."""

    observation_space = Box(0, 1000, (2,), np.float64)
    action_space = Discrete(3, start=5)

    def __init__(self, reuse=False):
        self.reuse, self.shown, self.episode = reuse, np.zeros(2), 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.length = 0, int(self.np_random.integers(1, 6))
        self.episode += 1
        return self.observe(), {}

    def step(self, action):
        assert 5 <= action <= 7
        self.count += 1
        ended = self.count == self.length
        odd = bool(self.episode % 2)
        return self.observe(), 10.0 * self.count + action, ended and odd, ended and not odd, {}

    def observe(self):
        self.shown = self.shown if self.reuse else np.zeros(2)
        self.shown[:] = self.count, self.length
        return self.shown


class Continuous(gymnasium.Env):
    observation_space = Box(0, 255, (3, 4, 4), np.uint8)
    action_space = Box(np.array([-1, -0.1]), np.array([1, 0.1]), dtype=np.float64)

    def reset(self, *, seed=None, options=None):
        return np.full((3, 4, 4), 7, np.uint8), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return np.full((3, 4, 4), 8, np.uint8), float(action[1]), False, False, {}


class NextStepOnly(VectorEnv):
    """Vectorised by itself, resets in the next step, knows no mask; like CartPoleVectorEnv."""

    metadata: ClassVar = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    num_envs = 2
    single_observation_space, single_action_space = Box(0, 1, (1,)), Discrete(2)
    observation_space = batch_space(single_observation_space, 2)
    action_space = batch_space(single_action_space, 2)

    def reset(self, *, seed=None, options=None):
        return np.random.default_rng(seed).random((2, 1), np.float32), {}

    def step(self, actions):
        done = np.array([True, False])
        return np.ones((2, 1), np.float32), np.zeros(2), done, ~done & done, {}


def keep(batch: Batch) -> Batch:
    return Batch(**{name: tensor.clone() for name, tensor in batch.items()})


def assert_same(ones: list[Batch], others: list[Batch]) -> None:
    for one, other in zip(ones, others, strict=True):
        for (name, mine), (_, theirs) in zip(one.items(), other.items(), strict=True):
            assert torch.equal(mine, theirs), name
