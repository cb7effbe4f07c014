"""The engine and the rest of the process: Ctrl-C, fork, exit, leaks."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

from leanfast.envs.native import Engine


def start(script: str, *args: str) -> subprocess.Popen:
    prelude = """
        import os, signal, sys, threading, time, torch
        from leanfast.envs.native import Engine
        def ready(env, num_envs, **options):
            engine = Engine(env, num_envs, seed=1, **options)
            engine.pool_above_us = 0.0
            engine.reset()
            return engine
        def sleep(engine, ms):
            engine.send(torch.full((engine.num_envs,), ms))
    """
    code = textwrap.dedent(prelude) + textwrap.dedent(script)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code, *args]
    # A session of its own, so that a forked child that hangs is killed too.
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True
    )


def kill(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def output(script: str, *args: str, timeout: float = 30) -> str:
    with start(script, *args) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill(process)
            raise AssertionError(f"hung: {process.communicate()}") from None
    assert process.returncode == 0, err
    assert err == ""
    return out


def seconds_to_interrupt(script: str, *args: str) -> float:
    """Sends SIGINT to a script that prints "waiting" and then, in the KeyboardInterrupt's handler,
    "interrupted"; the script must then end well."""
    with start(script, *args) as process:
        try:
            assert process.stdout
            first = process.stdout.readline()
            time.sleep(0.3)
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            second = process.stdout.readline()
            took = time.monotonic() - sent
            _, err = process.communicate(timeout=20)
        finally:
            kill(process)
    assert (first, second, process.returncode, err) == ("waiting\n", "interrupted\n", 0, "")
    return took


@pytest.mark.parametrize("threads", ["1", "2"])
def test_ctrl_c_ends_recv_within_a_second_and_the_batch_can_still_be_received(slow, threads):
    script = """
        engine = ready(sys.argv[1], 160, threads=int(sys.argv[2]))
        sleep(engine, 20)
        print("waiting", flush=True)
        try:
            engine.recv()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        assert engine.in_flight
        assert engine.recv().episode_length.eq(1).all()
    """
    assert seconds_to_interrupt(script, slow, threads) < 1


@pytest.mark.parametrize("threads", ["1", "2"])
def test_after_ctrl_c_the_engine_can_be_closed_at_once(slow, threads):
    script = """
        engine = ready(sys.argv[1], 2000, threads=int(sys.argv[2]))
        sleep(engine, 20)
        print("waiting", flush=True)
        try:
            engine.recv()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        began = time.monotonic()
        engine.close()
        assert time.monotonic() - began < 1
    """
    assert seconds_to_interrupt(script, slow, threads) < 1


def test_ctrl_c_in_a_reset_leaves_a_batch_to_receive(slow):
    script = """
        engine = Engine(sys.argv[1], 60, seed=1, threads=1, params={"reset_ms": 20})
        print("waiting", flush=True)
        try:
            engine.reset()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        engine.recv()
        engine.step(torch.zeros(60, dtype=torch.int64))
    """
    assert seconds_to_interrupt(script, slow) < 1


def test_after_a_fork_the_child_gets_an_error_and_the_parent_goes_on(slow):
    script = """
        engine = ready(sys.argv[1], 300, threads=3)
        sleep(engine, 2)
        child = os.fork()
        if child == 0:
            began = time.monotonic()
            for call in (engine.recv, engine.reset, lambda: sleep(engine, 0), engine.state_dict):
                try:
                    call()
                except ValueError as e:
                    assert "fork" in str(e) and "new engine in the child" in str(e), e
                else:
                    raise AssertionError("no error")
            engine.close()
            fresh = ready("cartpole", 300, threads=3)
            fresh.step(torch.zeros(300, dtype=torch.int64))
            assert time.monotonic() - began < 1
            sys.exit(0)
        assert engine.recv().episode_length.eq(1).all()
        assert os.waitpid(child, 0)[1] == 0
        sleep(engine, 0)
        assert engine.recv().episode_length.eq(2).all()
    """
    output(script, slow)


def test_a_fork_before_any_thread_was_started_is_harmless():
    script = """
        engine = Engine("cartpole", 300, seed=1, threads=3)
        first = engine.reset().observation.clone()
        child = os.fork()
        engine.pool_above_us = 0.0
        for _ in range(3):
            engine.step(torch.zeros(300, dtype=torch.int64))
        assert engine.pooled
        assert torch.equal(engine.reset(seed=1).observation, first)
        if child != 0:
            assert os.waitpid(child, 0)[1] == 0
    """
    output(script)


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("held", ["global", "cycle", "daemon thread"])
def test_the_interpreter_ends_with_a_batch_under_way(slow, threads, held):
    script = """
        engine = ready(sys.argv[1], 500, threads=int(sys.argv[2]))
        sleep(engine, 20)
        if sys.argv[3] == "cycle":
            engine.myself = engine
            del engine
        if sys.argv[3] == "daemon thread":
            threading.Thread(target=engine.recv, daemon=True).start()
            time.sleep(0.1)
    """
    began = time.monotonic()
    output(script, slow, threads, held)
    assert time.monotonic() - began < 15


def test_threads_that_the_system_refuses_are_an_error_and_the_engine_can_be_closed():
    script = """
        import resource
        engine = Engine("cartpole", 300, seed=1, threads=500)
        engine.reset()
        status = open("/proc/self/status").read()
        used = int(status.split("VmSize:")[1].split()[0]) * 1024
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
        engine.pool_above_us = 0.0
        for _ in range(2):
            try:
                sleep(engine, 0)
            except RuntimeError as e:
                assert "could not start 500 threads" in str(e) and "smaller" in str(e), e
            else:
                raise AssertionError("no error")
            assert not engine.in_flight
        engine.pool_above_us = 1e9
        sleep(engine, 0)
        assert engine.recv().episode_length.eq(1).all()
        engine.close()
    """
    output(script)


def threads_and_bytes() -> tuple[int, int]:
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1])
    return len(os.listdir("/proc/self/task")), resident * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
def test_a_hundred_engines_leave_neither_threads_nor_memory_behind():
    actions = torch.ones(20000, dtype=torch.int64)

    def cycle(k: int) -> None:
        engine = Engine("cartpole", 20000, threads=4)
        engine.pool_above_us = 0.0
        engine.reset()
        for _ in range(3):
            engine.send(actions)
            if k % 3:
                engine.recv()
                continue
            break
        if k % 2:
            engine.close()

    for k in range(10):
        cycle(k)
    threads, used = threads_and_bytes()
    for k in range(100):
        cycle(k)
    threads_after, used_after = threads_and_bytes()
    assert threads_after == threads
    one_engine = 20000 * 150
    assert used_after - used < 3 * one_engine
