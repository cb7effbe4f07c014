"""Streams and events of CUDA's, as far as a Crossing uses them, on the CPU: work is queued, and
done at any later moment that the events allow."""

import random
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode


class FakeCuda:
    def __init__(self, seed):
        self.random, self.streams = random.Random(seed), []
        self.learner = Stream(self)

    def Stream(self, device):  # noqa: N802
        return Stream(self)

    def Event(self):  # noqa: N802
        return Event(self)

    def current_stream(self, device):
        return self.learner

    @contextmanager
    def stream(self, stream):
        with Queued(stream):
            yield

    def run_some(self):
        for _ in range(self.random.randrange(6)):
            self.run_one()

    def run_one(self):
        """Does the next work of some stream that need not wait; False if there is none."""
        ready = [s for s in self.streams if s.work and s.work[0][0]()]
        if ready:
            self.random.choice(ready).work.pop(0)[1]()
        return bool(ready)

    def run_all(self):
        while self.run_one():
            pass
        assert not any(stream.work for stream in self.streams)


class Stream:
    def __init__(self, cuda):
        self.work = []
        cuda.streams.append(self)

    def submit(self, work, ready=lambda: True):
        self.work.append((ready, work))

    def wait_event(self, event):
        mark = event.mark
        self.submit(lambda: None, lambda: mark["reached"])


class Event:
    def __init__(self, cuda):
        self.cuda, self.mark = cuda, {"reached": True}

    def record(self, stream):
        self.mark = mark = {"reached": False}
        stream.submit(lambda: mark.update(reached=True))

    def synchronize(self):
        while not self.mark["reached"]:
            assert self.cuda.run_one()


class Queued(TorchFunctionMode):
    """Copies that do not block go to a stream."""

    def __init__(self, stream):
        super().__init__()
        self.target = stream

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is not torch.Tensor.copy_:
            return function(*args, **(kwargs or {}))
        assert kwargs == {"non_blocking": True}
        to, source = args
        self.target.submit(lambda: to.copy_(source))
        return to
