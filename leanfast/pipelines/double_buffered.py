"""An actor thread steps the envs with one of two CPU copies of the policy, while the learner, in
the main thread, refreshes the other and swaps the pointer.

Transitions cross in chunks of pipeline.chunk steps: the actor fills one while the learner stores
the other. Where algo.updates_per_step is null, neither waits for the other's pace; where it is a
number, the learner pays it exactly, chunk by chunk.
"""

from collections.abc import Iterable

from leanfast.envs.simulator import Simulator
from leanfast.pipelines.actor import Actor
from leanfast.pipelines.common import Training


def train(training: Training, envs: Simulator) -> None:
    store, learn = training.store(), training.learn()
    credit = training.credit()

    def turns(actor: Actor) -> Iterable[object]:
        if training.config.algo.updates_per_step is not None:
            return range(credit.due(training.env_steps))
        begun = training.env_steps > training.starts
        return actor.until_the_next_chunk() if begun and training.goes_on else ()

    with Actor(training, envs) as actor:
        while training.goes_on:
            chunk = actor.next_chunk()
            store(*chunk.on(training.learner.device))
            training.stepped(chunk.step)
            actor.give_back(chunk)
            for _ in turns(actor):
                training.learned(learn())
                actor.refresh_policy()
            training.report()
