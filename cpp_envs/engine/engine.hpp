// A batch of environments: their records, the job under way, and who runs it.
//
// Used by one thread at a time. Between begin() and the finish() that returns true, the slot's and
// the actions' memory belongs to the engine; the rest of the time it touches neither.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/pool.hpp"
#include "engine/table.hpp"

namespace leanfast {

class Engine {
 public:
  using Clock = Pool::Clock;

  Engine(const Kernels& kernels, std::vector<char> params, Spec spec, i64 num_envs, int threads,
         int instruction_set);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void begin_reset(const Slot& out, const u8* mask);
  void begin_step(const Slot& out, const void* actions, int action_bytes);

  // Whether `ok(context, first, last)` holds for all envs; of a large batch every thread asks a
  // part, which also brings what it reads into the caches of the thread that will step it.
  bool every(bool (*ok)(const void* context, i64 first, i64 last), const void* context);

  // Works and waits until the batch is done or the deadline has passed (then false: call again).
  // A header's exception is thrown from here, as std::runtime_error, with the env it came from.
  bool finish(Clock::time_point deadline);

  // Expected to take long enough that other threads should run meanwhile.
  bool is_long() const { return expected_ns_ > worth_a_barrier_ns; }
  // Batches expected to take longer run on all threads; 0: all batches of more than one chunk.
  void set_pool_above(double ns) { pool_above_ns_ = ns; }
  double pool_above() const { return pool_above_ns_; }
  bool pooled() const { return pooled_; }  // the batch under way, or the last one

  bool forked() const;
  bool in_flight() const { return in_flight_; }

  const Spec& spec() const { return call_.spec; }
  const Kernels& kernels() const { return kernels_; }
  i64 num_envs() const { return num_envs_; }
  int threads() const { return threads_; }
  int instruction_set() const { return instruction_set_; }
  const Records& records() const { return call_.records; }

  // States one after the other, whatever their layout here: [num_envs, state_bytes].
  void copy_states_out(char* to) const;
  void copy_states_in(const char* from);

 private:
  // The first few batches of each kind are timed, to tell small ones from large ones.
  struct Cost {
    int batches = 0;
    double ns_per_env = 0;  // of the fastest chunk seen; 0: unknown

    bool known() const { return ns_per_env > 0; }
    i64 envs_in(double ns) const;
  };
  static constexpr int batches_to_time = 8;
  static constexpr double worth_a_barrier_ns = 15e3;

  // copy(where in [num_envs, state_bytes], where in the records, how many bytes), for every part.
  template <class Copy>
  void each_state_part(Copy&& copy) const;

  void plan(Cost& cost);
  void begin(RangeFn range, Cost& cost);
  i64 chunks() const { return (num_envs_ + chunk_envs_ - 1) / chunk_envs_; }
  bool timing() const { return cost_->batches < batches_to_time; }
  i64 grain() const;
  i64 chunk_envs() const;
  i64 piece_envs() const;
  void run_range(i64 first, i64 last);
  static void run_chunk(void* engine, i64 chunk);
  bool run_inline(Clock::time_point deadline);

  const Kernels kernels_;
  const std::vector<char> params_;
  const i64 num_envs_;
  const int threads_, instruction_set_;
  std::vector<std::unique_ptr<char[], void (*)(char*)>> memory_;
  Call call_{};
  RangeFn range_ = nullptr;

  bool in_flight_ = false, pooled_ = false;
  double pool_above_ns_ = worth_a_barrier_ns;
  double expected_ns_ = 0;  // of the batch under way, or the last one
  i64 cursor_ = 0, chunk_envs_ = 0;
  Cost reset_cost_, masked_reset_cost_, step_cost_, *cost_ = &reset_cost_;
  std::mutex failure_mutex_;
  std::atomic<bool> failed_{false};
  Failure failure_{};
  Pool* pool_ = nullptr;
  u32 pool_generation_ = 0;
};

// The instruction set, of those built, that this processor runs best.
int best_instruction_set();
bool runs_instruction_set(int set);

}  // namespace leanfast
