// Observes which of its cells is the k-th free one; every third cell is taken.
#pragma once

#include "leanfast.hpp"

template <class Real>
struct FreeCell {
  struct Params {
    int k = 0;
    LEANFAST_PARAMS(k)
  };

  struct State {
    leanfast::i32 found;
    leanfast::u8 taken[1024];
  };

  static constexpr leanfast::Spec spec() {
    return {.name = "FreeCell-v0",
            .observation = leanfast::box({0}, {1024}),
            .action = leanfast::discrete(2)};
  }

  LEANFAST_FN static void reset(State& s, const Params& p, leanfast::Rng&) {
    for (int cell = 0; cell < 1024; ++cell) s.taken[cell] = cell % 3 == 0;
    int cell = 0, to_skip = p.k;
    for (; to_skip > 0 || s.taken[cell] != 0; ++cell) to_skip -= s.taken[cell] == 0;
    s.found = cell;
  }

  LEANFAST_FN static leanfast::Outcome<Real> step(State&, int, const Params&, leanfast::Rng&) {
    return {.reward = 0, .terminated = false};
  }

  LEANFAST_FN static void observe(const State& s, const Params&, Real* out) {
    out[0] = Real(s.found);
  }
};

LEANFAST_ENVIRONMENT(FreeCell)
