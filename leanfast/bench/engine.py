"""Steps per second of the native engine beside its peers: random actions, one run, in turn."""

import argparse
import importlib.util
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import torch

from leanfast.bench.machine import describe, heading
from leanfast.bench.timing import Subject, measure_in_turn
from leanfast.cores import usable_cores
from leanfast.envs.native import Engine
from leanfast.envs.registry import builtin, find
from leanfast.errors import UsageError

SIZES = (1, 64, 768, 4096, 65536)
ACTION_SETS = 16  # batches of random actions, drawn before and used in turn
LARGEST_PYTHON_BATCH = 768  # SyncVectorEnv: more envs take longer and step no faster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--envs", default="all", help="names, comma-separated (default: all)")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of envs")
    parser.add_argument("--no-peers", action="store_true", help="measure leanfast alone")


def run(options: argparse.Namespace) -> dict[str, Any]:
    names = list(builtin()) if options.envs == "all" else options.envs.split(",")
    sizes = [int(size) if size.isdigit() else 0 for size in options.sizes.split(",")]
    if min(sizes) < 1:
        raise UsageError(f"--sizes must be numbers of envs from 1 on, not {options.sizes}")
    try:
        specs = {name: find(name).spec() for name in names}
    except ValueError as error:
        raise UsageError(str(error)) from None
    rows = []
    for name, spec in specs.items():
        for size in sizes:
            print(f"{spec['name']}, {size} envs", file=sys.stderr)
            rows += _measure(name, spec, size, options)
    return {"bench": "engine", "machine": describe(("envpool",)), "rows": rows}


def _measure(
    name: str, spec: dict[str, Any], size: int, options: argparse.Namespace
) -> list[dict[str, Any]]:
    subjects, closers = [], []

    def add(label: str, threads: int, made: tuple[Any, Any]) -> None:
        run, close = made
        labels = {"env": spec["name"], "num_envs": size, "subject": label, "threads": threads}
        subjects.append(Subject(labels, run, size))
        closers.append(close)

    all_threads = usable_cores()
    for threads in sorted({1, all_threads}):
        add("leanfast", threads, _native(name, size, threads))
    if size == 768:
        add("leanfast as TorchRL env", 1, _torchrl(name, size))
        add("leanfast as Gymnasium VectorEnv", 1, _gymnasium(f"leanfast/{spec['name']}", size))
    if not options.no_peers and spec["name"] in gymnasium.registry:
        if size <= LARGEST_PYTHON_BATCH:
            add("Gymnasium SyncVectorEnv", 1, _gymnasium(spec["name"], size, "sync"))
        if spec["name"] == "CartPole-v1":
            made = _gymnasium(spec["name"], size, "vector_entry_point")
            add("Gymnasium NumPy vector env", 1, made)
        if importlib.util.find_spec("envpool"):
            for threads in sorted({1, all_threads}):
                add("EnvPool", threads, _envpool(spec, size, threads))
    try:
        return measure_in_turn(subjects, options.seconds, options.repeats)
    finally:
        for close in closers:
            close()


def _native(name: str, size: int, threads: int) -> tuple[Any, Any]:
    engine = Engine(name, size, threads=threads, seed=0)
    engine.reset()
    actions = [torch.from_numpy(a) for a in _actions(engine.spec, size)]

    def run(rounds: int) -> None:
        send, recv = engine.send, engine.recv
        for t in range(rounds):
            send(actions[t % ACTION_SETS])
            recv()

    return run, engine.close


def _torchrl(name: str, size: int) -> tuple[Any, Any]:
    import leanfast

    env = leanfast.make(name, size, threads=1, seed=0)
    actions = [torch.from_numpy(a) for a in _actions(env.source.spec, size)]
    td = env.reset().set("action", actions[0])

    def run(rounds: int) -> None:
        nonlocal td
        for _ in range(rounds):  # the root keeps its action, as step_mdp has it
            _, td = env.step_and_maybe_reset(td)

    return run, env.close


def _gymnasium(env_id: str, size: int, mode: str | None = None) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options: dict[str, Any] = {"threads": 1} if mode is None else {}
        env = gymnasium.make_vec(env_id, num_envs=size, vectorization_mode=mode, **options)
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(ACTION_SETS)]

    def run(rounds: int) -> None:
        for t in range(rounds):
            env.step(actions[t % ACTION_SETS])

    return run, env.close


def _envpool(spec: dict[str, Any], size: int, threads: int) -> tuple[Any, Any]:
    import envpool

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = envpool.make(spec["name"], env_type="gymnasium", num_envs=size, num_threads=threads)
    env.reset()
    actions = list(_actions(spec, size))

    def run(rounds: int) -> None:
        for t in range(rounds):
            env.step(actions[t % ACTION_SETS])

    return run, env.close


def _actions(spec: dict[str, Any], size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    lead = (size, spec["agents"]) if spec["agents"] > 1 else (size,)
    action = spec["action"]
    if isinstance(action, int):
        return [rng.integers(0, action, lead) for _ in range(ACTION_SETS)]
    shape = (*lead, *action["shape"])
    low, high = (np.float32(action[side][0]) for side in ("low", "high"))
    return [rng.uniform(low, high, shape).astype("f4") for _ in range(ACTION_SETS)]


def table(result: dict[str, Any]) -> str:
    machine = result["machine"]
    lines = [
        *heading(machine, f", {machine['instruction_set']}"),
        f"{'environment':<26}{'envs':>6}  {'subject':<34}{'threads':>7}"
        f"{'steps/s':>10}{'spread':>17}{'us/batch':>12}",
    ]
    previous = None
    for row in result["rows"]:
        group = (row["env"], row["num_envs"])
        shown = group if group != previous else ("", "")
        previous = group
        spread = f"{short(row['min'])}-{short(row['max'])}"
        lines.append(
            f"{shown[0]:<26}{shown[1]:>6}  {row['subject']:<34}{row['threads']:>7}"
            f"{short(row['steps_per_s']):>10}{spread:>17}{row['us_per_round']:>12.2f}"
        )
    return "\n".join(lines)


def short(rate: float) -> str:
    """1234567 as 1.23M."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if rate >= scale:
            return f"{rate / scale:.3g}{unit}"
    return f"{rate:.3g}"
