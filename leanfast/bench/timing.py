"""Rates of several subjects, measured in turn so that a noisy machine treats them alike."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Subject:
    """Something to measure: `run(k)` does k rounds of `per_round` units each, and is done with them
    when it returns."""

    labels: dict[str, Any]
    run: Callable[[int], None]
    per_round: int
    unit: str = "steps"
    rounds: int = 1
    rates: list[float] = field(default_factory=list)

    def calibrate(self, seconds: float) -> None:
        """Choose how many rounds fill `seconds`; the rounds spent here warm the subject up."""
        while True:
            took = self._time(self.rounds)
            if took >= seconds / 4:
                self.rounds = max(1, round(self.rounds * seconds / took))
                return
            self.rounds *= 2 if took < seconds / 40 else 4

    def measure(self) -> None:
        self.rates.append(self.rounds * self.per_round / self._time(self.rounds))

    def _time(self, rounds: int) -> float:
        began = time.perf_counter()
        self.run(rounds)
        return time.perf_counter() - began

    def result(self) -> dict[str, Any]:
        median = statistics.median(self.rates)
        return {
            **self.labels,
            f"{self.unit}_per_s": median,
            "us_per_round": 1e6 * self.per_round / median,
            "min": min(self.rates),
            "max": max(self.rates),
            "repeats": len(self.rates),
        }


def measure_in_turn(subjects: list[Subject], seconds: float, repeats: int) -> list[dict[str, Any]]:
    for subject in subjects:
        subject.calibrate(seconds)
    for _ in range(repeats):
        for subject in subjects:
            subject.measure()
    return [subject.result() for subject in subjects]


def ratio(rates: list[float], others: list[float]) -> dict[str, float]:
    """How many times `others`, turn by turn: what slowed the machine down slowed both."""
    ratios = [one / other for one, other in zip(rates, others, strict=True)]
    return {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
