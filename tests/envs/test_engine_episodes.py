"""Where one episode ends and the next begins, against a slow replay in Python."""

import numpy as np
import pytest
import torch
from engine_cases import ENVS, actions_for, copied
from hypothesis import given, settings
from hypothesis import strategies as st

from leanfast.envs.native import Engine


@pytest.mark.parametrize("env", ENVS)
@given(limit=st.integers(1, 40), num_envs=st.sampled_from([1, 65, 130]), seed=st.integers(0, 99))
@settings(max_examples=6)
def test_returns_lengths_and_flags_match_a_replay(env, limit, num_envs, seed):
    engine = Engine(env, num_envs, seed=seed, max_episode_steps=limit)
    batch = engine.reset()
    returns, lengths = torch.zeros_like(batch.reward), torch.zeros(num_envs, dtype=torch.int32)
    rng = np.random.default_rng(seed)
    for _ in range(60):
        batch = engine.step(actions_for(engine, rng))
        returns, lengths = returns + batch.reward, lengths + 1
        assert torch.equal(batch.episode_return, returns)
        assert torch.equal(batch.episode_length, lengths)
        assert torch.equal(batch.truncated, (lengths == limit) & ~batch.terminated)
        assert torch.equal(batch.done, batch.terminated | batch.truncated)
        going = ~batch.done
        assert torch.equal(batch.observation[going], batch.next_observation[going])
        lengths = lengths * going
        returns = torch.where(batch.done.view(-1, *[1] * (returns.ndim - 1)), 0, returns)


@pytest.mark.parametrize("env", ENVS)
def test_an_ended_episode_shows_its_true_last_observation_and_the_next_ones_first(env):
    num_envs, limit = 65, 4
    limited = Engine(env, num_envs, seed=1, max_episode_steps=limit)
    unlimited = Engine(env, num_envs, seed=1)
    limited.reset(), unlimited.reset()
    rng = np.random.default_rng(3)
    for _ in range(limit):
        actions = actions_for(limited, rng)
        short, long = copied(limited.step(actions)), copied(unlimited.step(actions))
    ended = short["truncated"] & ~long["done"]
    assert ended.any()
    assert torch.equal(short["next_observation"][ended], long["next_observation"][ended])
    first = unlimited.reset(mask=torch.ones(num_envs, dtype=torch.bool)).observation
    assert torch.equal(short["observation"][ended], first[ended])


def test_a_fall_on_the_last_allowed_step_is_terminated_and_not_truncated():
    push_right = np.ones(257, dtype=np.int64)
    free = Engine("cartpole", 257, seed=0)
    free.reset()
    fell_at = torch.zeros(257, dtype=torch.int64)
    for step in range(1, 30):
        fell = free.step(push_right).terminated & (fell_at == 0)
        fell_at[fell] = step
    limit = int(fell_at.median())
    assert (fell_at == limit).any()
    assert (fell_at > limit).any()

    engine = Engine("cartpole", 257, seed=0, max_episode_steps=limit)
    engine.reset()
    for _ in range(limit):
        batch = engine.step(push_right)
    on_the_last_step, still_up = fell_at == limit, fell_at > limit
    assert batch.terminated[on_the_last_step].all()
    assert not batch.truncated[on_the_last_step].any()
    assert batch.truncated[still_up].all()
    assert not batch.terminated[still_up].any()


def test_the_environments_own_time_limit_holds_and_another_replaces_it():
    zeros = np.zeros((3, 1), dtype=np.float32)
    own, longer = Engine("pendulum", 3), Engine("pendulum", 3, max_episode_steps=201)
    own.reset(), longer.reset()
    for step in range(1, 202):
        assert own.step(zeros).truncated.all() == (step == 200)
        assert longer.step(zeros).truncated.all() == (step == 201)


def test_a_reset_shows_no_reward_and_no_end():
    engine = Engine("cartpole", 65, seed=0, max_episode_steps=3)
    engine.reset()
    for _ in range(3):
        engine.step(np.zeros(65, dtype=np.int64))
    engine.step(np.zeros(65, dtype=np.int64))
    for batch in (engine.reset(mask=torch.arange(65) < 9), engine.reset()):
        for flags in (batch.reward, batch.terminated, batch.truncated, batch.done):
            assert not flags.any()
        assert torch.equal(batch.observation, batch.next_observation)
    assert not batch.episode_length.any()
    assert not batch.episode_return.any()


def test_episodes_after_an_automatic_reset_differ_from_the_ones_before():
    engine = Engine("cartpole", 65, seed=0, max_episode_steps=1)
    starts = [engine.reset().observation.clone()]
    starts += [engine.step(np.zeros(65, dtype=np.int64)).observation.clone() for _ in range(20)]
    assert len(torch.unique(torch.cat(starts), dim=0)) == 21 * 65
