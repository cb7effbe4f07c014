"""The built-in environments are Gymnasium's: its own code, run in double precision, is the judge.

Gymnasium rounds observations to float32 (MountainCarContinuous its state too); here its modules see
a NumPy whose float32 is float64, so that two definitions are compared and not two roundings.
"""

import functools
import importlib
import itertools
import math
from typing import NamedTuple

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium_cases import CASES, acrobot

from leanfast.envs.native import Engine
from leanfast.envs.registry import find

PARAMS = [(key, name) for key in CASES for name in find(key).defaults]
ATTRIBUTES = [(key, *pair) for key in CASES for pair in CASES[key].attributes.items()]


class DoubleNumpy:
    def __getattr__(self, name):
        return getattr(np, "float64" if name == "float32" else name)


@pytest.fixture(name="double")
def gymnasium_in_double_precision(monkeypatch) -> None:
    for case in CASES.values():
        module = importlib.import_module(f"gymnasium.envs.classic_control.{case.module}")
        monkeypatch.setattr(module, "np", DoubleNumpy())


class Stepped(NamedTuple):
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    state: np.ndarray

    def difference(self, other: "Stepped", relative: bool = False) -> float:
        """The largest; relative: to values larger than 1."""
        going = ~(self.terminated | other.terminated)  # elsewhere a new episode has begun
        same_end = self.terminated == other.terminated  # else the rewards differ by right
        pairs = [
            (self.observation, other.observation),
            (self.reward[same_end], other.reward[same_end]),
            (self.state[going], other.state[going]),
        ]
        return max(
            np.max(np.abs(a - b) / (np.maximum(1, np.abs(a)) if relative else 1)) for a, b in pairs
        )


def gymnasium_env(key, **settings):
    return gymnasium.make(CASES[key].id, disable_env_checker=True, **settings)


def gymnasium_step(key, states, actions, **attributes) -> Stepped:
    env = gymnasium_env(key).unwrapped
    for name, value in attributes.items():
        assert hasattr(env, name)
        setattr(env, name, value)
    if key == "cartpole":
        env.total_mass, env.polemass_length = env.masspole + env.masscart, env.masspole * env.length
    rows = []
    for state, action in zip(states, actions, strict=True):
        env.state, env.steps_beyond_terminated = state.copy(), None
        observation, reward, terminated, _, _ = env.step(action)
        rows.append((observation, reward, terminated, np.array(env.state)))
    return Stepped(*map(np.array, zip(*rows, strict=True)))


def place(engine, states) -> None:
    engine.reset()
    rows = np.ascontiguousarray(states, engine.precision)
    engine.load_records(engine.records() | {"state": rows.view(np.uint8)})


def states_of(engine) -> np.ndarray:
    return engine.records()["state"].view(engine.precision).astype(np.float64)


def leanfast_step(key, states, actions, precision="float64", **params) -> Stepped:
    engine = Engine(key, len(states), threads=1, seed=0, precision=precision, params=params)
    place(engine, states)
    actions = torch.from_numpy(actions)
    batch = engine.step(actions.to(engine.dtype) if actions.is_floating_point() else actions)
    values = (batch.next_observation, batch.reward, batch.terminated)
    observation, reward, terminated = (value.numpy().copy() for value in values)
    return Stepped(observation, reward, terminated.astype(bool), states_of(engine))


@functools.cache
def judged(key) -> tuple[np.ndarray, np.ndarray, Stepped]:
    states, actions = CASES[key].sample(np.random.default_rng(0), 4000)
    return states, actions, gymnasium_step(key, states, actions)


def disagreement(key, **params) -> float:
    states, actions, judge = judged(key)
    ours = leanfast_step(key, states, actions, **params)
    same_ends = np.array_equal(judge.terminated, ours.terminated)
    return judge.difference(ours) if same_ends else math.inf


@pytest.mark.parametrize("key", CASES)
def test_one_step_in_float64_is_gymnasiums_to_1e_12_and_ends_when_it_does(key, double):
    assert disagreement(key) <= 1e-12
    ended = judged(key)[2].terminated.mean()
    assert ended == 0 if "terminated" not in CASES[key].ends else 0.02 < ended < 0.6


