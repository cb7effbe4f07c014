import itertools
import threading
import traceback
from fractions import Fraction

import pytest
import torch
from dqn_cases import of
from training_cases import CHUNK, Watched, config, train, training_of

from leanfast.pipelines.actor import Actor, Policies
from leanfast.pipelines.common import FIELDS

PIPELINE = {"pipeline": "double_buffered"}
AT_A_TIME = 8 * CHUNK  # env steps
LONG = 20.0  # seconds that no test should take


def actors():
    return [thread for thread in threading.enumerate() if thread.name == "leanfast actor"]


@pytest.mark.parametrize(
    ("ratio", "starts", "at_a_time"), [(0.37, 100, 1), (0.5, 64, 4), (1.5, 8, 8)]
)
def test_updates_per_step_is_held_exactly_to_the_last_chunk(ratio, starts, at_a_time, tmp_path):
    journal = train(
        tmp_path,
        **PIPELINE,
        total_steps=790,
        algo__updates_per_step=ratio,
        algo__learning_starts=starts,
        execution__steps_per_graph=at_a_time,
    ).journal
    assert journal.env_steps == 800  # whole chunks
    graphs = Fraction(str(ratio)) * (800 - starts) // at_a_time
    assert journal.updates == graphs * at_a_time


def counted(training, each_time):
    """Calls each_time() after every update, or graph of them."""
    plain = training.learned

    def learned(metrics):
        plain(metrics)
        each_time()

    training.learned = learned


def test_where_the_pace_is_free_the_learner_does_not_wait_for_the_actor(tmp_path):
    learned = threading.Semaphore(0)

    def wait_for_updates(number):
        if 40 < number < 100 and number % CHUNK == 0:  # of 100 that the run needs
            for _ in range(10):
                assert learned.acquire(timeout=LONG)

    training = train(
        tmp_path,
        wrap=lambda envs: Watched(envs, wait_for_updates),
        prepare=lambda training: counted(training, learned.release),
        **PIPELINE,
        algo__updates_per_step=None,
        algo__learning_starts=100,
    )
    assert training.env_steps == 800
    assert training.journal.updates >= 10 * (100 - 40) / CHUNK - 20


def test_where_the_pace_is_free_the_actor_does_not_wait_for_the_learner(tmp_path):
    filled, updates = threading.Semaphore(0), []

    def wait_for_the_actor():
        if not updates:  # after the steps 0 to 15, which are stored; 16 to 23 have room
            for _ in range(CHUNK):
                assert filled.acquire(timeout=LONG)
        updates.append(1)

    train(
        tmp_path,
        wrap=lambda envs: Watched(envs, lambda number: number >= 20 and filled.release()),
        prepare=lambda training: counted(training, wait_for_the_actor),
        **PIPELINE,
        algo__updates_per_step=None,
    )
    assert updates


class BrokenError(Exception):
    pass


def breaks(number):
    if number == 30:
        raise BrokenError("in an env")


def test_an_error_of_an_env_is_raised_with_its_own_traceback_and_leaves_no_thread(tmp_path):
    with pytest.raises(BrokenError, match="in an env") as raised:
        train(tmp_path, wrap=lambda envs: Watched(envs, breaks), **PIPELINE)
    frames = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert frames[-1] == "breaks"
    assert {"_run", "next_chunk"} <= set(frames)
    assert not actors()


@pytest.mark.parametrize("error", [BrokenError, KeyboardInterrupt])
@pytest.mark.parametrize("ratio", [0.1, None])
def test_an_error_of_the_learner_or_ctrl_c_ends_the_actor(error, ratio, tmp_path):
    seen = []

    def third():
        seen.append(len(actors()))
        if len(seen) == 3:
            raise error

    with pytest.raises(error):
        train(
            tmp_path,
            prepare=lambda training: counted(training, third),
            **PIPELINE,
            algo__updates_per_step=ratio,
        )
    assert seen == [1, 1, 1]
    assert not actors()


def test_no_thread_is_left_after_a_run_and_none_where_the_envs_cannot_be_reset(tmp_path):
    train(tmp_path, **PIPELINE)
    assert not actors()

    class Unready(Watched):
        def reset(self, seed):
            raise BrokenError

    with pytest.raises(BrokenError):
        train(tmp_path, wrap=lambda envs: Unready(envs, None), **PIPELINE)
    assert not actors()


