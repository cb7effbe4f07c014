"""Snake against its rules in plain Python (snake_rules.py), step by step from what is observed."""

import random
from collections import Counter, deque

import numpy as np
import pytest
import torch
from snake_rules import BODY, FOOD, HEAD, Snake, food_in, state_of

from leanfast.envs.native import Batch, Engine

UP, RIGHT, DOWN, LEFT = range(4)
GRIDS = [
    {"height": 4, "width": 4},
    {"height": 5, "width": 9, "starvation": 17},
    {"height": 12, "width": 12},
    {"height": 32, "width": 6, "food_reward": 10.0, "death_reward": -5.0, "step_reward": -0.125},
]


def snake_engine(num_envs: int = 1, **params) -> Engine:
    engine = Engine("snake", num_envs, threads=1, seed=3, params=params, precision="float64")
    engine.reset()
    return engine


def posed(snake: Snake, num_envs: int = 1, **params) -> Engine:
    """An engine all of whose envs stand in the given position."""
    engine = snake_engine(num_envs, height=snake.height, width=snake.width, **params)
    state = np.repeat(state_of(snake).reshape(1, -1), num_envs, 0)
    engine.load_records(engine.records() | {"state": state})
    return engine


def press(engine: Engine, action: int) -> Batch:
    return engine.step(torch.full((engine.num_envs,), action))


def seen(batch: Batch) -> np.ndarray:
    return batch.next_observation[0].numpy()


def cells(plane: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(cell) for cell in np.argwhere(plane).tolist()]


@pytest.fixture(scope="module", params=GRIDS, ids=lambda p: f"{p['height']}x{p['width']}")
def played(request):
    """Two engines, planes and compact, and the rules, through the same thousands of steps."""
    params, num_envs, rng = request.param, 24, random.Random(0)
    engines = [snake_engine(num_envs, **params, compact=compact) for compact in (False, True)]
    planes, compact = (e.reset(seed=5).observation.numpy().copy() for e in engines)
    snakes = [Snake(**params) for _ in range(num_envs)]
    differences, fates, longest = Counter(), Counter(), 0

    def check(kind: str, same: bool) -> None:
        differences[kind] += not same

    for i, snake in enumerate(snakes):
        snake.begin(food_in(planes[i]))
    for _ in range(800):
        for i, snake in enumerate(snakes):
            check("planes", np.array_equal(planes[i], snake.planes()))
            check("compact", np.allclose(compact[i], snake.compact(), rtol=0, atol=1e-12))
        actions = torch.tensor([snake.hunt(rng) for snake in snakes])
        batch, also = (engine.step(actions) for engine in engines)
        planes, compact = (b.observation.numpy().copy() for b in (batch, also))
        for i, snake in enumerate(snakes):
            reward, terminated = snake.step(int(actions[i]))
            last = batch.next_observation[i].numpy()
            fates[snake.fate] += 1
            longest = max(longest, len(snake.body))
            if snake.fate == "ate":
                snake.food = food_in(last)
                check("food on a free cell", snake.food is not None)
                check("food on a free cell", snake.food not in snake.body)
            check("reward", batch.reward[i] == reward == also.reward[i])
            check("terminated", batch.terminated[i] == terminated == also.terminated[i])
            check("truncated", not batch.truncated[i] and not also.truncated[i])
            check("planes", np.array_equal(last, snake.planes()))
            if terminated:
                snake.begin(food_in(planes[i]))
    return differences, fates, longest


def test_planes_rewards_and_ends_are_what_the_rules_say_at_every_step(played):
    differences, _, _ = played
    named = ("planes", "reward", "terminated", "truncated", "food on a free cell")
    assert {name: differences[name] for name in named} == dict.fromkeys(named, 0)


def test_compact_observation_is_what_the_rules_say_at_every_step(played):
    differences, _, _ = played
    assert differences["compact"] == 0


def test_the_games_compared_with_the_rules_hold_every_kind_of_step(played):
    _, fates, longest = played
    assert min(fates[fate] for fate in ("went on", "ate", "wall", "self")) >= 5
    assert longest >= 10


def test_food_is_uniform_over_the_free_cells_at_reset():
    foods = snake_engine(40_000, height=4, width=6).reset().observation[:, FOOD].flatten(1)
    snake = Snake(4, 6)
    snake.begin((0, 0))
    assert uniform(foods, free=[c for c in np.ndindex(4, 6) if c not in snake.body], width=6)


def test_food_is_uniform_over_the_free_cells_after_a_meal():
    snake = Snake(4, 6)
    snake.begin(food=(2, 4))
    foods = press(posed(snake, num_envs=40_000), RIGHT).next_observation[:, FOOD].flatten(1)
    snake.step(RIGHT)
    assert uniform(foods, free=[c for c in np.ndindex(4, 6) if c not in snake.body], width=6)


def uniform(foods: torch.Tensor, free: list[tuple[int, ...]], width: int) -> bool:
    """One food in each env, on free cells alone, all equally often: chi-squared, p > 1e-6."""
    assert torch.equal((foods == 255).sum(1), torch.ones(len(foods), dtype=torch.int64))
    counts = (foods == 255).sum(0).numpy()
    expected = len(foods) / len(free)
    chosen = counts[[row * width + column for row, column in free]]
    degrees = len(free) - 1
    limit = degrees * (1 - 2 / (9 * degrees) + 4.75 * (2 / (9 * degrees)) ** 0.5) ** 3
    return counts.sum() == chosen.sum() and ((chosen - expected) ** 2 / expected).sum() < limit


