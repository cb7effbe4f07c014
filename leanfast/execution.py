"""How a function of tensors is run: the only place that knows about execution modes."""

from collections.abc import Callable
from typing import Any

import torch

MODES: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "eager": lambda fn: fn,
    "compile": lambda fn: torch.compile(fn, fullgraph=True, dynamic=False),
}


def accelerate(fn: Callable[..., Any], mode: str) -> Callable[..., Any]:
    """The same function, run in `mode`."""
    return MODES[mode](fn)


def choose(mode: str, device: str) -> tuple[str, str]:
    """The mode that runs where `mode` is asked for, and why."""
    if mode != "auto":
        return mode, "as asked"
    from leanfast import doctor

    verdict = doctor.execution_modes(doctor.examine())["compile"]
    if device in verdict["devices"]:
        return "compile", "the fastest that this machine runs"
    return "eager", verdict["why_not"][device]
