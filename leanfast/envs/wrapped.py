"""Any Gymnasium environment, single or vectorised, as a batch with the engine's methods.

    batch = GymnasiumBatch("LunarLander-v3", num_envs=8, vectorization_mode="async")
    batch = GymnasiumBatch(lambda: MyEnv(), num_envs=8)
    batch = GymnasiumBatch(gymnasium.make("LunarLander-v3"))        # one env
    batch = GymnasiumBatch(gymnasium.make_vec("LunarLander-v3", num_envs=8))

Whatever the autoreset mode, every batch is one transition of each env: next_observation is the true
last one, observation the one to act on next, and a reset is never a transition. Where Gymnasium
would reset in the following step (NEXT_STEP) or not at all (DISABLED), the envs that ended are
reset here, within the step; Gymnasium's reset_mask chooses them. A vector env of another class that
resets in the following step, such as CartPoleVectorEnv, is made again from its id as a
SyncVectorEnv.

"async" starts processes in multiprocessing's way, which TorchRL sets to spawn: a script then needs
`if __name__ == "__main__":`, or vector_kwargs={"context": "fork"}.
"""

import contextlib
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from leanfast import _native
from leanfast.envs.foreign import autoreset_mode, describe, vector_env
from leanfast.envs.native import Batch, _seeds, _whole


class GymnasiumBatch:
    """`env` is an id, a function that makes one env, an env, or a vector env (then num_envs is its
    own). The keyword arguments go to gymnasium.make_vec().

    Observations are uint8 or become float32; rewards are float32. Where an env says that it both
    terminated and was truncated, it terminated. Seeds are Gymnasium's: env i of seed s gets s + i.
    Batches are the caller's: they are never written again.
    """

    agents = 1
    precision = "float32"
    dtype = torch.float32

    def __init__(
        self,
        env: str | EnvSpec | gymnasium.Env | VectorEnv | Callable,
        num_envs: int = 1,
        *,
        seed: int | Sequence[int] | None = None,
        vectorization_mode: str | None = None,
        **kwargs: Any,
    ):
        num_envs = _whole("num_envs", num_envs, 1, 2**31 - 1)
        self.env = vector_env(env, num_envs, vectorization_mode, kwargs)
        try:
            self.num_envs = self.env.num_envs
            self.spec = describe(self.env)
            self._mode = autoreset_mode(self.env, self.spec["name"])
            self.seed = secrets.randbits(31) if seed is None else seed
            _seeds(self.seed, self.num_envs)
        except Exception:
            if self.env is not env:
                self.env.close()
            raise
        self.closed = False
        self.was_reset = False
        self.in_flight = False
        self._actions: np.ndarray | None = None
        self._unseeded = True
        self._observation = np.zeros(0)
        self._return = np.zeros(self.num_envs)
        self._length = np.zeros(self.num_envs, np.int32)

    def reset(
        self,
        seed: int | Sequence[int] | None = None,
        mask: torch.Tensor | np.ndarray | None = None,
    ) -> Batch:
        """As Engine.reset: new episodes, in the masked envs only where a mask is given."""
        self._at_rest("reset")
        if mask is not None:
            mask = self._checked_mask(mask)
        if seed is None and self._unseeded and mask is None:
            seed = self.seed
        if seed is not None:
            seed = _seeds(seed, self.num_envs).tolist() if np.ndim(seed) else _whole_seed(seed)
        if mask is None:
            reset: Any = self.env.reset  # VectorEnv's signature leaves out lists of seeds
            self._observation = self._converted(reset(seed=seed)[0])
            mask = np.ones(self.num_envs, bool)
        elif mask.any():
            self._reset_masked(mask, seed)
        self._return[mask] = 0
        self._length[mask] = 0
        self._unseeded, self.was_reset = False, True
        none = np.zeros(self.num_envs, bool)
        return self._batch(self._observation, np.zeros(self.num_envs), none, none)

    def send(self, actions: torch.Tensor | np.ndarray) -> None:
        """Begin a step of every env; only an AsyncVectorEnv works on it before recv()."""
        self._at_rest("send")
        if not self.was_reset:
            raise _native.StateError("send: the envs were not reset yet; call reset() first")
        self._actions = self._taken(_checked_actions(actions, self.num_envs, self.spec))
        if isinstance(self.env, AsyncVectorEnv):
            self.env.step_async(self._actions)
        self.in_flight = True

    def recv(self) -> Batch:
        """Wait for the batch that send() began."""
        self._usable()
        if not self.in_flight:
            raise _native.StateError("recv: no batch is under way; call send(actions) first")
        # Until all went well: an env that raised stands nowhere known.
        self.in_flight = self.was_reset = False
        if isinstance(self.env, AsyncVectorEnv):
            step = self.env.step_wait()
        else:
            step = self.env.step(self._actions)
        observation, reward, terminated, truncated, infos = step
        terminated = np.array(terminated, bool)
        truncated = np.array(truncated, bool) & ~terminated
        done = terminated | truncated
        self._observation = last = self._converted(observation)
        self._return += reward
        self._length += 1
        if done.any():
            last = self._begin_next_episodes(done, infos)
        batch = self._batch(last, reward, terminated, truncated)
        self._return[done] = 0
        self._length[done] = 0
        self.was_reset = True
        return batch

    def step(self, actions: torch.Tensor | np.ndarray) -> Batch:
        self.send(actions)
        return self.recv()

    def close(self) -> None:
        """Close the environment, also one that was given; a second call does nothing."""
        if self.closed:
            return
        self.closed = True
        if self.in_flight and isinstance(self.env, AsyncVectorEnv):
            with contextlib.suppress(Exception):  # what the step led to is of no use any more
                self.env.step_wait()
        self.env.close()

    def __enter__(self) -> "GymnasiumBatch":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _begin_next_episodes(self, done: np.ndarray, infos: dict[str, Any]) -> np.ndarray:
        """Returns the true last observations; self._observation then has the first ones."""
        last = self._observation.copy()
        if self._mode is not AutoresetMode.SAME_STEP:
            self._reset_masked(done, None)
        elif "final_obs" in infos:
            for env in done.nonzero()[0]:
                last[env] = infos["final_obs"][env]
        else:
            raise RuntimeError(
                f"{self.spec['name']} says it resets in the same step, but its infos lack final_obs"
            )
        return last

    def _reset_masked(self, mask: np.ndarray, seed: int | list[int] | None) -> None:
        options = {"reset_mask": mask.copy()}
        reset: Any = self.env.reset  # VectorEnv's signature leaves out lists of seeds
        shown = self._converted(reset(seed=seed, options=options)[0])
        if not isinstance(
            self.env.unwrapped, SyncVectorEnv | AsyncVectorEnv
        ) and not np.array_equal(
            shown[~mask], self._observation[~mask], equal_nan=shown.dtype.kind == "f"
        ):
            self.was_reset = False
            raise RuntimeError(
                f"{self.spec['name']} ignores reset(options={{'reset_mask': ...}}): it reset envs "
                "that had not ended; make it with autoreset_mode=AutoresetMode.SAME_STEP"
            )
        self._observation[mask] = shown[mask]

    def _batch(
        self, last: np.ndarray, reward: Any, terminated: np.ndarray, truncated: np.ndarray
    ) -> Batch:
        return Batch(
            observation=torch.from_numpy(self._observation.copy()),
            next_observation=torch.from_numpy(last.copy()),
            reward=torch.from_numpy(np.array(reward, np.float32)),
            terminated=torch.from_numpy(terminated.copy()),
            truncated=torch.from_numpy(truncated.copy()),
            done=torch.from_numpy(terminated | truncated),
            episode_return=torch.from_numpy(self._return.astype(np.float32)),
            episode_length=torch.from_numpy(self._length.copy()),
        )

    def _converted(self, observation: Any) -> np.ndarray:
        dtype = np.uint8 if self.spec["observation"]["dtype"] == "uint8" else np.float32
        return np.array(observation, dtype)

    def _taken(self, actions: np.ndarray) -> np.ndarray:
        """Checked actions as the env's own space has them; always a copy."""
        space: Any = self.env.single_action_space
        if isinstance(space, gymnasium.spaces.Discrete):
            return actions.astype(space.dtype) + space.start
        # A bound rounded to float32 may lie outside the space's own.
        return np.clip(actions.astype(space.dtype), space.low, space.high)

    def _checked_mask(self, mask: torch.Tensor | np.ndarray) -> np.ndarray:
        array = _as_array("mask", mask)
        if array.dtype != np.bool_ or array.shape != (self.num_envs,):
            raise ValueError(
                f"mask is {array.dtype} of shape {array.shape}; it must be bool of shape "
                f"{(self.num_envs,)}"
            )
        if not self.was_reset:
            raise _native.StateError("reset: the first reset must be of all envs, without a mask")
        return array

    def _usable(self) -> None:
        if self.closed:
            raise _native.StateError("the environment is closed")

    def _at_rest(self, what: str) -> None:
        self._usable()
        if self.in_flight:
            raise _native.StateError(f"{what}: a batch is under way; call recv() first")


