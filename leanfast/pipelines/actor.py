"""The thread that acts, and what it shares with the learner's: chunks of steps and policies.

Who touches what: a chunk belongs to whoever took it out of a queue last; a copy of the policy
belongs to the learner unless `_acting` names it, and `_turn` guards that name. The actor's thread
makes no CUDA call, which could break a capture by the learner's: that one waits for the device.
"""

import queue
import threading
from collections.abc import Iterator
from dataclasses import fields

import torch
from tensordict import TensorDict

from leanfast.envs.simulator import Simulator, Step
from leanfast.learners.policy import POLICY
from leanfast.pipelines.common import Training, outcome

CHUNKS = 2
OWN = ("env_steps", "epsilon", "exploring_key")  # the actor's, of what Policy.act() reads
RESULT = tuple(field.name for field in fields(Step) if field.name != "observation")


class Chunk:
    """`step` is [steps, ...] of what Step has, but its observations are those acted on."""

    def __init__(self, steps: int, like: Step, lanes: int, pinned: bool):
        def room(tensor: torch.Tensor) -> torch.Tensor:
            return torch.zeros(steps, *tensor.shape, dtype=tensor.dtype, pin_memory=pinned)

        self.step = Step(**{field.name: room(getattr(like, field.name)) for field in fields(Step)})
        self.action = room(torch.zeros(lanes, dtype=torch.int64))

    def rows(self) -> Iterator[tuple[torch.Tensor, ...]]:
        """Room for each step: its observation, action and RESULT."""
        result = [getattr(self.step, name) for name in RESULT]
        parts = (self.step.observation, self.action, *result)
        return zip(*(part.unbind(0) for part in parts), strict=True)

    def on(self, device: torch.device) -> list[torch.Tensor]:
        """The fields of the transitions; on the CPU they are the chunk's own memory."""
        acted = [x.to(device, non_blocking=True) for x in (self.step.observation, self.action)]
        transitions = [*acted, *outcome(self.step, device)]
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()
        return transitions


class Policies:
    """Two copies on the CPU: the actor uses the current one, the learner refreshes the other."""

    def __init__(self, training: Training, num_envs: int):
        learner = training.learner
        policy, on_cuda = learner.policy.for_another_thread(), learner.device.type == "cuda"
        if policy.dtype is torch.float16:
            policy.dtype = None  # which CPUs only emulate
        names = [name for name in POLICY if name in learner.state.keys()]  # noqa: SIM118
        self.newest = [learner.state[name] for name in names]
        self.copies = [[x.cpu().clone() for x in self.newest] for _ in range(2)]
        if on_cuda:
            self.copies = [[x.pin_memory() for x in copy] for copy in self.copies]
        self.current, self._acting, self._turn = 0, -1, threading.Lock()
        self._there = torch.cuda.Event() if on_cuda else None
        self._under_way = False

        def act(own: TensorDict, observation: torch.Tensor, *copy: torch.Tensor) -> torch.Tensor:
            """Counts env steps for itself: the actor is ahead of the learner."""
            state = {name: own[name] for name in OWN} | dict(zip(names, copy, strict=True))
            actions = policy.act(state, observation)
            policy.advance(own, num_envs)
            return actions

        own = TensorDict({name: learner.state[name].cpu().clone() for name in OWN})
        self._act = training.accelerate_on_cpu(act, own)

    def act(self, observation: torch.Tensor) -> torch.Tensor:
        with self._turn:
            self._acting = self.current
        try:
            return self._act(observation, *self.copies[self._acting])
        finally:
            with self._turn:
                self._acting = -1

    def refresh(self) -> None:
        """Takes the newest weights into the other copy, and swaps to it once they are there. Never
        waits: leaves it for the next time where it would have to."""
        if not self._under_way:
            with self._turn:
                if self._acting == 1 - self.current:
                    return
            for copy, newest in zip(self.copies[1 - self.current], self.newest, strict=True):
                copy.copy_(newest, non_blocking=True)
            self._under_way = True
            if self._there:
                self._there.record()
        if not self._there or self._there.query():
            self._swap()

    def settle(self) -> None:
        """Waits for the copy that is under way."""
        if self._under_way:
            if self._there:
                self._there.synchronize()
            self._swap()

    def _swap(self) -> None:
        self._under_way = False
        with self._turn:
            self.current = 1 - self.current


class Actor:
    def __init__(self, training: Training, envs: Simulator):
        self.config, self.envs, self.steps = training.config, envs, training.steps
        self.policies = Policies(training, envs.num_envs)
        self.refresh_policy = self.policies.refresh
        self._shown = envs.reset(self.config.seed)
        pinned = training.learner.device.type == "cuda"
        self._empty: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        for _ in range(CHUNKS):
            self._empty.put(Chunk(self.steps, self._shown, envs.lanes, pinned))
        self._full: queue.SimpleQueue[Chunk | BaseException] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leanfast actor", daemon=True)

    def __enter__(self) -> "Actor":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._empty.put(None)
        self._thread.join()

    def next_chunk(self) -> Chunk:
        """Waits for it. What ended the actor is raised here."""
        self.policies.settle()
        taken = self._full.get()
        if isinstance(taken, BaseException):
            raise taken
        return taken

    def until_the_next_chunk(self) -> Iterator[None]:
        while self._full.empty():
            yield

    def give_back(self, chunk: Chunk) -> None:
        self._empty.put(chunk)

    def _run(self) -> None:
        try:
            torch.set_num_threads(self.config.torch_threads)  # each thread has its own
            shown = self._shown
            while (chunk := self._empty.get()) is not None:
                for observation, action, *result in chunk.rows():
                    if self._stop.is_set():
                        return
                    observation.copy_(shown.observation)
                    action.copy_(self.policies.act(shown.observation))
                    self.envs.send(action)
                    shown = self.envs.recv()
                    for room, name in zip(result, RESULT, strict=True):
                        room.copy_(getattr(shown, name))
                self._full.put(chunk)
        except BaseException as error:
            self._full.put(error)
