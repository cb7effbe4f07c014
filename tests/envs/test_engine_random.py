"""Trajectories depend on the seed, the env's index and the actions, and on nothing else."""

import numpy as np
import pytest
import torch
from engine_cases import ENVS, FIELDS, actions_for, assert_same, copied, play
from hypothesis import given, settings
from hypothesis import strategies as st

from leanfast import _native
from leanfast.envs.native import Engine

SIZES = [1, 63, 64, 65, 257, 4096]


def trajectory(env: str, num_envs: int, steps: int = 12, pooled: bool | None = None, **options):
    with Engine(env, num_envs, **({"seed": 3, "max_episode_steps": 7} | options)) as engine:
        if pooled is not None:
            engine.pool_above_us = 0.0 if pooled else 1e12
        seen = [copied(engine.reset()), *play(engine, steps)]
        if pooled is not None and num_envs > 64:
            assert engine.pooled == pooled
        return seen


@pytest.mark.parametrize("num_envs", SIZES)
@pytest.mark.parametrize("env", ENVS)
def test_every_thread_count_gives_the_same_bits(env, num_envs):
    wanted = trajectory(env, num_envs, threads=1)
    for threads in (2, 3, 7):
        assert_same(wanted, trajectory(env, num_envs, threads=threads, pooled=True))


@given(
    num_envs=st.integers(1, 600),
    threads=st.sampled_from([2, 3, 7]),
    seed=st.integers(0, 2**64 - 1),
    env=st.sampled_from(["cartpole", "pendulum"]),
)
@settings(max_examples=40)
def test_inline_and_pooled_steps_agree(num_envs, threads, seed, env):
    options = {"seed": seed, "threads": threads}
    inline = trajectory(env, num_envs, pooled=False, **options)
    assert_same(inline, trajectory(env, num_envs, pooled=True, **options))


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("env", ENVS)
def test_every_instruction_set_gives_the_same_bits(env, precision):
    runs = [
        trajectory(env, 131, steps=40, instruction_set=name, precision=precision)
        for name in _native.instruction_sets()
    ]
    for other in runs[1:]:
        assert_same(runs[0], other)


@given(
    seed=st.integers(0, 2**64 - 1),
    num_envs=st.integers(1, 130),
    env=st.sampled_from(ENVS),
)
@settings(max_examples=40)
def test_the_same_seed_gives_the_same_trajectory(seed, num_envs, env):
    a, b = (trajectory(env, num_envs, seed=seed) for _ in range(2))
    assert_same(a, b)


@given(seed=st.integers(0, 2**64 - 1), flipped=st.integers(0, 63))
@settings(max_examples=40)
def test_every_bit_of_the_seed_matters(seed, flipped):
    def first(value: int) -> torch.Tensor:
        with Engine("cartpole", 5, seed=value) as engine:
            return engine.reset().observation.clone()

    assert not torch.isclose(first(seed), first(seed ^ (1 << flipped)), atol=1e-9).any(1).all()


@given(few=st.integers(1, 300), many=st.integers(1, 300), env=st.sampled_from(ENVS))
@settings(max_examples=25)
def test_an_env_does_not_depend_on_how_many_others_there_are(few, many, env):
    few, many = sorted((few, many))
    small, large = Engine(env, few, seed=9), Engine(env, many, seed=9)
    first_small, first_large = copied(small.reset()), copied(large.reset())
    rng = np.random.default_rng(0)
    seen_small, seen_large = [first_small], [first_large]
    for _ in range(10):
        actions = actions_for(large, rng)
        seen_large.append(copied(large.step(actions)))
        seen_small.append(copied(small.step(actions[:few].clone())))
    cut = [{name: batch[name][:few].clone() for name in FIELDS} for batch in seen_large]
    assert_same(seen_small, cut)


def test_a_list_of_seeds_gives_each_env_its_own():
    one, other = Engine("cartpole", 3, seed=[7, 8, 9]), Engine("cartpole", 3, seed=8)
    listed, single = one.reset().observation, other.reset().observation
    assert torch.equal(listed[1], single[1])
    assert not torch.equal(listed[0], single[0])
    assert torch.equal(one.reset(seed=np.array([1, 8, 1])).observation[1], single[1])


def test_envs_of_one_seed_start_differently():
    starts = Engine("cartpole", 4096, seed=1).reset().observation
    assert len(torch.unique(starts, dim=0)) == 4096


def test_without_a_seed_two_engines_differ():
    a, b = (Engine("cartpole", 4).reset().observation for _ in range(2))
    assert not torch.equal(a, b)


def test_an_engine_tells_the_seed_it_drew():
    one = Engine("cartpole", 4)
    first = one.reset().observation.clone()
    assert torch.equal(Engine("cartpole", 4, seed=one.seed).reset().observation, first)


def test_a_reset_without_a_seed_goes_on_and_one_with_it_begins_again():
    engine = Engine("cartpole", 4, seed=5)
    first = engine.reset().observation.clone()
    second = engine.reset().observation.clone()
    assert not torch.equal(first, second)
    assert torch.equal(engine.reset(seed=5).observation, first)
    assert torch.equal(engine.reset().observation, second)


@given(mask=st.lists(st.booleans(), min_size=70, max_size=70), seeded=st.booleans())
@settings(max_examples=25)
def test_a_masked_reset_touches_only_the_masked(mask, seeded):
    chosen = torch.tensor(mask)
    engine, untouched = (Engine("cartpole", 70, seed=2) for _ in range(2))
    for e in (engine, untouched):
        e.reset()
        play(e, 6, mask=False)
    before = engine.records()
    batch = engine.reset(mask=chosen, seed=11 if seeded else None)
    after = engine.records()
    kept = ~chosen.numpy()
    for name in before:
        assert np.array_equal(before[name][kept], after[name][kept]), name
    assert (after["length"][~kept] == 0).all()
    assert torch.equal(batch.episode_length, torch.from_numpy(after["length"]))
    assert (after["seed"][~kept] == (11 if seeded else 2)).all()
    if seeded:
        fresh = Engine("cartpole", 70, seed=11).reset().observation
        assert torch.equal(batch.observation[chosen], fresh[chosen])
    actions = torch.ones(70, dtype=torch.int64)
    a, b = engine.step(actions), untouched.step(actions)
    assert torch.equal(a.next_observation[~chosen], b.next_observation[~chosen])
