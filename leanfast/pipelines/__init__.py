"""Loops of act, step, store and update, one file for each."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Any

from leanfast.config import Config
from leanfast.envs.simulator import simulator
from leanfast.envs.single import single_env
from leanfast.pipelines import double_buffered, serial, vectorized
from leanfast.pipelines.common import Training


@dataclass(frozen=True)
class Pipeline:
    train: Callable[[Training, Any], None]
    envs: Callable[[Config], AbstractContextManager[Any]]  # what train() steps
    single: bool = False  # one env, whatever env.num_envs says
    host_replay: bool = False


def _batched(config: Config) -> AbstractContextManager[Any]:
    return simulator(config.env, config.env.num_envs, config.seed)


def _single(config: Config) -> AbstractContextManager[Any]:
    return closing(single_env(config.env))


PIPELINES = {
    "serial": Pipeline(serial.train, _single, single=True, host_replay=True),
    "double_buffered": Pipeline(double_buffered.train, _batched),
    "vectorized": Pipeline(vectorized.train, _batched),
}
