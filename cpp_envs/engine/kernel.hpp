// The loops around an environment's reset, step and observe, written once for all of them: blocks
// of 64 envs, same-step auto-reset, episode statistics. Where a header is free of branches and
// calls the compiler turns the step loop into vector code, once for each instruction set.
#pragma once

#include <cstring>
#include <exception>
#include <type_traits>

#include "engine/contract.hpp"
#include "engine/table.hpp"

namespace leanfast {

inline constexpr int block_envs = 64;
inline constexpr int max_column_bytes = 64;  // states up to this size are kept as columns

#if defined(__clang__)
#define LEANFAST_INDEPENDENT_LANES _Pragma("clang loop vectorize(assume_safety)")
#define LEANFAST_TARGET(set, bits) __attribute__((target(set), min_vector_width(bits)))
#else
#define LEANFAST_INDEPENDENT_LANES _Pragma("GCC ivdep")
#define LEANFAST_TARGET(set, bits) __attribute__((target(set ",prefer-vector-width=" #bits)))
#endif

template <class E, class Real, class Value>
struct Kernel {
  using T = Traits<E, Real>;
  using State = typename E::State;
  using Params = typename E::Params;
  using Word = std::conditional_t<alignof(State) == 8, u64, u32>;
  static constexpr int words = sizeof(State) / sizeof(Word);
  static constexpr bool columns = sizeof(State) <= max_column_bytes;

  struct Words {
    Word word[words];
  };

  // Columns are copied out and put back, so that they live in registers; whole states stay in
  // place.
  LEANFAST_FN static decltype(auto) take(const Records& r, i64 env) {
    if constexpr (columns) {
      const Word* from = static_cast<const Word*>(r.state) + env;
      Words w;
      for (int k = 0; k < words; ++k) w.word[k] = from[k * r.stride];
      return bit_cast<State>(w);
    } else {
      return static_cast<State&>(static_cast<State*>(r.state)[env]);
    }
  }

  LEANFAST_FN static void put_back(const Records& r, i64 env, const State& s) {
    if constexpr (columns) {
      Word* to = static_cast<Word*>(r.state) + env;
      const Words w = bit_cast<Words>(s);
      for (int k = 0; k < words; ++k) to[k * r.stride] = w.word[k];
    }
  }

  LEANFAST_FN static void observe(const State& s, const Params& p, int agents, int row,
                                  Value* out) {
    if constexpr (T::many_agents) {
      for (int a = 0; a < agents; ++a) E::observe(s, p, a, out + a * row);
    } else {
      E::observe(s, p, out);
    }
  }

  // Sizes as constants where the spec is fixed: the vectoriser needs them.
  LEANFAST_FN static int row_size(const Call& c) {
    if constexpr (has::fixed_spec<E>) {
      constexpr int size = E::spec().observation.size();
      return size;
    } else {
      return c.spec.observation.size();
    }
  }

  // The vectoriser interleaves rows of 2^k values well; others are gathered as columns first.
  static constexpr int staged_row() {
    if constexpr (has::fixed_spec<E> && !T::many_agents && !std::is_same_v<Value, u8>) {
      constexpr int size = E::spec().observation.size();
      return (size & (size - 1)) != 0 && size <= 64 ? size : 0;
    } else {
      return 0;
    }
  }

  LEANFAST_FN static int action_size(const Call& c) {
    if constexpr (has::fixed_spec<E>) {
      constexpr int size = E::spec().action.size();
      return size;
    } else {
      return c.spec.action.size();
    }
  }

  LEANFAST_FN static int agent_count(const Call& c) {
    if constexpr (!T::many_agents) {
      return 1;
    } else if constexpr (has::fixed_spec<E>) {
      constexpr int agents = E::spec().agents;
      return agents;
    } else {
      return c.spec.agents;
    }
  }

