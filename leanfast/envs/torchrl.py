"""A batch of environments as a TorchRL EnvBase.

Steps are written into rows of this face's own, never into the engine's two buffers, and a row is
not written again while anybody holds a part of it: a rollout's list of steps stays what it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from sys import getrefcount
from typing import Any, Protocol

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Bounded, Categorical, Composite, TensorSpec, Unbounded
from torchrl.envs import EnvBase

from leanfast.envs.native import Batch, Engine

_TENSOR = torch._C.TensorBase
_storage_holders = torch._C._storage_Use_Count
_CPU = torch.device("cpu")
_NOT_KEPT = ("next", "reward", "_reset")  # of a root, where step_mdp makes the next one
_NEXT = {  # TorchRL's names, and the engine's
    "observation": "next_observation",
    "reward": "reward",
    "done": "done",
    "terminated": "terminated",
    "truncated": "truncated",
}


class Source(Protocol):
    """What the face needs of a batch of environments: the engine, or a wrapped Gymnasium one."""

    @property
    def num_envs(self) -> int: ...
    @property
    def agents(self) -> int: ...
    @property
    def spec(self) -> dict[str, Any]: ...
    @property
    def dtype(self) -> torch.dtype: ...

    def reset(self, seed: int | None = None, mask: torch.Tensor | None = None) -> Batch: ...
    def step(self, actions: torch.Tensor) -> Batch: ...
    def close(self) -> None: ...


@dataclass(slots=True, eq=False)
class Step:
    """One step, shaped as TorchRL wants it: rewards and flags with a last axis of one."""

    observation: torch.Tensor  # of the next root
    next: dict[str, torch.Tensor]


class BatchedEnv(EnvBase):
    """`source` is reached as env.source: for loops that want no TensorDict in the way."""

    batch_locked = True

    def __init__(self, source: Source):
        super().__init__(device=torch.device("cpu"), batch_size=torch.Size([source.num_envs]))
        self.source = source
        n = source.num_envs
        lead: tuple[int, ...] = (n, source.agents) if source.agents > 1 else (n,)
        seen = source.spec["observation"]
        self.observation_spec = Composite(
            observation=_box_spec(seen, lead, source.dtype), shape=(n,)
        )
        action = source.spec["action"]
        self.action_spec = (
            Categorical(action, shape=lead, dtype=torch.int64)
            if isinstance(action, int)
            else _box_spec(action, lead, source.dtype)
        )
        self.reward_spec = Unbounded(shape=(*lead, 1), dtype=source.dtype)
        flag = Categorical(2, shape=(n, 1), dtype=torch.bool)
        self.done_spec = Composite(
            done=flag, terminated=flag.clone(), truncated=flag.clone(), shape=(n,)
        )
        self._no = _NotDone(n)
        self._rows = _Rows(source) if isinstance(source, Engine) else None
        self._now = _Now()

    def step_and_maybe_reset(
        self, tensordict: TensorDictBase
    ) -> tuple[TensorDictBase, TensorDictBase]:
        if type(tensordict) is not TensorDict or self._post_step_mdp_hooks is not None:
            return super().step_and_maybe_reset(tensordict)
        root = tensordict._tensordict
        step = self._advance(root["action"])
        self._now.began = None
        after = {**root, "observation": step.observation, **self._no.flags()}
        for name in _NOT_KEPT:
            after.pop(name, None)
        root["next"] = _tensordict(step.next, tensordict._batch_size)
        return tensordict, _tensordict(after, tensordict._batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        step = self._advance(tensordict.get("action"))
        self._now.began = step.next["done"]
        return _tensordict(step.next, self.batch_size)

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is None or self._now.observation is None:
            self._show(self.source.reset(seed=self._now.seed))
            self._now.seed = None
        else:
            mask = mask.reshape(self.source.num_envs)
            began = (
                torch.zeros_like(mask) if self._now.began is None else self._now.began.squeeze(-1)
            )
            if bool((mask & ~began).any()):
                self._show(self.source.reset(mask=mask & ~began))
            self._now.began = (began & ~mask).unsqueeze(-1)
        state = {"observation": self._now.observation, **self._no.flags()}
        return _tensordict(state, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        self._now.seed = seed

    def close(self, *, raise_if_closed: bool = True) -> None:
        super().close(raise_if_closed=raise_if_closed)
        self.source.close()

    def _advance(self, actions: torch.Tensor) -> Step:
        step = self._rows.step(actions) if self._rows else _copied(self.source.step(actions))
        self._now.observation = step.observation
        return step

    def _show(self, batch: Batch) -> None:
        self._now.began = None
        self._now.observation = batch.observation.clone()


class _Now:
    """What changes from step to step, kept off the module: setting an attribute there is slow."""

    __slots__ = ("began", "observation", "seed")

    def __init__(self) -> None:
        self.seed: int | None = None
        self.observation: torch.Tensor | None = None
        self.began: torch.Tensor | None = None  # envs that the last step reset already


class _NotDone:
    """The flags of a root: no env is done where a step begins. One element, seen as many and
    shared by all steps: torch refuses most writes into it, the others are noticed here."""

    __slots__ = ("_flags", "_never", "_version")

    def __init__(self, num_envs: int):
        self._never = torch.zeros((1, 1), dtype=torch.bool).expand(num_envs, 1)
        self._flags = dict.fromkeys(("done", "terminated", "truncated"), self._never)
        self._version = self._never._version

    def flags(self) -> dict[str, torch.Tensor]:
        if self._never._version != self._version:
            self._version = self._never._version
            if bool(self._never.any()):
                self._never.zero_()
                raise RuntimeError(
                    "the done flags of a root tensordict were written in place, but steps share "
                    "them; set new ones instead: td['done'] = td['done'].clone().fill_(True)"
                )
        return self._flags


class _Rows:
    """Memory for the engine to write steps into: a few rows in turn, each used again only when
    nobody else holds any of its tensors, a view of one, or its storage."""

    RING = 4  # the step being written, the two a training loop holds, and one to spare

    def __init__(self, engine: Engine):
        self.engine = engine
        self.ring = [_OwnedRow(engine) for _ in range(self.RING)]
        self.turn = 0

    def step(self, actions: torch.Tensor) -> Step:
        self.turn = turn = (self.turn + 1) % self.RING
        row = self.ring[turn]
        if row.holders() != row.alone:
            self.ring[turn] = row = _OwnedRow(self.engine)
        return self.engine.step(actions, row.slot)


class _OwnedRow:
    __slots__ = ("alone", "slot", "storages", "tensors")

    def __init__(self, engine: Engine):
        like = engine.buffers[0]
        arrays = {n: torch.empty_like(getattr(like, n)) for n in ("observation", *_NEXT.values())}
        step = _shaped(arrays)
        self.slot = engine.slot(shown=step, **arrays)
        self.tensors = (step.observation, *step.next.values())
        self.storages = [t.untyped_storage()._cdata for t in self.tensors]
        del arrays, step
        self.alone = self.holders()

    def holders(self) -> list[int]:
        """Who holds each tensor, in Python and in torch, and its storage; and where its data lies
        (share_memory_() moves it)."""
        tensors = self.tensors
        return [
            *map(getrefcount, tensors),
            *map(_TENSOR._use_count, tensors),
            *map(_storage_holders, self.storages),
            *map(_TENSOR.data_ptr, tensors),
        ]


def _tensordict(leaves: dict[str, torch.Tensor], batch_size: torch.Size) -> TensorDict:
    made = TensorDict._new_unsafe(leaves, batch_size, nested=False)
    made._device = _CPU  # as an argument it costs as much again as all the rest
    return made


def _copied(batch: Batch) -> Step:
    return _shaped({name: tensor.clone() for name, tensor in batch.items()})


def _shaped(arrays: Mapping[str, torch.Tensor]) -> Step:
    leaves = {name: arrays[array] for name, array in _NEXT.items()}
    for name in ("reward", "done", "terminated", "truncated"):
        leaves[name] = leaves[name].unsqueeze(-1)
    return Step(arrays["observation"], leaves)


def _box_spec(box: dict[str, Any], lead: tuple[int, ...], dtype: torch.dtype) -> TensorSpec:
    dtype = torch.uint8 if box["dtype"] == "uint8" else dtype
    shape = (*lead, *box["shape"])
    low, high = (_spread(box[side], box["shape"], shape, dtype) for side in ("low", "high"))
    if dtype.is_floating_point and bool(torch.isinf(low).all() and torch.isinf(high).all()):
        return Unbounded(shape=shape, dtype=dtype)
    return Bounded(low, high, shape=shape, dtype=dtype)


def _spread(
    values: list[float], each: tuple[int, ...], shape: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    bounds = torch.tensor(values, dtype=dtype)
    return (bounds.reshape(each) if len(values) > 1 else bounds).expand(shape)
