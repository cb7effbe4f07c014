"""gymnasium.make(): one env, over a batch of one."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env

from leanfast.envs.native import Engine
from leanfast.envs.registration import register
from leanfast.envs.registry import builtin
from leanfast.envs.vector import NativeEnv

register()
SINGLE_AGENT = [key for key, d in builtin().items() if d.spec()["agents"] == 1]


@pytest.mark.parametrize("key", SINGLE_AGENT)
def test_check_env_passes(key):
    env = gymnasium.make(f"leanfast/{builtin()[key].spec()['name']}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(infinity|symmetric and normalized)")
        check_env(env.unwrapped)


def test_a_single_env_shows_the_true_last_observation_and_waits_for_reset():
    env, engine = gymnasium.make("leanfast/CartPole-v1"), Engine("cartpole", 1)
    assert np.array_equal(env.reset(seed=5)[0], engine.reset(5).observation[0])
    ended = 0
    for action in np.random.default_rng(0).integers(0, 2, 200):
        observation, reward, terminated, truncated, infos = env.step(action)
        batch = engine.step(np.array([action]))
        assert np.array_equal(observation, batch.next_observation[0])
        assert (reward, terminated, truncated) == (1.0, bool(batch.done[0]), False)
        assert infos == {}
        if terminated:
            with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) first"):
                env.step(action)
            assert np.array_equal(env.reset()[0], batch.observation[0])
            ended += 1
    assert ended > 3


def test_a_seed_given_at_an_episodes_end_counts():
    env = gymnasium.make("leanfast/CartPole-v1", max_episode_steps=-1)
    first, terminated = env.reset(seed=5)[0], False
    while not terminated:
        terminated = env.step(1)[2]
    assert np.array_equal(env.reset(seed=5)[0], first)


@pytest.mark.parametrize("limit", [3, 1200])
def test_the_time_limit_of_a_single_env_can_be_shortened_and_lengthened(limit):
    env = gymnasium.make(
        "leanfast/MountainCarContinuous-v0", max_episode_steps=limit, params={"power": 0.0}
    )
    env.reset()
    steps, truncated = 0, False
    while not truncated:
        *_, terminated, truncated, _ = env.step(np.zeros(1))
        assert not terminated
        steps += 1
    assert steps == limit


def test_a_single_env_takes_what_people_pass_as_actions():
    env = gymnasium.make("leanfast/CartPole-v1", disable_env_checker=True)
    env.reset()
    for action in (1, np.int32(0), np.array(1), np.uint8(0)):
        env.step(action)
    with pytest.raises(ValueError, match=r"actions\[0\] is 2; CartPole-v1 takes 0 to 1"):
        env.step(2)
    with pytest.raises(ValueError, match="actions are float64"):
        env.step(0.5)
    pendulum = gymnasium.make("leanfast/Pendulum-v1", disable_env_checker=True)
    pendulum.reset()
    for action in ([0.5], np.array([0.5]), np.ones(1, np.float32)):
        pendulum.step(action)
    with pytest.raises(ValueError, match=r"actions has shape \(1,\); it must have shape \(1, 1\)"):
        pendulum.step(0.5)


def test_a_single_env_of_several_agents_names_make_vec():
    with pytest.raises(ValueError, match=r"Tag-v1 has 4 agents.* use gymnasium.make_vec\(\)"):
        gymnasium.make("leanfast/Tag-v1")


def test_a_single_env_refuses_what_it_has_no_use_for():
    with pytest.raises(TypeError, match="CartPole-v1 has no argument 'threads' here; it takes par"):
        gymnasium.make("leanfast/CartPole-v1", threads=2)
    env = NativeEnv("cartpole")
    with pytest.raises(ValueError, match="reset takes no options for a single environment"):
        env.reset(options={"low": 0})
    assert isinstance(env.observation_space, Box)
    assert isinstance(env.action_space, Discrete)
