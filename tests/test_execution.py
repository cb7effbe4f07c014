import threading
import time

import pytest
import torch
from capture import HostSyncError, install
from tensordict import TensorDict

from leanfast import execution
from leanfast.errors import UsageError
from leanfast.execution import WARMUP, accelerate, quiet

MODES = ["eager", "compile", "cudagraph", "combined"]
HELD = MODES[1:]  # to the shapes, dtypes, devices and keys of the first call
GRAPHS = MODES[2:]


@pytest.fixture
def in_mode(monkeypatch):
    """accelerate() in any mode on this machine: graphs by the stand-in, and no C++ compiled."""

    def made(fn, mode, *static):
        install(monkeypatch, mode)
        return accelerate(fn, mode, *static)

    return made


def call(times, accelerated, *inputs):
    for _ in range(times):
        accelerated(*inputs)


def state_of(**values):
    return TensorDict({name: torch.tensor(value) for name, value in values.items()})


def total(state, x):
    state["sum"].add_(x.sum())
    state["calls"].add_(1)
    return TensorDict({"sum": state["sum"] * 1, "double": x * 2})


@pytest.mark.parametrize("mode", MODES)
def test_every_call_has_its_effects_once_and_a_result_of_its_own(mode, in_mode):
    state = state_of(sum=0.0, calls=0)
    accelerated, results = in_mode(total, mode, state), []
    x = torch.zeros(2)
    for value in range(8):
        results.append(accelerated(x.fill_(value)))
    x.fill_(100)
    assert [float(result["sum"]) for result in results] == [0, 2, 6, 12, 20, 30, 42, 56]
    assert [float(result["double"][0]) for result in results] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert int(state["calls"]) == 8
    assert accelerated.settled


def returns_nothing(state):
    state["calls"].add_(1)


def returns_a_tensor(state):
    return state["calls"].add_(1) * 2


def returns_much(state):
    calls = state["calls"].add_(1)
    return calls + 1, None, TensorDict({"a": {"b": calls * 2}, "c": calls.expand(3)})


@pytest.mark.parametrize("mode", MODES)
def test_without_inputs_a_function_returns_what_it_returns(mode, in_mode):
    for fn, expected in ((returns_nothing, None), (returns_a_tensor, 10)):
        accelerated = in_mode(fn, mode, state_of(calls=0))
        assert [accelerated() for _ in range(5)][-1] == expected
    accelerated = in_mode(returns_much, mode, state_of(calls=0))
    for _ in range(5):
        number, nothing, nested = accelerated()
    assert (int(number), nothing, int(nested["a", "b"])) == (6, None, 10)
    assert nested["c"].tolist() == [5, 5, 5]


def of_rows(state, rows, scale):
    return (rows["a"].sum() + rows["in", "b"].sum()) * scale


def rows(value=1.0):
    return TensorDict({"a": torch.full((3,), value), "in": {"b": torch.full((3, 2), value)}}, [3])


SCALE = torch.ones(2)
NEVER_SEEN = {
    "shape": ((rows(), torch.ones(3)), r"scale is float32 \[3\] on cpu; .* had float32 \[2\] on"),
    "dtype": ((rows(), SCALE.double()), r"scale is float64 \[2\] on cpu; .* had float32 \[2\]"),
    "device": ((rows(), SCALE.to("meta")), r"scale is float32 \[2\] on meta"),
    "strides": ((rows(), torch.ones(2, 2)[:, 0]), r"scale is not contiguous; it must be"),
    "number": ((rows(), 2.0), r"scale is a float; "),
    "tensor": ((torch.ones(3), SCALE), r"rows is float32 \[3\] on cpu; .* had a TensorDict"),
    "missing": ((rows().exclude("a"), SCALE), r"rows has no 'a', which its first call had"),
    "extra": ((rows().set("c", torch.ones(3)), SCALE), r"rows has 'c', which .* had not"),
    "nested": ((rows().set(("in", "b"), torch.ones(3, 1)), SCALE), r"rows\['in'\]\['b'\] is flo"),
    "batch": ((rows().set("a", torch.ones(3)).view(-1), SCALE), None),
    "fewer": ((rows(),), r"of_rows got 1 inputs; its first call had 2"),
}