  // Out-of-range actions were refused before; clamping keeps memory safe if the caller's array
  // changes while the batch is under way.
  LEANFAST_FN static i32 action_at(const Call& c, i64 index) {
    const i64 a = c.action_bytes == 8 ? static_cast<const i64*>(c.actions)[index]
                                      : static_cast<const i32*>(c.actions)[index];
    return static_cast<i32>(a < 0 ? 0 : (a < c.spec.action.n ? a : c.spec.action.n - 1));
  }

  LEANFAST_FN static bool step_one(const Call& c, i64 env, i32 lane_action, State& s,
                                   const Params& p, int agents, Real* rewards) {
    Rng rng(c.records.seed[env], static_cast<u32>(env), c.records.episode[env],
            static_cast<u32>(c.records.length[env]));
    if constexpr (T::many_agents) {
      if constexpr (T::discrete) {
        i32 actions[max_agents];
        for (int a = 0; a < agents; ++a) actions[a] = action_at(c, env * agents + a);
        return E::step(s, static_cast<const i32*>(actions), rewards, p, rng);
      } else {
        const Real* taken = static_cast<const Real*>(c.actions) + env * agents * action_size(c);
        return E::step(s, taken, rewards, p, rng);
      }
    } else {
      Outcome<Real> outcome;
      if constexpr (T::discrete) {
        outcome = E::step(s, static_cast<int>(lane_action), p, rng);
      } else {
        const Real* action = static_cast<const Real*>(c.actions) + env * action_size(c);
        outcome = E::step(s, action, p, rng);
      }
      rewards[0] = outcome.reward;
      return outcome.terminated;
    }
  }

  LEANFAST_FN static void step_lanes(const Call& c, i64 first, int lanes, const Params& p,
                                     i64& at) {
    const int row = row_size(c), agents = agent_count(c), no_limit = 0x7fffffff;
    const i32 limit = c.spec.max_episode_steps > 0 ? c.spec.max_episode_steps : no_limit;
    const i64 width = static_cast<i64>(row) * agents;
    const Records r = c.records;
    Value* const next = static_cast<Value*>(c.out.next_observation) + first * width;
    Value* const observation = static_cast<Value*>(c.out.observation) + first * width;
    Real* const reward = static_cast<Real*>(c.out.reward) + first * agents;
    Real* const total = static_cast<Real*>(r.total) + first * agents;
    Real* const episode_return = static_cast<Real*>(c.out.episode_return) + first * agents;
    i32* const length = r.length + first;

    alignas(64) i32 action[block_envs];
    if constexpr (T::discrete && !T::many_agents) {
      for (int i = 0; i < lanes; ++i) action[i] = action_at(c, first + i);
    }
    for (int i = 0; i < lanes; ++i) length[i] += 1;

    alignas(64) u32 ended[block_envs];
    constexpr int staged = staged_row();
    alignas(64) Value column[staged > 0 ? staged : 1][block_envs];
    LEANFAST_INDEPENDENT_LANES
    for (int i = 0; i < lanes; ++i) {
      at = first + i;
      auto&& s = take(r, first + i);
      ended[i] = step_one(c, first + i, action[i], s, p, agents, reward + i * agents);
      if constexpr (staged > 0) {
        Value values[staged];
        observe(s, p, agents, row, values);
        for (int k = 0; k < staged; ++k) column[k][i] = values[k];
      } else {
        observe(s, p, agents, row, next + i * width);
      }
      put_back(r, first + i, s);
    }
    if constexpr (staged > 0) {
      for (int i = 0; i < lanes; ++i) {
        for (int k = 0; k < staged; ++k) next[i * staged + k] = column[k][i];
      }
    }

    alignas(64) u8 done[block_envs] = {};
    u8* const terminated = c.out.terminated + first;
    u8* const truncated = c.out.truncated + first;
    LEANFAST_INDEPENDENT_LANES
    for (int i = 0; i < lanes; ++i) {
      const u32 late = static_cast<u32>(length[i] >= limit) & (ended[i] ^ 1u);
      terminated[i] = static_cast<u8>(ended[i]);
      truncated[i] = static_cast<u8>(late);
      done[i] = static_cast<u8>(ended[i] | late);
    }
    std::memcpy(c.out.done + first, done, static_cast<std::size_t>(lanes));
    std::memcpy(c.out.episode_length + first, length,
                sizeof(i32) * static_cast<std::size_t>(lanes));
    LEANFAST_INDEPENDENT_LANES
    for (int i = 0; i < lanes * agents; ++i) {
      total[i] += reward[i];
      episode_return[i] = total[i];
    }
    std::memcpy(observation, next, sizeof(Value) * static_cast<std::size_t>(lanes * width));

    for (u64 lanes_left = pack(done); lanes_left != 0; lanes_left &= lanes_left - 1) {
      const int i = __builtin_ctzll(lanes_left);
      at = first + i;
      restart(r, at, p, agents, row, observation + i * width);
    }
  }

