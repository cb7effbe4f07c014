"""What GymnasiumBatch wraps: a vector env made or taken, described, and refused in one sentence
where it cannot keep the contract."""

import copy
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.wrappers.vector import NormalizeObservation

from leanfast.envs.spaces import describe_action, describe_observation

MODES = {"sync": SyncVectorEnv, "async": AsyncVectorEnv}
# An env that hands out one array again and again overwrites, in its reset, what SAME_STEP would
# show as its last observation.
WITHOUT_AUTORESET = {"autoreset_mode": AutoresetMode.DISABLED, "copy": False}


def vector_env(env: Any, num_envs: int, mode: str | None, kwargs: dict[str, Any]) -> VectorEnv:
    if isinstance(env, VectorEnv | gymnasium.Env):
        own = env.num_envs if isinstance(env, VectorEnv) else 1
        if num_envs not in (1, own):
            raise ValueError(
                f"num_envs is {num_envs}, but the environment given has {own}; give its id or a "
                "function that makes one env"
            )
        if mode is not None or kwargs:
            given = "vectorization_mode" if mode is not None else next(iter(kwargs))
            raise TypeError(f"{given} goes with an id; the environment given is already made")
        if isinstance(env, VectorEnv):
            return _made_again(env) or env
        return SyncVectorEnv([lambda: env], autoreset_mode=AutoresetMode.DISABLED)
    options = {**WITHOUT_AUTORESET, **kwargs.pop("vector_kwargs", {})}
    if isinstance(env, str | EnvSpec):
        if mode != "vector_entry_point":
            kwargs["vector_kwargs"] = options
        return gymnasium.make_vec(env, num_envs, vectorization_mode=mode or "sync", **kwargs)
    if not callable(env):
        raise TypeError(
            f"env must be an id, an environment or a function that makes one, not {env!r}"
        )
    if mode not in (None, *MODES):
        raise ValueError(f"vectorization_mode must be {' or '.join(MODES)}, not {mode!r}")
    if kwargs:
        raise TypeError(f"{next(iter(kwargs))} goes with an id; let the function itself use it")
    return MODES[mode or "sync"]([env] * num_envs, **options)


def _made_again(env: VectorEnv) -> VectorEnv | None:
    """A NEXT_STEP vector env that cannot reset some envs alone, as one env after the other; the
    one given is left as it is."""
    if env is not env.unwrapped or isinstance(env, SyncVectorEnv | AsyncVectorEnv):
        return None
    spec = env.spec
    if spec is None or spec.entry_point is None or not _resets_next_step(env):
        return None
    spec = copy.deepcopy(spec)
    for name in ("num_envs", "vectorization_mode"):
        spec.kwargs.pop(name, None)
    return gymnasium.make_vec(
        spec, env.num_envs, vectorization_mode="sync", vector_kwargs=WITHOUT_AUTORESET
    )


def _resets_next_step(env: VectorEnv) -> bool:
    return env.metadata.get("autoreset_mode") in (AutoresetMode.NEXT_STEP, "NextStep")


def describe(env: VectorEnv) -> dict[str, Any]:
    inner = getattr(env.unwrapped, "envs", None)  # a SyncVectorEnv's
    spec = env.spec or (inner[0].spec if inner else None)
    name = spec.id if spec else type(inner[0].unwrapped if inner else env.unwrapped).__name__
    limit = spec.kwargs.get("max_episode_steps", spec.max_episode_steps) if spec else None
    return {
        "name": name,
        "observation": describe_observation(env.single_observation_space, name),
        "action": describe_action(env.single_action_space, name),
        "agents": 1,
        "max_episode_steps": max(limit or 0, 0),
    }


def autoreset_mode(env: VectorEnv, name: str) -> AutoresetMode:
    if "autoreset_mode" not in env.metadata:
        raise ValueError(f"{name} does not say its autoreset mode in metadata['autoreset_mode']")
    mode = AutoresetMode(env.metadata["autoreset_mode"])
    if not _resets_next_step(env):
        return mode
    mend = "make it with autoreset_mode=AutoresetMode.SAME_STEP or DISABLED"
    root = env.unwrapped
    if not isinstance(root, SyncVectorEnv | AsyncVectorEnv):
        raise ValueError(
            f"{name} ({type(root).__name__}) resets in the step after an episode's end, while its "
            f"other envs go on, and has no way to reset some alone; {mend}"
        )
    if isinstance(root, AsyncVectorEnv) and not root.shared_memory:
        raise ValueError(
            f"{name} (AsyncVectorEnv with shared_memory=False) resets twice after a reset_mask in "
            f"NEXT_STEP mode; {mend}"
        )
    while isinstance(env, VectorWrapper):
        if isinstance(env, NormalizeObservation):
            raise ValueError(
                f"{name} is wrapped in the vector NormalizeObservation, which can reset only all "
                "envs at once; wrap each env in gymnasium.wrappers.NormalizeObservation instead"
            )
        env = env.env
    return mode
