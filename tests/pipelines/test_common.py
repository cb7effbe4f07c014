import csv
import json
import logging
import math
import time
from fractions import Fraction

import breaking_env  # noqa: F401, registers environments
import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn
from training_cases import config, no_evaluation, train

from leanfast.errors import RunError, UsageError
from leanfast.evaluation import Evaluation
from leanfast.learners import batch_size
from leanfast.learners.dqn import DQN
from leanfast.pipelines.common import Credit, Every
from leanfast.replay import memory
from leanfast.replay.ring import Ring
from leanfast.run import run

PIPELINES = ["serial", "double_buffered", "vectorized"]


@pytest.mark.parametrize(("ratio", "start", "at_a_time"), [(0.1, 0, 1), (0.3, 50, 4), (2.5, 7, 8)])
def test_credit_never_pays_ahead_and_never_lags_a_whole_payment(ratio, start, at_a_time):
    credit, paid = Credit(ratio, start, at_a_time), 0
    for env_steps in range(0, 5000, 3):
        paid += at_a_time * credit.due(env_steps)
        owed = max(0, env_steps - start) * Fraction(str(ratio))
        assert 0 <= owed - paid < at_a_time


def test_what_recurs_is_due_once_for_each_multiple_reached_or_passed_and_never_at_interval_0():
    recurring, never = Every(10), Every(0)
    assert [now for now in range(1, 40, 4) if recurring.due(now)] == [13, 21, 33]
    assert not any(never.due(now) for now in range(100))
    jumping = Every(10)
    assert [jumping.due(now) for now in (35, 39, 40)] == [True, False, True]


