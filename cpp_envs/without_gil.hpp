// Letting other Python threads run.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <thread>
#include <utility>

namespace leanfast {

// py::gil_scoped_release, but for the interpreter's exit: there, taking the GIL back would end a
// daemon thread by unwinding out of a destructor, which ends the process instead.
class WithoutGil {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() noexcept(false) { end(); }

  void end() {
    if (thread_ == nullptr) return;
    while (is_exiting()) std::this_thread::sleep_for(std::chrono::hours(1));
    PyEval_RestoreThread(std::exchange(thread_, nullptr));
  }

 private:
  static bool is_exiting() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
  }

  PyThreadState* thread_;
};

}  // namespace leanfast
