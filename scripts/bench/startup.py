"""How long `leanfast train` takes to begin to learn, compiling everything and again with what the
compiler kept: python scripts/bench/startup.py ["OVERRIDES" ...]
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from leanfast.bench.configured import train
from leanfast.bench.machine import describe
from leanfast.errors import RunError

RESULTS = Path(__file__).resolve().parent / "results" / "startup.json"
COMMANDS = ("env=cartpole total_steps=4000", "experiment=equal_work total_steps=12000")
SHORT = ("eval.every=0", "eval.episodes=1")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commands", nargs="*", default=list(COMMANDS), metavar="OVERRIDES")
    parser.add_argument("--repeats", type=int, default=3, help="of each pair (default 3)")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE")
    options = parser.parse_args()
    rows = []
    for command in options.commands:
        cold, warm = [], []
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as cache:
                for found in (cold, warm):
                    try:
                        summary = train([*command.split(), *SHORT], Path(cache))
                    except RunError as error:
                        print(error, file=sys.stderr)
                        return 1
                    found.append(summary["startup_s"])
        ratio = statistics.median(w / c for w, c in zip(warm, cold, strict=True))
        rows.append({"command": command, "cold_s": cold, "warm_s": warm, "warm_to_cold": ratio})
        medians = [f"{statistics.median(found):.1f} s" for found in (cold, warm)]
        print(f"{command}: cold {medians[0]}, warm {medians[1]}, ratio {ratio:.2f}", flush=True)
    result = {"machine": describe(), "rows": rows}
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
