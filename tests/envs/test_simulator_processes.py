"""env.vectorization=async: a process for each env, and none left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
import torch
from gymnasium.spaces import Box, MultiDiscrete
from simulator_cases import Sleeper, Still, configured, registered

from leanfast.envs.simulator import held_out, simulator

PAIR = MultiDiscrete([2, 2])


def test_processes_are_spawned_whatever_the_default_is():
    with simulator(configured(id="CartPole-v1", vectorization="async"), 2, 0) as envs:
        kinds = {type(process).__name__ for process in envs.batch.env.unwrapped.processes}
    assert kinds == {"SpawnProcess"}  # a fork would copy the locks that torch's threads hold


def test_an_evaluation_starts_no_processes():
    with held_out(configured(id="CartPole-v1", vectorization="async"), 20, 0) as envs:
        assert envs.num_envs == 20
        assert multiprocessing.active_children() == []


@pytest.mark.parametrize(("space", "said"), [(Box(0, 1), "env.action_bins"), (PAIR, "MultiDiscr")])
def test_what_could_not_become_a_simulator_leaves_no_processes(space, said):
    name = registered("Unfit", Still, kwargs={"action_space": space})
    with pytest.raises(ValueError, match=said):
        simulator(configured(id=name, vectorization="async"), 2, 0)
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_an_exception_ends_the_processes():
    env = configured(id="CartPole-v1", vectorization="async")
    with pytest.raises(ZeroDivisionError), simulator(env, 2, 0) as envs:  # noqa: PT012
        envs.reset(0)
        envs.send(torch.zeros(2, dtype=torch.int64))
        raise ZeroDivisionError
    assert multiprocessing.active_children() == []
    envs.close()


@pytest.mark.slow
def test_an_interrupt_in_the_midst_of_a_step_ends_the_processes_at_once():
    def interrupt(*_):
        raise KeyboardInterrupt

    env = configured(id=registered("Sleeper", Sleeper), vectorization="async")
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), simulator(env, 2, 0) as envs:  # noqa: PT012
            envs.reset(0)
            envs.send(torch.tensor([0, 1]))  # the first has been received when the alarm comes
            signal.setitimer(signal.ITIMER_REAL, 1)
            began = time.perf_counter()
            envs.recv()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - began < 20
    assert multiprocessing.active_children() == []


KILLED = """
import os, signal
from leanfast.config import Env
from leanfast.envs.simulator import simulator
if __name__ == "__main__":
    env = Env(num_envs=2, threads=None, params={}, id="CartPole-v1", vectorization="async")
    envs = simulator(env, 2, 0)
    print(*(process.pid for process in envs.batch.env.processes), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_processes_do_not_outlive_a_killed_run(tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    done = subprocess.run(
        [sys.executable, tmp_path / "killed.py"], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    left = [int(pid) for pid in done.stdout.split()]
    assert len(left) == 2
    until = time.monotonic() + 30
    while left and time.monotonic() < until:
        for pid in list(left):
            with suppress(ProcessLookupError):
                os.kill(pid, 0)
                continue
            left.remove(pid)
        time.sleep(0.1)
    assert not left
