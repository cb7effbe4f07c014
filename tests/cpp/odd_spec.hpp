// For the tests of what a spec may say: its sizes are whatever the parameters ask for.
#pragma once

#include "leanfast.hpp"

template <class Real>
struct OddSpec {
  struct Params {
    int rank = 2, rows = 3, columns = 4, bounds = 1, actions = 2;
    LEANFAST_PARAMS(rank, rows, columns, bounds, actions)
  };
  struct State {
    int steps;
  };

  static constexpr leanfast::Spec spec(const Params& p) {
    leanfast::Box seen = leanfast::vector(1, 0, 1);
    seen.rank = p.rank;
    seen.shape[0] = p.rows;
    seen.shape[1] = p.columns;
    seen.bounds = p.bounds;
    leanfast::Box taken = leanfast::vector(p.actions, -1, 1);
    return {.name = "Odd-v0", .observation = seen, .action = leanfast::continuous(taken)};
  }
  static void reset(State& s, const Params&, leanfast::Rng&) { s.steps = 0; }
  static leanfast::Outcome<Real> step(State& s, const Real*, const Params&, leanfast::Rng&) {
    return {static_cast<Real>(++s.steps), false};
  }
  static void observe(const State&, const Params& p, Real* out) {
    for (int i = 0; i < p.rows * p.columns; ++i) out[i] = 0;
  }
};

LEANFAST_ENVIRONMENT(OddSpec)
