"""The measurements: what they print, what they refuse, and that the README quotes them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from leanfast.bench import cli
from leanfast.bench.engine import short
from leanfast.bench.timing import Subject, measure_in_turn
from leanfast.errors import UsageError

ROOT = Path(__file__).parents[1]
QUICK = ["engine", "--envs", "cartpole", "--sizes", "4,768", "--repeats", "2", "--seconds", "0.001"]


def test_json_goes_to_standard_output_alone(capsys):
    assert cli.main([*QUICK, "--no-peers", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    row = result["rows"][0]
    assert (row["env"], row["num_envs"], row["subject"]) == ("CartPole-v1", 4, "leanfast")
    assert 0 < row["min"] <= row["steps_per_s"] <= row["max"]
    assert row["repeats"] == 2
    assert result["machine"]["versions"]["torch"]


def test_every_face_and_peer_is_measured_in_the_same_run(capsys, tmp_path):
    file = tmp_path / "engine.json"
    assert cli.main([*QUICK, "--json", str(file)]) == 0
    rows = json.loads(file.read_text())["rows"]
    subjects = {row["subject"] for row in rows if row["num_envs"] == 768}
    assert subjects >= {
        "leanfast",
        "leanfast as TorchRL env",
        "leanfast as Gymnasium VectorEnv",
        "Gymnasium SyncVectorEnv",
        "Gymnasium NumPy vector env",
    }
    printed = capsys.readouterr().out
    assert all(subject in printed for subject in subjects)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--envs", "cartpol"], "did you mean cartpole"),
        (["--sizes", "0"], "--sizes must be"),
        (["--sizes", "many"], "--sizes must be"),
        (["--repeats", "0"], "--repeats must be"),
        (["--seconds", "-1"], "--seconds must be above 0"),
        (["--json", "nowhere/at/all.json"], "there is no folder"),
    ],
)
def test_a_bad_argument_is_refused_in_one_sentence(arguments, sentence):
    with pytest.raises(UsageError, match=sentence):
        cli.main(["engine", *arguments])


def test_subjects_are_measured_in_turn():
    order = []

    def subject(name: str) -> Subject:
        def run(rounds: int) -> None:
            order.append(name)
            sum(range(1000 * rounds))

        return Subject({"subject": name}, run, per_round=1)

    subjects = [subject("a"), subject("b")]
    results = measure_in_turn(subjects, seconds=0.001, repeats=3)
    assert order[-6:] == ["a", "b"] * 3
    assert [r["repeats"] for r in results] == [3, 3]


def test_rates_are_shortened_to_three_digits():
    assert [short(x) for x in (1.5, 1234, 45_600_000, 2e9)] == ["1.5", "1.23K", "45.6M", "2G"]


def test_the_readme_quotes_the_committed_results():
    script = ROOT / "scripts" / "bench" / "tables.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
