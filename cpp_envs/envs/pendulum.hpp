// Pendulum-v1, as Gymnasium defines it: swing a pendulum up with a weak motor and hold it there.
// The angle is 0 upright; the reward is minus a cost of angle, speed and torque; it never
// terminates.
#pragma once

#include "leanfast.hpp"

namespace leanfast::envs {

template <class Real>
struct Pendulum {
  struct Params {
    Real gravity = 10.0, mass = 1.0, length = 1.0;
    Real max_speed = 8.0, max_torque = 2.0, dt = 0.05;
    LEANFAST_PARAMS(gravity, mass, length, max_speed, max_torque, dt)
  };

  struct State {
    Real theta, theta_dot;
  };

  static constexpr Spec spec(const Params& p) {
    const double speed = p.max_speed, torque = p.max_torque;
    return {.name = "Pendulum-v1",
            .observation = box({-1, -1, -speed}, {1, 1, speed}),
            .action = continuous(vector(1, -torque, torque)),
            .max_episode_steps = 200};
  }

  static constexpr Spec spec() {
    Params defaults;
    return spec(defaults);
  }

  LEANFAST_FN static void reset(State& s, const Params&, Rng& rng) {
    s.theta = rng.uniform(Real(-pi), Real(pi));
    s.theta_dot = rng.uniform(Real(-1), Real(1));
  }

  LEANFAST_FN static Outcome<Real> step(State& s, const Real* action, const Params& p, Rng&) {
    const Real torque = clip(action[0], -p.max_torque, p.max_torque);
    const Real cost = square(wrap_angle(s.theta)) + Real(0.1) * square(s.theta_dot) +
                      Real(0.001) * square(torque);

    const Real pull = 3 * p.gravity / (2 * p.length), push = 3 / (p.mass * square(p.length));
    const Real theta_acc = pull * sin(s.theta) + push * torque;
    s.theta_dot = clip(s.theta_dot + theta_acc * p.dt, -p.max_speed, p.max_speed);
    s.theta = s.theta + s.theta_dot * p.dt;
    return {.reward = -cost, .terminated = false};
  }

  LEANFAST_FN static void observe(const State& s, const Params&, Real* out) {
    const auto [sin, cos] = sin_cos(s.theta);
    out[0] = cos;
    out[1] = sin;
    out[2] = s.theta_dot;
  }
};

}  // namespace leanfast::envs

LEANFAST_ENVIRONMENT(leanfast::envs::Pendulum)
