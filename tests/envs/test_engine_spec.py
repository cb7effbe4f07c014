"""A header's spec that cannot be is refused before any memory is sized by it."""

from pathlib import Path

import numpy as np
import pytest

from leanfast.envs.compiler import find_compiler
from leanfast.envs.native import Engine
from leanfast.errors import UsageError

HEADER = Path(__file__).parents[1] / "cpp" / "odd_spec.hpp"


@pytest.fixture(scope="module")
def odd() -> str:
    try:
        find_compiler()
    except UsageError:
        pytest.skip("no C++ compiler")
    return str(HEADER)


def test_sizes_may_depend_on_parameters(odd):
    engine = Engine(odd, 5, params={"rows": 7, "columns": 2, "actions": 3})
    assert engine.reset().observation.shape == (5, 7, 2)
    assert engine.step(np.zeros((5, 3), np.float32)).reward.tolist() == [1.0] * 5


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"rows": 0}, r"observation of shape \(0, 4\)"),
        ({"rows": -3, "columns": -4}, r"observation of shape \(-3, -4\)"),
        ({"rows": 65536, "columns": 65536}, r"observation of shape \(65536, 65536\)"),
        ({"rows": 70000, "columns": 70000}, r"observation of shape \(70000, 70000\)"),
        ({"rank": 5}, "observation of 5 dimensions"),
        ({"rank": -1}, "observation of -1 dimensions"),
        ({"bounds": 5}, "5 pairs of bounds for the 12 values of its observation"),
        ({"bounds": 0}, "0 pairs of bounds for the 12 values of its observation"),
        ({"rows": 8, "columns": 5, "bounds": 40}, "40 pairs of bounds"),
        ({"actions": 0}, r"action of shape \(0,\)"),
    ],
)
def test_a_spec_of_impossible_sizes_is_refused(odd, params, words):
    with pytest.raises(ValueError, match=f"the spec of Odd-v0 has .*{words}"):
        Engine(odd, 5, params=params)
