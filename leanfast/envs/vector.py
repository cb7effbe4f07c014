"""The engine as Gymnasium sees it: a VectorEnv over a whole batch, an Env over a batch of one.

    import gymnasium, leanfast
    envs = gymnasium.make_vec("leanfast/CartPole-v1", num_envs=768, seed=1)
    observations, infos = envs.reset()
    observations, rewards, terminations, truncations, infos = envs.step(actions)

An env that ends starts again in the same step: `observations` has the first of its next episode,
infos["final_obs"] the true last one, and infos["final_info"]["episode"] the return "r", length "l"
and seconds "t", all laid out as by Gymnasium's SyncVectorEnv with AutoresetMode.SAME_STEP. Actions
out of bounds are refused, not clipped: gymnasium.wrappers.vector.ClipAction clips them.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from leanfast.envs.native import Batch, Engine
from leanfast.envs.registry import Definition, ParamValue
from leanfast.envs.spaces import action_space, observation_space

NO_LIMIT = 2**31 - 1


class Arrays(NamedTuple):
    """A Batch's memory as NumPy shows it."""

    observation: np.ndarray
    next_observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    done: np.ndarray
    episode_return: np.ndarray
    episode_length: np.ndarray

    @classmethod
    def of(cls, batch: Batch) -> "Arrays":
        return cls(**{name: tensor.numpy() for name, tensor in batch.items()})


class NativeVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """`env` is a built-in name or the path of a C++ header of one's own.

    Seeds are the engine's: one seed gives every env a stream of its own, by its index; a list
    gives each its seed. Rewards are float32, as the engine computes them. Discrete actions are
    int64 or int32, continuous ones float32.

    What is returned is a copy. With copy=False observations, rewards and flags are the engine's own
    two sets of buffers: valid until the second step or reset after; final_obs is always a copy.

    With A agents an env observes Box (A, ...), takes MultiDiscrete([n] * A) or Box (A, ...), and
    earns A rewards: [N, A].
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium's own declaration)
        "render_modes": [],
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }
    autoreset_mode = AutoresetMode.SAME_STEP

    def __init__(
        self,
        env: str | Definition,
        num_envs: int = 1,
        *,
        threads: int | None = None,
        seed: int | Sequence[int] | None = None,
        params: Mapping[str, ParamValue] | None = None,
        max_episode_steps: int | None = None,
        copy: bool = True,
        render_mode: str | None = None,
        **unknown: Any,
    ):
        takes = "threads, seed, params, max_episode_steps and copy"
        _check_options(env, render_mode, unknown, takes)
        limit = NO_LIMIT if max_episode_steps == -1 else max_episode_steps  # as gymnasium.make's
        self.engine = Engine(
            env, num_envs, threads=threads, seed=seed, params=params, max_episode_steps=limit
        )
        self.num_envs = num_envs
        self.copy = copy
        self.single_observation_space = observation_space(self.engine.spec)
        self.single_action_space = action_space(self.engine.spec)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._slots = _slots(self.engine)
        self._turn = 0
        self._began = np.zeros(num_envs)  # when each env's episode did

    def reset(
        self,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """options={"reset_mask": bool array} begins new episodes in the masked envs only."""
        mask = _reset_mask(options)
        self._turn ^= 1
        arrays: Any = self.engine.reset(seed, mask, self._slots[self._turn])
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
        self._began[slice(None) if mask is None else mask] = time.perf_counter()
        return arrays.observation.copy() if self.copy else arrays.observation, {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self._turn ^= 1
        arrays = self.engine.step(actions, self._slots[self._turn])
        infos = self._final(arrays) if np.count_nonzero(arrays.done) else {}
        if not self.copy:
            return arrays.observation, arrays.reward, arrays.terminated, arrays.truncated, infos
        return (
            arrays.observation.copy(),
            arrays.reward.copy(),
            arrays.terminated.copy(),
            arrays.truncated.copy(),
            infos,
        )

    def close_extras(self, **_: Any) -> None:
        if hasattr(self, "engine"):  # Gymnasium before 1.3 closes what it could not make, too
            self.engine.close()

    def _final(self, arrays: Arrays) -> dict[str, Any]:
        done = arrays.done.copy()
        ended = done.nonzero()[0]
        rows = arrays.next_observation.take(ended, 0)
        last = np.empty(self.num_envs, object)  # filled with None
        last[ended] = np.fromiter(rows, object, len(rows))
        now = time.perf_counter()
        seconds = now - self._began
        self._began[ended] = now
        episode = {
            "r": _only(ended, arrays.episode_return, np.float64),
            "_r": done,
            "l": _only(ended, arrays.episode_length, np.int64),
            "_l": done,
            "t": _only(ended, seconds, np.float64),
            "_t": done,
        }
        return {
            "final_obs": last,
            "_final_obs": done,
            "final_info": {"episode": episode, "_episode": done},
            "_final_info": done,
        }


class NativeEnv(gymnasium.Env[np.ndarray, Any]):
    """One environment, for gymnasium.make(). It has no time limit of its own: Gymnasium's TimeLimit
    wrapper keeps the registered one, so that make(..., max_episode_steps=n) may also lengthen it.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        env: str | Definition,
        *,
        params: Mapping[str, ParamValue] | None = None,
        render_mode: str | None = None,
        **unknown: Any,
    ):
        _check_options(env, render_mode, unknown, "params and max_episode_steps")
        self.engine = Engine(env, 1, threads=1, params=params, max_episode_steps=NO_LIMIT)
        agents = self.engine.agents
        if agents > 1:
            raise ValueError(
                f"{self.engine.spec['name']} has {agents} agents, each with a reward, and a "
                "gymnasium.Env has one: use gymnasium.make_vec(), which takes num_envs=1 too"
            )
        self.observation_space = observation_space(self.engine.spec)
        self.action_space = action_space(self.engine.spec)
        self._slots = _slots(self.engine)
        self._turn = 0
        self._ended: Arrays | None = None  # the episode's last step; shows the next one's start

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if options:
            raise ValueError(f"reset takes no options for a single environment, not {options!r}")
        super().reset(seed=seed)
        arrays: Any = self._ended
        self._ended = None
        if arrays is None or seed is not None:
            self._turn ^= 1
            arrays = self.engine.reset(seed, None, self._slots[self._turn])
        return arrays.observation[0].copy(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._ended is not None:
            raise gymnasium.error.ResetNeeded("step: the episode has ended; call reset() first")
        self._turn ^= 1
        arrays = self.engine.step(self._one_row(action), self._slots[self._turn])
        if arrays.done[0]:
            self._ended = arrays
        observation = arrays.next_observation[0].copy()
        return observation, float(arrays.reward[0]), bool(arrays.terminated[0]), False, {}

    def close(self) -> None:
        self.engine.close()

    def _one_row(self, action: Any) -> np.ndarray:
        values = np.asarray(action)
        if isinstance(self.action_space, gymnasium.spaces.Box) and values.dtype.kind in "fiu":
            values = values.astype(np.float32)  # Python's floats are float64
        elif values.dtype.kind in "iu":
            values = values.astype(np.int64)
        return np.ascontiguousarray(values[None])


def _slots(engine: Engine) -> list[Any]:
    """The engine's two sets of buffers, shown as NumPy arrays; to be written in turn."""
    return [engine.slot(shown=Arrays.of(b), **dict(b.items())) for b in engine.buffers]


def _only(ended: np.ndarray, values: np.ndarray, dtype: Any) -> np.ndarray:
    kept = np.zeros(values.shape, dtype)
    kept[ended] = values.take(ended, 0)
    return kept


def _reset_mask(options: Mapping[str, Any] | None) -> np.ndarray | None:
    if not options:
        return None
    for name in options:
        if name != "reset_mask":
            raise ValueError(f"reset has no option {name!r}; it has: reset_mask")
    mask = options["reset_mask"]
    if not np.any(mask):
        raise ValueError("reset_mask is False everywhere; at least one env must be reset")
    return mask


def _check_options(env: object, render_mode: object, unknown: Mapping, takes: str) -> None:
    name = getattr(env, "key", env)
    if unknown:
        raise TypeError(f"{name} has no argument {next(iter(unknown))!r} here; it takes {takes}")
    if render_mode is not None:
        raise ValueError(f"render_mode must be None ({name} draws nothing), not {render_mode!r}")
