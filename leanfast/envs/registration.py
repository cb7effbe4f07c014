"""Tells Gymnasium about the built-in environments: `import leanfast` calls register().

Gymnasium has no plugins since 1.0: without that import, name the module in the id, as in
`gymnasium.make_vec("leanfast:leanfast/CartPole-v1", num_envs=768)`.
"""

NAMESPACE = "leanfast"
# Names and time limits, written out so that no compiled code is loaded to know them; a test holds
# them against the headers.
TIME_LIMITS = {
    "Acrobot-v1": 500,
    "CartPole-v1": 500,
    "MountainCar-v0": 200,
    "MountainCarContinuous-v0": 999,
    "Pendulum-v1": 200,
    "Snake-v1": 10_000,
    "Tag-v1": 200,
}


def register() -> None:
    """A second call does nothing."""
    from gymnasium.envs.registration import register as add
    from gymnasium.envs.registration import registry

    for name, limit in TIME_LIMITS.items():
        full = f"{NAMESPACE}/{name}"
        if full in registry:
            continue
        theirs = registry.get(name)  # Gymnasium's environment of the same definition
        add(
            full,
            entry_point="leanfast.envs.vector:NativeEnv",
            vector_entry_point="leanfast.envs.vector:NativeVectorEnv",
            max_episode_steps=limit,
            reward_threshold=theirs.reward_threshold if theirs else None,
            kwargs={"env": name},
        )
