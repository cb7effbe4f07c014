import pytest
import torch
from fake_cuda import FakeCuda
from hypothesis import given
from hypothesis import strategies as st
from replay_reference import Reference
from tensordict import TensorDict

from leanfast.replay import host
from leanfast.replay.host import Crossing, Prefetch
from leanfast.replay.ring import Ring

KEY = torch.tensor(7)


class Source:
    """A ring that is written between draws, and the batches that the rule says come from it."""

    def __init__(self):
        self.ring = Ring(20, 2, (1, 2), torch.float32, 1, 0.9, None)
        self.storage, self.reference = self.ring.allocate("cpu"), Reference(self.ring, 0)

    def write(self):
        self.ring.extend(self.storage, self.reference.rows(1))

    def draw(self, counter):
        return self.ring.sample(self.storage, 16, KEY, counter)


def expected(batches, writes=1):
    """Batch u as the ring was when batch u - 1 was given, drawn with the counter u."""
    source, found = Source(), []
    for number in range(batches):
        for _ in range(writes):
            source.write()
        if number == 0:
            found.append(source.draw(torch.tensor(0)))
        found.append(source.draw(torch.tensor(number + 1)))
    return found[:batches]


def train(prefetch, source, batches, use):
    for _ in range(batches):
        source.write()
        use(prefetch.next())


def assert_same(found, wanted):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert (a.cpu() == b).all()


def test_each_batch_is_what_the_ring_held_when_the_one_before_was_given():
    source, found = Source(), []
    train(Prefetch(source.draw, "cpu"), source, 8, found.append)
    assert_same(found, expected(8))


@pytest.mark.parametrize("after", [0, 3])
def test_a_loaded_prefetch_goes_on_with_the_batch_that_was_drawn_ahead(after):
    source, found = Source(), []
    first = Prefetch(source.draw, "cpu")
    train(first, source, after, found.append)
    second = Prefetch(source.draw, "cpu")
    second.load_state_dict(first.state_dict())
    train(second, source, 8 - after, found.append)
    assert_same(found, expected(8))


def test_loading_drops_what_was_drawn_ahead_before():
    source, found = Source(), []
    prefetch = Prefetch(source.draw, "cpu")
    state = prefetch.state_dict()
    source.write()
    first = prefetch.next().clone()
    prefetch.load_state_dict(state)
    found.append(prefetch.next())
    assert_same(found, [first])


@given(st.integers(0, 2**32))
def test_a_crossing_gives_every_batch_whole_in_whatever_order_the_streams_work(seed):
    cuda, source, found = FakeCuda(seed), Source(), []

    def use(batch):
        # The learner's stream reads the batch at some later time, in two goes.
        parts = {}
        for names in (("observation", "action", "reward"), tuple(batch.keys())):
            cuda.learner.submit(
                lambda names=names: parts.update({name: batch[name].clone() for name in names})
            )
        cuda.learner.submit(lambda: found.append(TensorDict(parts, batch.batch_size)))
        cuda.run_some()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "HandOver", lambda: Crossing(torch.device("cpu"), cuda))
        prefetch = Prefetch(source.draw, "cpu")
    train(prefetch, source, 6, use)
    other = Prefetch(source.draw, "cpu")
    other.load_state_dict(prefetch.state_dict())
    prefetch.load_state_dict(prefetch.state_dict())
    train(prefetch, source, 6, use)
    cuda.run_all()
    assert_same(found, expected(12))


def test_the_next_batch_crosses_while_this_one_is_used():
    cuda, source = FakeCuda(0), Source()
    crossing = Crossing(torch.device("cpu"), cuda)
    source.write()
    for counter in range(2):
        crossing.send(source.draw(torch.tensor(counter)))
    using = {"ended": False}
    crossing.receive()
    cuda.learner.submit(lambda: None, lambda: using["ended"])
    while cuda.run_one():
        pass
    assert [len(stream.work) for stream in cuda.streams] == [1, 0]  # the learner's and the other


@pytest.mark.gpu
def test_batches_on_cuda_are_those_of_the_cpu():
    source, found = Source(), []
    busy = torch.randn(2000, 2000, device="cuda")

    def use(batch):
        assert batch.device is None or batch.device.type == "cuda"
        (busy @ busy).sum()
        found.append(batch.clone())

    train(Prefetch(source.draw, "cuda"), source, 50, use)
    assert_same(found, expected(50))


@pytest.mark.gpu
def test_batches_wait_in_pinned_memory_and_at_fixed_addresses_on_cuda():
    source = Source()
    prefetch = Prefetch(source.draw, "cuda")
    addresses = []
    train(prefetch, source, 6, lambda batch: addresses.append(batch["reward"].data_ptr()))
    assert addresses == addresses[:2] * 3
    assert all(side.pinned["reward"].is_pinned() for side in prefetch._way._sides)
