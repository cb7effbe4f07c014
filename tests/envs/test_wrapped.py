"""Gymnasium's environments, wrapped: one transition of each env a batch, whatever the autoreset."""

from itertools import pairwise

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from wrapped_cases import Continuous, Counting, assert_same, keep

from leanfast.envs.native import Batch, Engine
from leanfast.envs.registration import register
from leanfast.envs.wrapped import GymnasiumBatch

MODES = list(AutoresetMode)
STEPS = 40

# Forked: TorchRL makes spawn the default, and each worker would import torch. Python 3.12 warns of
# forks beside torch's threads.
ASYNC = {"vectorization_mode": "async", "vector_kwargs": {"context": "fork"}}
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def run(batch: GymnasiumBatch, steps=STEPS, seed=3) -> list[Batch]:
    """The reset's batch, then one for each step, under actions drawn from one stream."""
    rng = np.random.default_rng(0)
    batches = [keep(batch.reset(seed))]
    for _ in range(steps):
        batches.append(keep(batch.step(rng.integers(0, 3, batch.num_envs))))
    batch.close()
    return batches


def assert_counts_are_right(batches: list[Batch]) -> None:
    """0, 1, ..., the true last one, 0, ...; statistics and flags to match."""
    rng = np.random.default_rng(0)
    totals = np.zeros(len(batches[0].done))
    assert (batches[0].observation[:, 0] == 0).all()
    ended = 0
    for before, now in pairwise(batches):
        actions = rng.integers(0, 3, len(totals))
        count, length = before.observation.T
        assert torch.equal(now.next_observation, torch.stack([count + 1, length], 1))
        assert torch.equal(now.done, count + 1 == length)
        assert torch.equal(now.done, now.terminated ^ now.truncated)
        fresh = now.observation[now.done]
        assert (fresh[:, 0] == 0).all()
        assert torch.equal(now.observation[~now.done], now.next_observation[~now.done])
        assert torch.equal(now.reward, 10 * (count + 1) + torch.tensor(actions + 5))
        totals += now.reward.numpy()
        assert np.array_equal(now.episode_return, totals)
        assert np.array_equal(now.episode_length, count + 1)
        totals[now.done.numpy()] = 0
        ended += int(now.done.sum())
    assert ended > STEPS / 4 * len(totals) / 2


@pytest.mark.parametrize("reuse", [False, True], ids=["fresh arrays", "one array"])
@pytest.mark.parametrize("how", [{}, {"vectorization_mode": "sync"}, ASYNC])
def test_a_function_that_makes_envs_gives_true_transitions(how, reuse):
    batch = GymnasiumBatch(lambda: Counting(reuse), num_envs=3, **how)
    assert_counts_are_right(run(batch))


@pytest.mark.parametrize("mode", MODES)
def test_a_sync_vector_env_gives_true_transitions_in_every_autoreset_mode(mode):
    venv = SyncVectorEnv([Counting] * 3, autoreset_mode=mode)
    assert_counts_are_right(run(GymnasiumBatch(venv)))


@pytest.mark.parametrize("mode", MODES)
def test_an_async_vector_env_gives_true_transitions_in_every_autoreset_mode(mode):
    venv = AsyncVectorEnv([Counting] * 3, context="fork", autoreset_mode=mode)
    assert_counts_are_right(run(GymnasiumBatch(venv)))


def test_every_autoreset_mode_gives_the_same_batches():
    runs = [
        run(GymnasiumBatch(SyncVectorEnv([Counting] * 3, autoreset_mode=mode))) for mode in MODES
    ]
    assert_same(runs[0], runs[1])
    assert_same(runs[0], runs[2])


def test_an_async_vector_env_gives_what_a_sync_one_gives():
    sync, asynchronous = GymnasiumBatch(Counting, 3), GymnasiumBatch(Counting, 3, **ASYNC)
    assert_same(run(sync), run(asynchronous))


def test_a_single_env_gives_true_transitions():
    env = Counting(reuse=True)
    batch = GymnasiumBatch(env)
    assert batch.num_envs == 1
    assert_counts_are_right(run(batch))


