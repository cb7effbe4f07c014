"""What several files of tests need built."""

from pathlib import Path

import pytest

from leanfast.envs.compiler import find_compiler
from leanfast.envs.native import Engine
from leanfast.errors import UsageError


@pytest.fixture(scope="session")
def slow() -> str:
    """A header whose step sleeps for `action` milliseconds, built once."""
    try:
        find_compiler()
    except UsageError:
        pytest.skip("no C++ compiler")
    header = str(Path(__file__).parents[1] / "cpp" / "slow.hpp")
    Engine(header, 1).close()
    return header
