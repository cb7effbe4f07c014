"""Who is measured by `leanfast bench update`: leanfast in its modes, and others' ways, all with the
same network, weights, batches and settings.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer

from leanfast.bench.configured import synchronize
from leanfast.bench.peers import LeanRL, Plain, load_flat, plain_network
from leanfast.config import Config
from leanfast.envs.simulator import simulator
from leanfast.execution import accelerate
from leanfast.learners.dqn import DQN
from leanfast.pipelines.common import learning
from leanfast.replay.ring import Ring
from leanfast.run import learner_for, ring_for

BATCHES = 16
UNROLLED = 8
OURS, LEANRL = "leanfast", "LeanRL's way"


@dataclass
class Contender:
    who: str
    mode: str
    call: Callable[[int], Any]  # the t-th call
    weights: Callable[[], torch.Tensor]
    updates: int = 1  # in each call
    first_calls_s: float = 0.0

    def run(self, device: str, calls: int) -> None:
        for turn in range(calls):
            self.call(turn)
        synchronize(device)


def line_up(
    config: Config, size: int, modes: list[str], device: str, peers: bool
) -> tuple[list[Contender], list[Contender]]:
    """Those that are given their batches, and those that draw them; all with the same weights."""
    with simulator(config.env, config.env.num_envs, config.seed) as envs:
        ring = ring_for(config, envs, envs.lanes)
        lanes, observation, actions = envs.lanes, envs.observation_shape[0], envs.actions

        def learner() -> DQN:
            return learner_for(config, envs, device)

        # Each has its own learner: the function that is compiled belongs to it.
        ours = [(mode, n) for mode in modes for n in (1, UNROLLED) if n == 1 or mode != "eager"]
        learners = [(learner(), learner()) for _ in ours]
        weights = learner().state["params"]
    rows = made_up(ring.steps, lanes, observation, actions).to(device)
    flat = rows.reshape(-1).to_tensordict()
    flat["discount"] = torch.full((len(flat),), config.algo.discount, device=device)
    batches = [flat[torch.randint(len(flat), (size,), generator=_of(i))] for i in range(BATCHES)]
    every = config.algo.target_every * (config.algo.updates_per_step or 1)
    given, sampled = [], []
    if peers:
        network = load_flat(plain_network(observation, config.network.hidden, actions), weights)
        network = network.to(device)
        rate, discount = config.algo.learning_rate, config.algo.discount
        made: list[tuple[str, str, Plain]] = [
            ("nn.Module, torch.optim.Adam", "eager", Plain(network, rate, discount)),
            ("the same, Adam fused", "eager", Plain(network, rate, discount, fused=True)),
        ]
        made += [(LEANRL, mode, LeanRL(network, rate, discount, mode)) for mode in modes]
        for who, mode, peer in made:
            draw = _drawn_by_leanrl(flat, size) if isinstance(peer, LeanRL) else _drawn(flat, size)
            given.append(_peer(who, mode, peer, lambda t: batches[t % BATCHES], round(every)))
            sampled.append(_peer(who, mode, peer, draw, round(every)))
    steps = round(config.algo.target_every / every)
    for (mode, times), (one, other) in zip(ours, learners, strict=True):
        given.append(_given(one, mode, batches, times, steps))
        sampled.append(_sampled(other, ring, rows, size, mode, times))
    return given, sampled


def _peer(
    who: str, mode: str, peer: Plain, batch: Callable[[int], TensorDict], every: int
) -> Contender:
    done = 0

    def call(turn: int) -> None:
        nonlocal done
        peer.update(batch(turn))
        done += 1
        if done % every == 0:
            peer.follow()

    return Contender(who, mode, call, peer.weights)


def _given(learner: DQN, mode: str, batches: list[TensorDict], times: int, steps: int) -> Contender:
    def updates(state: TensorDict, batches: TensorDict) -> TensorDict:
        for index in range(times):
            state["env_steps"].add_(steps)
            batch = {name: tensor[index] for name, tensor in batches.items()}
            metrics = learner.update(state, TensorDict(batch, batches.batch_size[1:]))
        return metrics

    update = accelerate(updates, mode, learner.state)
    groups = [torch.stack(batches[i : i + times]) for i in range(0, len(batches), times)]
    return Contender(
        OURS,
        mode,
        lambda turn: update(groups[turn % len(groups)]),
        lambda: learner.state["params"].cpu(),
        times,
    )


def _sampled(
    learner: DQN, ring: Ring, rows: TensorDict, size: int, mode: str, times: int
) -> Contender:
    replay = ring.allocate(rows.device)
    ring.extend(replay, rows)
    learn = accelerate(learning(learner, ring, size, times), mode, learner.state, replay)
    return Contender(OURS, mode, lambda _: learn(), lambda: learner.state["params"], times)


def _drawn(rows: TensorDict, size: int) -> Callable[[int], TensorDict]:
    """The least that it takes: an index into tensors."""
    count, device = len(rows), rows.device
    return lambda turn: rows[torch.randint(count, (size,), device=device)]


def _drawn_by_leanrl(rows: TensorDict, size: int) -> Callable[[int], TensorDict]:
    logging.getLogger("torchrl").setLevel(logging.WARNING)  # it says what it allocated
    buffer = ReplayBuffer(storage=LazyTensorStorage(len(rows), device=rows.device))
    buffer.extend(rows)
    return lambda turn: buffer.sample(size)


def made_up(steps: int, lanes: int, observation: int, actions: int) -> TensorDict:
    """[steps, lanes] of transitions such as a pipeline stores."""
    source, shape = _of(0), (steps, lanes)
    shown = torch.randn(steps + 1, lanes, observation, generator=source)
    return TensorDict(
        {
            "observation": shown[:-1],
            "action": torch.randint(actions, shape, generator=source),
            "next_observation": shown[1:],
            "reward": torch.ones(shape),
            "terminated": torch.rand(shape, generator=source) < 0.02,
            "truncated": torch.zeros(shape, dtype=torch.bool),
        },
        shape,
    )


def _of(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
