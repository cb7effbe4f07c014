"""What the parity tests know of each environment: where it can be, and Gymnasium's names."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

NUDGES = (-1e-8, 0.0, 1e-8)  # around a threshold: nearer than a constant changed by a millionth


def pick(rng: np.random.Generator, n: int, low: float, high: float, *edges: float) -> np.ndarray:
    """Uniform values, but one in five on an edge or just beside it."""
    beside = rng.choice(edges or (low, high), n) + rng.choice(NUDGES, n)
    return np.where(rng.random(n) < 0.2, beside, rng.uniform(low, high, n))


def cartpole(rng, n):
    limit = 12 * 2 * math.pi / 360
    still = rng.random(n) < 0.3  # so that it is the position which meets the threshold
    x, theta = pick(rng, n, -2.6, 2.6, -2.4, 2.4), pick(rng, n, -0.3, 0.3, -limit, limit)
    x_dot, theta_dot = np.where(still, 0, rng.normal(0, 2, (2, n)))
    return np.stack([x, x_dot, theta, theta_dot], 1), rng.integers(0, 2, n)


def acrobot(rng, n, fastest=(10, 20)):  # episodes are slower than this 999 times in 1,000
    angles = [pick(rng, n, -math.pi, math.pi) for _ in range(2)]
    speeds = [rng.uniform(-fast, fast, n) for fast in fastest]
    return np.stack(angles + speeds, 1), rng.integers(0, 3, n)


def pendulum(rng, n):
    state = [pick(rng, n, -80, 80, -math.pi, 0, math.pi), pick(rng, n, -8, 8)]
    return np.stack(state, 1), pick(rng, n, -2, 2, 0)[:, None]


def mountain_car(goal, push, actions):
    def sample(rng, n):
        action = actions(rng, n)
        position, velocity = pick(rng, n, -1.2, 0.6), pick(rng, n, -0.07, 0.07)
        arriving = rng.random(n) < 0.33  # a step before the goal, with a speed around the least
        next_position, next_velocity = pick(rng, n, goal, 0.6, goal), pick(rng, n, -0.07, 0.07, 0)
        position = np.where(arriving, next_position - next_velocity, position)
        slope = 0.0025 * np.cos(3 * position)
        velocity = np.where(arriving, next_velocity - push(action.reshape(n)) + slope, velocity)
        return np.stack([position, velocity], 1), action

    return sample


@dataclass(frozen=True)
class Case:
    id: str
    module: str
    sample: Callable  # states and actions all over what is reachable, and around the thresholds
    pump: Callable  # a policy that ends episodes otherwise than random actions do
    reset: tuple[tuple[float, float], ...]
    attributes: dict[str, str]  # the parameters that Gymnasium has too, by its names
    float32: float  # twice the largest difference seen in one float32 step of 20,000
    ends: set[str]
    anew: int = 1000  # steps after which Gymnasium's episode goes on from our state


def same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def links(*names: str) -> dict[str, str]:
    return {name: name.upper() for name in names}


CAR = same("min_position", "max_position", "max_speed", "goal_position", "goal_velocity")
BOTH = {"terminated", "truncated"}
CASES = {
    "cartpole": Case(
        id="CartPole-v1",
        module="cartpole",
        sample=cartpole,
        pump=lambda o: o[:, 2] + o[:, 3] > 0,
        reset=((-0.05, 0.05),) * 4,
        attributes=same("gravity", "masscart", "masspole", "length", "force_mag", "tau"),
        float32=4e-7,
        ends=BOTH,
    ),
    "acrobot": Case(
        id="Acrobot-v1",
        module="acrobot",
        sample=acrobot,
        pump=lambda o: 1 - torch.sign(o[:, 4]),
        reset=((-0.1, 0.1),) * 4,
        attributes=same("dt")
        | links("link_length_1", "link_mass_1", "link_mass_2", "link_com_pos_1", "link_com_pos_2")
        | links("link_moi", "max_vel_1", "max_vel_2"),
        float32=5e-5,
        ends=BOTH,
    ),
    "pendulum": Case(
        id="Pendulum-v1",
        module="pendulum",
        sample=pendulum,
        pump=lambda o: torch.sign(o[:, 2:]),
        reset=((-math.pi, math.pi), (-1, 1)),
        attributes=same("max_speed", "max_torque", "dt")
        | {"gravity": "g", "mass": "m", "length": "l"},
        float32=8e-6,  # half the spacing of float32 at 80 radians, doubled
        ends={"truncated"},
    ),
    "mountaincar": Case(
        id="MountainCar-v0",
        module="mountain_car",
        sample=mountain_car(0.5, lambda a: (a - 1) * 0.001, lambda rng, n: rng.integers(0, 3, n)),
        pump=lambda o: 1 + torch.sign(o[:, 1]),
        reset=((-0.6, -0.4), (0, 0)),
        attributes=CAR | same("force", "gravity"),
        float32=2e-7,
        ends=BOTH,
    ),
    "mountaincar_continuous": Case(
        id="MountainCarContinuous-v0",
        module="continuous_mountain_car",
        sample=mountain_car(0.45, lambda a: a * 0.0015, lambda rng, n: rng.uniform(-1, 1, (n, 1))),
        pump=lambda o: torch.sign(o[:, 1:]),
        reset=((-0.6, -0.4), (0, 0)),
        attributes=CAR | same("power"),
        float32=2e-7,
        ends=BOTH,
    ),
}
