from fractions import Fraction
from pathlib import Path

import pytest
import torch
from capture import install
from training_cases import differences, train

from leanfast.config import Env
from leanfast.envs.simulator import held_out
from leanfast.evaluation import evaluate

HEADER = str(Path(__file__).parents[1] / "headers" / "counter.hpp")  # pays 1 for action 1


def test_the_same_seed_gives_the_same_weights_whatever_the_threads_and_evaluations(tmp_path):
    first, again = train(tmp_path), train(tmp_path)
    watched = train(tmp_path, env__threads=2, eval__every=100, log__every=7)
    assert watched.journal.evaluation is not None
    assert differences(first, again) == differences(first, watched) == []
    assert "params" in differences(first, train(tmp_path, seed=2))


@pytest.mark.parametrize(
    ("ratio", "starts", "at_a_time"), [(0.37, 100, 1), (0.5, 96, 4), (1.5, 8, 8)]
)
def test_updates_per_step_is_held_exactly(ratio, starts, at_a_time, tmp_path):
    journal = train(
        tmp_path,
        algo__updates_per_step=ratio,
        algo__learning_starts=starts,
        execution__steps_per_graph=at_a_time,
    ).journal
    assert journal.env_steps == 800
    graphs = Fraction(str(ratio)) * (800 - starts) // at_a_time
    assert journal.updates == graphs * at_a_time


def test_nothing_is_learned_before_there_is_a_complete_return_of_every_env(tmp_path):
    options = {"algo__learning_starts": 0, "algo__n_step": 5, "algo__updates_per_step": 1.0}
    training = train(tmp_path, **options)
    assert training.journal.updates == 800 - 5 * 8


def test_several_updates_in_one_graph_compute_what_single_ones_do(tmp_path):
    # One iteration makes four updates either way, so that both see the same transitions.
    options = {"algo__updates_per_step": 0.5, "algo__learning_starts": 96}
    single = train(tmp_path, **options)
    joined = train(tmp_path, execution__steps_per_graph=4, **options)
    assert differences(single, joined) == []


EVERYTHING = {
    "env__name": "tag",
    "env__num_envs": 4,
    "algo__n_step": 3,
    "algo__dueling": True,
    "algo__normalize_observations": True,
    "algo__epsilon__ladder": 7.0,
    "algo__learning_rate_schedule": "cosine",
    "execution__steps_per_graph": 2,
}


@pytest.mark.parametrize("options", [{}, EVERYTHING])
def test_captured_and_eager_training_give_the_same_weights(options, tmp_path, monkeypatch):
    install(monkeypatch, "cudagraph")
    eager = train(tmp_path, total_steps=400, **options)
    captured = train(tmp_path, "cudagraph", total_steps=400, **options)
    assert captured.capture_s > 0
    assert differences(eager, captured) == []


@pytest.mark.slow
def test_compiled_and_eager_training_agree(tmp_path):
    eager = train(tmp_path, total_steps=600)
    compiled = train(tmp_path, "compile", total_steps=600)
    assert compiled.compile_s > 0
    for name in ("updates", "env_steps", "target_updates", "epsilon"):
        assert torch.equal(eager.learner.state[name], compiled.learner.state[name])
    # After 50 updates; sums are taken in another order, so that the last digits differ.
    weights = [each.learner.state["params"] for each in (compiled, eager)]
    torch.testing.assert_close(*weights, atol=1e-4, rtol=1e-3)


def test_it_learns_which_action_is_paid(tmp_path):
    learner = train(
        tmp_path,
        total_steps=2000,
        env__name=None,
        env__source=HEADER,
        env__params={"length": 20},
        algo__learning_rate=1e-2,
        algo__discount=0.5,
    ).learner
    env = Env(num_envs=8, threads=1, params={"length": 20}, source=HEADER)
    with held_out(env, 50, 1) as envs:
        assert evaluate(learner.greedy, envs, 2, 500).return_mean == 20
