"""What every pipeline shares: the functions that it accelerates, when things are due, and what is
said and checked on the way."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import torch
from tensordict import TensorDict

from leanfast.config import Config
from leanfast.envs.simulator import Step
from leanfast.errors import RunError
from leanfast.evaluation import Evaluation
from leanfast.execution import Accelerated, accelerate
from leanfast.learners.dqn import DQN
from leanfast.learners.faults import NEVER
from leanfast.replay.ring import Ring
from leanfast.telemetry.faults import leave_on_disk
from leanfast.telemetry.journal import Journal

# A graph of CUDA's has no place on the CPU.
ON_CPU = {"eager": "eager", "cudagraph": "eager", "compile": "compile", "combined": "compile"}


class Every:
    """Due at each multiple of `interval` that was reached or passed; 0: never."""

    def __init__(self, interval: int):
        self.interval, self.next = interval, interval

    def due(self, now: int) -> bool:
        if not self.interval or now < self.next:
            return False
        self.next = now - now % self.interval + self.interval
        return True


class Credit:
    """Updates owed for env steps: `ratio` for each after the first `start`, counted exactly and
    paid `updates_at_a_time`; what is less is owed on, also at the end of a run."""

    def __init__(self, ratio: float, start: int, updates_at_a_time: int):
        exact = Fraction(str(ratio)) / updates_at_a_time
        self.numerator, self.denominator = exact.numerator, exact.denominator
        self.start, self.updates_at_a_time, self.paid = start, updates_at_a_time, 0

    def due(self, env_steps: int) -> int:
        """How many times to update by then, `updates_at_a_time` each; counts them as paid."""
        due = max(0, (env_steps - self.start) * self.numerator // self.denominator - self.paid)
        self.paid += due
        return due


@dataclass
class Training:
    """One run: its parts, made for each other by leanfast.run."""

    config: Config
    mode: str
    learner: DQN
    ring: Ring
    replay: TensorDict
    batch_size: int
    journal: Journal
    greedy: Callable[[], Evaluation]
    folder: Path
    steps: int = 1  # of the envs that are stored at a time

    def __post_init__(self) -> None:
        state = self.learner.state
        home = self.replay["cursor"].device
        draw = (state["sampling_key"].to(home), state["updates"].to(home))
        self.learner.watch("rows", self._rows_like())
        self.learner.watch("batch", self.ring.sample(self.replay, self.batch_size, *draw))
        self._to_evaluate = Every(self.config.eval.every)
        self._to_log = Every(self.config.log.every)
        self._accelerated: list[Accelerated] = []

    @property
    def env_steps(self) -> int:
        return self.journal.env_steps

    @property
    def goes_on(self) -> bool:
        return self.env_steps < self.config.total_steps

    @property
    def starts(self) -> int:
        """The env steps after which updates begin; before, no n-step return is complete."""
        complete = self.config.algo.n_step * self.ring.lanes // self.learner.agents
        return max(self.config.algo.learning_starts, complete)

    def credit(self) -> Credit:
        """For algo.updates_per_step; where it is null, nothing is ever owed."""
        ratio = self.config.algo.updates_per_step or 0
        return Credit(ratio, self.starts, self.config.execution.steps_per_graph)

    def accelerate(self, fn: Callable, *static: TensorDict) -> Accelerated:
        return self._in(self.mode, fn, *static)

    def accelerate_on_cpu(self, fn: Callable, *static: TensorDict) -> Accelerated:
        """For what stays on the CPU whatever the learner's device."""
        return self._in(ON_CPU[self.mode], fn, *static)

    def _in(self, mode: str, fn: Callable, *static: TensorDict) -> Accelerated:
        made = accelerate(fn, mode, *static)
        self._accelerated.append(made)
        return made

    def act(self) -> Accelerated:
        """actions = act(observation)"""
        return self.accelerate(self.learner.act, self.learner.state)

    def store(self) -> Accelerated:
        """store(*fields), in the order of FIELDS, each [lanes, ...] or [steps, lanes, ...]"""
        return self.accelerate(storing(self.learner, self.ring), self.learner.state, self.replay)

    def learn(self) -> Accelerated:
        """metrics = learn(): execution.steps_per_graph updates"""
        times = self.config.execution.steps_per_graph
        self._learn = self.accelerate(
            learning(self.learner, self.ring, self.batch_size, times),
            self.learner.state,
            self.replay,
        )
        return self._learn

    def parts(self) -> tuple[Accelerated, ...]:
        """What store and learn are made of where the replay stays on the host: observe(*fields) and
        metrics = update(batch) on the learner's device; remember(*fields) and batch = draw(counter)
        on the host."""
        learner, ring, state = self.learner, self.ring, self.learner.state
        key = state["sampling_key"].cpu()

        def observe(state: TensorDict, *fields: torch.Tensor) -> None:
            learner.observe(state, rows_of(ring, *fields))

        def remember(replay: TensorDict, *fields: torch.Tensor) -> None:
            ring.extend(replay, learner.remembered(rows_of(ring, *fields)))

        def draw(replay: TensorDict, counter: torch.Tensor) -> TensorDict:
            return ring.sample(replay, self.batch_size, key, counter)

        self._learn = self.accelerate(learner.update, state)
        return (
            self.accelerate(observe, state),
            self._learn,
            self.accelerate_on_cpu(remember, self.replay),
            self.accelerate_on_cpu(draw, self.replay),
        )

    def learned(self, metrics: TensorDict) -> None:
        times = self.config.execution.steps_per_graph
        self.journal.learned(times, metrics, started=self._learn.settled)

    def stepped(self, step: Step) -> None:
        """Counts a step of the envs, or a chunk of them."""
        self.journal.stepped(step)

    def report(self) -> None:
        """Evaluates and writes a row where that is due, once the updates for all that was counted
        are made. A number that is not finite then ends the run."""
        now, last = self.env_steps, not self.goes_on
        to_log, to_evaluate = self._to_log.due(now) or last, self._to_evaluate.due(now)
        if not (to_log or to_evaluate):
            return
        fault = self._fault()
        if to_evaluate and not fault:
            self.journal.evaluate(self.greedy)
        if to_log or fault:
            self.journal.write(self.learner.state)
        if fault:
            raise fault

    def _fault(self) -> RunError | None:
        """Waits for the device."""
        for name in ("faulty_rows", "faulty_batch"):
            fault = self.learner.state[name]
            if int(fault["env_steps"]) != NEVER:
                return leave_on_disk(self.folder, name, fault, self.config.seed)
        return None

    def _rows_like(self) -> TensorDict:
        steps, lanes, device = self.steps, self.ring.lanes, self.learner.device
        seen = self.ring.observation_shape, self.ring.observation_dtype
        flag, number = ((), torch.bool), ((), torch.float32)
        kinds = (seen, ((), torch.int64), seen, number, flag, flag)
        rows = {
            name: torch.zeros(steps, lanes, *shape, dtype=dtype, device=device)
            for name, (shape, dtype) in zip(FIELDS, kinds, strict=True)
            if dtype != torch.uint8  # planes are always finite, and large
        }
        return TensorDict(rows, [steps, lanes])

    @property
    def compile_s(self) -> float:
        return sum(each.compile_s for each in self._accelerated)

    @property
    def capture_s(self) -> float:
        return sum(each.capture_s for each in self._accelerated)


