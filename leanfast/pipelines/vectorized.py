"""All envs step on the simulator's own threads while the learner trains.

The engine writes one of its two buffers; the other one still holds what the envs showed before.
With CUDA, actions.cpu() waits for all copies out of both, which only the next send() overwrites.
"""

from leanfast.envs.simulator import Simulator
from leanfast.pipelines.common import Training, outcome


def train(training: Training, envs: Simulator) -> None:
    device = training.learner.device
    act, store, learn = training.act(), training.store(), training.learn()
    credit = training.credit()
    shown = envs.reset(training.config.seed)
    while training.goes_on:
        observation = shown.observation.to(device, non_blocking=True)
        actions = act(observation)
        envs.send(actions.cpu())
        for _ in range(credit.due(training.env_steps + envs.num_envs)):
            training.learned(learn())
        shown = envs.recv()
        store(observation, actions, *outcome(shown, device))
        training.stepped(shown)
        training.report()
