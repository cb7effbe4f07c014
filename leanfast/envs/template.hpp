// MyEnv: a drone whose one engine is either on or off keeps as close as it can to a height of 1 m.
// Each step earns 1 less the distance from there; the episode ends at 0 m and at 2 m.
// `leanfast envs my_env.hpp` builds this file and shows what it offers.
#pragma once

#include "leanfast.hpp"

namespace leanfast::envs {

template <class Real>  // float, and double to check against: write Real(0.5), not 0.5
struct MyEnv {
  // What may be changed without a rebuild (env.params.gravity=1.6), and its default.
  struct Params {
    Real gravity = 9.8;
    LEANFAST_PARAMS(gravity)
  };

  // All that changes from step to step, as plain numbers: no pointers, no containers.
  struct State {
    Real height, speed;
  };

  // What a policy sees, with the lowest and highest of each value, and what it may do.
  static constexpr Spec spec() {
    return {.name = "MyEnv-v0",
            .observation = box({-1, -inf}, {3, inf}),
            .action = discrete(2),  // or continuous(vector(1, -1, 1)): step takes const Real* then
            .max_episode_steps = 200};
  }

  // Every random number comes from rng, so that a seed fixes the whole run.
  LEANFAST_FN static void reset(State& s, const Params&, Rng& rng) {
    s.height = rng.uniform(Real(0.5), Real(1.5));
    s.speed = rng.uniform(Real(-0.5), Real(0.5));
  }

  // Written with `?:` and `|`, the loop over all envs becomes vector code; `if`, `||` and std::sin
  // work too, only slower (leanfast has sin, cos, sqrt, exp, abs, min, max and clip of its own).
  LEANFAST_FN static Outcome<Real> step(State& s, int action, const Params& p, Rng&) {
    const Real dt = Real(0.02), thrust = action == 1 ? Real(20) : Real(0);
    s.speed += dt * (thrust - p.gravity);
    s.height += dt * s.speed;
    const bool lost = (s.height < Real(0)) | (s.height > Real(2));
    return {.reward = 1 - abs(s.height - 1), .terminated = lost};
  }

  LEANFAST_FN static void observe(const State& s, const Params&, Real* out) {
    out[0] = s.height;
    out[1] = s.speed;
  }
};

}  // namespace leanfast::envs

LEANFAST_ENVIRONMENT(leanfast::envs::MyEnv)
