from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from simulator_cases import UNFIT_ACTIONS, UNFIT_OBSERVATIONS, Still, configured, registered
from wrapped_cases import Counting

from leanfast.envs.simulator import simulator
from leanfast.envs.single import single_env
from leanfast.errors import UsageError

COUNTER = str(Path(__file__).parents[1] / "headers" / "counter.hpp")


@pytest.mark.parametrize(
    "env",
    [
        configured(name="cartpole", params={"gravity": 5.0}),
        configured(name="pendulum", action_bins=5),
        configured(name="mountaincar"),
        configured(source=COUNTER, params={"length": 7}),
        configured(id="CartPole-v1"),
        configured(id="Pendulum-v1", action_bins=5),
    ],
    ids=lambda env: env.label.rpartition("/")[2],
)
def test_it_is_the_env_that_a_simulator_of_one_steps(env):
    alone = single_env(env)
    rng = np.random.default_rng(0)
    with simulator(env, 1, 0) as envs:
        assert alone.action_space == Discrete(envs.actions)
        shown, step, ended = alone.reset(seed=3)[0], envs.reset(3), 0
        for _ in range(450):
            assert np.array_equal(shown, step.observation[0])
            action = rng.integers(envs.actions)
            shown, reward, terminated, truncated, _ = alone.step(action)
            envs.send(torch.tensor([action]))
            step = envs.recv()
            assert np.array_equal(shown, step.next_observation[0])
            assert np.float32(reward) == step.reward[0]
            assert (terminated, truncated and not terminated) == (step.terminated, step.truncated)
            if terminated or truncated:
                ended += 1
                shown = alone.reset()[0]
        assert ended >= 2
    alone.close()


def test_a_choice_stands_for_a_value_in_the_environments_own_dtype_and_bounds():
    space = Box(np.array([-0.1, 0.0]), np.array([0.1, 0.3]), dtype=np.float64)
    name = registered("Rounded", Still, kwargs={"action_space": space})  # asserts that it does
    env = single_env(configured(id=name, action_bins=2))
    env.reset()
    rewards = [env.step(action)[1] for action in range(env.action_space.n)]
    assert rewards == pytest.approx([-0.1, 0.2, 0.1, 0.4])


def test_actions_begin_at_0():
    env = single_env(configured(id=registered("Counting", Counting)))  # its own at 5
    assert env.action_space == Discrete(3)
    env.reset(seed=0)
    assert env.step(2)[1] == 17


def test_parameters_go_to_gymnasiums_make():
    env = single_env(configured(id="Pendulum-v1", action_bins=2, params={"max_episode_steps": 3}))
    env.reset()
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


def test_the_time_limit_is_the_headers():
    env = single_env(configured(name="pendulum", action_bins=2))
    env.reset()
    ends = [env.step(0)[3] for _ in range(200)]
    assert ends == [False] * 199 + [True]
    unlimited = single_env(configured(source=COUNTER))
    assert not isinstance(unlimited, gymnasium.wrappers.TimeLimit)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (configured(name="tag"), "tag has 4 agents, and a single Gymnasium environment has one"),
        (configured(name="pendulum"), "pendulum has continuous actions"),
        (configured(name="cartpole", action_bins=2), "cartpole has 2 actions as it is"),
        (configured(id="CartPol-v1"), "Gymnasium has no environment 'CartPol-v1'"),
        (configured(id="Pendulum-v1"), "Pendulum-v1 has continuous actions"),
    ],
)
def test_what_is_no_single_env_of_a_few_actions_is_refused(env, said):
    with pytest.raises(UsageError, match=said):
        single_env(env)


@pytest.mark.parametrize(
    "kwargs",
    [
        *({"action_space": space} for space in UNFIT_ACTIONS),
        *({"observation_space": space} for space in UNFIT_OBSERVATIONS),
    ],
    ids=str,
)
def test_other_spaces_are_refused_by_their_name(kwargs):
    name = registered("Unfit", Still, kwargs=kwargs)
    (space,) = kwargs.values()
    with pytest.raises(ValueError, match=r"Unfit-v0 (takes|observes) ") as refused:
        single_env(configured(id=name))
    assert str(space) in str(refused.value)
