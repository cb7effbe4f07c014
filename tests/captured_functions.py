"""Every function that a pipeline captures, and the test that each must pass: to compute bit for bit
what it does in eager mode. Add yours to FUNCTIONS."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from captured_training import of_training
from dqn_cases import learner, of, rows, transitions
from tensordict import TensorDict, TensorDictBase

from leanfast.execution import accelerate
from leanfast.replay.ring import Ring


@dataclass(frozen=True)
class Captured:
    fn: Callable[..., Any]
    static: tuple[TensorDict, ...]
    inputs: Callable[[int], tuple[Any, ...]]  # of each call, by its number


def _act(device: str) -> Captured:
    ours = learner(device=device)

    def inputs(step: int) -> tuple[Any, ...]:
        ours.state["env_steps"].add_(64)
        ours.state["epsilon"].mul_(0.99)
        return (torch.randn(64, 4, generator=of(step)).to(device),)

    return Captured(ours.act, (ours.state,), inputs)


def _observe(device: str) -> Captured:
    ours = learner(
        device=device,
        learning_rate_end=1e-4,
        learning_rate_schedule="cosine",
        normalize_observations=True,
        reward_scale=0.5,
        reward_clip=0.7,
    )
    return Captured(ours.observe, (ours.state,), lambda step: (rows(step, steps=2).to(device),))


def update(device: str, **options: Any) -> Captured:
    ours = learner(target_every=50, device=device, **options)

    def inputs(step: int) -> tuple[Any, ...]:
        ours.state["env_steps"].add_(10)  # so that the target moves at every fifth call
        ours.state["learning_rate"].mul_(0.99)
        return (transitions(step, n_step=ours.options.n_step).to(device),)

    return Captured(ours.update, (ours.state,), inputs)


def _update_with_everything(device: str) -> Captured:
    return update(
        device,
        accumulate=2,
        optimizer="adamw",
        weight_decay=0.01,
        n_step=3,
        double=True,
        dueling=True,
        loss="huber",
        max_grad_norm=0.1,
        normalize_observations=True,
        tau=0.5,
    )


LANES = 8


def _ring() -> Ring:
    return Ring(
        steps=30,
        lanes=LANES,
        observation_shape=(4,),
        observation_dtype=torch.float32,
        n_step=3,
        discount=0.9,
        episode_limit=None,
    )


def _following_rows(call: int, device: str, steps: int = 2) -> TensorDict:
    """Those of a call go on where those of the call before it ended."""
    frames = [torch.randn(LANES, 4, generator=of(call * steps + i)) for i in range(steps + 1)]
    made = rows(call, steps, LANES)
    made["observation"] = torch.stack(frames[:-1])
    ended = (made["terminated"] | made["truncated"]).unsqueeze(-1)
    following = torch.stack(frames[1:])
    made["next_observation"] = torch.where(ended, made["next_observation"], following)
    return made.to(device)


def _store(device: str) -> Captured:
    ring = _ring()
    storage = ring.allocate(device)  # which calls fill more than ten times over
    return Captured(ring.extend, (storage,), lambda call: (_following_rows(call, device),))


def _learn(device: str) -> Captured:
    """Two updates at a time, while the replay is filled, wraps around, and the target moves."""
    ring, ours = _ring(), learner(target_every=50, n_step=3, double=True, device=device)
    storage = ring.allocate(device)

    def learn(state: TensorDict, replay: TensorDict) -> TensorDict:
        for _ in range(2):
            batch = ring.sample(replay, 32, state["sampling_key"], state["updates"])
            metrics = ours.update(state, batch)
        return metrics

    def inputs(call: int) -> tuple[Any, ...]:
        ring.extend(storage, _following_rows(call, device, steps=8 if call == 0 else 2))
        ours.state["env_steps"].add_(10)
        return ()

    return Captured(learn, (ours.state, storage), inputs)


def _of_training(pipeline: str, name: str, device: str) -> Captured:
    made, inputs = of_training(pipeline, name, device)
    return Captured(made._fn, made._static, inputs)


FUNCTIONS: dict[str, Callable[[str], Captured]] = {
    "act": _act,
    "observe": _observe,
    "update": update,
    "update_with_everything": _update_with_everything,
    "store": _store,
    "learn": _learn,
    **{
        f"{pipeline}_{name}": partial(_of_training, pipeline, name)
        for pipeline, names in {
            "vectorized": ("act", "store", "learn"),
            "double_buffered": ("store",),
            "serial": ("observe", "update"),
        }.items()
        for name in names
    },
}


def first_difference(
    make: Callable[[], Captured],
    mode: str,
    calls: int = 200,
    same: Callable[[torch.Tensor, torch.Tensor], bool] | None = None,
) -> str | None:
    """What `mode` computes otherwise than eager mode, the first time that it does. Halfway the
    state is saved, and later loaded in place, as from a checkpoint."""
    same = same or _same_bits
    one, other = make(), make()
    eager = accelerate(one.fn, "eager", *one.static)
    accelerated = accelerate(other.fn, mode, *other.static)
    for call in range(calls):
        if call == calls // 2:
            saved = [[static.clone() for static in each.static] for each in (one, other)]
        if call == calls * 3 // 4:
            for each, values in zip((one, other), saved, strict=True):
                for static, value in zip(each.static, values, strict=True):
                    static.update_(value)
        expected = {"result": eager(*one.inputs(call)), "static": one.static}
        got = {"result": accelerated(*other.inputs(call)), "static": other.static}
        for (path, a), (_, b) in zip(_tensors(expected), _tensors(got), strict=True):
            if not same(a, b):
                return f"call {call + 1}: {path} is {b}; in eager mode it is {a}"
    assert accelerated.settled
    return None


def _tensors(value: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict | TensorDictBase):
        for name in sorted(value.keys()):
            yield from _tensors(value[name], f"{path}/{name}")
    elif isinstance(value, tuple):
        for index, one in enumerate(value):
            yield from _tensors(one, f"{path}/{index}")


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """NaN equals itself, 0.0 does not equal -0.0."""
    bits = [each.contiguous().reshape(-1).view(torch.uint8) for each in (a, b)]
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(*bits)
