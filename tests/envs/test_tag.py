"""Tag against a second, independent definition in NumPy, in double precision."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from leanfast.envs.native import Batch, Engine

STAY, UP, DOWN, LEFT, RIGHT = range(5)
DIRECTIONS = np.array([(0, 0), (0, 1), (0, -1), (-1, 0), (1, 0)], float)
OWN, OTHER, MOST_AGENTS = 5, 5, 16
GAMES = [
    {},
    {"chasers": 2, "runners": 3, "shaping": 0.3, "radius": 0.2},
    {"chasers": 1, "runners": 1, "agility": 1.0, "size": 0.7, "chaser_speed": 1.7},
    {"chasers": 9, "runners": 7, "size": 3.0, "dt": 0.05, "runner_speed": 0.4, "shaping": -1.0},
]


@dataclass
class Tag:
    """The rules. `place` and `velocity` are [N, A, 2]."""

    place: np.ndarray
    velocity: np.ndarray
    chasers: int = 3
    runners: int = 1
    size: float = 1.0
    radius: float = 0.1
    chaser_speed: float = 1.0
    runner_speed: float = 1.3
    agility: float = 0.5
    dt: float = 0.1
    shaping: float = 0.0

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rewards [N, A] and which runners were caught [N, runners]; those stay where they are."""
        speed = np.array([self.chaser_speed] * self.chasers + [self.runner_speed] * self.runners)
        wanted = DIRECTIONS[actions] * speed[:, None]
        self.velocity = self.velocity + self.agility * (wanted - self.velocity)
        to = self.place + self.dt * self.velocity
        self.velocity[np.abs(to) > self.size] = 0
        self.place = np.clip(to, -self.size, self.size)

        hunters, hunted = np.split(self.place, [self.chasers], axis=1)
        apart = np.linalg.norm(hunters[:, :, None] - hunted[:, None], axis=-1)
        caught = apart.min(1) <= self.radius
        nearest = np.concatenate([-apart.min(2), apart.min(1)], 1)
        rewards = self.shaping * nearest / (2 * self.size)
        rewards[:, : self.chasers] += caught.sum(1, keepdims=True)
        rewards[:, self.chasers :] -= caught
        return rewards, caught

    def observation(self) -> np.ndarray:
        fastest = max(self.chaser_speed, self.runner_speed)
        roles = [1.0] * self.chasers + [-1.0] * self.runners
        places = np.moveaxis(self.place / self.size, 1, 0)  # [A, N, 2]
        velocities = np.moveaxis(self.velocity / fastest, 1, 0)
        players = [
            np.column_stack([np.full(len(place), role), place, velocity])
            for role, place, velocity in zip(roles, places, velocities, strict=True)
        ]
        views = []
        for me in players:
            others = [other for other in players if other is not me]
            apart = [np.column_stack([o[:, 0], (o[:, 1:] - me[:, 1:]) / 2]) for o in others]
            views.append(np.column_stack([me, *apart]))
        return np.stack(views, 1)


def tag_engine(num_envs: int = 1, precision: str = "float64", seed: int = 4, **params) -> Engine:
    engine = Engine("tag", num_envs, threads=1, seed=seed, params=params, precision=precision)
    engine.reset()
    return engine


def kept(engine: Engine) -> tuple[np.ndarray, np.ndarray]:
    """The engine's places and velocities, [N, A, 2]."""
    state = engine.records()["state"].view("f8").reshape(engine.num_envs, 4, MOST_AGENTS)
    state = state[:, :, : engine.agents].transpose(0, 2, 1)
    return state[..., :2].copy(), state[..., 2:].copy()


def posed(place, velocity=None, **params) -> Engine:
    """An engine of one env whose agents stand at the given places."""
    engine = tag_engine(**params)
    state = np.zeros((4, MOST_AGENTS))
    state[:2, : engine.agents] = np.transpose(place)
    state[2:, : engine.agents] = 0 if velocity is None else np.transpose(velocity)
    engine.load_records(engine.records() | {"state": state.view(np.uint8).reshape(1, -1)})
    return engine


def press(engine: Engine, *actions: int) -> Batch:
    return engine.step(torch.tensor(actions).expand(engine.num_envs, -1).contiguous())


