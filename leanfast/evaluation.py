"""Greedy episodes in an engine of their own, which training never touches."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from leanfast.envs.native import Engine

Policy = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Evaluation:
    return_mean: float
    return_std: float
    episodes: int
    unfinished: int  # cut off at `max_steps`, and counted with what they had earned


def evaluate(policy: Policy, engine: Engine, seed: int, max_steps: int) -> Evaluation:
    """The first episode of every env of `engine`."""
    observation = engine.reset(seed=seed).observation
    returns = torch.zeros(engine.num_envs)
    running = torch.ones(engine.num_envs, dtype=torch.bool)
    for _ in range(max_steps):
        batch = engine.step(policy(observation))
        observation = batch.observation
        returns[running] = batch.episode_return[running].to(torch.float32)
        running &= ~batch.done
        if not running.any():
            break
    return Evaluation(
        return_mean=returns.mean().item(),
        return_std=returns.std(correction=0).item(),
        episodes=engine.num_envs,
        unfinished=int(running.sum()),
    )
