"""The command as its users run it, in a process of its own."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HEADER = Path(__file__).parent / "headers" / "counter.hpp"
COMMAND = [
    sys.executable,
    "-c",
    "import sys; from leanfast.cli import main; sys.exit(main(['train', *sys.argv[1:]]))",
]
FIELDS = {
    *("env", "algo", "pipeline", "seed", "device", "execution", "versions", "status", "gpu"),
    *("env_steps", "updates", "episodes", "env_steps_per_s", "updates_per_s", "return_mean"),
    *("wall_s", "startup_s", "train_s", "eval_return_mean", "eval_return_std", "solved_at_s"),
}
SHORT = ["execution=eager", "total_steps=2400", "algo.learning_starts=1000", "eval.episodes=10"]


def train(folder, *overrides):
    return subprocess.run(
        [*COMMAND, f"hydra.run.dir={folder / 'run'}", *overrides],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
    )


def summary(folder):
    return json.loads((folder / "run" / "summary.json").read_text())


def test_a_run_leaves_its_configuration_metrics_and_summary(tmp_path):
    done = train(tmp_path, "seed=3", "log.every=1000", *SHORT)
    assert (done.returncode, done.stderr) == (0, "")
    found = summary(tmp_path)
    assert set(found) == FIELDS
    assert (found["env"], found["seed"], found["status"]) == ("cartpole", 3, "finished")
    assert found["execution"] == {"requested": "eager", "effective": "eager"}
    assert (found["env_steps"], found["updates"]) == (2400, 138)
    assert 0 < found["startup_s"] + found["train_s"] < found["wall_s"]
    assert found["versions"]["torch"]
    assert found["gpu"] == {
        "util_mean": None,
        "util_auc_s": None,
        "seconds_per_million_steps": None,
    }
    with open(tmp_path / "run" / "metrics.csv", newline="") as file:
        assert [row["env_steps"] for row in csv.DictReader(file)] == ["1008", "2000", "2400"]
    assert "seed: 3" in (tmp_path / "run" / "config.yaml").read_text()
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"evaluation: return {found['eval_return_mean']:.2f}")


def test_a_header_of_ones_own_trains_with_its_parameters(tmp_path):
    own = ["env=custom", f"env.source={HEADER}", "env.params.length=30", "algo.discount=0.5"]
    done = train(tmp_path, *own, *SHORT, "total_steps=4000", "algo.learning_rate=1e-2")
    assert done.returncode == 0, done.stderr
    assert summary(tmp_path)["eval_return_mean"] == 30.0


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["algo.batch_size=0"], "algo.batch_size is 0; it must be 1 to 2147483648"),
        (["env=cartpol"], "there is no env=cartpol; there are acrobot, cartpole, custom, "),
        (["pipeline=serial"], "there is no pipeline=serial; there are auto, vectorized"),
        (["algo.batchsize=1"], "there is no algo.batchsize; "),
        (["env.params.gravty=1"], "cartpole has no parameter 'gravty' (did you mean gravity?)"),
        (["execution=fast"], "there is no execution=fast; there are auto, combined, compile, "),
        (["env=custom", "env.source=no.hpp"], "the header no.hpp cannot be read"),
        (["seed"], "Error parsing override 'seed' "),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence_and_exit_2(overrides, sentence, tmp_path):
    done = train(tmp_path, *overrides)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"leanfast: {sentence}")


def test_a_bad_value_is_refused_before_torch_is_imported(tmp_path):
    code = (
        "import sys; from leanfast.cli import main\n"
        f"main(['train', 'hydra.run.dir={tmp_path}', 'seed=-1'])\n"
        "assert not {'torch', 'tensordict'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_ctrl_c_exits_130_and_leaves_a_summary_that_says_interrupted(tmp_path):
    long = ["execution=eager", "total_steps=1e9", "log.every=1000"]
    process = subprocess.Popen(
        [*COMMAND, f"hydra.run.dir={tmp_path / 'run'}", *long],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    with process:
        while "updates/s" not in process.stdout.readline():
            assert process.poll() is None
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in error
    found = summary(tmp_path)
    assert found["status"] == "interrupted"
    assert found["updates"] > 0


@pytest.mark.slow
def test_a_sweep_trains_each_job_in_a_folder_of_its_own(tmp_path):
    sweep = [f"hydra.sweep.dir={tmp_path / 'sweep'}", "seed=1,2"]
    done = train(tmp_path, *sweep, *SHORT, "-m")
    assert done.returncode == 0, done.stderr
    found = [json.loads(path.read_text()) for path in tmp_path.glob("sweep/*/summary.json")]
    assert sorted(one["seed"] for one in found) == [1, 2]


@pytest.mark.slow
def test_the_first_command_of_the_readme_learns(tmp_path):
    done = train(tmp_path, "env=cartpole", "total_steps=60000")
    assert done.returncode == 0, done.stderr
    found = summary(tmp_path)
    assert found["eval_return_mean"] > 120
    assert found["execution"]["requested"] == "auto"