@pytest.mark.parametrize(("starvation", "steps"), [(0, 24), (1, 1), (5, 5), (50, 50)])
def test_a_snake_starves_after_its_limit_of_steps_without_food(starvation, steps):
    snake = Snake(4, 6)
    snake.begin(food=(0, 0))
    engine = posed(snake, starvation=starvation)
    circle = [RIGHT, UP, LEFT, DOWN]
    ends = [press(engine, circle[k % 4]).terminated.item() for k in range(steps - 1)]
    last = press(engine, circle[(steps - 1) % 4])
    assert not any(ends)
    assert last.terminated.item()
    assert last.reward.item() == -1


def test_a_meal_ends_hunger():
    snake = Snake(4, 6, hungry_for=4)
    snake.begin(food=(2, 4))
    snake.hungry_for = 4
    batch = press(posed(snake, starvation=5), RIGHT)
    assert not batch.terminated.item()
    assert batch.reward.item() == 1


@pytest.mark.parametrize("action", [UP, RIGHT, DOWN])
def test_a_wall_ends_the_episode_and_the_snake_is_last_seen_before_it(action):
    engine = snake_engine(height=5, width=7)
    to_wall = {UP: 2, RIGHT: 3, DOWN: 2}[action]
    before = [press(engine, action) for _ in range(to_wall)][-1]
    assert not before.terminated.item()
    stood = seen(before).copy()
    batch = press(engine, action)
    assert batch.terminated.item()
    assert batch.reward.item() == -1
    assert np.array_equal(seen(batch), stood)
    assert cells(batch.observation[0, HEAD].numpy()) == [(2, 3)]


def test_the_body_ends_the_episode():
    body = deque([(1, 1), (1, 2), (1, 3), (2, 3), (2, 2)])
    batch = press(posed(Snake(5, 5, body=body, heading=LEFT, food=(4, 4))), UP)
    assert batch.terminated.item()
    assert batch.reward.item() == -1


def test_a_snake_may_chase_its_tail_for_ever():
    body = deque([(1, 1), (1, 2), (2, 2), (2, 1)])
    engine = posed(Snake(4, 4, body=body, heading=LEFT, food=(3, 3)), starvation=1000)
    for k in range(100):
        batch = press(engine, [UP, RIGHT, DOWN, LEFT][k % 4])
        assert not batch.terminated.item()
        assert (seen(batch)[BODY] == 255).sum() == 3


@pytest.mark.parametrize(("heading", "opposite"), [(0, 2), (1, 3), (2, 0), (3, 1)])
def test_pressing_towards_the_neck_goes_straight_on(heading, opposite):
    row, column = (-1, 0, 1, 0)[heading], (0, 1, 0, -1)[heading]
    body = deque((4 + k * row, 4 + k * column) for k in (-2, -1, 0))
    batch = press(posed(Snake(9, 9, body=body, heading=heading, food=(0, 0))), opposite)
    assert not batch.terminated.item()
    assert cells(seen(batch)[HEAD]) == [(4 + row, 4 + column)]


def test_filling_the_board_along_a_tour_wins():
    tour = [(2, 0), (2, 1), (2, 2), (1, 2), (1, 1), (1, 0), (0, 0), (0, 1)]
    tour += [(0, 2), (0, 3), (1, 3), (2, 3), (3, 3), (3, 2), (3, 1), (3, 0)]
    engine = snake_engine(height=4, width=4)
    steps = {(-1, 0): UP, (0, 1): RIGHT, (1, 0): DOWN, (0, -1): LEFT}
    for k in range(2, 16 * 16):
        here, there = tour[k % 16], tour[(k + 1) % 16]
        batch = press(engine, steps[there[0] - here[0], there[1] - here[1]])
        if batch.terminated.item():
            break
    assert batch.reward.item() == 1
    assert batch.episode_return.item() == 16 - 3
    assert (seen(batch)[HEAD] | seen(batch)[BODY] == 255).all()
    assert not seen(batch)[FOOD].any()


def test_a_compact_observation_of_a_full_board_shows_no_way_to_food():
    body = deque([(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (2, 1), (1, 1), (0, 1)])
    body += [(0, 2), (1, 2), (2, 2), (3, 2), (3, 3), (2, 3), (1, 3)]
    batch = press(posed(Snake(4, 4, body=body, heading=UP, food=(0, 3)), compact=True), UP)
    assert batch.terminated.item()
    assert seen(batch)[8:13].tolist() == [0, 0, 0, -1, 1]


@pytest.mark.parametrize(("height", "width"), [(4, 4), (4, 32), (32, 4), (12, 12)])
def test_the_spec_follows_the_parameters(height, width):
    planes = snake_engine(height=height, width=width).spec["observation"]
    compact = snake_engine(height=height, width=width, compact=True).spec["observation"]
    assert (planes["dtype"], tuple(planes["shape"])) == ("uint8", (3, height, width))
    assert (compact["dtype"], tuple(compact["shape"])) == ("float", (14,))


@pytest.mark.parametrize("side", ["height", "width"])
@pytest.mark.parametrize("length", [-1, 0, 3, 33])
def test_a_side_outside_4_to_32_is_refused_in_one_sentence(side, length):
    with pytest.raises(ValueError, match=r"height and width must be 4 to 32"):
        snake_engine(**{side: length})


def test_a_negative_starvation_limit_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"starvation must be 0 .* or more"):
        snake_engine(starvation=-1)
