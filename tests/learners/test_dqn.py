"""Updates, judged by TorchRL's DQNLoss with torch.optim.Adam and by what each option promises."""

import copy
import dataclasses
import itertools

import pytest
import torch
from tensordict import TensorDict

from leanfast.config import Algo, Epsilon
from leanfast.learners.dqn import DQN
from leanfast.networks import action_values

OPTIONS = Algo(
    name="dqn",
    batch_size=32,
    accumulate=1,
    optimizer="adam",
    weight_decay=0.0,
    learning_rate_schedule="linear",
    n_step=1,
    dueling=False,
    reward_scale=1.0,
    reward_clip=None,
    normalize_observations=False,
    learning_rate=1e-2,
    learning_rate_end=1e-2,
    discount=0.9,
    double=False,
    loss="mse",
    max_grad_norm=None,
    buffer_size=1000,
    learning_starts=0,
    updates_per_step=1.0,
    target_every=100,
    tau=1.0,
    epsilon=Epsilon(start=1.0, end=0.1, steps=1000, ladder=None),
)


def learner(seed=1, actions=3, **options):
    network = action_values((4,), [16, 8], actions, seed)
    made = DQN(network, dataclasses.replace(OPTIONS, **options), 1000, seed)
    made.state["target"].add_(torch.randn(len(made.state["target"]), generator=of(seed)) / 10)
    return made


def of(seed):
    return torch.Generator().manual_seed(seed)


def transitions(seed, count=32, actions=3):
    source = of(seed)
    return TensorDict(
        {
            "observation": torch.randn(count, 4, generator=source),
            "action": torch.randint(actions, (count,), generator=source),
            "next_observation": torch.randn(count, 4, generator=source),
            "reward": torch.randn(count, generator=source),
            "terminated": torch.rand(count, generator=source) < 0.3,
        },
        [count],
    )


def torchrl_updates(ours, batches):
    """The weights that TorchRL and torch.optim reach from the same start with the same batches."""
    from torchrl.modules import QValueActor
    from torchrl.objectives import DQNLoss

    options = ours.options
    network = copy.deepcopy(ours.network.module).requires_grad_(True)
    actor = QValueActor(network, in_keys=["observation"], action_space="categorical")
    loss = DQNLoss(
        actor,
        action_space="categorical",
        loss_function={"huber": "smooth_l1", "mse": "l2"}[options.loss],
        delay_value=True,
        double_dqn=options.double,
    )
    loss.make_value_estimator(gamma=options.discount)
    target = ours._views(ours.state["target"])
    theirs = loss.target_value_network_params["module", "0", "module"]
    for name, tensor in target.items():
        theirs[tuple(name.split("."))].data.copy_(tensor)
    optimizer = torch.optim.Adam(loss.parameters(), options.learning_rate)
    for batch in batches:
        terminated = batch["terminated"].unsqueeze(-1)
        following = {
            "observation": batch["next_observation"],
            "reward": batch["reward"].unsqueeze(-1),
            "done": terminated,
            "terminated": terminated,
        }
        data = TensorDict(
            {
                "observation": batch["observation"],
                "action": batch["action"],
                "next": TensorDict(following, batch.batch_size),
            },
            batch.batch_size,
        )
        optimizer.zero_grad()
        loss(data)["loss"].backward()
        if options.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(network.parameters(), options.max_grad_norm)
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


@pytest.mark.filterwarnings("ignore:No target network updater")
@pytest.mark.parametrize(
    ("double", "loss", "norm"),
    list(itertools.product([False, True], ["mse", "huber"], [None, 0.1])),
)
def test_updates_equal_torchrls_loss_with_torchs_adam(double, loss, norm):
    ours = learner(double=double, loss=loss, max_grad_norm=norm)
    batches = [transitions(seed) for seed in range(5)]
    expected = torchrl_updates(ours, batches)
    before = ours.state["params"].clone()
    for batch in batches:
        ours.update(ours.state, batch)
    torch.testing.assert_close(ours.state["params"], expected, atol=1e-5, rtol=0)
    assert (ours.state["params"] - before).abs().max() > 1e-2


