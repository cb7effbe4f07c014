// The engine as Python sees it: arrays in, arrays out, every call checked before anything happens.
#pragma once

#include <pybind11/stl.h>

#include <array>
#include <cstring>
#include <memory>

#include "arrays.hpp"
#include "checks.hpp"
#include "engine/engine.hpp"
#include "environment.hpp"
#include "without_gil.hpp"

namespace leanfast {

inline PyObject* state_error =
    nullptr;  // a ValueError and a RuntimeError: a call at the wrong time

[[noreturn]] inline void refuse_now(const std::string& text) {
  PyErr_SetString(state_error, text.c_str());
  throw py::error_already_set();
}

// Arrays a batch is written into, and the Python object that shows them.
struct PySlot {
  Slot slot{};
  py::object batch;      // what recv() returns
  py::object memory;     // what keeps the arrays alive
  std::string made_for;  // an engine with rows of other sizes would write past the arrays
};

class PyEngine {
 public:
  PyEngine(const Environment& environment, const std::vector<double>& values, int real_bytes,
           i64 num_envs, int threads, i32 max_episode_steps, int instruction_set)
      : real_bytes_(real_bytes) {
    Spec spec = environment.spec(values, real_bytes);
    if (max_episode_steps >= 0) spec.max_episode_steps = max_episode_steps;
    engine_ = std::make_unique<Engine>(environment.kernels(real_bytes),
                                       environment.params(values, real_bytes), spec, num_envs,
                                       threads, instruction_set);
    layout_ = layout(spec, num_envs, real_bytes);
  }

  // `batch` has the arrays as attributes; those that are None stay in the engine's own buffers.
  // recv() returns `shown`.
  std::shared_ptr<PySlot> slot(const py::object& batch, const py::object& shown) const {
    const Engine& e = usable();
    const Spec& spec = e.spec();
    const int real = real_bytes_ * 8;
    const bool bytes = spec.observation.dtype == Dtype::u8;
    const Wanted observation =
        wanted_rows(bytes ? 'u' : 'f', bytes ? 8 : real, e.num_envs(), spec, &spec.observation);
    const Wanted per_agent = wanted_rows('f', real, e.num_envs(), spec, nullptr);
    const Wanted flag{'b', 8, 1, {e.num_envs()}}, count{'i', 32, 1, {e.num_envs()}};

    const auto data = [&](const char* name, const Wanted& wanted) -> void* {
      const py::object array = batch.attr(name);
      if (array.is_none()) return nullptr;
      const ArrayView view = view_array(array, name);
      check_array(view, wanted, name, true);
      return view.data;
    };
    auto made = std::make_shared<PySlot>();
    made->slot = {data("observation", observation),
                  data("next_observation", observation),
                  data("reward", per_agent),
                  static_cast<u8*>(data("terminated", flag)),
                  static_cast<u8*>(data("truncated", flag)),
                  static_cast<u8*>(data("done", flag)),
                  data("episode_return", per_agent),
                  static_cast<i32*>(data("episode_length", count))};
    made->batch = shown;
    made->memory = batch;
    made->made_for = layout_;
    return made;
  }

  void set_buffers(std::shared_ptr<PySlot> first, std::shared_ptr<PySlot> second) {
    buffers_ = {std::move(first), std::move(second)};
  }

  py::object reset(const py::object& mask, const py::object& seeds, std::shared_ptr<PySlot> into) {
    Engine& e = usable();
    if (in_flight()) refuse_now("reset: a batch is under way; call recv() first");
    check_slot(into);
    const u8* chosen = nullptr;
    if (!mask.is_none()) {
      const ArrayView view = view_array(mask, "mask");
      check_array(view, Wanted{'b', 8, 1, {e.num_envs()}}, "mask", false);
      chosen = static_cast<const u8*>(view.data);
      if (!was_reset_) refuse_now("reset: the first reset must be of all envs, without a mask");
    }
    if (!seeds.is_none()) seed(seeds, chosen);
    begin(into, [&](const Slot& slot) { e.begin_reset(slot, chosen); });
    held_ = mask;
    return wait();
  }

