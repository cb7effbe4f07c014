"""Whether the configured environment can be had, before anything heavy is imported: a native one by
its spec, a Gymnasium one by making it once."""

import dataclasses
import difflib
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from leanfast.config import Env
from leanfast.envs import choices
from leanfast.envs.foreign import autoreset_mode, describe, vector_env
from leanfast.envs.registry import find
from leanfast.errors import UsageError

VECTORIZATIONS = ("sync", "async", "vector_entry_point")

log = logging.getLogger("leanfast")


def problems(env: Env) -> Iterator[str]:
    """One sentence for each thing that is wrong."""
    if sum(kind is not None for kind in (env.name, env.source, env.id)) != 1:
        yield (
            "env must have either a name, or a source (env=custom env.source=my_env.hpp), or an id "
            "(env=gymnasium env.id=LunarLander-v3)"
        )
        return
    if misplaced := list(_misplaced(env)):
        yield from misplaced
        return
    try:
        spec = describe_once(env)
    except UsageError:
        raise
    except (ValueError, TypeError) as error:
        yield one_line(error)
        return
    if problem := choices.problem(env.label, spec, env.action_bins):
        yield problem


def describe_once(env: Env) -> dict[str, Any]:
    """The spec, in the engine's form."""
    if env.id is None:
        return find(env.label).spec(env.params)
    mode = None if env.vectorization == "async" else env.vectorization
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are shown when the run makes it
        made = vectorized(dataclasses.replace(env, vectorization=mode), 1)
        try:
            spec = describe(made)
            autoreset_mode(made, spec["name"])
        finally:
            made.close()
    return spec


def vectorized(env: Env, num_envs: int) -> VectorEnv:
    """The Gymnasium environment as a vector env; a ValueError in one sentence where it cannot be
    made."""
    assert env.id is not None
    params: dict[str, Any] = dict(env.params)
    try:
        if env.vectorization != "vector_entry_point":
            if env.vectorization == "async":
                # A fork would copy the locks of this process's threads, but not the threads.
                params["vector_kwargs"] = {"context": "spawn"}
            return vector_env(env.id, num_envs, env.vectorization, params)
        own = gymnasium.make_vec(
            env.id, num_envs, vectorization_mode="vector_entry_point", **params
        )
        used = vector_env(own, num_envs, None, {})
    except Exception as error:  # whatever a foreign environment raises
        raise ValueError(cannot_be_made(env, error)) from error
    if used is not own:
        log.info(
            "%s resets in the step after an episode's end, while its other envs go on, and is "
            "therefore stepped one env after the other",
            type(own.unwrapped).__name__,
        )
        own.close()
    return used


def cannot_be_made(env: Env, error: Exception) -> str:
    text, errors = one_line(error), gymnasium.error
    if isinstance(error, errors.DependencyNotInstalled):
        extra = re.search(r"gymnasium\[[\w,-]+\]", text)
        mend = f'pip install "{extra[0]}"' if extra else text
        return f"{env.id} needs a package that is not installed: {mend}"
    if isinstance(error, errors.UnregisteredEnv | errors.DeprecatedEnv):
        near = difflib.get_close_matches(str(env.id), gymnasium.registry, n=2)
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        return (
            f"Gymnasium has no environment {env.id!r}{hint}; one that another package brings needs "
            "that package's name before it (env.id=my_package:MyEnv-v0)"
        )
    if isinstance(error, ModuleNotFoundError):
        found = " (one in this folder is found with PYTHONPATH=.)" if ":" in str(env.id) else ""
        return f"{env.id} needs a module that is not installed{found}: {text}"
    given = f" with env.params={env.params}" if env.params else ""
    return f"{env.id} cannot be made{given}: {text}"


def one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _misplaced(env: Env) -> Iterator[str]:
    if env.id is None:
        if env.vectorization is not None:
            yield (
                f"env.vectorization is {env.vectorization!r}, but {env.label} is stepped by "
                "leanfast's own engine; it goes with env=gymnasium"
            )
        return
    if env.vectorization not in (None, *VECTORIZATIONS):
        yield (
            f"env.vectorization is {env.vectorization!r}; it must be "
            f"{', '.join(VECTORIZATIONS)} or null"
        )
    if env.threads is not None:
        yield (
            f"env.threads is {env.threads}, but {env.id} has none; env.vectorization=async gives "
            "each env a process"
        )
