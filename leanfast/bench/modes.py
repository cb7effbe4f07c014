"""What training captures, in every execution mode: the functions act, store and learn of the
vectorized pipeline, with CleanRL's settings (experiment=equal_work). Overrides of `leanfast train`
may follow.

Every mode first takes the same 200 updates, of which the eager ones are the measure: a captured
graph must reach the same weights, bit for bit, a compiled function the same within 1e-4. Everything
is compiled from an empty cache.
"""

import argparse
import itertools
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch

from leanfast.arithmetic import arithmetic
from leanfast.bench.configured import (
    configured,
    device_of,
    empty_compiler_cache,
    modes_here,
    synchronize,
)
from leanfast.bench.contenders import made_up
from leanfast.bench.machine import describe, heading
from leanfast.bench.timing import Subject, measure_in_turn, ratio
from leanfast.config import Config
from leanfast.envs.simulator import Simulator, simulator
from leanfast.errors import RunError, UsageError
from leanfast.execution import Accelerated
from leanfast.pipelines.common import FIELDS, Training
from leanfast.run import learner_for, ring_for

CHECKED = 200
APART = {"eager": 0.0, "compile": 1e-4, "cudagraph": 0.0, "combined": 1e-4}
ROWS = 64  # steps of made-up transitions
NOTHING: tuple[Any, ...] = (None, None, None)  # no journal, evaluation and folder: nothing is run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "overrides", nargs="*", metavar="OVERRIDE", help="e.g. execution.steps_per_graph=8"
    )
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument(
        "--modes", help="comma-separated (default: all that run, and why not others)"
    )


