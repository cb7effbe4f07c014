"""No copies: who owns which memory, what is written where, and what is let go of."""

import dataclasses
import gc
import sys
import weakref

import numpy as np
import pytest
import torch
from engine_cases import ENVS, actions_for, assert_same, copied, play

from leanfast.envs.native import Engine

ONES = torch.ones(70, dtype=torch.int64)


def pointers(batch) -> list[int]:
    return [tensor.data_ptr() for _, tensor in batch.items()]


def ready(env: str = "cartpole", num_envs: int = 70, **options) -> Engine:
    engine = Engine(env, num_envs, seed=1, **options)
    engine.reset()
    return engine


@pytest.mark.parametrize("env", ENVS)
def test_batches_alternate_between_two_aligned_sets_of_arrays(env):
    engine = Engine(env, 65)
    own = [pointers(batch) for batch in engine.buffers]
    seen = [pointers(engine.reset()) for _ in range(6)]
    assert sorted(map(tuple, seen[:2])) == sorted(map(tuple, own))
    assert seen == [seen[0], seen[1]] * 3
    assert not set(seen[0]) & set(seen[1])
    assert all(address % 64 == 0 for addresses in own for address in addresses)


def test_a_batch_stays_as_it_is_until_the_second_send_after_it():
    engine = ready(num_envs=8200, threads=2)
    actions = torch.ones(8200, dtype=torch.int64)
    batch = engine.step(actions)
    kept = copied(batch)
    engine.send(actions)
    assert_same([kept], [copied(batch)])
    engine.recv()
    assert_same([kept], [copied(batch)])
    engine.step(actions)
    assert not torch.equal(batch.observation, kept["observation"])


def test_a_batchs_tensors_outlive_their_engine():
    engine = ready()
    batch = engine.step(ONES)
    kept = copied(batch)
    engine.close()
    del engine
    gc.collect()
    assert_same([kept], [copied(batch)])


def test_a_batchs_arrays_cannot_be_swapped_under_the_engine():
    batch = ready().step(ONES)
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.observation = batch.observation.clone()


@pytest.mark.parametrize("env", ENVS)
def test_a_step_into_the_callers_storage_is_the_same_step(env):
    engine, plain = ready(env), ready(env)
    rollout, slots = engine.storage(12)
    wanted, rng = play(plain, 12, mask=False), np.random.default_rng(0)
    for slot in slots:
        engine.send(actions_for(engine, rng), into=slot)
        engine.recv()
    assert_same(wanted, [copied(rollout.row(step)) for step in range(12)])


def test_recv_hands_over_the_callers_own_arrays():
    engine = ready()
    rollout, slots = engine.storage(3)
    batch = engine.step(ONES, slots[1])
    assert pointers(batch) == pointers(rollout.row(1))
    assert not rollout.row(0).observation.any()
    assert not rollout.row(2).observation.any()


def test_a_reset_can_go_into_the_callers_storage():
    engine, plain = Engine("cartpole", 70, seed=1), ready()
    rollout, slots = engine.storage(2)
    engine.reset(into=slots[1])
    assert torch.equal(rollout.observation[1], plain.reset(seed=1).observation)


def test_arrays_that_a_slot_leaves_out_go_to_the_engines_own():
    engine, plain = ready(), ready()
    reward = torch.full((70,), -1.0)
    done = np.ones(70, dtype=bool)
    before = copied(plain.step(ONES))
    engine.step(ONES)
    engine.send(ONES, into=engine.slot(reward=reward, done=done))
    batch = engine.recv()
    wanted = copied(plain.step(ONES))
    assert torch.equal(reward, wanted["reward"])
    assert np.array_equal(done, wanted["done"])
    assert batch.reward is reward
    assert batch.observation is None
    shown = [copied(b) for b in engine.buffers]
    assert any(torch.equal(b["observation"], before["observation"]) for b in shown)
    assert_same(play(engine, 4), play(plain, 4))


