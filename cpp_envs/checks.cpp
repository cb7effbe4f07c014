#include "checks.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace leanfast {

namespace {

constexpr i64 most_values = 1 << 24;  // of one env

// Several agents put an axis of their own behind that of the envs.
Wanted rows(char kind, int bits, i64 num_envs, const Spec& spec) {
  Wanted w{kind, bits, 1, {num_envs}};
  if (spec.agents > 1) w.shape[w.rank++] = spec.agents;
  return w;
}

std::string type_name(char kind, int bits) {
  ArrayView v;
  v.kind = kind;
  v.bits = bits;
  return v.dtype();
}

// "actions[3]" or, with inner axes, "actions[3, 1]".
std::string element(i64 flat, const ArrayView& a) {
  std::string index;
  for (int d = a.rank - 1; d >= 0; --d) {
    index = std::to_string(flat % a.shape[d]) + (index.empty() ? "" : ", ") + index;
    flat /= a.shape[d];
  }
  return "actions[" + index + "]";
}

// All its digits: 2.0000002 must not read as 2.
std::string number(double value) { return py::repr(py::float_(value)); }

void check_layout(const ArrayView& a, const Wanted& w, const char* name) {
  const std::string who = name;
  if (!a.on_cpu) {
    throw py::value_error(who + " is on another device; the engine reads and writes CPU memory: " +
                          "call .cpu() first");
  }
  bool same = a.rank == w.rank;
  for (int d = 0; same && d < w.rank; ++d) same = a.shape[d] == w.shape[d];
  if (!same) {
    throw py::value_error(who + " has shape " + a.shape_text() + "; it must have shape " +
                          shape_text(w.shape, w.rank));
  }
  if (reinterpret_cast<std::uintptr_t>(a.data) % static_cast<unsigned>(a.bits / 8) != 0) {
    throw py::value_error(who + " is not aligned to its own values; pass a copy");
  }
  if (!a.contiguous) {
    throw py::value_error(who +
                          " is not contiguous (its strides skip memory); call .contiguous() "
                          "on a tensor or numpy.ascontiguousarray() on an array first");
  }
}

struct Asked {
  const void* values;
  const Spec& spec;
};

// The bounds of value k of a continuous action. An unbounded one is still a number: infinity is out
// of its range too.
template <class Real>
std::pair<Real, Real> bounds(const Box& box, i64 k) {
  constexpr Real most = std::numeric_limits<Real>::max();
  const i64 at = box.bounds == 1 ? 0 : k;
  return {std::max(static_cast<Real>(box.low[at]), -most),
          std::min(static_cast<Real>(box.high[at]), most)};
}

template <class Int>
bool discrete_ok(const void* asked, i64 first, i64 last) {
  using Unsigned = std::make_unsigned_t<Int>;
  const auto& [data, spec] = *static_cast<const Asked*>(asked);
  const Int* values = static_cast<const Int*>(data);
  const auto greatest = static_cast<Unsigned>(spec.action.n - 1);
  Unsigned sign = 0;  // its top bit is set by any value below 0 or above the greatest
  for (i64 i = first * spec.agents; i < last * spec.agents; ++i) {
    const auto value = static_cast<Unsigned>(values[i]);
    sign |= value | (greatest - value);
  }
  return static_cast<Int>(sign) >= 0;
}

template <class Real>
bool continuous_ok(const void* asked, i64 first, i64 last) {
  const auto& [data, spec] = *static_cast<const Asked*>(asked);
  const Real* values = static_cast<const Real*>(data);
  const Box& box = spec.action.values;
  const i64 size = box.size(), pairs = box.bounds == 1 ? 1 : size;
  u32 outside = 0;
  for (i64 k = 0; k < pairs; ++k) {
    const auto [low, high] = bounds<Real>(box, k);
    const i64 end = last * spec.agents * size;
    if (pairs == 1) {  // side by side, so that the compiler can vectorise
      for (i64 i = first * spec.agents * size; i < end; ++i) {
        outside |= static_cast<u32>(!(values[i] >= low)) | static_cast<u32>(!(values[i] <= high));
      }
    } else {
      for (i64 i = first * spec.agents * size + k; i < end; i += size) {
        outside |= static_cast<u32>(!(values[i] >= low)) | static_cast<u32>(!(values[i] <= high));
      }
    }
  }
  return outside == 0;
}

template <class Int>
[[noreturn]] void refuse_discrete(const ArrayView& a, const Spec& spec) {
  const Int* values = static_cast<const Int*>(a.data);
  const std::string valid =
      std::string(spec.name) + " takes 0 to " + std::to_string(spec.action.n - 1);
  for (i64 i = 0; i < a.size(); ++i) {
    if (values[i] >= 0 && values[i] < spec.action.n) continue;
    throw py::value_error(element(i, a) + " is " + std::to_string(values[i]) + "; " + valid);
  }
  throw py::value_error("actions changed while they were being checked; " + valid);
}

template <class Real>
[[noreturn]] void refuse_continuous(const ArrayView& a, const Spec& spec) {
  const Real* values = static_cast<const Real*>(a.data);
  const Box& box = spec.action.values;
  for (i64 i = 0; i < a.size(); ++i) {
    const i64 k = i % box.size(), at = box.bounds == 1 ? 0 : k;
    const auto [low, high] = bounds<Real>(box, k);
    if (values[i] >= low && values[i] <= high) continue;
    throw py::value_error(element(i, a) + " is " + number(values[i]) + "; " + spec.name +
                          " takes " + number(box.low[at]) + " to " + number(box.high[at]));
  }
  throw py::value_error("actions changed while they were being checked");
}

}  // namespace

