"""A ring of transitions on the learner's device: tensors at fixed addresses, written and read in
place by functions that capture and compile."""

import math
from dataclasses import dataclass

import torch
from tensordict import TensorDict

from leanfast import randomness
from leanfast.fusion import once


@dataclass(frozen=True)
class Ring:
    """The last `steps` steps of each of `lanes` lanes; allocate() makes the storage.

    Every observation is stored once: a row's next observation is the observation of the row after
    it. Only where an episode was truncated, and in the newest row, is there no such row; there the
    next observation lies in one of the lane's spare rows, which follow the steps in `frames`. Each
    step writes its next observation to the lane's current spare row, and the lane moves on to its
    next spare row when it is truncated. A terminated row has no next observation: what sample()
    gives for it is some observation.

    `episode_limit` says that episodes are truncated at exactly that length and never before it, so
    that few spare rows are enough; None says that they may be truncated at any step, and then
    there are as many spare rows as steps.

    The rows of a lane must follow one another: where `terminated` and `truncated` are both False,
    the next row's observation is this one's next observation. They are never both True.
    """

    steps: int
    lanes: int
    observation_shape: tuple[int, ...]
    observation_dtype: torch.dtype
    n_step: int
    discount: float
    episode_limit: int | None

    def allocate(self, device: torch.device | str) -> TensorDict:
        """Empty storage."""
        storage = TensorDict(
            {
                name: torch.zeros(shape, dtype=dtype, device=device)
                for name, (shape, dtype) in self._layout().items()
            }
        )
        storage["spare"].fill_(self.steps)
        return storage

    def nbytes(self) -> int:
        """How much memory the storage takes."""
        return sum(math.prod(shape) * dtype.itemsize for shape, dtype in self._layout().values())

    def extend(self, storage: TensorDict, rows: TensorDict) -> None:
        """Puts rows [C, lanes] in the place of the oldest: C steps, at most as many as it holds."""
        count, device = rows.batch_size[0], storage["cursor"].device
        if count > self.steps:
            raise ValueError(f"{count} steps do not fit in a ring of {self.steps}")
        at = self._wrapped(storage["cursor"] + torch.arange(count, device=device))  # [C]
        truncated, lane = rows["truncated"], torch.arange(self.lanes, device=device)
        spare = storage["spare"].expand(count, -1)  # [C, lanes]: where each row's would go
        ending, ended = spare, rows["next_observation"]
        if count > 1:
            moved = truncated.cumsum(0) - truncated.long()
            spare = self._wrapped_spare(spare + moved)
            # Of the rows that share a spare row the last one counts. A lane that needs fewer spare
            # rows than others writes its last one again, so that no two writes to a place differ.
            needed = torch.arange(self._truncations(count) + 1, device=device)[:, None, None]
            last = (moved <= needed).sum(1) - 1  # [spare rows, lanes]
            ending, ended = spare.gather(0, last), ended[last, lane]
        end = torch.where(truncated, spare, -rows["terminated"].long())
        storage["frames"].index_copy_(0, at, rows["observation"])
        storage["frames"].index_put_((ending, lane), ended)
        storage["action"].index_copy_(0, at, rows["action"].to(torch.int32))
        storage["reward"].index_copy_(0, at, rows["reward"])
        storage["end"].index_copy_(0, at, end.to(torch.int32))
        storage["spare"].copy_(self._wrapped_spare(spare[-1] + truncated[-1]))
        storage["cursor"].copy_(self._wrapped(storage["cursor"] + count))
        storage["size"].copy_((storage["size"] + count).clamp(max=self.steps))

    def sample(
        self, storage: TensorDict, count: int, key: torch.Tensor, counter: torch.Tensor
    ) -> TensorDict:
        """`count` transitions of n steps, drawn uniformly; the same key and counter draw the same.

        A return ends early with its episode: `discount` is what the value of `next_observation`
        counts in it. The newest n - 1 steps, whose returns are not complete, are not drawn; while
        the ring holds fewer than n steps, the oldest one's return is over what there is. Nothing
        can be drawn from an empty ring."""
        frames, rewards, ends = storage["frames"], storage["reward"], storage["end"]
        newest = self._wrapped(storage["cursor"] + (self.steps - 1))
        first, lane = self._draw(storage, count, key, counter)
        ahead = torch.arange(self.n_step, device=lane.device)[:, None]
        steps = self._wrapped(first + ahead)  # [n, count]
        stops = (ends[steps, lane] != 0) | (steps == newest)
        taken = torch.where(stops, ahead + 1, self.n_step).amin(0)
        counted = torch.where(ahead < taken, self.discount**ahead, 0.0)
        last = self._wrapped(first + (taken - 1))
        end = ends[last, lane]
        following = torch.where(last == newest, storage["spare"][lane], self._wrapped(last + 1))
        following = torch.where(end > 0, end.long(), following)
        return TensorDict(
            {
                "observation": frames[first, lane],
                "action": storage["action"][first, lane].long(),
                "reward": (counted * rewards[steps, lane]).sum(0),
                "next_observation": frames[following, lane],
                "terminated": end < 0,
                "discount": self.discount**taken,
            },
            [count],
        )

    def _layout(self) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        steps, lanes = self.steps, self.lanes
        rows = steps + self._truncations(steps) + 1
        return {
            "frames": ((rows, lanes, *self.observation_shape), self.observation_dtype),
            "action": ((steps, lanes), torch.int32),
            "reward": ((steps, lanes), torch.float32),
            # 0: the episode goes on; -1: terminated; else truncated, and the row of `frames` that
            # holds the last observation.
            "end": ((steps, lanes), torch.int32),
            "spare": ((lanes,), torch.int64),  # the lane's current spare row
            "cursor": ((), torch.int64),  # the row to be written next
            "size": ((), torch.int64),  # how many steps there are
        }

    def _truncations(self, steps: int) -> int:
        """How many of a lane's `steps` rows can be truncated before the last of them."""
        return -(-(steps - 1) // (self.episode_limit or 1))

    def _draw(
        self, storage: TensorDict, count: int, key: torch.Tensor, counter: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows and lanes, [count] each."""
        size = storage["size"]
        complete = (size - (self.n_step - 1)).clamp(min=1)
        # The high half of a product is the lane, the low half is as random as the bits were.
        product = randomness.bits(key, counter, count) * self.lanes
        age = randomness.integers(product & 0xFFFFFFFF, complete)
        oldest = self._wrapped(storage["cursor"] + (self.steps - size))
        return once(self._wrapped(oldest + age)), once(product >> 32)

    def _wrapped(self, step: torch.Tensor) -> torch.Tensor:
        # Several times faster than %, for numbers below twice the size.
        return torch.where(step >= self.steps, step - self.steps, step)

    def _wrapped_spare(self, row: torch.Tensor) -> torch.Tensor:
        spare = self._truncations(self.steps) + 1
        return torch.where(row >= self.steps + spare, row - spare, row)
