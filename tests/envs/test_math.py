"""sin, cos and wrap_angle of engine/math.hpp in float32, as Pendulum shows them: with a clock that
stands still (dt=0) its observation is the cosine and sine of the angle it was given, and its reward
minus the square of that angle, wrapped."""

import math

import numpy as np
import pytest
import torch

from leanfast import _native
from leanfast.envs.native import Engine

RANGE, TURN = 1e4, 2 * math.pi
SETS = list(_native.instruction_sets())


@pytest.fixture(scope="module")
def angles() -> np.ndarray:
    rng = np.random.default_rng(0)
    magnitudes = 10.0 ** rng.uniform(-30, math.log10(RANGE), 200_000)
    chosen = [rng.uniform(-RANGE, RANGE, 800_000), rng.uniform(-4, 4, 800_000)]
    chosen += [magnitudes, -magnitudes, [0.0, -0.0, RANGE, -RANGE]]
    quarters = (np.arange(-6366, 6367) * (math.pi / 2)).astype(np.float32)
    chosen += [quarters, *(np.nextafter(quarters, np.float32(far)) for far in (-2e4, 2e4))]
    return np.concatenate(chosen).astype(np.float32)


def standing_still(angles: np.ndarray, instruction_set: str) -> tuple[np.ndarray, np.ndarray]:
    n = len(angles)
    params = {"dt": 0.0}
    engine = Engine(
        "pendulum", n, threads=1, seed=0, params=params, instruction_set=instruction_set
    )
    engine.reset()
    states = np.stack([angles, np.zeros_like(angles)], 1)
    engine.load_records(engine.records() | {"state": states.view(np.uint8)})
    batch = engine.step(torch.zeros(n, 1))
    return batch.next_observation.numpy().copy(), batch.reward.numpy().copy()


@pytest.mark.parametrize("instruction_set", SETS)
def test_sine_and_cosine_are_within_1e_7_up_to_ten_thousand_radians(angles, instruction_set):
    seen, _ = standing_still(angles, instruction_set)
    exact = angles.astype(np.float64)
    assert np.abs(seen[:, 0] - np.cos(exact)).max() < 1e-7
    assert np.abs(seen[:, 1] - np.sin(exact)).max() < 1e-7


@pytest.mark.parametrize("instruction_set", SETS)
def test_a_wrapped_angle_is_the_same_angle_within_half_a_turn(angles, instruction_set):
    _, reward = standing_still(angles, instruction_set)
    wrapped, exact = np.sqrt(-reward.astype(np.float64)), angles.astype(np.float64)
    assert (wrapped <= math.pi + 1e-7 * np.maximum(1, np.abs(exact))).all()
    apart = np.stack([wrapped - exact, wrapped + exact])  # the square does not tell the sign
    assert np.abs(apart - TURN * np.round(apart / TURN)).min(0).max() < 1e-6


def test_every_instruction_set_gives_the_same_bits(angles):
    first = standing_still(angles, SETS[0])
    for other in SETS[1:]:
        for a, b in zip(first, standing_still(angles, other), strict=True):
            assert np.array_equal(a.view(np.int32), b.view(np.int32))
