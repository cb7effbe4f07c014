import itertools
import math
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from simulator_cases import OnlySmallSeeds, Runners, Still, configured, registered

from leanfast.envs.native import Engine
from leanfast.envs.registry import builtin
from leanfast.envs.simulator import Step, simulator

COUNTER = str(Path(__file__).parents[1] / "headers" / "counter.hpp")
BINS = {"pendulum": 5, "mountaincar_continuous": 4}
CARTPOLES = [
    configured(name="cartpole"),
    configured(id="CartPole-v1"),
    configured(id="CartPole-v1", vectorization="vector_entry_point"),
    configured(id="leanfast/CartPole-v1", vectorization="vector_entry_point"),
    pytest.param(configured(id="CartPole-v1", vectorization="async"), marks=pytest.mark.slow),
]


def native(key):
    return configured(name=key, action_bins=BINS.get(key))


def steps_of(envs, count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        actions = torch.from_numpy(rng.integers(0, envs.actions, envs.lanes))
        envs.send(actions)
        yield actions, envs.recv()


def kept(step):
    return {name: getattr(step, name).clone() for name in Step.__slots__}


def by_lane(tensor, agents):
    return tensor.repeat_interleave(agents) if tensor.dim() == 1 else tensor.flatten(0, 1)


@pytest.mark.parametrize("key", sorted(builtin()))
def test_a_native_simulator_goes_the_engines_way_bit_for_bit(key):
    env = native(key)
    with simulator(env, 70, 3) as envs, Engine(key, 70) as engine:
        spec, agents = engine.spec, engine.agents
        envs.reset(5)
        engine.reset(5)
        for actions, step in steps_of(envs, 210):
            if not isinstance(spec["action"], int):
                low, high = spec["action"]["low"][0], spec["action"]["high"][0]
                values = torch.linspace(low, high, BINS[key], dtype=torch.float64).float()
                taken = values[actions][:, None]
            else:
                taken = actions.view(70, agents) if agents > 1 else actions
            engine.send(taken)
            for name, theirs in engine.recv().items():
                mine = getattr(step, name)
                if name == "episode_return":
                    theirs = theirs.view(70, agents)
                elif agents > 1 and name not in ("done", "episode_length"):
                    theirs = by_lane(theirs, agents)
                assert mine.dtype == theirs.dtype
                assert torch.equal(mine, theirs), name


@pytest.mark.parametrize("key", ["cartpole", "snake", "tag", "pendulum"])
def test_native_steps_are_the_engines_own_memory(key):
    with simulator(native(key), 6, 0) as envs:
        envs.reset(0)
        one_per_lane = [] if envs.agents > 1 else ["terminated", "truncated"]
        for _, step in steps_of(envs, 4):
            addresses = {name: getattr(step, name).data_ptr() for name in Step.__slots__}
            (buffer,) = [
                b for b in envs.engine.buffers if b.reward.data_ptr() == addresses["reward"]
            ]
            for name, tensor in buffer.items():
                if name not in ("terminated", "truncated") or name in one_per_lane:
                    assert addresses[name] == tensor.data_ptr(), name


@pytest.mark.parametrize("key", ["cartpole", "tag", "pendulum"])
def test_a_step_stays_as_it_is_until_the_second_send_after_it(key):
    with simulator(native(key), 8, 0) as envs:
        before = envs.reset(1)
        was = kept(before)
        for step in range(250):
            envs.send(torch.full((envs.lanes,), step % envs.actions))
            now = envs.recv()
            for name, value in was.items():
                assert torch.equal(getattr(before, name), value), name
            before, was = now, kept(now)


def test_a_refused_action_changes_nothing():
    with simulator(native("cartpole"), 3, 0) as envs:
        step = envs.reset(1)
        was = kept(step)
        for _ in range(3):
            with pytest.raises(ValueError, match=r"actions\[1\] is 2; CartPole-v1 takes 0 to 1"):
                envs.send(torch.tensor([0, 2, 0]))
        envs.send(torch.tensor([0, 1, 0]))
        envs.recv()
        assert torch.equal(step.observation, was["observation"])


def test_agents_are_lanes_that_share_their_envs_flags():
    with simulator(native("tag"), 3, 0) as envs:
        assert (envs.agents, envs.lanes, envs.actions) == (4, 12, 5)
        assert envs.reset(0).observation.shape == (12, *envs.observation_shape)
        for _, step in steps_of(envs, 401):
            ends = step.episode_length == 200
            assert torch.equal(step.done, ends)
            assert torch.equal(step.truncated, ends.repeat_interleave(4))
            assert not step.terminated.any()
            assert step.episode_return.shape == (3, 4)


@pytest.mark.parametrize("env", CARTPOLES, ids=lambda env: f"{env.label} {env.vectorization}")
def test_every_simulator_keeps_the_same_contract(env):
    with simulator(env, 6, 0) as envs:
        assert (envs.num_envs, envs.agents, envs.lanes, envs.actions) == (6, 1, 6, 2)
        assert (envs.observation_shape, envs.observation_dtype) == ((4,), torch.float32)
        before, ended = kept(envs.reset(1)), 0
        returns, lengths = torch.zeros(6), torch.zeros(6, dtype=torch.int32)
        for _, step in steps_of(envs, 120):
            x, _, theta, _ = step.next_observation.T
            fallen = (x.abs() > 2.4) | (theta.abs() > 12 * 2 * math.pi / 360)
            assert torch.equal(step.terminated, fallen)
            assert not (step.terminated & step.truncated).any()
            assert torch.equal(step.done, step.terminated | step.truncated)
            going = ~step.done
            assert torch.equal(step.observation[going], step.next_observation[going])
            assert (step.observation.abs()[step.done] <= 0.05).all()  # a reset one
            moved = 0.02 * before["observation"][:, 1]  # x by its speed
            assert torch.allclose(x, before["observation"][:, 0] + moved, atol=1e-5)
            returns, lengths = returns + step.reward, lengths + 1
            assert torch.equal(step.episode_return, returns[:, None])
            assert torch.equal(step.episode_length, lengths)
            returns[step.done], lengths[step.done] = 0, 0
            for name, tensor in kept(step).items():
                assert tensor.dtype == before[name].dtype, name
                assert tensor.shape == before[name].shape, name
            before, ended = kept(step), ended + int(step.done.sum())
        assert ended > 10


@pytest.mark.parametrize("key", ["pendulum", "mountaincar", "tag", "cartpole"])
def test_native_envs_are_truncated_by_the_time_limit_alone_and_always_there(key):
    with simulator(native(key), 8, 0) as envs:
        envs.reset(2)
        limit = envs.episode_limit
        assert limit == builtin()[key].spec()["max_episode_steps"]
        for _, step in steps_of(envs, 2 * limit + 1):
            late = (step.episode_length == limit).repeat_interleave(envs.agents)
            assert torch.equal(step.truncated, late & ~step.terminated)
            assert (step.episode_length <= limit).all()


def test_only_a_native_env_with_a_limit_has_an_episode_limit():
    with simulator(configured(source=COUNTER), 2, 0) as envs:
        assert envs.episode_limit is None
    with simulator(configured(id="CartPole-v1"), 2, 0) as envs:
        assert envs.episode_limit is None


@pytest.mark.parametrize("env", [native("pendulum"), configured(id="Pendulum-v1", action_bins=5)])
def test_a_choice_stands_for_an_evenly_spaced_value(env):
    with simulator(env, 5, 0) as envs:
        assert envs.actions == 5
        before = envs.reset(1).observation.clone()
        envs.send(torch.arange(5))
        after = envs.recv().next_observation
        torque = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0])
        # Gymnasium's definition of the pendulum, g 10, mass and length 1, dt 0.05
        wanted = before[:, 2] + (15 * before[:, 1] + 3 * torque) * 0.05
        assert torch.allclose(after[:, 2], wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("actions", "complaint"),
    [
        ([0, 5, 0], r"actions\[1\] is 5; Pendulum-v1 takes 0 to 4"),
        ([0, 0, -1], r"actions\[2\] is -1; Pendulum-v1 takes 0 to 4"),
        ([0, 0], r"int64 of shape \(2,\); Pendulum-v1 takes int64 of shape \(3,\)"),
        ([0.0, 0.0, 0.0], r"torch.float32 of shape \(3,\); Pendulum-v1 takes int64"),
    ],
)
@pytest.mark.parametrize("env", [native("pendulum"), configured(id="Pendulum-v1", action_bins=5)])
def test_a_choice_that_is_none_is_named(env, actions, complaint):
    with simulator(env, 3, 0) as envs:
        envs.reset(0)
        with pytest.raises(ValueError, match=complaint):
            envs.send(torch.tensor(actions))
        envs.send(torch.tensor([0, 4, 2]))
        envs.recv()


