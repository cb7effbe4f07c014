"""The whole buffer as plain lists: slow, and plain to see."""

import random

import torch
from tensordict import TensorDict


class Lane:
    """One lane's whole history; an observation is a number that no other one has."""

    def __init__(self, index, lanes, limit, rng):
        self.index, self.lanes, self.limit, self.rng = index, lanes, limit, rng
        self.shown, self.age, self.rows = self._number(0), 0, []

    def _number(self, n):
        return n * self.lanes + self.index

    def step(self):
        rng, time = self.rng, len(self.rows)
        self.age += 1
        terminated = rng.random() < 0.2
        truncated = rng.random() < 0.2 if self.limit is None else self.age == self.limit
        truncated = truncated and not terminated
        row = {
            "observation": self.shown,
            "action": rng.randrange(5),
            "reward": rng.uniform(-1, 1),
            "next_observation": self._number(2 * time + 1),
            "terminated": terminated,
            "truncated": truncated,
        }
        if terminated or truncated:
            self.age, self.shown = 0, self._number(2 * time + 2)
        else:
            self.shown = row["next_observation"]
        self.rows.append(row)
        return row


class Reference:
    """A ring's worth of lanes, their rows as tensors, and every transition that may be drawn."""

    def __init__(self, ring, seed):
        self.ring, rng = ring, random.Random(seed)
        self.lanes = [Lane(i, ring.lanes, ring.episode_limit, rng) for i in range(ring.lanes)]

    def rows(self, count):
        steps = [[lane.step() for lane in self.lanes] for _ in range(count)]
        fields = {name: torch.tensor([[r[name] for r in s] for s in steps]) for name in steps[0][0]}
        for name in ("observation", "next_observation"):
            fields[name] = as_observation(fields[name], self.ring.observation_dtype)
        return TensorDict(fields, [count, self.ring.lanes])

    def transitions(self):
        """By the observation they begin with."""
        found = {}
        for lane in self.lanes:
            held = lane.rows[-self.ring.steps :]
            for first in range(max(1, len(held) - self.ring.n_step + 1)):
                found[held[first]["observation"]] = self._transition(held, first)
        return found

    def _transition(self, held, first):
        reward, discount = 0.0, 1.0
        for row in held[first : first + self.ring.n_step]:
            reward += discount * row["reward"]
            discount *= self.ring.discount
            if row["terminated"] or row["truncated"]:
                break
        following = None if row["terminated"] else row["next_observation"]
        return held[first]["action"], reward, following, row["terminated"], discount


def as_observation(numbers, dtype):
    """[..., 1, 2]: a number as two digits that every dtype holds."""
    return torch.stack([numbers // 256, numbers % 256], -1).to(dtype).unsqueeze(-2)


def as_number(observation):
    digits = observation.squeeze(-2).long()
    return (digits[..., 0] * 256 + digits[..., 1]).tolist()