def chase(tag: Tag, rng: np.random.Generator) -> np.ndarray:
    """Chasers go for the first runner, half of the time; the others do anything."""
    way = tag.place[:, tag.chasers, None] - tag.place
    across = np.where(way[..., 0] > 0, RIGHT, LEFT)
    along = np.where(way[..., 1] > 0, UP, DOWN)
    hunt = np.where(np.abs(way[..., 0]) > np.abs(way[..., 1]), across, along)
    anything = rng.integers(0, 5, hunt.shape)
    hunts = (rng.random(hunt.shape) < 0.5) & (np.arange(hunt.shape[1]) < tag.chasers)
    return np.where(hunts, hunt, anything)


@pytest.fixture(scope="module", params=GAMES, ids=lambda p: "-".join(map(str, p.values())) or "-")
def played(request):
    """The engine beside the rules: the largest differences, the catches, and where they led."""
    engine, rng = tag_engine(64, **request.param), np.random.default_rng(0)
    tag = Tag(*kept(engine), **request.param)
    differences, landings, at_walls = {"observation": 0.0, "reward": 0.0, "state": 0.0}, [], 0

    def compare(name: str, ours: np.ndarray, theirs: np.ndarray) -> None:
        differences[name] = max(differences[name], np.abs(ours - theirs).max())

    for _ in range(190):
        actions = chase(tag, rng)
        batch = engine.step(torch.from_numpy(actions))
        rewards, caught = tag.step(actions)
        at_walls += (np.abs(tag.place) == tag.size).sum()
        place, velocity = kept(engine)
        env, runner = np.nonzero(caught)
        tag.place[env, tag.chasers + runner] = place[env, tag.chasers + runner]
        tag.velocity[env, tag.chasers + runner] = 0
        landings.append(place[env, tag.chasers + runner] / tag.size)
        compare("state", place, tag.place)
        compare("state", velocity, tag.velocity)
        compare("reward", batch.reward.numpy(), rewards)
        compare("observation", batch.next_observation.numpy(), tag.observation())
        assert not batch.done.any()
    return differences, np.concatenate(landings), at_walls


@pytest.mark.parametrize("what", ["state", "observation", "reward"])
def test_every_step_is_what_the_rules_say(played, what):
    differences, landings, at_walls = played
    assert differences[what] < 1e-12
    assert len(landings) > 50
    assert at_walls > 50


def test_a_caught_runner_goes_on_from_anywhere_inside(played):
    _, landings, _ = played
    assert np.abs(landings).max() <= 1
    quarters = np.histogram2d(*landings.T, bins=2, range=[(-1, 1), (-1, 1)])[0]
    assert quarters.min() > len(landings) / 4 - 4 * (len(landings) * 3 / 16) ** 0.5


def test_a_catch_rewards_every_chaser_once_and_punishes_the_runner_alone():
    place = [(0, 0), (0.05, 0), (0.9, 0.9), (0.02, 0.02), (-0.8, -0.8)]
    engine = posed(place, chasers=3, runners=2)
    batch = press(engine, *[STAY] * 5)
    assert batch.reward[0].tolist() == [1, 1, 1, -1, 0]
    assert not batch.terminated.item()
    after, _ = kept(engine)
    assert np.array_equal(after[0, [0, 1, 2, 4]], np.array(place)[[0, 1, 2, 4]])
    assert not np.array_equal(after[0, 3], place[3])


def test_two_catches_in_one_step_reward_the_chasers_twice():
    engine = posed([(0, 0), (0.05, 0), (0, 0.05)], chasers=1, runners=2)
    assert press(engine, STAY, STAY, STAY).reward[0].tolist() == [2, -1, -1]


@pytest.mark.parametrize(("apart", "caught"), [(0.2499, True), (0.2501, False)])
def test_the_radius_decides_what_a_catch_is(apart, caught):
    engine = posed([(0, 0), (apart, 0)], chasers=1, runners=1, radius=0.25)
    assert press(engine, STAY, STAY).reward[0].tolist() == ([1, -1] if caught else [0, 0])


@pytest.mark.parametrize("action", [UP, DOWN, LEFT, RIGHT])
def test_a_wall_stops_an_agent_at_the_arenas_edge(action):
    engine = posed([(0.1, 0.2), (0.5, -0.3)], chasers=1, runners=1, size=1.5, radius=1e-9)
    for _ in range(60):
        press(engine, action, action)
    place, velocity = kept(engine)
    axis = np.argmax(np.abs(DIRECTIONS[action]))
    assert (place[0, :, axis] == 1.5 * DIRECTIONS[action][axis]).all()
    assert (velocity == 0).all()
    assert np.array_equal(place[0, :, 1 - axis], np.array([(0.1, 0.2), (0.5, -0.3)])[:, 1 - axis])


