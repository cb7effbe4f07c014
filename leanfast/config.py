"""The typed configuration: conf/ holds the values, this file what they are and must be."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leanfast.errors import UsageError

DEVICES = ("auto", "cpu", "cuda")
ALGORITHMS = ("dqn",)
LOSSES = ("huber", "mse")
PIPELINES = ("auto", "vectorized")
MODES = ("auto", "eager", "compile")
GRAPH_MODES = ("cudagraph", "combined")


@dataclass(frozen=True)
class Env:
    """A built-in environment by its name, or a header of one's own as its source."""

    num_envs: int
    threads: int | None
    params: dict[str, float | int | bool]
    name: str | None = None
    source: str | None = None
    solved_return: float | None = None

    @property
    def id(self) -> str:
        return self.name or self.source or ""


@dataclass(frozen=True)
class Epsilon:
    start: float
    end: float
    steps: int


@dataclass(frozen=True)
class Algo:
    name: str
    batch_size: int
    learning_rate: float
    learning_rate_end: float
    discount: float
    double: bool
    loss: str
    max_grad_norm: float | None
    buffer_size: int
    learning_starts: int
    updates_per_step: float
    target_every: int
    tau: float
    epsilon: Epsilon


@dataclass(frozen=True)
class Network:
    hidden: list[int]


@dataclass(frozen=True)
class Pipeline:
    name: str


@dataclass(frozen=True)
class Execution:
    mode: str
    steps_per_graph: int


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
    config = _build(Config, values, "", problems)
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
    if algo.batch_size > algo.buffer_size:
        yield f"algo.batch_size is {algo.batch_size}, more than algo.buffer_size={algo.buffer_size}"
    if env.num_envs > algo.buffer_size:
        yield (
            f"env.num_envs is {env.num_envs}, more than algo.buffer_size={algo.buffer_size} "
            "transitions, which must hold a step of every env"
        )
    if 0 < config.total_steps <= algo.learning_starts:
        yield (
            f"algo.learning_starts is {algo.learning_starts}, so nothing is learned before "
            f"total_steps={config.total_steps}"
        )
    yield from _environment(env)


def _choices(config: Config) -> Iterator[str]:
    for name, value, valid in (
        ("device", config.device, DEVICES),
        ("algo.name", config.algo.name, ALGORITHMS),
        ("algo.loss", config.algo.loss, LOSSES),
        ("pipeline.name", config.pipeline.name, PIPELINES),
    ):
        if value not in valid:
            yield f"{name} is {value!r}; it must be {' or '.join(valid)}"
    if problem := execution_problem(config.execution.mode):
        yield problem
    if config.device == "cuda" and (problem := _no_cuda()):
        yield f"device is 'cuda', but {problem}; device=cpu runs everywhere"


def execution_problem(mode: str) -> str | None:
    """Why execution.mode cannot be `mode`, if it cannot."""
    if mode in MODES:
        return None
    if mode in GRAPH_MODES:
        why = _no_cuda()
        why = f"needs a CUDA device, and {why}" if why else "is not in this version"
        return f"execution.mode {mode!r} {why}; it can be {', '.join(MODES)}"
    return f"execution.mode is {mode!r}; it must be {', '.join(MODES)}"


