// Acrobot-v1 (Sutton 1996, the book's equations), as Gymnasium defines it: two links hang from a
// pivot, a motor at the joint between them swings the tip up to one link's length above the pivot.
// Angles are 0 hanging down. Reward -1 for every step but the last, which is 0.
#pragma once

#include "leanfast.hpp"

namespace leanfast::envs {

template <class Real>
struct Acrobot {
  struct Params {
    Real gravity = 9.8, torque = 1.0, dt = 0.2;
    Real link_length_1 = 1.0, link_mass_1 = 1.0, link_mass_2 = 1.0;
    Real link_com_pos_1 = 0.5, link_com_pos_2 = 0.5, link_moi = 1.0;
    Real max_vel_1 = 4 * pi, max_vel_2 = 9 * pi;
    LEANFAST_PARAMS(gravity, torque, dt, link_length_1, link_mass_1, link_mass_2, link_com_pos_1,
                    link_com_pos_2, link_moi, max_vel_1, max_vel_2)
  };

  struct State {
    Real theta_1, theta_2, theta_dot_1, theta_dot_2;
  };

  static constexpr Spec spec(const Params& p) {
    const double speed_1 = p.max_vel_1, speed_2 = p.max_vel_2;
    return {
        .name = "Acrobot-v1",
        .observation = box({-1, -1, -1, -1, -speed_1, -speed_2}, {1, 1, 1, 1, speed_1, speed_2}),
        .action = discrete(3),
        .max_episode_steps = 500};
  }

  static constexpr Spec spec() {
    Params defaults;
    return spec(defaults);
  }

  LEANFAST_FN static void reset(State& s, const Params&, Rng& rng) {
    s.theta_1 = rng.uniform(Real(-0.1), Real(0.1));
    s.theta_2 = rng.uniform(Real(-0.1), Real(0.1));
    s.theta_dot_1 = rng.uniform(Real(-0.1), Real(0.1));
    s.theta_dot_2 = rng.uniform(Real(-0.1), Real(0.1));
  }

  // d(state)/dt: the mass matrix [d1 d2; d2 d3] times the angular accelerations equals the moments
  // on the two joints, solved by Cramer's rule.
  LEANFAST_FN static State derivative(const State& s, Real torque, const Params& p) {
    const Real m1 = p.link_mass_1, m2 = p.link_mass_2, moi = p.link_moi;
    const Real l1 = p.link_length_1, lc1 = p.link_com_pos_1, lc2 = p.link_com_pos_2;
    const Real coupling = m2 * l1 * lc2, d3 = m2 * square(lc2) + moi;
    const auto [sin_1, cos_1] = sin_cos(s.theta_1);
    const auto [sin_2, cos_2] = sin_cos(s.theta_2);
    const Real sin_12 = sin_1 * cos_2 + cos_1 * sin_2;

    const Real d1 = (m1 * square(lc1) + m2 * square(l1) + moi + d3) + 2 * coupling * cos_2;
    const Real d2 = d3 + coupling * cos_2;
    const Real phi_2 = m2 * lc2 * p.gravity * sin_12;
    const Real phi_1 = (m1 * lc1 + m2 * l1) * p.gravity * sin_1 + phi_2 -
                       coupling * sin_2 * (s.theta_dot_2 * (s.theta_dot_2 + 2 * s.theta_dot_1));
    const Real moment_2 = torque - coupling * sin_2 * square(s.theta_dot_1) - phi_2;

    const Real per_determinant = 1 / (d1 * d3 - square(d2));
    return {s.theta_dot_1, s.theta_dot_2, -(d3 * phi_1 + d2 * moment_2) * per_determinant,
            (d2 * phi_1 + d1 * moment_2) * per_determinant};
  }

  LEANFAST_FN static State advance(const State& s, const State& rate, Real time) {
    return {s.theta_1 + time * rate.theta_1, s.theta_2 + time * rate.theta_2,
            s.theta_dot_1 + time * rate.theta_dot_1, s.theta_dot_2 + time * rate.theta_dot_2};
  }

  LEANFAST_FN static State runge_kutta(const State& s, Real torque, const Params& p) {
    const Real half = p.dt / 2, sixth = p.dt / 6;
    const State k1 = derivative(s, torque, p);
    const State k2 = derivative(advance(s, k1, half), torque, p);
    const State k3 = derivative(advance(s, k2, half), torque, p);
    const State k4 = derivative(advance(s, k3, p.dt), torque, p);
    return advance(s, advance(advance(advance(k1, k2, 2), k3, 2), k4, 1), sixth);
  }

  LEANFAST_FN static Outcome<Real> step(State& s, int action, const Params& p, Rng&) {
    const State next = runge_kutta(s, static_cast<Real>(action - 1) * p.torque, p);
    s.theta_1 = wrap_angle(next.theta_1);
    s.theta_2 = wrap_angle(next.theta_2);
    s.theta_dot_1 = clip(next.theta_dot_1, -p.max_vel_1, p.max_vel_1);
    s.theta_dot_2 = clip(next.theta_dot_2, -p.max_vel_2, p.max_vel_2);

    const auto [sin_1, cos_1] = sin_cos(s.theta_1);
    const auto [sin_2, cos_2] = sin_cos(s.theta_2);
    const Real cos_12 = cos_1 * cos_2 - sin_1 * sin_2;
    const bool swung_up = -cos_1 - cos_12 > 1;
    return {.reward = swung_up ? Real(0) : Real(-1), .terminated = swung_up};
  }

  LEANFAST_FN static void observe(const State& s, const Params&, Real* out) {
    const auto [sin_1, cos_1] = sin_cos(s.theta_1);
    const auto [sin_2, cos_2] = sin_cos(s.theta_2);
    out[0] = cos_1;
    out[1] = sin_1;
    out[2] = cos_2;
    out[3] = sin_2;
    out[4] = s.theta_dot_1;
    out[5] = s.theta_dot_2;
  }
};

}  // namespace leanfast::envs

LEANFAST_ENVIRONMENT(leanfast::envs::Acrobot)
