"""What a run counts while it trains, and where it says so: console, metrics.csv, summary.json."""

import csv
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tensordict import TensorDict

from leanfast.config import Config
from leanfast.envs.simulator import Step
from leanfast.evaluation import Evaluation

log = logging.getLogger("leanfast")

COLUMNS = (
    "env_steps",
    "updates",
    "episodes",
    "train_s",
    "env_steps_per_s",
    "updates_per_s",
    "return_mean",
    "eval_return_mean",
    "epsilon",
    "learning_rate",
    "loss",
    "action_value",
    "gradient_norm",
)


class Journal:
    """`train_s`, and the rates over it, are of the time after the first updates, which compile and
    capture, without evaluations. A row of metrics.csv is about the steps since the row before."""

    def __init__(self, config: Config, folder: Path, began: float):
        self.config, self.folder, self.began = config, folder, began
        self.env_steps = self.updates = self.episodes = 0
        self.startup_s: float | None = None
        self.solved_at_s: float | None = None
        self.return_mean: float | None = None
        self.evaluation: Evaluation | None = None
        self._evaluated_at = -1
        self._metrics: TensorDict | None = None
        self._returns = self._ended = 0.0
        self._first = self._row = (0.0, 0, 0)  # train_s, env steps and updates at its beginning
        self._paused = 0.0
        # newline: the csv module writes its own.
        self._file = open(folder / "metrics.csv", "w", newline="")  # noqa: SIM115
        self._csv = csv.DictWriter(self._file, COLUMNS)
        self._csv.writeheader()

    @property
    def train_s(self) -> float:
        if self.startup_s is None:
            return 0.0
        return time.perf_counter() - self.began - self.startup_s - self._paused

    def learned(self, updates: int, metrics: TensorDict, started: bool) -> None:
        """`started`: nothing is left to compile or capture."""
        self.updates += updates
        self._metrics = metrics
        if self.startup_s is None and started:
            float(metrics["loss"])  # waits for the device
            self.startup_s = time.perf_counter() - self.began - self._paused
            self._first = self._row = (0.0, self.env_steps, self.updates)

    def stepped(self, step: Step) -> None:
        """Of one step of the envs, or of a chunk of them."""
        done = step.done.numpy()
        self.env_steps += done.size
        ended = int(np.count_nonzero(done))
        if ended:
            self.episodes += ended
            self._ended += ended
            # Over agents, the mean: what one of them earns.
            self._returns += float(step.episode_return.numpy()[done].mean(-1).sum())

    def evaluate(self, evaluate: Callable[[], Evaluation]) -> Evaluation:
        """Of the weights after so many env steps: made once, however often it is asked for."""
        if self.evaluation and self._evaluated_at == self.env_steps:
            return self.evaluation
        at, began = self.train_s, time.perf_counter()
        self.evaluation, self._evaluated_at = evaluate(), self.env_steps
        self._paused += time.perf_counter() - began
        solved = self.config.env.solved_return
        if self.solved_at_s is None and solved is not None:
            self.solved_at_s = at if self.evaluation.return_mean >= solved else None
        return self.evaluation

    def write(self, state: TensorDict) -> None:
        """One row of metrics.csv and one line on the console."""
        row = {
            "env_steps": self.env_steps,
            "updates": self.updates,
            "episodes": self.episodes,
            "train_s": self.train_s,
            **self._rates(self._row),
            "epsilon": float(state["epsilon"]),
            "learning_rate": float(state["learning_rate"]),
        }
        if self._ended:
            row["return_mean"] = self.return_mean = self._returns / self._ended
        if self.evaluation:
            row["eval_return_mean"] = self.evaluation.return_mean
        if self._metrics is not None:
            row |= {name: float(value) for name, value in self._metrics.items()}
        self._csv.writerow({name: _short(value) for name, value in row.items()})
        self._file.flush()
        log.info("%s", _line(row))
        self._returns = self._ended = 0.0
        self._row = (self.train_s, self.env_steps, self.updates)

    def finish(self, status: str, fields: dict[str, Any]) -> dict[str, Any]:
        """summary.json, which is also returned; `fields` are those that are known beforehand."""
        self._file.close()
        wall_s, evaluation = time.perf_counter() - self.began, self.evaluation
        summary = {
            **fields,
            "env_steps": self.env_steps,
            "updates": self.updates,
            "episodes": self.episodes,
            "wall_s": wall_s,
            "startup_s": wall_s if self.startup_s is None else self.startup_s,
            "train_s": self.train_s,
            **self._rates(self._first),
            "return_mean": self.return_mean,
            "eval_return_mean": evaluation.return_mean if evaluation else None,
            "eval_return_std": evaluation.return_std if evaluation else None,
            "solved_at_s": self.solved_at_s,
            "gpu": {"util_mean": None, "util_auc_s": None, "seconds_per_million_steps": None},
            "status": status,
        }
        text = json.dumps(_rounded(summary), indent=2)
        (self.folder / "summary.json").write_text(text + "\n")
        return summary

    def _rates(self, since: tuple[float, int, int]) -> dict[str, float | None]:
        seconds = self.train_s - since[0]
        steps, updates = self.env_steps - since[1], self.updates - since[2]
        return {
            "env_steps_per_s": steps / seconds if seconds > 0 else None,
            "updates_per_s": updates / seconds if seconds > 0 else None,
        }


def _line(row: dict[str, Any]) -> str:
    parts = [f"{row['env_steps']:>11,} steps", f"{row['updates']:>9,} updates"]
    for label, name, form in (
        ("return", "return_mean", "8.2f"),
        ("evaluation", "eval_return_mean", "8.2f"),
        ("loss", "loss", "9.2g"),
        ("epsilon", "epsilon", "5.2f"),
    ):
        if row.get(name) is not None:
            parts.append(f"{label} {row[name]:{form}}")
    if row["env_steps_per_s"] is not None:
        parts.append(
            f"{row['env_steps_per_s']:>9,.0f} steps/s {row['updates_per_s']:>6,.0f} updates/s"
        )
    return "  ".join(parts)


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return round(value, 4) if isinstance(value, float) else value
