import torch

from leanfast import randomness


def draw(seed=1, stream=1, counter=0, lanes=100_000):
    key = torch.tensor(randomness.key(seed, stream))
    return randomness.bits(key, torch.tensor(counter), lanes)


def correlation(a, b):
    return float(torch.corrcoef(torch.stack([a, b]).double())[0, 1])


def test_every_bit_is_set_half_of_the_time():
    bits = (draw()[:, None] >> torch.arange(32)) & 1
    assert (bits.double().mean(0) - 0.5).abs().max() < 0.01
    assert int(draw().max()) < 2**32
    assert int(draw().min()) >= 0


def test_whole_numbers_are_uniform_and_below_the_limit():
    counts = torch.bincount(randomness.integers(draw(), 10), minlength=10)
    assert len(counts) == 10
    assert (counts - 10_000).abs().max() < 500
    assert int(randomness.integers(draw(), torch.tensor(1)).max()) == 0


def test_unit_numbers_are_uniform_and_below_one():
    numbers = randomness.unit(draw())
    assert float(numbers.min()) >= 0
    assert float(numbers.max()) < 1
    assert abs(float(numbers.mean()) - 0.5) < 0.01
    assert abs(float(numbers.std()) - 12**-0.5) < 0.01


def test_seed_stream_counter_and_lane_each_change_every_number():
    first = draw()
    others = [draw(seed=2), draw(seed=1 + 2**32), draw(stream=2), draw(counter=1)]
    others += [draw(counter=2**32), draw(counter=2**33), first.roll(1)]
    for other in others:
        assert float((first == other).double().mean()) < 0.001
        assert abs(correlation(first, other)) < 0.02


def test_successive_counters_of_one_lane_are_uncorrelated():
    numbers = torch.stack([draw(counter=counter, lanes=4) for counter in range(2000)])
    for lane in range(4):
        assert abs(correlation(numbers[1:, lane], numbers[:-1, lane])) < 0.1
