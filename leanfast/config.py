"""The typed configuration: conf/ holds the values, this file what they are and must be."""

import math
from collections.abc import Iterator, Mapping
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
PIPELINES = ("auto", "vectorized")
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
        problems = list(validate(config))
    if problems:
        raise UsageError("\n".join(problems))
    return config


def validate(config: Config) -> Iterator[str]:
    """One sentence for each value that cannot be, or cannot be beside another."""
    algo, env = config.algo, config.env
    yield from _choices(config)
    yield from _ranges(config)
    yield from _buffer(config)
    if 0 < config.total_steps <= algo.learning_starts:
        yield (
            f"algo.learning_starts is {algo.learning_starts}, so nothing is learned before "
            f"total_steps={config.total_steps}"
        )
    yield from _environment(env)


def _buffer(config: Config) -> Iterator[str]:
    algo, env = config.algo, config.env
    size = f"algo.buffer_size={algo.buffer_size}"
    if algo.batch_size != "auto":
        if algo.batch_size > algo.buffer_size:
            yield f"algo.batch_size is {algo.batch_size}, more than {size}"
        if algo.accumulate > 0 and algo.batch_size % algo.accumulate:
            yield (
                f"algo.batch_size is {algo.batch_size}, which algo.accumulate={algo.accumulate} "
                "does not divide"
            )
    if env.num_envs > algo.buffer_size:
        yield (
            f"env.num_envs is {env.num_envs}, more than {size} transitions, which must hold a "
            "step of every env"
        )
    elif env.num_envs > 0 and algo.n_step > algo.buffer_size // env.num_envs - 1:
        yield (
            f"algo.n_step is {algo.n_step}, but {size} keeps "
            f"{algo.buffer_size // env.num_envs} steps of each of {env.num_envs} envs; it must "
            "keep more than algo.n_step"
        )


def _choices(config: Config) -> Iterator[str]:
    for name, value, valid in (
        ("device", config.device, DEVICES),
        ("algo.name", config.algo.name, ALGORITHMS),
        ("precision", config.precision, PRECISIONS),
        ("algo.loss", config.algo.loss, LOSSES),
        ("algo.optimizer", config.algo.optimizer, OPTIMIZERS),
        ("algo.learning_rate_schedule", config.algo.learning_rate_schedule, SCHEDULES),
        ("network.type", config.network.type, NETWORKS),
        ("pipeline.name", config.pipeline.name, PIPELINES),
    ):
        if value not in valid:
            yield f"{name} is {value!r}; it must be {' or '.join(valid)}"
    execution = config.execution
    if problem := execution_problem(execution.mode, execution.fallback, config.device):
        yield problem
    if config.precision == "fp16" and config.device == "cpu":
        yield "precision is 'fp16', which needs a CUDA device; on the CPU it can be fp32 or bf16"
    if config.device == "cuda" and (problem := _no_cuda()):
        yield f"device is 'cuda', but {problem}; device=cpu runs everywhere"


def execution_problem(mode: str, fallback: bool = False, device: str = "auto") -> str | None:
    """Why execution.mode cannot be `mode` here, if it cannot."""
    if mode not in MODES:
        return f"execution.mode is {mode!r}; it must be {', '.join(MODES)}"
    if mode not in GRAPH_MODES or fallback:
        return None
    why = "device is cpu" if device == "cpu" else _no_cuda()
    return why and (
        f"execution.mode is {mode!r}, which needs a CUDA device, and {why}; execution=auto takes "
        "the fastest that runs here, execution.fallback=true falls back to it"
    )


def _ranges(config: Config) -> Iterator[str]:
    algo, env = config.algo, config.env
    largest = 2**31
    for name, value, low, high in (
        ("seed", config.seed, 0, 2**32 - 1),
        ("total_steps", config.total_steps, 1, 2**62),
        ("torch_threads", config.torch_threads, 1, 4096),
        ("env.num_envs", env.num_envs, 1, largest - 64),
        ("env.threads", 1 if env.threads is None else env.threads, 1, 4096),
        ("algo.batch_size", 1 if algo.batch_size == "auto" else algo.batch_size, 1, largest),
        ("algo.accumulate", algo.accumulate, 1, 4096),
        ("algo.weight_decay", algo.weight_decay, 0, 1),
        ("algo.n_step", algo.n_step, 1, 1000),
        ("algo.learning_rate_end", algo.learning_rate_end, 0, 1),
        ("algo.discount", algo.discount, 0, 1),
        ("algo.buffer_size", algo.buffer_size, 1, largest),
        ("algo.learning_starts", algo.learning_starts, 0, 2**62),
        ("algo.target_every", algo.target_every, 0, 2**62),
        ("algo.epsilon.start", algo.epsilon.start, 0, 1),
        ("algo.epsilon.end", algo.epsilon.end, 0, 1),
        ("algo.epsilon.steps", algo.epsilon.steps, 1, 2**62),
        *((f"network.hidden[{i}]", size, 1, 65536) for i, size in enumerate(config.network.hidden)),
        ("pipeline.chunk", config.pipeline.chunk, 1, 2**20),
        ("execution.steps_per_graph", config.execution.steps_per_graph, 1, 64),
        ("eval.every", config.eval.every, 0, 2**62),
        ("eval.episodes", config.eval.episodes, 1, largest - 64),
        ("eval.max_steps", config.eval.max_steps, 1, 2**62),
        ("log.every", config.log.every, 1, 2**62),
    ):
        if not low <= value <= high:
            limit = f"at least {low}" if high == 2**62 else f"{low} to {high}"
            yield f"{name} is {value}; it must be {limit}"
    updates = algo.updates_per_step
    for name, number, top in (
        ("algo.learning_rate", algo.learning_rate, 1),
        ("algo.updates_per_step", updates, 1000),
        ("algo.tau", algo.tau, 1),
        ("algo.max_grad_norm", algo.max_grad_norm, math.inf),
        ("algo.reward_scale", algo.reward_scale, math.inf),
        ("algo.reward_clip", algo.reward_clip, math.inf),
        ("algo.epsilon.ladder", algo.epsilon.ladder, 1000),
    ):
        if number is not None and not (0 < number <= top and number < math.inf):
            limit = "" if top == math.inf else f" and at most {top}"
            yield f"{name} is {number}; it must be more than 0{limit}"


def _environment(env: Env) -> Iterator[str]:
    from leanfast.envs.checks import problems

    yield from problems(env)


def _no_cuda() -> str | None:
    from leanfast import probes

    if problem := probes.cuda_driver()["problem"]:
        return str(problem)
    return None if probes.torch_cuda() else "torch is built without CUDA"
