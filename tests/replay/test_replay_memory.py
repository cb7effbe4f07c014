from dataclasses import replace

import pytest
import torch

from leanfast.errors import UsageError
from leanfast.replay import memory
from leanfast.replay.memory import check_memory, free_memory, largest_that_fits
from leanfast.replay.ring import Ring

SNAKE = Ring(1562, 64, (3, 12, 12), torch.uint8, 3, 0.99, 10_000)
CARTPOLE = Ring(125, 80, (4,), torch.float32, 1, 0.99, 500)


@pytest.mark.parametrize("ring", [SNAKE, CARTPOLE, replace(CARTPOLE, episode_limit=None)])
def test_nbytes_is_what_the_storage_takes(ring):
    storage = ring.allocate("cpu")
    assert ring.nbytes() == sum(x.untyped_storage().nbytes() for x in storage.values())


def test_a_snake_ring_takes_little_more_than_its_observations_once():
    once = SNAKE.steps * SNAKE.lanes * 3 * 12 * 12
    assert once <= SNAKE.nbytes() <= 1.1 * once


def test_without_a_known_limit_next_observations_take_their_own_room():
    frames = replace(SNAKE, episode_limit=None).allocate("meta")["frames"]
    assert len(frames) == 2 * SNAKE.steps


def test_a_ring_that_does_not_fit_is_refused_with_the_size_that_would(monkeypatch):
    monkeypatch.setattr(memory, "free_host_memory", lambda: 10 * 2**20)
    check_memory(SNAKE_20K, "cpu")
    words = (
        r"a replay of 99968 transitions takes 42\.\d MiB of cpu memory, of which 10\.0 MiB are "
        r"free; algo\.buffer_size=(\d+) would fit$"
    )
    with pytest.raises(UsageError, match=words) as error:
        check_memory(SNAKE, "cpu")
    fits = int(str(error.value).split("buffer_size=")[1].split()[0])
    check_memory(replace(SNAKE, steps=fits // 64), "cpu")
    assert fits > 20_000


SNAKE_20K = replace(SNAKE, steps=20_000 // 64)


def test_where_not_even_one_return_fits_no_size_is_proposed(monkeypatch):
    monkeypatch.setattr(memory, "free_host_memory", lambda: 1000)
    with pytest.raises(UsageError, match=r"1000 bytes are free; no algo\.buffer_size would fit$"):
        check_memory(CARTPOLE, "cpu")


def test_the_size_that_fits_is_the_largest():
    for steps in (3, 40, 1561):
        just = replace(SNAKE, steps=steps).nbytes()
        assert largest_that_fits(SNAKE, just) == steps * 64
        assert largest_that_fits(SNAKE, just - 1) == (0 if steps == 3 else (steps - 1) * 64)


@pytest.mark.gpu
def test_memory_that_torch_keeps_counts_as_free():
    before = free_memory("cuda")
    block = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    assert before - free_memory("cuda") == pytest.approx(2**28, rel=0.2)
    del block
    assert free_memory("cuda") == pytest.approx(before, rel=0.05)
