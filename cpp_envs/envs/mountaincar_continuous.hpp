// MountainCarContinuous-v0, as Gymnasium defines it: the car that rocks its way up the hill, driven
// by a force from -1 to 1. Reward 100 at the flag, less a tenth of the force's square at each step.
// (Gymnasium rounds the state to float32 after each step; here it keeps the engine's precision.)
#pragma once

#include "leanfast.hpp"

namespace leanfast::envs {

template <class Real>
struct MountainCarContinuous {
  struct Params {
    Real min_position = -1.2, max_position = 0.6, max_speed = 0.07;
    Real goal_position = 0.45, goal_velocity = 0.0;
    Real power = 0.0015, gravity = 0.0025;
    LEANFAST_PARAMS(min_position, max_position, max_speed, goal_position, goal_velocity, power,
                    gravity)
  };

  struct State {
    Real position, velocity;
  };

  static constexpr Spec spec(const Params& p) {
    const double left = p.min_position, right = p.max_position, speed = p.max_speed;
    return {.name = "MountainCarContinuous-v0",
            .observation = box({left, -speed}, {right, speed}),
            .action = continuous(vector(1, -1, 1)),
            .max_episode_steps = 999};
  }

  static constexpr Spec spec() {
    Params defaults;
    return spec(defaults);
  }

  LEANFAST_FN static void reset(State& s, const Params&, Rng& rng) {
    s.position = rng.uniform(Real(-0.6), Real(-0.4));
    s.velocity = 0;
  }

  LEANFAST_FN static Outcome<Real> step(State& s, const Real* action, const Params& p, Rng&) {
    const Real push = clip(action[0], Real(-1), Real(1)) * p.power;
    const Real slope = cos(3 * s.position);
    const Real velocity = clip(s.velocity + (push - p.gravity * slope), -p.max_speed, p.max_speed);
    s.position = clip(s.position + velocity, p.min_position, p.max_position);
    const bool hit_wall = (s.position == p.min_position) & (velocity < 0);
    s.velocity = hit_wall ? Real(0) : velocity;

    const bool reached = (s.position >= p.goal_position) & (s.velocity >= p.goal_velocity);
    const Real prize = reached ? Real(100) : Real(0);
    return {.reward = prize - square(action[0]) * Real(0.1), .terminated = reached};
  }

  LEANFAST_FN static void observe(const State& s, const Params&, Real* out) {
    out[0] = s.position;
    out[1] = s.velocity;
  }
};

}  // namespace leanfast::envs

LEANFAST_ENVIRONMENT(leanfast::envs::MountainCarContinuous)
