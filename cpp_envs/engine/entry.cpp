// One environment, compiled: built with LEANFAST_HEADER (the header's path) and LEANFAST_ENTRY (the
// name of the function that hands out its table). Built-in headers and users' own take the same
// way.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes `for (; k > 0 || s.body[i] != 0; ++i)` for a strlen and loses its first condition.
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

#include LEANFAST_HEADER

#include "engine/kernel.hpp"

namespace {

template <class Real>
using Declared = typename leanfast::Declared<Real>::type;

static_assert(!std::is_void_v<Declared<float>>,
              "leanfast: the header declares no environment: end it with "
              "LEANFAST_ENVIRONMENT(YourStruct)");

}  // namespace

extern "C" __attribute__((visibility("default"))) const leanfast::Table* LEANFAST_ENTRY() {
  static const leanfast::Table table = {
      leanfast::table_version,
      sizeof(leanfast::Table),
      leanfast::make_kernels<float, Declared<float>>(),
      leanfast::make_kernels<double, Declared<double>>(),
  };
  return &table;
}
