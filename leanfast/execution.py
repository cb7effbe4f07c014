"""How a function of tensors is run: the only place that knows about execution modes.

Who may call what at the same time: one Accelerated belongs to one thread at a time. Several run
side by side in several threads, also with the same static tensors as long as none writes what
another reads. Compiling and capturing happens alone: it waits for running calls, and they for it.
"""

import time
import traceback
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensordict
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import CudaGraphModule
from tensordict.nn.functional_modules import _exclude_td_from_pytree
from torch._dynamo import exc, lookup_backend

from leanfast.errors import UsageError
from leanfast.gate import Gate
from leanfast.inputs import Inputs

BACKEND = "inductor"
# Each call would look at the layout of every tensor once more, in Python.
BACKEND_OPTIONS: dict[str, Any] = {"config_patches": {"size_asserts": False}}
WARMUP = 2  # calls before a capture: what libraries set up on first use is set up by then

_gate = Gate()


class Accelerated:
    """`accelerated(*inputs)` is `fn(*static, *inputs)`; this one runs as it stands."""

    compile_s = 0.0  # seconds spent in calls in which something was compiled
    capture_s = 0.0  # seconds of the call that captured
    settled = True  # nothing is left to compile or capture

    def __init__(self, fn: Callable[..., Any], static: tuple[TensorDict, ...]):
        self.name = getattr(fn, "__name__", type(fn).__name__)
        self._fn, self._static = fn, static

    def __call__(self, *inputs: Any) -> Any:
        return self._fn(*self._static, *inputs)

    run = __call__


def accelerate(fn: Callable[..., Any], mode: str, *static: TensorDict) -> Accelerated:
    """`fn` in `mode`, with its first arguments bound to `static`.

    `static` is read and written in place, where it is now: it is locked, so that no entry is put in
    another's place, and loaded with `update_`. The inputs are contiguous tensors or
    TensorDicts of these, with the same shapes, dtypes, devices and keys at every call; a captured
    function copies them. `fn` returns tensors, TensorDicts, None, or tuples of these. They may
    share memory with `static`.
    """
    for each in static:
        each.lock_()
    if mode == "eager":
        return Accelerated(fn, static)
    if mode == "compile":
        return _Compiled(fn, static)
    if mode in ("cudagraph", "combined"):
        inner = Accelerated(fn, static) if mode == "cudagraph" else _Compiled(fn, static)
        return _Captured(fn, static, inner)
    raise ValueError(f"mode is {mode!r}; it must be eager, compile, cudagraph or combined")


def quiet() -> Gate:
    """A context in which no thread compiles or captures; for CUDA calls, which would break another
    thread's capture, outside of accelerated functions. None may be compiled or captured inside."""
    return _gate


def choose(mode: str, device: str, fallback: bool = False) -> tuple[str, str]:
    """The mode that runs where `mode` is asked for, and why."""
    if mode == "eager":
        return mode, "as asked"
    from leanfast import doctor

    verdicts = doctor.execution_modes(doctor.examine())

    def fastest(*modes: str) -> str:
        return next((one for one in modes if device in verdicts[one]["devices"]), "eager")

    if mode == "auto":
        best = fastest("combined", "cudagraph", "compile")
        if best == "eager":
            return best, verdicts["compile"]["why_not"][device]
        return best, "the fastest that this machine runs"
    if device in verdicts[mode]["devices"]:
        return mode, "as asked"
    why = verdicts[mode]["why_not"][device]
    if not fallback:
        raise UsageError(
            f"execution.mode is {mode!r}, but {why}; execution=auto takes the fastest that runs "
            "here, execution.fallback=true falls back to it"
        )
    # What computes the same: a captured function's arithmetic is eager's.
    instead = "eager" if mode == "cudagraph" else fastest("compile")
    return instead, f"in place of {mode}, as execution.fallback=true allows: {why}"


