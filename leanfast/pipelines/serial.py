"""The textbook's loop: one Gymnasium environment, one Python loop, the replay on the host.

With CUDA, the next batch crosses while this one is used (replay.host.Crossing); everything else
waits for its own copies, and one thread makes them all, so that no capture meets another call.
"""

from typing import Any

import gymnasium
import numpy as np
import torch

from leanfast.envs.simulator import Step, folded
from leanfast.pipelines.common import Training, outcome
from leanfast.replay.host import Prefetch

CPU = torch.device("cpu")


def train(training: Training, env: gymnasium.Env) -> None:
    device = training.learner.device
    act = training.act()
    observe, update, remember, draw = training.parts()
    batches = Prefetch(draw, device)
    credit = training.credit()
    episode = Episode(env)
    observation = episode.begin(folded(training.config.seed, 1))
    while training.goes_on:
        action = act(observation.to(device)).cpu()
        step = episode.step(int(action))
        fields = (observation, action, *outcome(step, CPU))
        observe(*(field.to(device) for field in fields))
        remember(*fields)
        observation = step.observation
        training.stepped(step)
        for _ in range(credit.due(training.env_steps)):
            training.learned(update(batches.next()))
        training.report()


class Episode:
    """Steps of one env as batches of one: the next episode begins in the step that ends one."""

    def __init__(self, env: gymnasium.Env):
        self.env = env
        uint8 = env.observation_space.dtype == np.uint8
        self.dtype = np.uint8 if uint8 else np.float32

    def begin(self, seed: int | None = None) -> torch.Tensor:
        self.total, self.length = 0.0, 0
        return self._tensor(self.env.reset(seed=seed)[0])

    def step(self, action: int) -> Step:
        following, paid, ended, cut, _ = self.env.step(action)
        reward, terminated, done = float(paid), bool(ended), bool(ended or cut)
        self.total, self.length = self.total + reward, self.length + 1
        total, length, reached = self.total, self.length, self._tensor(following)
        return Step(
            observation=self.begin() if done else reached,
            next_observation=reached,
            reward=torch.tensor([reward], dtype=torch.float32),
            terminated=torch.tensor([terminated]),
            truncated=torch.tensor([done and not terminated]),
            done=torch.tensor([done]),
            episode_return=torch.tensor([[total]], dtype=torch.float32),
            episode_length=torch.tensor([length], dtype=torch.int32),
        )

    def _tensor(self, observation: Any) -> torch.Tensor:
        return torch.from_numpy(np.array(observation, self.dtype, order="C")[None])
