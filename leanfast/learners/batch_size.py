"""algo.batch_size=auto: the largest batch that the learner's device can hold."""

from typing import Any

import torch
from tensordict import TensorDict
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from leanfast.errors import RunError
from leanfast.learners.dqn import DQN
from leanfast.memory import free_host_memory
from leanfast.replay.ring import Ring

LARGEST = 2**15


def largest_that_fits(learner: DQN, ring: Ring, replay: TensorDict) -> int:
    """Tries an update on a copy of the state, and half the batch where memory runs out."""
    smallest = learner.options.accumulate
    size = 2 ** (min(LARGEST, ring.steps * ring.lanes).bit_length() - 1)
    while size >= smallest:
        rows = size - size % smallest
        if _fits(learner, ring, replay, rows):
            return rows
        if learner.device.type == "cuda":
            torch.cuda.empty_cache()
        size //= 2
    raise RunError(
        f"algo.batch_size=auto: not even a batch of {smallest} (algo.accumulate) fits into the "
        f"memory of {learner.device}; a smaller network might"
    )


def _fits(learner: DQN, ring: Ring, replay: TensorDict, rows: int) -> bool:
    if (
        learner.device.type == "cpu"
        and _most_used(learner, ring, replay, rows) > free_host_memory()
    ):
        return False  # Linux ends a process that takes more, without a word
    try:
        _update(learner, ring, replay, rows)
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error):
            return False
        raise
    return True


def _update(learner: DQN, ring: Ring, replay: TensorDict, rows: int) -> None:
    state, home = learner.state.clone(), replay["cursor"].device
    draw = (state["sampling_key"].to(home), state["updates"].to(home))
    learner.update(state, ring.sample(replay, rows, *draw).to(learner.device))


def _most_used(learner: DQN, ring: Ring, replay: TensorDict, rows: int) -> float:
    """Bytes: all that an update makes, were none of it freed meanwhile. It grows with the rows."""
    few, made = learner.options.accumulate, []
    for size in (few, 2 * few):
        with _Made() as counted:
            _update(learner, ring, replay, size)
        made.append(counted.nbytes)
    return made[0] + (made[1] - made[0]) / few * (rows - few)


class _Made(TorchDispatchMode):
    nbytes = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if not function.is_view:
            made = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
            self.nbytes += sum(x.nbytes for x in made)
        return result
