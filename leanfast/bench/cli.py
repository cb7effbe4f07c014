"""`leanfast bench NAME`: measures something that anyone can measure again with the same command.

What is compared is measured in turn, in one run: the figures are medians over the repeats, beside
the smallest and the largest. `leanfast bench NAME --help` says more.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

from leanfast.errors import UsageError

BENCHES = {
    "engine": ("leanfast.bench.engine", "steps/s of the native engine and its peers", 5),
    "update": ("leanfast.bench.update", "updates/s of one DQN update and its peers, by mode", 5),
    "modes": ("leanfast.bench.modes", "what training captures, in every execution mode", 5),
    "pipelines": ("leanfast.bench.pipelines", "whole training runs, one for each pipeline", 3),
}
SECONDS = {"engine": 0.1, "update": 0.5, "modes": 0.2}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="leanfast bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = parser.add_subparsers(dest="bench", required=True, metavar="NAME")
    chosen = argv[0] if argv and argv[0] in BENCHES else None
    for name, (path, text, repeats) in BENCHES.items():
        sub = subparsers.add_parser(name, help=text, description=text)
        sub.add_argument(
            "--json",
            nargs="?",
            const="-",
            metavar="FILE",
            help="write the results as JSON to FILE; without FILE, to standard output alone",
        )
        sub.add_argument(
            "--repeats", type=int, default=repeats, help=f"measurements of each (default {repeats})"
        )
        if name in SECONDS:
            seconds = SECONDS[name]
            words = f"of each one (default {seconds})"
            sub.add_argument("--seconds", type=float, default=seconds, help=words)
        if name == chosen:
            module = importlib.import_module(path)
            sub.description = module.__doc__
            sub.formatter_class = argparse.RawDescriptionHelpFormatter
            module.add_arguments(sub)
    options = parser.parse_args(argv)
    if options.repeats < 1:
        raise UsageError(f"--repeats must be at least 1, not {options.repeats}")
    if options.bench in SECONDS and not 0 < options.seconds <= 60:
        raise UsageError(f"--seconds must be above 0, up to 60, not {options.seconds:g}")
    if options.json not in (None, "-") and not Path(options.json).resolve().parent.is_dir():
        raise UsageError(f"--json: there is no folder {Path(options.json).resolve().parent}")
    bench = importlib.import_module(BENCHES[options.bench][0])
    result = bench.run(options)
    if options.json == "-":
        json.dump(result, sys.stdout, indent=1)
        print()
        return 0
    print(bench.table(result))
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
        print(f"written to {options.json}")
    return 0