def _ranges(config: Config) -> Iterator[str]:
    algo, env = config.algo, config.env
    largest = 2**31
    for name, value, low, high in (
        ("seed", config.seed, 0, 2**32 - 1),
        ("total_steps", config.total_steps, 1, 2**62),
        ("torch_threads", config.torch_threads, 1, 4096),
        ("env.num_envs", env.num_envs, 1, largest - 64),
        ("env.threads", 1 if env.threads is None else env.threads, 1, 4096),
        ("algo.batch_size", algo.batch_size, 1, largest),
        ("algo.learning_rate_end", algo.learning_rate_end, 0, 1),
        ("algo.discount", algo.discount, 0, 1),
        ("algo.buffer_size", algo.buffer_size, 1, largest),
        ("algo.learning_starts", algo.learning_starts, 0, 2**62),
        ("algo.target_every", algo.target_every, 1, 2**62),
        ("algo.epsilon.start", algo.epsilon.start, 0, 1),
        ("algo.epsilon.end", algo.epsilon.end, 0, 1),
        ("algo.epsilon.steps", algo.epsilon.steps, 1, 2**62),
        *((f"network.hidden[{i}]", size, 1, 65536) for i, size in enumerate(config.network.hidden)),
        ("execution.steps_per_graph", config.execution.steps_per_graph, 1, 64),
        ("eval.every", config.eval.every, 0, 2**62),
        ("eval.episodes", config.eval.episodes, 1, largest - 64),
        ("eval.max_steps", config.eval.max_steps, 1, 2**62),
        ("log.every", config.log.every, 1, 2**62),
    ):
        if not low <= value <= high:
            limit = f"at least {low}" if high == 2**62 else f"{low} to {high}"
            yield f"{name} is {value}; it must be {limit}"
    if not 0 < algo.learning_rate <= 1:
        yield f"algo.learning_rate is {algo.learning_rate}; it must be more than 0 and at most 1"
    if not 0 < algo.updates_per_step <= 1000:
        yield (
            f"algo.updates_per_step is {algo.updates_per_step}; "
            "it must be more than 0 and at most 1000"
        )
    if not 0 < algo.tau <= 1:
        yield f"algo.tau is {algo.tau}; it must be more than 0 and at most 1"
    if algo.max_grad_norm is not None and not algo.max_grad_norm > 0:
        yield f"algo.max_grad_norm is {algo.max_grad_norm}; it must be more than 0, or null"


def _environment(env: Env) -> Iterator[str]:
    if (env.name is None) == (env.source is None):
        yield "env must have either a name or, as env=custom has, a source (env.source=my_env.hpp)"
        return
    from leanfast.envs.registry import find

    try:
        spec = find(env.id).spec(env.params)
    except UsageError:
        raise
    except (ValueError, TypeError) as error:
        yield str(error)
        return
    if not isinstance(spec["action"], int):
        yield f"{env.id} has continuous actions; dqn needs a few to choose from"
    if spec["agents"] > 1:
        yield f"{env.id} has {spec['agents']} agents; this version trains one"


def _no_cuda() -> str | None:
    from leanfast import probes

    if problem := probes.cuda_driver()["problem"]:
        return str(problem)
    return None if probes.torch_cuda() else "torch is built without CUDA"


def _build(cls: type, values: Any, path: str, problems: list[str]) -> Any:
    """An instance of a dataclass, or None with what is wrong with it in `problems`."""
    if not isinstance(values, Mapping):
        problems.append(f"{path} is {values!r}; it must have values of its own")
        return None
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    prefix, given, before = f"{path}." if path else "", {}, len(problems)
    for name, value in values.items():
        if name in fields:
            given[name] = _value(hints[name], value, prefix + name, problems)
        else:
            near = difflib.get_close_matches(str(name), fields, n=1)
            words = f"did you mean {prefix}{near[0]}?" if near else f"there are {', '.join(fields)}"
            problems.append(f"there is no {prefix}{name}; {words}")
    for name, field in fields.items():
        if name not in values and field.default is dataclasses.MISSING:
            problems.append(f"{prefix}{name} is missing")
    return cls(**given) if len(problems) == before else None


def _value(kind: Any, value: Any, path: str, problems: list[str]) -> Any:
    if dataclasses.is_dataclass(kind):
        return _build(typing.cast(type, kind), value, path, problems)
    for accepted in _alternatives(kind):
        if (converted := _convert(accepted, value)) is not _NO:
            return converted
    is_missing = value == "???"
    problems.append(
        f"{path} must be given: {path}=VALUE"
        if is_missing
        else f"{path} is {value!r}; it must be {_words(kind)}"
    )
    return None


_NO = object()


def _convert(kind: Any, value: Any) -> Any:
    """`value` as a `kind`, or _NO."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list and isinstance(value, list):
        items = [_convert(arguments[0], item) for item in value]
        return _NO if _NO in items else items
    if origin is dict and isinstance(value, Mapping):
        return dict(value)  # the environment's own parameters: its header says what they must be
    if value == "???" or (isinstance(value, bool) and kind is not bool):
        return _NO
    if kind is float and isinstance(value, int):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)  # 1e6
    return value if origin is None and isinstance(value, kind) else _NO


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)


def _words(kind: Any) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
    words |= {type(None): "null", list[int]: "a list of whole numbers, like [120,84]"}
    return " or ".join(words.get(one, "a set of names and values") for one in _alternatives(kind))