def test_acrobot_at_its_speed_limits_differs_by_no_more_than_rounding(double):
    # There Gymnasium's own step answers a change of its input's last digit by up to 4e-11.
    states, actions = acrobot(np.random.default_rng(1), 4000, (4 * math.pi, 9 * math.pi))
    judge = gymnasium_step("acrobot", states, actions)
    ours = leanfast_step("acrobot", states, actions)
    assert judge.difference(ours) <= 1e-10
    assert np.array_equal(judge.terminated, ours.terminated)


def test_acrobot_has_swung_up_at_the_height_where_gymnasium_says_so(double):
    actions = np.full(4000, 2)
    states, _ = acrobot(np.random.default_rng(7), len(actions))
    ended = leanfast_step("acrobot", states, actions).terminated
    up, below = states[ended][:100], states[~ended][:100]
    for _ in range(40):  # bisect between a state whose step ends the episode and one whose does not
        middle = (up + below) / 2
        ended = leanfast_step("acrobot", middle, actions[:100]).terminated[:, None]
        up, below = np.where(ended, middle, up), np.where(ended, below, middle)
    assert np.abs(up - below).max() < 1e-9
    assert gymnasium_step("acrobot", up, actions[:100]).terminated.all()
    assert not gymnasium_step("acrobot", below, actions[:100]).terminated.any()


@pytest.mark.parametrize(("key", "name"), PARAMS)
def test_a_parameter_off_by_a_millionth_is_noticed(key, name, request):
    value = find(key).defaults[name]
    value = value * (1 + 1e-6) or 1e-6
    if name == "max_torque":  # beyond it Gymnasium clips what the engine refuses
        assert not same_spaces(find(key).spec({name: value}), gymnasium_env(key))
    else:
        request.getfixturevalue("double")
        assert disagreement(key, **{name: value}) > 1e-12


@pytest.mark.parametrize(("key", "name", "attribute"), ATTRIBUTES)
def test_a_parameter_means_what_gymnasium_means_by_it(key, name, attribute, double):
    value = find(key).defaults[name] * 1.1 + 1e-3
    states, actions = CASES[key].sample(np.random.default_rng(2), 200)
    judge = gymnasium_step(key, states, actions, **{attribute: value})
    ours = leanfast_step(key, states, actions, **{name: value})
    assert judge.difference(ours) <= 1e-12
    assert np.array_equal(judge.terminated, ours.terminated)


@pytest.mark.parametrize("key", CASES)
def test_one_step_in_float32_is_gymnasiums_within_the_stated_bound(key, double):
    states, actions = CASES[key].sample(np.random.default_rng(3), 4000)
    states = states.astype(np.float32).astype(np.float64)
    if actions.dtype == np.float64:
        actions = actions.astype(np.float32).astype(np.float64)
    judge = gymnasium_step(key, states, actions)
    ours = leanfast_step(key, states, actions, "float32")
    assert judge.difference(ours, relative=True) <= CASES[key].float32
    d = 1e-6  # next to a threshold rounding decides
    beside = [states - d, states + d, states * (1 - d), states * (1 + d)]
    verdicts = [gymnasium_step(key, near, actions).terminated for near in beside]
    clear = np.all([verdict == judge.terminated for verdict in verdicts], 0)
    assert clear.mean() > 0.7
    assert np.array_equal(ours.terminated[clear], judge.terminated[clear])


@pytest.mark.parametrize("key", CASES)
def test_gymnasium_left_as_it_is_agrees_to_its_own_float32(key):
    states, actions = CASES[key].sample(np.random.default_rng(4), 400)
    judge = gymnasium_step(key, states, actions)
    ours = leanfast_step(key, states, actions)
    assert judge.difference(ours, relative=True) <= 2e-7


