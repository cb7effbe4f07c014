"""DQN. Its state is one TensorDict; act(), observe() and update() are functions of tensors alone,
which write nothing but the state, in place."""

import contextlib

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch.nn import functional

from leanfast import randomness
from leanfast.config import Algo
from leanfast.learners import faults, optimizer
from leanfast.learners.flat import Flat
from leanfast.learners.schedules import epsilons, scheduled

SAMPLING, EXPLORING = 1, 2  # what the seed is used for
AUTOCAST = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
# What act() reads: a copy of these is a copy of the policy.
POLICY = ("params", "observation_mean", "observation_variance", "epsilon", "exploring_key")

Rows = dict[str, torch.Tensor]


class DQN:
    """`network` maps "observation" to "action_value", one value for each action. From here on its
    weights are views of state["params"], so it always is the trained network.

    A lane is one agent of one env: the `agents` of an env share the network, side by side in the
    batch. Env steps count envs."""

    def __init__(
        self,
        network: TensorDictModule,
        options: Algo,
        *,
        total_steps: int,
        seed: int,
        agents: int = 1,
        precision: str = "fp32",
    ):
        self.network, self.options, self.total_steps = network, options, total_steps
        self.agents, self.dtype = agents, AUTOCAST[precision]
        self.flat = Flat(network.module)
        params = self.flat.params
        self.device = params.device

        def number(value: float, dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(value, dtype=dtype, device=params.device)

        self.state = TensorDict(
            {
                "params": params,
                "target": params.clone(),
                "updates": number(0, torch.int64),
                "env_steps": number(0, torch.int64),
                "target_updates": number(0, torch.int64),
                "epsilon": number(options.epsilon.start, torch.float32),
                "learning_rate": number(options.learning_rate, torch.float32),
                "sampling_key": number(randomness.key(seed, SAMPLING), torch.int64),
                "exploring_key": number(randomness.key(seed, EXPLORING), torch.int64),
                **optimizer.state_of(params, scaled=precision == "fp16"),
            }
        )
        self.normalizer = {}
        for name, buffer in self.flat.module.named_buffers():
            key = f"observation_{name.rpartition('.')[2]}"
            self.normalizer[name], self.state[key] = key, buffer
        if self.normalizer:
            self.state["observations"] = number(0, torch.float32)

    def watch(self, name: str, example: TensorDict) -> None:
        """Keeps the first "rows" given to observe(), or the first "batch" given to update(), with
        a number that is not finite; they are like `example`."""
        self.state[f"faulty_{name}"] = faults.place(example)

    def act(self, state: TensorDict, observation: torch.Tensor) -> torch.Tensor:
        """Epsilon-greedy actions, one for each lane. Reads POLICY and "env_steps" alone."""
        values = self._values(state, state["params"], observation)  # [lanes, actions]
        lanes, actions = values.shape
        draws = randomness.bits(state["exploring_key"], state["env_steps"], 2 * lanes)
        epsilon = epsilons(state["epsilon"], self.options.epsilon, lanes)
        explore = randomness.unit(draws[:lanes]) < epsilon
        random = randomness.integers(draws[lanes:], actions)
        return torch.where(explore, random, values.argmax(-1))

    def advance(self, state: TensorDict, env_steps: int) -> None:
        """Counts env steps, and moves epsilon on along its schedule."""
        epsilon, now = self.options.epsilon, state["env_steps"] + env_steps
        state["env_steps"].copy_(now)
        state["epsilon"].copy_(scheduled("linear", now, epsilon.steps, epsilon.start, epsilon.end))

    def observe(self, state: TensorDict, rows: TensorDict) -> TensorDict:
        """What to remember of `rows` [steps, lanes] of transitions, which it counts."""
        steps, lanes = rows.batch_size
        options = self.options
        if "faulty_rows" in state.keys():  # noqa: SIM118
            parts = [rows[name] for name in ("observation", "next_observation", "reward")]
            faults.keep(state["faulty_rows"], rows, faults.any_not_finite(*parts), state)
        self.advance(state, steps * (lanes // self.agents))
        if self.normalizer:
            self._normalize(state, rows["observation"].flatten(0, 1))
        kind, rate, rate_end = (
            options.learning_rate_schedule,
            options.learning_rate,
            options.learning_rate_end,
        )
        if kind != "constant":
            now = scheduled(kind, state["env_steps"], self.total_steps, rate, rate_end)
            state["learning_rate"].copy_(now)
        reward = rows["reward"] * options.reward_scale
        if options.reward_clip is not None:
            reward = reward.clamp(-options.reward_clip, options.reward_clip)
        return TensorDict({**rows, "reward": reward}, rows.batch_size)

    def greedy(self, observation: torch.Tensor) -> torch.Tensor:
        return self.network.module(observation.to(self.device)).argmax(-1).cpu()

    def update(self, state: TensorDict, batch: TensorDict) -> TensorDict:
        """One step of the optimizer on a batch of transitions, and of the target where it is due.

        "reward" is an n-step return, and "discount" what the value after it is worth."""
        options = self.options
        gradient, loss, value = self._gradient(state, batch)
        norm = gradient.norm()
        if options.max_grad_norm is not None:
            gradient = gradient * (options.max_grad_norm / (norm + 1e-6)).clamp(max=1)
        if "faulty_batch" in state.keys():  # noqa: SIM118
            faults.keep(state["faulty_batch"], batch, ~loss.isfinite(), state)
        params = optimizer.step(
            state, gradient, decay=options.weight_decay, decoupled=options.optimizer == "adamw"
        )
        self._follow(state, params)
        state["params"].copy_(params)
        state["updates"].copy_(state["updates"] + 1)
        return TensorDict({"loss": loss, "action_value": value, "gradient_norm": norm})

    def _gradient(
        self, state: TensorDict, batch: TensorDict
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Of the loss over the batch, taken `accumulate` parts one after the other; with the loss
        and the mean value of the actions taken."""
        scale = state["loss_scale"] if "loss_scale" in state.keys() else None  # noqa: SIM118
        loss_of = functional.smooth_l1_loss if self.options.loss == "huber" else functional.mse_loss
        parts = self.options.accumulate
        sums: tuple[torch.Tensor, ...] = ()
        size = batch.batch_size[0] // parts
        for index in range(parts):
            rows = {name: x[index * size : (index + 1) * size] for name, x in batch.items()}
            target = self._target(state, rows)

            def scaled_loss(
                params: torch.Tensor, rows: Rows = rows, target: torch.Tensor = target
            ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
                values = self._values(state, params, rows["observation"])
                value = values.gather(-1, rows["action"].unsqueeze(-1)).squeeze(-1)
                loss = loss_of(value, target)
                return loss if scale is None else loss * scale, (loss, value.mean())

            gradient, (loss, value) = torch.func.grad(scaled_loss, has_aux=True)(state["params"])
            terms = (gradient if scale is None else gradient / scale, loss, value)
            sums = tuple(map(torch.add, sums, terms)) if sums else terms
        gradient, loss, value = (total / parts for total in sums)
        return gradient, loss, value

    def _target(self, state: TensorDict, rows: Rows) -> torch.Tensor:
        """What the chosen actions' values should have been: [B]."""
        following = rows["next_observation"]
        values = self._values(state, state["target"], following)
        judge = self._values(state, state["params"], following) if self.options.double else values
        best = values.gather(-1, judge.argmax(-1, keepdim=True)).squeeze(-1)
        # A truncated episode would have gone on: only a terminated one is worth nothing more.
        return rows["reward"] + rows["discount"] * best * ~rows["terminated"]

    def _follow(self, state: TensorDict, params: torch.Tensor) -> None:
        """Moves the target network once in every `target_every` env steps, or at each update."""
        every = self.options.target_every
        moved = state["target"].lerp(params, self.options.tau)
        if every:
            now = state["env_steps"] // every
            moved = torch.where(now > state["target_updates"], moved, state["target"])
            state["target_updates"].copy_(now)
        state["target"].copy_(moved)

    def _normalize(self, state: TensorDict, observation: torch.Tensor) -> None:
        """Takes more observations into the mean and variance of all (Chan's formula)."""
        seen = observation.to(torch.float32)
        variance, mean = torch.var_mean(seen, 0, correction=0)
        count = len(seen)
        share = count / (state["observations"] + count)
        off = mean - state["observation_mean"]
        before = state["observation_variance"]
        state["observation_variance"].copy_(
            before + share * (variance - before) + share * (1 - share) * off.square()
        )
        state["observation_mean"].add_(share * off)
        state["observations"].add_(count)

    def _values(
        self, state: TensorDict, params: torch.Tensor, observation: torch.Tensor
    ) -> torch.Tensor:
        tensors = self.flat.views(params)
        tensors |= {name: state[key] for name, key in self.normalizer.items()}
        with self._precision():
            values = torch.func.functional_call(self.network.module, tensors, (observation,))
        return values.to(torch.float32)

    def _precision(self) -> contextlib.AbstractContextManager:
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.dtype)