  void send(const py::object& actions, std::shared_ptr<PySlot> into) {
    Engine& e = usable();
    if (!was_reset_) refuse_now("send: the engine was not reset yet; call reset() first");
    if (in_flight()) refuse_now("send: a batch is under way already; call recv() first");
    check_slot(into);
    const ArrayView view = view_array(actions, "actions");
    check_actions(view, e);
    begin(into, [&](const Slot& slot) { e.begin_step(slot, view.data, view.bits / 8); });
    held_ = actions;
  }

  py::object recv() {
    usable();
    if (!in_flight()) refuse_now("recv: no batch is under way; call send(actions) first");
    return wait();
  }

  py::object step(const py::object& actions, std::shared_ptr<PySlot> into) {
    send(actions, std::move(into));
    return wait();
  }

  void close() {
    if (busy_) refuse_now("close: another thread is waiting in recv()");
    engine_.reset();
    target_.reset();
    held_ = py::none();
  }

  bool closed() const { return engine_ == nullptr; }
  bool was_reset() const { return was_reset_; }
  // While another thread waits, only busy_ may be read: it changes under the GIL alone.
  bool in_flight() const { return engine_ != nullptr && (busy_ || engine_->in_flight()); }
  const Engine& engine() const { return usable(); }
  void set_pool_above(double ns) {
    if (!(ns >= 0)) throw py::value_error("pool_above_us must be 0 or more");
    usable().set_pool_above(ns);
  }

  py::dict records() const {
    const Engine& e = at_rest("records");
    const Records& r = e.records();
    py::array_t<u8> state({e.num_envs(), i64{e.kernels().state_bytes}});
    e.copy_states_out(reinterpret_cast<char*>(state.mutable_data()));
    py::dict d;
    d["state"] = state;
    d["seed"] = py::array_t<u64>(e.num_envs(), r.seed);
    d["episode"] = py::array_t<u32>(e.num_envs(), r.episode);
    d["length"] = py::array_t<i32>(e.num_envs(), r.length);
    const std::vector<i64> shape = {e.num_envs(), e.spec().agents};
    d["total"] = real_bytes_ == 8
                     ? py::object(py::array_t<double>(shape, static_cast<const double*>(r.total)))
                     : py::object(py::array_t<float>(shape, static_cast<const float*>(r.total)));
    return d;
  }

  void load_records(const py::dict& d) {
    const Engine& e = at_rest("load_records");
    const Records& r = e.records();
    const i64 n = e.num_envs();
    const auto get = [&](const char* name, const Wanted& wanted) -> const void* {
      if (!d.contains(name)) throw py::value_error(std::string("the records lack ") + name);
      const ArrayView view = view_array(d[name], name);
      check_array(view, wanted, name, false);
      return view.data;
    };
    const Wanted totals{'f', real_bytes_ * 8, 2, {n, e.spec().agents}};
    const void* state = get("state", Wanted{'u', 8, 2, {n, e.kernels().state_bytes}});
    const void* seed = get("seed", Wanted{'u', 64, 1, {n}});
    const void* episode = get("episode", Wanted{'u', 32, 1, {n}});
    const void* length = get("length", Wanted{'i', 32, 1, {n}});
    const void* total = get("total", totals);
    engine_->copy_states_in(static_cast<const char*>(state));
    const auto count = static_cast<std::size_t>(n);
    std::memcpy(r.seed, seed, count * sizeof(u64));
    std::memcpy(r.episode, episode, count * sizeof(u32));
    std::memcpy(r.length, length, count * sizeof(i32));
    std::memcpy(
        r.total, total,
        count * static_cast<std::size_t>(e.spec().agents) * static_cast<std::size_t>(real_bytes_));
    was_reset_ = true;
  }

