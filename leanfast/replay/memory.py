"""Whether a ring fits, said before anything is allocated."""

from dataclasses import replace

import torch

from leanfast.errors import UsageError
from leanfast.memory import free_host_memory, in_words
from leanfast.replay.ring import Ring

SPARED = 0.1  # of the free memory is left to everything else where a size is proposed


def free_memory(device: torch.device | str) -> float:
    """Bytes that can still be allocated on a device; for the CPU within this process's cgroup."""
    device = torch.device(device)
    if device.type != "cuda":
        return free_host_memory()
    # What an earlier run in this process gave back stays with torch, not with the driver.
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(torch.cuda.mem_get_info(device)[0] + kept)


def check_memory(ring: Ring, device: torch.device | str) -> None:
    """A UsageError with the size that would fit, if the ring's storage does not fit."""
    free, need = free_memory(device), ring.nbytes()
    if need <= free:
        return
    fits = largest_that_fits(ring, free * (1 - SPARED))
    fix = f"algo.buffer_size={fits} would fit" if fits else "no algo.buffer_size would fit"
    raise UsageError(
        f"a replay of {ring.steps * ring.lanes} transitions takes {in_words(need)} of {device} "
        f"memory, of which {in_words(free)} are free; {fix}"
    )


def largest_that_fits(ring: Ring, nbytes: float) -> int:
    """The most transitions that a ring like this one holds in `nbytes`; 0: not even one return."""
    fits, too_many = ring.n_step - 1, ring.steps
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if replace(ring, steps=middle).nbytes() <= nbytes:
            fits = middle
        else:
            too_many = middle
    return fits * ring.lanes if fits >= ring.n_step else 0
