"""Updates per second of one DQN, leanfast's in each mode and as others write it: the same network,
batches and arithmetic, in turn in one run.

CleanRL's settings (experiment=equal_work), no double, no clipping, squared loss, Adam, and a target
that follows every 50 updates. Before anything is timed, everyone takes the same 80 updates from
the same weights and must arrive at the same ones.
"""

import argparse
import sys
import time
import warnings
from functools import partial
from typing import Any

import torch

from leanfast.arithmetic import arithmetic
from leanfast.bench.configured import configured, device_of, modes_here
from leanfast.bench.contenders import LEANRL, OURS, Contender, line_up
from leanfast.bench.machine import describe, heading
from leanfast.bench.timing import Subject, measure_in_turn, ratio
from leanfast.config import Config
from leanfast.errors import RunError, UsageError

CHECKED = 80  # updates that everyone must agree on, the target's first move among them
APART = 1e-3  # by how much, at most, in any weight, of the 2e-2 that it can move in so many
FIRST_CALLS = 5  # what compiles and captures
BASE = (LEANRL, "compile")
GIVEN, SAMPLED = "batch given", "batch sampled"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch", default="128", help="sizes, comma-separated (default: 128)")
    parser.add_argument("--modes", default="all", help="execution modes (default: all that run)")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--no-peers", action="store_true", help="measure leanfast alone")
    parser.add_argument("--torch-threads", type=int, default=1, help="for everyone (default: 1)")


def run(options: argparse.Namespace) -> dict[str, Any]:
    sizes = [int(size) if size.isdigit() else 0 for size in options.batch.split(",")]
    if not 1 <= min(sizes) <= max(sizes) <= 10_000:
        raise UsageError(f"--batch must be sizes from 1 to 10000, not {options.batch}")
    if options.torch_threads < 1:
        raise UsageError(f"--torch-threads must be at least 1, not {options.torch_threads}")
    device = device_of(options.device)
    modes = chosen_modes(options.modes, device)
    rows = []
    with arithmetic(options.torch_threads, flush_denormals=False):  # as peers do
        for size in sizes:
            config = configured("experiment=equal_work", f"algo.batch_size={size}")
            rows += _measure(config, size, modes, device, options)
    return {
        "bench": "update",
        "machine": describe(),
        "device": device,
        "torch_threads": options.torch_threads,
        "checked_updates": CHECKED,
        "rows": rows,
    }


def chosen_modes(names: str, device: str) -> list[str]:
    here = modes_here(device)
    if names == "all":
        return [mode for mode, why_not in here.items() if not why_not]
    for name in names.split(","):
        if name not in here:
            raise UsageError(f"--modes has no {name!r}; there are {', '.join(here)}")
        if here[name]:
            raise UsageError(f"--modes has {name}, but {here[name]}")
    return names.split(",")


def _measure(
    config: Config, size: int, modes: list[str], device: str, options: argparse.Namespace
) -> list[dict[str, Any]]:
    torch.compiler.reset()  # else a second size is compiled for any size, and slower
    given, sampled = line_up(config, size, modes, device, peers=not options.no_peers)
    print(f"batch {size}: the first calls, which compile", file=sys.stderr)
    _begin(given, device)
    apart = _check(given)
    _begin(sampled, device)  # the peers' go on where they are: the same compiled update
    rows = []
    for work, contenders in ((GIVEN, given), (SAMPLED, sampled)):
        subjects = [
            Subject(
                {
                    "batch": size,
                    "work": work,
                    "subject": one.who,
                    "mode": one.mode,
                    "updates_per_call": one.updates,
                    "first_calls_s": one.first_calls_s,
                    "weights_apart": apart[one.who, one.mode, one.updates]
                    if work == GIVEN
                    else None,
                },
                partial(one.run, device),
                one.updates,
                unit="updates",
            )
            for one in contenders
        ]
        results = measure_in_turn(subjects, options.seconds, options.repeats)
        base = [s for s, one in zip(subjects, contenders, strict=True) if _is_base(one)]
        for subject, result in zip(subjects, results, strict=True):
            against = ratio(subject.rates, base[0].rates) if base else None
            rows.append(result | {"times_leanrl_compiled": against})
    return rows


def _begin(contenders: list[Contender], device: str) -> None:
    for contender in contenders:
        began = time.perf_counter()
        with warnings.catch_warnings():
            if contender.who != OURS:
                warnings.simplefilter("ignore")  # what the compiler says of others' functions
            contender.run(device, FIRST_CALLS)
        contender.first_calls_s = time.perf_counter() - began


def _check(contenders: list[Contender]) -> dict[tuple[str, str, int], float]:
    """How far each is from the first one's weights after the same updates."""
    apart, reference = {}, None
    for one in contenders:
        for turn in range(FIRST_CALLS, CHECKED // one.updates):
            one.call(turn)
        weights = one.weights()
        reference = weights if reference is None else reference
        off = float((weights - reference).abs().max())
        apart[one.who, one.mode, one.updates] = off
        if not off <= APART:
            raise RunError(
                f"{one.who} ({one.mode}) is {off:.2g} away from {contenders[0].who}'s weights "
                f"after {CHECKED} updates; more than {APART:g} is not the same work"
            )
    return apart


def _is_base(contender: Contender) -> bool:
    return (contender.who, contender.mode) == BASE


def table(result: dict[str, Any]) -> str:
    lines = [
        *heading(
            result["machine"],
            f", {result['torch_threads']} for torch; learning on {result['device']}",
        ),
        f"{'batch':>5}  {'work':<14}{'subject':<29}{'mode':<11}{'a call':>6}{'updates/s':>11}"
        f"{'spread':>16}{'us/update':>11}{'to LeanRL':>11}{'first calls':>13}",
    ]
    for row in result["rows"]:
        against = row["times_leanrl_compiled"]
        spread = f"{row['min']:,.0f}-{row['max']:,.0f}"
        lines.append(
            f"{row['batch']:>5}  {row['work']:<14}{row['subject']:<29}{row['mode']:<11}"
            f"{row['updates_per_call']:>6}{row['updates_per_s']:>11,.0f}{spread:>16}"
            f"{1e6 / row['updates_per_s']:>11.1f}"
            f"{'' if against is None else format(against['median'], '.2f'):>11}"
            f"{row['first_calls_s']:>11.1f} s"
        )
    apart = max((row["weights_apart"] or 0) for row in result["rows"])
    lines.append(
        f"to LeanRL: times the rate of LeanRL's way, compiled. After the same "
        f"{result['checked_updates']} updates, no weight was more than {apart:.1g} apart."
    )
    return "\n".join(lines)