def _whole_seed(seed: object) -> int:
    return _whole("seed", seed, 0, 2**64 - 1)


def _as_array(name: str, values: object) -> np.ndarray:
    if isinstance(values, torch.Tensor):
        if values.device.type != "cpu":
            raise ValueError(
                f"{name} is on {values.device}; Gymnasium reads CPU memory: call .cpu() first"
            )
        return values.detach().numpy()
    if not isinstance(values, np.ndarray):
        raise TypeError(
            f"{name} must be a torch tensor or a NumPy array, not {type(values).__name__}"
        )
    return values


def _checked_actions(values: object, num_envs: int, spec: dict[str, Any]) -> np.ndarray:
    """The engine's rules, in its words."""
    actions, action, name = _as_array("actions", values), spec["action"], spec["name"]
    discrete = isinstance(action, int)
    if actions.dtype.name not in (("int64", "int32") if discrete else ("float32",)):
        valid = "int64 or int32" if discrete else "float32"
        raise ValueError(f"actions are {actions.dtype}; {name} takes {valid}")
    shape = (num_envs,) if discrete else (num_envs, *action["shape"])
    if actions.shape != shape:
        raise ValueError(f"actions has shape {actions.shape}; it must have shape {shape}")
    if discrete:
        low, high = np.array(0), np.array(action - 1)
    else:
        low, high = (_bound(action[side], action["shape"]) for side in ("low", "high"))
    outside = np.argwhere(~((actions >= low) & (actions <= high)))
    if len(outside):
        at = tuple(outside[0].tolist())
        value, least, most = (str(a[at]) for a in np.broadcast_arrays(actions, low, high))
        where = ", ".join(map(str, at))
        raise ValueError(f"actions[{where}] is {value}; {name} takes {least} to {most}")
    return actions


def _bound(values: list[float], shape: tuple[int, ...]) -> np.ndarray:
    bounds = np.array(values, np.float32)
    return bounds.reshape(shape) if len(values) > 1 else bounds
