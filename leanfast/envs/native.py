"""The engine: a batch of C++ environments behind send(actions) and recv().

    engine = Engine("cartpole", num_envs=768, seed=1)
    batch = engine.reset()
    while True:
        engine.send(policy(batch.observation))   # returns at once
        ...                                      # the engine's threads step meanwhile
        batch = engine.recv()                    # tensors over the engine's memory, no copy

There are two sets of buffers: a batch stays as it is until the second send() after it.
"""

import hashlib
import json
import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from leanfast import _native
from leanfast.cores import usable_cores
from leanfast.envs.registry import Definition, ParamValue, find
from leanfast.memory import free_host_memory, in_words

STATE_VERSION = 1
RECORDS = ("state", "seed", "episode", "length", "total")
ABSENT: Any = None  # an array that a batch leaves out
PRECISIONS = {"float32": torch.float32, "float64": torch.float64}


@dataclass(slots=True, frozen=True, eq=False)  # frozen: the engine writes where these lie
class Batch:
    """One step of every env. `next_observation` is what the step led to, also where an episode
    ended; `observation` is what to act on next: there, the first of the next episode."""

    observation: torch.Tensor = ABSENT  # [N, (A,) ...]
    next_observation: torch.Tensor = ABSENT  # [N, (A,) ...]
    reward: torch.Tensor = ABSENT  # [N, (A)]
    terminated: torch.Tensor = ABSENT  # [N]
    truncated: torch.Tensor = ABSENT  # [N]
    done: torch.Tensor = ABSENT  # [N]
    episode_return: torch.Tensor = ABSENT  # [N, (A)], of the episode the step belongs to
    episode_length: torch.Tensor = ABSENT  # [N]

    def row(self, step: int) -> "Batch":
        """One step of a [steps, N, ...] batch."""
        return Batch(**{name: tensor[step] for name, tensor in self.items()})

    def items(self) -> Iterator[tuple[str, torch.Tensor]]:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                yield field.name, value