  // 64 bytes of 0 or 1 to 64 bits.
  LEANFAST_FN static u64 pack(const u8* flags) {
    u64 bits = 0;
    for (int byte = 0; byte < 8; ++byte) {
      u64 eight;
      std::memcpy(&eight, flags + 8 * byte, 8);
      bits |= ((eight * 0x0102040810204080ull) >> 56) << (8 * byte);
    }
    return bits;
  }

  // Begins the env's next episode and shows it.
  LEANFAST_FN static void restart(const Records& r, i64 env, const Params& p, int agents, int row,
                                  Value* observation) {
    const u32 episode = r.episode[env] + 1;
    r.episode[env] = episode;
    r.length[env] = 0;
    for (int a = 0; a < agents; ++a) static_cast<Real*>(r.total)[env * agents + a] = 0;
    Rng rng(r.seed[env], static_cast<u32>(env), episode, 0);
    auto&& s = take(r, env);
    s = State{};
    E::reset(s, p, rng);
    put_back(r, env, s);
    observe(s, p, agents, row, observation);
  }

  // Called while an exception is in flight.
  static bool report(Failure& failure, i64 env) {
    failure.env = env;
    try {
      throw;
    } catch (const std::exception& e) {
      std::strncpy(failure.what, e.what(), sizeof(failure.what) - 1);
    } catch (...) {
      std::strncpy(failure.what, "an exception of an unknown type", sizeof(failure.what) - 1);
    }
    return false;
  }

  LEANFAST_FN static bool step_range(const Call& c, i64 first, i64 last, Failure& failure) {
    i64 at = first;
    try {
      const Params p = *static_cast<const Params*>(c.params);
      i64 env = first;
      for (; env + block_envs <= last; env += block_envs) step_lanes(c, env, block_envs, p, at);
      if (env < last) step_lanes(c, env, static_cast<int>(last - env), p, at);
      return true;
    } catch (...) {
      return report(failure, at);
    }
  }

  static bool step_baseline(const Call& c, i64 first, i64 last, Failure& failure) {
    return step_range(c, first, last, failure);
  }

#if defined(__x86_64__)
  LEANFAST_TARGET("avx2", 256)
  static bool step_avx2(const Call& c, i64 first, i64 last, Failure& failure) {
    return step_range(c, first, last, failure);
  }

  LEANFAST_TARGET("avx512f,avx512bw,avx512dq,avx512vl", 512)
  static bool step_avx512(const Call& c, i64 first, i64 last, Failure& failure) {
    return step_range(c, first, last, failure);
  }
#endif

