import threading

import torch

from leanfast.arithmetic import arithmetic

TINY = 1e-40  # has fewer than 24 digits in float32


def halved():
    return float(torch.full((64,), TINY)[::2].mul(0.5).amax())


def test_numbers_too_small_for_all_their_digits_are_zero_in_this_thread_and_those_it_starts():
    seen = []
    assert halved() > 0
    with arithmetic(threads=1):
        thread = threading.Thread(target=lambda: seen.append(halved()))
        thread.start()
        thread.join()
        assert seen == [halved()] == [0.0]
    assert halved() > 0


def test_the_number_of_threads_is_given_back_also_after_an_error():
    before = torch.get_num_threads()
    try:
        with arithmetic(threads=before + 1):
            assert torch.get_num_threads() == before + 1
            raise KeyError
    except KeyError:
        pass
    assert torch.get_num_threads() == before
    assert halved() > 0
