"""gymnasium.make_vec(): the engine as a VectorEnv."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics

from leanfast.envs.native import Engine
from leanfast.envs.registration import register
from leanfast.envs.registry import builtin
from leanfast.envs.vector import NativeVectorEnv

register()

THEIRS = ["Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]


def make_vec(name="CartPole-v1", num_envs=5, **kwargs) -> VectorEnv:
    return gymnasium.make_vec(f"leanfast/{name}", num_envs=num_envs, **kwargs)


def make_sync(num_envs: int, name="leanfast/CartPole-v1", **kwargs) -> VectorEnv:
    """Gymnasium's own vectorisation, with the statistics that ours keeps."""
    return gymnasium.make_vec(
        name,
        num_envs=num_envs,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        wrappers=[RecordEpisodeStatistics],
        **kwargs,
    )


@pytest.mark.parametrize("name", THEIRS)
def test_spaces_and_thresholds_are_gymnasiums_own(name):
    ours, theirs = make_vec(name), gymnasium.make(name)
    assert ours.single_observation_space == theirs.observation_space
    assert ours.single_action_space == theirs.action_space
    assert ours.observation_space.shape == (5, *theirs.observation_space.shape)
    assert ours.spec.reward_threshold == theirs.spec.reward_threshold
    ours.close()


def test_its_autoreset_mode_is_same_step_in_metadata_and_attribute():
    envs = make_vec()
    assert isinstance(envs, NativeVectorEnv)
    assert envs.metadata["autoreset_mode"] is envs.autoreset_mode is AutoresetMode.SAME_STEP
    assert envs.spec.id == "leanfast/CartPole-v1"
    assert envs.num_envs == 5


@pytest.mark.parametrize("key", list(builtin()))
def test_what_it_returns_lies_in_its_spaces(key):
    envs = NativeVectorEnv(key, 3, max_episode_steps=7, seed=0)
    envs.action_space.seed(0)
    observations, infos = envs.reset()
    assert observations in envs.observation_space
    assert infos == {}
    agents = (envs.engine.agents,) if envs.engine.agents > 1 else ()
    for _ in range(20):
        observations, rewards, terminations, truncations, infos = envs.step(
            envs.action_space.sample()
        )
        assert observations in envs.observation_space
        assert rewards.shape == (3, *agents)
        assert rewards.dtype == np.float32
        assert terminations.shape == truncations.shape == (3,)
        assert terminations.dtype == truncations.dtype == np.bool_
        if "final_obs" in infos:
            for env in infos["_final_obs"].nonzero()[0]:
                assert infos["final_obs"][env] in envs.single_observation_space
    envs.close()


def test_several_agents_each_have_an_observation_an_action_and_a_reward():
    envs = make_vec("Tag-v1", 2, params={"chasers": 2, "runners": 1}, max_episode_steps=2)
    assert envs.single_action_space == MultiDiscrete([5, 5, 5])
    assert envs.single_observation_space.shape[0] == 3
    envs.reset()
    envs.step(np.zeros((2, 3), int))
    _, rewards, _, truncations, infos = envs.step(np.zeros((2, 3), int))
    assert truncations.all()
    assert infos["final_info"]["episode"]["r"].shape == rewards.shape == (2, 3)
    assert infos["final_obs"][0].shape == envs.single_observation_space.shape


def test_its_trajectories_are_the_engines():
    envs, engine = make_vec(num_envs=70), Engine("cartpole", 70)
    assert np.array_equal(envs.reset(seed=4)[0], engine.reset(4).observation)
    for actions in np.random.default_rng(0).integers(0, 2, (100, 70)):
        observations, rewards, terminations, truncations, infos = envs.step(actions)
        batch = engine.step(torch.from_numpy(actions))
        assert np.array_equal(observations, batch.observation)
        assert np.array_equal(rewards, batch.reward)
        assert np.array_equal(terminations, batch.terminated)
        assert np.array_equal(truncations, batch.truncated)
        for env in batch.done.nonzero()[:, 0].tolist():
            assert np.array_equal(infos["final_obs"][env], batch.next_observation[env])
            episode = infos["final_info"]["episode"]
            assert episode["r"][env] == batch.episode_return[env]
            assert episode["l"][env] == batch.episode_length[env]


def layout(value):
    """Types, dtypes and shapes all the way down; flags and lengths as they are."""
    if isinstance(value, dict):
        return {key: layout(item) for key, item in value.items()}
    assert isinstance(value, np.ndarray)
    if value.dtype == object:
        return [None if item is None else layout(item) for item in value]
    exact = value.tolist() if value.dtype.kind in "bi" else None
    return value.dtype.name, value.shape, exact


