"""What a run that met a number which is not finite leaves behind."""

from pathlib import Path

import torch
from tensordict import TensorDict

from leanfast.errors import RunError

WHAT = {
    "faulty_rows": "an observation or a reward from the environment is not finite",
    "faulty_batch": "the loss is not finite",
}


def leave_on_disk(folder: Path, name: str, fault: TensorDict, seed: int) -> RunError:
    """fault.pt, for torch.load, and the error that says so."""
    env_steps, updates = int(fault["env_steps"]), int(fault["updates"])
    batch = {key: value.cpu() for key, value in fault["batch"].items()}
    values = {"what": WHAT[name], "env_steps": env_steps, "updates": updates, "seed": seed}
    torch.save({**values, "batch": batch}, folder / "fault.pt")
    return RunError(
        f"{WHAT[name]}: first after {env_steps} env steps and {updates} updates, seed {seed}; "
        f"{folder / 'fault.pt'} holds the batch"
    )
