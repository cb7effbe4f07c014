// Threads that share one job at a time.
//
// Who touches what, when: start() writes the job and then raises `epoch_`; after that the job is
// read-only until finish() returns true. Every thread, the caller inside finish() included, claims
// chunks by a compare-and-swap on a cursor that carries the epoch, its own range first and then the
// others', so a late worker can never take a chunk of the next job.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/platform.hpp"

namespace leanfast {

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Pool {
 public:
  using Clock = std::chrono::steady_clock;
  using Work = void (*)(void* context, i64 chunk);

  // The calling thread is one of `threads`: it works inside finish().
  explicit Pool(int threads)
      : ranges_(static_cast<std::size_t>(threads)),
        // With more threads than cores, spinning would only keep the others from running.
        spins_(threads <= static_cast<int>(std::thread::hardware_concurrency()) ? 2000 : 0) {
    try {
      for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { live(t); });
    } catch (...) {  // the system has no more threads to give
      end();
      throw;
    }
  }

  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Chunks nobody has claimed yet are dropped.
  ~Pool() { end(); }

  void start(Work work, void* context, i64 chunks) {
    work_ = work;
    context_ = context;
    left_.store(chunks, std::memory_order_relaxed);
    const u32 epoch = epoch_.load(std::memory_order_relaxed) + 1;
    const i64 count = static_cast<i64>(ranges_.size());
    for (i64 t = 0; t < count; ++t) {
      auto& range = ranges_[static_cast<std::size_t>(t)];
      // Closed before its end moves: a late worker that holds the last job's cursor must not find
      // it short of the new end.
      range.cursor.store(pack(epoch, ~u32{0}), std::memory_order_relaxed);
      range.end.store(static_cast<u32>(chunks * (t + 1) / count), std::memory_order_release);
      range.cursor.store(pack(epoch, static_cast<u32>(chunks * t / count)),
                         std::memory_order_release);
    }
    epoch_.store(epoch, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      std::lock_guard lock(mutex_);
      wake_.notify_all();
    }
  }

  // Works and waits. False: the deadline passed first; call again to go on.
  bool finish(Clock::time_point deadline) {
    const u32 epoch = epoch_.load(std::memory_order_relaxed);
    while (work_once(0, epoch)) {
      if (Clock::now() >= deadline) return left_.load(std::memory_order_acquire) == 0;
    }
    for (int spin = 0; spin < spins_; ++spin) {
      if (left_.load(std::memory_order_acquire) == 0) return true;
      pause_cpu();
    }
    std::unique_lock lock(mutex_);
    caller_sleeps_.store(true, std::memory_order_seq_cst);
    const bool done = finished_.wait_until(
        lock, deadline, [this] { return left_.load(std::memory_order_seq_cst) == 0; });
    caller_sleeps_.store(false, std::memory_order_relaxed);
    return done;
  }

 private:
  struct alignas(64) Range {
    std::atomic<u64> cursor{0};
    std::atomic<u32> end{0};
  };

  static u64 pack(u32 epoch, u32 next) { return (u64{epoch} << 32) | next; }

  void end() {
    stop_.store(true);
    {
      std::lock_guard lock(mutex_);
      wake_.notify_all();
    }
    for (auto& worker : workers_) worker.join();
  }

  // Takes one chunk, from thread t's own range or the next that has any.
  bool work_once(int t, u32 epoch) {
    const std::size_t count = ranges_.size();
    for (std::size_t k = 0; k < count; ++k) {
      auto& range = ranges_[(static_cast<std::size_t>(t) + k) % count];
      u64 at = range.cursor.load(std::memory_order_acquire);
      while (static_cast<u32>(at >> 32) == epoch &&
             static_cast<u32>(at) < range.end.load(std::memory_order_acquire)) {
        if (stop_.load(std::memory_order_relaxed)) return false;
        if (range.cursor.compare_exchange_weak(at, at + 1, std::memory_order_acq_rel)) {
          work_(context_, static_cast<u32>(at));
          if (left_.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
              caller_sleeps_.load(std::memory_order_seq_cst)) {
            std::lock_guard lock(mutex_);
            finished_.notify_one();
          }
          return true;
        }
      }
    }
    return false;
  }

  void live(int t) {
    u32 seen = 0;
    while (!stop_.load()) {
      u32 epoch = epoch_.load(std::memory_order_acquire);
      for (int spin = 0; epoch == seen && spin < spins_; ++spin) {
        pause_cpu();
        epoch = epoch_.load(std::memory_order_acquire);
      }
      if (epoch == seen) {
        std::unique_lock lock(mutex_);
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        wake_.wait(lock, [&] {
          epoch = epoch_.load(std::memory_order_seq_cst);
          return epoch != seen || stop_.load();
        });
        sleepers_.fetch_sub(1, std::memory_order_relaxed);
      }
      seen = epoch;
      while (work_once(t, seen)) {
      }
    }
  }

  std::vector<Range> ranges_;
  const int spins_;
  Work work_ = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<u32> epoch_{0};
  alignas(64) std::atomic<i64> left_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_, finished_;
  std::vector<std::thread> workers_;
};

}  // namespace leanfast
