"""The stand-in for graph capture, which other tests trust, does what a CUDA graph does."""

import numpy as np
import pytest
import torch
from capture import HostSyncError, StandIn, capture, install
from captured_functions import Captured, first_difference
from tensordict import TensorDict


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    install(monkeypatch, "cudagraph")


def start():
    return TensorDict(
        {
            "weight": torch.linspace(-1, 1, 12).reshape(4, 3),
            "mean": torch.zeros(4, 3),
            "target": torch.zeros(4, 3),
            "data": torch.linspace(0, 1, 80).reshape(20, 4),
            "cursor": torch.tensor(0),
            "calls": torch.tensor(0),
            "rate": torch.tensor(0.1),
        }
    )


def training(state, x):
    """Random indices, a gradient, an optimizer in place, a ring that wraps, a device's interval."""
    size = len(state["data"])
    state["data"].index_copy_(0, (state["cursor"] + torch.arange(3, device=x.device)) % size, x)
    state["cursor"].add_(3).remainder_(size)
    at = torch.randint(size, (8,), device=x.device)
    batch = state["data"][at]

    def loss_of(weight):
        return (batch @ weight).tanh().sum(-1).sub(state["target"].sum()).square().mean()

    gradient, loss = torch.func.grad_and_value(loss_of)(state["weight"])
    state["mean"].lerp_(gradient, 0.1)
    state["weight"].addcmul_(state["mean"], state["rate"], value=-1)
    state["rate"].mul_(0.999)
    due = state["calls"] % 7 == 0
    state["target"].copy_(torch.where(due, state["weight"], state["target"]))
    state["calls"].add_(1)
    return TensorDict({"loss": loss, "at": at})


def inputs(call):
    return (torch.full((3, 4), call / 200),)


def eager_results(calls):
    torch.manual_seed(1)
    state = start()
    return [(training(state, *inputs(call)), state.clone()) for call in range(calls)]


def test_replays_compute_what_eager_calls_do_bit_for_bit():
    expected = eager_results(200)
    torch.manual_seed(1)
    state = start()
    replay = StandIn(lambda x: tuple(training(state, x).values()))
    for call, (metrics, after) in enumerate(expected):
        results = replay(*inputs(call))
        for got, value in zip(results, metrics.values(), strict=True):
            assert torch.equal(got, value), call
        for name, value in after.items():
            assert torch.equal(state[name], value), (call, name)
    assert replay.counter == replay.warmup


def test_a_recording_leaves_memory_and_random_numbers_as_they_were():
    state, before = start(), start()
    torch.manual_seed(1)
    recording, _ = capture(training, state, *inputs(0))
    assert all(torch.equal(state[name], before[name]) for name in before.keys())  # noqa: SIM118
    drawn = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(drawn, torch.rand(3))
    recording.replay()
    assert int(state["calls"]) == 1


class PythonCounter:
    """Moves the target at every fifth call, counted in Python."""

    def __init__(self):
        self.calls = 0

    def __call__(self, state, x):
        self.calls += 1
        state["weight"].add_(x.sum())
        if self.calls % 5 == 0:
            state["target"].copy_(state["weight"])


class PythonSchedule:
    def __init__(self):
        self.rate = 0.1

    def __call__(self, state, x):
        self.rate *= 0.9
        state["weight"].add_(x.sum(), alpha=self.rate)


class Rebinding:
    """Puts a new tensor in the place of the state's."""

    def __init__(self):
        self.mean = torch.zeros(())

    def __call__(self, state, x):
        self.mean = self.mean * 0.9 + x.mean()
        return self.mean + 0


@pytest.mark.parametrize("wrong", [PythonCounter, PythonSchedule, Rebinding])
def test_python_state_makes_a_difference(wrong):
    difference = first_difference(lambda: Captured(wrong(), (start(),), inputs), "cudagraph")
    assert difference is not None
    assert difference.startswith("call ")


def test_a_host_branch_on_a_tensor_is_an_error_that_names_its_line():
    def wrong(x):
        if x.sum() > 0:  # here
            return x + 1
        return x - 1

    with pytest.raises(
        HostSyncError, match=r"_local_scalar_dense.* at .*test_capture.py:\d+: .*# here"
    ):
        capture(wrong, torch.ones(3))


