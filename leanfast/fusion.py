"""What the compiler should know about a tensor, and cannot be told otherwise."""

import torch


def once(x: torch.Tensor) -> torch.Tensor:
    """The same tensor, computed once and stored. The compiler would write it out anew at each of
    its uses: a chain of such tensors doubles at each link and takes minutes to compile, and a
    number for a whole vector is computed for each element."""
    return x.as_strided(x.shape, x.stride())