def cuda_graph(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, from tensors to tensors; its first call runs it and captures it, the others replay."""
    if not torch.cuda.is_available():
        # The wrapper would run the plain function and say so in a warning.
        raise UsageError("a CUDA graph needs a CUDA device, and torch finds none")
    with _exclude_td_from_pytree():  # else the wrapper does so itself, for good
        return CudaGraphModule(fn, warmup=1)


class _Compiled(Accelerated):
    settled = False

    def __init__(self, fn: Callable[..., Any], static: tuple[TensorDict, ...]):
        super().__init__(fn, static)
        self.sealed = False
        self._compilations = 0
        self._inputs = Inputs(fn, self.name, len(static))
        bound = _with_code_of_its_own(fn, static)
        self._compiled = torch.compile(
            bound,
            backend=self._backend,
            fullgraph=True,
            dynamic=False,
            options={"guard_filter_fn": _worth_checking},
        )

    def __call__(self, *inputs: Any) -> Any:
        self._inputs.leaves(inputs)
        with _gate if self.settled else _gate.alone():
            return self.run(*inputs)

    def run(self, *inputs: Any) -> Any:
        before, began = self._compilations, time.perf_counter()
        try:
            result = self._compiled(*inputs)
        except exc.FailOnRecompileLimitHit as error:
            raise UsageError(
                f"{self.name} was compiled {self._compilations} times over: Python values that it "
                "reads change from call to call; they must be tensors"
            ) from error
        except exc.Unsupported as error:
            words = str(error).strip().splitlines()[0].rstrip(".")
            raise UsageError(
                f"{self.name} cannot be compiled in one piece: {words}, "
                f"at {_place(getattr(error, 'real_stack', None))}"
            ) from error
        except exc.BackendCompilerFailed as error:
            if isinstance(error.inner_exception, UsageError):
                raise error.inner_exception from None
            raise
        self.settled = self._compilations == before
        if not self.settled:
            self.compile_s += time.perf_counter() - began
        return result

    def _backend(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        if self.sealed:
            raise UsageError(f"{self.name} was to be compiled anew while it was captured")
        self._compilations += 1
        return lookup_backend(BACKEND)(graph, inputs, **BACKEND_OPTIONS)


class _Captured(Accelerated):
    settled = False

    def __init__(self, fn: Callable[..., Any], static: tuple[TensorDict, ...], inner: Accelerated):
        super().__init__(fn, static)
        self._inner, self._calls = inner, 0
        self._inputs = Inputs(fn, self.name, len(static))
        self._graph = cuda_graph(self._on_leaves)

    @property
    def compile_s(self) -> float:  # type: ignore[override]
        return self._inner.compile_s

    def __call__(self, *inputs: Any) -> Any:
        leaves = self._inputs.leaves(inputs)
        if self.settled:
            with _gate:
                return _put_together(self._result, iter(self._graph(*leaves)))
        with _gate.alone():
            if self._calls < WARMUP or not self._inner.settled:
                self._calls += 1
                return self._inner.run(*inputs)
            return self._capture(leaves)

    def _capture(self, leaves: list[torch.Tensor]) -> Any:
        began = time.perf_counter()
        if isinstance(self._inner, _Compiled):
            self._inner.sealed = True
        try:
            result = self._graph(*leaves)
        except RuntimeError as error:
            cause = error
            while isinstance(cause.__context__, RuntimeError):  # ending the capture failed, too
                cause = cause.__context__
            raise UsageError(
                f"{self.name} cannot be captured in a CUDA graph: "
                f"{str(cause).strip().splitlines()[0].rstrip('.')}, "
                f"at {_place(traceback.extract_tb(cause.__traceback__))}"
            ) from error
        self.settled = True
        self.capture_s = time.perf_counter() - began
        return _put_together(self._result, iter(result))

    def _on_leaves(self, *leaves: torch.Tensor) -> list[torch.Tensor]:
        tensors: list[torch.Tensor] = []
        result = self._inner.run(*self._inputs.rebuilt(leaves))
        self._result = _take_apart(result, tensors, self.name)
        return tensors


def _worth_checking(guards: Sequence[Any]) -> list[bool]:
    """Of what torch would check at every call, numbers alone: a counter in Python must not be
    frozen in silence. The inputs are held to their first call by Inputs, `static` is locked, and
    checking all else, a hundred microseconds for a learner, takes a third of an update."""
    kinds = ("CONSTANT_MATCH", "EQUALS_MATCH")
    return [g.guard_type in kinds and type(g.value) in (int, float) for g in guards]


def _with_code_of_its_own(
    fn: Callable[..., Any], static: tuple[TensorDict, ...]
) -> Callable[..., Any]:
    """torch.compile keeps what it compiled with the code, and refuses to compile the same code
    again and again: the ninth learner of a sweep would fail."""

    def bound(*inputs: Any) -> Any:
        return fn(*static, *inputs)

    code = bound.__code__.replace()
    return types.FunctionType(code, globals(), bound.__name__, None, bound.__closure__)


def _take_apart(value: Any, tensors: list[torch.Tensor], name: str) -> Any:
    """Appends the tensors of `value` and returns what puts them together again."""
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach())
        return torch.Tensor
    if isinstance(value, TensorDictBase):
        entries = {key: _take_apart(entry, tensors, name) for key, entry in value.items()}
        return entries, value.batch_size
    if type(value) is tuple:
        return [_take_apart(one, tensors, name) for one in value]
    raise TypeError(
        f"{name} returned a Python {type(value).__name__}, which a graph would repeat for ever; "
        "it must return tensors, TensorDicts or None"
    )


def _put_together(made_of: Any, tensors: Any) -> Any:
    if made_of is torch.Tensor:
        return next(tensors)
    if made_of is None:
        return None
    if type(made_of) is list:
        return tuple(_put_together(one, tensors) for one in made_of)
    entries, batch_size = made_of
    return TensorDict(
        {key: _put_together(one, tensors) for key, one in entries.items()}, batch_size
    )


_LIBRARIES = tuple(str(Path(module.__file__).parent) for module in (torch, tensordict))


def _place(stack: Any) -> str:
    """The innermost line that is not a library's: file, number and text."""
    frames = [frame for frame in stack or () if not frame.filename.startswith(_LIBRARIES)]
    if not frames:
        return "an unknown line"
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}"
