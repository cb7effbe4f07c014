"""An actor thread steps the envs with one of two CPU copies of the policy, while the learner, in
the main thread, refreshes the other and swaps the pointer.

Transitions cross in chunks of pipeline.chunk steps, in pinned memory: the actor fills one chunk
while the learner stores the other. Where algo.updates_per_step is null, neither waits for the
other's pace; where it is a number, the learner pays it exactly, chunk by chunk.
"""

from leanfast.envs.simulator import Simulator
from leanfast.pipelines.actor import Actor
from leanfast.pipelines.common import Training, outcome


def train(training: Training, envs: Simulator) -> None:
    device = training.learner.device
    store, learn = training.store(), training.learn()
    credit, owed = training.credit(), 0
    with Actor(training, envs) as actor:
        while training.goes_on:
            chunk = actor.chunk(wait=owed == 0)
            if chunk is not None:
                observation, action = chunk.step.observation.to(device), chunk.action.to(device)
                store(observation, action, *outcome(chunk.step, device))
                training.stepped(chunk.step)
                actor.give_back(chunk)
            owed = credit.due(training.journal.env_steps)
            for _ in range(owed):
                training.learned(learn())
                actor.refresh_policy()