SYNCHRONISING = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x[0]),
    "bool": lambda x: bool(x[0]),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "asarray": lambda x: np.asarray(x),
    "print": lambda x: f"{x[0]}" + repr(x),
    "cpu": lambda x: x.cpu(),
    "to_cpu": lambda x: x.to("cpu"),
    "to_device_cpu": lambda x: x.to(device="cpu"),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "write_to_mask": lambda x: x.index_put_((x > 0,), torch.ones_like(x)),
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "bincount": lambda x: x.long().bincount(),
    "repeat_interleave": lambda x: x.repeat_interleave(x.long()),
    "equal": lambda x: torch.equal(x, x),
    "allclose": lambda x: torch.allclose(x, x),
    "tensor": lambda x: x + torch.tensor([1.0, 2.0, 3.0]),
    "list_index": lambda x: x[[0, 1]],
    "no_device": lambda x: x + torch.arange(3),
    "generator": lambda x: torch.rand(3, generator=torch.Generator(), device=x.device),
    "backward": lambda x: torch.func.grad(lambda y: y.sum() * y.sum().item())(x),
}


@pytest.mark.parametrize("name", SYNCHRONISING)
def test_what_waits_for_the_device_or_copies_from_the_host_is_an_error(name):
    with pytest.raises(HostSyncError, match=r"test_capture\.py:\d+: "):
        capture(SYNCHRONISING[name], torch.ones(3))


HARMLESS = {
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "factory": lambda x: x + torch.arange(3, device=x.device),
    "set_number": lambda x: x.__setitem__(0, 2.0),
    "set_slice": lambda x: x.__setitem__(slice(1, 3), x[0]),
    "gather": lambda x: x[torch.zeros(2, dtype=torch.int64, device=x.device)],
    "cast": lambda x: x.to(torch.float64).to(x.device),
    "masked_fill": lambda x: x.masked_fill_(x > 0, 0.5),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_a_graph_can_hold_is_recorded_and_replayed(name):
    given, replayed = torch.ones(3), torch.ones(3)
    expected = HARMLESS[name](given)
    recording, result = capture(HARMLESS[name], replayed)
    recording.replay()
    assert torch.equal(given, replayed)
    if expected is not None:
        assert torch.equal(result, expected)


def test_views_of_what_is_recorded_see_what_replays_write():
    x = torch.zeros(2, 3)

    def views(x):
        doubled = x * 2
        row, turned, wide = doubled[1], doubled.t(), doubled[:, :1].expand(2, 4)
        row.add_(100)
        return doubled, row, turned, wide, doubled.reshape(-1).clone()

    recording, results = capture(views, x)
    for value in (1.0, 2.0):
        x.fill_(value)
        recording.replay()
        for ours, expected in zip(results, views(x.clone()), strict=True):
            assert torch.equal(ours, expected)


def test_replays_write_to_the_memory_that_was_recorded():
    x = torch.ones(3)
    recording, results = capture(lambda x: (x * 2, x.add_(1)), x)
    addresses = [each.data_ptr() for each in results]
    recording.replay()
    assert [each.data_ptr() for each in results] == addresses
    assert addresses[1] == x.data_ptr()
    assert torch.equal(x, torch.full((3,), 2.0))


def test_what_is_done_to_a_tensor_object_after_its_use_does_not_reach_the_replays():
    def turns(x):
        y = x * 2
        z = y.sum(0)
        y.t_()  # from here on y has another shape
        return z, y.sum(0)

    x = torch.arange(6.0).reshape(2, 3)
    recording, results = capture(turns, x)
    x.mul_(10)
    recording.replay()
    for ours, expected in zip(results, turns(x.clone()), strict=True):
        assert torch.equal(ours, expected)


def test_backward_and_an_optimizer_are_replayed():
    def step(weight, optimizer, x):
        optimizer.zero_grad()
        (x @ weight).square().mean().backward()
        optimizer.step()

    def made():
        weight = torch.linspace(-1, 1, 4).requires_grad_()
        return weight, torch.optim.SGD([weight], lr=0.1, momentum=0.9)

    (ours, our_optimizer), (theirs, their_optimizer) = made(), made()
    replay = StandIn(lambda x: step(ours, our_optimizer, x), warmup=3)
    for call in range(20):
        x = torch.full((2, 4), 1 + call / 10)
        replay(x)
        step(theirs, their_optimizer, x)
        assert torch.equal(ours, theirs), call


def test_the_stand_in_copies_inputs_in_and_results_out():
    seen = []
    replay = StandIn(lambda x: x * 2, warmup=1)
    x = torch.ones(2)
    for value in (1.0, 2.0, 3.0):
        seen.append(replay(x.fill_(value)))
    assert [float(each[0]) for each in seen] == [2.0, 4.0, 6.0]
    # As the wrapper it stands for: what does not match is broadcast and cast without a word.
    assert torch.equal(replay(torch.tensor(5)), torch.full((2,), 10.0))


def test_the_stand_in_calls_the_function_as_often_as_the_wrapper_does():
    calls = []
    replay = StandIn(lambda: calls.append(1), warmup=3)
    assert [replay() or len(calls) for _ in range(5)] == [1, 2, 4, 4, 4]