def rows_of(folder):
    with open(folder / "metrics.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_row_has_all_the_updates_of_its_env_steps_and_the_last_row_is_the_end(pipeline, tmp_path):
    train(tmp_path, pipeline=pipeline, total_steps=790, log__every=300)
    rows = [(int(row["env_steps"]), int(row["updates"])) for row in rows_of(tmp_path)]
    each = {"serial": 1, "double_buffered": 32, "vectorized": 8}[pipeline]
    expected = [-(-steps // each) * each for steps in (300, 600, 790)]
    assert rows == [(steps, (steps - 100) // 10) for steps in expected]


def test_epsilon_and_the_learning_rate_in_a_row_are_the_learners(tmp_path):
    train(tmp_path, pipeline="double_buffered", log__every=160)
    rows = rows_of(tmp_path)
    for row in rows:
        steps = int(row["env_steps"])
        assert float(row["epsilon"]) == pytest.approx(max(0.1, 1 - 0.9 * steps / 500), abs=1e-5)
        assert float(row["learning_rate"]) == pytest.approx(1e-3 - 9e-4 * steps / 800, rel=1e-4)
    assert len(rows) == 5


def test_solved_at_is_the_first_evaluation_that_reached_the_mark(tmp_path):
    means = iter([10.0, 480.0, 20.0, 490.0])

    def of_next():
        return Evaluation(next(means), 0.0, 0.0, 0.0, 0.0, [0.0], 1, 0)

    def prepare(training):
        training.greedy = of_next

    changes = {"eval__every": 200, "log__every": 200, "env__solved_return": 475.0}
    journal = train(tmp_path, prepare=prepare, **changes).journal
    times = [float(row["train_s"]) for row in rows_of(tmp_path)]
    assert times[0] < journal.solved_at_s <= times[1] + 1e-6
    assert json.loads((tmp_path / "summary.json").read_text())["solved_at_s"] is not None


class Images(gymnasium.Env):
    """Shows an image, height by width by color, that is one step brighter at each step."""

    observation_space, action_space = Box(0, 255, (14, 12, 3), np.uint8), Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.image = np.zeros((14, 12, 3), np.uint8)
        return self.image.copy(), {}

    def step(self, action):
        self.image += 1
        return self.image.copy(), 1.0, bool(self.image[0, 0, 0] == 20), False, {}


gymnasium.register("Images-v0", Images, disable_env_checker=True)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_gymnasiums_images_are_stored_as_bytes_and_convolved_by_color(pipeline, tmp_path):
    options = {"env__name": None, "env__id": "Images-v0", "env__threads": None}
    training = train(tmp_path, pipeline=pipeline, **options, network__type="auto", total_steps=200)
    (convolution,) = (x for x in training.learner.network.modules() if isinstance(x, nn.Conv2d))
    assert convolution.in_channels == 3
    frames = training.replay["frames"]
    assert (frames.dtype, frames.shape[2:]) == (torch.uint8, (14, 12, 3))
    assert training.journal.updates == {"double_buffered": 12}.get(pipeline, 10)


BROKEN = [
    ("NaN", "an observation or a reward from the environment is not finite"),
    ("Infinite", "an observation or a reward from the environment is not finite"),
    ("InfiniteReward", "an observation or a reward from the environment is not finite"),
    ("HugeReward", "the loss is not finite"),
]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(("name", "what"), BROKEN)
def test_a_number_that_is_not_finite_ends_the_run_when_it_next_reports(
    name, what, pipeline, tmp_path
):
    chosen = config(
        pipeline=pipeline,
        seed=5,
        env__name=None,
        env__id=f"{name}-v0",
        env__num_envs=1,
        env__threads=None,
        log__every=100,
        algo__updates_per_step=0.5,
    )
    with pytest.raises(RunError) as ended:
        run(chosen, tmp_path, time.perf_counter())
    (sentence,) = str(ended.value).splitlines()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["status"], summary["env_steps"]) == ("failed", 200)
    assert int(rows_of(tmp_path)[-1]["env_steps"]) == 200
    kept = torch.load(tmp_path / "fault.pt", weights_only=True)
    assert (kept["what"], kept["seed"]) == (what, 5)
    assert sentence == (
        f"{what}: first after {kept['env_steps']} env steps and {kept['updates']} updates, seed 5; "
        f"{tmp_path / 'fault.pt'} holds the batch"
    )
    batch = kept["batch"]
    if name == "HugeReward":
        assert kept["env_steps"] >= 148  # a batch that met it, and not the next one
        assert batch["reward"].max() > 1e38
        assert all(batch[part].isfinite().all() for part in ("reward", "observation"))
    else:
        # The 150th step was among those that follow.
        before = {"serial": 149, "vectorized": 149, "double_buffered": 148}[pipeline]
        assert kept["env_steps"] == before
        broken = batch["reward"] if name == "InfiniteReward" else batch["next_observation"][..., 1]
        assert not math.isfinite(float(broken.flatten()[149 - before]))


def test_no_evaluation_is_made_of_weights_that_are_not_finite(tmp_path):
    evaluations = []

    def prepare(training):
        training.learner.state["params"].fill_(math.nan)
        training.greedy = lambda: evaluations.append(1) or no_evaluation()

    with pytest.raises(RunError, match="the loss is not finite: first after 104 env steps"):
        train(tmp_path, prepare=prepare, eval__every=200)
    assert not evaluations
    assert [row["env_steps"] for row in rows_of(tmp_path)] == ["200"]
    assert rows_of(tmp_path)[0]["loss"] == "nan"


def out_of_memory_above(rows, monkeypatch, error=None):
    tried, plain = [], DQN.update
    error = error or torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    def update(self, state, batch):
        tried.append(batch.batch_size[0])
        if batch.batch_size[0] > rows:
            raise error
        return plain(self, state, batch)

    monkeypatch.setattr(DQN, "update", update)
    # What takes memory on the CPU is known beforehand; here the device is to say it.
    monkeypatch.setattr(batch_size, "_most_used", lambda *_: 0)
    return tried


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_an_automatic_batch_halves_until_it_fits_and_is_said(
    pipeline, tmp_path, monkeypatch, caplog
):
    tried = out_of_memory_above(70, monkeypatch)
    caplog.set_level(logging.INFO)
    training = train(tmp_path, pipeline=pipeline, algo__batch_size="auto")
    assert tried[:3] == [256, 128, 64]
    assert set(tried[3:]) == {training.batch_size} == {64}
    assert "algo.batch_size=auto: 64, the largest that fits" in caplog.messages


def test_an_automatic_batch_can_be_accumulated(tmp_path, monkeypatch):
    out_of_memory_above(70, monkeypatch)
    training = train(tmp_path, algo__batch_size="auto", algo__accumulate=12)
    assert training.batch_size == 60


def test_where_no_batch_fits_and_where_something_else_is_wrong_that_is_said(tmp_path, monkeypatch):
    out_of_memory_above(3, monkeypatch)
    with pytest.raises(RunError, match=r"not even a batch of 4 .* fits into the memory of cpu"):
        train(tmp_path, algo__batch_size="auto", algo__accumulate=4)
    out_of_memory_above(3, monkeypatch, RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        train(tmp_path, algo__batch_size="auto")


def test_on_the_cpu_a_batch_is_not_tried_where_its_memory_is_not_free(tmp_path, monkeypatch):
    large = {"algo__batch_size": "auto", "algo__buffer_size": 40_000}
    assert train(tmp_path, **large).batch_size == 2**15
    monkeypatch.setattr(batch_size, "free_host_memory", lambda: 10 * 2**20)
    chosen = train(tmp_path, **large).batch_size
    assert 2**9 <= chosen <= 2**13


def test_a_replay_that_does_not_fit_is_refused_before_it_is_allocated(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "free_host_memory", lambda: 5000.0)
    monkeypatch.setattr(Ring, "allocate", lambda *_: pytest.fail("it was allocated"))
    with pytest.raises(UsageError, match=r"a replay of 400 transitions takes .* would fit"):
        run(config(), tmp_path, time.perf_counter())
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "failed"


def test_envs_that_do_not_fit_are_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("leanfast.envs.native.free_host_memory", lambda: 100.0)
    with pytest.raises(UsageError, match=r"num_envs=8 of CartPole-v1 need at least"):
        run(config(), tmp_path, time.perf_counter())
