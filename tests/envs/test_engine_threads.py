"""An engine among the caller's own Python threads."""

import sys
import threading
import time

import pytest
import torch
from engine_cases import copied

from leanfast._native import StateError
from leanfast.envs.native import Engine


def started(target) -> threading.Thread:
    thread = threading.Thread(target=target)
    thread.start()
    return thread


def test_a_second_python_thread_gets_an_error_while_the_first_one_waits(slow):
    engine = Engine(slow, 200, threads=2)
    engine.pool_above_us = 0.0
    engine.reset()
    engine.send(torch.full((200,), 5))
    received = []
    waiting = started(lambda: received.append(engine.recv()))
    time.sleep(0.1)
    zeros = torch.zeros(200, dtype=torch.int64)
    calls = (engine.recv, engine.close, engine.reset, engine.state_dict, lambda: engine.send(zeros))
    for call in calls:
        with pytest.raises(StateError, match=r"another thread|under way"):
            call()
    assert engine.in_flight
    waiting.join()
    assert received[0].episode_length.eq(1).all()
    assert engine.step(zeros).episode_length.eq(2).all()


def test_a_finished_batch_is_still_under_way_until_the_thread_that_waits_has_it(slow):
    engine = Engine(slow, 4, threads=1)
    engine.reset()
    zeros = torch.zeros(4, dtype=torch.int64)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10)  # whoever has the GIL keeps it
    try:
        for _ in range(20):
            engine.send(torch.full((4,), 10))
            received: list = []
            waiting = started(lambda into=received: into.append(engine.recv()))
            time.sleep(0.005)
            until = time.perf_counter() + 0.1
            while time.perf_counter() < until:
                pass
            if in_time := not received:  # else this machine was too busy
                with pytest.raises(StateError, match="under way"):
                    engine.send(zeros)
            waiting.join()
            if in_time:
                return
    finally:
        sys.setswitchinterval(interval)
    pytest.fail("the batch was never finished in time")


def test_threads_that_fight_over_an_engine_get_errors_and_never_crash():
    engine = Engine("cartpole", 8200, threads=2)
    engine.pool_above_us = 0.0
    engine.reset()
    actions = torch.zeros(8200, dtype=torch.int64)
    refused, completed = [], []
    until = time.monotonic() + 1.0

    def fight() -> None:
        while time.monotonic() < until:
            for call in (lambda: engine.send(actions), engine.recv, engine.reset):
                try:
                    call()
                except StateError as e:
                    refused.append(str(e))
                else:
                    completed.append(call)

    fighters = [started(fight) for _ in range(3)]
    for thread in fighters:
        thread.join()
    assert refused
    assert completed
    if engine.in_flight:
        engine.recv()
    engine.reset(seed=3)
    calm = Engine("cartpole", 8200, seed=3)
    calm.reset()
    ours, theirs = copied(engine.step(actions)), copied(calm.step(actions))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("threads", [1, 2])
def test_other_python_threads_run_during_a_long_batch(slow, threads):
    engine = Engine(slow, 100, threads=threads)
    engine.reset()
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)

    counter = started(count)
    engine.send(torch.full((100,), 4))
    before = counted[0]
    engine.recv()
    during = counted[0] - before
    stop.set()
    counter.join()
    assert during > 20


def test_dropping_an_engine_with_a_long_batch_under_way_does_not_wait_for_it(slow):
    engine = Engine(slow, 2000, threads=2)
    engine.pool_above_us = 0.0
    engine.reset()
    engine.send(torch.full((2000,), 10))  # 10 s of it
    began = time.monotonic()
    del engine
    assert time.monotonic() - began < 2
