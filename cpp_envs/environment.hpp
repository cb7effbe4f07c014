// One environment as Python sees it: its table, with parameters given by value in their order.
#pragma once

#include <string>
#include <vector>

#include "checks.hpp"
#include "engine/table.hpp"

namespace leanfast {

struct Environment {
  std::string key;  // the header's name: cartpole
  const Table* table;

  const Kernels& kernels(int real_bytes) const {
    return real_bytes == 8 ? table->real64 : table->real32;
  }

  std::vector<char> params(const std::vector<double>& values, int real_bytes) const {
    const Kernels& k = kernels(real_bytes);
    std::vector<char> bytes(static_cast<std::size_t>(k.params_bytes));
    k.default_params(bytes.data());
    for (std::size_t i = 0; i < values.size() && i < static_cast<std::size_t>(k.param_count); ++i) {
      char* field = bytes.data() + k.params[i].offset;
      switch (k.params[i].type) {
        case ParamType::f32:
          *reinterpret_cast<float*>(field) = static_cast<float>(values[i]);
          break;
        case ParamType::f64:
          *reinterpret_cast<double*>(field) = values[i];
          break;
        case ParamType::i32:
          *reinterpret_cast<i32*>(field) = static_cast<i32>(values[i]);
          break;
        case ParamType::boolean:
          *reinterpret_cast<bool*>(field) = values[i] != 0;
          break;
      }
    }
    if (const char* complaint = k.check(bytes.data())) throw py::value_error(complaint);
    return bytes;
  }

  Spec spec(const std::vector<double>& values, int real_bytes) const {
    const Spec s = kernels(real_bytes).spec(params(values, real_bytes).data());
    check_spec(kernels(real_bytes), s);
    return s;
  }

  py::list param_list() const {
    py::list all;
    for (int i = 0; i < table->real32.param_count; ++i) {
      const Param& p = table->real64.params[i];  // the defaults as they were written
      const py::object value = p.type == ParamType::i32
                                   ? py::object(py::int_(static_cast<int>(p.value)))
                               : p.type == ParamType::boolean ? py::object(py::bool_(p.value != 0))
                                                              : py::object(py::float_(p.value));
      all.append(py::make_tuple(p.name, value));
    }
    return all;
  }
};

}  // namespace leanfast
