"""A Training of any pipeline from a small configuration, and envs that show what happens."""

import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from leanfast.arithmetic import arithmetic
from leanfast.config import Config, load
from leanfast.envs.simulator import held_out
from leanfast.evaluation import Evaluation
from leanfast.pipelines import PIPELINES
from leanfast.pipelines.common import Training
from leanfast.run import training_for
from leanfast.telemetry.journal import Journal

VALUES = {
    "seed": 1,
    "total_steps": 800,
    "device": "cpu",
    "precision": "fp32",
    "torch_threads": 1,
    "env": {"name": "cartpole", "num_envs": 8, "threads": 1, "params": {}},
    "algo": {
        "name": "dqn",
        "batch_size": 32,
        "accumulate": 1,
        "optimizer": "adam",
        "weight_decay": 0.0,
        "learning_rate": 1e-3,
        "learning_rate_end": 1e-4,
        "learning_rate_schedule": "linear",
        "discount": 0.99,
        "n_step": 1,
        "double": True,
        "dueling": False,
        "loss": "mse",
        "max_grad_norm": 10.0,
        "reward_scale": 1.0,
        "reward_clip": None,
        "normalize_observations": False,
        "buffer_size": 400,
        "learning_starts": 100,
        "updates_per_step": 0.1,
        "target_every": 100,
        "tau": 1.0,
        "epsilon": {"start": 1.0, "end": 0.1, "steps": 500, "ladder": None},
    },
    "network": {"type": "mlp", "hidden": [16], "layer_norm": False},
    "pipeline": {"name": "vectorized"},
    "execution": {"mode": "eager", "steps_per_graph": 1, "fallback": False},
    "eval": {"every": 0, "episodes": 4, "max_steps": 1000},
    "log": {"every": 500},
}
CHUNK = 4


def config(**changes) -> Config:
    """env__num_envs=4 is env.num_envs=4; pipeline="serial" its name."""
    values = copy.deepcopy(VALUES)
    if name := changes.pop("pipeline", None):
        values["pipeline"] = {"name": name, "chunk": CHUNK if name == "double_buffered" else 1}
    for path, value in changes.items():
        *groups, name = path.split("__")
        at = values
        for group in groups:
            at = at[group]
        at[name] = value
    return load(values)


@contextmanager
def training_of(folder: Path, chosen: Config, mode: str = "eager") -> Iterator[Training]:
    pipeline = PIPELINES[chosen.pipeline.name]
    journal = Journal(chosen, folder, time.perf_counter())
    try:
        with (
            arithmetic(chosen.torch_threads),
            held_out(chosen.env, chosen.eval.episodes, chosen.seed) as others,
        ):
            yield training_for(chosen, chosen.device, mode, pipeline, others, journal, folder)
    finally:
        journal.finish("finished", {})


def train(folder: Path, mode: str = "eager", wrap=lambda envs: envs, prepare=None, **changes):
    """The Training after its pipeline is through; `wrap` stands around the envs, and `prepare` is
    called with the Training before."""
    chosen = config(**changes)
    pipeline = PIPELINES[chosen.pipeline.name]
    with training_of(folder, chosen, mode) as training, pipeline.envs(chosen) as envs:
        if prepare:
            prepare(training)
        pipeline.train(training, wrap(envs))
    return training


def no_evaluation() -> Evaluation:
    return Evaluation(0.0, 0.0, 0.0, 0.0, 0.0, [0.0], 1, 0)


class Watched:
    """A Simulator that calls `before_recv(number)` in each recv(), by its number."""

    def __init__(self, envs, before_recv):
        self.envs, self.before_recv, self.received = envs, before_recv, 0

    def __getattr__(self, name):
        return getattr(self.envs, name)

    def recv(self):
        self.before_recv(self.received)
        self.received += 1
        return self.envs.recv()


def differences(one: Training, other: Training) -> list[str]:
    """The names in the learners' states that are not the same bit for bit."""
    states = [each.learner.state.flatten_keys(".") for each in (one, other)]
    assert set(states[0].keys()) == set(states[1].keys())
    return [name for name, x in states[0].items() if not torch.equal(x, states[1][name])]
