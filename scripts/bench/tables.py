"""Writes the README's tables from the results beside this file: `python scripts/bench/tables.py`.

With --check it changes nothing and fails where the README and the results differ.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parent / "results"
SIZES = (64, 768, 4096, 65536)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    readme = ROOT / "README.md"
    text = readme.read_text()
    wanted = with_tables(text)
    if check and wanted != text:
        print("README.md's tables differ from scripts/bench/results; run scripts/bench/tables.py")
        return 1
    readme.write_text(wanted)
    return 0


def with_tables(text: str) -> str:
    results = {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in TABLES}
    for name, table in TABLES.items():
        text = _between(text, name, table(results[name]))
    return text


def engine_table(result: dict[str, Any]) -> str:
    machine = result["machine"]
    rates = {(r["env"], r["subject"], r["threads"], r["num_envs"]): r for r in result["rows"]}
    lines = [
        "| environment | stepped by | " + " | ".join(f"{n:,} envs" for n in SIZES) + " |",
        "| --- | --- |" + " ---: |" * len(SIZES),
    ]
    for env, subject, threads in dict.fromkeys(key[:3] for key in rates):
        rows = [rates.get((env, subject, threads, size)) for size in SIZES]
        if "leanfast as" in subject or not any(rows):
            continue
        who = f"{subject}, {threads} thread{'s' if threads > 1 else ''}"
        who = f"**{who}**" if subject == "leanfast" else who
        cells = [f"{row['steps_per_s'] / 1e6:.3g}" if row else "" for row in rows]
        lines.append(f"| {env} | {who} | " + " | ".join(cells) + " |")
    engine, numpy_env, envpool = (
        rates["CartPole-v1", subject, 1, 768]["steps_per_s"]
        for subject in ("leanfast", "Gymnasium NumPy vector env", "EnvPool")
    )
    torchrl, vector_env = (
        rates["CartPole-v1", f"leanfast as {face}", 1, 768]["us_per_round"]
        for face in ("TorchRL env", "Gymnasium VectorEnv")
    )
    lines += [
        "",
        f"768 CartPoles on one thread: {engine / 1e6:.0f} million steps/s, "
        f"{engine / numpy_env:.1f} times Gymnasium's NumPy vector env and "
        f"{engine / envpool:.0f} times EnvPool in the same run. One batch of them through "
        f"TorchRL's `step_and_maybe_reset` takes {torchrl:.1f} µs, through Gymnasium's `step` "
        f"{vector_env:.1f} µs (most of it spent on the `final_info` of episodes that end).",
    ]
    repeats = result["rows"][0]["repeats"]
    spread = max((r["max"] - r["min"]) / r["steps_per_s"] for r in result["rows"])
    versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items())
    lines += [
        "",
        f"Million steps/s, random actions: medians of {repeats} repeats taken in turn in one run; "
        f"the widest spread between repeats was {100 * spread:.0f}%. {machine['processor']}, "
        f"{machine['cores']} virtual cores, {machine['instruction_set']}, {machine['date']}; "
        f"{versions}.",
    ]
    return "\n".join(lines)


def train_table(result: dict[str, Any]) -> str:
    lines = [
        "| `leanfast train` | evaluation, 100 episodes | solved after | to start | to train "
        "| env steps/s | updates/s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for command, run in result["runs"].items():
        evaluation = f"{run['eval_return_mean']:.1f} ± {run['eval_return_std']:.1f}"
        lines.append(
            f"| `{command}` | {evaluation} | {run['solved_at_s']:.1f} s | {run['startup_s']:.1f} s "
            f"| {run['train_s']:.1f} s | {run['env_steps_per_s']:,.0f} "
            f"| {run['updates_per_s']:,.0f} |"
        )
    machine = result["machine"]
    lines += [
        "",
        f"One run each, one after the other, {machine['processor']}, {machine['cores']} virtual "
        f"cores, {machine['date']}, torch {machine['versions']['torch']}; `execution=compile`. A "
        "configuration's first start compiles (the first and the last row), later ones find the "
        "compiler's cache. Solved: training time until an evaluation first reached 475.",
    ]
    return "\n".join(lines)


TABLES = {"engine": engine_table, "train": train_table}


def _between(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        sys.exit(f"README.md has no {begin} ... {end} to put a table into")
    return f"{before}{begin}\n{table}\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
