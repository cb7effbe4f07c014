"""A continuous action space as a few choices: evenly spaced values of each dimension, both bounds
among them, and every combination of these."""

import itertools
import math
from typing import Any

import numpy as np

MOST = 4096


def problem(of: str, spec: dict[str, Any], bins: int | None) -> str | None:
    """Why the actions of `spec` cannot be chosen among with env.action_bins=`bins`, if so."""
    action = spec["action"]
    if isinstance(action, int):
        if bins is None:
            return None
        return f"env.action_bins is {bins}, but {of} has {action} actions as it is; leave it null"
    size = math.prod(action["shape"])
    best, dimensions = most_bins(size), f"{size} dimension{'s' * (size != 1)}"
    if best < 2:
        return (
            f"{of} has continuous actions of {dimensions}, of which even 2 values each make "
            f"2^{size} choices; {MOST} are the most"
        )
    if bins is None:
        return (
            f"{of} has continuous actions of {dimensions}, and a few to choose from are needed: "
            f"env.action_bins={min(11, best)} takes so many values of each"
        )
    if bins < 2:
        return f"env.action_bins is {bins}; it must be at least 2, for both bounds are taken"
    if not all(map(math.isfinite, (*action["low"], *action["high"]))):
        return (
            f"{of} has actions without bounds, so that env.action_bins={bins} has no range to take "
            "values of; bound them with gymnasium.wrappers.RescaleAction or TransformAction"
        )
    if bins > best:
        return (
            f"env.action_bins is {bins}, which makes {bins}^{size} choices of {of}'s {dimensions}; "
            f"{MOST} are the most, so it can be 2 to {best}"
        )
    return None


def most_bins(size: int) -> int:
    """The largest number of values of each of `size` dimensions."""
    return max(k for k in range(1, MOST + 1) if k**size <= MOST)


def table(action: dict[str, Any], bins: int) -> np.ndarray:
    """float32 [choices, *shape]; the last dimension changes first."""
    size = math.prod(action["shape"])
    low, high = (np.broadcast_to(action[side], size) for side in ("low", "high"))
    values = [np.linspace(a, b, bins) for a, b in zip(low, high, strict=True)]
    rows = np.array(list(itertools.product(*values)), np.float32)
    return rows.reshape(-1, *action["shape"])
