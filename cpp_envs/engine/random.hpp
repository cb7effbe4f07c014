// Counter-based random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", 2011). A draw is a function of (seed, env, episode, step, how many draws came before in
// this call) and of nothing else, so thread counts and scheduling cannot change a trajectory.
#pragma once

#include "engine/platform.hpp"

namespace leanfast {

struct Philox {
  u32 word[4];

  LEANFAST_FN static constexpr Philox block(u64 seed, u32 c0, u32 c1, u32 c2, u32 c3) {
    u32 key0 = static_cast<u32>(seed), key1 = static_cast<u32>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const u64 p0 = u64{0xD2511F53u} * c0, p1 = u64{0xCD9E8D57u} * c2;
      c0 = static_cast<u32>(p1 >> 32) ^ c1 ^ key0;
      c2 = static_cast<u32>(p0 >> 32) ^ c3 ^ key1;
      c1 = static_cast<u32>(p1);
      c3 = static_cast<u32>(p0);
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
  }
};

// The generator that reset (step 0) and step (1, 2, ...) receive.
class Rng {
 public:
  LEANFAST_FN constexpr Rng(u64 seed, u32 env, u32 episode, u32 step)
      : seed_(seed), env_(env), episode_(episode), step_(step) {}

  LEANFAST_FN constexpr u32 bits() {
    if ((drawn_ & 3u) == 0) block_ = Philox::block(seed_, env_, episode_, step_, drawn_ >> 2);
    return block_.word[drawn_++ & 3u];
  }

  // Uniform on [low, high): 24 random bits in float, 32 in double.
  template <class Real>
  LEANFAST_FN constexpr Real uniform(Real low, Real high) {
    if constexpr (sizeof(Real) == 4) {
      return low + (high - low) * (static_cast<Real>(bits() >> 8) * Real(5.9604644775390625e-8));
    } else {
      return low + (high - low) * (static_cast<Real>(bits()) * Real(2.3283064365386963e-10));
    }
  }

  // Uniform on {0, ..., n - 1}; the bias of at most n / 2^32 is below what any run can see.
  LEANFAST_FN constexpr i32 below(i32 n) {
    return static_cast<i32>((u64{bits()} * static_cast<u32>(n)) >> 32);
  }

 private:
  u64 seed_;
  u32 env_, episode_, step_;
  u32 drawn_ = 0;
  Philox block_{};
};

}  // namespace leanfast
