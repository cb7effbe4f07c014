#include "checks.hpp"

#include <sstream>

namespace leanfast {

namespace {

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
  if (!a.contiguous) {
    throw py::value_error(who +
                          " is not contiguous (its strides skip memory); call .contiguous() "
                          "on a tensor or numpy.ascontiguousarray() on an array first");
  }
}

template <class Int>
bool any_outside(const Int* values, i64 count, i32 n) {
  using Unsigned = std::make_unsigned_t<Int>;
  Unsigned sign = 0;  // its top bit is set by any value below 0 or above n - 1
  for (i64 i = 0; i < count; ++i) {
    const auto value = static_cast<Unsigned>(values[i]);
    sign |= value | (static_cast<Unsigned>(n - 1) - value);
  }
  return static_cast<Int>(sign) < 0;
}

template <class Int>
void check_discrete(const ArrayView& a, i64 count, const Spec& spec) {
  const Int* values = static_cast<const Int*>(a.data);
  if (!any_outside(values, count, spec.action.n)) return;
  for (i64 i = 0; i < count; ++i) {
    if (values[i] >= 0 && values[i] < spec.action.n) continue;
    throw py::value_error(element(i, a) + " is " + std::to_string(values[i]) + "; " + spec.name +
                          " takes 0 to " + std::to_string(spec.action.n - 1));
  }
}

template <class Real>
void check_continuous(const ArrayView& a, i64 count, const Spec& spec) {
  const Real* values = static_cast<const Real*>(a.data);
  const Box& box = spec.action.values;
  const i64 size = box.size();
  for (i64 k = 0; k < size; ++k) {
    const i64 bound = box.bounds == 1 ? 0 : k;
    const Real low = static_cast<Real>(box.low[bound]), high = static_cast<Real>(box.high[bound]);
    bool outside = false;
    for (i64 i = k; i < count; i += size) outside |= !((values[i] >= low) & (values[i] <= high));
    if (!outside) continue;
    for (i64 i = k; i < count; i += size) {
      if (values[i] >= low && values[i] <= high) continue;
      std::ostringstream text;
      text << element(i, a) << " is " << values[i] << "; " << spec.name << " takes " << low
           << " to " << high;
      throw py::value_error(text.str());
    }
  }
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

void check_actions(const ArrayView& a, const Spec& spec, i64 num_envs, int real_bytes) {
  const Actions& action = spec.action;
  const int bits = real_bytes * 8;
  const bool dtype_ok = action.is_discrete() ? a.kind == 'i' && (a.bits == 64 || a.bits == 32)
                                             : a.kind == 'f' && a.bits == bits;
  if (!dtype_ok) {
    const std::string valid = action.is_discrete() ? "int64 or int32" : type_name('f', bits);
    throw py::value_error("actions are " + a.dtype() + "; " + spec.name + " takes " + valid);
  }
  const Box* box = action.is_discrete() ? nullptr : &action.values;
  check_layout(a, wanted_rows(a.kind, a.bits, num_envs, spec, box), "actions");
  const i64 count = num_envs * spec.agents * action.size();
  if (action.is_discrete()) {
    a.bits == 64 ? check_discrete<i64>(a, count, spec) : check_discrete<i32>(a, count, spec);
  } else {
    real_bytes == 8 ? check_continuous<double>(a, count, spec)
                    : check_continuous<float>(a, count, spec);
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
  if (spec.observation.size() < 1) refuse("has an empty observation");
  if (spec.action.size() < 1) refuse("has an empty action");
  if (kernels.reset[static_cast<int>(spec.observation.dtype)] == nullptr) {
    refuse("says an observation dtype that observe does not write");
  }
}

}  // namespace leanfast
