// Snake on a height x width grid. Actions 0 up, 1 right, 2 down, 3 left; pressing towards the neck
// is ignored, and the snake goes straight on. Eating lengthens the snake by one cell at once. The
// episode ends (terminated) when the head meets a wall or the body, after `starvation` steps
// without food, and when the snake fills the board. Moving where the tail leaves in the same step
// is legal. Every step earns step_reward; food adds food_reward; dying, of hunger too, adds
// death_reward. A snake that dies of a collision is last seen where it stood before.
#pragma once

#include "leanfast.hpp"

namespace leanfast::envs {

template <class Real>
struct Snake {
  static constexpr i32 min_side = 4, max_side = 32, start_length = 3, no_food = -1;
  enum Heading : i32 { up, right, down, left };

  struct Params {
    i32 height = 12, width = 12;
    i32 starvation = 0;    // 0: height * width, what a tour of the whole board takes
    bool compact = false;  // 14 numbers instead of the planes
    Real food_reward = 1, death_reward = -1, step_reward = 0;
    LEANFAST_PARAMS(height, width, starvation, compact, food_reward, death_reward, step_reward)
  };

  struct State {
    i32 row, column, heading;  // of the head
    i32 tail, food;            // cell = row * width + column
    i32 length, hunger;
    u8 body[max_side * max_side];  // by cell: 0, or 1 + the heading in which the body goes on
  };

  static const char* check(const Params& p) {
    if (p.height < min_side || p.height > max_side || p.width < min_side || p.width > max_side) {
      return "height and width must be 4 to 32";
    }
    return p.starvation < 0 ? "starvation must be 0 (height * width steps) or more" : nullptr;
  }

  static constexpr Spec spec(const Params& p) {
    return {.name = "Snake-v1",
            .observation = p.compact ? vector(14, -1, 1) : planes(3, p.height, p.width),
            .action = discrete(4),
            .max_episode_steps = 10'000};
  }

  LEANFAST_FN static i32 row_step(i32 heading) { return (heading == down) - (heading == up); }
  LEANFAST_FN static i32 column_step(i32 heading) { return (heading == right) - (heading == left); }

  // The tail's cell is free by the time the head gets there.
  LEANFAST_FN static bool blocked(const State& s, i32 row, i32 column, const Params& p) {
    if ((row < 0) | (row >= p.height) | (column < 0) | (column >= p.width)) return true;
    const i32 cell = row * p.width + column;
    return (s.body[cell] != 0) & (cell != s.tail);
  }

  LEANFAST_FN static i32 patience(const Params& p) {
    return p.starvation > 0 ? p.starvation : p.height * p.width;
  }

  LEANFAST_FN static void place_food(State& s, const Params& p, Rng& rng) {
    i32 cell = -1;
    for (i32 ahead = 1 + rng.below(p.height * p.width - s.length); ahead > 0;) {
      ahead -= s.body[++cell] == 0;
    }
    s.food = cell;
  }

  LEANFAST_FN static void reset(State& s, const Params& p, Rng& rng) {
    for (i32 cell = 0; cell < p.height * p.width; ++cell) s.body[cell] = 0;
    s.row = p.height / 2;
    s.column = p.width / 2;
    s.heading = right;
    s.length = start_length;
    s.hunger = 0;
    s.tail = s.row * p.width + s.column - (start_length - 1);
    for (i32 k = 0; k < start_length; ++k) s.body[s.tail + k] = 1 + right;
    place_food(s, p, rng);
  }

  LEANFAST_FN static Outcome<Real> step(State& s, int action, const Params& p, Rng& rng) {
    const i32 opposite = s.heading ^ 2;
    const i32 heading = action == opposite ? s.heading : action;
    const i32 row = s.row + row_step(heading), column = s.column + column_step(heading);
    if (blocked(s, row, column, p)) return {p.step_reward + p.death_reward, true};

    const i32 from = s.row * p.width + s.column, to = row * p.width + column;
    const bool eats = to == s.food;
    s.body[from] = static_cast<u8>(1 + heading);
    if (!eats) {
      const i32 tail_heading = s.body[s.tail] - 1;
      s.body[s.tail] = 0;
      s.tail += row_step(tail_heading) * p.width + column_step(tail_heading);
    }
    s.body[to] = static_cast<u8>(1 + heading);
    s.row = row;
    s.column = column;
    s.heading = heading;

    if (!eats) {
      s.hunger += 1;
      const bool starves = s.hunger >= patience(p);
      return {starves ? p.step_reward + p.death_reward : p.step_reward, starves};
    }
    s.length += 1;
    s.hunger = 0;
    const bool wins = s.length == p.height * p.width;
    if (wins) {
      s.food = no_food;
    } else {
      place_food(s, p, rng);
    }
    return {p.step_reward + p.food_reward, wins};
  }

  // Planes of 0 and 255: the head, the rest of the body, the food.
  LEANFAST_FN static void observe(const State& s, const Params& p, u8* out) {
    const i32 cells = p.height * p.width, head = s.row * p.width + s.column, food = s.food;
    for (i32 k = 0; k < 3 * cells; ++k) out[k] = 0;
    for (i32 cell = 0; cell < cells; ++cell) out[cells + cell] = s.body[cell] != 0 ? 255 : 0;
    out[head] = 255;
    out[cells + head] = 0;
    if (food != no_food) out[2 * cells + food] = 255;
  }

  // heading as one of four [0..3]; which neighbours are deadly: up, right, down, left [4..7]; rows
  // and columns to the food [8, 9] and to the tail [10, 11], as parts of the largest possible;
  // length as a part of the board [12]; hunger as a part of what the snake endures [13].
  LEANFAST_FN static void observe(const State& s, const Params& p, Real* out) {
    const Real per_row = 1 / Real(p.height - 1), per_column = 1 / Real(p.width - 1);
    const i32 head = s.row * p.width + s.column, food = s.food == no_food ? head : s.food;
    for (i32 side = up; side <= left; ++side) {
      out[side] = Real(s.heading == side);
      out[4 + side] = Real(blocked(s, s.row + row_step(side), s.column + column_step(side), p));
    }
    out[8] = Real(food / p.width - s.row) * per_row;
    out[9] = Real(food % p.width - s.column) * per_column;
    out[10] = Real(s.tail / p.width - s.row) * per_row;
    out[11] = Real(s.tail % p.width - s.column) * per_column;
    out[12] = Real(s.length) / Real(p.height * p.width);
    out[13] = Real(s.hunger) / Real(patience(p));
  }
};

}  // namespace leanfast::envs

LEANFAST_ENVIRONMENT(leanfast::envs::Snake)