Wanted wanted_rows(char kind, int bits, i64 num_envs, const Spec& spec, const Box* box) {
  Wanted w = rows(kind, bits, num_envs, spec);
  for (int d = 0; box != nullptr && d < box->rank; ++d) w.shape[w.rank++] = box->shape[d];
  return w;
}

void check_array(const ArrayView& array, const Wanted& wanted, const char* name, bool written) {
  if (array.kind != wanted.kind || array.bits != wanted.bits) {
    throw py::value_error(std::string(name) + " is " + array.dtype() + "; it must be " +
                          type_name(wanted.kind, wanted.bits));
  }
  check_layout(array, wanted, name);
  if (written && !array.writable) {
    throw py::value_error(std::string(name) + " is read-only; the engine writes into it");
  }
}

void check_actions(const ArrayView& a, Engine& engine) {
  const Spec& spec = engine.spec();
  const bool discrete = spec.action.is_discrete();
  const int bits = engine.kernels().real_bytes * 8;
  const bool dtype_ok =
      discrete ? a.kind == 'i' && (a.bits == 64 || a.bits == 32) : a.kind == 'f' && a.bits == bits;
  if (!dtype_ok) {
    const std::string valid = discrete ? "int64 or int32" : type_name('f', bits);
    throw py::value_error("actions are " + a.dtype() + "; " + spec.name + " takes " + valid);
  }
  const Box* box = discrete ? nullptr : &spec.action.values;
  check_layout(a, wanted_rows(a.kind, a.bits, engine.num_envs(), spec, box), "actions");
  const Asked asked{a.data, spec};
  if (discrete && a.bits == 64) {
    if (!engine.every(discrete_ok<i64>, &asked)) refuse_discrete<i64>(a, spec);
  } else if (discrete) {
    if (!engine.every(discrete_ok<i32>, &asked)) refuse_discrete<i32>(a, spec);
  } else if (bits == 64) {
    if (!engine.every(continuous_ok<double>, &asked)) refuse_continuous<double>(a, spec);
  } else {
    if (!engine.every(continuous_ok<float>, &asked)) refuse_continuous<float>(a, spec);
  }
}

void check_spec(const Kernels& kernels, const Spec& spec) {
  const auto refuse = [&](const std::string& why) {
    throw py::value_error("the spec of " + std::string(spec.name ? spec.name : "the header") + " " +
                          why);
  };
  if (spec.name == nullptr || spec.name[0] == '\0') refuse("has no name");
  if (spec.agents < 1 || spec.agents > max_agents) {
    refuse("has " + std::to_string(spec.agents) + " agents; there must be 1 to " +
           std::to_string(max_agents));
  }
  if (spec.agents > 1 && !kernels.many_agents) {
    refuse("has several agents, but step takes one action");
  }
  if (spec.action.is_discrete() != (kernels.discrete != 0)) {
    refuse("and step disagree on the action: discrete(n) goes with int, continuous() with Real*");
  }
  // Sizes are asked for in 64 bits here and in 32 from then on.
  const auto check_box = [&](const Box& box, const std::string& what) {
    if (box.rank < 0 || box.rank > max_rank) {
      refuse("has an " + what + " of " + std::to_string(box.rank) +
             " dimensions; there must be 0 to " + std::to_string(max_rank));
    }
    i64 shape[max_rank] = {}, size = spec.agents;
    bool possible = true;
    for (int d = 0; d < box.rank; ++d) {
      shape[d] = box.shape[d];
      possible = possible && shape[d] >= 1 && (size *= shape[d]) <= most_values;
    }
    if (!possible) {
      refuse("has an " + what + " of shape " + shape_text(shape, box.rank) +
             "; there must be 1 to " + std::to_string(most_values) + " values");
    }
    if (box.bounds != 1 && (box.bounds != size / spec.agents || box.bounds > max_bounds)) {
      refuse("has " + std::to_string(box.bounds) + " pairs of bounds for the " +
             std::to_string(size / spec.agents) + " values of its " + what +
             "; there must be 1, or one for each of up to " + std::to_string(max_bounds));
    }
  };
  check_box(spec.observation, "observation");
  if (!spec.action.is_discrete()) check_box(spec.action.values, "action");
  if (kernels.reset[static_cast<int>(spec.observation.dtype)] == nullptr) {
    refuse("says an observation dtype that observe does not write");
  }
}

}  // namespace leanfast