def test_vector_wrappers_do_not_hide_how_the_env_within_resets():
    venv = SyncVectorEnv([Counting] * 3)
    venv = gymnasium.wrappers.vector.RecordEpisodeStatistics(venv)
    assert_counts_are_right(run(GymnasiumBatch(venv)))


def test_the_time_limit_truncates_and_a_fall_terminates():
    batch = GymnasiumBatch("CartPole-v1", num_envs=4, max_episode_steps=5)
    batch.reset(1)
    for _ in range(4):
        step = batch.step(np.zeros(4, int))
        assert not step.done.any()
    step = batch.step(np.zeros(4, int))
    assert step.truncated.all()
    assert not step.terminated.any()
    assert (step.episode_length == 5).all()
    batch.close()


def test_where_an_env_says_both_it_terminated():
    class Both(Counting):
        def step(self, action):
            return self.observe(), 0.0, True, True, {}

    batch = GymnasiumBatch(Both)
    batch.reset()
    step = batch.step(np.array([0]))
    assert step.terminated.all()
    assert not step.truncated.any()


def test_our_own_vector_env_wrapped_is_the_engine():
    register()
    batch = GymnasiumBatch(gymnasium.make_vec("leanfast/CartPole-v1", num_envs=5))
    engine = Engine("cartpole", 5)
    assert_same([batch.reset(9)], [engine.reset(9)])
    for actions in np.random.default_rng(0).integers(0, 2, (60, 5)):
        assert_same([batch.step(actions)], [engine.step(actions)])


def test_a_seed_gives_the_same_batches_again_and_another_gives_others():
    one, again, other = (run(GymnasiumBatch(Counting, num_envs=4), seed=s) for s in (1, 1, 2))
    assert_same(one, again)
    assert any(
        not torch.equal(a.observation, b.observation) for a, b in zip(one, other, strict=True)
    )


def test_the_first_reset_without_a_seed_takes_the_constructors():
    unseeded, seeded = GymnasiumBatch(Counting, num_envs=8, seed=11), GymnasiumBatch(Counting, 8)
    assert seeded.seed != 11
    assert_same([unseeded.reset()], [seeded.reset(11)])
    assert_same([unseeded.reset()], [seeded.reset()])  # the random numbers go on


def test_a_list_seeds_each_env():
    batch = GymnasiumBatch(Counting, num_envs=3)
    alike = batch.reset([7, 7, 7]).observation
    assert (alike == alike[0]).all()
    with pytest.raises(ValueError, match="seed has 2 values for 3 envs"):
        batch.reset([1, 2])


@pytest.mark.parametrize("mode", MODES)
def test_a_masked_reset_resets_only_the_masked(mode):
    batch = GymnasiumBatch(SyncVectorEnv([Counting] * 3, autoreset_mode=mode))
    while True:
        batch.reset()
        before = batch.step(np.zeros(3, int))
        if not before.done.any():
            break
    after = batch.reset(mask=torch.tensor([False, True, False]))
    assert after.observation[:, 0].tolist() == [1, 0, 1]
    assert after.episode_length.tolist() == [1, 0, 1]
    assert after.episode_return.tolist() == [15, 0, 15]
    assert_same([batch.reset(mask=np.zeros(3, bool))], [after])


def test_a_batch_is_never_written_again():
    batch = GymnasiumBatch(lambda: Counting(reuse=True), num_envs=2)
    batches = [batch.reset(0)] + [batch.step(np.zeros(2, int)) for _ in range(8)]
    kept = [keep(b) for b in batches]
    batch.step(np.zeros(2, int))
    assert_same(batches, kept)


def test_a_batch_is_the_callers_to_write():
    batch = GymnasiumBatch(Counting, num_envs=2)
    twin = GymnasiumBatch(Counting, num_envs=2)
    for one in (batch, twin):
        one.reset(0)
    for _ in range(8):
        given, expected = (one.step(np.zeros(2, int)) for one in (batch, twin))
        for name, tensor in given.items():
            if name != "next_observation":
                tensor.fill_(1)
        assert torch.equal(given.next_observation, expected.next_observation)
        given.next_observation.fill_(-1)
        none = np.zeros(2, bool)
        assert_same([batch.reset(mask=none)], [twin.reset(mask=none)])


