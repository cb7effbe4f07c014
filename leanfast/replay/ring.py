"""A ring of transitions on the learner's device: one TensorDict, written and read in place.

`data` holds the rows, `cursor` where the next one goes, `size` how many are there.
"""

import torch
from tensordict import TensorDict

from leanfast import randomness


def allocate(capacity: int, row: TensorDict) -> TensorDict:
    """An empty ring for rows with the keys, shapes, dtypes and device of `row`."""
    return TensorDict(
        {
            "data": torch.zeros_like(row).expand(capacity).clone(),
            "cursor": torch.zeros((), dtype=torch.int64, device=row.device),
            "size": torch.zeros((), dtype=torch.int64, device=row.device),
        }
    )


def extend(ring: TensorDict, rows: TensorDict) -> None:
    """Puts rows in the place of the oldest; there are at most as many as the ring holds."""
    data, cursor, count = ring["data"], ring["cursor"], rows.batch_size[0]
    capacity = data.batch_size[0]
    at = (cursor + torch.arange(count, device=cursor.device)) % capacity
    for name in data.keys():  # noqa: SIM118
        data[name].index_copy_(0, at, rows[name])
    cursor.copy_((cursor + count) % capacity)
    ring["size"].copy_((ring["size"] + count).clamp(max=capacity))


def sample(ring: TensorDict, count: int, key: torch.Tensor, counter: torch.Tensor) -> TensorDict:
    """`count` rows, each drawn uniformly; the same key and counter draw the same places."""
    at = randomness.integers(randomness.bits(key, counter, count), ring["size"])
    data = ring["data"]
    return TensorDict({name: data[name][at] for name in data.keys()}, [count])  # noqa: SIM118
