"""Networks as TensorDict modules: observation in, the value of each action out."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from tensordict.nn import TensorDictModule
from torch import nn

from leanfast.config import Network

# (channels, kernel, stride): Nature's DQN, and for planes that are too small for it, MinAtar's.
NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
SMALL = ((16, 3, 1),)
NATURE_NEEDS = 36  # pixels each way


class Normalizer(nn.Module):
    """Observations with the mean and variance that the learner has seen so far taken out."""

    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self, shape: Sequence[int], limit: float = 10.0):
        super().__init__()
        self.limit = limit
        self.register_buffer("mean", torch.zeros(tuple(shape)))
        self.register_buffer("variance", torch.ones(tuple(shape)))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        scaled = (observation - self.mean) * (self.variance + 1e-8).rsqrt()
        return scaled.clamp(-self.limit, self.limit)


class DuelingHead(nn.Module):
    """A state's value plus each action's advantage over their mean."""

    def __init__(self, inputs: int, actions: int):
        super().__init__()
        self.value, self.advantage = nn.Linear(inputs, 1), nn.Linear(inputs, actions)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(-1, keepdim=True)


class ActionValues(nn.Module):
    """`normalize`, then `body`, then `head`. Takes observations [*batch, *shape] of any dtype."""

    def __init__(
        self, shape: Sequence[int], normalize: nn.Module, body: nn.Module, head: nn.Module
    ):
        super().__init__()
        self.shape = tuple(shape)
        self.normalize, self.body, self.head = normalize, body, head

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        batch = observation.shape[: observation.dim() - len(self.shape)]
        flat = observation.reshape(-1, *self.shape)
        if not flat.is_floating_point():
            flat = flat.to(torch.float32)
        values = self.head(self.body(self.normalize(flat)))
        return values.reshape(*batch, -1)


class Scale(nn.Module):
    """Whole numbers up to `highest` as numbers up to 1."""

    def __init__(self, highest: float):
        super().__init__()
        self.highest = highest

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / self.highest


class ChannelsFirst(nn.Module):
    """[B, height, width, channels] as convolutions take it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.permute(0, 3, 1, 2)


def action_values(
    observation: Sequence[int],
    actions: int,
    options: Network,
    seed: int,
    *,
    dueling: bool = False,
    normalize: bool = False,
    planes: bool = False,
    highest: float = 1.0,
) -> TensorDictModule:
    """A network whose first weights depend on `seed` alone. `planes`: observations are planes;
    `highest`: their values are whole numbers up to it."""
    fit = planes and not cannot_convolve(observation)
    convolve = options.type == "cnn" or (options.type == "auto" and fit)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body, width = _body(observation, options, convolve)
        head = DuelingHead(width, actions) if dueling else nn.Linear(width, actions)
    first: nn.Module = nn.Identity()
    if normalize:
        first = Normalizer(observation)
    elif highest != 1:
        first = Scale(highest)
    network = ActionValues(observation, first, body, head)
    return TensorDictModule(network, in_keys=["observation"], out_keys=["action_value"])


def channels_last(observation: Sequence[int]) -> bool:
    """Whether such planes are height x width x channels, as Gymnasium's images are. Nothing but
    their shape says so: grey, color, or color with transparency, and larger than that each way."""
    *_, height, width, channels = 0, 0, 0, *observation
    return len(observation) == 3 and channels <= 4 and channels < min(height, width)


def cannot_convolve(observation: Sequence[int]) -> str | None:
    """Why network.type=cnn does not go with such observations, if it does not."""
    size = observation[:2] if channels_last(observation) else observation[1:]
    if len(observation) == 3 and min(size) >= 3:
        return None
    return f"a cnn needs planes of 3x3 or more; observations are {tuple(observation)}"


def _body(
    observation: Sequence[int], options: Network, convolve: bool
) -> tuple[nn.Sequential, int]:
    layers: list[nn.Module] = []
    if convolve:
        channels, *size = observation
        if channels_last(observation):
            layers.append(ChannelsFirst())
            *size, channels = observation
        for outputs, kernel, stride in NATURE if min(size) >= NATURE_NEEDS else SMALL:
            layers += [nn.Conv2d(channels, outputs, kernel, stride), nn.ReLU()]
            channels, size = outputs, [(side - kernel) // stride + 1 for side in size]
        inputs = channels * math.prod(size)
    else:
        inputs = math.prod(observation)
    layers.append(nn.Flatten())
    widths = [inputs, *options.hidden]
    for before, after in pairwise(widths):
        norm = [nn.LayerNorm(after)] if options.layer_norm else []
        layers += [nn.Linear(before, after), *norm, nn.ReLU()]
    return nn.Sequential(*layers), widths[-1]