@pytest.mark.parametrize(
    ("error", "words", "arrays"),
    [
        (ValueError, "no array 'observations'; it has: observation", {"observations": ONES}),
        (ValueError, "observation is int64; it must be float32", {"observation": ONES}),
        (ValueError, r"reward has shape \(69,\)", {"reward": torch.zeros(69)}),
        (ValueError, r"observation has shape \(70,\)", {"observation": torch.zeros(70)}),
        (ValueError, "done is uint8; it must be bool", {"done": np.zeros(70, np.uint8)}),
        (ValueError, "length is int64; it must be int32", {"episode_length": ONES}),
        (ValueError, "reward is not contiguous", {"reward": torch.zeros(140)[::2]}),
        (ValueError, "CPU memory", {"reward": torch.zeros(70, device="meta")}),
        (TypeError, "reward must be a torch tensor or a NumPy array", {"reward": [0.0] * 70}),
    ],
)
def test_wrong_slot_arrays_are_refused(error, words, arrays):
    with pytest.raises(error, match=words):
        ready().slot(**arrays)


def test_a_read_only_array_is_refused_as_a_slot():
    reward = np.zeros(70, dtype=np.float32)
    reward.flags.writeable = False
    with pytest.raises(ValueError, match="reward is read-only"):
        ready().slot(reward=reward)


@pytest.mark.parametrize("other", [{"num_envs": 71}, {"env": "acrobot"}, {"precision": "float64"}])
def test_a_slot_of_an_engine_with_other_sizes_is_refused(other):
    engine, smaller = ready(**other), ready()
    rollout, slots = smaller.storage(1)
    actions = torch.ones(engine.num_envs, dtype=torch.int64)
    for call in (lambda: engine.send(actions, into=slots[0]), lambda: engine.reset(into=slots[0])):
        with pytest.raises(
            ValueError, match=r"into was made by an engine of 70 envs.*this one has"
        ):
            call()
    assert not rollout.observation.any()
    assert engine.step(actions).episode_length.eq(1).all()


def test_a_slot_keeps_its_memory_alive():
    engine = ready()
    reward = torch.zeros(70)
    alive = weakref.ref(reward)
    slot = engine.slot(reward=reward)
    del reward
    gc.collect()
    assert alive() is not None
    assert engine.step(ONES, slot).reward.eq(1).all()


@pytest.mark.parametrize("as_array", [np.asarray, torch.as_tensor])
def test_actions_are_held_while_they_are_read_and_let_go_of_after(as_array):
    engine = ready()
    actions = as_array(np.ones(70, dtype=np.int64))
    before = sys.getrefcount(actions)
    engine.send(actions)
    assert sys.getrefcount(actions) == before + 1
    engine.recv()
    assert sys.getrefcount(actions) == before
    for _ in range(100):
        with pytest.raises(ValueError, match="recv"):
            engine.recv()
        engine.step(actions)
        engine.slot(reward=torch.zeros(70))
    assert sys.getrefcount(actions) == before
    engine.send(actions)
    engine.close()
    assert sys.getrefcount(actions) == before


def test_temporary_actions_may_be_dropped_after_send():
    engine, plain = ready(num_envs=8200), ready(num_envs=8200)
    for step in range(5):
        engine.send(torch.full((8200,), step % 2))
        gc.collect()
        torch.full((8200,), 7)  # would reuse the memory
        wanted = copied(plain.step(np.full(8200, step % 2)))
        assert_same([copied(engine.recv())], [wanted])


@pytest.mark.parametrize("under_way", [False, True])
def test_a_dropped_engine_is_collected_at_once(under_way):
    engine = ready(num_envs=20000, threads=3)
    alive = weakref.ref(engine.buffers[0].observation)
    if under_way:
        engine.send(torch.ones(20000, dtype=torch.int64))
    del engine
    assert alive() is None


def test_types_made_and_dropped_are_told_apart():
    engine = ready()
    for k in range(200):
        tensor_type = type(f"T{k}", (torch.Tensor,), {})
        engine.step(ONES.as_subclass(tensor_type))
        del tensor_type
        gc.collect(0)
        with pytest.raises(TypeError, match=f"not N{k}"):
            engine.send(type(f"N{k}", (), {})())