def test_a_terminated_transition_is_worth_its_reward_alone():
    ours, batch = learner(), transitions(1)
    batch["terminated"].fill_(True)
    assert torch.equal(ours._target(ours.state, batch), batch["reward"])
    batch["terminated"].fill_(False)
    following = ours._values(ours.state["target"], batch["next_observation"]).amax(-1)
    torch.testing.assert_close(ours._target(ours.state, batch), batch["reward"] + 0.9 * following)


@pytest.mark.parametrize("tau", [1.0, 0.25])
def test_the_target_moves_by_tau_once_in_every_target_every_env_steps(tau):
    ours = learner(target_every=100, tau=tau)
    moved = []
    for env_steps in (40, 99, 100, 100, 150, 350, 399, 400):
        ours.state["env_steps"].fill_(env_steps)
        before = ours.state["target"].clone()
        ours.update(ours.state, transitions(env_steps))
        if not torch.equal(before, ours.state["target"]):
            moved.append(env_steps)
            expected = before + tau * (ours.state["params"] - before)
            torch.testing.assert_close(ours.state["target"], expected)
    assert moved == [100, 350, 400]


def test_the_learning_rate_is_read_from_the_state():
    slow, fast = learner(), learner()
    start = slow.state["params"].clone()
    fast.state["learning_rate"].mul_(2)
    for each in (slow, fast):
        each.update(each.state, transitions(1))
    steps = [each.state["params"] - start for each in (slow, fast)]
    torch.testing.assert_close(2 * steps[0], steps[1])


def test_metrics_are_tensors_without_dimensions():
    ours = learner()
    metrics = ours.update(ours.state, transitions(1))
    assert set(metrics.keys()) == {"loss", "action_value", "gradient_norm"}
    assert all(value.shape == () for value in metrics.values())


def test_the_network_is_the_state_and_keeps_its_own_names():
    ours = learner()
    batch = transitions(1)
    ours.update(ours.state, batch)
    values = ours._values(ours.state["params"], batch["observation"])
    assert torch.equal(ours.network(batch)["action_value"], values)
    assert "module.0.weight" in ours.network.state_dict()


def test_the_state_stays_at_its_addresses():
    ours = learner()
    before = {name: tensor.data_ptr() for name, tensor in ours.state.items()}
    ours.act(ours.state, torch.zeros(8, 4))
    ours.update(ours.state, transitions(1))
    assert {name: tensor.data_ptr() for name, tensor in ours.state.items()} == before


def test_epsilon_follows_its_schedule_by_env_steps_to_its_end():
    ours = learner(epsilon=Epsilon(start=1.0, end=0.1, steps=100, ladder=None))
    seen = []
    for _ in range(5):
        ours.act(ours.state, torch.zeros(30, 4))
        seen.append(float(ours.state["epsilon"]))
    assert seen == pytest.approx([0.73, 0.46, 0.19, 0.1, 0.1])


def test_the_learning_rate_falls_to_its_end_at_the_last_env_step():
    ours = learner(learning_rate=0.1, learning_rate_end=0.02)
    seen = []
    for _ in range(5):
        ours.act(ours.state, torch.zeros(250, 4))
        seen.append(float(ours.state["learning_rate"]))
    assert seen == pytest.approx([0.08, 0.06, 0.04, 0.02, 0.02])


def test_a_share_of_epsilon_of_the_actions_is_random_and_the_others_are_greedy():
    ours = learner()
    observation = torch.randn(1, 4, generator=of(1)).expand(20_000, 4)
    best = int(ours.greedy(observation[:1]))
    ours.state["epsilon"].fill_(0.6)
    shares = torch.bincount(ours.act(ours.state, observation), minlength=3) / 20_000
    expected = torch.full((3,), 0.2)
    expected[best] = 0.6
    torch.testing.assert_close(shares, expected, atol=0.015, rtol=0)


def test_two_calls_explore_differently_and_another_seed_differently_again():
    def actions(seed):
        ours = learner(seed)
        return [ours.act(ours.state, torch.zeros(64, 4)) for _ in range(2)]

    first, second = actions(1)
    assert not torch.equal(first, second)
    assert not torch.equal(first, actions(2)[0])
    assert torch.equal(first, actions(1)[0])
