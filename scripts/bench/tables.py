"""Writes the README's tables from the results beside this file: `python scripts/bench/tables.py`.

With --check it changes nothing and fails where the README and the results differ.
"""

import argparse
import json
import statistics
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


def update_table(result: dict[str, Any]) -> str:
    rows = {(r["subject"], r["mode"], r["updates_per_call"], r["work"]): r for r in result["rows"]}
    lines = [
        "| one update | mode | updates/s, batch given | to LeanRL's, compiled "
        "| updates/s, batch drawn too | to LeanRL's, compiled |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for subject, mode, updates in dict.fromkeys(key[:3] for key in rows):
        who = f"**{subject}**" if subject == "leanfast" else subject
        how = mode if updates == 1 else f"{mode}, {updates} in one graph"
        cells = []
        for work in ("batch given", "batch sampled"):
            row = rows[subject, mode, updates, work]
            against = row["times_leanrl_compiled"]["median"]
            cells += [f"{row['updates_per_s']:,.0f}", f"{against:.2f}"]
        lines.append(f"| {who} | {how} | " + " | ".join(cells) + " |")
    apart = max(row["weights_apart"] or 0 for row in rows.values())
    lines += [
        "",
        f"Batch {result['rows'][0]['batch']}, 4-120-84-2 network, Adam, a target every 50 updates; "
        "LeanRL's way is the structure of its `dqn_torchcompile.py`, written anew. "
        f"{result['torch_threads']} thread for torch, learning on {result['device']}; "
        f"{_medians(result['rows'], 'updates_per_s')} After the same {result['checked_updates']} "
        f"updates, no weight differed by more than {apart:.0e}. {_machine(result)}",
    ]
    return "\n".join(lines)


def modes_table(result: dict[str, Any]) -> str:
    lines = [
        "| `execution=` | updates/s | to eager | act | store | learn | to compile | to capture "
        "| weights differ by |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in result["rows"]:
        if not row["measured"]:
            lines.append(f"| {row['mode']} | not measured |" + "  |" * 7)
            continue
        us = row["us_per_call"]
        lines.append(
            f"| {row['mode']} | {row['updates_per_s']:,.0f} | {row['times_first']['median']:.2f} | "
            + " | ".join(f"{us[name]:.0f} µs" for name in ("act", "store", "learn"))
            + f" | {row['compile_s']:.1f} s | {row['capture_s']:.1f} s "
            f"| {row['weights_apart']:.0e} |".replace("0e+00", "0")
        )
    measured = [row for row in result["rows"] if row["measured"]]
    lines += [
        "",
        f"{result['num_envs']} envs, batch {result['batch']}, {result['updates_per_call']} update"
        f"{'s' if result['updates_per_call'] > 1 else ''} a call, on {result['device']}, "
        f"{result['torch_threads']} thread for torch, compiled from an empty cache; weights after "
        f"{result['checked_updates']} updates, against eager's; "
        f"{_medians(measured, 'updates_per_s')} {_machine(result)}",
    ]
    return "\n".join(lines)


def pipelines_table(result: dict[str, Any]) -> str:
    lines = [
        "| `pipeline=` | envs | execution | env steps/s | updates/s | to serial |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for row in result["rows"]:
        lines.append(
            f"| {row['pipeline']} | {row['num_envs']} | {row['execution']} "
            f"| {row['env_steps_per_s']:,.0f} | {row['updates_per_s']:,.0f} "
            f"| {row['times_serial']['median']:.2f} |"
        )
    lines += [
        "",
        f"`{' '.join(result['settings'])}`; rates after startup; "
        f"{_medians(result['rows'], 'env_steps_per_s')} {_machine(result)}",
    ]
    return "\n".join(lines)


def startup_table(result: dict[str, Any]) -> str:
    lines = [
        "| `leanfast train` | nothing compiled yet | again | ratio |",
        "| --- | ---: | ---: | ---: |",
    ]
    for row in result["rows"]:
        cold, warm = (_each(row[name], "{:.1f} s") for name in ("cold_s", "warm_s"))
        lines.append(f"| `{row['command']}` | {cold} | {warm} | {row['warm_to_cold']:.2f} |")
    lines += [
        "",
        "Seconds until the first updates are compiled and made, the random steps before them "
        f"included: every repeat, and the median of the ratios. {_machine(result)}",
    ]
    return "\n".join(lines)


def train_table(result: dict[str, Any]) -> str:
    lines = [
        "| `leanfast train` | evaluation of each seed | solved after | to start: cold, warm "
        "| to train | env steps/s | updates/s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for command in dict.fromkeys(run["command"] for run in result["runs"]):
        runs = [run for run in result["runs"] if run["command"] == command]
        evaluation = [f"{r['eval_return_mean']:.1f} ± {r['eval_return_std']:.1f}" for r in runs]
        solved = [run["solved_at_s"] for run in runs]
        starts = [
            f"{statistics.median(times):.1f} s" if times else ""
            for cold in (True, False)
            if (times := [run["startup_s"] for run in runs if run["cold"] is cold]) or cold
        ]
        lines.append(
            f"| `{command}` | {'; '.join(evaluation)} "
            f"| {_each(solved, '{:.1f} s') if any(solved) else ''} | {', '.join(starts)} "
            f"| {_median(runs, 'train_s'):.1f} s | {_median(runs, 'env_steps_per_s'):,.0f} "
            f"| {_median(runs, 'updates_per_s'):,.0f} |"
        )
    seeds = ", ".join(map(str, dict.fromkeys(run["seed"] for run in result["runs"])))
    modes = " and ".join(dict.fromkeys(run["execution"]["effective"] for run in result["runs"]))
    lines += [
        "",
        f"Seeds {seeds}, one run after the other; mean and standard deviation of each seed's last "
        "evaluation, 100 episodes; of times and rates, the median. Each command's first run "
        "compiles everything (cold), the others find it compiled. Solved: training time until an "
        f"evaluation first reached the threshold. `execution={modes}`. {_machine(result)}",
    ]
    return "\n".join(lines)


def tag_table(result: dict[str, Any]) -> str:
    runs = result["runs"]
    lines = [
        "| catches an episode | against the trained runner | against a random one |",
        "| --- | ---: | ---: |",
    ]
    for chasers in ("trained", "random"):
        cells = (
            _each([run[f"{chasers} chasers, {runner} runner"] for run in runs], "{:.2f}")
            for runner in ("trained", "random")
        )
        lines.append(f"| {chasers} chasers | {' | '.join(cells)} |")
    return "\n".join(
        [
            *lines,
            "",
            f"`experiment=tag`, seeds {', '.join(str(run['seed']) for run in runs)}; means of "
            f"{runs[0]['episodes']} episodes without shaping, everyone greedy. "
            f"{_machine(result)}",
        ]
    )


def _median(runs: list[dict[str, Any]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def _each(values: list[float | None], form: str) -> str:
    return ", ".join("never" if value is None else form.format(value) for value in values)


def _medians(rows: list[dict[str, Any]], rate: str) -> str:
    spread = max((row["max"] - row["min"]) / row[rate] for row in rows)
    return (
        f"medians of {rows[0]['repeats']} repeats taken in turn in one run, the widest spread "
        f"between repeats was {100 * spread:.0f}%."
    )


def _machine(result: dict[str, Any]) -> str:
    machine = result["machine"]
    names = ("python", "leanfast", "torch", "tensordict")
    versions = ", ".join(f"{name} {machine['versions'][name]}" for name in names)
    return (
        f"{machine['processor']}, {machine['cores']} virtual cores, {machine['date']}; {versions}."
    )


TABLES = {
    "engine": engine_table,
    "update": update_table,
    "modes": modes_table,
    "pipelines": pipelines_table,
    "startup": startup_table,
    "train": train_table,
    "tag": tag_table,
}


def _between(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        sys.exit(f"README.md has no {begin} ... {end} to put a table into")
    return f"{before}{begin}\n{table}\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
