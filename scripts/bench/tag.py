#!/usr/bin/env python
"""How often the chasers of Tag catch: trained ones and random ones, each against a trained runner
and against a random one. Trains `experiment=tag` first; overrides of `leanfast train` may follow.

    python scripts/bench/tag.py [--seeds 1,2,3] [OVERRIDE ...]
"""

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from leanfast import execution
from leanfast.arithmetic import arithmetic
from leanfast.bench.configured import configured
from leanfast.bench.machine import describe
from leanfast.config import Config
from leanfast.envs import simulator
from leanfast.envs.registry import find
from leanfast.evaluation import Policy, evaluate
from leanfast.pipelines import PIPELINES
from leanfast.run import EVALUATION_SEED, training_for
from leanfast.telemetry.journal import Journal

RESULTS = Path(__file__).resolve().parent / "results" / "tag.json"


def trained(config: Config) -> Policy:
    mode, _ = execution.choose(config.execution.mode, "cpu")
    pipeline = PIPELINES["vectorized"]
    with (
        tempfile.TemporaryDirectory() as folder,
        arithmetic(config.torch_threads),
        pipeline.envs(config) as envs,
        simulator.held_out(config.env, config.eval.episodes, config.seed) as held_out,
    ):
        journal = Journal(config, Path(folder), 0.0)
        training = training_for(config, "cpu", mode, pipeline, held_out, journal, Path(folder))
        pipeline.train(training, envs)
        return training.learner.greedy


def catches(config: Config, chasers: Policy, runners: Policy) -> float:
    """An episode's, in the mean; each pays every chaser 1."""
    params = {**config.env.params, "shaping": 0.0}
    env = dataclasses.replace(config.env, params=params)
    count = int(params.get("chasers", find("tag").defaults["chasers"]))
    with simulator.held_out(env, config.eval.episodes, config.seed) as envs:
        chases = torch.arange(envs.lanes) % envs.agents < count

        def policy(observation: torch.Tensor) -> torch.Tensor:
            return torch.where(chases, chasers(observation), runners(observation))

        found = evaluate(policy, envs, EVALUATION_SEED + config.seed, config.eval.max_steps)
    return found.agent_return_means[0]


def at_random(seed: int) -> Callable[[torch.Tensor], torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    return lambda observation: torch.randint(5, (len(observation),), generator=source)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="of `leanfast train`")
    parser.add_argument("--seeds", default="1,2,3", help="comma-separated (default 1,2,3)")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE")
    options = parser.parse_args()
    runs = []
    for seed in options.seeds.split(","):
        config = configured("experiment=tag", *options.overrides, f"seed={seed}")
        learned, random = trained(config), at_random(config.seed)
        run: dict[str, Any] = {"seed": config.seed, "episodes": config.eval.episodes}
        for runner, policy in (("trained", learned), ("random", random)):
            for chasers, theirs in (("trained", learned), ("random", random)):
                run[f"{chasers} chasers, {runner} runner"] = catches(config, theirs, policy)
        runs.append(run)
        print(json.dumps(run), file=sys.stderr)
    result = {"machine": describe(), "overrides": options.overrides, "runs": runs}
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
