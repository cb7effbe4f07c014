"""How this process computes on the CPU. Each thread has a setting of its own, which threads that it
starts inherit."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def arithmetic(threads: int, flush_denormals: bool = True) -> Iterator[None]:
    """`threads` threads for an operation, and numbers too small for 24 digits are zero: those to
    which Adam's moments of unused weights decay take fifty times as long to compute with."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(flush_denormals)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)
