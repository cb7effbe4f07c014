"""Train small networks as fast as the hardware allows, in plain PyTorch."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from leanfast.envs.registration import register as _register

if TYPE_CHECKING:
    from leanfast.envs.native import Batch, Engine
    from leanfast.envs.torchrl import BatchedEnv

__all__ = ["Batch", "Engine", "make", "wrap"]

with suppress(ImportError):  # the doctor says which packages are missing
    _register()


def make(
    env: str,
    num_envs: int = 1,
    *,
    threads: int | None = None,
    seed: int | Sequence[int] | None = None,
    params: Mapping[str, float | int | bool] | None = None,
    max_episode_steps: int | None = None,
    precision: str = "float32",
    device: str = "cpu",
) -> "BatchedEnv":
    """A TorchRL environment over `num_envs` native ones: a built-in name such as "cartpole", or
    the path of a C++ header of your own, which is compiled on first use."""
    from leanfast.envs.native import Engine
    from leanfast.envs.torchrl import BatchedEnv

    if str(device) != "cpu":
        raise ValueError(f"device must be cpu (the engine steps on the CPU), not {device!r}")
    engine = Engine(
        env,
        num_envs,
        threads=threads,
        seed=seed,
        params=params,
        max_episode_steps=max_episode_steps,
        precision=precision,
    )
    return BatchedEnv(engine)


def wrap(env: Any, num_envs: int = 1, **options: Any) -> "BatchedEnv":
    """The same face for a Gymnasium environment: an id, a single or a vectorised environment."""
    from leanfast.envs.torchrl import BatchedEnv
    from leanfast.envs.wrapped import GymnasiumBatch

    return BatchedEnv(GymnasiumBatch(env, num_envs=num_envs, **options))


if not TYPE_CHECKING:

    def __getattr__(name):
        if name in ("Engine", "Batch"):  # loaded when asked for: torch takes two seconds
            from leanfast.envs import native

            return getattr(native, name)
        raise AttributeError(f"module 'leanfast' has no attribute {name!r}")
