// For the stress program: actions 36 and 37 throw, and every reset where a parameter says so.
#pragma once

#include <stdexcept>

#include "leanfast.hpp"

template <class Real>
struct Throwing {
  struct Params {
    int on_reset = 0;
    LEANFAST_PARAMS(on_reset)
  };
  struct State {
    int steps;
  };

  static constexpr leanfast::Spec spec() {
    return {.name = "Throwing-v0",
            .observation = leanfast::vector(1, 0, 1e9),
            .action = leanfast::discrete(38),
            .max_episode_steps = 2};
  }
  static void reset(State& s, const Params& p, leanfast::Rng&) {
    if (p.on_reset != 0) throw std::runtime_error("no reset today");
    s.steps = 0;
  }
  static leanfast::Outcome<Real> step(State& s, int action, const Params&, leanfast::Rng&) {
    if (action == 37) throw std::runtime_error("action 37 is one too many");
    if (action == 36) throw 36;
    return {static_cast<Real>(++s.steps), false};
  }
  static void observe(const State& s, const Params&, Real* out) {
    out[0] = static_cast<Real>(s.steps);
  }
};

LEANFAST_ENVIRONMENT(Throwing)
