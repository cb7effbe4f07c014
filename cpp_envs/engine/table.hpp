// The table through which the engine calls one environment. Plain C data, so that a header compiled
// on a user's machine, by another compiler, plugs into the same engine as the built-in ones.
#pragma once

#include "engine/spec.hpp"

namespace leanfast {

inline constexpr u32 table_version = 1;
inline constexpr int max_params = 32;

enum class ParamType : i32 { f32, f64, i32, boolean };

struct Param {
  char name[48];
  ParamType type;
  i32 offset;
  double value;  // the default
};

// Where one batch's results go: [num_envs, agents, ...] arrays, row-major.
struct Slot {
  void* observation;
  void* next_observation;
  void* reward;
  u8* terminated;
  u8* truncated;
  u8* done;
  void* episode_return;
  i32* episode_length;
};

// Per-env records the engine owns; `state` is columns of words (stride: words from one field to the
// next) where Kernels::columns is set, else one State after the other.
struct Records {
  void* state;
  i64 stride;
  u64* seed;
  u32* episode;
  i32* length;
  void* total;  // the running return, [num_envs, agents]
};

struct Call {
  Records records;
  Slot out;
  const void* params;
  const void* actions;  // step only
  i32 action_bytes;     // of one discrete action: 4 or 8
  const u8* mask;       // reset only: which envs; all where null
  Spec spec;
};

// What a header threw, and in which env.
struct Failure {
  i64 env;
  char what[240];
};

// Envs first to last - 1. False: a header threw.
using RangeFn = bool (*)(const Call&, i64 first, i64 last, Failure&);

inline constexpr int instruction_sets = 3;
inline constexpr const char* instruction_set_names[instruction_sets] = {"baseline", "avx2",
                                                                        "avx512"};

struct Kernels {
  i32 real_bytes, state_bytes, params_bytes, param_count;
  i32 word_bytes;  // of a column; 0 where states are stored whole
  i32 fixed_spec, discrete, many_agents;
  Param params[max_params];
  void (*default_params)(void* params);
  Spec (*spec)(const void* params);
  const char* (*check)(const void* params);
  // by instruction set (null: not built), then by the observation's Dtype
  RangeFn step[instruction_sets][2];
  RangeFn reset[2];
};

struct Table {
  u32 version;
  u32 bytes;  // sizeof(Table): a header compiled against another engine is told apart
  Kernels real32, real64;
};

using TableFn = const Table* (*)();

}  // namespace leanfast
