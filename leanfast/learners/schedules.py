"""Numbers that change while a run goes on, as functions of a step counter on the device."""

import math

import torch

from leanfast.config import Epsilon


def scheduled(kind: str, now: torch.Tensor, steps: int, start: float, end: float) -> torch.Tensor:
    """From `start` to `end` in `steps` steps, "linear" or as a "cosine"."""
    part = (now / steps).clamp(max=1)
    if kind == "cosine":
        part = (1 - torch.cos(math.pi * part)) / 2
    return start + part * (end - start)


def epsilons(epsilon: torch.Tensor, options: Epsilon, lanes: int, agents: int = 1) -> torch.Tensor:
    """Of each lane. On a ladder env i of n explores with epsilon^(1 + ladder * i / (n - 1)), as
    Ape-X's actors do: the first as much as all would without one, the last the least."""
    if options.ladder is None:
        return epsilon.expand(lanes)
    env = torch.arange(lanes, device=epsilon.device) // agents
    return epsilon ** (1 + options.ladder * env / max(1, lanes // agents - 1))
