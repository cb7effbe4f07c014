"""Legal code that a compiler is known to get wrong means in a header what C++ says."""

from pathlib import Path

import pytest

from leanfast.envs.native import Engine

FREE_CELL = str(Path(__file__).parents[1] / "headers" / "free_cell.hpp")


@pytest.mark.parametrize(("k", "cell"), [(0, 1), (1, 2), (2, 4), (3, 5), (100, 151)])
def test_a_loop_that_counts_bytes_keeps_its_first_condition(k, cell):
    with Engine(FREE_CELL, 1, threads=1, seed=0, params={"k": k}) as engine:
        assert engine.reset().observation.item() == cell
