import pytest
import torch
from dqn_cases import learner, of, rows

from leanfast.config import Epsilon
from leanfast.learners.schedules import epsilons


def test_epsilon_follows_its_schedule_by_env_steps_to_its_end():
    ours = learner(epsilon=Epsilon(start=1.0, end=0.1, steps=100, ladder=None))
    seen = []
    for _ in range(5):
        ours.observe(ours.state, rows(1, lanes=30))
        seen.append(float(ours.state["epsilon"]))
    assert seen == pytest.approx([0.73, 0.46, 0.19, 0.1, 0.1])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("constant", [0.1] * 5),
        ("linear", [0.08, 0.06, 0.04, 0.02, 0.02]),
        ("cosine", [0.02 + 0.08 * x for x in (0.853553, 0.5, 0.146447, 0, 0)]),
    ],
)
def test_the_learning_rate_reaches_its_end_at_the_last_env_step(kind, expected):
    ours = learner(learning_rate=0.1, learning_rate_end=0.02, learning_rate_schedule=kind)
    seen = []
    for _ in range(5):
        ours.observe(ours.state, rows(1, lanes=250))
        seen.append(float(ours.state["learning_rate"]))
    assert seen == pytest.approx(expected)


def test_a_share_of_epsilon_of_the_actions_is_random_and_the_others_are_greedy():
    ours = learner()
    observation = torch.randn(1, 4, generator=of(1)).expand(20_000, 4)
    best = int(ours.greedy(observation[:1]))
    ours.state["epsilon"].fill_(0.6)
    shares = torch.bincount(ours.act(ours.state, observation), minlength=3) / 20_000
    expected = torch.full((3,), 0.2)
    expected[best] = 0.6
    torch.testing.assert_close(shares, expected, atol=0.015, rtol=0)


def test_on_a_ladder_envs_explore_less_and_less():
    ours = learner(epsilon=Epsilon(start=0.4, end=0.4, steps=1, ladder=7.0))
    observation = torch.randn(1, 4, generator=of(1)).expand(4, 4)
    best, others = int(ours.greedy(observation[:1])), torch.zeros(4)
    for step in range(4000):
        ours.state["env_steps"].fill_(step)
        others += ours.act(ours.state, observation) != best
    expected = torch.tensor([0.4 ** (1 + 7 * i / 3) * 2 / 3 for i in range(4)])
    torch.testing.assert_close(others / 4000, expected, atol=0.02, rtol=0)


def test_the_agents_of_an_env_stand_on_one_rung_of_the_ladder():
    options = Epsilon(start=1.0, end=1.0, steps=1, ladder=7.0)
    of_lanes = epsilons(torch.tensor(0.4), options, lanes=6, agents=2)
    of_envs = epsilons(torch.tensor(0.4), options, lanes=3)
    assert torch.equal(of_lanes, of_envs.repeat_interleave(2))


def test_two_steps_explore_differently_and_another_seed_differently_again():
    def actions(seed):
        ours, taken = learner(seed), []
        for _ in range(2):
            taken.append(ours.act(ours.state, torch.zeros(64, 4)))
            ours.policy.advance(ours.state, 64)
        return taken

    first, second = actions(1)
    assert not torch.equal(first, second)
    assert not torch.equal(first, actions(2)[0])
    assert torch.equal(first, actions(1)[0])


def test_a_random_action_is_kept_for_as_many_steps_as_asked():
    ours = learner(agents=2, epsilon=Epsilon(start=1.0, end=1.0, steps=1, ladder=None, hold=3))
    taken = []
    for _ in range(9):
        taken.append(ours.act(ours.state, torch.zeros(64, 4)))
        ours.policy.advance(ours.state, 32)
    runs = [taken[i : i + 3] for i in range(0, 9, 3)]
    assert all(torch.equal(first, other) for first, *others in runs for other in others)
    assert not torch.equal(taken[0], taken[3])
    assert not torch.equal(taken[3], taken[6])
