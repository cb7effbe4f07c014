"""Graph modes through tensordict's own CudaGraphModule, with nothing but the device made up."""

from contextlib import contextmanager, nullcontext

import pytest
import torch
from capture import Recording
from captured_functions import FUNCTIONS, first_difference
from tensordict import TensorDict
from tensordict.nn import CudaGraphModule
from torch.utils._pytree import SUPPORTED_NODES

from leanfast import execution
from leanfast.errors import UsageError
from leanfast.execution import accelerate


class Stream:
    def __init__(self, device=None):
        pass

    def wait_stream(self, stream):
        pass


@contextmanager
def graph(recording, stream):
    try:
        with recording:
            yield
    except RuntimeError:
        # As CUDA does.
        raise RuntimeError("operation failed due to a previous error during capture")  # noqa: B904


@pytest.fixture
def fake_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recording)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    # It refuses tensors of the CPU.
    monkeypatch.setattr(CudaGraphModule, "_check_device_and_clone", CudaGraphModule._clone)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_captured_functions_compute_what_they_do_in_eager_mode(name, fake_cuda):
    assert first_difference(lambda: FUNCTIONS[name]("cpu"), "cudagraph", 50) is None


def test_functions_without_inputs_and_with_every_kind_of_result_are_replayed(fake_cuda):
    def fn(state):
        calls = state["calls"].add_(1)
        return calls * 1, None, TensorDict({"a": {"b": calls * 2}})

    accelerated = accelerate(fn, "cudagraph", TensorDict({"calls": torch.tensor(0)}))
    seen = [accelerated() for _ in range(6)]
    assert [int(calls) for calls, _, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert [int(nested["a", "b"]) for _, _, nested in seen] == [2, 4, 6, 8, 10, 12]
    assert {nothing for _, nothing, _ in seen} == {None}


def waits(state):
    return state["calls"] * state["calls"].item()


def test_what_broke_the_capture_is_said_and_not_that_ending_it_failed(fake_cuda):
    accelerated = accelerate(waits, "cudagraph", TensorDict({"calls": torch.tensor(1)}))
    for _ in range(2):
        accelerated()
    with pytest.raises(UsageError, match=r"_local_scalar_dense.* waits for the device, at .*item"):
        accelerated()


def test_tensordicts_stay_registered_as_they_were(fake_cuda):
    before = dict(SUPPORTED_NODES)
    execution.cuda_graph(lambda: None)
    assert before == SUPPORTED_NODES
    assert TensorDict in SUPPORTED_NODES
