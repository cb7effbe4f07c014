import pytest
import torch
from tensordict import TensorDict

from leanfast.replay import ring

KEY = torch.tensor(12345)


def rows(first, count):
    """Rows that carry their number in every field, in its field's own dtype."""
    number = torch.arange(first, first + count)
    return TensorDict(
        {
            "observation": number.float()[:, None].expand(count, 3).clone(),
            "picture": (number % 256).to(torch.uint8),
            "action": number,
            "terminated": number % 2 == 0,
        },
        [count],
    )


def allocate(capacity):
    return ring.allocate(capacity, rows(0, 1)[0])


def sample(replay, count, counter=0):
    return ring.sample(replay, count, KEY, torch.tensor(counter))


def assert_same(a, b):
    assert set(a.keys()) == set(b.keys())
    for name, value in a.items():
        assert value.dtype == b[name].dtype
        assert torch.equal(value, b[name])


@pytest.mark.parametrize(("capacity", "count"), [(10, 1), (10, 3), (10, 10), (7, 5)])
def test_the_ring_holds_the_latest_rows_whole_and_no_others(capacity, count):
    replay = allocate(capacity)
    for step in range(12):
        ring.extend(replay, rows(step * count, count))
        end = (step + 1) * count
        size = min(end, capacity)
        assert int(replay["size"]) == size
        assert int(replay["cursor"]) == end % capacity
        held = replay["data"][:size]
        held = held[held["action"].argsort()]
        assert_same(held, rows(end - size, size))


def test_extend_writes_in_place():
    replay = allocate(10)
    before = {name: leaf.data_ptr() for name, leaf in replay.items(True, True)}
    ring.extend(replay, rows(0, 7))
    ring.extend(replay, rows(7, 7))
    assert {name: leaf.data_ptr() for name, leaf in replay.items(True, True)} == before


def test_samples_are_whole_rows():
    replay = allocate(100)
    ring.extend(replay, rows(0, 90))
    batch = sample(replay, 64)
    whole = torch.stack([rows(int(number), 1)[0] for number in batch["action"]])
    assert_same(batch, whole)


def test_sampling_is_uniform_over_what_is_there():
    replay = allocate(100)
    ring.extend(replay, rows(0, 10))
    counts = torch.bincount(sample(replay, 100_000)["action"])
    assert len(counts) == 10
    assert (counts - 10_000).abs().max() < 500


def test_the_same_counter_draws_the_same_places_and_another_one_others():
    replay = allocate(1000)
    ring.extend(replay, rows(0, 1000))
    assert_same(sample(replay, 32, counter=5), sample(replay, 32, counter=5))
    assert not torch.equal(sample(replay, 32, 5)["action"], sample(replay, 32, 6)["action"])
