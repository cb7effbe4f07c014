// What a caller hands in, checked before anything is touched. Every refusal names the argument, the
// place and the value, and says what would be valid.
#pragma once

#include "arrays.hpp"
#include "engine/engine.hpp"

namespace leanfast {

void check_spec(const Kernels& kernels, const Spec& spec);
void check_actions(const ArrayView& actions, Engine& engine);

// An output or mask: [num_envs, ...] of one dtype, contiguous, on the CPU.
struct Wanted {
  char kind;
  int bits;
  int rank;
  i64 shape[ArrayView::max_rank];
};
void check_array(const ArrayView& array, const Wanted& wanted, const char* name, bool written);

Wanted wanted_rows(char kind, int bits, i64 num_envs, const Spec& spec, const Box* box);

}  // namespace leanfast
