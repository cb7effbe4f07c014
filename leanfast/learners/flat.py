"""A module's weights as one vector: one compiled graph then updates them all."""

import torch
from torch import nn


class Flat:
    """`params` holds the weights of `module` from here on: they are views of it, so the module
    always is what the vector says, and keeps its own names."""

    def __init__(self, module: nn.Module):
        self.module = module
        named = list(module.named_parameters())
        self.names = [name for name, _ in named]
        self.shapes = [parameter.shape for _, parameter in named]
        self.sizes = [parameter.numel() for _, parameter in named]
        self.params = torch.cat([parameter.detach().flatten() for _, parameter in named])
        for (_, parameter), view in zip(named, self.views(self.params).values(), strict=True):
            parameter.requires_grad_(False).data = view

    def views(self, params: torch.Tensor) -> dict[str, torch.Tensor]:
        parts = zip(self.names, params.split(self.sizes), self.shapes, strict=True)
        return {name: part.view(shape) for name, part, shape in parts}
