#include "engine/engine.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>

namespace leanfast {

namespace {

constexpr i64 block = 64;
constexpr i64 careful = 8;                    // envs at once, while the cost is unknown
constexpr i64 surely_worth_a_barrier = 8192;  // envs, while the cost is unknown
constexpr double may_be_interrupted_ns = 5e6, between_interruptions_ns = 1e6;
constexpr double longest_chunk_ns = 20e6, sharing_a_line_is_nothing_ns = 50e3;
constexpr double unknown_ns = 1e18;

std::atomic<u32> fork_generation{0};

void watch_forks() {
#if defined(__unix__) || defined(__APPLE__)
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1); });
  if (registered != 0) throw std::runtime_error("the fork handler could not be registered");
#endif
}

std::unique_ptr<char[], void (*)(char*)> aligned_bytes(i64 bytes) {
  constexpr std::align_val_t line{64};
  const auto size = static_cast<std::size_t>(bytes);
  char* memory = static_cast<char*>(::operator new(size, line));
  std::memset(memory, 0, size);
  return {memory, [](char* p) { ::operator delete(p, std::align_val_t{64}); }};
}

}  // namespace

bool runs_instruction_set(int set) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (set == 1) return __builtin_cpu_supports("avx2");
  if (set == 2) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
#endif
  return set == 0;
}

int best_instruction_set() {
  int best = 0;
  for (int set = 0; set < instruction_sets; ++set) {
    if (runs_instruction_set(set)) best = set;
  }
  return best;
}

Engine::Engine(const Kernels& kernels, std::vector<char> params, Spec spec, i64 num_envs,
               int threads, int instruction_set)
    : kernels_(kernels),
      params_(std::move(params)),
      num_envs_(num_envs),
      threads_(threads),
      instruction_set_(instruction_set) {
  const i64 padded = (num_envs + block - 1) / block * block;
  const auto allocate = [&](i64 bytes_per_env) {
    memory_.push_back(aligned_bytes(padded * bytes_per_env));
    return memory_.back().get();
  };
  call_.spec = spec;
  call_.params = params_.data();
  Records& r = call_.records;
  r.state = allocate(kernels.state_bytes);
  r.stride = padded;
  r.seed = reinterpret_cast<u64*>(allocate(sizeof(u64)));
  r.episode = reinterpret_cast<u32*>(allocate(sizeof(u32)));
  r.length = reinterpret_cast<i32*>(allocate(sizeof(i32)));
  r.total = allocate(kernels.real_bytes * i64{spec.agents});
  std::fill_n(r.episode, padded, ~u32{0});  // the first reset makes it episode 0
}

Engine::~Engine() {
  if (!forked()) delete pool_;  // a forked child has no such threads to join
}

bool Engine::forked() const {
  return pool_ != nullptr && pool_generation_ != fork_generation.load(std::memory_order_relaxed);
}

void Engine::begin_reset(const Slot& out, const u8* mask) {
  call_.out = out;
  call_.mask = mask;
  begin(kernels_.reset[static_cast<int>(call_.spec.observation.dtype)],
        mask == nullptr ? reset_cost_ : masked_reset_cost_);
}

void Engine::begin_step(const Slot& out, const void* actions, int action_bytes) {
  call_.out = out;
  call_.actions = actions;
  call_.action_bytes = action_bytes;
  begin(kernels_.step[instruction_set_][static_cast<int>(call_.spec.observation.dtype)],
        step_cost_);
}

// Decides who runs a batch of this kind, and in which pieces.
void Engine::plan(Cost& cost) {
  cost_ = &cost;
  expected_ns_ = cost.known() ? cost.ns_per_env * static_cast<double>(num_envs_) : unknown_ns;
  const bool worth_it = cost.known() || pool_above_ns_ <= 0 ? expected_ns_ > pool_above_ns_
                                                            : num_envs_ >= surely_worth_a_barrier;
  chunk_envs_ = chunk_envs();
  pooled_ = threads_ > 1 && num_envs_ > chunk_envs_ && worth_it;
  if (pooled_ && pool_ == nullptr) {
    watch_forks();
    pool_generation_ = fork_generation.load();
    try {
      pool_ = new Pool(threads_);
    } catch (const std::system_error& e) {
      throw std::runtime_error("the engine could not start " + std::to_string(threads_) +
                               " threads (" + e.what() + "); pass a smaller threads=");
    }
  }
}

void Engine::begin(RangeFn range, Cost& cost) {
  plan(cost);
  range_ = range;
  cursor_ = 0;
  in_flight_ = true;
  if (pooled_) pool_->start(run_chunk, this, chunks());
}

