"""Adam and AdamW on flat vectors, with the scaling of losses that float16 needs.

Functions of the learner's state, which they write in place. torch.optim's own optimizers break a
compiled update into three graphs, a third as fast.
"""

import math

import torch
from tensordict import TensorDict

from leanfast.fusion import once

BETAS, EPS = (0.9, 0.999), 1e-8  # torch.optim's
FIRST_SCALE, GROWTH_INTERVAL = 2.0**16, 2000  # torch.amp.GradScaler's


def state_of(params: torch.Tensor, scaled: bool) -> dict[str, torch.Tensor]:
    zero = torch.zeros((), dtype=torch.int64, device=params.device)
    state = {
        "exp_avg": torch.zeros_like(params),
        "exp_avg_sq": torch.zeros_like(params),
        "optimizer_steps": zero,
    }
    if scaled:
        state["loss_scale"] = torch.full((), FIRST_SCALE, device=params.device)
        state["steps_at_scale"] = zero.clone()
    return state


def step(
    state: TensorDict, gradient: torch.Tensor, *, decay: float, decoupled: bool
) -> torch.Tensor:
    """The new parameters, which the caller writes. Where losses are scaled, a gradient that
    overflowed changes nothing but the scale."""
    params, rate = state["params"], state["learning_rate"]
    if decay and decoupled:
        params = params - rate * decay * params
    elif decay:
        gradient = gradient + decay * params
    count = state["optimizer_steps"] + 1
    mean = once(state["exp_avg"].lerp(gradient, 1 - BETAS[0]))
    square = once(state["exp_avg_sq"].lerp(gradient.square(), 1 - BETAS[1]))
    # 1 - beta^count, without the digits that it would lose at the first steps.
    mean_scale, square_scale = (once(-torch.expm1(count * math.log(beta))) for beta in BETAS)
    changed = once(params - rate * (mean / mean_scale) / ((square / square_scale).sqrt() + EPS))
    new = {"exp_avg": mean, "exp_avg_sq": square, "optimizer_steps": count}
    if "loss_scale" in state.keys():  # noqa: SIM118
        finite = gradient.isfinite().all()
        new = {name: torch.where(finite, value, state[name]) for name, value in new.items()}
        changed = torch.where(finite, changed, state["params"])
        _rescale(state, finite)
    for name, value in new.items():
        state[name].copy_(value)
    return changed


def _rescale(state: TensorDict, finite: torch.Tensor) -> None:
    scale, steps = state["loss_scale"], state["steps_at_scale"]
    steps = torch.where(finite, steps + 1, 0)
    grow = steps >= GROWTH_INTERVAL
    state["loss_scale"].copy_(torch.where(finite, torch.where(grow, scale * 2, scale), scale / 2))
    state["steps_at_scale"].copy_(torch.where(grow, 0, steps))
