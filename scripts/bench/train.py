"""Trains with several seeds, one run after the other, and keeps the summaries for the README:

python scripts/bench/train.py                          every recipe
python scripts/bench/train.py "env=acrobot" ...        these alone; other rows stay as they are

Each command starts in an empty compiler cache, which its further seeds find filled: the first run's
startup is a cold one.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from leanfast.bench.configured import train
from leanfast.bench.machine import describe
from leanfast.errors import RunError
from leanfast.paths import conf_dir

RESULTS = Path(__file__).resolve().parent / "results" / "train.json"


def recipes() -> list[str]:
    return ["env=cartpole", *(f"experiment={one.stem}" for one in conf_dir().glob("experiment/*"))]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commands", nargs="*", metavar="OVERRIDES", help="of one `leanfast train`")
    parser.add_argument("--seeds", default="1,2,3", help="comma-separated (default 1,2,3)")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE")
    options = parser.parse_args()
    commands = options.commands or sorted(recipes())
    machine = describe(("hydra-core",))
    runs = _others(options.output, commands, machine) if options.commands else []
    for command in commands:
        try:
            runs += _with_each_seed(command, options.seeds.split(","))
        except RunError as error:
            print(error, file=sys.stderr)
            return 1
        options.output.write_text(json.dumps({"machine": machine, "runs": runs}, indent=1) + "\n")
    return 0


def _with_each_seed(command: str, seeds: list[str]) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        for seed in seeds:
            summary = train([*command.split(), f"seed={seed}"], Path(cache))
            del summary["versions"]  # the machine's
            cold = not runs
            runs.append({"command": command, "cold": cold, **summary})
            print(
                f"{command} seed={seed}: evaluation {summary['eval_return_mean']:.1f} ± "
                f"{summary['eval_return_std']:.1f}, solved after {summary['solved_at_s']} s, "
                f"{summary['startup_s']:.1f} s to start ({'cold' if cold else 'warm'}), "
                f"{summary['train_s']:.1f} s to train, {summary['env_steps_per_s']:,.0f} env "
                f"steps/s, {summary['updates_per_s']:,.0f} updates/s",
                flush=True,
            )
    return runs


def _others(output: Path, commands: list[str], machine: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that stay, if they are this machine's."""
    if not output.exists():
        return []
    found = json.loads(output.read_text())
    runs = [run for run in found["runs"] if run["command"] not in commands]
    differs = [
        name for name in machine if name != "date" and machine[name] != found["machine"][name]
    ]
    if runs and differs:
        sys.exit(
            f"{output} was measured with other {' and '.join(differs)}; run all of its rows again, "
            "without naming any"
        )
    return runs


if __name__ == "__main__":
    sys.exit(main())
