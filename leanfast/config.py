"""The typed configuration: conf/ holds the values, this file what they are and must be."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from leanfast.errors import UsageError
from leanfast.typed import build

DEVICES = ("auto", "cpu", "cuda")
ALGORITHMS = ("dqn",)
LOSSES = ("huber", "mse")
OPTIMIZERS = ("adam", "adamw")
SCHEDULES = ("constant", "linear", "cosine")
NETWORKS = ("auto", "mlp", "cnn")
PRECISIONS = ("fp32", "bf16", "fp16")
PIPELINES = ("auto", "serial", "double_buffered", "vectorized")
MODES = ("auto", "eager", "compile", "cudagraph", "combined")
GRAPH_MODES = ("cudagraph", "combined")


@dataclass(frozen=True)
class Env:
    """A built-in environment by its name, a header of one's own as its source, or a Gymnasium
    environment by its id."""

    num_envs: int
    threads: int | None
    params: dict[str, Any]
    name: str | None = None
    source: str | None = None
    id: str | None = None
    vectorization: str | None = None
    action_bins: int | None = None
    solved_return: float | None = None

    @property
    def label(self) -> str:
        return self.name or self.source or self.id or ""


@dataclass(frozen=True)
class Epsilon:
    start: float
    end: float
    steps: int
    ladder: float | None
    hold: int = 1


@dataclass(frozen=True)
class Algo:
    name: str
    batch_size: int | Literal["auto"]
    accumulate: int
    optimizer: str
    weight_decay: float
    learning_rate: float
    learning_rate_end: float
    learning_rate_schedule: str
    discount: float
    n_step: int
    double: bool
    dueling: bool
    loss: str
    max_grad_norm: float | None
    reward_scale: float
    reward_clip: float | None
    normalize_observations: bool
    buffer_size: int
    learning_starts: int
    updates_per_step: float | None
    target_every: int
    tau: float
    epsilon: Epsilon


@dataclass(frozen=True)
class Network:
    type: str
    hidden: list[int]
    layer_norm: bool


@dataclass(frozen=True)
class Pipeline:
    name: str
    chunk: int = 1


@dataclass(frozen=True)
class Execution:
    mode: str
    steps_per_graph: int
    fallback: bool


@dataclass(frozen=True)
class Eval:
    every: int
    episodes: int
    max_steps: int


@dataclass(frozen=True)
class Log:
    every: int


@dataclass(frozen=True)
class Config:
    seed: int
    total_steps: int
    device: str
    precision: str
    torch_threads: int
    env: Env
    algo: Algo
    network: Network
    pipeline: Pipeline
    execution: Execution
    eval: Eval
    log: Log


def load(values: Mapping[str, Any]) -> Config:
    """The configuration that nested plain values describe, checked; a UsageError has one line for
    each thing that is wrong."""
    problems: list[str] = []
    config = build(Config, values, "", problems)
    if not problems:
        from leanfast.validation import validate

        problems = list(validate(config))
    if problems:
        raise UsageError("\n".join(problems))
    return config
