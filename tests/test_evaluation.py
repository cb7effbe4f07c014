from pathlib import Path

import pytest
import torch

from leanfast.config import Env
from leanfast.envs.native import Engine
from leanfast.envs.simulator import simulator
from leanfast.evaluation import evaluate

COUNTER = str(Path(__file__).parent / "headers" / "counter.hpp")  # earns 1 for each action 1


def envs_of(num_envs, **values):
    return simulator(Env(num_envs=num_envs, threads=None, params={}, **values), num_envs, 0)


def ones(observation):
    return torch.ones(len(observation), dtype=torch.int64)


def test_each_env_counts_with_its_first_episode_alone():
    with envs_of(20, name="cartpole") as envs:
        result = evaluate(ones, envs, 1, 1000)
    with Engine("cartpole", 20) as engine:
        batch, first = engine.reset(seed=1), torch.zeros(20)
        for _ in range(15):
            batch = engine.step(ones(batch.observation))
            first = torch.where((first == 0) & batch.done, batch.episode_return, first)
    assert result.return_mean == pytest.approx(float(first.mean()))
    assert result.return_std == pytest.approx(float(first.std(correction=0)))
    assert (result.return_min, result.return_max) == (float(first.min()), float(first.max()))
    assert result.return_min < result.return_max
    assert result.length_mean == result.return_mean  # 1 for each step
    assert result.agent_return_means == [result.return_mean]
    assert (result.episodes, result.unfinished) == (20, 0)


@pytest.mark.parametrize("kind", [{"name": "cartpole"}, {"id": "CartPole-v1"}])
def test_another_seed_starts_other_episodes_and_the_same_one_the_same(kind):
    with envs_of(20, **kind) as envs:
        means = [evaluate(ones, envs, seed, 1000).return_mean for seed in (1, 2, 1)]
    assert means[0] == means[2] != means[1]


def test_episodes_that_do_not_end_are_cut_off_and_said():
    with envs_of(5, source=COUNTER) as envs:
        result = evaluate(ones, envs, 1, 30)
    assert (result.return_mean, result.length_mean, result.unfinished) == (30.0, 30.0, 5)


def test_every_agents_mean_return_is_known_and_an_episodes_is_their_mean():
    def chase(observation):  # the runner, observed last, is to the left or the right
        return torch.where(observation[:, -4] < 0, 3, 4)

    with envs_of(30, name="tag") as envs:
        result = evaluate(chase, envs, 1, 1000)
        step, caught = envs.reset(1), torch.zeros(30)
        for _ in range(200):
            envs.send(chase(step.observation))
            step = envs.recv()
            caught += step.reward.view(30, 4)[:, 0]
    assert caught.sum() > 0
    per_chaser = caught.mean().item()
    wanted = [per_chaser, per_chaser, per_chaser, -per_chaser]
    assert result.agent_return_means == pytest.approx(wanted)
    assert result.return_mean == pytest.approx(per_chaser / 2)
    assert result.return_max == pytest.approx(caught.max().item() / 2)
    assert result.return_std == pytest.approx(caught.std(correction=0).item() / 2)
    assert result.length_mean == 200