bool Engine::every(bool (*ok)(const void*, i64, i64), const void* context) {
  plan(step_cost_);
  if (!pooled_) return ok(context, 0, num_envs_);
  struct Question {
    const Engine& engine;
    bool (*ok)(const void*, i64, i64);
    const void* context;
    std::atomic<bool> yes{true};
  } question{*this, ok, context};
  const auto ask = [](void* asked, i64 chunk) {
    auto& q = *static_cast<Question*>(asked);
    const i64 first = chunk * q.engine.chunk_envs_;
    const i64 last = std::min(first + q.engine.chunk_envs_, q.engine.num_envs_);
    if (!q.ok(q.context, first, last)) q.yes.store(false, std::memory_order_relaxed);
  };
  pool_->start(ask, &question, chunks());
  while (!pool_->finish(Clock::now() + std::chrono::hours(1))) {
  }
  return question.yes.load();
}

// At least 1; whole blocks where there is room for one.
i64 Engine::Cost::envs_in(double ns) const {
  const i64 envs = static_cast<i64>(std::min(ns / ns_per_env, 1e9));
  return envs >= block ? envs / block * block : std::max<i64>(1, envs);
}

// A block, so that no two threads write one cache line; less where an env takes so long that this
// costs nothing beside it, so that a few slow envs are shared out too.
i64 Engine::grain() const {
  return cost_->known() ? std::min(block, cost_->envs_in(sharing_a_line_is_nothing_ns)) : careful;
}

i64 Engine::chunk_envs() const {
  const i64 least = grain(), share = num_envs_ / (i64{threads_} * 8) / least * least;
  return cost_->known() ? std::clamp(share, least, cost_->envs_in(longest_chunk_ns)) : least;
}

i64 Engine::piece_envs() const {
  if (!cost_->known()) return 1;  // an env may take a second
  return timing() ? grain() : cost_->envs_in(between_interruptions_ns);
}

bool Engine::finish(Clock::time_point deadline) {
  if (!(pooled_ ? pool_->finish(deadline) : run_inline(deadline))) return false;
  in_flight_ = false;
  if (timing()) ++cost_->batches;
  if (failed_.load()) {
    throw std::runtime_error("env " + std::to_string(failure_.env) + ": " + failure_.what);
  }
  return true;
}

bool Engine::run_inline(Clock::time_point deadline) {
  const bool in_pieces = timing() || expected_ns_ > may_be_interrupted_ns;
  while (cursor_ < num_envs_) {
    const i64 first = cursor_;
    cursor_ = std::min(first + (in_pieces ? piece_envs() : num_envs_), num_envs_);
    run_range(first, cursor_);
    if (in_pieces && Clock::now() >= deadline) return cursor_ >= num_envs_;
  }
  return true;
}

void Engine::run_chunk(void* engine, i64 chunk) {
  auto& self = *static_cast<Engine*>(engine);
  const i64 first = chunk * self.chunk_envs_;
  self.run_range(first, std::min(first + self.chunk_envs_, self.num_envs_));
}

void Engine::run_range(i64 first, i64 last) {
  if (failed_.load(std::memory_order_relaxed)) return;
  const bool timed = timing();
  const auto began = timed ? Clock::now() : Clock::time_point{};
  Failure failure{};
  const bool ok = range_(call_, first, last, failure);
  if (ok && !timed) return;
  std::lock_guard lock(failure_mutex_);
  if (!ok && (!failed_.load() || failure.env < failure_.env)) {
    failure_ = failure;
    failed_.store(true);
  }
  if (timed) {
    const std::chrono::duration<double, std::nano> took = Clock::now() - began;
    const double each = std::max(1e-3, took.count() / static_cast<double>(last - first));
    cost_->ns_per_env = cost_->known() ? std::min(cost_->ns_per_env, each) : each;
  }
}

template <class Copy>
void Engine::each_state_part(Copy&& copy) const {
  const i64 size = kernels_.state_bytes, word = kernels_.word_bytes;
  if (word == 0) return copy(0, 0, num_envs_ * size);
  for (i64 env = 0; env < num_envs_; ++env) {
    for (i64 k = 0; k < size / word; ++k) {
      copy(env * size + k * word, (k * call_.records.stride + env) * word, word);
    }
  }
}

void Engine::copy_states_out(char* to) const {
  const auto* from = static_cast<const char*>(call_.records.state);
  each_state_part([&](i64 flat, i64 kept, i64 bytes) {
    std::memcpy(to + flat, from + kept, static_cast<std::size_t>(bytes));
  });
}

void Engine::copy_states_in(const char* from) {
  auto* to = static_cast<char*>(call_.records.state);
  each_state_part([&](i64 flat, i64 kept, i64 bytes) {
    std::memcpy(to + kept, from + flat, static_cast<std::size_t>(bytes));
  });
}

}  // namespace leanfast
