"""The same DQN update as others write it: nn.Module, autograd and torch.optim.Adam.

`LeanRL` has the structure of leanrl/dqn_torchcompile.py (github.com/pytorch-labs/LeanRL), written
anew: a detached TensorDict of the parameters, a target network whose weights are another, and the
whole of the update, optimizer included, under torch.compile.
"""

import copy

import torch
from tensordict import TensorDict, from_module
from tensordict.nn import CudaGraphModule
from torch import nn
from torch.nn import functional


class Plain:
    """The textbook's update. `update(batch)`; follow() moves the target to the network."""

    def __init__(self, network: nn.Module, rate: float, discount: float, fused: bool = False):
        self.network = copy.deepcopy(network).requires_grad_(True)
        self.target = copy.deepcopy(network).requires_grad_(False)
        self.discount = discount
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=rate, fused=fused)

    def update(self, batch: TensorDict) -> torch.Tensor:
        with torch.no_grad():
            best = self.target(batch["next_observation"]).amax(1)
            wanted = batch["reward"] + self.discount * best * ~batch["terminated"]
        values = self.network(batch["observation"])
        value = values.gather(1, batch["action"].unsqueeze(1)).squeeze(1)
        loss = functional.mse_loss(value, wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def follow(self) -> None:
        self.target.load_state_dict(self.network.state_dict())

    def weights(self) -> torch.Tensor:
        return torch.cat([one.detach().flatten() for one in self.network.parameters()]).cpu()


class LeanRL(Plain):
    """`graphs` counts what torch.compile made of it."""

    def __init__(self, network: nn.Module, rate: float, discount: float, mode: str):
        super().__init__(network, rate, discount)
        capturable = mode == "cudagraph"  # compiled, it is capturable by itself
        parameters = self.network.parameters()
        self.optimizer = torch.optim.Adam(parameters, lr=rate, capturable=capturable)
        self.detached = from_module(self.network).detach()
        self.target_weights = self.detached.clone().lock_()
        self.target_weights.to_module(self.target)
        self.graphs = 0
        if mode in ("compile", "combined"):
            self.update = torch.compile(self.update, backend=self._counting)  # type: ignore[method-assign]
        if mode in ("cudagraph", "combined"):
            self.update = CudaGraphModule(self.update)  # type: ignore[method-assign]

    def follow(self) -> None:
        self.target_weights.lerp_(self.detached, 1.0)

    def _counting(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        self.graphs += 1
        return torch._dynamo.lookup_backend("inductor")(graph, inputs)


def plain_network(observation: int, hidden: list[int], actions: int) -> nn.Sequential:
    """What others write for such a network; its parameters come in the order of leanfast's."""
    layers: list[nn.Module] = []
    before = observation
    for width in hidden:
        layers += [nn.Linear(before, width), nn.ReLU()]
        before = width
    return nn.Sequential(*layers, nn.Linear(before, actions))


def load_flat(network: nn.Module, weights: torch.Tensor) -> nn.Module:
    at = 0
    for parameter in network.parameters():
        count = parameter.numel()
        parameter.data = weights[at : at + count].view_as(parameter).clone()
        at += count
    return network
