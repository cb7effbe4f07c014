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
EAGER = {"requested": "eager", "effective": "eager", "compile_s": 0.0, "capture_s": 0.0}
SHORT = ["execution=eager", "total_steps=2400", "algo.learning_starts=1000", "eval.episodes=10"]


def train(folder, *overrides, path=""):
    return subprocess.run(
        [*COMMAND, f"hydra.run.dir={folder / 'run'}", *overrides],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
        env=os.environ | {"PYTHONPATH": str(path)},
    )


def summary(folder):
    return json.loads((folder / "run" / "summary.json").read_text())


def test_a_run_leaves_its_configuration_metrics_and_summary(tmp_path):
    done = train(tmp_path, "seed=3", "log.every=1000", *SHORT)
    assert (done.returncode, done.stderr) == (0, "")
    found = summary(tmp_path)
    assert set(found) == FIELDS
    assert (found["env"], found["seed"], found["status"]) == ("cartpole", 3, "finished")
    assert found["execution"] == EAGER
    assert (found["env_steps"], found["updates"]) == (2400, 140)
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
    assert f"{found['startup_s']:.1f} s to start, 0.0 of them compiling and capturing" in last


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
        (["pipeline=parallel"], "there is no pipeline=parallel; there are auto, double_buffered, "),
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


IMPOSSIBLE = {
    "env=pendulum env.action_bins=null": "pendulum has continuous actions of 1 dimension, and a "
    "few to choose from are needed: env.action_bins=11",
    "algo.batch_size=256 algo.buffer_size=200": "algo.batch_size is 256, more than "
    "algo.buffer_size=200",
    "algo.n_step=20 algo.buffer_size=160": "algo.n_step is 20, more than the 10 steps that "
    "algo.buffer_size=160 holds of each of 16 lanes",
    "algo.buffer_size=130 env=tag env.num_envs=64": "algo.buffer_size is 130; it must be at least "
    "256, one step of each of 256 lanes",
    "precision=fp16 device=cpu": "precision is 'fp16', which needs a CUDA device",
    "algo.updates_per_step=null": "algo.updates_per_step is null, which leaves the pace to each "
    "thread; only pipeline=double_buffered has two",
    "pipeline=serial execution.steps_per_graph=2": "execution.steps_per_graph is 2; "
    "pipeline=serial takes 1",
    "+pipeline.chunk=8": "pipeline.chunk is 8; only pipeline=double_buffered stores several",
    "pipeline=double_buffered pipeline.chunk=4000": "pipeline.chunk is 4000, more than the 3125 "
    "steps that algo.buffer_size=50000 holds",
    "pipeline=serial env=tag": "tag has 4 agents, but pipeline=serial steps a single Gymnasium",
    "total_steps=1e6 env.num_envs=300000": "algo.buffer_size is 50000; it must be at "
    "least 300000, one step of",
    "total_steps=3000 algo.n_step=3 env.num_envs=1000": "total_steps is 3000, so nothing is "
    "learned; it must be more than 3000, algo.n_step=3 steps of each env (there are 1000)",
    "seed=-1": "seed is -1; it must be 0 to 4294967295",
}
REFUSING = """
import contextlib, io, json, sys
from leanfast.cli import main
found = []
for overrides in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        found.append([main(["train", *overrides.split()]), said.getvalue()])
assert not {"torch", "tensordict"} & set(sys.modules)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    command = [sys.executable, "-c", REFUSING, json.dumps(list(IMPOSSIBLE))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr  # also where torch was imported
    return dict(zip(IMPOSSIBLE, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("overrides", IMPOSSIBLE)
def test_impossible_combinations_are_refused_before_torch_is_imported(overrides, refusals):
    status, said = refusals[overrides]
    assert status == 2
    sentences = [line for line in said.splitlines() if IMPOSSIBLE[overrides] in line]
    assert len(sentences) == 1
    assert len(said.splitlines()) == 1


RUNS = {
    "serial": ["pipeline=serial"],
    "double_buffered": ["pipeline=double_buffered", "pipeline.chunk=10"],
    "free": ["pipeline=double_buffered", "algo.updates_per_step=null"],
    "sync": ["env=gymnasium", "env.id=CartPole-v1", "env.vectorization=sync"],
    "vectorised": ["env=gymnasium", "env.id=CartPole-v1", "env.vectorization=vector_entry_point"],
    "tag": ["env=tag", "algo.n_step=3", "algo.epsilon.ladder=7", "total_steps=4000"],
    "pendulum": ["env=pendulum", "algo.normalize_observations=true", "total_steps=4000"],
    "automatic_batch": ["algo.batch_size=auto", "algo.buffer_size=2000"],
}
RUNNING = """
import json, sys
from leanfast.cli import main
for name, overrides in json.loads(sys.argv[1]).items():
    assert main(["train", f"hydra.run.dir={name}", *overrides]) == 0, name
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Summaries of all of them, one after the other in one process."""
    folder = tmp_path_factory.mktemp("runs")
    given = json.dumps({name: [*SHORT, *overrides] for name, overrides in RUNS.items()})
    command = [sys.executable, "-c", RUNNING, given]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    return {name: json.loads((folder / name / "summary.json").read_text()) for name in RUNS}


@pytest.mark.parametrize("name", RUNS)
def test_every_pipeline_trains_every_kind_of_environment(name, runs):
    found = runs[name]
    assert set(found) == FIELDS
    assert (found["status"], found["execution"]) == ("finished", EAGER)
    given = dict(override.split("=", 1) for override in RUNS[name])
    assert found["env"] == given.get("env.id", given.get("env", "cartpole"))
    assert found["pipeline"] == given.get("pipeline", "vectorized")
    total = int(given.get("total_steps", 2400))
    if name == "free":
        assert (found["env_steps"], found["updates"] > 0) == (3072, True)  # chunks of 64 by 16
    else:
        assert (found["env_steps"], found["updates"]) == (total, (total - 1000) // 10)
    assert found["episodes"] > 0
    assert found["return_mean"] is not None
    assert found["eval_return_mean"] is not None
    assert 0 < found["startup_s"] + found["train_s"] < found["wall_s"]
    assert found["env_steps_per_s"] > 0


def test_numbers_that_are_not_finite_end_the_command_with_exit_1_and_one_sentence(tmp_path):
    broken = ["env=gymnasium", "env.id=breaking_env:NaN-v0", "env.num_envs=2", "log.every=200"]
    done = train(tmp_path, *broken, *SHORT, "algo.learning_starts=100", path=Path(__file__).parent)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("leanfast: an observation or a reward from the environment is not finit")
    assert "first after 298 env steps" in line
    assert summary(tmp_path)["status"] == "failed"
    with open(tmp_path / "run" / "metrics.csv", newline="") as file:
        assert [row["env_steps"] for row in csv.DictReader(file)] == ["200", "400"]
    assert (tmp_path / "run" / "fault.pt").stat().st_size > 0


@pytest.mark.parametrize("pipeline", ["double_buffered", "vectorized"])
def test_ctrl_c_exits_130_and_leaves_a_summary_that_says_interrupted(pipeline, tmp_path):
    long = ["execution=eager", "total_steps=1e9", "log.every=1000", f"pipeline={pipeline}"]
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
