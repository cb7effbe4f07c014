"""The thread that acts, and what it shares with the learner's: chunks of steps and policies.

Who touches what: a chunk belongs to whoever took it out of a queue last; a copy of the policy
belongs to the learner unless `_acting` names it, and `_turn` guards that name.
"""

import queue
import threading
from dataclasses import dataclass, fields

import torch

from leanfast.envs.simulator import Simulator, Step
from leanfast.learners.policy import POLICY
from leanfast.pipelines.common import Training

CHUNKS = 2


@dataclass
class Chunk:
    """[steps, ...] of what `Step` has, and the actions taken."""

    step: Step
    action: torch.Tensor
    stored: "torch.cuda.Event | None" = None  # when the learner's device has read it

    def write(self, at: int, observation: torch.Tensor, action: torch.Tensor, step: Step) -> None:
        for field in fields(Step):
            getattr(self.step, field.name)[at].copy_(getattr(step, field.name))
        self.step.observation[at].copy_(observation)  # what was acted on, not what comes next
        self.action[at].copy_(action)


class Policies:
    """Two copies on the CPU: the actor uses the current one, the learner refreshes the other."""

    def __init__(self, training: Training):
        learner = training.learner
        self.state, policy = learner.state, learner.policy.for_another_thread()
        self.on_cuda = learner.device.type == "cuda"
        self.copies = [policy.copy_of(self.state) for _ in range(2)]
        if self.on_cuda:
            self.copies = [copy.pin_memory() for copy in self.copies]
        self.acts = [training.accelerate_on_cpu(policy.act, copy) for copy in self.copies]
        self.policy = policy
        self.current, self._acting, self._turn = 0, -1, threading.Lock()
        self._copied: torch.cuda.Event | None = None  # when the copy under way is there

    def act(self, observation: torch.Tensor, env_steps: int) -> torch.Tensor:
        with self._turn:
            self._acting = self.current
        copy = self.copies[self._acting]
        copy["env_steps"].fill_(env_steps)
        self.policy.advance(copy, 0)
        actions = self.acts[self._acting](observation)
        with self._turn:
            self._acting = -1
        return actions

    def refresh(self) -> None:
        """Takes the newest weights into the other copy, and swaps to it once they are there; never
        waits, and leaves it for the next time where it would have to."""
        other = 1 - self.current
        if self._copied is None:
            with self._turn:
                if self._acting == other:
                    return
            for name in POLICY:
                if name in self.copies[other].keys():  # noqa: SIM118
                    self.copies[other][name].copy_(self.state[name], non_blocking=True)
            if self.on_cuda:
                self._copied = torch.cuda.Event()
                self._copied.record()
        if self._copied is None or self._copied.query():
            self.current, self._copied = other, None


class Actor:
    def __init__(self, training: Training, envs: Simulator):
        self.config, self.envs, self.steps = training.config, envs, training.steps
        self.device = training.learner.device
        self.policies = Policies(training)
        self.refresh_policy = self.policies.refresh
        self._empty: queue.Queue[Chunk | None] = queue.Queue()
        self._full: queue.Queue[Chunk | BaseException] = queue.Queue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leanfast actor", daemon=True)

    def __enter__(self) -> "Actor":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._empty.put(None)
        self._thread.join()

    def chunk(self, wait: bool) -> Chunk | None:
        """The next full chunk. What ended the actor is raised here."""
        try:
            taken = self._full.get(block=wait)
        except queue.Empty:
            return None
        if isinstance(taken, BaseException):
            raise taken
        return taken

    def give_back(self, chunk: Chunk) -> None:
        if self.device.type == "cuda":
            chunk.stored = torch.cuda.Event()
            chunk.stored.record()
        self._empty.put(chunk)

    def _run(self) -> None:
        try:
            torch.set_num_threads(self.config.torch_threads)  # each thread has its own
            shown = self.envs.reset(self.config.seed)
            for _ in range(CHUNKS):
                self._empty.put(self._new_chunk(shown))
            env_steps = 0
            while (chunk := self._empty.get()) is not None:
                if chunk.stored is not None:
                    chunk.stored.synchronize()
                for at in range(self.steps):
                    if self._stop.is_set():
                        return
                    action = self.policies.act(shown.observation, env_steps)
                    observation = shown.observation
                    self.envs.send(action)
                    shown = self.envs.recv()
                    chunk.write(at, observation, action, shown)
                    env_steps += self.envs.num_envs
                self._full.put(chunk)
        except BaseException as error:
            self._full.put(error)

    def _new_chunk(self, like: Step) -> Chunk:
        pinned = self.device.type == "cuda"

        def room(tensor: torch.Tensor) -> torch.Tensor:
            return torch.zeros(self.steps, *tensor.shape, dtype=tensor.dtype, pin_memory=pinned)

        action = room(torch.zeros(self.envs.lanes, dtype=torch.int64))
        return Chunk(Step(**{f.name: room(getattr(like, f.name)) for f in fields(Step)}), action)
