"""What Training accelerates for each pipeline, as captured_functions needs it: the other parts of
the pipeline's loop run around it in eager mode."""

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from dqn_cases import of
from training_cases import config, training_of

from leanfast.config import Config
from leanfast.envs.simulator import simulator
from leanfast.execution import Accelerated
from leanfast.pipelines.common import FIELDS, Training

CALLS = 200


def everything(pipeline: str, device: str = "cpu") -> Config:
    """All that the functions may have to compute: agents, n-step returns, normalisation, a ladder,
    schedules, and a ring that is filled several times over."""
    single = pipeline == "serial"
    return config(
        pipeline=pipeline,
        device=device,
        total_steps=900,
        env__name="pendulum" if single else "tag",
        env__action_bins=5 if single else None,
        env__num_envs=4,
        algo__n_step=3,
        algo__dueling=True,
        algo__normalize_observations=True,
        algo__max_grad_norm=1.0,
        algo__loss="huber",
        algo__learning_rate_schedule="cosine",
        algo__target_every=50,
        algo__buffer_size=50 if single else 50 * 16,
        algo__epsilon__ladder=3.0,
        execution__steps_per_graph=1 if single else 2,
    )


@cache
def recorded(pipeline: str) -> list[list[torch.Tensor]]:
    """What store() gets in each call, from envs that act at random."""
    chosen, made = everything(pipeline), []
    num_envs = 1 if pipeline == "serial" else chosen.env.num_envs
    chunk, source = chosen.pipeline.chunk, of(1)
    with simulator(chosen.env, num_envs, seed=1) as envs:
        step = envs.reset(1)
        for _ in range(CALLS * chunk):
            observation = step.observation.clone()
            actions = torch.randint(envs.actions, (envs.lanes,), generator=source)
            envs.send(actions)
            step = envs.recv()
            made.append([observation, actions, *(getattr(step, x).clone() for x in FIELDS[2:])])
    if chunk == 1:
        return made
    parts = [made[at : at + chunk] for at in range(0, len(made), chunk)]
    return [[torch.stack(fields) for fields in zip(*part, strict=True)] for part in parts]


def of_training(
    pipeline: str, name: str, device: str
) -> tuple[Accelerated, Callable[[int], tuple[Any, ...]]]:
    """The function in eager mode, and its inputs at each call."""
    with (
        # Where a test makes a device up, envs need no memory pinned for it.
        mock.patch.object(torch.cuda, "is_available", return_value=device != "cpu"),
        tempfile.TemporaryDirectory() as folder,
        training_of(Path(folder), everything(pipeline, device)) as training,
    ):
        made = _functions(training, pipeline)
        fields = recorded(pipeline)

    def inputs(call: int) -> tuple[Any, ...]:
        given = [field.to(device) for field in fields[call]]
        if pipeline == "serial":
            made["remember"](*fields[call])
            batch = made["draw"](torch.tensor(call)).to(device)
            around = {"act": (given[0],), "observe": given, "update": (batch,)}
        else:
            around = {"act": (given[0],), "store": given, "learn": ()}
        for other in around.keys() & made.keys() - {name}:
            if call % 10 == 0 or other not in ("learn", "update"):  # which take the most time
                made[other](*around[other])
        return tuple(around[name])

    return made[name], inputs


def _functions(training: Training, pipeline: str) -> dict[str, Accelerated]:
    if pipeline == "serial":
        names = ("observe", "update", "remember", "draw")
        return {"act": training.act(), **dict(zip(names, training.parts(), strict=True))}
    made = {"store": training.store(), "learn": training.learn()}
    return made if pipeline == "double_buffered" else {"act": training.act(), **made}