def test_agents_actions_of_another_shape_are_refused():
    with simulator(native("tag"), 3, 0) as envs:
        envs.reset(0)
        for shape in [(3,), (3, 4), (13,)]:
            with pytest.raises(ValueError, match=r"Tag-v1 takes int64 of shape \(12,\)"):
                envs.send(torch.zeros(shape, dtype=torch.int64))


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        (configured(name="pendulum"), "pendulum has continuous actions.* env.action_bins=11"),
        (configured(id="Pendulum-v1"), "Pendulum-v1 has continuous actions.* env.action_bins=11"),
        (configured(name="cartpole", action_bins=3), "cartpole has 2 actions as it is"),
        (configured(id="CartPole-v1", action_bins=3), "CartPole-v1 has 2 actions as it is"),
    ],
)
def test_actions_that_do_not_fit_are_refused(env, complaint):
    with pytest.raises(ValueError, match=complaint):
        simulator(env, 2, 0)


def test_a_choice_stays_within_bounds_that_float32_rounds_outwards():
    space = Box(np.array([-0.1, 0.0]), np.array([0.1, 0.3]), dtype=np.float64)
    name = registered("Rounded", Still, kwargs={"action_space": space})  # asserts that it does
    with simulator(configured(id=name, action_bins=2), 4, 0) as envs:
        envs.reset(0)
        envs.send(torch.arange(4))
        wanted = torch.tensor([-0.1, 0.2, 0.1, 0.4])
        assert torch.allclose(envs.recv().reward, wanted)


