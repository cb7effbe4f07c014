// The Python module leanfast._native: environments and the engine that steps a batch of them.
#include <dlfcn.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "environment.hpp"
#include "py_engine.hpp"

namespace leanfast {

namespace {

py::dict describe(const Box& box) {
  py::list shape, low, high;
  for (int d = 0; d < box.rank; ++d) shape.append(box.shape[d]);
  for (int i = 0; i < box.bounds; ++i) low.append(box.low[i]), high.append(box.high[i]);
  py::dict d;
  d["dtype"] = box.dtype == Dtype::u8 ? "uint8" : "float";
  d["shape"] = py::tuple(shape);
  d["low"] = low;
  d["high"] = high;
  return d;
}

py::dict describe(const Spec& spec) {
  py::dict d;
  d["name"] = spec.name;
  d["observation"] = describe(spec.observation);
  d["action"] = spec.action.is_discrete() ? py::object(py::int_(spec.action.n))
                                          : py::object(describe(spec.action.values));
  d["agents"] = spec.agents;
  d["max_episode_steps"] = spec.max_episode_steps;
  return d;
}

const Table* checked_table(TableFn entry, const std::string& what) {
  const Table* table = entry();
  if (table->version != table_version || table->bytes != sizeof(Table)) {
    throw std::runtime_error(what + " was built for another version of the engine");
  }
  return table;
}

Environment load_environment(const std::string& path, const std::string& key) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // kept: its code may be in use
  if (library == nullptr) throw std::runtime_error(dlerror());
  void* entry = dlsym(library, "leanfast_environment");
  if (entry == nullptr) throw std::runtime_error(path + " holds no environment");
  return {key, checked_table(reinterpret_cast<TableFn>(entry), path)};
}

}  // namespace

// Generated from the headers in envs/: one entry point each.
#define LEANFAST_BUILTIN(key) extern "C" const Table* leanfast_builtin_##key();
#include "builtins.inc"
#undef LEANFAST_BUILTIN

namespace {

std::vector<Environment> builtin_environments() {
  return {
#define LEANFAST_BUILTIN(key) {#key, checked_table(leanfast_builtin_##key, #key)},
#include "builtins.inc"
#undef LEANFAST_BUILTIN
  };
}

}  // namespace

PYBIND11_MODULE(_native, m) {
  m.doc() = "The native engine: environments written as C++ headers, stepped in batches.";

  const py::object bases =
      py::make_tuple(py::handle(PyExc_ValueError), py::handle(PyExc_RuntimeError));
  state_error = PyErr_NewException("leanfast._native.StateError", bases.ptr(), nullptr);
  m.attr("StateError") = py::reinterpret_borrow<py::object>(state_error);
  m.attr("table_version") = table_version;

  m.def("instruction_sets", [] {
    py::list names;
    for (int set = 0; set < instruction_sets; ++set) {
      if (runs_instruction_set(set)) names.append(instruction_set_names[set]);
    }
    return names;
  });
  m.def("default_instruction_set", [] { return instruction_set_names[best_instruction_set()]; });

  py::class_<Environment>(m, "Environment")
      .def_readonly("key", &Environment::key)
      .def_property_readonly("params", &Environment::param_list)
      .def(
          "spec",
          [](const Environment& e, const std::vector<double>& values, int real_bytes) {
            return describe(e.spec(values, real_bytes));
          },
          py::arg("values"), py::arg("real_bytes"));
  m.def("builtin_environments", &builtin_environments);
  m.def("load_environment", &load_environment, py::arg("path"), py::arg("key"));

  py::class_<PySlot, std::shared_ptr<PySlot>>(m, "Slot").def_readonly("batch", &PySlot::batch);

  py::class_<PyEngine>(m, "Engine")
      .def(py::init<const Environment&, const std::vector<double>&, int, i64, int, i32, int>(),
           py::arg("environment"), py::arg("values"), py::arg("real_bytes"), py::arg("num_envs"),
           py::arg("threads"), py::arg("max_episode_steps"), py::arg("instruction_set"))
      .def("_slot", &PyEngine::slot)
      .def("_set_buffers", &PyEngine::set_buffers)
      .def("_reset", &PyEngine::reset, py::arg("mask"), py::arg("seeds"), py::arg("into"))
      .def("send", &PyEngine::send, py::arg("actions"), py::arg("into") = nullptr,
           "Begin a step of every env; recv() hands over its batch.")
      .def("recv", &PyEngine::recv, "Wait for the batch that send() began.")
      .def("step", &PyEngine::step, py::arg("actions"), py::arg("into") = nullptr,
           "send() and recv() in one call.")
      .def("close", &PyEngine::close, "Stop the threads; a second call does nothing.")
      .def("_records", &PyEngine::records)
      .def("_load_records", &PyEngine::load_records)
      .def_property_readonly("closed", &PyEngine::closed)
      .def_property_readonly("was_reset", &PyEngine::was_reset)
      .def_property_readonly("in_flight", &PyEngine::in_flight)
      .def_property(
          "pool_above_us", [](const PyEngine& e) { return e.engine().pool_above() / 1e3; },
          [](PyEngine& e, double us) { e.set_pool_above(us * 1e3); },
          "Batches expected to take longer than this run on all threads.")
      .def_property_readonly(
          "pooled", [](const PyEngine& e) { return e.engine().pooled(); },
          "Whether the last batch ran on all threads.")
      .def_property_readonly("num_envs", [](const PyEngine& e) { return e.engine().num_envs(); })
      .def_property_readonly("threads", [](const PyEngine& e) { return e.engine().threads(); })
      .def_property_readonly("instruction_set", [](const PyEngine& e) {
        return instruction_set_names[e.engine().instruction_set()];
      });
}

}  // namespace leanfast
