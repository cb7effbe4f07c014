"""Numbers that are not finite, noticed on the device: the first batch that has one is kept, with
when it came, until somebody looks."""

import torch
from tensordict import TensorDict

NEVER = -1


def place(example: TensorDict, device: torch.device) -> TensorDict:
    """Where the first faulty batch like `example` will be kept."""
    never = torch.full((), NEVER, dtype=torch.int64, device=device)
    kept = TensorDict({name: torch.zeros_like(x, device=device) for name, x in example.items()})
    return TensorDict({"env_steps": never, "updates": never.clone(), "batch": kept})


def keep(fault: TensorDict, batch: TensorDict, faulty: torch.Tensor, state: TensorDict) -> None:
    first = faulty & (fault["env_steps"] == NEVER)
    for name, kept in fault["batch"].items():
        kept.copy_(torch.where(first, batch[name], kept))
    for name in ("env_steps", "updates"):
        fault[name].copy_(torch.where(first, state[name], fault[name]))


def any_not_finite(*tensors: torch.Tensor) -> torch.Tensor:
    checked = [~tensor.isfinite().all() for tensor in tensors if tensor.is_floating_point()]
    return torch.stack(checked).any()
