// For the stress program and the tests of interruption: a step that sleeps for as many
// milliseconds as its action says, and a reset for as many as a parameter says.
#pragma once

#include <chrono>
#include <thread>

#include "leanfast.hpp"

template <class Real>
struct Slow {
  struct Params {
    int reset_ms = 0;
    LEANFAST_PARAMS(reset_ms)
  };
  struct State {
    int steps;
  };

  static constexpr leanfast::Spec spec() {
    return {.name = "Slow-v0",
            .observation = leanfast::vector(1, 0, 1e9),
            .action = leanfast::discrete(1001)};
  }
  static void reset(State& s, const Params& p, leanfast::Rng&) {
    if (p.reset_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(p.reset_ms));
    s.steps = 0;
  }
  static leanfast::Outcome<Real> step(State& s, int action, const Params&, leanfast::Rng&) {
    if (action > 0) std::this_thread::sleep_for(std::chrono::milliseconds(action));
    return {static_cast<Real>(++s.steps), false};
  }
  static void observe(const State& s, const Params&, Real* out) {
    out[0] = static_cast<Real>(s.steps);
  }
};

LEANFAST_ENVIRONMENT(Slow)
