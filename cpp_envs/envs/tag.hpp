// Tag, a pursuit on a bounded plane: agents 0 to chasers - 1 chase, the others run. Actions 0 stay,
// 1 up (+y), 2 down, 3 left, 4 right: the velocity moves by the part `agility` towards the wanted
// one, then the position by dt times the velocity; walls stop an agent. A runner with a chaser
// within `radius` is caught: it gets -1, every chaser +1 (they hunt as a team), and it goes on from
// a random place, at rest. Episodes end by the time limit alone.
// Shaping, if wanted: with d the distance to the nearest opponent as a part of the arena's side, a
// chaser's reward is less by shaping * d and a runner's more by it.
#pragma once

#include "leanfast.hpp"

namespace leanfast::envs {

template <class Real>
struct Tag {
  static constexpr i32 max_players = 16, own_values = 5, other_values = 5;
  enum Action : i32 { stay, up, down, left, right };

  struct Params {
    i32 chasers = 3, runners = 1;
    Real size = 1, radius = 0.1;  // the arena: [-size, size] in x and y
    Real chaser_speed = 1.0, runner_speed = 1.3, agility = 0.5, dt = 0.1;
    Real shaping = 0;
    LEANFAST_PARAMS(chasers, runners, size, radius, chaser_speed, runner_speed, agility, dt,
                    shaping)
  };

  struct State {
    Real x[max_players], y[max_players], x_dot[max_players], y_dot[max_players];
  };

  static const char* check(const Params& p) {
    const auto positive = [](Real value) { return value > 0 && value < Real(inf); };
    if (p.chasers < 1 || p.runners < 1 || p.chasers > max_players - p.runners) {
      return "chasers and runners must each be at least 1, and together at most 16";
    }
    if (!positive(p.size) || !positive(p.radius) || !positive(p.dt)) {
      return "size, radius and dt must be positive";
    }
    if (!positive(p.chaser_speed) || !positive(p.runner_speed)) {
      return "chaser_speed and runner_speed must be positive";
    }
    if (!(p.agility > 0 && p.agility <= 1)) return "agility must be above 0 and at most 1";
    return nullptr;
  }

  static constexpr i32 players(const Params& p) { return p.chasers + p.runners; }

  static constexpr Spec spec(const Params& p) {
    return {.name = "Tag-v1",
            .observation = vector(own_values + other_values * (players(p) - 1), -1, 1),
            .action = discrete(5),
            .agents = players(p),
            .max_episode_steps = 200};
  }

  LEANFAST_FN static bool chases(i32 agent, const Params& p) { return agent < p.chasers; }

  LEANFAST_FN static void put_somewhere(State& s, i32 agent, const Params& p, Rng& rng) {
    s.x[agent] = rng.uniform(-p.size, p.size);
    s.y[agent] = rng.uniform(-p.size, p.size);
    s.x_dot[agent] = s.y_dot[agent] = 0;
  }

  LEANFAST_FN static void reset(State& s, const Params& p, Rng& rng) {
    for (i32 a = 0; a < players(p); ++a) put_somewhere(s, a, p, rng);
  }

  // One axis: towards the wanted velocity, on by dt, and to rest at a wall.
  LEANFAST_FN static void move(Real& x, Real& x_dot, i32 direction, Real speed, const Params& p) {
    const Real wanted = speed * Real(direction);
    x_dot = clip(x_dot + p.agility * (wanted - x_dot), -speed, speed);  // rounding could exceed it
    const Real to = x + p.dt * x_dot;
    x = clip(to, -p.size, p.size);
    x_dot = x == to ? x_dot : Real(0);
  }

  LEANFAST_FN static Real squared_distance(const State& s, i32 a, i32 b) {
    return square(s.x[a] - s.x[b]) + square(s.y[a] - s.y[b]);
  }

  LEANFAST_FN static Real nearest_opponent(const State& s, i32 agent, const Params& p) {
    const i32 first = chases(agent, p) ? p.chasers : 0;
    const i32 last = chases(agent, p) ? players(p) : p.chasers;
    Real nearest = squared_distance(s, agent, first);
    for (i32 other = first + 1; other < last; ++other) {
      nearest = min(nearest, squared_distance(s, agent, other));
    }
    return sqrt(nearest);
  }

  LEANFAST_FN static bool step(State& s, const int* actions, Real* rewards, const Params& p,
                               Rng& rng) {
    for (i32 a = 0; a < players(p); ++a) {
      const Real speed = chases(a, p) ? p.chaser_speed : p.runner_speed;
      move(s.x[a], s.x_dot[a], (actions[a] == right) - (actions[a] == left), speed, p);
      move(s.y[a], s.y_dot[a], (actions[a] == up) - (actions[a] == down), speed, p);
    }

    const Real shaping = p.shaping / (2 * p.size);
    for (i32 a = 0; a < players(p); ++a) {
      const Real share = chases(a, p) ? -shaping : shaping;
      rewards[a] = shaping != 0 ? share * nearest_opponent(s, a, p) : Real(0);
    }

    for (i32 runner = p.chasers; runner < players(p); ++runner) {
      if (nearest_opponent(s, runner, p) > p.radius) continue;
      for (i32 chaser = 0; chaser < p.chasers; ++chaser) rewards[chaser] += 1;
      rewards[runner] -= 1;
      put_somewhere(s, runner, p, rng);
    }
    return false;
  }

  // Of itself: role (1 chaser, -1 runner), position (the walls are at -1 and 1), velocity; of every
  // other agent, by index: role, relative position, relative velocity. Positions are parts of the
  // arena, velocities of the fastest speed, differences are halved: nothing leaves [-1, 1].
  LEANFAST_FN static void observe(const State& s, const Params& p, int agent, Real* out) {
    const Real per_size = 1 / p.size, per_speed = 1 / max(p.chaser_speed, p.runner_speed);
    out[0] = chases(agent, p) ? Real(1) : Real(-1);
    out[1] = s.x[agent] * per_size;
    out[2] = s.y[agent] * per_size;
    out[3] = s.x_dot[agent] * per_speed;
    out[4] = s.y_dot[agent] * per_speed;
    out += own_values;
    for (i32 other = 0; other < players(p); ++other) {
      if (other == agent) continue;
      out[0] = chases(other, p) ? Real(1) : Real(-1);
      out[1] = (s.x[other] - s.x[agent]) * per_size * Real(0.5);
      out[2] = (s.y[other] - s.y[agent]) * per_size * Real(0.5);
      out[3] = (s.x_dot[other] - s.x_dot[agent]) * per_speed * Real(0.5);
      out[4] = (s.y_dot[other] - s.y_dot[agent]) * per_speed * Real(0.5);
      out += other_values;
    }
  }
};

}  // namespace leanfast::envs

LEANFAST_ENVIRONMENT(leanfast::envs::Tag)
