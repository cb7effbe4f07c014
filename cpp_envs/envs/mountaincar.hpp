// MountainCar-v0 (Moore 1990), as Gymnasium defines it: a car too weak for the hill rocks back and
// forth to reach the flag on its top. Reward -1 for every step; ends at the flag.
#pragma once

#include "leanfast.hpp"

namespace leanfast::envs {

template <class Real>
struct MountainCar {
  struct Params {
    Real min_position = -1.2, max_position = 0.6, max_speed = 0.07;
    Real goal_position = 0.5, goal_velocity = 0.0;
    Real force = 0.001, gravity = 0.0025;
    LEANFAST_PARAMS(min_position, max_position, max_speed, goal_position, goal_velocity, force,
                    gravity)
  };

  struct State {
    Real position, velocity;
  };

  static constexpr Spec spec(const Params& p) {
    const double left = p.min_position, right = p.max_position, speed = p.max_speed;
    return {.name = "MountainCar-v0",
            .observation = box({left, -speed}, {right, speed}),
            .action = discrete(3),
            .max_episode_steps = 200};
  }

  static constexpr Spec spec() {
    Params defaults;
    return spec(defaults);
  }

  LEANFAST_FN static void reset(State& s, const Params&, Rng& rng) {
    s.position = rng.uniform(Real(-0.6), Real(-0.4));
    s.velocity = 0;
  }

  LEANFAST_FN static Outcome<Real> step(State& s, int action, const Params& p, Rng&) {
    const Real push = static_cast<Real>(action - 1) * p.force;
    const Real slope = cos(3 * s.position);
    const Real velocity = clip(s.velocity + (push - slope * p.gravity), -p.max_speed, p.max_speed);
    s.position = clip(s.position + velocity, p.min_position, p.max_position);
    const bool hit_wall = (s.position == p.min_position) & (velocity < 0);
    s.velocity = hit_wall ? Real(0) : velocity;

    const bool reached = (s.position >= p.goal_position) & (s.velocity >= p.goal_velocity);
    return {.reward = Real(-1), .terminated = reached};
  }

  LEANFAST_FN static void observe(const State& s, const Params&, Real* out) {
    out[0] = s.position;
    out[1] = s.velocity;
  }
};

}  // namespace leanfast::envs

LEANFAST_ENVIRONMENT(leanfast::envs::MountainCar)
