"""DQN. Its state is one TensorDict; act() and update() are functions of tensors alone, which write
nothing but the state, in place."""

import math

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch.nn import functional

from leanfast import randomness
from leanfast.config import Algo

BETAS, EPS = (0.9, 0.999), 1e-8  # torch.optim.Adam's
SAMPLING, EXPLORING = 1, 2  # what the seed is used for


class DQN:
    """`network` maps "observation" to "action_value", one value for each action. From here on its
    weights are views of state["params"], so it always is the trained network."""

    def __init__(self, network: TensorDictModule, options: Algo, total_steps: int, seed: int):
        self.network, self.options, self.total_steps = network, options, total_steps
        named = list(network.named_parameters())
        self.names = [name for name, _ in named]
        self.shapes = [parameter.shape for _, parameter in named]
        self.sizes = [parameter.numel() for _, parameter in named]
        params = torch.cat([parameter.detach().flatten() for _, parameter in named])
        for (_, parameter), view in zip(named, self._views(params).values(), strict=True):
            parameter.requires_grad_(False).data = view

        def number(value: float, dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(value, dtype=dtype, device=params.device)

        self.state = TensorDict(
            {
                "params": params,
                "target": params.clone(),
                "exp_avg": torch.zeros_like(params),
                "exp_avg_sq": torch.zeros_like(params),
                "updates": number(0, torch.int64),
                "env_steps": number(0, torch.int64),
                "target_updates": number(0, torch.int64),
                "epsilon": number(options.epsilon.start, torch.float32),
                "learning_rate": number(options.learning_rate, torch.float32),
                "sampling_key": number(randomness.key(seed, SAMPLING), torch.int64),
                "exploring_key": number(randomness.key(seed, EXPLORING), torch.int64),
            }
        )

    def act(self, state: TensorDict, observation: torch.Tensor) -> torch.Tensor:
        """Epsilon-greedy actions, one for each env. Counts them as env steps, and moves epsilon and
        the learning rate on along their schedules."""
        values = self._values(state["params"], observation)  # [N, actions]
        count, actions = values.shape
        draws = randomness.bits(state["exploring_key"], state["env_steps"], 2 * count)
        explore = randomness.unit(draws[:count]) < state["epsilon"]
        chosen = torch.where(
            explore, randomness.integers(draws[count:], actions), values.argmax(-1)
        )
        now, options, epsilon = state["env_steps"] + count, self.options, self.options.epsilon
        rate, rate_end = options.learning_rate, options.learning_rate_end
        state["epsilon"].copy_(_linear(now, epsilon.steps, epsilon.start, epsilon.end))
        state["learning_rate"].copy_(_linear(now, self.total_steps, rate, rate_end))
        state["env_steps"].copy_(now)
        return chosen

    def greedy(self, observation: torch.Tensor) -> torch.Tensor:
        device = self.state["params"].device
        return self.network.module(observation.to(device)).argmax(-1).cpu()

    def update(self, state: TensorDict, batch: TensorDict) -> TensorDict:
        """One step of Adam on a batch of transitions, and of the target where one is due."""
        options = self.options
        target = self._target(state, batch)
        action = batch["action"].unsqueeze(-1)

        def loss_of(params: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            value = self._values(params, batch["observation"]).gather(-1, action).squeeze(-1)
            if options.loss == "huber":
                return functional.smooth_l1_loss(value, target), value
            return functional.mse_loss(value, target), value

        gradient, (loss, value) = torch.func.grad_and_value(loss_of, has_aux=True)(state["params"])
        norm = gradient.norm()
        if options.max_grad_norm is not None:
            gradient = gradient * (options.max_grad_norm / (norm + 1e-6)).clamp(max=1)
        params = self._adam(state, gradient)
        self._follow(state, params)
        state["params"].copy_(params)
        return TensorDict({"loss": loss, "action_value": value.mean(), "gradient_norm": norm})

    def _target(self, state: TensorDict, batch: TensorDict) -> torch.Tensor:
        """What the chosen actions' values should have been: [B]."""
        following = batch["next_observation"]
        values = self._values(state["target"], following)
        judge = self._values(state["params"], following) if self.options.double else values
        best = values.gather(-1, judge.argmax(-1, keepdim=True)).squeeze(-1)
        # A truncated episode would have gone on: only a terminated one is worth nothing more.
        return batch["reward"] + self.options.discount * best * ~batch["terminated"]

    def _adam(self, state: TensorDict, gradient: torch.Tensor) -> torch.Tensor:
        """The new parameters."""
        step = state["updates"] + 1
        mean = state["exp_avg"].lerp(gradient, 1 - BETAS[0])
        square = state["exp_avg_sq"].lerp(gradient.square(), 1 - BETAS[1])
        # 1 - beta^step, without the digits that it would lose at the first steps.
        mean_scale, square_scale = (-torch.expm1(step * math.log(beta)) for beta in BETAS)
        change = (mean / mean_scale) / ((square / square_scale).sqrt() + EPS)
        state["updates"].copy_(step)
        state["exp_avg"].copy_(mean)
        state["exp_avg_sq"].copy_(square)
        return state["params"] - state["learning_rate"] * change

    def _follow(self, state: TensorDict, params: torch.Tensor) -> None:
        """Moves the target network once in every `target_every` env steps."""
        now = state["env_steps"] // self.options.target_every
        due = now > state["target_updates"]
        moved = state["target"].lerp(params, self.options.tau)
        state["target"].copy_(torch.where(due, moved, state["target"]))
        state["target_updates"].copy_(now)

    def _values(self, params: torch.Tensor, observation: torch.Tensor) -> torch.Tensor:
        network = self.network.module
        return torch.func.functional_call(network, self._views(params), (observation,))

    def _views(self, params: torch.Tensor) -> dict[str, torch.Tensor]:
        parts = zip(self.names, params.split(self.sizes), self.shapes, strict=True)
        return {name.removeprefix("module."): part.view(shape) for name, part, shape in parts}


def _linear(now: torch.Tensor, steps: int, start: float, end: float) -> torch.Tensor:
    return start + (now / steps).clamp(max=1) * (end - start)