@pytest.mark.parametrize("mode", HELD)
@pytest.mark.parametrize("calls", [1, 5])
def test_inputs_unlike_those_of_the_first_call_are_errors_that_name_them(mode, calls, in_mode):
    accelerated = in_mode(of_rows, mode, TensorDict({}))
    for _ in range(calls):
        assert accelerated(rows(2.0), SCALE).tolist() == [18.0, 18.0]
    for given, words in NEVER_SEEN.values():
        if words is None:
            accelerated(*given)
        else:
            with pytest.raises(ValueError, match=words):
                accelerated(*given)
    turned = TensorDict({"in": rows(3.0)["in"], "a": rows(3.0)["a"]}, [3])
    assert accelerated(turned, SCALE).tolist() == [27.0, 27.0]


@pytest.mark.parametrize("mode", HELD)
def test_an_input_that_is_no_tensor_or_has_gaps_is_refused_at_the_first_call(mode, in_mode):
    accelerated = in_mode(of_rows, mode, TensorDict({}))
    with pytest.raises(ValueError, match="scale is a float; it must be a tensor or a TensorDict"):
        accelerated(rows(), 2.0)
    with pytest.raises(ValueError, match="scale is not contiguous; it must be"):
        in_mode(of_rows, mode, TensorDict({}))(rows(), torch.ones(2, 2)[:, 0])


@pytest.mark.parametrize("mode", MODES)
def test_state_loaded_in_place_takes_effect_whatever_was_captured(mode, in_mode):
    state = state_of(sum=0.0, calls=0)
    accelerated = in_mode(total, mode, state)
    call(5, accelerated, torch.ones(2))
    state.update_(state_of(sum=1000.0, calls=50))
    assert float(accelerated(torch.ones(2))["sum"]) == 1002
    assert int(state["calls"]) == 51


@pytest.mark.parametrize("mode", MODES)
def test_no_entry_of_static_state_can_be_put_in_anothers_place(mode, in_mode):
    state = state_of(sum=0.0, calls=0)
    in_mode(total, mode, state)
    with pytest.raises(RuntimeError, match="locked"):
        state["sum"] = torch.tensor(1.0)


def helper(x):
    print("a message")
    return x + 1


def branches(state, x):
    return helper(x)


@pytest.mark.parametrize("mode", ["compile", "combined"])
def test_a_graph_break_is_one_sentence_with_the_line(mode, in_mode):
    accelerated = in_mode(branches, mode, TensorDict({}))
    with pytest.raises(UsageError) as refused:
        accelerated(torch.ones(2))
    (sentence,) = str(refused.value).splitlines()
    assert sentence.startswith("branches cannot be compiled in one piece: ")
    assert "test_execution.py:" in sentence
    assert sentence.endswith('print("a message")')


def waits(state, x):
    return x * x.sum().item()


def test_a_function_that_waits_for_the_device_is_refused_with_the_line(in_mode):
    accelerated = in_mode(waits, "cudagraph", TensorDict({}))
    with pytest.raises(UsageError, match=r"waits cannot be captured in a CUDA graph: ") as refused:
        call(5, accelerated, torch.ones(2))
    assert isinstance(refused.value.__cause__, HostSyncError)
    assert "x * x.sum().item()" in str(refused.value)


class Changing:
    """Reads a number of Python's that changes when told to."""

    __name__ = "changing"

    def __init__(self):
        self.number = 0

    def count(self):
        self.number += 1

    def __call__(self, state):
        state["sum"].add_(self.number)


@pytest.mark.parametrize("mode", ["compile", "combined"])
def test_python_values_that_never_stop_changing_are_refused(mode, in_mode):
    changing = Changing()
    accelerated = in_mode(changing, mode, state_of(sum=0))
    with pytest.raises(UsageError, match="changing was compiled 8 times over: Python values"):
        call(20, lambda: accelerated() or changing.count())
    assert not accelerated.settled


def test_combined_captures_after_a_whole_call_without_compiling(in_mode):
    state, changing = state_of(sum=0), Changing()
    accelerated, settled = in_mode(changing, "combined", state), []
    for number in (0, 1, 2, 3, 4, 4, 4, 4):
        changing.number = number
        accelerated()
        settled.append(accelerated.settled)
    # Calls 1 to 5 compile, the 6th does not, the 7th captures.
    assert settled == [False] * 6 + [True] * 2
    assert int(state["sum"]) == 0 + 1 + 2 + 3 + 4 + 4 + 4 + 4