def test_final_obs_and_final_info_are_laid_out_as_sync_vector_env_lays_them_out():
    seen = []
    for envs in (make_vec(num_envs=3, max_episode_steps=5), make_sync(3, max_episode_steps=5)):
        envs.reset(seed=0)
        step = [np.array([0, 1, 0]), np.array([1, 0, 1])]
        for t in range(3):
            envs.step(step[t % 2])
        envs.reset(options={"reset_mask": np.array([False, True, False])})
        infos = [envs.step(step[(t + 1) % 2])[4] for t in range(6)]
        seen.append([layout(info) for info in infos])
        assert list(infos[1]["_final_obs"]) == [True, False, True]
        assert list(infos[4]["_final_obs"]) == [False, True, False]
        envs.close()
    assert seen[0] == seen[1]


def test_one_env_alone_ends_as_the_same_env_in_sync_vector_env():
    ours, theirs = make_vec(num_envs=1), make_sync(1)
    assert np.array_equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    ended = 0
    for action in np.random.default_rng(0).integers(0, 2, (200, 1)):
        mine, his = ours.step(action), theirs.step(action)
        for one, other in zip(mine[:4], his[:4], strict=True):
            assert np.array_equal(one, other)
        assert mine[4].keys() == his[4].keys()
        if mine[4]:
            assert np.array_equal(mine[4]["final_obs"][0], his[4]["final_obs"][0])
            for name in "rl":
                episodes = (infos["final_info"]["episode"] for infos in (mine[4], his[4]))
                assert len({episode[name][0] for episode in episodes}) == 1
            ended += 1
    assert ended > 3


def test_a_reset_mask_resets_only_the_masked():
    envs = make_vec(num_envs=4)
    envs.reset(seed=1)
    before = envs.step(np.zeros(4, int))[0]
    options = {"reset_mask": np.array([False, True, False, True])}
    after = envs.reset(options=options)[0]
    assert [np.array_equal(*pair) for pair in zip(before, after, strict=True)] == [
        True,
        False,
        True,
        False,
    ]
    assert "reset_mask" in options  # wrappers outside read it too
    seeded = envs.reset(seed=1, options=options)[0]
    assert np.array_equal(seeded[1], make_vec(num_envs=4).reset(seed=1)[0][1])


def test_seeds_repeat_what_they_gave():
    one, other = make_vec(seed=6), make_vec(seed=6)
    first = one.reset()[0]
    assert np.array_equal(first, other.reset()[0])
    assert not np.array_equal(first, one.reset()[0])  # the random numbers go on
    assert np.array_equal(first, one.reset(seed=6)[0])
    assert one.np_random_seed == 6
    listed = one.reset(seed=[6, 6, 7, 6, 6])[0]
    assert np.array_equal(first == listed, np.array([[1], [1], [0], [1], [1]]) * np.ones((1, 4)))


def test_arrays_are_copies():
    envs = make_vec()
    held = [envs.reset(seed=0)[0]]
    kept = [held[0].copy()]
    for t in range(30):
        arrays = envs.step(np.full(5, t % 2))[:4]
        held += arrays
        kept += [array.copy() for array in arrays]
    assert all(map(np.array_equal, held, kept))
    assert all(array.flags.writeable for array in held)


def test_without_copies_arrays_are_the_engines_two_sets_of_buffers():
    envs = make_vec(copy=False)
    held = [(envs.reset(seed=0)[0],)] + [envs.step(np.full(5, t % 2))[:4] for t in range(8)]
    for arrays in zip(*held[1:], strict=True):
        assert len({array.__array_interface__["data"][0] for array in arrays}) == 2
    assert np.shares_memory(held[0][0], held[2][0])


def test_final_obs_stay_what_they_were_without_copies_too():
    envs = make_vec(copy=False, max_episode_steps=2)
    envs.reset()
    kept = []
    for _ in range(8):
        infos = envs.step(np.zeros(5, int))[4]
        kept += [(row, row.copy()) for row in infos.get("final_obs", ())]
    assert len(kept) == 20
    assert all(np.array_equal(row, was) for row, was in kept)