class Captured:
    """What a pipeline captures, in one mode."""

    def __init__(self, config: Config, envs: Simulator, mode: str, device: str):
        learner, ring = learner_for(config, envs, device), ring_for(config, envs, envs.lanes)
        size = config.algo.batch_size
        if size == "auto":
            raise UsageError("algo.batch_size is auto; here it must be a number")
        training = Training(
            config,
            mode,
            learner,
            ring,
            ring.allocate(torch.device(device)),
            size,
            *NOTHING,
        )
        self.mode, self.device, self.learner = mode, device, learner
        self.times = config.execution.steps_per_graph
        self.act, self.store, self.learn = training.act(), training.store(), training.learn()
        rows = made_up(ROWS, envs.lanes, envs.observation_shape[0], envs.actions).to(device)
        self.rows = [[row[name] for name in FIELDS] for row in rows]

    def train(self, updates: int) -> torch.Tensor:
        """The weights after these; what is stored does not depend on what act() says."""
        for _, row in zip(range(updates // self.times), itertools.cycle(self.rows)):
            self.act(row[0])
            self.store(*row)
            self.learn()
        return self.learner.state["params"].cpu()

    def functions(self) -> dict[str, tuple[Accelerated, Callable[[int], None]]]:
        def run(call: Callable[[int], Any], calls: int) -> None:
            for turn in range(calls):
                call(turn)
            synchronize(self.device)

        return {
            "act": (self.act, partial(run, lambda t: self.act(self.rows[t % ROWS][0]))),
            "store": (self.store, partial(run, lambda t: self.store(*self.rows[t % ROWS]))),
            "learn": (self.learn, partial(run, lambda t: self.learn())),
        }


def run(options: argparse.Namespace) -> dict[str, Any]:
    device = device_of(options.device)
    config = configured("experiment=equal_work", f"device={device}", *options.overrides)
    here = modes_here(device)
    names = options.modes.split(",") if options.modes else list(here)
    if unknown := set(names) - set(here):
        raise UsageError(f"--modes has no {min(unknown)!r}; there are {', '.join(here)}")
    with ExitStack() as stack:
        stack.enter_context(arithmetic(config.torch_threads))
        stack.enter_context(empty_compiler_cache())
        envs = stack.enter_context(simulator(config.env, config.env.num_envs, config.seed))
        if len(envs.observation_shape) != 1:
            raise UsageError("`leanfast bench modes` measures observations that are vectors")
        captured = [Captured(config, envs, mode, device) for mode in names if not here[mode]]
        rows = _measure(captured, options.seconds, options.repeats)
    rows += [
        {"mode": mode, "measured": False, "why_not": here[mode]} for mode in names if here[mode]
    ]
    return {
        "bench": "modes",
        "machine": describe(),
        "device": device,
        "torch_threads": config.torch_threads,
        "num_envs": config.env.num_envs,
        "batch": config.algo.batch_size,
        "updates_per_call": config.execution.steps_per_graph,
        "checked_updates": CHECKED,
        "rows": rows,
    }


def _measure(captured: list[Captured], seconds: float, repeats: int) -> list[dict[str, Any]]:
    subjects: dict[tuple[str, str], Subject] = {}
    apart: dict[str, float] = {}
    reference: torch.Tensor | None = None
    for one in captured:
        print(f"{one.mode}: compiling, and {CHECKED} updates", file=sys.stderr)
        weights = one.train(CHECKED)
        reference = weights if reference is None else reference
        apart[one.mode] = off = float((weights - reference).abs().max())
        if not off <= APART[one.mode]:
            raise RunError(
                f"{one.mode} is {off:.2g} away from {captured[0].mode}'s weights after {CHECKED} "
                f"updates; at most {APART[one.mode]:g} was expected"
            )
        for name, (_, call) in one.functions().items():
            per_call = one.times if name == "learn" else 1
            subjects[one.mode, name] = Subject({}, call, per_call, unit="calls")
    measure_in_turn(list(subjects.values()), seconds, repeats)
    rows = []
    for one in captured:
        functions = {
            name: subjects[one.mode, name].result()
            | {"compile_s": function.compile_s, "capture_s": function.capture_s}
            for name, (function, _) in one.functions().items()
        }
        learn = functions["learn"]
        eager = subjects[captured[0].mode, "learn"].rates
        rows.append(
            {
                "mode": one.mode,
                "measured": True,
                "updates_per_s": learn["calls_per_s"],
                "min": learn["min"],
                "max": learn["max"],
                "us_per_call": {name: each["us_per_round"] for name, each in functions.items()},
                "compile_s": sum(each["compile_s"] for each in functions.values()),
                "capture_s": sum(each["capture_s"] for each in functions.values()),
                "times_first": ratio(subjects[one.mode, "learn"].rates, eager),
                "weights_apart": apart[one.mode],
                "tolerance": APART[one.mode],
                "repeats": repeats,
            }
        )
    return rows


def table(result: dict[str, Any]) -> str:
    lines = [
        *heading(
            result["machine"],
            f", {result['torch_threads']} for torch; learning on {result['device']}, "
            f"{result['num_envs']} envs, batch {result['batch']}, "
            f"{result['updates_per_call']} updates a call of learn",
        ),
        f"{'mode':<11}{'updates/s':>11}{'spread':>16}{'ratio':>8}{'act':>10}{'store':>10}"
        f"{'learn':>11}{'compile':>10}{'capture':>10}{'weights off':>13}",
    ]
    for row in result["rows"]:
        if not row["measured"]:
            lines.append(f"{row['mode']:<11}not measured: {row['why_not']}")
            continue
        us = row["us_per_call"]
        spread = f"{row['min']:,.0f}-{row['max']:,.0f}"
        lines.append(
            f"{row['mode']:<11}{row['updates_per_s']:>11,.0f}{spread:>16}"
            f"{row['times_first']['median']:>8.2f}{us['act']:>7.1f} us{us['store']:>7.1f} us"
            f"{us['learn']:>8.1f} us{row['compile_s']:>8.1f} s{row['capture_s']:>8.1f} s"
            f"{row['weights_apart']:>13.1g}"
        )
    return "\n".join(lines)
