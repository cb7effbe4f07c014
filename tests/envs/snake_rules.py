"""The rules of Snake in plain Python: a second, independent definition to hold the engine to."""

import random
from collections import deque
from dataclasses import dataclass, field

import numpy as np

MOVES = [(-1, 0), (0, 1), (1, 0), (0, -1)]  # up, right, down, left
HEAD, BODY, FOOD = range(3)
Cell = tuple[int, int]

# Snake's State, for tests that start from a position of their own.
STATE = np.dtype(
    [(name, "i4") for name in ("row", "column", "heading", "tail", "food", "length", "hunger")]
    + [("body", "u1", 32 * 32)]
)


@dataclass
class Snake:
    height: int
    width: int
    starvation: int = 0
    food_reward: float = 1.0
    death_reward: float = -1.0
    step_reward: float = 0.0
    body: deque[Cell] = field(default_factory=deque)  # from the tail to the head
    heading: int = 1
    food: Cell | None = None
    hungry_for: int = 0
    fate: str = ""  # how the last step ended, or went on

    def begin(self, food: Cell) -> None:
        middle = self.height // 2, self.width // 2
        self.body = deque((middle[0], middle[1] - back) for back in (2, 1, 0))
        self.heading, self.food, self.hungry_for = 1, food, 0

    @property
    def patience(self) -> int:
        return self.starvation or self.height * self.width

    def ahead(self, heading: int) -> Cell:
        (row, column), (down, right) = self.body[-1], MOVES[heading]
        return row + down, column + right

    def deadly(self, cell: Cell) -> bool:
        inside = 0 <= cell[0] < self.height and 0 <= cell[1] < self.width
        return not inside or cell in list(self.body)[1:]

    def step(self, action: int) -> tuple[float, bool]:
        """Reward and terminated; after a meal `food` is None until the caller says where it is."""
        if self.ahead(action) != self.body[-2]:
            self.heading = action
        cell = self.ahead(self.heading)
        if self.deadly(cell):
            self.fate = "self" if cell in self.body else "wall"
            return self.step_reward + self.death_reward, True
        self.body.append(cell)
        if cell == self.food:
            self.food, self.hungry_for = None, 0
            won = len(self.body) == self.height * self.width
            self.fate = "won" if won else "ate"
            return self.step_reward + self.food_reward, won
        self.body.popleft()
        self.hungry_for += 1
        starved = self.hungry_for >= self.patience
        self.fate = "starved" if starved else "went on"
        return self.step_reward + (self.death_reward if starved else 0), starved

    def planes(self) -> np.ndarray:
        planes = np.zeros((3, self.height, self.width), np.uint8)
        for cell in self.body:
            planes[(BODY, *cell)] = 255
        planes[(BODY, *self.body[-1])] = 0
        planes[(HEAD, *self.body[-1])] = 255
        if self.food is not None:
            planes[(FOOD, *self.food)] = 255
        return planes

    def compact(self) -> np.ndarray:
        head, tail, food = self.body[-1], self.body[0], self.food or self.body[-1]
        return np.array(
            [
                *(self.heading == side for side in range(4)),
                *(self.deadly(self.ahead(side)) for side in range(4)),
                (food[0] - head[0]) / (self.height - 1),
                (food[1] - head[1]) / (self.width - 1),
                (tail[0] - head[0]) / (self.height - 1),
                (tail[1] - head[1]) / (self.width - 1),
                len(self.body) / (self.height * self.width),
                self.hungry_for / self.patience,
            ]
        )

    def hunt(self, rng: random.Random) -> int:
        """Mostly towards the food, mostly alive, at times anything at all."""
        if rng.random() < 0.03:
            return rng.randrange(4)
        safe = [side for side in range(4) if not self.deadly(self.ahead(side))]
        if not safe or self.food is None or rng.random() < 0.05:
            return rng.choice(safe or range(4))
        row, column = self.food
        return min(safe, key=lambda s: abs(self.ahead(s)[0] - row) + abs(self.ahead(s)[1] - column))


def food_in(planes: np.ndarray) -> Cell | None:
    """Where the planes show the food; more than one is a failure."""
    cells = np.argwhere(planes[FOOD])
    assert len(cells) <= 1
    return tuple(cells[0].tolist()) if len(cells) else None


def state_of(snake: Snake) -> np.ndarray:
    """The engine's State for this position, as bytes."""
    state = np.zeros((), STATE)
    body = list(snake.body)
    (state["row"], state["column"]), state["heading"] = body[-1], snake.heading
    state["tail"] = body[0][0] * snake.width + body[0][1]
    state["food"] = -1 if snake.food is None else snake.food[0] * snake.width + snake.food[1]
    state["length"], state["hunger"] = len(body), snake.hungry_for
    for (row, column), after in zip(body, [*body[1:], snake.ahead(snake.heading)], strict=True):
        side = MOVES.index((after[0] - row, after[1] - column))
        state["body"][row * snake.width + column] = 1 + side
    return state.reshape(1).view(np.uint8)
