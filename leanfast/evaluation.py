"""Greedy episodes in envs of their own, which training never touches."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from leanfast.envs.simulator import Simulator

Policy = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Evaluation:
    """What episodes returned; with several agents, an episode's return is the mean of theirs."""

    return_mean: float
    return_std: float
    return_min: float
    return_max: float
    length_mean: float
    agent_return_means: list[float]  # each agent's own
    episodes: int
    unfinished: int  # cut off at `max_steps`, and counted with what they had earned


def evaluate(policy: Policy, envs: Simulator, seed: int, max_steps: int) -> Evaluation:
    """The first episode of every env; `policy` takes observations by lane and gives actions."""
    step = envs.reset(seed)
    returns = torch.zeros(envs.num_envs, envs.agents)
    lengths = torch.zeros(envs.num_envs, dtype=torch.int32)
    running = torch.ones(envs.num_envs, dtype=torch.bool)
    for _ in range(max_steps):
        envs.send(policy(step.observation))
        step = envs.recv()
        returns = torch.where(running[:, None], step.episode_return, returns)
        lengths = torch.where(running, step.episode_length, lengths)
        running &= ~step.done
        if not running.any():
            break
    returns = returns.double()
    of_episodes = returns.mean(1)
    return Evaluation(
        return_mean=of_episodes.mean().item(),
        return_std=of_episodes.std(correction=0).item(),
        return_min=of_episodes.min().item(),
        return_max=of_episodes.max().item(),
        length_mean=lengths.double().mean().item(),
        agent_return_means=returns.mean(0).tolist(),
        episodes=envs.num_envs,
        unfinished=int(running.sum()),
    )
