"""One training run: what it needs is made here, trained, evaluated, and its summary written."""

import logging
from pathlib import Path
from typing import Any

import torch

from leanfast import execution, probes
from leanfast.arithmetic import arithmetic
from leanfast.config import Config
from leanfast.doctor import PACKAGES
from leanfast.envs import simulator
from leanfast.envs.simulator import Simulator
from leanfast.errors import UsageError
from leanfast.evaluation import Evaluation, evaluate
from leanfast.learners.batch_size import largest_that_fits
from leanfast.learners.dqn import DQN
from leanfast.networks import action_values, cannot_convolve
from leanfast.pipelines import PIPELINES, Pipeline
from leanfast.pipelines.common import Training
from leanfast.replay.memory import check_memory
from leanfast.replay.ring import Ring
from leanfast.telemetry.journal import Journal

EVALUATION_SEED = 2**32  # above every training seed

log = logging.getLogger("leanfast")


def run(config: Config, folder: Path, began: float) -> float:
    """Returns the mean return of the final evaluation."""
    device = config.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    mode, why = execution.choose(config.execution.mode, device, config.execution.fallback)
    name = "vectorized" if config.pipeline.name == "auto" else config.pipeline.name
    pipeline = PIPELINES[name]
    log.info(
        "%s, seed %d: dqn, pipeline %s, num_envs %d",
        config.env.label,
        config.seed,
        name,
        1 if pipeline.single else config.env.num_envs,
    )
    log.info("execution %s on %s (%s); results in %s", mode, device, why, folder)
    how: dict[str, Any] = {
        "requested": config.execution.mode,
        "effective": mode,
        "compile_s": 0.0,
        "capture_s": 0.0,
    }
    facts = {
        "env": config.env.label,
        "algo": config.algo.name,
        "pipeline": name,
        "seed": config.seed,
        "device": device,
        "execution": how,
        "versions": {name: probes.version_of(name) for name in ("leanfast", *PACKAGES)},
    }
    journal, status = Journal(config, folder, began), "failed"
    try:
        evaluation = _train(config, device, mode, pipeline, journal, folder, how)
        status = "finished"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    except MemoryError as error:  # the envs', which say what would fit
        raise UsageError(str(error)) from error
    finally:
        summary = journal.finish(status, facts)
    log.info(
        "evaluation: return %.2f, standard deviation %.2f over %d episodes; %.1f s to start, %.1f "
        "of them compiling and capturing; %.1f s to train%s",
        evaluation.return_mean,
        evaluation.return_std,
        evaluation.episodes,
        summary["startup_s"],
        how["compile_s"] + how["capture_s"],
        summary["train_s"],
        "" if journal.solved_at_s is None else f", solved after {journal.solved_at_s:.1f} s",
    )
    if evaluation.unfinished:
        log.info(
            "%d episodes were cut off at eval.max_steps=%d",
            evaluation.unfinished,
            config.eval.max_steps,
        )
    return evaluation.return_mean


def _train(
    config: Config,
    device: str,
    mode: str,
    pipeline: Pipeline,
    journal: Journal,
    folder: Path,
    how: dict[str, Any],
) -> Evaluation:
    with (
        arithmetic(config.torch_threads),
        pipeline.envs(config) as envs,
        simulator.held_out(config.env, config.eval.episodes, config.seed) as held_out,
    ):
        training = training_for(config, device, mode, pipeline, held_out, journal, folder)
        try:
            pipeline.train(training, envs)
        finally:
            how |= {"compile_s": training.compile_s, "capture_s": training.capture_s}
        return journal.evaluate(training.greedy)


def training_for(
    config: Config,
    device: str,
    mode: str,
    pipeline: Pipeline,
    held_out: Simulator,
    journal: Journal,
    folder: Path,
) -> Training:
    """What pipeline.train() takes; `held_out` are envs like those that it steps."""
    learner = learner_for(config, held_out, device)
    ring = ring_for(
        config, held_out, 1 if pipeline.single else config.env.num_envs * held_out.agents
    )
    home = torch.device("cpu" if pipeline.host_replay else device)
    check_memory(ring, home)
    replay = ring.allocate(home)
    batch_size = config.algo.batch_size
    if batch_size == "auto":
        batch_size = largest_that_fits(learner, ring, replay)
        log.info("algo.batch_size=auto: %d, the largest that fits", batch_size)

    def greedy() -> Evaluation:
        # Fresh starts each time, or the last evaluation would be one that chose itself.
        seed = EVALUATION_SEED + config.seed + journal.env_steps
        return evaluate(learner.greedy, held_out, seed, config.eval.max_steps)

    steps = config.pipeline.chunk
    return Training(config, mode, learner, ring, replay, batch_size, journal, greedy, folder, steps)


def learner_for(config: Config, envs: Simulator, device: str) -> DQN:
    algo = config.algo
    if config.network.type == "cnn" and (why := cannot_convolve(envs.observation_shape)):
        raise UsageError(f"network.type is 'cnn', but {why}; network.type=mlp takes any")
    network = action_values(
        envs.observation_shape,
        envs.actions,
        config.network,
        config.seed,
        dueling=algo.dueling,
        normalize=algo.normalize_observations,
        planes=envs.observation_dtype == torch.uint8 and len(envs.observation_shape) == 3,
        highest=255 if envs.observation_dtype == torch.uint8 else 1,
    )
    return DQN(
        network.to(device),
        algo,
        total_steps=config.total_steps,
        seed=config.seed,
        agents=envs.agents,
        precision=config.precision,
    )


def ring_for(config: Config, envs: Simulator, lanes: int) -> Ring:
    algo = config.algo
    return Ring(
        steps=algo.buffer_size // lanes,
        lanes=lanes,
        observation_shape=envs.observation_shape,
        observation_dtype=envs.observation_dtype,
        n_step=algo.n_step,
        discount=algo.discount,
        episode_limit=envs.episode_limit,
    )
