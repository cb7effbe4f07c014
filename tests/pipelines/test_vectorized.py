import copy
import csv
import json
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from leanfast.config import Config, load
from leanfast.envs.native import Engine
from leanfast.evaluation import Evaluation, evaluate
from leanfast.learners.dqn import DQN
from leanfast.networks import action_values
from leanfast.pipelines import vectorized
from leanfast.telemetry.journal import Journal

HEADER = str(Path(__file__).parents[1] / "headers" / "counter.hpp")  # pays 1 for action 1

VALUES = {
    "seed": 1,
    "total_steps": 2000,
    "device": "cpu",
    "precision": "fp32",
    "torch_threads": 1,
    "env": {"name": "cartpole", "num_envs": 8, "threads": 1, "params": {}},
    "algo": {
        "name": "dqn",
        "batch_size": 32,
        "accumulate": 1,
        "optimizer": "adam",
        "weight_decay": 0.0,
        "learning_rate_schedule": "linear",
        "n_step": 1,
        "dueling": False,
        "reward_scale": 1.0,
        "reward_clip": None,
        "normalize_observations": False,
        "learning_rate": 1e-3,
        "learning_rate_end": 1e-4,
        "discount": 0.99,
        "double": True,
        "loss": "mse",
        "max_grad_norm": 10.0,
        "buffer_size": 500,
        "learning_starts": 100,
        "updates_per_step": 0.1,
        "target_every": 100,
        "tau": 1.0,
        "epsilon": {"start": 1.0, "end": 0.1, "steps": 1000, "ladder": None},
    },
    "network": {"type": "mlp", "hidden": [16], "layer_norm": False},
    "pipeline": {"name": "vectorized"},
    "execution": {"mode": "eager", "steps_per_graph": 1, "fallback": False},
    "eval": {"every": 0, "episodes": 10, "max_steps": 1000},
    "log": {"every": 500},
}


def config(**changes) -> Config:
    values = copy.deepcopy(VALUES)
    for path, value in changes.items():
        *groups, name = path.split("__")
        at = values
        for group in groups:
            at = at[group]
        at[name] = value
    return load(values)


def no_evaluation():
    return Evaluation(0.0, 0.0, 1, 0)


def train(folder: Path, mode="eager", greedy=no_evaluation, **changes):
    """The learner and the journal after training."""
    chosen = config(**changes)
    journal = Journal(chosen, folder, 0.0)
    with Engine(chosen.env.label, chosen.env.num_envs, threads=chosen.env.threads) as engine:
        shape, actions = engine.spec["observation"]["shape"], engine.spec["action"]
        network = action_values(shape, chosen.network.hidden, actions, chosen.seed)
        learner = DQN(network, chosen.algo, chosen.total_steps, chosen.seed)
        vectorized.train(chosen, engine, learner, journal, greedy, mode)
    journal.finish("finished", {})
    return learner, journal


def test_the_same_seed_gives_the_same_weights_whatever_the_threads_and_evaluations(tmp_path):
    first, _ = train(tmp_path)
    again, _ = train(tmp_path)
    watched, journal = train(tmp_path, env__threads=2, eval__every=100, log__every=7)
    other, _ = train(tmp_path, seed=2)
    assert journal.evaluation is not None
    for name, value in first.state.items():
        assert torch.equal(value, again.state[name]), name
        assert torch.equal(value, watched.state[name]), name
    assert not torch.equal(first.state["params"], other.state["params"])


def test_updates_per_step_is_held_exactly(tmp_path):
    _, journal = train(tmp_path, algo__updates_per_step=0.37)
    # The updates of an iteration are due before its own 8 env steps are counted.
    assert journal.env_steps == 2000
    assert journal.updates == int(Fraction("0.37") * (2000 - 8 - 100))


@pytest.mark.parametrize(("ratio", "start", "at_a_time"), [(0.1, 0, 1), (0.3, 50, 4), (2.5, 7, 8)])
def test_credit_never_pays_ahead_and_never_lags_a_whole_payment(ratio, start, at_a_time):
    credit, paid = vectorized.Credit(ratio, start, at_a_time), 0
    for env_steps in range(0, 5000, 3):
        paid += at_a_time * credit.due(env_steps)
        owed = max(0, env_steps - start) * Fraction(str(ratio))
        assert 0 <= owed - paid < at_a_time


def test_several_updates_in_one_graph_compute_what_single_ones_do(tmp_path):
    # One iteration makes four updates either way, so that both see the same transitions.
    options = {"algo__updates_per_step": 0.5, "algo__learning_starts": 96, "total_steps": 1000}
    single, _ = train(tmp_path, **options)
    joined, _ = train(tmp_path, execution__steps_per_graph=4, **options)
    assert torch.equal(single.state["params"], joined.state["params"])


@pytest.mark.slow
def test_compiled_and_eager_training_agree(tmp_path):
    eager, _ = train(tmp_path, total_steps=600)
    compiled, _ = train(tmp_path, "compile", total_steps=600)
    for name in ("updates", "env_steps", "target_updates", "epsilon"):
        assert torch.equal(eager.state[name], compiled.state[name])
    # After 49 updates; sums are taken in another order, so that the last digits differ.
    torch.testing.assert_close(
        compiled.state["params"], eager.state["params"], atol=1e-4, rtol=1e-3
    )


def test_it_learns_which_action_is_paid(tmp_path):
    learner, _ = train(
        tmp_path,
        env__name=None,
        env__source=HEADER,
        env__params={"length": 20},
        algo__learning_rate=1e-2,
        algo__discount=0.5,
    )
    with Engine(HEADER, 50, params={"length": 20}) as engine:
        assert evaluate(learner.greedy, engine, 2, 500).return_mean == 20


def test_metrics_have_a_row_for_each_interval_and_one_at_the_end(tmp_path):
    train(tmp_path, total_steps=1704, log__every=500)
    with open(tmp_path / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["env_steps"]) for row in rows] == [504, 1000, 1504, 1704]
    assert all(float(row["loss"]) >= 0 and float(row["return_mean"]) > 8 for row in rows)


def test_solved_at_is_the_first_evaluation_that_reached_the_mark(tmp_path):
    means, times = iter([10.0, 480.0, 20.0, 490.0]), []

    def greedy():
        return Evaluation(next(means), 0.0, 1, 0)

    changes = {"eval__every": 500, "env__solved_return": 475.0}
    _, journal = train(tmp_path, greedy=greedy, **changes)
    with open(tmp_path / "metrics.csv", newline="") as file:
        times = [float(row["train_s"]) for row in csv.DictReader(file)]
    assert times[0] < journal.solved_at_s <= times[1] + 1e-6
    assert json.loads((tmp_path / "summary.json").read_text())["solved_at_s"] is not None
