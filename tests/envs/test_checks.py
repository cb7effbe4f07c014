import subprocess
import sys
import time

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.error import DependencyNotInstalled
from gymnasium.spaces import Box
from simulator_cases import (
    UNFIT_ACTIONS,
    UNFIT_OBSERVATIONS,
    Runners,
    Still,
    configured,
    registered,
)
from wrapped_cases import NextStepOnly

from leanfast.envs.checks import problems, vectorized
from leanfast.errors import UsageError


def complaint(**values):
    (one,) = problems(configured(**values))
    assert "\n" not in one
    return one


@pytest.mark.parametrize(
    "values",
    [
        {"name": "cartpole"},
        {"name": "tag", "params": {"chasers": 5}},
        {"name": "pendulum", "action_bins": 3},
        {"id": "CartPole-v1"},
        {"id": "CartPole-v1", "vectorization": "sync", "params": {"sutton_barto_reward": True}},
        {"id": "CartPole-v1", "vectorization": "async"},
        {"id": "CartPole-v1", "vectorization": "vector_entry_point"},
        {"id": "Pendulum-v1", "action_bins": 3, "params": {"max_episode_steps": 50}},
        {"id": "leanfast/Acrobot-v1"},
        {"id": "gymnasium:CartPole-v1"},
    ],
)
def test_what_can_be_had_is_no_problem(values):
    assert list(problems(configured(**values))) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "env must have either a name, or a source"),
        ({"name": "cartpole", "id": "CartPole-v1"}, "env must have either a name, or a source"),
        ({"name": "cartpol"}, "there is no environment 'cartpol' (did you mean cartpole"),
        (
            {"name": "tag", "params": {"chasers": 99}},
            "chasers and runners must each be at least 1",
        ),
        (
            {"name": "cartpole", "vectorization": "async"},
            "env.vectorization is 'async', but cartpole is stepped by leanfast's own engine",
        ),
        (
            {"id": "CartPole-v1", "vectorization": "threads"},
            "env.vectorization is 'threads'; it must be sync, async, vector_entry_point or null",
        ),
        (
            {"id": "CartPole-v1", "threads": 2},
            "env.threads is 2, but CartPole-v1 has none; env.vec",
        ),
        (
            {"id": "CartPol-v1"},
            "Gymnasium has no environment 'CartPol-v1' (did you mean CartPole-v1 or ",
        ),
        (
            {"id": "LunarLander-v1"},
            "Gymnasium has no environment 'LunarLander-v1' (did you mean LunarLander-v3",
        ),
        ({"id": "ALE/Pong-v5"}, "Gymnasium has no environment 'ALE/Pong-v5'; one that another pac"),
        ({"id": "my_envs:Mine-v0"}, "my_envs:Mine-v0 needs a module that is not installed (one in"),
        ({"id": "what?"}, "what? cannot be made: Malformed environment ID: what?"),
        (
            {"id": "CartPole-v1", "params": {"gravity": 5}},
            "CartPole-v1 cannot be made with env.params={'gravity': 5}: CartPoleEnv.__init__() got "
            "an unexpected keyword argument 'gravity'",
        ),
        (
            {"id": "Acrobot-v1", "vectorization": "vector_entry_point"},
            "Acrobot-v1 cannot be made: Cannot create vectorized environment for Acrobot-v1",
        ),
        ({"id": "Pendulum-v1"}, "Pendulum-v1 has continuous actions of 1 dimension, and a few to"),
        ({"id": "CartPole-v1", "action_bins": 3}, "env.action_bins is 3, but CartPole-v1 has 2"),
    ],
)
def test_what_cannot_be_had_is_said_in_one_line(values, said):
    assert complaint(**values).startswith(said)


@pytest.mark.parametrize("space", UNFIT_ACTIONS, ids=str)
@pytest.mark.parametrize("bins", [None, 3])
def test_actions_of_other_spaces_are_refused_by_the_spaces_name(space, bins):
    name = registered("Unfit", Still, kwargs={"action_space": space})
    said = complaint(id=name, action_bins=bins)
    assert said.startswith(f"{name} takes {space}; only a Discrete or a Box of floats fits")