def test_an_episodes_seconds_are_counted_from_its_own_start(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("leanfast.envs.vector.time.perf_counter", lambda: now[0])
    envs = make_vec(num_envs=2, max_episode_steps=3)
    envs.reset()
    seen = []
    for t in range(6):
        now[0] += 1 + t
        if t == 1:
            envs.reset(options={"reset_mask": np.array([False, True])})
        infos = envs.step(np.full(2, t % 2))[4]
        seen.append(infos["final_info"]["episode"]["t"].tolist() if infos else None)
    # Env 0 ends at 1+2+3 and, begun there, after 4+5+6; env 1, begun anew at 1+2, after 3+4.
    assert seen == [None, None, [6, 0], [0, 7], None, [15, 0]]


def test_a_limit_of_minus_one_is_none():
    envs = make_vec("Pendulum-v1", max_episode_steps=-1)
    envs.reset()
    for _ in range(300):
        assert not envs.step(np.zeros((5, 1), np.float32))[3].any()


def test_numpys_int32_and_int64_and_float32_actions_are_taken():
    envs = make_vec()
    envs.reset()
    for dtype in (np.int32, np.int64):
        envs.step(np.ones(5, dtype))
    pendulum = make_vec("Pendulum-v1")
    pendulum.reset()
    pendulum.step(np.ones((5, 1), np.float32))


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.array([0, 1, 0, 2, 0]), r"actions\[3\] is 2; CartPole-v1 takes 0 to 1"),
        (np.zeros(4, int), r"actions has shape \(4,\); it must have shape \(5,\)"),
        (np.zeros(5), "actions are float64; CartPole-v1 takes int64 or int32"),
    ],
)
def test_bad_actions_are_named(actions, message):
    envs = make_vec()
    envs.reset()
    with pytest.raises(ValueError, match=message):
        envs.step(actions)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"low": -1}, ValueError, "reset has no option 'low'; it has: reset_mask"),
        ({"reset_mask": np.zeros(5, bool)}, ValueError, "False everywhere"),
        ({"reset_mask": np.ones(4, bool)}, ValueError, r"mask has shape \(4,\)"),
        ({"reset_mask": np.ones(5, int)}, ValueError, "mask is int64; it must be bool"),
        ({"reset_mask": [True] * 5}, TypeError, "mask must be a torch tensor or a NumPy array"),
    ],
)
def test_bad_reset_options_are_named(options, error, message):
    envs = make_vec()
    envs.reset()
    with pytest.raises(error, match=message):
        envs.reset(options=options)


def test_calls_at_the_wrong_time_are_refused_and_closing_twice_is_not():
    envs = make_vec()
    with pytest.raises(ValueError, match=r"call reset\(\) first"):
        envs.step(np.zeros(5, int))
    envs.reset()
    envs.close()
    envs.close()
    assert envs.closed
    for call in (envs.reset, lambda: envs.step(np.zeros(5, int))):
        with pytest.raises(ValueError, match="the engine is closed"):
            call()


def test_unknown_arguments_and_rendering_are_refused_in_one_sentence():
    with pytest.raises(TypeError, match="CartPole-v1 has no argument 'gravity' here; it takes thr"):
        make_vec(gravity=9.8)
    with pytest.raises(ValueError, match=r"render_mode must be None .*, not 'human'"):
        make_vec(render_mode="human")
    with pytest.raises(ValueError, match="cartpole has no parameter 'gravitas'"):
        make_vec(params={"gravitas": 9.8})


@pytest.mark.skipif(
    tuple(map(int, gymnasium.__version__.split(".")[:2])) < (1, 4),
    reason="before 1.4 the wrapper counted same-step episodes one short",
)
def test_record_episode_statistics_around_it_agrees_with_its_own():
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(make_vec(num_envs=20))
    envs.reset(seed=0)
    ended = 0
    for actions in np.random.default_rng(0).integers(0, 2, (100, 20)):
        infos = envs.step(actions)[4]
        if "episode" in infos:
            own = infos["final_info"]["episode"]
            assert np.array_equal(infos["episode"]["r"], own["r"])
            assert np.array_equal(infos["episode"]["l"], own["l"])
            assert np.array_equal(infos["_episode"], own["_r"])
            ended += infos["_episode"].sum()
    assert envs.episode_count == ended > 50


def test_gymnasiums_wrappers_for_actions_rewards_and_infos_go_around_it():
    wrappers = gymnasium.wrappers.vector
    envs = wrappers.ClipAction(make_vec("Pendulum-v1", max_episode_steps=2))
    envs = wrappers.DictInfoToList(wrappers.NormalizeReward(envs))
    envs.reset(seed=0)
    envs.step(np.full((5, 1), 99, np.float32))
    *_, infos = envs.step(np.full((5, 1), -99, np.float32))
    assert len(infos) == 5
    for info in infos:
        assert info["final_obs"].shape == (3,)
        assert info["final_info"]["episode"]["l"] == 2


@pytest.mark.parametrize(
    ("mode", "options"), [("sync", {}), ("async", {"vector_kwargs": {"context": "fork"}})]
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_gymnasiums_own_vectorisation_works_too(mode, options):
    envs = make_vec(num_envs=2, vectorization_mode=mode, params={"gravity": 5.0}, **options)
    assert not isinstance(envs, NativeVectorEnv)
    one, other = envs.reset(seed=[3, 3])[0]
    assert np.array_equal(one, other)
    envs.step(np.array([0, 1]))
    envs.close()
