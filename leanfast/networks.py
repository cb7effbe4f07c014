"""Networks as TensorDict modules: observation in, the value of each action out."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from tensordict.nn import TensorDictModule
from torch import nn


class MLP(nn.Sequential):
    """Takes observations of any shape and dtype, flattened."""

    def __init__(self, observation: Sequence[int], hidden: Sequence[int], outputs: int):
        self.axes = len(observation)
        inputs = 1
        for size in observation:
            inputs *= size
        layers: list[nn.Module] = []
        for before, after in pairwise([inputs, *hidden]):
            layers += [nn.Linear(before, after), nn.ReLU()]
        super().__init__(*layers, nn.Linear([inputs, *hidden][-1], outputs))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return super().forward(observation.flatten(-self.axes).to(torch.float32))


def action_values(
    observation: Sequence[int], hidden: Sequence[int], actions: int, seed: int
) -> TensorDictModule:
    """An MLP whose first weights depend on `seed` alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = MLP(observation, hidden, actions)
    return TensorDictModule(network, in_keys=["observation"], out_keys=["action_value"])
