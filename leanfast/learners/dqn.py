"""DQN. Its state is one TensorDict; act(), observe() and update() are functions of tensors alone,
which write nothing but the state, in place."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch.nn import functional

from leanfast import randomness
from leanfast.config import Algo
from leanfast.fusion import once
from leanfast.learners import faults, optimizer
from leanfast.learners.policy import Policy
from leanfast.learners.schedules import scheduled

SAMPLING, EXPLORING = 1, 2  # what the seed is used for

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
        self.agents = agents
        self.policy = Policy(network.module, options.epsilon, agents, precision)
        params = self.policy.flat.params
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
        for name, key in self.policy.normalizer.items():
            self.state[key] = network.module.get_buffer(name)
        if self.policy.normalizer:
            self.state["observations"] = number(0, torch.float32)

    def watch(self, name: str, example: TensorDict) -> None:
        """Keeps the first "rows" given to observe(), or the first "batch" given to update(), with
        a number that is not finite; they are like `example`."""
        self.state[f"faulty_{name}"] = faults.place(example, self.device)

    def act(self, state: TensorDict, observation: torch.Tensor) -> torch.Tensor:
        """Epsilon-greedy actions, one for each lane; writes nothing."""
        return self.policy.act(state, observation)

    def observe(self, state: TensorDict, rows: TensorDict) -> None:
        """Counts `rows` [steps, lanes] of transitions: moves the schedules on, and normalizes by
        them too from now on."""
        steps, lanes = rows.batch_size
        if "faulty_rows" in state.keys():  # noqa: SIM118
            parts = [rows[name] for name in ("observation", "next_observation", "reward")]
            faults.keep(state["faulty_rows"], rows, faults.any_not_finite(*parts), state)
        self.policy.advance(state, steps * (lanes // self.agents))
        if self.policy.normalizer:
            self._normalize(state, rows["observation"].flatten(0, 1))
        options = self.options
        kind, start, end = (
            options.learning_rate_schedule,
            options.learning_rate,
            options.learning_rate_end,
        )
        if kind != "constant":
            rate = scheduled(kind, state["env_steps"], self.total_steps, start, end)
            state["learning_rate"].copy_(rate)

    def remembered(self, rows: TensorDict) -> TensorDict:
        """What the replay keeps: rewards are scaled, then clipped."""
        reward, clip = rows["reward"] * self.options.reward_scale, self.options.reward_clip
        if clip is not None:
            reward = reward.clamp(-clip, clip)
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
                values = self.policy.values(state, params, rows["observation"])
                value = values.gather(-1, rows["action"].unsqueeze(-1)).squeeze(-1)
                loss = loss_of(value, target)
                return loss if scale is None else loss * scale, (loss, value.mean())

            gradient, (loss, value) = torch.func.grad(scaled_loss, has_aux=True)(state["params"])
            terms = (gradient if scale is None else gradient / scale, loss, value)
            sums = tuple(map(torch.add, sums, terms)) if sums else terms
        gradient, loss, value = (total / parts for total in sums) if parts > 1 else sums
        return gradient, loss, value

    def _target(self, state: TensorDict, rows: Rows) -> torch.Tensor:
        """What the chosen actions' values should have been: [B]."""
        following = rows["next_observation"]
        values = self.policy.values(state, state["target"], following)
        judge = (
            self.policy.values(state, state["params"], following) if self.options.double else values
        )
        best = values.gather(-1, judge.argmax(-1, keepdim=True)).squeeze(-1)
        # A truncated episode would have gone on: only a terminated one is worth nothing more.
        return rows["reward"] + rows["discount"] * best * ~rows["terminated"]

    def _follow(self, state: TensorDict, params: torch.Tensor) -> None:
        """Moves the target network once in every `target_every` env steps, or at each update."""
        every = self.options.target_every
        moved = state["target"].lerp(params, self.options.tau)
        if every:
            now = state["env_steps"] // every
            due = once(now > state["target_updates"])
            moved = torch.where(due, moved, state["target"])
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
