"""A stand-in for the capture of CUDA graphs that runs on the CPU.

What is recorded is every operator with the tensors it read and wrote; a replay runs them again on
the same memory, and no Python with them. Recording leaves nothing behind, as a capture does: what
it wrote to memory that was there before is put back. Whatever would wait for the device, or copy
between it and the host, is an error that names the operator and the line.

On the CPU every tensor is the host's, so that three things cannot be told apart from harmless ones
and pass: a tensor closed over that is not on the device, `.to(device)` with a torch.device, and the
reuse of memory inside a graph.
"""

import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tensordict
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from leanfast import execution

aten = torch.ops.aten
LIBRARIES = tuple(str(Path(module.__file__).parent) for module in (torch, tensordict))
ON_HOST = {
    getattr(torch.Tensor, name)
    for name in ("cpu", "numpy", "tolist", "__array__", "__repr__", "__format__")
}
FACTORIES = {
    getattr(torch, name)
    for name in ("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn")
} | {torch.randperm, torch.zeros}
WAITING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class HostSyncError(RuntimeError):
    """A captured function waited for the device, or copied between it and the host."""


class Recording:
    """`with recording:` records; nothing of what it computes stays."""

    def __init__(self, python: bool = True):
        """With `python` the calls that leave no operator on the CPU, like .cpu(), are watched too;
        torch.compile would compile anew under that watch."""
        self.python = python
        self.operations: list[_Operation] = []

    def __enter__(self) -> None:
        recorder = _Recorder(self.operations)
        self._exits = ExitStack()
        self._exits.enter_context(torch.random.fork_rng(devices=[]))
        self._exits.callback(recorder.put_back)
        self._exits.enter_context(recorder)
        if self.python:
            self._exits.enter_context(_Watch(recorder))

    def __exit__(self, *error: Any) -> None:
        self._exits.__exit__(*error)

    def replay(self) -> None:
        for operation in self.operations:
            operation.run()


def capture(fn: Callable[..., Any], *inputs: Any, python: bool = True) -> tuple[Recording, Any]:
    """What fn(*inputs) does, and what it returned, which each replay writes anew."""
    recording = Recording(python)
    with recording:
        result = fn(*inputs)
    return recording, result


class StandIn:
    """In tensordict's CudaGraphModule's place, with what it does to its inputs and outputs."""

    def __init__(self, module: Callable[..., Any], warmup: int = 2, python: bool = True):
        self.module, self.warmup, self.python = module, warmup, python
        self.counter = 0

    def __call__(self, *args: Any) -> Any:
        if self.counter < self.warmup:
            self.counter += 1
            args = tree_map_only(torch.Tensor, torch.Tensor.clone, args)
            result = self.module(*args)
            if self.counter == self.warmup:
                self.inputs = args
                self.recording, self.result = capture(self.module, *args, python=self.python)
            return result
        for ours, given in zip(tree_leaves(self.inputs), tree_leaves(args), strict=True):
            ours.copy_(given)
        self.recording.replay()
        return tree_map_only(torch.Tensor, torch.Tensor.clone, self.result)


def install(monkeypatch: Any, mode: str) -> None:
    """Lets accelerate() run `cudagraph` or `combined` on the CPU. Compiled C++ leaves no operators
    to record, so `combined` runs the graph that the compiler was given instead."""
    stand_in = partial(StandIn, warmup=1, python=mode == "cudagraph")
    monkeypatch.setattr(execution, "cuda_graph", stand_in)
    monkeypatch.setattr(execution, "BACKEND", "aot_eager")


@dataclass(slots=True)
class _Operation:
    function: Any
    args: tuple
    kwargs: dict
    outputs: list[torch.Tensor]

    def run(self) -> None:
        results = _tensors(self.function(*self.args, **self.kwargs))
        for ours, result in zip(self.outputs, results, strict=True):
            if ours.data_ptr() != result.data_ptr():
                ours.copy_(result)


class _Recorder(TorchDispatchMode):
    def __init__(self, operations: list[_Operation]):
        super().__init__()
        self.operations = operations
        self.writes_number = False  # as in x[0] = 1.0: on a CUDA device that is a fill
        self._born: set[int] = set()
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True  # else what is compiled runs as if it were not

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        why = _waits(function, args, kwargs)
        if why and not (function is aten.lift_fresh.default and self.writes_number):
            raise HostSyncError(f"{function} {why}, at {_line()}")
        self._keep_what_is_written(function, args, kwargs)
        # Aliases, since a function may give the tensors themselves another shape or memory.
        inputs = tree_map_only(torch.Tensor, aten.alias.default, (args, kwargs))
        result = function(*args, **kwargs)
        outputs = [aten.alias.default(tensor) for tensor in _tensors(result)]
        read = {_address(tensor) for tensor in _tensors(inputs)}
        self._born |= {_address(tensor) for tensor in outputs} - read
        is_view = not function._schema.is_mutable and {_address(x) for x in outputs} <= read
        if not is_view and not function.name().startswith(("aten::empty", "aten::new_empty")):
            self.operations.append(_Operation(function, *inputs, outputs))
        return result

    def put_back(self) -> None:
        for memory, before in self._before.values():
            memory.copy_(before)

    def _keep_what_is_written(self, function, args, kwargs) -> None:
        if not function._schema.is_mutable:
            return
        for index, argument in enumerate(function._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            for tensor in _tensors(value):
                address = _address(tensor)
                if address not in self._born and address not in self._before:
                    memory = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
                    self._before[address] = memory, memory.clone()


class _Watch(TorchFunctionMode):
    def __init__(self, recorder: _Recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        to_host = function is torch.Tensor.to and "cpu" in (*args[1:], kwargs.get("device"))
        if function in ON_HOST or to_host:
            raise HostSyncError(f"{function.__name__} copies to the host, at {_line()}")
        if function in FACTORIES and kwargs.get("device") is None and _called_by_us():
            raise HostSyncError(f"{function.__name__} without a device, at {_line()}")
        self.recorder.writes_number = function is torch.Tensor.__setitem__ and isinstance(
            args[2], int | float
        )
        try:
            return function(*args, **kwargs)
        finally:
            self.recorder.writes_number = False


def _waits(function: Any, args: tuple, kwargs: dict) -> str | None:
    if function is aten.lift_fresh.default:
        return "copies Python values to the device"
    if any(isinstance(x, torch.Generator) for x in (*args, *kwargs.values())):
        return "draws from a generator that no graph knows"
    if function in (aten.index.Tensor, aten.index_put.default, aten.index_put_.default):
        masks = [x for x in args[1] if x is not None and x.dtype in (torch.bool, torch.uint8)]
        return "waits for the device to count a mask" if masks else None
    return "waits for the device" if WAITING & set(function.tags) else None


def _tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _called_by_us() -> bool:
    """Whether the call that is watched stands in a file that is not a library's."""
    frame = sys._getframe(2)
    return not frame.f_code.co_filename.startswith(LIBRARIES)


def _line() -> str:
    frames = [
        frame
        for frame in traceback.extract_stack()
        if not frame.filename.startswith((*LIBRARIES, __file__))
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}"
