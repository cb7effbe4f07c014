"""How a DQN acts: a function of its state, or of a copy of the part of it that POLICY names."""

import contextlib
import copy

import torch
from tensordict import TensorDict
from torch import nn

from leanfast import randomness
from leanfast.config import Epsilon
from leanfast.learners.flat import Flat
from leanfast.learners.schedules import epsilons, scheduled

POLICY = ("params", "observation_mean", "observation_variance")  # what training changes of it
AUTOCAST = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class Policy:
    def __init__(self, module: nn.Module, epsilon: Epsilon, agents: int, precision: str):
        self.flat, self.epsilon, self.agents = Flat(module), epsilon, agents
        self.dtype = AUTOCAST[precision]
        self.normalizer = {
            name: f"observation_{name.rpartition('.')[2]}" for name, _ in module.named_buffers()
        }

    def values(
        self, state: TensorDict, params: torch.Tensor, observation: torch.Tensor
    ) -> torch.Tensor:
        tensors = self.flat.views(params)
        tensors |= {name: state[key] for name, key in self.normalizer.items()}
        with self._precision(observation.device):
            values = torch.func.functional_call(self.flat.module, tensors, (observation,))
        return values.to(torch.float32)

    def act(self, state: TensorDict, observation: torch.Tensor) -> torch.Tensor:
        """Epsilon-greedy actions, one for each lane; writes nothing."""
        values = self.values(state, state["params"], observation)  # [lanes, actions]
        lanes, actions = values.shape
        # The same draws for epsilon.hold steps: who explores keeps its random action for so long.
        held = state["env_steps"] // (self.epsilon.hold * (lanes // self.agents))
        draws = randomness.bits(state["exploring_key"], held, 2 * lanes)
        epsilon = epsilons(state["epsilon"], self.epsilon, lanes, self.agents)
        explore = randomness.unit(draws[:lanes]) < epsilon
        random = randomness.integers(draws[lanes:], actions)
        return torch.where(explore, random, values.argmax(-1))

    def advance(self, state: TensorDict, env_steps: int) -> None:
        """Counts env steps, and moves epsilon on along its schedule."""
        epsilon, now = self.epsilon, state["env_steps"] + env_steps
        state["env_steps"].copy_(now)
        state["epsilon"].copy_(scheduled("linear", now, epsilon.steps, epsilon.start, epsilon.end))

    def for_another_thread(self) -> "Policy":
        """torch.func.functional_call lends a module its weights, to one thread at a time."""
        other = copy.copy(self)
        other.flat = copy.copy(self.flat)
        other.flat.module = copy.deepcopy(self.flat.module)
        return other

    def _precision(self, device: torch.device) -> contextlib.AbstractContextManager:
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(device.type, self.dtype, cache_enabled=False)
