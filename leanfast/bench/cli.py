"""`leanfast bench NAME`: runs one of the measurements below."""

import argparse
import importlib
import json
import sys
from pathlib import Path

from leanfast.errors import UsageError

BENCHES = {"engine": ("leanfast.bench.engine", "steps/s of the native engine and its peers")}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="leanfast bench", description=__doc__)
    subparsers = parser.add_subparsers(dest="bench", required=True, metavar="NAME")
    chosen = argv[0] if argv and argv[0] in BENCHES else None
    for name, (module, text) in BENCHES.items():
        sub = subparsers.add_parser(name, help=text, description=text)
        sub.add_argument(
            "--json",
            nargs="?",
            const="-",
            metavar="FILE",
            help="write the results as JSON to FILE; without FILE, to standard output alone",
        )
        sub.add_argument("--repeats", type=int, default=5, help="measurements of each (default 5)")
        sub.add_argument("--seconds", type=float, default=0.1, help="of each one (default 0.1)")
        if name == chosen:
            importlib.import_module(module).add_arguments(sub)
    options = parser.parse_args(argv)
    if options.repeats < 1 or not 0 < options.seconds <= 60:
        raise UsageError("--repeats must be at least 1 and --seconds above 0, up to 60")
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
