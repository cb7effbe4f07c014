from fractions import Fraction

import gymnasium
import numpy as np
import pytest
import torch
from capture import install
from gymnasium.spaces import Box, Discrete
from training_cases import differences, train

from leanfast.pipelines.common import FIELDS
from leanfast.pipelines.serial import Episode


class Scripted(gymnasium.Env):
    """Observes [episode, steps in it]. Episode e % 3 == 0 terminates at its third step, 1 is
    truncated there, and 2 does both at once; it earns the number of its steps."""

    observation_space, action_space = Box(0, 1e6, (2,), np.float32), Discrete(2)

    def __init__(self):
        self.episode, self.seeds = -1, []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.episode, self.steps = self.episode + 1, 0
        return self._shown(), {}

    def step(self, action):
        assert action in (0, 1)
        self.steps += 1
        ended, kind = self.steps == 3, self.episode % 3
        return self._shown(), float(self.steps), ended and kind != 1, ended and kind != 0, {}

    def _shown(self):
        return np.array([self.episode, self.steps], np.float32)


gymnasium.register("Scripted-v0", Scripted, disable_env_checker=True)
SERIAL = {"pipeline": "serial", "env__name": None, "total_steps": 300}
CARTPOLE = {**SERIAL, "env__id": "CartPole-v1", "env__threads": None}
SCRIPTED = {**SERIAL, "env__id": "Scripted-v0", "env__threads": None}


def test_the_same_seed_gives_the_same_weights_whatever_the_evaluations(tmp_path):
    first, again = train(tmp_path, **CARTPOLE), train(tmp_path, **CARTPOLE)
    watched = train(tmp_path, **CARTPOLE, eval__every=100, log__every=7)
    assert watched.journal.evaluation is not None
    assert differences(first, again) == differences(first, watched) == []
    assert "params" in differences(first, train(tmp_path, **CARTPOLE, seed=2))


@pytest.mark.parametrize("ratio", [0.37, 1.5])
def test_updates_per_step_is_held_exactly(ratio, tmp_path):
    journal = train(tmp_path, **CARTPOLE, algo__updates_per_step=ratio).journal
    assert journal.env_steps == 300
    assert journal.updates == int(Fraction(str(ratio)) * (300 - 100))


@pytest.mark.parametrize("kind", [CARTPOLE, SERIAL])
def test_captured_and_eager_training_give_the_same_weights(kind, tmp_path, monkeypatch):
    install(monkeypatch, "cudagraph")
    native = {} if "env__id" in kind else {"env__name": "cartpole"}
    eager = train(tmp_path, **kind | native)
    captured = train(tmp_path, "cudagraph", **kind | native)
    assert captured.capture_s > 0
    assert differences(eager, captured) == []


def recorded(fields_of, calls):
    """fields_of(*fields), with clones of the fields in `calls`."""

    def call(*fields):
        calls.append([field.clone() for field in fields])
        return fields_of(*fields)

    return call


def test_the_replay_gets_what_the_env_gave_and_termination_goes_before_truncation(tmp_path):
    stored = []

    def record(training):
        observe, update, remember, draw = training.parts()
        training.parts = lambda: (observe, update, recorded(remember, stored), draw)

    train(tmp_path, **SCRIPTED, prepare=record)
    found = dict(zip(FIELDS, map(torch.cat, zip(*stored, strict=True)), strict=True))
    step = torch.arange(300)
    episode, within = (step // 3).float(), (step % 3).float()
    assert torch.equal(found["observation"], torch.stack([episode, within], 1))
    # Also where the episode ended.
    assert torch.equal(found["next_observation"], torch.stack([episode, within + 1], 1))
    assert torch.equal(found["reward"], within + 1)
    ended, kind = within == 2, episode % 3
    assert torch.equal(found["terminated"], ended & (kind != 1))
    assert torch.equal(found["truncated"], ended & (kind == 1))


def test_observations_are_contiguous_however_an_env_lays_them_out():
    class Turned(Scripted):
        def _shown(self):
            return np.arange(6, dtype=np.float32).reshape(2, 3).T

    first = Episode(Turned()).begin()
    assert first.is_contiguous()
    assert first.tolist() == [[[0, 3], [1, 4], [2, 5]]]


def test_episodes_are_counted_with_what_they_returned(tmp_path):
    journal = train(tmp_path, **SCRIPTED).journal
    assert (journal.episodes, journal.return_mean) == (100, 6.0)


@pytest.mark.parametrize(("seed", "given"), [(7, 7), (2**32 - 1, None)])
def test_only_the_first_episode_is_seeded_and_with_what_every_env_takes(seed, given, tmp_path):
    seeds = []

    def keep(env):
        seeds.append(env.unwrapped.seeds)
        return env

    train(tmp_path, wrap=keep, **SCRIPTED, seed=seed)
    first, *later = seeds[0]
    assert set(later) == {None}
    assert 0 <= first < 2**31
    assert given in (None, first)


def test_each_batch_is_drawn_one_update_ahead_in_the_order_of_its_number(tmp_path):
    happened = []

    def record(training):
        observe, update, remember, draw = training.parts()
        training.parts = lambda: (
            observe,
            lambda batch: (happened.append("update"), update(batch))[1],
            remember,
            lambda counter: (happened.append(int(counter)), draw(counter))[1],
        )

    updates = train(tmp_path, **SCRIPTED, prepare=record).journal.updates
    assert updates == 20
    rest = [event for number in range(2, updates + 1) for event in (number, "update")]
    assert happened == [0, 1, "update", *rest]
