"""One training run: what it needs is made here, trained, evaluated, and its summary written."""

import logging
from functools import partial
from pathlib import Path

import torch

from leanfast import execution, probes
from leanfast.config import Config
from leanfast.doctor import PACKAGES
from leanfast.envs.native import Engine
from leanfast.evaluation import Evaluation, evaluate
from leanfast.learners.dqn import DQN
from leanfast.networks import action_values
from leanfast.pipelines import vectorized
from leanfast.telemetry.journal import Journal

EVALUATION_SEED = 2**32  # above every training seed

log = logging.getLogger("leanfast")


def run(config: Config, folder: Path, began: float) -> float:
    """Returns the mean return of the final evaluation."""
    torch.set_num_threads(config.torch_threads)
    device = config.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    mode, why = execution.choose(config.execution.mode, device)
    log.info(
        "%s, seed %d: dqn, pipeline vectorized, %d envs",
        config.env.label,
        config.seed,
        config.env.num_envs,
    )
    log.info("execution %s on %s (%s); results in %s", mode, device, why, folder)
    facts = {
        "env": config.env.label,
        "algo": config.algo.name,
        "pipeline": "vectorized",
        "seed": config.seed,
        "device": device,
        "execution": {"requested": config.execution.mode, "effective": mode},
        "versions": {name: probes.version_of(name) for name in ("leanfast", *PACKAGES)},
    }
    journal, status = Journal(config, folder, began), "failed"
    try:
        evaluation = _train(config, device, mode, journal)
        status = "finished"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    finally:
        summary = journal.finish(status, facts)
    log.info(
        "evaluation: return %.2f, standard deviation %.2f over %d episodes; "
        "%.1f s to start, %.1f s to train%s",
        evaluation.return_mean,
        evaluation.return_std,
        evaluation.episodes,
        summary["startup_s"],
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


def _train(config: Config, device: str, mode: str, journal: Journal) -> Evaluation:
    env = config.env
    engine_of = partial(Engine, env.label, threads=env.threads, params=env.params)
    with (
        engine_of(env.num_envs, seed=config.seed) as engine,
        engine_of(config.eval.episodes) as held_out,
    ):
        shape, actions = engine.spec["observation"]["shape"], engine.spec["action"]
        network = action_values(shape, config.network.hidden, actions, config.seed)
        learner = DQN(network.to(device), config.algo, config.total_steps, config.seed)

        def greedy() -> Evaluation:
            # Fresh starts each time, or the last evaluation would be one that chose itself.
            seed = EVALUATION_SEED + config.seed + journal.env_steps
            return evaluate(learner.greedy, held_out, seed, config.eval.max_steps)

        vectorized.train(config, engine, learner, journal, greedy, mode)
        return journal.evaluate(greedy)
