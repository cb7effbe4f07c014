"""What a ring gives back, against a reference that keeps everything."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from replay_reference import Reference, as_number

from leanfast.replay.ring import Ring

KEY = torch.tensor(12345)


def make(steps=6, lanes=3, dtype=torch.float32, n_step=1, limit=None):
    return Ring(steps, lanes, (1, 2), dtype, n_step, 0.9, limit)


@st.composite
def rings(draw):
    steps = draw(st.integers(1, 8))
    return make(
        steps,
        draw(st.integers(1, 4)),
        draw(st.sampled_from([torch.float32, torch.uint8])),
        draw(st.integers(1, min(5, steps))),
        draw(st.none() | st.integers(1, 7)),
    )


def drawn(ring, storage, count=1024, counter=0):
    """The distinct transitions of a sample, by the observation they begin with."""
    batch = ring.sample(storage, count, KEY, torch.tensor(counter))
    fields = zip(
        as_number(batch["observation"]),
        batch["action"].tolist(),
        batch["reward"].tolist(),
        as_number(batch["next_observation"]),
        batch["terminated"].tolist(),
        batch["discount"].tolist(),
        strict=True,
    )
    distinct = set(fields)
    assert len(distinct) == len({first for first, *_ in distinct})
    return {first: rest for first, *rest in distinct}


def assert_drawn_from(reference, found):
    expected = reference.transitions()
    assert set(found) == set(expected)
    for first, (action, reward, following, terminated, discount) in expected.items():
        got = found[first]
        assert got[0] == action
        assert got[1] == pytest.approx(reward, abs=1e-5)
        assert following is None or got[2] == following
        assert got[3] == terminated
        assert got[4] == pytest.approx(discount, rel=1e-5)


@given(rings(), st.integers(0, 2**32), st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_a_sample_has_every_complete_transition_exactly_and_no_others(ring, seed, chunks):
    reference, storage = Reference(ring, seed), ring.allocate("cpu")
    for count in chunks:
        ring.extend(storage, reference.rows(min(count, ring.steps)))
        assert_drawn_from(reference, drawn(ring, storage))


@given(rings(), st.integers(0, 2**32), st.integers(1, 5))
def test_a_chunk_leaves_what_its_rows_one_by_one_leave(ring, seed, count):
    together, apart = ring.allocate("cpu"), ring.allocate("cpu")
    reference = Reference(ring, seed)
    for _ in range(5):
        rows = reference.rows(min(count, ring.steps))
        ring.extend(together, rows)
        for row in rows.split(1):
            ring.extend(apart, row)
        assert int(together["cursor"]) == int(apart["cursor"])
        assert drawn(ring, together) == drawn(ring, apart)


@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("count", [1, 4])
def test_no_two_writes_of_a_chunk_put_different_values_in_one_place(limit, count, monkeypatch):
    put = torch.Tensor.index_put_

    def checked(tensor, indices, values):
        row, lane = torch.broadcast_tensors(*indices)
        places = {}
        for place, value in zip(
            zip(row.flatten().tolist(), lane.flatten().tolist(), strict=True),
            as_number(values.flatten(0, 1)),
            strict=True,
        ):
            assert places.setdefault(place, value) == value
        return put(tensor, indices, values)

    monkeypatch.setattr(torch.Tensor, "index_put_", checked)
    ring = make(limit=limit)
    reference, storage = Reference(ring, 0), ring.allocate("cpu")
    for _ in range(20):
        ring.extend(storage, reference.rows(count))


def test_addresses_stay():
    ring = make(n_step=2)
    reference, storage = Reference(ring, 0), ring.allocate("cpu")
    before = {name: tensor.data_ptr() for name, tensor in storage.items()}
    for count in (1, 4, 3):
        ring.extend(storage, reference.rows(count))
        ring.sample(storage, 8, KEY, torch.tensor(0))
    assert {name: tensor.data_ptr() for name, tensor in storage.items()} == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_a_batch_has_the_documented_dtypes_and_shapes(dtype):
    ring = make(dtype=dtype, n_step=3)
    reference, storage = Reference(ring, 0), ring.allocate("cpu")
    ring.extend(storage, reference.rows(6))
    batch = ring.sample(storage, 7, KEY, torch.tensor(0))
    assert {name: (tuple(x.shape), x.dtype) for name, x in batch.items()} == {
        "observation": ((7, 1, 2), dtype),
        "action": ((7,), torch.int64),
        "reward": ((7,), torch.float32),
        "next_observation": ((7, 1, 2), dtype),
        "terminated": ((7,), torch.bool),
        "discount": ((7,), torch.float32),
    }


def test_sampling_is_uniform_over_steps_and_lanes():
    ring = make(steps=7, lanes=5, n_step=3)
    reference, storage = Reference(ring, 0), ring.allocate("cpu")
    for _ in range(3):
        ring.extend(storage, reference.rows(4))
    batch = ring.sample(storage, 100_000, KEY, torch.tensor(0))
    counts = torch.bincount(torch.tensor(as_number(batch["observation"])))
    counts = counts[counts > 0]
    assert len(counts) == 25
    assert (counts - 4_000).abs().max() < 300  # five standard deviations


def test_the_same_counter_draws_the_same_and_another_one_others():
    ring = make(steps=100)
    reference, storage = Reference(ring, 0), ring.allocate("cpu")
    ring.extend(storage, reference.rows(100))

    def draw(counter):
        return ring.sample(storage, 32, KEY, torch.tensor(counter))

    assert (draw(5) == draw(5)).all()
    assert not torch.equal(draw(5)["reward"], draw(6)["reward"])


def test_more_steps_than_the_ring_holds_are_refused():
    ring = make(steps=3)
    with pytest.raises(ValueError, match="4 steps do not fit in a ring of 3"):
        ring.extend(ring.allocate("cpu"), Reference(ring, 0).rows(4))


@pytest.mark.slow
@pytest.mark.parametrize(("count", "limit"), [(1, 4), (3, None)])
def test_compiled_equals_eager(count, limit):
    ring = make(steps=7, lanes=3, n_step=3, limit=limit)
    extend, sample = (torch.compile(f, fullgraph=True) for f in (ring.extend, ring.sample))
    reference = Reference(ring, 0)
    compiled, eager = ring.allocate("cpu"), ring.allocate("cpu")
    for step in range(20):
        rows, counter = reference.rows(count), torch.tensor(step)
        ring.extend(eager, rows)
        extend(compiled, rows)
        assert (compiled == eager).all()
        expected, got = (f(eager, 64, KEY, counter) for f in (ring.sample, sample))
        for name, value in expected.items():
            torch.testing.assert_close(got[name], value)


@pytest.mark.gpu
@pytest.mark.parametrize("count", [1, 5])
def test_cuda_equals_cpu(count):
    ring = make(steps=50, lanes=40, n_step=3)
    reference = Reference(ring, 0)
    host, device = ring.allocate("cpu"), ring.allocate("cuda")
    for step in range(30):
        rows = reference.rows(count)
        ring.extend(host, rows)
        ring.extend(device, rows.to("cuda"))
        assert (device.cpu() == host).all()
        expected = ring.sample(host, 64, KEY, torch.tensor(step))
        got = ring.sample(device, 64, KEY.cuda(), torch.tensor(step, device="cuda"))
        for name, value in expected.items():
            torch.testing.assert_close(got[name].cpu(), value)
