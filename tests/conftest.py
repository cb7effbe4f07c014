"""Settings for every test: hypothesis's profiles, and gpu tests only where there is a GPU."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Deadlines fail on a busy machine for no fault of the code; in CI the same examples run each time.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Headers that tests build stay out of the user's own cache.
os.environ.setdefault("LEANFAST_CACHE", str(Path(__file__).parents[1] / "build" / "test-headers"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")
