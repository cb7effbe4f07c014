"""A DQN loop in CleanRL's style, as people write it for Gymnasium 1.x vector envs, unchanged."""

from copy import deepcopy

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics
from torch import nn

from leanfast.envs.native import Engine
from leanfast.envs.registration import register

register()
X_LIMIT, ANGLE_LIMIT = 2.4, 12 * 2 * np.pi / 360


def dqn(envs, iterations, seed, learning_starts=20, batch_size=64, gamma=0.99):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    q_network = nn.Sequential(
        nn.Linear(np.array(envs.single_observation_space.shape).prod(), 32),
        nn.ReLU(),
        nn.Linear(32, envs.single_action_space.n),
    )
    target_network = deepcopy(q_network)
    optimizer = torch.optim.Adam(q_network.parameters(), lr=1e-3)
    replay, returns = [], []

    obs, _ = envs.reset(seed=seed)
    for iteration in range(iterations):
        if rng.random() < 0.5:
            actions = rng.integers(0, envs.single_action_space.n, envs.num_envs)
        else:
            actions = q_network(torch.Tensor(obs)).argmax(dim=1).cpu().numpy()
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)

        if "final_info" in infos:
            episode = infos["final_info"]["episode"]
            returns += episode["r"][infos["final_info"]["_episode"]].tolist()
        real_next_obs = next_obs.copy()
        for i in np.flatnonzero(terminations | truncations):
            real_next_obs[i] = infos["final_obs"][i]
        replay.append((obs, real_next_obs, actions, rewards, terminations, truncations))
        obs = next_obs

        if iteration > learning_starts:
            picked = [replay[t] for t in rng.integers(0, len(replay), batch_size)]
            env = rng.integers(0, envs.num_envs)
            data = [torch.as_tensor(np.stack([step[k][env] for step in picked])) for k in range(5)]
            with torch.no_grad():
                target_max = target_network(data[1]).max(dim=1).values
                td_target = data[3].float() + gamma * target_max * ~data[4]
            old_value = q_network(data[0]).gather(1, data[2].unsqueeze(1)).squeeze()
            loss = nn.functional.mse_loss(td_target, old_value)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if iteration % 10 == 0:
                target_network.load_state_dict(q_network.state_dict())
    return replay, returns


def assert_true_last_observations(replay):
    """Where a pole fell it lies outside the limits; where time ran out it still stands."""
    _, after, _, _, terminated, truncated = map(np.concatenate, zip(*replay, strict=True))
    fallen = (abs(after[:, 0]) > X_LIMIT) | (abs(after[:, 2]) > ANGLE_LIMIT)
    assert np.array_equal(fallen, terminated)
    assert terminated.sum() > 10
    assert truncated.sum() > 10
    # A start is within 0.05 of the origin in all four numbers; nothing truncated is one.
    assert (abs(after[truncated]) > 0.05).any(axis=1).all()


def test_the_loop_stores_what_the_engine_stepped_to():
    envs = gymnasium.make_vec("leanfast/CartPole-v1", num_envs=16, max_episode_steps=20)
    replay, returns = dqn(envs, iterations=150, seed=1)
    assert_true_last_observations(replay)
    engine = Engine("cartpole", 16, max_episode_steps=20)
    expected, observation = [], engine.reset(1).observation.numpy().copy()
    for obs, real_next_obs, actions, *_ in replay:
        assert np.array_equal(obs, observation)
        batch = engine.step(actions)
        assert np.array_equal(real_next_obs, batch.next_observation)
        observation = batch.observation.numpy().copy()
        expected += batch.episode_return[batch.done].tolist()
    assert returns == expected


def test_the_same_loop_runs_on_gymnasiums_own_vector_env():
    envs = gymnasium.make_vec(
        "CartPole-v1",
        num_envs=4,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        wrappers=[RecordEpisodeStatistics],
        max_episode_steps=20,
    )
    replay, returns = dqn(envs, iterations=150, seed=1)
    _, after, _, _, terminated, truncated = map(np.concatenate, zip(*replay, strict=True))
    assert len(returns) == (terminated | truncated).sum() > 10
    assert (abs(after[terminated & ~truncated][:, 2]) > ANGLE_LIMIT).all()
