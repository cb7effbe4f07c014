"""algo.batch_size=auto: the largest batch that the learner's device can hold."""

import torch
from tensordict import TensorDict

from leanfast.errors import RunError
from leanfast.learners.dqn import DQN
from leanfast.replay.ring import Ring

LARGEST = 2**15


def largest_that_fits(learner: DQN, ring: Ring, replay: TensorDict) -> int:
    """Tries an update on a copy of the state, and half the batch where memory runs out."""
    size = 2 ** (min(LARGEST, ring.steps * ring.lanes).bit_length() - 1)
    while size >= learner.options.accumulate:
        rows = size - size % learner.options.accumulate
        try:
            state = learner.state.clone()
            batch = ring.sample(replay, rows, state["sampling_key"], state["updates"])
            learner.update(state, batch)
            return rows
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            if not _ran_out_of_memory(error):
                raise
        if learner.device.type == "cuda":
            torch.cuda.empty_cache()
        size //= 2
    raise RunError("algo.batch_size=auto: not even the smallest batch fits into memory")


def _ran_out_of_memory(error: RuntimeError) -> bool:
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return "can't allocate memory" in str(error) or "not enough memory" in str(error)
