"""One env with Gymnasium's interface, for the textbook's loop."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.wrappers import TimeLimit

from leanfast.config import Env
from leanfast.envs import choices
from leanfast.envs.checks import cannot_be_made
from leanfast.envs.registry import find
from leanfast.envs.spaces import describe_action, describe_observation
from leanfast.envs.vector import NativeEnv
from leanfast.errors import UsageError


class Choices(gymnasium.ActionWrapper):
    """Takes 0 to len(values) - 1 and passes on the value that stands there."""

    def __init__(self, env: gymnasium.Env, values: np.ndarray):
        super().__init__(env)
        self.values = values
        self.action_space = Discrete(len(values))

    def action(self, action: Any) -> Any:
        return self.values[action]


def single_env(env: Env) -> gymnasium.Env:
    """The configured environment, with actions 0 to action_space.n - 1."""
    made = _native(env) if env.id is None else _gymnasium(env)
    try:
        return _with_choices(env, made)
    except ValueError:
        made.close()
        raise


def _native(env: Env) -> gymnasium.Env:
    definition = find(env.label)
    spec = definition.spec(env.params)
    if spec["agents"] > 1:
        raise UsageError(
            f"{env.label} has {spec['agents']} agents, and a single Gymnasium environment has one; "
            "pipeline=vectorized trains them"
        )
    single = NativeEnv(definition, params=env.params)
    limit = spec["max_episode_steps"]
    return TimeLimit(single, limit) if limit > 0 else single


def _gymnasium(env: Env) -> gymnasium.Env:
    assert env.id is not None
    try:
        return gymnasium.make(env.id, **env.params)
    except Exception as error:  # whatever a foreign environment raises
        raise UsageError(cannot_be_made(env, error)) from error


def _with_choices(env: Env, made: gymnasium.Env) -> gymnasium.Env:
    space: Any = made.action_space
    describe_observation(made.observation_space, env.label)
    action = describe_action(space, env.label)
    if problem := choices.problem(env.label, {"action": action}, env.action_bins):
        raise UsageError(problem)
    if isinstance(action, int):
        return made if space.start == 0 else Choices(made, np.arange(action) + space.start)
    assert env.action_bins is not None
    # A bound rounded to float32 may lie outside the space's own.
    values = choices.table(action, env.action_bins).astype(space.dtype)
    return Choices(made, np.clip(values, space.low, space.high))
