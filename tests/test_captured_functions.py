"""What pipelines capture computes in every mode what it does in eager mode."""

import pytest
import torch
from capture import install
from captured_functions import FUNCTIONS, first_difference, update

from leanfast.arithmetic import arithmetic
from leanfast.learners import optimizer


@pytest.fixture(autouse=True)
def one_thread():
    with arithmetic(threads=1):
        yield


@pytest.mark.parametrize("name", FUNCTIONS)
def test_captured_functions_compute_what_they_do_in_eager_mode(name, monkeypatch):
    install(monkeypatch, "cudagraph")
    assert first_difference(lambda: FUNCTIONS[name]("cpu"), "cudagraph") is None


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_and_captured_functions_compute_what_they_do_in_eager_mode(name, monkeypatch):
    install(monkeypatch, "combined")
    assert first_difference(lambda: FUNCTIONS[name]("cpu"), "combined") is None


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_captured_updates_in_half_precision_compute_what_they_do_in_eager_mode(
    precision, monkeypatch
):
    # The scale of the loss grows until a gradient overflows, again and again.
    monkeypatch.setattr(optimizer, "GROWTH_INTERVAL", 5)
    install(monkeypatch, "cudagraph")
    assert first_difference(lambda: update("cpu", precision=precision), "cudagraph") is None


def close(a, b):
    """Sums are taken in another order, so that the last digits differ."""
    return torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_the_compilers_own_kernels_agree_with_eager_mode():
    assert first_difference(lambda: FUNCTIONS["learn"]("cpu"), "compile", 20, close) is None


@pytest.mark.gpu
@pytest.mark.parametrize("name", FUNCTIONS)
def test_on_cuda_captured_functions_compute_what_they_do_in_eager_mode(name):
    assert first_difference(lambda: FUNCTIONS[name]("cuda"), "cudagraph") is None


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["compile", "combined"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_on_cuda_compiled_functions_agree_with_eager_mode(name, mode):
    assert first_difference(lambda: FUNCTIONS[name]("cuda"), mode, 20, close) is None
