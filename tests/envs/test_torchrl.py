"""The TorchRL face: rollouts stay what they were, resets are exactly the asked ones."""

from pathlib import Path

import pytest
import torch
from tensordict import TensorDict
from torchrl.envs import EnvBase, TransformedEnv, step_mdp
from torchrl.envs.transforms import RewardSum, StepCounter
from torchrl.envs.utils import check_env_specs

import leanfast
from leanfast.envs.registry import builtin

COUNTER = str(Path(__file__).parents[1] / "headers" / "counter.hpp")


def counter(num_envs: int = 4, length: int = 1000, **options) -> EnvBase:
    return leanfast.make(COUNTER, num_envs, threads=1, seed=0, params={"length": length}, **options)


def test_make_returns_a_torchrl_environment():
    env = leanfast.make("cartpole", num_envs=3, seed=0)
    assert isinstance(env, EnvBase)
    assert env.batch_size == torch.Size([3])


@pytest.mark.parametrize("name", sorted(builtin()))
def test_every_built_in_environment_passes_check_env_specs(name):
    check_env_specs(leanfast.make(name, num_envs=5, seed=0))


def test_a_rollout_counts_its_steps_from_zero():
    steps = counter().rollout(8, break_when_any_done=False)["observation"][..., 0]
    assert torch.equal(steps, torch.arange(8.0).expand(4, 8))


def test_a_rollout_that_outlives_others_keeps_its_values():
    env = counter()
    first = env.rollout(8, break_when_any_done=False)
    kept = first.clone()
    for _ in range(5):
        env.rollout(8, break_when_any_done=False)
    assert (first == kept).all()


@pytest.mark.parametrize("hold", ["tensor", "view", "numpy", "detached", "tensordict", "autograd"])
def test_a_step_somebody_holds_is_never_overwritten(hold):
    env = counter()
    weight = torch.ones(2, requires_grad=True)
    td, held, values = env.reset(), [], []
    for _ in range(20):
        td["action"] = torch.zeros(4, dtype=torch.int64)
        stepped, td = env.step_and_maybe_reset(td)
        seen = stepped["next", "observation"]
        values.append(seen.clone())
        held.append(
            {
                "tensor": lambda t: t,
                "view": lambda t: t[1:],
                "numpy": lambda t: t.numpy()[1:],
                "detached": lambda t: t.detach(),
                "tensordict": lambda t: TensorDict({"x": t}, [4])[1:],
                "autograd": lambda t: (t * weight).sum(),
            }[hold](seen)
        )
        del stepped, seen
    for kept, value in zip(held, values, strict=True):
        if hold == "autograd":
            weight.grad = None
            kept.backward()
            assert torch.equal(weight.grad, value.sum(0))
        else:
            kept = kept["x"] if hold == "tensordict" else torch.as_tensor(kept)
            assert torch.equal(kept, value[-len(kept) :])


def test_a_loop_that_holds_nothing_uses_the_same_memory_again():
    env = counter()
    td, addresses = env.reset(), set()
    for _ in range(50):
        td["action"] = torch.zeros(4, dtype=torch.int64)
        _, td = env.step_and_maybe_reset(td)
        addresses.add(td["observation"].data_ptr())
    assert len(addresses) <= 8


def test_memory_moved_by_its_holder_is_not_written_again():
    env = counter()
    td = env.reset()
    for _ in range(12):
        td["action"] = torch.zeros(4, dtype=torch.int64)
        stepped, td = env.step_and_maybe_reset(td)
        stepped["next", "observation"].share_memory_()
    assert torch.equal(td["observation"][:, 0], torch.full((4,), 12.0))


def test_the_next_observation_is_the_true_last_one_and_the_root_the_reset_one():
    env = counter(length=3)
    rollout = env.rollout(7, break_when_any_done=False)
    steps = torch.tensor([0.0, 1, 2, 0, 1, 2, 0])
    assert torch.equal(rollout["observation"][0, :, 0], steps)
    assert torch.equal(rollout["next", "observation"][0, :, 0], steps + 1)
    assert torch.equal(rollout["next", "terminated"][0, :, 0], steps == 2)
    assert not rollout["done"].any()