  // Starts the masked envs' next episodes and shows every env as it then stands.
  static bool reset_range(const Call& c, i64 first, i64 last, Failure& failure) {
    const Params p = *static_cast<const Params*>(c.params);
    const int row = row_size(c), agents = agent_count(c);
    const i64 width = static_cast<i64>(row) * agents;
    i64 at = first;
    try {
      for (; at < last; ++at) {
        Value* const now = static_cast<Value*>(c.out.observation) + at * width;
        if (c.mask == nullptr || c.mask[at] != 0) {
          restart(c.records, at, p, agents, row, now);
        } else {
          observe(take(c.records, at), p, agents, row, now);
        }
        std::memcpy(static_cast<Value*>(c.out.next_observation) + at * width, now,
                    sizeof(Value) * static_cast<std::size_t>(width));
        for (int a = 0; a < agents; ++a) {
          static_cast<Real*>(c.out.reward)[at * agents + a] = 0;
          static_cast<Real*>(c.out.episode_return)[at * agents + a] =
              static_cast<Real*>(c.records.total)[at * agents + a];
        }
        c.out.terminated[at] = c.out.truncated[at] = c.out.done[at] = 0;
        c.out.episode_length[at] = c.records.length[at];
      }
      return true;
    } catch (...) {
      return report(failure, at);
    }
  }
};

template <class Real, class E>
Kernels make_kernels() {
  static_assert(explain_contract<E, Real>());
  using T = Traits<E, Real>;
  using K = Kernel<E, Real, Real>;
  Kernels k{};
  k.real_bytes = sizeof(Real);
  k.state_bytes = sizeof(typename E::State);
  k.params_bytes = sizeof(typename E::Params);
  k.word_bytes = K::columns ? sizeof(typename K::Word) : 0;
  k.fixed_spec = has::fixed_spec<E>;
  k.discrete = T::discrete;
  k.many_agents = T::many_agents;

  typename E::Params defaults;
  const char* name = E::Params::param_names;
  defaults.each_param([&](auto&... field) {
    const auto add = [&](auto& value) {
      using V = std::remove_reference_t<decltype(value)>;
      static_assert(std::is_same_v<V, float> || std::is_same_v<V, double> ||
                        std::is_same_v<V, i32> || std::is_same_v<V, bool>,
                    "leanfast: a parameter must be Real, int or bool");
      Param& p = k.params[k.param_count++];
      while (*name == ' ' || *name == ',') ++name;
      for (int i = 0; *name != '\0' && *name != ',' && *name != ' '; ++name) {
        if (i < static_cast<int>(sizeof(p.name)) - 1) p.name[i++] = *name;
      }
      p.type = std::is_same_v<V, float>    ? ParamType::f32
               : std::is_same_v<V, double> ? ParamType::f64
               : std::is_same_v<V, i32>    ? ParamType::i32
                                           : ParamType::boolean;
      p.offset =
          static_cast<i32>(reinterpret_cast<char*>(&value) - reinterpret_cast<char*>(&defaults));
      p.value = static_cast<double>(value);
    };
    static_assert(sizeof...(field) <= max_params, "leanfast: at most 32 parameters");
    (add(field), ...);
  });

  k.default_params = [](void* params) { *static_cast<typename E::Params*>(params) = {}; };
  k.spec = [](const void* params) {
    return T::spec(*static_cast<const typename E::Params*>(params));
  };
  k.check = [](const void* params) -> const char* {
    if constexpr (has::check<E>) {
      return E::check(*static_cast<const typename E::Params*>(params));
    } else {
      return nullptr;
    }
  };

  const auto fill = [&]<class Value>(Value, Dtype dtype) {
    if constexpr (T::template observes<Value>) {
      using Loop = Kernel<E, Real, Value>;
      const int d = static_cast<int>(dtype);
      k.step[0][d] = Loop::step_baseline;
#if defined(__x86_64__)
      k.step[1][d] = Loop::step_avx2;
      k.step[2][d] = Loop::step_avx512;
#endif
      k.reset[d] = Loop::reset_range;
    }
  };
  fill(Real{}, Dtype::real);
  fill(u8{}, Dtype::u8);
  return k;
}

}  // namespace leanfast