def test_an_async_step_is_under_way_between_send_and_recv():
    batch = GymnasiumBatch(Counting, num_envs=2, **ASYNC)
    batch.reset()
    actions = torch.zeros(2, dtype=torch.int64)
    batch.send(actions)
    actions.fill_(99)  # the caller's to use again
    assert batch.in_flight
    assert batch.env._state.value == "step"
    assert (batch.recv().reward == 15).all()
    assert not batch.in_flight
    batch.send(torch.zeros(2, dtype=torch.int64))
    batch.close()
    batch.close()
    assert batch.closed


def test_bytes_stay_bytes_and_actions_meet_the_spaces_own_dtype_and_bounds():
    batch = GymnasiumBatch(Continuous, num_envs=2)
    assert batch.spec["observation"] == {
        "dtype": "uint8",
        "shape": (3, 4, 4),
        "low": [0],
        "high": [255],
    }
    assert batch.reset().observation.dtype == torch.uint8
    edge = torch.tensor([[-1, 0.1], [1, -0.1]])  # float32's 0.1 lies beyond float64's
    step = batch.step(edge)
    assert step.next_observation.dtype == torch.uint8
    assert torch.equal(step.reward, edge[:, 1])
    assert step.reward.dtype == torch.float32


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.array([0, 3]), r"actions\[1\] is 3; Counting takes 0 to 2"),
        (np.array([-1, 0]), r"actions\[0\] is -1; Counting takes 0 to 2"),
        (np.array([0]), r"actions has shape \(1,\); it must have shape \(2,\)"),
        (np.array([0.0, 1.0]), "actions are float64; Counting takes int64 or int32"),
    ],
)
def test_bad_discrete_actions_are_named(actions, message):
    batch = GymnasiumBatch(Counting, num_envs=2)
    batch.reset()
    with pytest.raises(ValueError, match=message):
        batch.send(actions)
    assert not batch.in_flight
    batch.step(np.array([0, 1], np.int32))


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([[0, 0], [np.nan, 0]], r"actions\[1, 0\] is nan; Continuous takes -1.0 to 1.0"),
        ([[0, 0], [0, 0.8]], r"actions\[1, 1\] is 0.8; Continuous takes -0.1 to 0.1$"),
    ],
)
def test_bad_continuous_actions_are_named(actions, message):
    batch = GymnasiumBatch(Continuous, num_envs=2)
    batch.reset()
    with pytest.raises(ValueError, match=message):
        batch.send(torch.tensor(actions, dtype=torch.float32))
    with pytest.raises(ValueError, match="actions are float64; Continuous takes float32"):
        batch.send(np.zeros((2, 2)))
    with pytest.raises(TypeError, match="must be a torch tensor or a NumPy array, not list"):
        batch.send(actions)


def test_calls_at_the_wrong_time_are_refused():
    batch = GymnasiumBatch(Counting, num_envs=2)
    actions = np.zeros(2, int)
    with pytest.raises(ValueError, match=r"send: .* call reset\(\) first"):
        batch.send(actions)
    with pytest.raises(ValueError, match="first reset must be of all envs"):
        batch.reset(mask=np.ones(2, bool))
    batch.reset()
    with pytest.raises(ValueError, match=r"recv: no batch is under way; call send\(actions\)"):
        batch.recv()
    batch.send(actions)
    for call in (lambda: batch.send(actions), batch.reset):
        with pytest.raises(ValueError, match=r"a batch is under way; call recv\(\) first"):
            call()
    batch.recv()
    batch.close()
    batch.close()
    for call in (lambda: batch.send(actions), batch.reset, batch.recv):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_after_an_env_raised_a_reset_is_asked_for():
    class Fails(Counting):
        def step(self, action):
            if action == 7:
                raise ZeroDivisionError("env's own")
            return super().step(action)

    batch = GymnasiumBatch(Fails, num_envs=2)
    batch.reset()
    with pytest.raises(ZeroDivisionError, match="env's own"):
        batch.step(np.array([0, 2]))
    with pytest.raises(ValueError, match=r"call reset\(\) first"):
        batch.step(np.array([0, 0]))
    batch.reset()
    batch.step(np.array([0, 0]))
