// What an environment tells about itself: names, shapes, bounds, limits. Plain data.
#pragma once

#include "engine/platform.hpp"

namespace leanfast {

inline constexpr int max_rank = 4;
inline constexpr int max_bounds = 32;  // values with bounds of their own; more share one pair
inline constexpr int max_agents = 128;

enum class Dtype : i32 { real, u8 };  // real: float32, or float64 in a float64 engine

struct Box {
  Dtype dtype;
  i32 rank;
  i32 shape[max_rank];
  i32 bounds;  // how many (low, high) pairs follow: one for each value, or one for all
  double low[max_bounds], high[max_bounds];

  constexpr i32 size() const {
    i32 n = 1;
    for (i32 d = 0; d < rank; ++d) n *= shape[d];
    return n;
  }
};

struct Actions {
  i32 n;       // discrete: 0, ..., n - 1
  Box values;  // continuous, where n is 0

  constexpr bool is_discrete() const { return n > 0; }
  constexpr i32 size() const { return is_discrete() ? 1 : values.size(); }
};

struct Spec {
  const char* name;
  Box observation;
  Actions action;
  i32 agents = 1;
  i32 max_episode_steps = 0;  // 0: no limit
};

// A vector whose values have bounds of their own: box({-1, -inf}, {1, inf}).
template <int N>
constexpr Box box(const double (&low)[N], const double (&high)[N]) {
  static_assert(N <= max_bounds, "leanfast: box() takes at most 32 values; use vector()");
  Box b{Dtype::real, 1, {N}, N, {}, {}};
  for (int i = 0; i < N; ++i) b.low[i] = low[i], b.high[i] = high[i];
  return b;
}

// A vector of n values that share their bounds.
constexpr Box vector(i32 n, double low, double high) {
  return {Dtype::real, 1, {n}, 1, {low}, {high}};
}

// Image planes of bytes, 0 to 255.
constexpr Box planes(i32 channels, i32 height, i32 width) {
  return {Dtype::u8, 3, {channels, height, width}, 1, {0}, {255}};
}

constexpr Actions discrete(i32 n) { return {n, {}}; }
constexpr Actions continuous(const Box& values) { return {0, values}; }

}  // namespace leanfast

// Names a parameter struct's fields, in the order of their declaration:
//   struct Params { Real gravity = 9.8; i32 size = 12; LEANFAST_PARAMS(gravity, size) };
#define LEANFAST_PARAMS(...)                               \
  static constexpr const char* param_names = #__VA_ARGS__; \
  template <class Visitor>                                 \
  void each_param(Visitor&& visit) {                       \
    visit(__VA_ARGS__);                                    \
  }
