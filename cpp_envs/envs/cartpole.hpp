// CartPole-v1 (Barto, Sutton & Anderson 1983), as Gymnasium defines it: balance a pole on a cart by
// pushing the cart left or right. Reward 1 for every step; ends when the pole or the cart strays.
#pragma once

#include "leanfast.hpp"

namespace leanfast::envs {

template <class Real>
struct CartPole {
  struct Params {
    Real gravity = 9.8, masscart = 1.0, masspole = 0.1, length = 0.5;  // length: half the pole's
    Real force_mag = 10.0, tau = 0.02;
    LEANFAST_PARAMS(gravity, masscart, masspole, length, force_mag, tau)
  };

  struct State {
    Real x, x_dot, theta, theta_dot;
  };

  static constexpr double x_limit = 2.4, theta_limit = 12 * 2 * pi / 360;

  static constexpr Spec spec() {
    return {.name = "CartPole-v1",
            .observation = box({-2 * x_limit, -inf, -2 * theta_limit, -inf},
                               {2 * x_limit, inf, 2 * theta_limit, inf}),
            .action = discrete(2),
            .max_episode_steps = 500};
  }

  LEANFAST_FN static void reset(State& s, const Params&, Rng& rng) {
    s.x = rng.uniform(Real(-0.05), Real(0.05));
    s.x_dot = rng.uniform(Real(-0.05), Real(0.05));
    s.theta = rng.uniform(Real(-0.05), Real(0.05));
    s.theta_dot = rng.uniform(Real(-0.05), Real(0.05));
  }

  LEANFAST_FN static Outcome<Real> step(State& s, int action, const Params& p, Rng&) {
    const Divisor<Real> total_mass(p.masspole + p.masscart);
    const Real polemass_length = p.masspole * p.length;
    const Real force = action == 1 ? p.force_mag : -p.force_mag;
    const auto [sin, cos] = sin_cos(s.theta);

    const Real temp = (force + polemass_length * square(s.theta_dot) * sin) / total_mass;
    const Real theta_acc = (p.gravity * sin - cos * temp) /
                           (p.length * (Real(4.0 / 3.0) - p.masspole * square(cos) / total_mass));
    const Real x_acc = temp - polemass_length * theta_acc * cos / total_mass;

    s.x = s.x + p.tau * s.x_dot;
    s.x_dot = s.x_dot + p.tau * x_acc;
    s.theta = s.theta + p.tau * s.theta_dot;
    s.theta_dot = s.theta_dot + p.tau * theta_acc;

    const bool fell = (s.x < Real(-x_limit)) | (s.x > Real(x_limit)) |
                      (s.theta < Real(-theta_limit)) | (s.theta > Real(theta_limit));
    return {.reward = Real(1), .terminated = fell};
  }

  LEANFAST_FN static void observe(const State& s, const Params&, Real* out) {
    out[0] = s.x;
    out[1] = s.x_dot;
    out[2] = s.theta;
    out[3] = s.theta_dot;
  }
};

}  // namespace leanfast::envs

LEANFAST_ENVIRONMENT(leanfast::envs::CartPole)
