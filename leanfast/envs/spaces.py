"""Gymnasium's spaces and the engine's description of them (spec["observation"] and so on)."""

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space


def observation_space(spec: dict[str, Any]) -> Box:
    """What one env shows; with several agents, one row for each."""
    return _box(spec["observation"], _agents(spec))


def action_space(spec: dict[str, Any]) -> Discrete | MultiDiscrete | Box:
    """What one env takes; with several agents, one action for each."""
    action, agents = spec["action"], _agents(spec)
    if not isinstance(action, int):
        return _box(action, agents)
    return MultiDiscrete([action] * agents[0]) if agents else Discrete(action)


def describe_observation(space: Space, of: str) -> dict[str, Any]:
    if not isinstance(space, Box):
        raise ValueError(
            f"{of} observes {space}; only a Box fits a batch of tensors: make it one with "
            "gymnasium.wrappers.FlattenObservation or gymnasium.wrappers.FilterObservation"
        )
    return _describe(space)


def describe_action(space: Space, of: str) -> int | dict[str, Any]:
    if isinstance(space, Discrete):
        return int(space.n)
    if not isinstance(space, Box) or space.dtype.kind != "f":
        raise ValueError(
            f"{of} takes {space}; only a Discrete or a Box of floats fits a batch of tensors: "
            "make it one with gymnasium.wrappers.TransformAction"
        )
    return _describe(space)


def _agents(spec: dict[str, Any]) -> tuple[int, ...]:
    return (spec["agents"],) if spec["agents"] > 1 else ()


def _box(box: dict[str, Any], lead: tuple[int, ...]) -> Box:
    dtype: Any = np.uint8 if box["dtype"] == "uint8" else np.float32
    low, high = (_spread(box[side], box["shape"], lead).astype(dtype) for side in ("low", "high"))
    return Box(low, high, dtype=dtype)


def _spread(values: list[float], shape: tuple[int, ...], lead: tuple[int, ...]) -> Any:
    bounds = np.array(values)
    return np.broadcast_to(bounds.reshape(shape) if len(values) > 1 else bounds, (*lead, *shape))


def _describe(box: Box) -> dict[str, Any]:
    """Any other dtype than uint8 becomes float32; equal bounds are said once."""
    dtype = "uint8" if box.dtype == np.uint8 else "float"
    with np.errstate(over="ignore"):  # float64's largest number stands for no bound at all
        bounds = {side: getattr(box, side).astype(np.float32) for side in ("low", "high")}
    same = all((values == values.flat[0]).all() for values in bounds.values())
    lists = {k: v.ravel()[: 1 if same else None].tolist() for k, v in bounds.items()}
    return {"dtype": dtype, "shape": tuple(box.shape), **lists}