@pytest.mark.parametrize("action", [UP, DOWN, LEFT, RIGHT])
def test_with_agility_1_an_agent_moves_at_its_speed_at_once(action):
    settings = {"chaser_speed": 0.5, "runner_speed": 2.0, "dt": 0.125, "agility": 1.0}
    engine = posed([(0, 0), (0.5, 0.5)], chasers=1, runners=1, **settings)
    press(engine, action, action)
    expected = [(0, 0) + DIRECTIONS[action] / 16, (0.5, 0.5) + DIRECTIONS[action] / 4]
    assert np.array_equal(kept(engine)[0][0], expected)


def test_shaping_pays_a_runner_for_the_distance_that_it_costs_a_lone_chaser():
    engine = posed([(-0.5, 0), (0.5, 0)], chasers=1, runners=1, shaping=0.25)
    assert press(engine, STAY, STAY).reward[0].tolist() == [-0.125, 0.125]


def test_an_episode_is_truncated_after_200_steps_and_never_terminated():
    engine = tag_engine(8)
    for step in range(1, 401):
        batch = engine.step(torch.randint(0, 5, (8, 4)))
        assert not batch.terminated.any()
        assert batch.truncated.all() if step % 200 == 0 else not batch.truncated.any()


@pytest.mark.parametrize("game", GAMES, ids=str)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_observations_stay_in_their_bounds_in_corners_too(game, precision):
    engine = tag_engine(256, precision, **game)
    generator = torch.Generator().manual_seed(0)
    for step in range(60):
        if step % 15 == 0:
            actions = torch.randint(1, 5, (256, engine.agents), generator=generator)
        turned = torch.where(torch.tensor(step % 15 < 7), actions, 1 + actions % 4)
        assert engine.step(turned).next_observation.abs().max() <= 1


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_each_agent_sees_another_where_that_one_sees_it_from_the_other_side(game):
    engine = tag_engine(16, **game)
    for _ in range(10):
        batch = engine.step(torch.randint(0, 5, (16, engine.agents)))
    seen = batch.next_observation
    others = seen[:, :, OWN:].unflatten(2, (engine.agents - 1, OTHER))
    for a in range(engine.agents):
        for b in range(a):
            assert torch.equal(others[:, a, b, 1:], -others[:, b, a - 1, 1:])
            assert torch.equal(others[:, a, b, 0], seen[:, b, 0])
            assert torch.equal(others[:, b, a - 1, 0], seen[:, a, 0])


def test_the_role_in_the_observation_tells_who_chases():
    observation = tag_engine(4, chasers=2, runners=3).reset().observation
    assert observation[:, :, 0].tolist() == [[1, 1, -1, -1, -1]] * 4


@pytest.mark.parametrize(("chasers", "runners"), [(1, 1), (3, 1), (1, 15), (8, 8), (15, 1)])
def test_the_spec_follows_the_number_of_agents(chasers, runners):
    engine = tag_engine(2, chasers=chasers, runners=runners)
    agents = chasers + runners
    observation = engine.reset().observation
    assert engine.agents == agents
    assert observation.shape == (2, agents, OWN + OTHER * (agents - 1))


REFUSED = [
    ({"chasers": 0}, "chasers and runners must each be at least 1"),
    ({"runners": 0}, "chasers and runners must each be at least 1"),
    ({"chasers": 10, "runners": 7}, "together at most 16"),
    ({"chasers": 2**31 - 1}, "together at most 16"),
    ({"size": 0.0}, "size, radius and dt must be positive"),
    ({"radius": -1.0}, "size, radius and dt must be positive"),
    ({"dt": float("nan")}, "dt"),
    ({"size": float("inf")}, "size"),
    ({"chaser_speed": 0.0}, "chaser_speed and runner_speed must be positive"),
    ({"runner_speed": -2.0}, "chaser_speed and runner_speed must be positive"),
    ({"agility": 0.0}, "agility must be above 0 and at most 1"),
    ({"agility": 1.1}, "agility must be above 0 and at most 1"),
]


@pytest.mark.parametrize(("params", "sentence"), REFUSED, ids=str)
def test_parameters_without_a_meaning_are_refused_in_one_sentence(params, sentence):
    with pytest.raises(ValueError, match=sentence):
        tag_engine(**params)