@pytest.mark.parametrize("space", UNFIT_OBSERVATIONS, ids=str)
def test_observations_of_other_spaces_are_refused_by_the_spaces_name(space):
    name = registered("Unfit", Still, kwargs={"observation_space": space})
    assert complaint(id=name).startswith(f"{name} observes {space}; only a Box fits")


def test_actions_without_bounds_are_refused():
    space = Box(-np.inf, np.inf, (2,), np.float32)
    name = registered("Unbounded", Still, kwargs={"action_space": space})
    said = complaint(id=name, action_bins=3)
    assert said.startswith(f"{name} has actions without bounds, so that env.action_bins=3")


@pytest.mark.parametrize(
    ("says", "mend"),
    [
        ('run `pip install swig` and `pip install "gymnasium[box2d]"`', 'pip install "gymnasium['),
        ("get it from our shop", "get it from our shop"),
    ],
)
def test_a_missing_dependency_is_named_as_pip_knows_it(says, mend):
    def without(**_):
        raise DependencyNotInstalled(says)

    said = complaint(id=registered("Without", without))
    assert said.startswith(f"Without-v0 needs a package that is not installed: {mend}")


def test_an_environment_that_raises_is_refused_in_its_own_words():
    def broken(level=1):
        raise KeyError(f"no level\n{level}")

    said = complaint(id=registered("Broken", broken), params={"level": 7})
    assert said.startswith("Broken-v0 cannot be made with env.params={'level': 7}: ")
    assert "no level" in said


def test_a_vectorized_environment_that_cannot_show_last_observations_is_stepped_one_by_one(
    caplog, monkeypatch
):
    closed = []
    monkeypatch.setattr(CartPoleVectorEnv, "close", lambda self: closed.append(self))
    env = configured(id="CartPole-v1", vectorization="vector_entry_point")
    with caplog.at_level("INFO", "leanfast"):
        made = vectorized(env, 3)
    assert isinstance(made.unwrapped, gymnasium.vector.SyncVectorEnv)
    assert made.num_envs == 3
    (said,) = caplog.messages
    assert said.startswith("CartPoleVectorEnv resets in the step after an episode's end")
    assert len(closed) == 1
    made.close()


def test_one_that_cannot_be_stepped_one_by_one_either_is_refused():
    name = registered("NextStep", None, vector_entry_point=lambda **_: NextStepOnly())
    said = complaint(id=name, vectorization="vector_entry_point")
    assert "resets in the step after an episode's end" in said


def test_the_check_leaves_nothing_open():
    closed = []

    class Closes(Still):
        def close(self):
            closed.append(self)

    class VectorCloses(Runners):
        def close_extras(self, **_):
            closed.append(self)

    assert not list(problems(configured(id=registered("Closes", Closes))))
    assert len(closed) == 1
    name = registered("VectorCloses", None, vector_entry_point=VectorCloses)
    assert not list(problems(configured(id=name, vectorization="vector_entry_point")))
    assert len(closed) == 2
    unfit = registered("Unfit", Closes, kwargs={"action_space": UNFIT_ACTIONS[0]})
    complaint(id=unfit)
    assert len(closed) == 3


def test_a_headers_errors_stay_what_they_are(tmp_path):
    with pytest.raises(UsageError, match=r"missing.hpp cannot be read"):
        list(problems(configured(source=str(tmp_path / "missing.hpp"))))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["env=gymnasium", "env.id=CartPol-v1"], "Gymnasium has no environment 'CartPol-v1'"),
        (["env=gymnasium", "env.id=Pendulum-v1"], "Pendulum-v1 has continuous actions"),
        (["env=gymnasium", "env.id=CartPole-v1", "env.params.speed=2"], "CartPole-v1 cannot be "),
        (["env=pendulum", "env.action_bins=5000"], "env.action_bins is 5000, which makes"),
    ],
)
def test_a_refusal_ends_with_2_before_torch_is_imported(arguments, said, tmp_path):
    program = (
        "import sys; from leanfast.cli import main; status = main(['train', *sys.argv[1:]]); "
        "assert 'torch' not in sys.modules; sys.exit(status)"
    )
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"leanfast: {said}")
    assert time.perf_counter() - began < 6  # 2 on a machine with nothing else to do