def test_a_vectorized_environment_of_its_own_is_stepped_as_it_is():
    name = registered("Runners", None, vector_entry_point=Runners)
    with simulator(configured(id=name, vectorization="vector_entry_point"), 3, 0) as envs:
        assert isinstance(envs.batch.env.unwrapped, Runners)
        assert envs.reset(0).observation.flatten().tolist() == [0, 0, 0]
        seen = [step for _, step in steps_of(envs, 3)]
    assert [step.next_observation.flatten().tolist() for step in seen] == [
        [1, 1, 1],
        [1, 2, 2],
        [1, 1, 3],
    ]
    assert [step.observation.flatten().tolist() for step in seen] == [
        [0, 1, 1],
        [0, 0, 2],
        [0, 1, 0],
    ]
    assert [step.done.nonzero().flatten().tolist() for step in seen] == [[0], [0, 1], [0, 2]]


@pytest.mark.parametrize("env", [native("cartpole"), configured(id="CartPole-v1")])
def test_a_seed_starts_the_same_episodes_again_and_another_others(env):
    with simulator(env, 4, 0) as envs:
        one, other, again, large, larger = (
            envs.reset(seed).observation.clone() for seed in (1, 2, 1, 2**32 + 1, 2**33 + 1)
        )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert not torch.equal(one, large)
    assert not torch.equal(large, larger)


@pytest.mark.parametrize("seed", [0, 2**31 - 5, 2**31 - 1, 2**32 - 1, 2**32 + 7, 2**63])
def test_every_seed_of_a_run_is_one_that_gymnasium_environments_take(seed):
    assert len(set(seeds_given(seed))) == 5


def test_evaluations_start_where_no_training_with_a_small_seed_did():
    trained = set(range(1_000_000))
    evaluated = [seeds_given(2**32 + seed) for seed in range(20)]
    assert trained.isdisjoint(itertools.chain(*evaluated))
    assert len({first for first, *_ in evaluated}) == 20


def seeds_given(seed):
    env = configured(id=registered("OnlySmallSeeds", OnlySmallSeeds))
    with simulator(env, 5, 0) as envs:
        envs.reset(seed)
        return [each.unwrapped.given for each in envs.batch.env.unwrapped.envs]


def test_small_seeds_are_gymnasiums_own():
    with simulator(configured(id="CartPole-v1"), 3, 0) as envs:
        shown = envs.reset(40).observation
        for i in range(3):
            alone, _ = gymnasium.make("CartPole-v1").reset(seed=40 + i)
            assert np.array_equal(shown[i], alone)
