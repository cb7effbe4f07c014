import pytest
import torch
from dqn_cases import learner, rows, transitions

from leanfast.learners.faults import NEVER


def test_env_steps_count_envs_and_not_agents():
    ours = learner(agents=4)
    ours.observe(ours.state, rows(1, steps=3, lanes=8))
    assert int(ours.state["env_steps"]) == 6


def test_rewards_are_scaled_and_then_clipped():
    ours, taken = learner(reward_scale=3.0, reward_clip=1.5), rows(1)
    kept = ours.remembered(taken)
    assert torch.equal(kept["reward"], (taken["reward"] * 3).clamp(-1.5, 1.5))
    assert torch.equal(kept["observation"], taken["observation"])
    assert set(kept.keys()) == set(taken.keys())


def test_the_normalizer_has_the_mean_and_variance_of_all_that_was_observed():
    ours = learner(normalize_observations=True)
    seen = []
    for seed, steps in enumerate((1, 5, 2)):
        taken = rows(seed, steps=steps)
        taken["observation"].mul_(seed + 1).add_(seed)
        ours.observe(ours.state, taken)
        seen.append(taken["observation"].flatten(0, 1))
    variance, mean = torch.var_mean(torch.cat(seen), 0, correction=0)
    torch.testing.assert_close(ours.state["observation_mean"], mean)
    torch.testing.assert_close(ours.state["observation_variance"], variance)


def test_actions_and_updates_see_normalized_observations():
    ours, plain = learner(normalize_observations=True), learner()
    ours.state["observation_mean"].fill_(2.0)
    ours.state["observation_variance"].fill_(4.0)
    observation = torch.linspace(-3, 7, 32).view(8, 4)
    normalized = (observation - 2) / 2
    ours.state["epsilon"].zero_()
    plain.state["epsilon"].zero_()
    assert torch.equal(ours.act(ours.state, observation), plain.act(plain.state, normalized))
    batch = transitions(1)
    ours.update(ours.state, batch)
    for name in ("observation", "next_observation"):
        batch[name] = (batch[name] - 2) / 2
    plain.update(plain.state, batch)
    torch.testing.assert_close(ours.state["params"], plain.state["params"])


@pytest.mark.parametrize("name", ["observation", "next_observation", "reward"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_the_first_rows_with_a_number_that_is_not_finite_are_kept(name, value):
    ours = learner()
    ours.watch("rows", rows(0))
    ours.observe(ours.state, rows(1))
    assert int(ours.state["faulty_rows", "env_steps"]) == NEVER
    for seed in (2, 3):
        bad = rows(seed)
        bad[name].view(-1)[3] = value
        ours.observe(ours.state, bad)
        if seed == 2:
            first = bad
    fault = ours.state["faulty_rows"]
    assert int(fault["env_steps"]) == 8
    for key, kept in fault["batch"].items():
        torch.testing.assert_close(kept, first[key], equal_nan=True, rtol=0, atol=0)


def test_the_first_batch_whose_loss_is_not_finite_is_kept():
    ours = learner()
    ours.watch("batch", transitions(0))
    ours.update(ours.state, transitions(1))
    fault = ours.state["faulty_batch"]
    assert int(fault["updates"]) == NEVER
    bad = transitions(2)
    bad["reward"][5] = float("inf")
    ours.update(ours.state, bad)
    ours.update(ours.state, transitions(3))
    assert int(fault["updates"]) == 1
    for key, kept in fault["batch"].items():
        assert torch.equal(kept, bad[key])