FIELDS = ("observation", "action", "next_observation", "reward", "terminated", "truncated")


def storing(learner: DQN, ring: Ring) -> Callable[..., None]:
    def store(state: TensorDict, replay: TensorDict, *fields: torch.Tensor) -> None:
        rows = rows_of(ring, *fields)
        learner.observe(state, rows)
        ring.extend(replay, learner.remembered(rows))

    return store


def learning(
    learner: DQN, ring: Ring, batch_size: int, times: int
) -> Callable[[TensorDict, TensorDict], TensorDict]:
    def learn(state: TensorDict, replay: TensorDict) -> TensorDict:
        for _ in range(times):
            batch = ring.sample(replay, batch_size, state["sampling_key"], state["updates"])
            metrics = learner.update(state, batch)
        return metrics

    return learn


def rows_of(ring: Ring, *fields: torch.Tensor) -> TensorDict:
    """[steps, lanes] of transitions."""
    tails = {"observation": ring.observation_shape, "next_observation": ring.observation_shape}
    rows = {
        name: field.reshape(-1, ring.lanes, *tails.get(name, ()))
        for name, field in zip(FIELDS, fields, strict=True)
    }
    return TensorDict(rows, rows["reward"].shape)


def outcome(step: Step, device: torch.device) -> list[torch.Tensor]:
    """The fields of a transition that are known after the step, on the learner's device."""
    fields = (step.next_observation, step.reward, step.terminated, step.truncated)
    return [field.to(device, non_blocking=True) for field in fields]
