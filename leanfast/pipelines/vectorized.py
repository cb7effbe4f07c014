"""All envs step in the native engine, on its own threads, while the learner trains.

The engine writes one of its two buffers; the other one still holds what the envs showed before.
"""

from collections.abc import Callable
from fractions import Fraction

import torch
from tensordict import TensorDict

from leanfast.config import Config
from leanfast.envs.native import Engine
from leanfast.evaluation import Evaluation
from leanfast.execution import accelerate
from leanfast.learners.dqn import DQN
from leanfast.replay import ring
from leanfast.telemetry.journal import Journal


def train(
    config: Config,
    engine: Engine,
    learner: DQN,
    journal: Journal,
    greedy: Callable[[], Evaluation],
    mode: str,
) -> None:
    device, state, algo = learner.state["params"].device, learner.state, config.algo
    observation = engine.reset(seed=config.seed).observation
    replay = ring.allocate(algo.buffer_size, _row(observation, device))
    credit = Credit(algo.updates_per_step, algo.learning_starts, config.execution.steps_per_graph)
    act, store = accelerate(learner.act, mode), accelerate(_store, mode)
    learn = accelerate(_learning(learner, algo.batch_size, credit.updates_at_a_time), mode)
    to_evaluate, to_log = Every(config.eval.every), Every(config.log.every)

    while journal.env_steps < config.total_steps:
        seen = observation.to(device, non_blocking=True)
        actions = act(state, seen)
        engine.send(actions.cpu())
        for _ in range(credit.due(journal.env_steps)):
            metrics = learn(state, replay)
            journal.learned(credit.updates_at_a_time, metrics)
        batch = engine.recv()
        reached = [batch.next_observation, batch.reward, batch.terminated]
        store(replay, seen, actions, *(x.to(device, non_blocking=True) for x in reached))
        observation = batch.observation
        journal.stepped(batch)
        if to_evaluate.due(journal.env_steps):
            journal.evaluate(greedy)
        if to_log.due(journal.env_steps) or journal.env_steps >= config.total_steps:
            journal.write(state)


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
    paid `updates_at_a_time`."""

    def __init__(self, ratio: float, start: int, updates_at_a_time: int):
        exact = Fraction(str(ratio)) / updates_at_a_time
        self.numerator, self.denominator = exact.numerator, exact.denominator
        self.start, self.updates_at_a_time, self.paid = start, updates_at_a_time, 0

    def due(self, env_steps: int) -> int:
        """How many times to update now, `updates_at_a_time` each; counts them as paid."""
        due = max(0, (env_steps - self.start) * self.numerator // self.denominator - self.paid)
        self.paid += due
        return due


def _learning(
    learner: DQN, batch_size: int, times: int
) -> Callable[[TensorDict, TensorDict], TensorDict]:
    def learn(state: TensorDict, replay: TensorDict) -> TensorDict:
        for _ in range(times):
            batch = ring.sample(replay, batch_size, state["sampling_key"], state["updates"])
            metrics = learner.update(state, batch)
        return metrics

    return learn


def _row(observation: torch.Tensor, device: torch.device) -> TensorDict:
    one = observation[0].to(device)
    return TensorDict(
        {
            "observation": one,
            "action": torch.zeros((), dtype=torch.int64, device=device),
            "next_observation": one,
            "reward": torch.zeros((), dtype=torch.float32, device=device),
            "terminated": torch.zeros((), dtype=torch.bool, device=device),
        },
        device=device,
    )


def _store(
    replay: TensorDict,
    observation: torch.Tensor,
    action: torch.Tensor,
    next_observation: torch.Tensor,
    reward: torch.Tensor,
    terminated: torch.Tensor,
) -> None:
    rows = {
        "observation": observation,
        "action": action,
        "next_observation": next_observation,
        "reward": reward,
        "terminated": terminated,
    }
    ring.extend(replay, TensorDict(rows, [len(action)]))
