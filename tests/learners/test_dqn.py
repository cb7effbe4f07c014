"""Updates, judged by TorchRL's DQNLoss with torch's optimizers and by what each option promises."""

import copy
import itertools

import pytest
import torch
from dqn_cases import learner, transitions
from tensordict import TensorDict

from leanfast.config import Network


def torchrl_updates(ours, batches):
    """The weights that TorchRL and torch.optim reach from the same start with the same batches."""
    from torchrl.modules import QValueActor
    from torchrl.objectives import DQNLoss

    options = ours.options
    network = copy.deepcopy(ours.network.module).to(ours.state["params"].dtype).requires_grad_(True)
    actor = QValueActor(network, in_keys=["observation"], action_space="categorical")
    loss = DQNLoss(
        actor,
        action_space="categorical",
        loss_function={"huber": "smooth_l1", "mse": "l2"}[options.loss],
        delay_value=True,
        double_dqn=options.double,
    )
    loss.make_value_estimator(gamma=options.discount)
    theirs = loss.target_value_network_params["module", "0", "module"]
    for name, tensor in ours.policy.flat.views(ours.state["target"]).items():
        theirs[tuple(name.split("."))].data.copy_(tensor)
    optimizers = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    optimizer = optimizers[options.optimizer](
        loss.parameters(), options.learning_rate, weight_decay=options.weight_decay
    )
    for batch in batches:
        terminated = batch["terminated"].unsqueeze(-1)
        following = {
            "observation": batch["next_observation"],
            "reward": batch["reward"].unsqueeze(-1),
            "done": terminated,
            "terminated": terminated,
        }
        steps = (batch["discount"].log() / torch.tensor(options.discount).log()).round()
        data = TensorDict(
            {
                "observation": batch["observation"],
                "action": batch["action"],
                "steps_to_next_obs": steps.unsqueeze(-1),
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
    ("double", "dueling", "n_step", "loss"),
    list(itertools.product([False, True], [False, True], [1, 3], ["mse", "huber"])),
)
def test_updates_equal_torchrls_loss_with_torchs_adam(double, dueling, n_step, loss):
    ours = learner(double=double, dueling=dueling, n_step=n_step, loss=loss)
    batches = [transitions(seed, n_step=n_step) for seed in range(5)]
    expected = torchrl_updates(ours, batches)
    before = ours.state["params"].clone()
    for batch in batches:
        ours.update(ours.state, batch)
    torch.testing.assert_close(ours.state["params"], expected, atol=1e-5, rtol=0)
    assert (ours.state["params"] - before).abs().max() > 1e-2


@pytest.mark.filterwarnings("ignore:No target network updater")
@pytest.mark.parametrize(
    "options",
    [
        {"max_grad_norm": 0.1},
        {"optimizer": "adamw", "weight_decay": 0.1},
        {"optimizer": "adam", "weight_decay": 0.1},
        {"accumulate": 4},
    ],
    ids=str,
)
def test_updates_equal_torchs_with_each_option_of_the_optimizer(options):
    ours = learner(**options)
    batches = [transitions(seed) for seed in range(5)]
    expected = torchrl_updates(ours, batches)
    plain = learner()
    for batch in batches:
        ours.update(ours.state, batch)
        plain.update(plain.state, batch)
    torch.testing.assert_close(ours.state["params"], expected, atol=1e-5, rtol=0)
    if "accumulate" not in options:
        assert (ours.state["params"] - plain.state["params"]).abs().max() > 1e-4


@pytest.mark.parametrize(
    ("double", "dueling", "n_step"), list(itertools.product([False, True], [False, True], [1, 3]))
)
def test_one_update_equals_a_reference_in_float64(double, dueling, n_step):
    ours = learner(double=double, dueling=dueling, n_step=n_step)
    batch = transitions(1, n_step=n_step)
    expected = reference_update(ours, batch)
    ours.update(ours.state, batch)
    torch.testing.assert_close(ours.state["params"].double(), expected, atol=1e-5, rtol=0)


def reference_update(ours, batch):
    """One step written out with autograd, and the first step of Adam in closed form."""
    module = copy.deepcopy(ours.network.module).double()

    def values(params, observation):
        weights = ours.policy.flat.views(params)
        return torch.func.functional_call(module, weights, (observation.double(),))

    params = ours.state["params"].double().requires_grad_(True)
    target_params = ours.state["target"].double()
    following, rows = batch["next_observation"], torch.arange(len(batch["action"]))
    with torch.no_grad():
        worth = values(target_params, following)
        judge = values(params, following) if ours.options.double else worth
        best = worth[rows, judge.argmax(-1)]
        best[batch["terminated"]] = 0
        target = batch["reward"].double() + batch["discount"].double() * best
    taken = values(params, batch["observation"])[rows, batch["action"]]
    (gradient,) = torch.autograd.grad(((taken - target) ** 2).mean(), params)
    return (params - ours.options.learning_rate * gradient / (gradient.abs() + 1e-8)).detach()


def test_a_terminated_transition_is_worth_its_reward_alone():
    ours, batch = learner(), transitions(1)
    batch["terminated"].fill_(True)
    assert torch.equal(ours._target(ours.state, batch), batch["reward"])
    batch["terminated"].fill_(False)
    following = ours.policy.values(
        ours.state, ours.state["target"], batch["next_observation"]
    ).amax(-1)
    expected = batch["reward"] + batch["discount"] * following
    torch.testing.assert_close(ours._target(ours.state, batch), expected)


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


def test_the_target_follows_softly_at_each_update_where_target_every_is_0():
    ours = learner(target_every=0, tau=0.1)
    for seed in range(3):
        before = ours.state["target"].clone()
        ours.update(ours.state, transitions(seed))
        expected = before + 0.1 * (ours.state["params"] - before)
        torch.testing.assert_close(ours.state["target"], expected)


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


@pytest.mark.parametrize("normalize", [False, True])
def test_the_network_is_the_state_and_keeps_its_own_names(normalize):
    ours = learner(normalize_observations=normalize, network=Network("mlp", [16], True))
    batch = transitions(1)
    ours.update(ours.state, batch)
    if normalize:
        ours.state["observation_mean"].fill_(0.5)
    values = ours.policy.values(ours.state, ours.state["params"], batch["observation"])
    assert torch.equal(ours.network(batch)["action_value"], values)
    assert {"module.body.1.weight", "module.head.weight"} <= set(ours.network.state_dict())


def test_the_state_stays_at_its_addresses():
    ours = learner(normalize_observations=True, dueling=True)
    before = {name: tensor.data_ptr() for name, tensor in ours.state.items()}
    ours.act(ours.state, torch.zeros(8, 4))
    ours.update(ours.state, transitions(1))
    assert {name: tensor.data_ptr() for name, tensor in ours.state.items()} == before


def test_acting_writes_nothing():
    ours = learner()
    before = ours.state.clone()
    ours.act(ours.state, torch.zeros(8, 4))
    assert (before == ours.state).all()
