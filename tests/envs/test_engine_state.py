"""A saved state continues bit for bit, and is refused where it does not belong."""

import io
import json

import numpy as np
import pytest
import torch
from engine_cases import ENVS, assert_same, copied, play
from hypothesis import given, settings
from hypothesis import strategies as st

from leanfast.envs.native import Engine


def through_a_file(state: dict) -> dict:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@given(
    steps=st.integers(0, 30),
    num_envs=st.integers(1, 200),
    env=st.sampled_from(ENVS),
    threads=st.sampled_from([1, 3]),
    precision=st.sampled_from(["float32", "float64"]),
)
@settings(max_examples=50)
def test_a_restored_engine_continues_bit_for_bit(steps, num_envs, env, threads, precision):
    options = {"max_episode_steps": 11, "precision": precision}
    engine = Engine(env, num_envs, seed=4, threads=2, **options)
    last = copied(engine.reset())
    for batch in play(engine, steps, seed=1):
        last = batch
    state = through_a_file(engine.state_dict())
    restored = Engine(env, num_envs, seed=99, threads=threads, **options)
    restored.pool_above_us = 0.0
    shown = restored.load_state_dict(state)
    assert torch.equal(shown.observation, last["observation"])
    assert_same(play(engine, 15, seed=2), play(restored, 15, seed=2))
    assert torch.equal(engine.reset().observation, restored.reset().observation)


@pytest.mark.parametrize("env", ENVS)
def test_saving_changes_nothing(env):
    saved, other = Engine(env, 70, seed=4), Engine(env, 70, seed=4)
    saved.reset(), other.reset()
    play(saved, 5), play(other, 5)
    state = saved.state_dict()
    kept = {name: value.clone() for name, value in state.items() if torch.is_tensor(value)}
    assert_same(play(saved, 5), play(other, 5))
    for name, value in kept.items():
        assert torch.equal(state[name], value), f"{name} is not a copy"


def test_a_state_loaded_twice_gives_the_same_twice():
    engine = Engine("cartpole", 70, seed=4)
    engine.reset()
    state = engine.state_dict()
    first = play(engine, 8)
    engine.load_state_dict(state)
    assert_same(first, play(engine, 8))


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"env": "acrobot"}, "env='cartpole'.*env='acrobot'"),
        ({"num_envs": 6}, "num_envs=5.*num_envs=6"),
        ({"params": {"gravity": 1.0}}, r"gravity.*9\.8.*gravity.*1\.0"),
        ({"precision": "float64"}, "precision='float32'.*precision='float64'"),
        ({"max_episode_steps": 9}, "max_episode_steps=500.*max_episode_steps=9"),
    ],
)
def test_a_state_of_another_kind_is_refused_with_what_differs(other, named):
    saved = Engine("cartpole", 5, seed=4)
    saved.reset()
    options = {"env": "cartpole", "num_envs": 5, "seed": 4} | other
    engine, untouched = Engine(**options), Engine(**options)
    engine.reset(), untouched.reset()
    with pytest.raises(ValueError, match=named) as refusal:
        engine.load_state_dict(saved.state_dict())
    assert "\n" not in str(refusal.value)
    assert_same(play(engine, 4), play(untouched, 4))


def broken(state: dict, how: str) -> dict:
    if how == "lacks length":
        return {name: value for name, value in state.items() if name != "length"}
    if how == "array":
        return state | {"state": state["state"].numpy()}
    if how == "short":
        return state | {"seed": state["seed"][:-1]}
    if how == "dtype":
        return state | {"length": state["length"].double()}
    if how == "version":
        return state | {"version": 0}
    if how == "altered":
        return state | {"spec_hash": "0"}
    return {"weights": torch.zeros(3)}


@pytest.mark.parametrize(
    ("how", "named"),
    [
        ("lacks length", "length is not a tensor"),
        ("array", "state is not a tensor"),
        ("short", r"seed has shape \(4,\).*\(5,\)"),
        ("dtype", "length"),
        ("version", "version 0.*1"),
        ("altered", "altered"),
        ("foreign", "no engine's state"),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(how, named):
    engine, untouched = Engine("cartpole", 5, seed=4), Engine("cartpole", 5, seed=4)
    engine.reset(), untouched.reset()
    with pytest.raises(ValueError, match=named):
        engine.load_state_dict(broken(engine.state_dict(), how))
    assert_same(play(engine, 4), play(untouched, 4))


def test_a_state_says_in_plain_text_what_it_belongs_to():
    engine = Engine("cartpole", 5, seed=4)
    engine.reset()
    assert json.loads(engine.state_dict()["spec"])["env"] == "cartpole"


def test_there_is_no_state_before_the_first_reset():
    with pytest.raises(ValueError, match="reset"):
        Engine("cartpole", 5).state_dict()


def test_a_state_is_neither_saved_nor_loaded_while_a_batch_is_under_way():
    engine = Engine("cartpole", 5, seed=4)
    engine.reset()
    state = engine.state_dict()
    engine.send(torch.zeros(5, dtype=torch.int64))
    for call in (engine.state_dict, lambda: engine.load_state_dict(state), engine.records):
        with pytest.raises(ValueError, match=r"under way; call recv\(\)"):
            call()
    assert engine.recv().episode_length.tolist() == [1] * 5


def test_records_can_be_changed_and_put_back():
    engine = Engine("cartpole", 3, seed=4)
    engine.reset()
    records = engine.records()
    records["length"][1] = 499
    engine.load_records(records)
    batch = engine.step(np.zeros(3, dtype=np.int64))
    assert batch.truncated.tolist() == [False, True, False]
