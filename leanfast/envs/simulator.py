"""What pipelines and evaluation step: many envs at once, whatever computes them.

    with simulator(config.env, num_envs=768, seed=1) as envs:
        step = envs.reset(seed=1)
        while True:
            envs.send(policy(step.observation))   # returns at once where the envs can
            ...                                   # they step meanwhile
            step = envs.recv()

A lane is one agent of one env, at env * agents + agent: the batch dimension of all that learns.
"""

import contextlib
import dataclasses
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from gymnasium.vector import AsyncVectorEnv

from leanfast import config, randomness
from leanfast.envs import choices
from leanfast.envs.checks import vectorized
from leanfast.envs.native import Batch, Engine
from leanfast.envs.registry import find
from leanfast.envs.wrapped import GymnasiumBatch
from leanfast.errors import UsageError

SEEDS = 2**31  # more than that not every Gymnasium environment takes
FOLD = 0x5EED  # the stream of random numbers that larger ones are folded with


@dataclass(frozen=True, slots=True, eq=False)  # frozen: the engine writes where these lie
class Step:
    """One step of every env, in CPU memory that may be the engine's own: it stays as it is until
    the second send() after it. No lane is both terminated and truncated."""

    observation: torch.Tensor  # [lanes, ...] what to act on next
    next_observation: torch.Tensor  # [lanes, ...] what the step truly led to
    reward: torch.Tensor  # float32 [lanes]
    terminated: torch.Tensor  # bool [lanes]
    truncated: torch.Tensor  # bool [lanes]
    done: torch.Tensor  # bool [num_envs]
    episode_return: torch.Tensor  # float32 [num_envs, agents], of the episode the step belongs to
    episode_length: torch.Tensor  # int32 [num_envs]


class Simulator(Protocol):
    num_envs: int
    agents: int
    lanes: int
    observation_shape: tuple[int, ...]
    observation_dtype: torch.dtype  # float32 or uint8
    actions: int  # choices per lane
    # Where truncation comes from the time limit alone, and always at that length; else None.
    episode_limit: int | None

    def reset(self, seed: int) -> Step: ...
    def send(self, actions: torch.Tensor) -> None:
        """int64 [lanes], 0 to actions - 1."""

    def recv(self) -> Step: ...
    def close(self) -> None: ...
    def __enter__(self) -> "Simulator": ...
    def __exit__(self, *exception: object) -> None: ...


def simulator(env: config.Env, num_envs: int, seed: int) -> Simulator:
    if env.id is None:
        return NativeSimulator(env, num_envs, seed)
    return GymnasiumSimulator(env, num_envs, seed)


def held_out(env: config.Env, episodes: int, seed: int) -> Simulator:
    """One env for each episode of an evaluation, in this process: a hundred would be a crowd."""
    if env.vectorization == "async":
        env = dataclasses.replace(env, vectorization="sync")
    return simulator(env, episodes, seed)


class Lanes(ABC):
    """How a batch of envs is laid out, and what its choices of action stand for."""

    def __init__(self, env: config.Env, num_envs: int, spec: dict[str, Any]):
        if problem := choices.problem(env.label, spec, env.action_bins):
            raise UsageError(problem)
        self.name = spec["name"]
        self.num_envs, self.agents = num_envs, spec["agents"]
        self.lanes = num_envs * self.agents
        self.observation_shape = tuple(spec["observation"]["shape"])
        bytes_ = spec["observation"]["dtype"] == "uint8"
        self.observation_dtype = torch.uint8 if bytes_ else torch.float32
        self._table: torch.Tensor | None = None
        action = spec["action"]
        if env.action_bins is not None:
            self._table = torch.from_numpy(choices.table(action, env.action_bins))
        self.actions: int = action if self._table is None else len(self._table)

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _taken(self, actions: torch.Tensor) -> torch.Tensor:
        """What the envs themselves take for the lanes' choices."""
        if actions.shape != (self.lanes,):
            raise self._refusal(actions)
        if self._table is not None:
            try:
                actions = self._table.index_select(0, actions)
            except (IndexError, RuntimeError):
                raise self._refusal(actions) from None
        return actions.unflatten(0, (self.num_envs, self.agents)) if self.agents > 1 else actions

    def _refusal(self, actions: torch.Tensor) -> ValueError:
        if actions.shape != (self.lanes,) or actions.dtype != torch.int64:
            return ValueError(
                f"actions are {actions.dtype} of shape {tuple(actions.shape)}; {self.name} takes "
                f"int64 of shape ({self.lanes},)"
            )
        if actions.device.type != "cpu":
            return ValueError(f"actions are on {actions.device}; the envs step on the CPU")
        lane = int(((actions < 0) | (actions >= self.actions)).nonzero()[0])
        return ValueError(
            f"actions[{lane}] is {actions[lane]}; {self.name} takes 0 to {self.actions - 1}"
        )


