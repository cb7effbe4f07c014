// Observes (env steps taken in this episode, a number drawn at reset); ends after `length` steps.
#pragma once

#include "leanfast.hpp"

template <class Real>
struct Counter {
  struct Params {
    int length = 1000;
    LEANFAST_PARAMS(length)
  };

  struct State {
    Real steps, drawn;
  };

  static constexpr leanfast::Spec spec() {
    return {.name = "Counter-v0",
            .observation = leanfast::box({0, 0}, {leanfast::inf, 1}),
            .action = leanfast::discrete(2)};
  }

  LEANFAST_FN static void reset(State& s, const Params&, leanfast::Rng& rng) {
    s = {.steps = 0, .drawn = rng.uniform(Real(0), Real(1))};
  }

  LEANFAST_FN static leanfast::Outcome<Real> step(State& s, int action, const Params& p,
                                                  leanfast::Rng&) {
    s.steps += 1;
    return {.reward = Real(action), .terminated = s.steps >= Real(p.length)};
  }

  LEANFAST_FN static void observe(const State& s, const Params&, Real* out) {
    out[0] = s.steps;
    out[1] = s.drawn;
  }
};

LEANFAST_ENVIRONMENT(Counter)
