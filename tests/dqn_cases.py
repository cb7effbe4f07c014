"""Small learners and made-up transitions, for tests of the learner and of what runs it."""

import dataclasses

import torch
from tensordict import TensorDict

from leanfast.config import Algo, Epsilon, Network
from leanfast.learners.dqn import DQN
from leanfast.networks import action_values

OPTIONS = Algo(
    name="dqn",
    batch_size=32,
    accumulate=1,
    optimizer="adam",
    weight_decay=0.0,
    learning_rate=1e-2,
    learning_rate_end=1e-2,
    learning_rate_schedule="linear",
    discount=0.9,
    n_step=1,
    double=False,
    dueling=False,
    loss="mse",
    max_grad_norm=None,
    reward_scale=1.0,
    reward_clip=None,
    normalize_observations=False,
    buffer_size=1000,
    learning_starts=0,
    updates_per_step=1.0,
    target_every=100,
    tau=1.0,
    epsilon=Epsilon(start=1.0, end=0.1, steps=1000, ladder=None),
)
NETWORK = Network(type="mlp", hidden=[16, 8], layer_norm=False)


def of(seed):
    return torch.Generator().manual_seed(seed)


def learner(
    seed=1, actions=3, *, precision="fp32", agents=1, network=NETWORK, device="cpu", **options
):
    options = dataclasses.replace(OPTIONS, **options)
    module = action_values(
        (4,),
        actions,
        network,
        seed,
        dueling=options.dueling,
        normalize=options.normalize_observations,
    )
    module = module.to(device)
    made = DQN(module, options, total_steps=1000, seed=seed, agents=agents, precision=precision)
    noise = torch.randn(len(made.state["target"]), generator=of(seed)) / 10
    made.state["target"].add_(noise.to(device))
    return made


def transitions(seed, count=32, actions=3, n_step=1, discount=0.9):
    """A batch as the replay gives it: episodes end within an n-step return here and there."""
    source = of(seed)
    steps = torch.randint(1, n_step + 1, (count,), generator=source)
    return TensorDict(
        {
            "observation": torch.randn(count, 4, generator=source),
            "action": torch.randint(actions, (count,), generator=source),
            "next_observation": torch.randn(count, 4, generator=source),
            "reward": torch.randn(count, generator=source),
            "terminated": torch.rand(count, generator=source) < 0.3,
            "discount": discount ** steps.to(torch.float32),
        },
        [count],
    )


def rows(seed, steps=1, lanes=8, actions=3):
    """Transitions as a pipeline stores them."""
    source = of(seed)
    ends = torch.rand(steps, lanes, generator=source)
    return TensorDict(
        {
            "observation": torch.randn(steps, lanes, 4, generator=source),
            "action": torch.randint(actions, (steps, lanes), generator=source),
            "next_observation": torch.randn(steps, lanes, 4, generator=source),
            "reward": torch.randn(steps, lanes, generator=source),
            "terminated": ends < 0.1,
            "truncated": ends > 0.9,
        },
        [steps, lanes],
    )
