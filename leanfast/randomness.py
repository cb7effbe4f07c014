"""Random numbers as a pure function of (key, counter, lane): the same in every execution mode and
on every device, and nothing but the counter to save."""

import torch

from leanfast.fusion import once

_MASK = 0xFFFFFFFF
# From the hash-prospector project; below 2^31, so that no product leaves int64.
_MULTIPLY = (0x21F0AAAD, 0x735A2D97)


def key(seed: int, stream: int) -> int:
    """32 bits that tell one use of a seed from another."""
    number = _mix_int(seed & _MASK)
    number = _mix_int(number ^ ((seed >> 32) & _MASK))
    return _mix_int(number ^ stream)


def bits(key: torch.Tensor, counter: torch.Tensor, lanes: int) -> torch.Tensor:
    """[lanes], 32 random bits each, as int64."""
    scalar = _mix((counter & _MASK) ^ key)
    scalar = _mix((scalar + (counter >> 32)) & _MASK)
    return _mix(_mix(torch.arange(lanes, device=key.device)) ^ scalar)


def integers(random: torch.Tensor, below: int | torch.Tensor) -> torch.Tensor:
    """Bits to whole numbers from 0; `below` is at most 2^31."""
    return (random * below) >> 32


def unit(random: torch.Tensor) -> torch.Tensor:
    """Bits to float32 numbers in [0, 1)."""
    return (random >> 8).to(torch.float32) * 2.0**-24


def _mix(x: torch.Tensor) -> torch.Tensor:
    x = x ^ (x >> 16)
    x = (x * _MULTIPLY[0]) & _MASK
    x = x ^ (x >> 15)
    x = (x * _MULTIPLY[1]) & _MASK
    x = x ^ (x >> 15)
    return once(x)


def _mix_int(x: int) -> int:
    x ^= x >> 16
    x = (x * _MULTIPLY[0]) & _MASK
    x ^= x >> 15
    x = (x * _MULTIPLY[1]) & _MASK
    return x ^ (x >> 15)
