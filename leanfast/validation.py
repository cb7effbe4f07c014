"""What a configuration must be, beyond its types: known before torch is imported."""

import math
from collections.abc import Iterator

from leanfast import probes
from leanfast.config import (
    ALGORITHMS,
    DEVICES,
    GRAPH_MODES,
    LOSSES,
    MODES,
    NETWORKS,
    OPTIMIZERS,
    PIPELINES,
    PRECISIONS,
    SCHEDULES,
    Config,
    Env,
)
from leanfast.envs.checks import problems
from leanfast.envs.registry import find


def validate(config: Config) -> Iterator[str]:
    """One sentence for each value that cannot be, or cannot be beside another."""
    yield from _choices(config)
    yield from _ranges(config)
    yield from _learning(config)
    yield from _pipeline(config)
    yield from _buffer(config)
    yield from problems(config.env)


def _learning(config: Config) -> Iterator[str]:
    algo = config.algo
    if 0 < config.total_steps <= algo.learning_starts:
        yield (
            f"algo.learning_starts is {algo.learning_starts}, so nothing is learned before "
            f"total_steps={config.total_steps}"
        )
    envs = 1 if config.pipeline.name == "serial" else config.env.num_envs
    if algo.learning_starts < config.total_steps <= algo.n_step * envs:
        yield (
            f"total_steps is {config.total_steps}, so nothing is learned; it must be more than "
            f"{algo.n_step * envs}, algo.n_step={algo.n_step} steps of each env (there are {envs})"
        )
    starts = max(algo.learning_starts, algo.n_step * envs)
    owed = (config.total_steps - starts) * (algo.updates_per_step or math.inf)
    if 0 < owed < config.execution.steps_per_graph:
        yield (
            f"algo.updates_per_step is {algo.updates_per_step}, which owes {owed:g} updates by "
            f"total_steps={config.total_steps}; execution.steps_per_graph="
            f"{config.execution.steps_per_graph} are made at a time"
        )
    if algo.target_every == 0 and algo.tau == 1:
        yield (
            "algo.target_every is 0 and algo.tau is 1, so the target is the network itself; a soft "
            "target takes algo.target_every=0 algo.tau=0.005"
        )
    if algo.batch_size != "auto" and algo.accumulate > 0 and algo.batch_size % algo.accumulate:
        yield (
            f"algo.batch_size is {algo.batch_size}, which algo.accumulate={algo.accumulate} does "
            "not divide"
        )


def _pipeline(config: Config) -> Iterator[str]:
    algo, pipeline = config.algo, config.pipeline.name
    if algo.updates_per_step is None and pipeline != "double_buffered":
        yield (
            "algo.updates_per_step is null, which leaves the pace to each thread; only "
            "pipeline=double_buffered has two"
        )
    if pipeline == "serial" and config.execution.steps_per_graph != 1:
        yield (
            f"execution.steps_per_graph is {config.execution.steps_per_graph}; pipeline=serial "
            "takes 1, since each update's batch comes from the host"
        )
    if pipeline == "serial" and (agents := _agents(config.env)) > 1:
        yield (
            f"{config.env.label} has {agents} agents, but pipeline=serial steps a single Gymnasium "
            "environment, which has one; pipeline=vectorized trains them"
        )
    if pipeline != "double_buffered" and config.pipeline.chunk != 1:
        yield (
            f"pipeline.chunk is {config.pipeline.chunk}; only pipeline=double_buffered stores "
            "several steps at a time"
        )


def _buffer(config: Config) -> Iterator[str]:
    algo = config.algo
    if algo.batch_size != "auto" and algo.batch_size > algo.buffer_size:
        yield f"algo.batch_size is {algo.batch_size}, more than algo.buffer_size={algo.buffer_size}"
    yield from why_not(algo.buffer_size, _lanes(config), algo.n_step, config.pipeline.chunk)


def why_not(buffer_size: int, lanes: int, n_step: int, chunk: int = 1) -> Iterator[str]:
    """One sentence for each reason why a ring of `buffer_size` transitions cannot be."""
    steps, each = buffer_size // lanes, f"each of {lanes} lanes (envs times agents)"
    if steps < 1:
        yield f"algo.buffer_size is {buffer_size}; it must be at least {lanes}, one step of {each}"
        return
    for name, value in (("algo.n_step", n_step), ("pipeline.chunk", chunk)):
        if value > steps:
            yield (
                f"{name} is {value}, more than the {steps} steps that algo.buffer_size="
                f"{buffer_size} holds of {each}; it must be at most {steps}, or "
                f"algo.buffer_size at least {value * lanes}"
            )


def _lanes(config: Config) -> int:
    """Agents in all envs."""
    if config.pipeline.name == "serial":
        return 1
    return max(1, config.env.num_envs) * _agents(config.env)


def _agents(env: Env) -> int:
    try:
        return 1 if env.id else int(find(env.label).spec(env.params)["agents"])
    except (ValueError, TypeError):
        return 1  # what is wrong is said elsewhere


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
    if config.precision == "fp16" and (config.device == "cpu" or _no_cuda()):
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
        ("algo.epsilon.hold", algo.epsilon.hold, 1, 1_000_000),
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


def _no_cuda() -> str | None:
    if problem := probes.cuda_driver()["problem"]:
        return str(problem)
    return None if probes.torch_cuda() else "torch is built without CUDA"
