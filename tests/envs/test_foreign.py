"""What may be wrapped: made, taken or made again, described, or refused with the way out."""

from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from wrapped_cases import Counting, NextStepOnly, assert_same, keep

from leanfast.envs.native import Engine
from leanfast.envs.wrapped import GymnasiumBatch

# From Python 3.12 on, beside torch's threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def test_the_spec_is_the_engines_form():
    batch = GymnasiumBatch("CartPole-v1", num_envs=2)
    spec = Engine("cartpole", 2).spec
    assert batch.spec.keys() == spec.keys()
    for name in ("name", "action", "agents", "max_episode_steps"):
        assert batch.spec[name] == spec[name]
    for name in ("dtype", "shape"):
        assert batch.spec["observation"][name] == spec["observation"][name]
    for side in ("low", "high"):
        assert np.array_equal(
            np.float32(batch.spec["observation"][side]), np.float32(spec["observation"][side])
        )


def test_a_vector_env_that_cannot_reset_some_alone_is_made_again_from_its_id():
    given = gymnasium.make_vec("CartPole-v1", num_envs=6, max_episode_steps=30)
    batch = GymnasiumBatch(given)
    twin = GymnasiumBatch("CartPole-v1", num_envs=6, max_episode_steps=30)
    assert batch.spec == twin.spec
    assert batch.spec["max_episode_steps"] == 30
    assert batch.num_envs == 6
    actions = np.random.default_rng(0).integers(0, 2, (60, 6))
    assert_same([batch.reset(4)], [twin.reset(4)])
    assert_same([keep(batch.step(a)) for a in actions], [keep(twin.step(a)) for a in actions])


def with_spaces(observation=None, action=None):
    class Other(Counting):
        observation_space = observation or Counting.observation_space
        action_space = action or Counting.action_space

    return Other


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (with_spaces(Discrete(3)), r"Other observes Discrete\(3\).*FlattenObservation"),
        (with_spaces(Dict(a=Discrete(3))), "Other observes Dict.*FlattenObservation"),
        (with_spaces(action=MultiDiscrete([2, 2])), "Other takes MultiDiscrete.*TransformAction"),
        (with_spaces(action=Box(0, 9, (1,), np.int64)), "Other takes Box.*TransformAction"),
        (NextStepOnly, "NextStepOnly.* has no way to reset some alone; make it with"),
        (
            lambda: AsyncVectorEnv([Counting] * 2, shared_memory=False, context="fork"),
            "shared_memory=False.* resets twice",
        ),
        (
            lambda: gymnasium.wrappers.vector.NormalizeObservation(SyncVectorEnv([Counting] * 2)),
            "NormalizeObservation, which can reset only all envs at once; wrap each env",
        ),
    ],
)
def test_what_cannot_be_adapted_is_refused_with_the_way_out(make, message):
    env = make()
    with pytest.raises(ValueError, match=message):
        GymnasiumBatch(env)
    env.close()


def test_a_vector_env_that_ignores_the_mask_is_found_out():
    class IgnoresMask(NextStepOnly):
        metadata: ClassVar = {"autoreset_mode": AutoresetMode.DISABLED}

    batch = GymnasiumBatch(IgnoresMask())
    batch.reset()
    with pytest.raises(RuntimeError, match=r"ignores reset.* make it with"):
        batch.step(np.zeros(2, int))


def test_arguments_that_do_not_go_together_are_refused():
    env = Counting()
    with pytest.raises(ValueError, match="num_envs is 4, but the environment given has 1"):
        GymnasiumBatch(env, num_envs=4)
    with pytest.raises(TypeError, match="vectorization_mode goes with an id"):
        GymnasiumBatch(env, vectorization_mode="sync")
    with pytest.raises(ValueError, match="vectorization_mode must be sync or async, not 'fast'"):
        GymnasiumBatch(Counting, vectorization_mode="fast")
    with pytest.raises(TypeError, match="gravity goes with an id"):
        GymnasiumBatch(Counting, gravity=9.8)
    with pytest.raises(ValueError, match="num_envs must be 1 to"):
        GymnasiumBatch(Counting, num_envs=0)
    with pytest.raises(TypeError, match="env must be an id, an environment or a function"):
        GymnasiumBatch(3)
