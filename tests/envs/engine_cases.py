"""What the tests of the engine share: actions for any environment, and whole trajectories."""

import numpy as np
import torch

from leanfast.envs.native import Batch, Engine
from leanfast.envs.registry import builtin

ENVS = sorted(builtin())
FIELDS = list(Batch.__slots__)


def actions_for(engine: Engine, rng: np.random.Generator) -> torch.Tensor:
    """Random valid actions, the same ones for the first envs whatever their number."""
    per_env = engine.spec["agents"] if engine.spec["agents"] > 1 else None
    action = engine.spec["action"]
    shape = () if per_env is None else (per_env,)
    if isinstance(action, int):
        rows = rng.integers(0, 2**31, (engine.num_envs, *shape)) % action
        return torch.from_numpy(rows)
    low, high = np.array(action["low"]), np.array(action["high"])
    rows = rng.uniform(size=(engine.num_envs, *shape, *action["shape"])) * (high - low) + low
    return torch.from_numpy(rows).to(engine.dtype)


def copied(batch: Batch) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in batch.items()}


def play(engine: Engine, steps: int, seed: int = 0, mask: bool = True) -> list[dict]:
    """Steps with random actions and, halfway, a partial reset; what each of them gave."""
    rng = np.random.default_rng(seed)
    seen = []
    for step in range(steps):
        if mask and step == steps // 2:
            seen.append(copied(engine.reset(mask=torch.arange(engine.num_envs) % 3 == 0)))
        engine.send(actions_for(engine, rng))
        seen.append(copied(engine.recv()))
    return seen


def assert_same(a: list[dict], b: list[dict]) -> None:
    """Bit for bit: NaN equals itself, 0.0 does not equal -0.0."""
    assert len(a) == len(b)
    for step, (left, right) in enumerate(zip(a, b, strict=True)):
        for name in FIELDS:
            same = left[name].contiguous().view(torch.uint8), right[name].view(torch.uint8)
            assert torch.equal(*same), f"{name} differs at step {step}"
