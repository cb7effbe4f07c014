"""Gymnasium's spaces and the engine's descriptions say the same."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from leanfast.envs.spaces import (
    action_space,
    describe_action,
    describe_observation,
    observation_space,
)


@pytest.mark.parametrize(
    "box",
    [
        Box(-1, 1, (3,)),
        Box(0, np.array([1, 2], np.float32)),
        Box(np.array([-1, -np.inf], np.float32), np.inf),
        Box(-np.inf, np.inf, (2, 3)),
        Box(0, 255, (3, 4, 5), np.uint8),
        Box(0, np.array([[1, 2], [3, 4]], np.uint8), dtype=np.uint8),
    ],
)
def test_a_box_described_and_made_again_is_the_same(box):
    described = describe_observation(box, "an env")
    assert observation_space({"observation": described, "agents": 1}) == box


def test_equal_bounds_are_said_once_and_others_one_by_one():
    assert describe_observation(Box(-1, 1, (3,)), "an env")["low"] == [-1]
    mixed = describe_observation(Box(0, np.array([1, 2], np.float32)), "an env")
    assert (mixed["low"], mixed["high"]) == ([0, 0], [1, 2])


def test_other_dtypes_become_float32():
    for dtype in (np.float64, np.int64):
        described = describe_observation(Box(-3, 3, (2,), dtype), "an env")
        assert observation_space({"observation": described, "agents": 1}) == Box(-3, 3, (2,))
    widest = np.finfo(np.float64).max
    described = describe_observation(Box(-widest, widest, (2,), np.float64), "an env")
    assert described["high"] == [np.inf]


def test_agents_lead_the_shape():
    box = {"dtype": "float", "shape": (2,), "low": [0, 1], "high": [2, 3]}
    spec = {"observation": box, "action": 5, "agents": 3}
    low, high = np.float32([[0, 1]] * 3), np.float32([[2, 3]] * 3)
    assert observation_space(spec) == Box(low, high)
    assert action_space(spec) == MultiDiscrete([5] * 3)
    assert action_space({**spec, "action": box}) == Box(low, high)
    assert action_space({**spec, "agents": 1}) == Discrete(5)
    assert describe_action(Discrete(5, start=2), "an env") == 5