 private:
  Engine& usable() const {
    if (engine_ == nullptr) refuse_now(failure_.empty() ? "the engine is closed" : failure_);
    if (engine_->forked()) {
      refuse_now(
          "this engine's threads stayed in the parent process; after a fork, make a new "
          "engine in "
          "the child (or start processes with 'spawn')");
    }
    return *engine_;
  }

  const Engine& at_rest(const char* what) const {
    const Engine& e = usable();
    if (in_flight()) refuse_now(std::string(what) + ": a batch is under way; call recv() first");
    return e;
  }

  static std::string layout(const Spec& spec, i64 num_envs, int real_bytes) {
    const Box& seen = spec.observation;
    std::string text = std::to_string(num_envs) + " envs";
    if (spec.agents > 1) text += " of " + std::to_string(spec.agents) + " agents";
    return text + ", observations of " + std::to_string(seen.size()) +
           (seen.dtype == Dtype::u8 ? " bytes" : " values") + " and float" +
           std::to_string(real_bytes * 8);
  }

  void check_slot(const std::shared_ptr<PySlot>& into) const {
    if (into == nullptr || into->made_for == layout_) return;
    throw py::value_error("into was made by an engine of " + into->made_for + "; this one has " +
                          layout_);
  }

  void seed(const py::object& seeds, const u8* mask) {
    const Records& r = engine_->records();
    const ArrayView view = view_array(seeds, "seed");
    check_array(view, Wanted{'u', 64, 1, {engine_->num_envs()}}, "seed", false);
    for (i64 i = 0; i < engine_->num_envs(); ++i) {
      if (mask != nullptr && mask[i] == 0) continue;
      r.seed[i] = static_cast<const u64*>(view.data)[i];
      r.episode[i] = ~u32{0};  // the reset makes it episode 0
    }
  }

  template <class Begin>
  void begin(std::shared_ptr<PySlot>& into, Begin&& start) {
    const auto& back = buffers_[1 - front_];
    if (into == nullptr) {
      target_ = back;
      start(back->slot);
      return;
    }
    Slot s = into->slot;
    const Slot& own = back->slot;
    if (!s.observation) s.observation = own.observation;
    if (!s.next_observation) s.next_observation = own.next_observation;
    if (!s.reward) s.reward = own.reward;
    if (!s.terminated) s.terminated = own.terminated;
    if (!s.truncated) s.truncated = own.truncated;
    if (!s.done) s.done = own.done;
    if (!s.episode_return) s.episode_return = own.episode_return;
    if (!s.episode_length) s.episode_length = own.episode_length;
    target_ = std::move(into);
    start(s);
  }

  py::object wait() {
    if (busy_) refuse_now("another thread is waiting for this engine's batch already");
    busy_ = true;
    try {
      finish();
    } catch (const py::error_already_set&) {  // a signal handler raised; the batch stays under way
      busy_ = false;
      throw;
    } catch (const std::exception& e) {
      busy_ = false;
      failure_ = std::string("the engine was closed by an exception in ") + e.what();
      engine_.reset();
      throw;
    }
    busy_ = false;
    was_reset_ = true;
    if (target_ == buffers_[1 - front_]) front_ = 1 - front_;
    held_ = py::none();
    return target_->batch;
  }

  void finish() {
    if (!engine_->is_long()) {
      engine_->finish(Engine::Clock::time_point::max());
      return;
    }
    for (bool done = false; !done;) {
      WithoutGil others_run;
      done = engine_->finish(Engine::Clock::now() + std::chrono::milliseconds(50));
      others_run.end();
      if (!done && PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
  }

  const int real_bytes_;
  std::string layout_;
  std::array<std::shared_ptr<PySlot>, 2> buffers_;
  std::shared_ptr<PySlot> target_;  // where the batch under way, or the last one, goes
  py::object held_ = py::none();    // the caller's actions, while they are being read
  int front_ = 0;
  bool was_reset_ = false, busy_ = false;
  std::string failure_;
  std::unique_ptr<Engine> engine_;  // last: its threads end before what they write into
};

}  // namespace leanfast