class NativeSimulator(Lanes):
    """The engine, whose two sets of buffers are shown as Steps: views, and next to no Python."""

    def __init__(self, env: config.Env, num_envs: int, seed: int):
        definition = find(env.label)
        super().__init__(env, num_envs, definition.spec(env.params))
        self.engine = Engine(
            definition, num_envs, threads=env.threads, seed=seed, params=env.params
        )
        limit = self.engine.spec["max_episode_steps"]
        self.episode_limit: int | None = limit if limit > 0 else None
        self._slots = []
        # Flags of envs, and where to write them out for each of their lanes.
        self._flags: list[list[tuple[torch.Tensor, torch.Tensor]]] = []
        for batch in self.engine.buffers:
            step, flags = self._views(batch)
            self._slots.append(self.engine.slot(shown=step, **dict(batch.items())))
            self._flags.append(flags)
        self._turn = 0

    def reset(self, seed: int) -> Step:
        turn = 1 - self._turn
        step: Any = self.engine.reset(seed, None, self._slots[turn])
        self._turn = turn
        return self._spread(step)

    def send(self, actions: torch.Tensor) -> None:
        if self._table is not None or self.agents > 1:
            actions = self._taken(actions)
        turn = 1 - self._turn
        self.engine.send(actions, self._slots[turn])
        self._turn = turn

    def recv(self) -> Step:
        return self._spread(self.engine.recv())

    def close(self) -> None:
        self.engine.close()

    def _spread(self, step: Step) -> Step:
        for envs, lanes in self._flags[self._turn]:
            lanes.copy_(envs)
        return step

    def _views(self, batch: Batch) -> tuple[Step, list[tuple[torch.Tensor, torch.Tensor]]]:
        n, agents = self.num_envs, self.agents
        if agents == 1:
            shared = {name: tensor for name, tensor in batch.items() if name != "episode_return"}
            return Step(**shared, episode_return=batch.episode_return.view(n, 1)), []
        pinned = torch.cuda.is_available()
        flags = {
            name: torch.zeros((n, agents), dtype=torch.bool, pin_memory=pinned)
            for name in ("terminated", "truncated")
        }
        step = Step(
            observation=batch.observation.flatten(0, 1),
            next_observation=batch.next_observation.flatten(0, 1),
            reward=batch.reward.flatten(),
            done=batch.done,
            episode_return=batch.episode_return,
            episode_length=batch.episode_length,
            **{name: flag.flatten() for name, flag in flags.items()},
        )
        return step, [(getattr(batch, name)[:, None], flag) for name, flag in flags.items()]


class GymnasiumSimulator(Lanes):
    """Any Gymnasium environment, by its id. Seeds are Gymnasium's, seed + i for env i, but for
    those that not every environment would take."""

    episode_limit: int | None = None

    def __init__(self, env: config.Env, num_envs: int, seed: int):
        made = vectorized(env, num_envs)
        try:
            self.batch = GymnasiumBatch(made, seed=folded(seed, num_envs))
            super().__init__(env, num_envs, self.batch.spec)
        except Exception:
            made.close()
            raise

    def reset(self, seed: int) -> Step:
        return _step(self.batch.reset(folded(seed, self.num_envs)))

    def send(self, actions: torch.Tensor) -> None:
        self.batch.send(self._taken(actions))

    def recv(self) -> Step:
        return _step(self.batch.recv())

    def close(self) -> None:
        env = self.batch.env.unwrapped
        # It waits in close() for what an interrupted step has had already, and so for ever.
        if isinstance(env, AsyncVectorEnv) and (self.batch.in_flight or not self.batch.was_reset):
            _end_processes(env)
        with contextlib.suppress(OSError, EOFError):  # a process that has ended by itself
            self.batch.close()
        if isinstance(env, AsyncVectorEnv):
            _end_processes(env)


def _step(batch: Batch) -> Step:
    return Step(
        **{name: tensor for name, tensor in batch.items() if name != "episode_return"},
        episode_return=batch.episode_return[:, None],
    )


def folded(seed: int, num_envs: int) -> int:
    if seed + num_envs <= SEEDS:
        return seed
    return randomness.key(seed, FOLD) % (SEEDS - num_envs)


def _end_processes(env: AsyncVectorEnv) -> None:
    try:
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            env.close(terminate=True)
    finally:
        env.closed = True
        for process in env.processes:
            process.terminate()
            process.join()
