"""The measurements of training: that they compare the same work, and what they refuse."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from leanfast.bench import cli, contenders, pipelines
from leanfast.bench.peers import LeanRL, plain_network
from leanfast.errors import RunError, UsageError

SCRIPTS = Path(__file__).parents[1] / "scripts" / "bench"
QUICK = ["--repeats", "2", "--seconds", "0.001", "--json"]


def printed(capsys, *arguments):
    assert cli.main([*arguments]) == 0
    return json.loads(capsys.readouterr().out)


def script(name):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_everyone_reaches_the_same_weights_before_anything_is_timed(capsys):
    result = printed(capsys, "update", "--modes", "eager", "--batch", "8", *QUICK)
    given = [row for row in result["rows"] if row["work"] == "batch given"]
    assert [row["subject"] for row in given] == [
        "nn.Module, torch.optim.Adam",
        "the same, Adam fused",
        "LeanRL's way",
        "leanfast",
    ]
    assert all(row["weights_apart"] < 1e-5 for row in given)
    assert all(0 < row["min"] <= row["updates_per_s"] <= row["max"] for row in result["rows"])


def test_other_work_is_not_compared(capsys, monkeypatch):
    monkeypatch.setattr(LeanRL, "follow", lambda self: None)  # never moves its target
    with pytest.raises(RunError, match=r"LeanRL's way .eager. is .* is not the same work"):
        cli.main(["update", "--modes", "eager", "--batch", "8", *QUICK])


@pytest.mark.slow
def test_compiled_updates_are_compared_with_leanrls_compiled_one(capsys, monkeypatch):
    monkeypatch.setattr(contenders, "UNROLLED", 2)
    result = printed(capsys, "update", "--modes", "compile", "--batch", "8", *QUICK)
    ratios = {
        (row["subject"], row["updates_per_call"]): row["times_leanrl_compiled"]["median"]
        for row in result["rows"]
    }
    assert ratios["LeanRL's way", 1] == 1
    assert {("leanfast", 1), ("leanfast", 2)} <= set(ratios)


def test_made_up_transitions_are_steps_of_trajectories():
    rows = contenders.made_up(5, 3, observation=4, actions=2)
    assert torch.equal(rows["observation"][1:], rows["next_observation"][:-1])
    assert not (rows["terminated"] & rows["truncated"]).any()


def test_leanrls_target_follows_only_when_told_to():
    network = plain_network(4, [8], 2)
    peer = LeanRL(network, rate=1e-2, discount=0.9, mode="eager")
    batch = contenders.made_up(4, 4, 4, 2).reshape(-1)
    before = [weight.clone() for weight in peer.target.parameters()]
    peer.update(batch)
    assert all(map(torch.equal, before, peer.target.parameters()))
    peer.follow()
    assert all(map(torch.equal, peer.network.parameters(), peer.target.parameters()))


def test_every_mode_has_a_row_and_says_why_it_was_not_measured(capsys):
    result = printed(capsys, "modes", "--device", "cpu", "--modes", "eager,cudagraph", *QUICK)
    eager, cudagraph = result["rows"]
    assert (eager["measured"], eager["weights_apart"]) == (True, 0)
    assert set(eager["us_per_call"]) == {"act", "store", "learn"}
    assert cudagraph == {
        "mode": "cudagraph",
        "measured": False,
        "why_not": "CUDA graphs exist only on CUDA devices",
    }


def test_pipelines_take_turns_and_are_compared_with_the_eager_serial_one(capsys, monkeypatch):
    trained = []

    def train(overrides):
        (name,) = [one.removeprefix("pipeline=") for one in overrides if "pipeline=" in one]
        eager = "execution.mode=eager" in overrides
        trained.append((name, eager))
        rate = {"serial": 100.0, "vectorized": 700.0}[name] * (1 if eager else 2)
        return {
            "device": "cpu",
            "execution": {"effective": "eager" if eager else "compile"},
            "env_steps": 1000,
            "updates": 100,
            "env_steps_per_s": rate,
            "updates_per_s": rate / 10,
            "startup_s": 1.0,
            "train_s": 1000 / rate,
        }

    monkeypatch.setattr(pipelines, "train", train)
    chosen = ["--pipelines", "serial,vectorized", "--repeats", "2", "--json"]
    result = printed(capsys, "pipelines", *chosen)
    assert trained == [("serial", True), ("serial", False), ("vectorized", False)] * 2
    base, serial, vectorized = result["rows"]
    assert [row["num_envs"] for row in result["rows"]] == [1, 1, 80]
    assert [row["execution"] for row in result["rows"]] == ["eager", "compile", "compile"]
    assert (base["times_serial"]["median"], serial["times_serial"]["median"]) == (1, 2)
    assert vectorized["times_serial"]["median"] == 14
    assert vectorized["updates_per_env_step"] == 0.1


@pytest.mark.slow
def test_a_pipeline_is_measured_by_training_with_it(capsys):
    short = ["--steps", "2000", "algo.learning_starts=1000", "execution=eager"]
    chosen = ["--pipelines", "vectorized", "--repeats", "1", "--json"]
    (row,) = printed(capsys, "pipelines", *short, *chosen)["rows"]
    assert row["execution"] == "eager"
    assert row["env_steps_per_s"] > row["updates_per_s"] > 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["update", "--batch", "0"], "--batch must be sizes from 1 to 10000, not 0"),
        (["update", "--batch", "x"], "--batch must be sizes from 1 to 10000, not x"),
        (["update", "--torch-threads", "0"], "--torch-threads must be at least 1, not 0"),
        (["update", "--modes", "fast"], "--modes has no 'fast'; there are eager, compile"),
        (["update", "--device", "cpu", "--modes", "combined"], "--modes has combined, but CUDA"),
        (["modes", "--modes", "fast"], "--modes has no 'fast'; there are eager, compile"),
        (["modes", "algo.batch_size=auto"], "algo.batch_size is auto; here it must be a number"),
        (["pipelines", "--pipelines", "fast"], "--pipelines has no 'fast'; there are serial"),
        (["pipelines", "seed=-1"], "seed is -1; it must be 0 to"),
        (["pipelines", "sed=1"], "there is no sed; "),
        (["pipelines", "--steps", "10"], "nothing is learned before total_steps=10"),
    ],
)
def test_a_bad_argument_is_refused_in_one_sentence(arguments, sentence):
    with pytest.raises(UsageError, match=sentence):
        cli.main(arguments)


def test_a_run_that_fails_ends_the_measurement_with_its_own_words(monkeypatch):
    from leanfast.bench.configured import train

    with pytest.raises(RunError, match="ended with exit status 2: seed is -1; it must be"):
        train(["seed=-1"])


SUMMARY = {
    "eval_return_mean": 490.0,
    "eval_return_std": 5.0,
    "solved_at_s": None,
    "startup_s": 4.0,
    "train_s": 10.0,
    "env_steps_per_s": 20000.0,
    "updates_per_s": 2000.0,
    "execution": {"effective": "compile"},
}


def test_training_again_replaces_a_commands_rows_and_keeps_the_others(tmp_path, monkeypatch):
    bench, file = script("train"), tmp_path / "train.json"

    def train(overrides, cache):
        return SUMMARY | {"seed": int(overrides[-1].removeprefix("seed=")), "versions": {}}

    monkeypatch.setattr(bench, "train", train)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["train.py", "--output", str(file), *arguments])
        assert bench.main() == 0
        found = json.loads(file.read_text())["runs"]
        return [(one["command"], one["seed"], one["cold"]) for one in found]

    run("env=cartpole", "env=acrobot", "--seeds", "1")
    assert run("env=cartpole", "--seeds", "4,5") == [
        ("env=acrobot", 1, True),
        ("env=cartpole", 4, True),
        ("env=cartpole", 5, False),
    ]
    other = json.loads(file.read_text())
    other["machine"]["processor"] = "another"
    file.write_text(json.dumps(other))
    with pytest.raises(SystemExit, match="was measured with other processor"):
        run("env=cartpole")


def test_a_commands_seeds_share_a_row_that_tells_cold_from_warm():
    runs = [
        {"command": "env=a", "seed": seed, "cold": seed == 1, **SUMMARY, "startup_s": 10.0 / seed}
        for seed in (1, 2)
    ]
    runs[0]["solved_at_s"] = 6.0
    machine = json.loads((SCRIPTS / "results" / "engine.json").read_text())["machine"]
    table = script("tables").train_table({"machine": machine, "runs": runs})
    assert table.splitlines()[2] == (
        "| `env=a` | 490.0 ± 5.0; 490.0 ± 5.0 | 6.0 s, never | 10.0 s, 5.0 s | 10.0 s | 20,000 "
        "| 2,000 |"
    )
