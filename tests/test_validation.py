import pytest

from leanfast.validation import why_not


@pytest.mark.parametrize(
    ("buffer_size", "lanes", "n_step", "chunk", "words"),
    [
        (
            240,
            80,
            5,
            1,
            "algo.n_step is 5, more than the 3 steps that algo.buffer_size=240 holds of each of 80 "
            "lanes (envs times agents); it must be at most 3, or algo.buffer_size at least 400",
        ),
        (
            240,
            80,
            1,
            64,
            "pipeline.chunk is 64, more than the 3 steps that algo.buffer_size=240 holds of each "
            "of 80 lanes (envs times agents); it must be at most 3, or algo.buffer_size at least "
            "5120",
        ),
        (
            79,
            80,
            1,
            1,
            "algo.buffer_size is 79; it must be at least 80, one step of each of 80 lanes (envs "
            "times agents)",
        ),
    ],
)
def test_a_ring_that_cannot_be_is_refused_in_a_sentence(buffer_size, lanes, n_step, chunk, words):
    assert list(why_not(buffer_size, lanes, n_step, chunk)) == [words]


@pytest.mark.parametrize("sizes", [(240, 80, 3), (80, 80, 1), (1, 1, 1)])
def test_a_ring_that_can_be_is_not_refused(sizes):
    assert list(why_not(*sizes)) == []