def test_what_is_stored_is_what_the_envs_showed_and_were_sent(tmp_path):
    shown, stored = [], []

    class Recorded(Watched):
        def reset(self, seed):
            self.seen = self.envs.reset(seed).observation.clone()
            return self.envs.reset(seed)

        def send(self, actions):
            self.actions = actions.clone()
            self.envs.send(actions)

        def recv(self):
            step = self.envs.recv()
            fields = {name: getattr(step, name).clone() for name in FIELDS[2:]}
            shown.append({"observation": self.seen, "action": self.actions, **fields})
            self.seen = step.observation.clone()
            return step

    def record(training):
        store = training.store()
        training.store = lambda: (
            lambda *fields: (
                stored.append([field.clone() for field in fields]),
                store(*fields),
            )
        )

    # Pendulum's episodes are truncated after 200 steps.
    pendulum = {"env__name": "pendulum", "env__action_bins": 3, "env__num_envs": 2}
    train(
        tmp_path,
        wrap=lambda envs: Recorded(envs, None),
        prepare=record,
        **PIPELINE,
        **pendulum,
        total_steps=820,
    )
    assert len(stored) * CHUNK * 2 == 824
    for name, parts in zip(FIELDS, zip(*stored, strict=True), strict=True):
        expected = torch.stack([step[name] for step in shown[: len(stored) * CHUNK]])
        assert torch.equal(torch.cat(parts), expected), name
    ends = [step for step in shown if step["truncated"].any()]
    assert len(ends) >= 2
    # After the reset they observe something else than at the end.
    following = {id(step): after for step, after in itertools.pairwise(shown)}
    for end in ends:
        assert not torch.equal(end["next_observation"], following[id(end)]["observation"])


def policies_of(training):
    made, newest = Policies(training, 8), training.learner.state["params"]

    def change(number):
        newest.fill_(number)

    return made, change


def test_the_actor_acts_with_the_newest_weights_once_they_were_refreshed(tmp_path):
    with training_of(tmp_path, config(**PIPELINE)) as training:
        policies, _ = policies_of(training)
        learner, observation = training.learner, torch.randn(8, 4, generator=of(1))
        for number in range(5):
            learner.state["params"].copy_(torch.randn(len(learner.state["params"])))
            policies.refresh()
            learner.state["env_steps"].fill_(8 * number)
            learner.policy.advance(learner.state, 0)
            expected = learner.act(learner.state, observation)
            assert torch.equal(policies.act(observation), expected)


def test_a_copy_that_the_actor_uses_is_never_written(tmp_path):
    with training_of(tmp_path, config(**PIPELINE)) as training:
        policies, change = policies_of(training)
        seen = []

        def act_while_the_learner_goes_on(observation, params):
            before = params.clone()
            for number in range(1, 5):
                change(100 * len(seen) + number)
                policies.refresh()
                assert torch.equal(params, before)
            seen.append(float(params[0]))

        policies._act = act_while_the_learner_goes_on
        for _ in range(4):
            policies.act(None)
        # What was refreshed into the other copy meanwhile; later ones waited for this act to end.
        assert seen[1:] == [1, 101, 201]
        policies.refresh()
        assert float(policies.copies[policies.current][0][0]) == 304


class Arrival:
    """In the place of a CUDA event, which happens once somebody waits for it."""

    def record(self):
        self.there = False

    def query(self):
        return self.there

    def synchronize(self):
        self.there = True


def test_on_a_device_a_copy_is_used_once_it_is_there_and_waited_for_before_a_chunk_is(tmp_path):
    with training_of(tmp_path, config(**PIPELINE)) as training:
        policies, change = policies_of(training)
        policies._there = arrival = Arrival()
        used = []
        policies._act = lambda observation, params: used.append(float(params[0]))
        policies.copies[0][0].fill_(-1)
        for number in (1, 2):
            change(number)
            policies.refresh()
            policies.act(None)
        policies.settle()
        policies.act(None)
        change(3)
        policies.refresh()
        policies.act(None)
        arrival.synchronize()
        policies.refresh()
        policies.act(None)
        # While 1 was under way, 2 was not begun.
        assert used == [-1, -1, 1, 1, 3]
        policies.settle()
        policies.act(None)
        assert used[-1] == 3


def test_the_copies_follow_the_learner_to_its_last_weights(tmp_path, monkeypatch):
    made = []
    plain = Actor.__init__

    def kept(self, training, envs):
        plain(self, training, envs)
        made.append(self)

    monkeypatch.setattr(Actor, "__init__", kept)
    normalized = {"algo__normalize_observations": True}
    training = train(tmp_path, **PIPELINE, **normalized, algo__updates_per_step=1.0)
    policies = made[0].policies
    policies.refresh()
    newest = policies.copies[policies.current]
    names = ("params", "observation_mean", "observation_variance")
    for name, copy in zip(names, newest, strict=True):
        assert torch.equal(copy, training.learner.state[name])
        assert copy.data_ptr() != training.learner.state[name].data_ptr()