def how(state):
    state["sum"].fill_(1 if torch.compiler.is_compiling() else 2)


def test_combined_captures_what_was_compiled_and_cudagraph_the_plain_function(in_mode):
    for mode, expected in (("combined", 1), ("cudagraph", 2)):
        state = state_of(sum=0)
        accelerated = in_mode(how, mode, state)
        for _ in range(6):
            accelerated()
            assert int(state["sum"]) == expected


def test_compiling_during_the_capture_is_an_error(in_mode):
    changing = Changing()
    accelerated = in_mode(changing, "combined", state_of(sum=0))
    call(WARMUP, accelerated)
    changing.count()
    with pytest.raises(UsageError, match="changing was to be compiled anew while it was captured"):
        accelerated()


@pytest.mark.parametrize("mode", MODES)
def test_seconds_are_counted_for_the_calls_that_compile_and_the_one_that_captures(mode, in_mode):
    accelerated = in_mode(total, mode, state_of(sum=0.0, calls=0))
    call(4, accelerated, torch.ones(2))
    seconds = accelerated.compile_s, accelerated.capture_s
    assert [each > 0 for each in seconds] == [mode in ("compile", "combined"), mode in GRAPHS]
    accelerated(torch.ones(2))
    assert (accelerated.compile_s, accelerated.capture_s) == seconds


def test_a_captured_function_that_returns_python_values_is_refused(in_mode):
    accelerated = in_mode(lambda state: 3, "cudagraph", TensorDict({}))
    with pytest.raises(TypeError, match=r"<lambda> returned a Python int, which"):
        call(5, accelerated)


def test_one_function_can_be_compiled_for_more_learners_than_torchs_limit(in_mode):
    for _ in range(12):
        state = state_of(sum=0.0, calls=0)
        accelerated = in_mode(total, "compile", state)
        call(2, accelerated, torch.ones(2))
        assert float(state["sum"]) == 4


@pytest.mark.parametrize("mode", GRAPHS)
def test_graph_modes_are_refused_where_there_is_no_cuda_device(mode, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="a CUDA graph needs a CUDA device"):
        accelerate(total, mode, state_of(sum=0.0, calls=0))


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="mode is 'fast'; it must be eager, compile, cudagraph or"):
        accelerate(total, "fast")


@pytest.mark.parametrize("mode", ["compile", "combined"])
def test_two_threads_may_make_their_first_calls_at_once(mode, in_mode):
    states = [state_of(sum=0.0, calls=0) for _ in range(4)]
    functions = [in_mode(total, mode, state) for state in states]
    barrier, errors = threading.Barrier(len(functions)), []

    def work(accelerated):
        barrier.wait()
        try:
            call(50, accelerated, torch.ones(2))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(each,)) for each in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert [float(state["sum"]) for state in states] == [100.0] * 4
    assert all(accelerated.settled for accelerated in functions)


def test_no_call_runs_in_another_thread_while_one_compiles(in_mode, monkeypatch):
    running = in_mode(total, "compile", state_of(sum=0.0, calls=0))
    call(3, running, torch.ones(2))
    begun, stop, calls, during = threading.Event(), threading.Event(), [], []

    def run():
        while not stop.is_set():
            running(torch.ones(2))
            calls.append(1)
            begun.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert begun.wait(5)

    def slow_backend(graph, inputs, **options):
        before = len(calls)
        time.sleep(0.2)
        # One call may have been over, and not counted yet.
        during.append(len(calls) - before)
        return graph

    monkeypatch.setattr(execution, "lookup_backend", lambda name: slow_backend)
    accelerate(total, "compile", state_of(sum=0.0, calls=0))(torch.ones(2))
    so_far = len(calls)
    time.sleep(0.1)
    stop.set()
    thread.join()
    assert during[0] <= 1
    assert len(calls) > so_far
    # Nor was it compiled a second time for the other thread.
    assert running._compilations == 1


@pytest.mark.parametrize("mode", HELD)
def test_nothing_is_compiled_or_captured_while_a_thread_asked_for_quiet(mode, in_mode):
    accelerated = in_mode(total, mode, state_of(sum=0.0, calls=0))
    with quiet(), pytest.raises(RuntimeError, match=r"cannot compile or capture inside"):
        accelerated(torch.ones(2))
    call(5, accelerated, torch.ones(2))
    with quiet():
        assert float(accelerated(torch.ones(2))["sum"]) == 12