class Engine(_native.Engine):
    """`num_envs` copies of one environment, stepped by `threads` threads (default: one for each
    core this process may use). The same seed gives the same trajectories for every thread count,
    batch size and instruction set."""

    def __init__(
        self,
        env: str | Definition,
        num_envs: int,
        *,
        threads: int | None = None,
        seed: int | Sequence[int] | None = None,
        params: Mapping[str, ParamValue] | None = None,
        precision: str = "float32",
        max_episode_steps: int | None = None,
        instruction_set: str | None = None,
        pin_memory: bool | None = None,
    ):
        self.definition = env if isinstance(env, Definition) else find(env)
        num_envs = _whole("num_envs", num_envs, 1, 2**31 - 64)
        threads = usable_cores() if threads is None else _whole("threads", threads, 1, 4096)
        if max_episode_steps is not None:
            max_episode_steps = _whole("max_episode_steps", max_episode_steps, 1, 2**31 - 1)
        self.dtype = _choice("precision", precision, PRECISIONS)
        sets = {name: index for index, name in enumerate(_native.instruction_sets())}
        chosen = instruction_set or _native.default_instruction_set()
        values = self.definition.values(params)
        self.spec = self.definition.native.spec(values, self.dtype.itemsize)
        _check_memory(num_envs, self.spec, self.dtype.itemsize)
        super().__init__(
            self.definition.native,
            values,
            self.dtype.itemsize,
            num_envs,
            threads,
            -1 if max_episode_steps is None else max_episode_steps,
            _choice("instruction_set", chosen, sets),
        )
        if max_episode_steps is not None:
            self.spec["max_episode_steps"] = max_episode_steps
        self.params = {
            name: type(default)(value)
            for (name, default), value in zip(self.definition.defaults.items(), values, strict=True)
        }
        self.precision = precision
        self.seed = secrets.randbits(31) if seed is None else seed
        _seeds(self.seed, num_envs)
        pinned = torch.cuda.is_available() if pin_memory is None else pin_memory
        self.buffers = [self._allocate((), pinned) for _ in range(2)]
        self._set_buffers(*(self._slot(batch, batch) for batch in self.buffers))
        self._unseeded = True

    @property
    def agents(self) -> int:
        return self.spec["agents"]

    def reset(
        self,
        seed: int | Sequence[int] | None = None,
        mask: torch.Tensor | np.ndarray | None = None,
        into: "_native.Slot | None" = None,
    ) -> Batch:
        """Start new episodes, in the masked envs only where a mask is given. Without a seed the
        random numbers go on where they are."""
        if seed is None and self._unseeded and mask is None:
            seed = self.seed
        seeds = None if seed is None else _seeds(seed, self.num_envs)
        batch = self._reset(mask, seeds, into)
        self._unseeded = False
        return batch

    def slot(self, shown: Any = None, **arrays: torch.Tensor) -> _native.Slot:
        """Arrays of the caller's for send(actions, into=slot) to write a step into, by the names
        of Batch's fields; what is not given goes to the engine's own buffers. recv() returns
        `shown`, or else the arrays as a Batch."""
        unknown = [name for name in arrays if name not in Batch.__slots__]
        if unknown:
            raise ValueError(
                f"a slot has no array {unknown[0]!r}; it has: {', '.join(Batch.__slots__)}"
            )
        batch = Batch(**arrays)
        return self._slot(batch, batch if shown is None else shown)

    def storage(self, steps: int, pin_memory: bool = False) -> tuple[Batch, list[_native.Slot]]:
        """A rollout's memory, [steps, N, ...], and a slot for each of its steps."""
        steps = _whole("steps", steps, 1, 2**31 - 1)
        rollout = self._allocate((steps,), pin_memory)
        rows = [rollout.row(t) for t in range(steps)]
        return rollout, [self._slot(row, row) for row in rows]

    def state_dict(self) -> dict[str, Any]:
        """Everything the trajectories depend on: a loaded engine goes on bit for bit."""
        if not self.was_reset:
            raise _native.StateError("state_dict: the engine was not reset yet; call reset() first")
        identity = self._identity()
        return {
            "version": STATE_VERSION,
            "spec_hash": _hash(identity),
            "spec": json.dumps(identity),
            **{name: _as_tensor(array) for name, array in self._records().items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Batch:
        """Returns a batch whose observation is the one to act on next."""
        _check_state(state, self._identity())
        dtypes = {name: array.dtype for name, array in self._records().items()}
        self._load_records({name: state[name].numpy().view(dtypes[name]) for name in dtypes})
        self._unseeded = False
        return self._reset(torch.zeros(self.num_envs, dtype=torch.bool), None, None)

    def records(self) -> dict[str, np.ndarray]:
        """Copies of what the engine keeps for each env: its state's bytes, seed, episode, length
        and running return."""
        return self._records()

    def load_records(self, records: Mapping[str, np.ndarray]) -> None:
        self._load_records(dict(records))

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _identity(self) -> dict[str, Any]:
        return {
            "env": self.definition.key,
            "source": self.definition.digest,
            "num_envs": self.num_envs,
            "precision": self.precision,
            "params": self.params,
            **self.spec,
        }

    def _allocate(self, lead: tuple[int, ...], pinned: bool) -> Batch:
        observation = self.spec["observation"]
        n: tuple[int, ...] = (*lead, self.num_envs)
        each = (*n, self.agents) if self.agents > 1 else n
        seen = torch.uint8 if observation["dtype"] == "uint8" else self.dtype

        def zeros(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, pin_memory=pinned)

        return Batch(
            observation=zeros((*each, *observation["shape"]), seen),
            next_observation=zeros((*each, *observation["shape"]), seen),
            reward=zeros(each, self.dtype),
            terminated=zeros(n, torch.bool),
            truncated=zeros(n, torch.bool),
            done=zeros(n, torch.bool),
            episode_return=zeros(each, self.dtype),
            episode_length=zeros(n, torch.int32),
        )


def _whole(name: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be {low} to {high}, not {value}")
    return int(value)


def _check_memory(num_envs: int, spec: Mapping[str, Any], real_bytes: int) -> None:
    """Linux hands out more memory than there is and ends the process that touches it."""
    value = 1 if spec["observation"]["dtype"] == "uint8" else real_bytes
    observation = math.prod(spec["observation"]["shape"]) * value * spec["agents"]
    need, free = num_envs * (2 * 2 * observation + 64), free_host_memory()
    if need > free:
        raise MemoryError(
            f"num_envs={num_envs} of {spec['name']} need at least {in_words(need)}; "
            f"{in_words(free)} of memory are free"
        )


def _choice(name: str, value: object, choices: Mapping[str, Any]) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be {' or '.join(choices)}, not {value!r}")
    return choices[value]


def _seeds(seed: object, num_envs: int) -> np.ndarray:
    """One seed for all envs (their index tells them apart), or one for each."""
    if isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str):
        if len(seed) != num_envs:
            raise ValueError(f"seed has {len(seed)} values for {num_envs} envs")
        return np.array([_whole(f"seed[{i}]", s, 0, 2**64 - 1) for i, s in enumerate(seed)], "u8")
    return np.full(num_envs, _whole("seed", seed, 0, 2**64 - 1), "u8")


def _as_tensor(array: np.ndarray) -> torch.Tensor:
    signed = {"uint64": "int64", "uint32": "int32"}.get(array.dtype.name, array.dtype)
    return torch.from_numpy(array.view(signed))


def _hash(identity: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _check_state(state: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    if not {"version", "spec", "spec_hash"} <= set(state):
        raise ValueError("this is no engine's state: it lacks version, spec or spec_hash")
    if missing := [name for name in RECORDS if not isinstance(state.get(name), torch.Tensor)]:
        raise ValueError(f"this is no engine's state: {missing[0]} is not a tensor in it")
    if state["version"] != STATE_VERSION:
        raise ValueError(f"the state has version {state['version']}; this is {STATE_VERSION}")
    if state["spec_hash"] == _hash(identity):
        return
    saved, here = json.loads(state["spec"]), json.loads(json.dumps(identity))
    for name in here:
        if saved.get(name) != here[name]:
            raise ValueError(
                f"the state was saved with {name}={saved.get(name)!r}; "
                f"this engine has {name}={here[name]!r}"
            )
    raise ValueError("the state's spec_hash does not belong to its spec: it was altered")
