"""Batches from a ring on the host for a learner on another device."""

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict


class Prefetch:
    """Batches drawn one ahead: while the learner uses one, the next one is on its way.

    `draw(counter)` samples a batch from the ring; the counter is a 0-dim int64 tensor on the CPU,
    one higher at each draw. Everything happens in next(), in the thread that calls it: the first
    call draws two batches and gives the first of them, and each later call gives what the call
    before drew and draws another. So batch u holds what was in the ring when batch u - 1 was given,
    on every device, and no draw meets a write by the same thread. A batch stays as it is until
    the next call.
    """

    def __init__(self, draw: Callable[[torch.Tensor], TensorDict], device: torch.device | str):
        device = torch.device(device)
        self._draw = draw
        self._way = HandOver() if device.type == "cpu" else Crossing(device)
        self._draws = torch.zeros((), dtype=torch.int64)
        self._ahead: TensorDict | None = None

    def next(self) -> TensorDict:
        """The batch to learn from now, on the learner's device."""
        if self._ahead is None:
            self._send()
        batch = self._way.receive()
        self._send()
        return batch

    def state_dict(self) -> dict[str, Any]:
        """How many batches were drawn, and the one that was drawn ahead."""
        ahead = None if self._ahead is None else self._ahead.clone()
        return {"draws": self._draws.clone(), "ahead": ahead}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._draws.copy_(state["draws"])
        self._way.clear()
        self._ahead = None
        if state["ahead"] is not None:
            self._ahead = state["ahead"].clone()
            self._way.send(self._ahead)

    def _send(self) -> None:
        self._ahead = self._draw(self._draws)
        self._draws += 1
        self._way.send(self._ahead)


class HandOver:
    """From the host to the host: the same order of work, and nothing to copy."""

    def __init__(self) -> None:
        self._batches: list[TensorDict] = []

    def send(self, batch: TensorDict) -> None:
        self._batches.append(batch)

    def receive(self) -> TensorDict:
        return self._batches.pop(0)

    def clear(self) -> None:
        self._batches.clear()


class Crossing:
    """From pinned memory to a device, on a stream of its own: two batches, taken in turn.

    The host writes a pinned batch once its last transfer has ended; the stream writes a device's
    batch once the work that used it has ended; the learner's stream waits for the transfer.
    """

    def __init__(self, device: torch.device, cuda: Any = torch.cuda):
        self._device, self._cuda = device, cuda
        self._stream = cuda.Stream(device)
        self._sides: list[Side] = []
        self._sent = self._received = 0

    def send(self, batch: TensorDict) -> None:
        if len(self._sides) < 2:
            self._sides.append(Side(batch, self._device, self._cuda))
        side, learner = self._sides[self._sent % 2], self._cuda.current_stream(self._device)
        self._sent += 1
        side.arrived.synchronize()
        for name, value in batch.items():
            side.pinned[name].copy_(value)
        # All work with what this side held before was given to the learner's stream by now.
        side.used.record(learner)
        self._stream.wait_event(side.used)
        with self._cuda.stream(self._stream):
            for name, value in side.pinned.items():
                side.batch[name].copy_(value, non_blocking=True)
            side.arrived.record(self._stream)

    def receive(self) -> TensorDict:
        side = self._sides[self._received % 2]
        self._received += 1
        self._cuda.current_stream(self._device).wait_event(side.arrived)
        return side.batch

    def clear(self) -> None:
        self._received = self._sent


class Side:
    def __init__(self, batch: TensorDict, device: torch.device, cuda: Any):
        pinned = torch.cuda.is_available()
        self.pinned = TensorDict(
            {name: torch.empty_like(x, pin_memory=pinned) for name, x in batch.items()},
            batch.batch_size,
        )
        self.batch = TensorDict(
            {name: torch.empty_like(x, device=device) for name, x in batch.items()},
            batch.batch_size,
        )
        self.arrived, self.used = cuda.Event(), cuda.Event()