@pytest.mark.parametrize("key", CASES)
def test_whole_episodes_agree_to_1e_6_and_end_at_the_same_step_for_the_same_reason(key, double):
    n, rng = 6, np.random.default_rng(5)
    engine = Engine(key, n, threads=1, seed=5, precision="float64")
    observation = engine.reset().observation.clone()
    envs = [gymnasium_env(key) for _ in range(n)]
    for env in envs:
        env.reset(seed=0)

    playing, ends = set(range(n)), set()
    for step in itertools.count():
        if not playing:
            break
        if step % CASES[key].anew == 0:
            for env, state in zip(envs, states_of(engine), strict=True):
                env.unwrapped.state = state.copy()
        actions = torch.from_numpy(CASES[key].sample(rng, n)[1])
        actions[n // 2 :] = CASES[key].pump(observation)[n // 2 :].to(actions.dtype)
        batch = engine.step(actions)
        for i in sorted(playing):
            expected, reward, terminated, truncated, _ = envs[i].step(actions[i].numpy())
            assert np.abs(batch.next_observation[i].numpy() - expected).max() <= 1e-6
            assert abs(batch.reward[i].item() - reward) <= 1e-6
            assert bool(batch.terminated[i]) == terminated
            assert bool(batch.truncated[i]) == truncated
            ends |= {"terminated"} if terminated else {"truncated"} if truncated else set()
            playing -= {i} if terminated or truncated else set()
        observation = batch.observation.clone()
    assert ends == CASES[key].ends


def test_a_fall_on_the_last_allowed_step_is_terminated_only_where_gymnasium_says_both():
    falling = np.array([[0.0, 0.0, 0.3, 0.0]])
    env = gymnasium_env("cartpole", max_episode_steps=1)
    env.reset(seed=0)
    env.unwrapped.state = falling[0]
    assert env.step(0)[2:4] == (True, True)
    engine = Engine("cartpole", 1, threads=1, seed=0, precision="float64", max_episode_steps=1)
    place(engine, falling)
    batch = engine.step(torch.zeros(1, dtype=torch.int64))
    assert (bool(batch.terminated[0]), bool(batch.truncated[0])) == (True, False)


def same_spaces(spec, env) -> bool:
    def same_box(ours, theirs):
        bounds = [(ours["low"], theirs.low), (ours["high"], theirs.high)]
        equal = all(np.array_equal(np.float32(a), b) for a, b in bounds)
        return equal and ours["shape"] == theirs.shape and theirs.dtype == np.float32

    ours, theirs = spec["action"], env.action_space
    discrete = isinstance(ours, int)
    same_action = theirs == gymnasium.spaces.Discrete(ours) if discrete else same_box(ours, theirs)
    return same_action and same_box(spec["observation"], env.observation_space)


@pytest.mark.parametrize("key", CASES)
def test_spaces_and_time_limit_are_gymnasiums(key):
    spec, env = find(key).spec(), gymnasium_env(key)
    assert same_spaces(spec, env)
    assert spec["name"] == env.spec.id
    assert spec["max_episode_steps"] == env.spec.max_episode_steps


def leanfast_resets(key, n):
    engine = Engine(key, n, threads=1, seed=6, precision="float64")
    engine.reset()
    return states_of(engine)


def gymnasium_resets(key, n):
    env = gymnasium_env(key)
    env.reset(seed=6)
    return np.array([np.array(env.unwrapped.state) for _ in range(n) if env.reset()])


@pytest.mark.parametrize("resets", [leanfast_resets, gymnasium_resets])
@pytest.mark.parametrize("key", CASES)
def test_first_states_are_uniform_and_independent_between_the_same_bounds(key, resets, double):
    n = 6000
    states = resets(key, n)
    low, high = np.array(CASES[key].reset).T
    assert (states >= low).all()
    assert (states <= high).all()
    random = states[:, high > low]
    unit = (random - low[high > low]) / (high - low)[high > low]
    ranks = (np.arange(n)[:, None] + 0.5) / n
    assert np.abs(np.sort(unit, 0) - ranks).max() < 2 / math.sqrt(n)  # Kolmogorov-Smirnov
    assert (unit.min(0) < 0.002).all()
    assert (unit.max(0) > 0.998).all()
    if unit.shape[1] > 1:
        assert np.abs(np.corrcoef(unit.T) - np.eye(unit.shape[1])).max() < 4 / math.sqrt(n)
