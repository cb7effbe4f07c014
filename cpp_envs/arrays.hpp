// The caller's arrays, seen in place: torch tensors through DLPack's exchange table (some tens of
// nanoseconds, no reference taken), NumPy arrays through pybind11.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>

#include "engine/platform.hpp"

namespace leanfast {

namespace py = pybind11;

struct ArrayView {
  static constexpr int max_rank = 8;
  void* data = nullptr;
  char kind = '?';  // 'i' int, 'u' unsigned, 'f' float, 'b' bool, as NumPy has it
  int bits = 0, rank = 0;
  bool contiguous = true, writable = true, on_cpu = true;
  i64 shape[max_rank] = {};

  i64 size() const {
    i64 n = 1;
    for (int d = 0; d < rank; ++d) n *= shape[d];
    return n;
  }
  std::string dtype() const;
  std::string shape_text() const;
};

// Throws TypeError where `object` is no array; `name` says which argument it is.
ArrayView view_array(py::handle object, const char* name);

std::string shape_text(const i64* shape, int rank);

}  // namespace leanfast
