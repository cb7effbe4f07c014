"""Env steps and updates per second of `leanfast train`, one run after the other, in each pipeline.

CleanRL's settings (experiment=equal_work): every pipeline takes 0.1 updates of batch 128 per env
step. Rates are over the time after startup. Overrides of `leanfast train` may follow.
"""

import argparse
import statistics
import sys
from typing import Any

from leanfast.bench.configured import configured, train
from leanfast.bench.machine import describe, heading
from leanfast.bench.timing import ratio
from leanfast.errors import UsageError

PIPELINES = ("serial", "double_buffered", "vectorized")
# The textbook's loop is eager. Its updates cannot be put in one graph: their batches come singly.
SERIAL = ("pipeline=serial", "execution.steps_per_graph=1")
RUNS = {
    "serial, eager": (*SERIAL, "execution.mode=eager"),
    "serial": SERIAL,
    "double_buffered": ("pipeline=double_buffered",),
    "vectorized": ("pipeline=vectorized",),
}
BASE = "serial, eager"
SHORT = ("experiment=equal_work", "eval.every=0", "eval.episodes=10")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="e.g. env.num_envs=64")
    parser.add_argument("--pipelines", default=",".join(PIPELINES), help="comma-separated")
    parser.add_argument(
        "--steps", type=int, default=60_000, help="env steps of each run (default 60000)"
    )


def run(options: argparse.Namespace) -> dict[str, Any]:
    names = options.pipelines.split(",")
    for name in names:
        if name not in PIPELINES:
            raise UsageError(f"--pipelines has no {name!r}; there are {', '.join(PIPELINES)}")
    settings = [*SHORT, f"total_steps={options.steps}", *options.overrides]
    # Refused now, or not at all.
    chosen = {run: own for run, own in RUNS.items() if run.partition(",")[0] in names}
    envs = {run: configured(*settings, *own).env.num_envs for run, own in chosen.items()}
    found: dict[str, list[dict[str, Any]]] = {run: [] for run in chosen}
    for turn in range(options.repeats):
        for name, own in chosen.items():
            print(f"{name}, repeat {turn + 1} of {options.repeats}", file=sys.stderr)
            found[name].append(train([*settings, *own]))
    rates = {name: _rates(runs, "env_steps_per_s") for name, runs in found.items()}
    rows = []
    for name, runs in found.items():
        first = runs[0]
        rows.append(
            {
                "pipeline": name.partition(",")[0],
                "num_envs": 1 if name.startswith("serial") else envs[name],
                "device": first["device"],
                "execution": first["execution"]["effective"],
                "env_steps_per_s": statistics.median(rates[name]),
                "min": min(rates[name]),
                "max": max(rates[name]),
                "updates_per_s": statistics.median(_rates(runs, "updates_per_s")),
                "updates_per_env_step": first["updates"] / first["env_steps"],
                "startup_s": statistics.median(_rates(runs, "startup_s")),
                "train_s": statistics.median(_rates(runs, "train_s")),
                "times_serial": ratio(rates[name], rates[BASE]) if BASE in rates else None,
                "repeats": len(runs),
            }
        )
    return {"bench": "pipelines", "machine": describe(), "settings": settings, "rows": rows}


def _rates(runs: list[dict[str, Any]], name: str) -> list[float]:
    return [float(one[name]) for one in runs]


def table(result: dict[str, Any]) -> str:
    lines = [
        *heading(result["machine"], f"; {' '.join(result['settings'])}"),
        f"{'pipeline':<17}{'envs':>5}  {'execution':<10}{'env steps/s':>12}{'spread':>18}"
        f"{'updates/s':>11}{'to serial':>11}{'startup':>10}",
    ]
    for row in result["rows"]:
        against = row["times_serial"]
        spread = f"{row['min']:,.0f}-{row['max']:,.0f}"
        lines.append(
            f"{row['pipeline']:<17}{row['num_envs']:>5}  {row['execution']:<10}"
            f"{row['env_steps_per_s']:>12,.0f}{spread:>18}{row['updates_per_s']:>11,.0f}"
            f"{'' if against is None else format(against['median'], '.2f'):>11}"
            f"{row['startup_s']:>8.1f} s"
        )
    return "\n".join(lines)
