from pathlib import Path

import pytest
import torch

from leanfast.envs.native import Engine
from leanfast.evaluation import evaluate

HEADER = str(Path(__file__).parent / "headers" / "counter.hpp")  # earns 1 for each action 1


def ones(observation):
    return torch.ones(len(observation), dtype=torch.int64)


def test_each_env_counts_with_its_first_episode_alone():
    with Engine("cartpole", 20) as engine:
        result = evaluate(ones, engine, 1, 1000)
        batch, first = engine.reset(seed=1), torch.zeros(20)
        for _ in range(15):
            batch = engine.step(ones(batch.observation))
            first = torch.where((first == 0) & batch.done, batch.episode_return, first)
    assert result.return_mean == pytest.approx(float(first.mean()))
    assert result.return_std == pytest.approx(float(first.std(correction=0)))
    assert (result.episodes, result.unfinished) == (20, 0)


def test_another_seed_starts_other_episodes_and_the_same_one_the_same():
    with Engine("cartpole", 20) as engine:
        means = [evaluate(ones, engine, seed, 1000).return_mean for seed in (1, 2, 1)]
    assert means[0] == means[2] != means[1]


def test_episodes_that_do_not_end_are_cut_off_and_said():
    with Engine(HEADER, 5) as engine:
        result = evaluate(ones, engine, 1, 30)
    assert (result.return_mean, result.unfinished) == (30.0, 5)
