// Drives the pool and the engine through what could go wrong in threads and memory, to be run under
// sanitizers. Says what failed and ends with 1, or prints "ok".
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/random.hpp"

extern "C" const leanfast::Table* table_cartpole();
extern "C" const leanfast::Table* table_throwing();
extern "C" const leanfast::Table* table_slow();

namespace {

using namespace leanfast;
using std::chrono::milliseconds;
using Clock = Engine::Clock;

#define CHECK(condition)                                                         \
  if (!(condition)) {                                                            \
    std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
    std::exit(1);                                                                \
  }

void random123_known_answers() {
  const auto draw = [](u64 key, u32 a, u32 b, u32 c, u32 d, const Philox& wanted) {
    const Philox got = Philox::block(key, a, b, c, d);
    for (int k = 0; k < 4; ++k) CHECK(got.word[k] == wanted.word[k]);
  };
  const u32 ones = ~u32{0};
  draw(0, 0, 0, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  draw(~u64{0}, ones, ones, ones, ones, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  draw(0x299f31d0a4093822, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344,
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

// Each chunk of each job must run exactly once; plain ints, so that TSan sees a missing ordering.
void pool_runs_each_chunk_once() {
  struct Job {
    std::vector<int> runs;
  };
  const Pool::Work work = [](void* job, i64 chunk) {
    ++static_cast<Job*>(job)->runs[static_cast<std::size_t>(chunk)];
  };
  const int sizes[] = {0, 1, 2, 7, 64, 3, 501, 5, 17, 1, 33};
  for (int threads = 1; threads <= 8; ++threads) {
    Pool pool(threads);
    for (int round = 0; round < 600; ++round) {
      Job job;
      job.runs.resize(static_cast<std::size_t>(sizes[(round * 7 + threads) % 11]));
      pool.start(work, &job, static_cast<i64>(job.runs.size()));
      const bool hurried = round % 3 == 0;
      while (!pool.finish(hurried ? Clock::now() : Clock::time_point::max())) {
      }
      for (int runs : job.runs) CHECK(runs == 1);
      if (round % 97 == 0) std::this_thread::sleep_for(milliseconds(1));  // let them fall asleep
    }
  }
}

void pool_ends_with_a_job_under_way() {
  for (int threads = 1; threads <= 8; ++threads) {
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> runs{0};
      {
        Pool pool(threads);
        pool.start([](void* n, i64) { ++*static_cast<std::atomic<int>*>(n); }, &runs, 1000);
        if (round % 2 == 0) pool.finish(Clock::now());
      }
      CHECK(runs <= 1000);
    }
  }
}

struct Rig {
  i64 num_envs;
  std::vector<i64> actions;
  std::vector<u8> mask;
  std::unique_ptr<Engine> engine;

  Rig(const Table* table, i64 n, int threads, int set = best_instruction_set(), int parameter = 0)
      : num_envs(n), actions(static_cast<std::size_t>(n)), mask(static_cast<std::size_t>(n)) {
    const Kernels& k = table->real32;
    std::vector<char> params(static_cast<std::size_t>(k.params_bytes));
    k.default_params(params.data());
    if (parameter != 0) *reinterpret_cast<int*>(params.data()) = parameter;
    const Spec spec = k.spec(params.data());
    engine = std::make_unique<Engine>(k, std::move(params), spec, n, threads, set);
    engine->set_pool_above(0);
    for (i64 i = 0; i < n; ++i) engine->records().seed[i] = 5;
  }
};

// [steps, N, ...] arrays of exactly the right size, so that ASan sees a write past their end.
struct Storage {
  i64 n, width;
  std::vector<float> observation, next, reward, episode_return;
  std::vector<u8> terminated, truncated, done;
  std::vector<i32> length;

  Storage(i64 steps, i64 num_envs, i64 row) : n(num_envs), width(num_envs * row) {
    const auto rows = static_cast<std::size_t>(steps * n);
    for (auto* v : {&observation, &next}) v->resize(static_cast<std::size_t>(steps * width));
    for (auto* v : {&reward, &episode_return}) v->resize(rows);
    for (auto* v : {&terminated, &truncated, &done}) v->resize(rows);
    length.resize(rows);
  }

  Slot slot(i64 t) {
    return {observation.data() + t * width, next.data() + t * width,  reward.data() + t * n,
            terminated.data() + t * n,      truncated.data() + t * n, done.data() + t * n,
            episode_return.data() + t * n,  length.data() + t * n};
  }

  bool operator==(const Storage&) const = default;
};

void wait_for(Engine& engine, bool hurried = false) {
  while (!engine.finish(hurried ? Clock::now() : Clock::time_point::max())) {
  }
}

// Resets, steps and partial resets of CartPole into one storage.
Storage play(i64 num_envs, int threads, int set) {
  const i64 steps = 24;
  Storage out(steps, num_envs, 4);
  Rig rig(table_cartpole(), num_envs, threads, set);
  Engine& e = *rig.engine;
  int long_batches = 0;
  for (i64 t = 0; t < steps; ++t) {
    if (t % 8 == 0) {
      for (i64 i = 0; i < num_envs; ++i) rig.mask[static_cast<std::size_t>(i)] = i % 3 == 0;
      e.begin_reset(out.slot(t), t == 0 ? nullptr : rig.mask.data());
    } else {
      for (i64 i = 0; i < num_envs; ++i) rig.actions[static_cast<std::size_t>(i)] = (i + t / 4) % 2;
      e.begin_step(out.slot(t), rig.actions.data(), 8);
    }
    CHECK(e.in_flight());
    long_batches += e.is_long();  // asked with the batch under way, as the bindings do
    wait_for(e, t % 5 == 0);
    CHECK(!e.in_flight());
  }
  CHECK(long_batches >= 3);  // the first of each kind, whose cost is unknown
  return out;
}

void every_thread_count_and_instruction_set_agree() {
  for (i64 num_envs : {1, 63, 64, 65, 257, 1000}) {
    const Storage wanted = play(num_envs, 1, 0);
    for (int threads = 1; threads <= 8; ++threads) {
      for (int set = 0; set < instruction_sets; ++set) {
        if (runs_instruction_set(set)) CHECK(play(num_envs, threads, set) == wanted);
      }
    }
  }
}

void engines_end_with_a_batch_under_way() {
  for (int threads = 1; threads <= 8; ++threads) {
    for (int round = 0; round < 12; ++round) {
      const i64 num_envs = 129 + 64 * round;
      Storage out(1, num_envs, 4);
      Rig rig(table_cartpole(), num_envs, threads);
      rig.engine->begin_reset(out.slot(0), nullptr);
      if (round % 3 == 0) continue;
      wait_for(*rig.engine);
      rig.engine->begin_step(out.slot(0), rig.actions.data(), 8);
      if (round % 3 == 1) rig.engine->finish(Clock::now());
    }
  }
}

std::string failure_of(Engine& engine) {
  try {
    wait_for(engine);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

void exceptions_name_their_env() {
  for (int threads = 1; threads <= 8; ++threads) {
    Storage out(1, 777, 1);
    Rig rig(table_throwing(), 777, threads);
    rig.engine->begin_reset(out.slot(0), nullptr);
    wait_for(*rig.engine);
    rig.actions[700] = 37;
    rig.engine->begin_step(out.slot(0), rig.actions.data(), 8);
    CHECK(failure_of(*rig.engine) == "env 700: action 37 is one too many");
    CHECK(!rig.engine->in_flight());

    Rig odd(table_throwing(), 777, threads);
    odd.engine->begin_reset(out.slot(0), nullptr);
    wait_for(*odd.engine);
    odd.actions[65] = 36;
    odd.engine->begin_step(out.slot(0), odd.actions.data(), 8);
    CHECK(failure_of(*odd.engine) == "env 65: an exception of an unknown type");

    Rig refused(table_throwing(), 777, threads, best_instruction_set(), 1);
    refused.engine->begin_reset(out.slot(0), nullptr);
    CHECK(failure_of(*refused.engine).ends_with(": no reset today"));
  }
}

void deadlines_return_in_time_and_lose_nothing() {
  for (int threads : {1, 2, 4}) {
    Storage out(1, 200, 1);
    Rig rig(table_slow(), 200, threads);
    rig.engine->begin_reset(out.slot(0), nullptr);
    wait_for(*rig.engine);
    rig.actions.assign(200, 2);
    rig.engine->begin_step(out.slot(0), rig.actions.data(), 8);
    int interrupted = 0;
    for (auto began = Clock::now(); !rig.engine->finish(began + milliseconds(20));) {
      // A thread takes at most a block at once: 64 envs of 2 ms, and sanitizers are slow.
      CHECK(Clock::now() - began < milliseconds(1000));
      began = Clock::now();
      ++interrupted;
    }
    CHECK(interrupted >= 1);
    for (float steps : out.observation) CHECK(steps == 1);

    rig.engine->begin_step(out.slot(0), rig.actions.data(), 8);
    rig.engine->finish(Clock::now());
    const auto began = Clock::now();
    rig.engine.reset();
    CHECK(Clock::now() - began < milliseconds(1000));
  }
}

void a_few_slow_envs_are_shared_out() {
  Storage out(1, 16, 1);
  Rig rig(table_slow(), 16, 4);
  rig.engine->begin_reset(out.slot(0), nullptr);
  wait_for(*rig.engine);
  rig.actions.assign(16, 20);
  for (int step = 0; step < 2; ++step) {
    const auto began = Clock::now();
    rig.engine->begin_step(out.slot(0), rig.actions.data(), 8);
    wait_for(*rig.engine);
    if (step > 0) CHECK(Clock::now() - began < milliseconds(16 * 20 * 3 / 4));
  }
  CHECK(rig.engine->pooled());
}

}  // namespace

int main() {
  random123_known_answers();
  pool_runs_each_chunk_once();
  pool_ends_with_a_job_under_way();
  every_thread_count_and_instruction_set_agree();
  engines_end_with_a_batch_under_way();
  exceptions_name_their_env();
  deadlines_return_in_time_and_lose_nothing();
  a_few_slow_envs_are_shared_out();
  std::puts("ok");
}