def test_one_piece_and_step_by_step_give_the_same_transitions():
    quick, slow = (leanfast.make("cartpole", 16, threads=1, seed=3) for _ in range(2))
    td, other = quick.reset(), slow.reset()
    for t in range(60):
        actions = torch.arange(16).add(t).remainder(3).clamp(max=1)
        td["action"], other["action"] = actions, actions
        stepped, td = quick.step_and_maybe_reset(td)
        slowly = slow.step(other)
        other = slow.maybe_reset(step_mdp(slowly))
        assert (stepped["next"] == slowly["next"]).all()
        assert torch.equal(td["observation"], other["observation"])
        assert not td["done"].any()


def test_a_partial_reset_starts_the_masked_envs_only():
    env = counter()
    td = env.reset()
    for _ in range(3):
        td["action"] = torch.zeros(4, dtype=torch.int64)
        _, td = env.step_and_maybe_reset(td)
    drawn = td["observation"][:, 1].clone()
    td["_reset"] = torch.tensor([[True], [False], [True], [False]])
    after = env.reset(td)["observation"]
    assert after[:, 0].tolist() == [0, 3, 0, 3]
    assert (after[:, 1] != drawn).tolist() == [True, False, True, False]


def test_an_episode_the_engine_began_already_is_not_skipped_by_its_reset():
    stock, direct = counter(length=2), counter(length=2)
    td = stock.reset()
    for _ in range(2):
        td["action"] = torch.zeros(4, dtype=torch.int64)
        td = stock.maybe_reset(step_mdp(stock.step(td)))
    drawn = direct.rollout(3, break_when_any_done=False)["observation"][:, 2, 1]
    assert torch.equal(td["observation"][:, 1], drawn)


def test_a_second_reset_without_a_step_between_begins_new_episodes():
    env = counter()
    assert not torch.equal(env.reset()["observation"][:, 1], env.reset()["observation"][:, 1])


def test_set_seed_decides_the_episodes():
    env = counter()
    env.set_seed(7)
    first = env.reset()["observation"].clone()
    env.reset()
    env.set_seed(7)
    assert torch.equal(env.reset()["observation"], first)


def test_what_a_policy_leaves_in_the_root_goes_on_to_the_next_one():
    env = counter()
    td = env.reset().set("hidden", torch.arange(4.0))
    td["action"] = torch.zeros(4, dtype=torch.int64)
    _, quick = env.step_and_maybe_reset(td.clone())
    stock = step_mdp(env.step(td.clone()), exclude_action=False)
    assert set(quick.keys()) == set(stock.keys())
    assert torch.equal(quick["hidden"], torch.arange(4.0))


def test_torchrl_transforms_work_on_top():
    env = TransformedEnv(counter(length=5), RewardSum()).append_transform(StepCounter())
    check_env_specs(env)
    rollout = env.rollout(12, break_when_any_done=False)
    assert rollout["next", "step_count"].max() == 5


def test_several_agents_have_an_axis_of_their_own():
    env = leanfast.make("tag", num_envs=3, seed=0)
    rollout = env.rollout(4, break_when_any_done=False)
    agents = env.source.agents
    assert rollout["action"].shape == (3, 4, agents)
    assert rollout["next", "reward"].shape == (3, 4, agents, 1)
    assert rollout["next", "done"].shape == (3, 4, 1)


def test_an_unknown_device_is_refused_in_words():
    with pytest.raises(ValueError, match="device must be cpu"):
        leanfast.make("cartpole", 2, device="cuda:7")


def test_writing_into_the_shared_not_done_flags_is_refused_or_noticed():
    env = counter()
    td = env.reset()
    with pytest.raises(RuntimeError, match="single memory location"):
        td["done"] |= torch.tensor([[True], [False], [False], [False]])
    td["done"].fill_(True)
    td["action"] = torch.zeros(4, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="written in place"):
        env.step_and_maybe_reset(td)
