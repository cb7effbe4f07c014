// The contract of an environment header. One struct template over Real (float, and double for
// parity) with:
//
//   struct Params { ... LEANFAST_PARAMS(...) };      parameters with their defaults
//   struct State { ... };                            plain data, 32-bit fields or Real
//   static constexpr Spec spec();                    or spec(const Params&), where sizes depend on
//                                                    them; both, where only bounds depend on them
//   static void reset(State&, const Params&, Rng&);
//   static Outcome<Real> step(State&, ACTION, const Params&, Rng&);
//   static void observe(const State&, const Params&, Real* out);      or u8* out
//
// ACTION is `int` (discrete) or `const Real*` (continuous). With several agents, one State holds
// them all, step takes every action and fills every reward, and observe is asked for one agent:
//
//   static bool step(State&, const int* actions, Real* rewards, const Params&, Rng&);  true: ended
//   static void observe(const State&, const Params&, int agent, Real* out);
//
// Optional: static const char* check(const Params&), a sentence about a bad parameter or nullptr.
#pragma once

#include "engine/random.hpp"
#include "engine/spec.hpp"

namespace leanfast {

template <class Real>
struct Outcome {
  Real reward;
  bool terminated;
};

struct NoParams {
  static constexpr const char* param_names = "";
  template <class Visitor>
  void each_param(Visitor&& visit) {
    visit();
  }
};

namespace has {

template <class E>
concept params = requires(typename E::Params p) { E::Params::param_names; };
template <class E>
concept state = requires { typename E::State; };
template <class S>
concept plain_data = __is_trivially_copyable(S) && requires(S& s) { s = S{}; };
template <class E>
concept fixed_spec = requires { Spec{E::spec()}; };
template <int>
struct Constant;
template <class E>
concept constant_spec = requires { typename Constant<E::spec().agents>; };
template <class E>
concept sized_spec = requires(const typename E::Params& p) { Spec{E::spec(p)}; };
template <class E>
concept reset =
    requires(typename E::State& s, const typename E::Params& p, Rng& rng) { E::reset(s, p, rng); };
template <class E, class Action, class Real>
concept step = requires(typename E::State& s, Action a, const typename E::Params& p, Rng& rng) {
  requires same_type<decltype(E::step(s, a, p, rng)), Outcome<Real>>;
};
template <class E, class Action, class Real>
concept agents_step =
    requires(typename E::State& s, const Action* a, Real* rewards, const typename E::Params& p,
             Rng& rng) { requires same_type<decltype(E::step(s, a, rewards, p, rng)), bool>; };
template <class E, class Value>
concept observe = requires(const typename E::State& s, const typename E::Params& p, Value* out) {
  E::observe(s, p, out);
};
template <class E, class Value>
concept agents_observe = requires(const typename E::State& s, const typename E::Params& p,
                                  Value* out) { E::observe(s, p, int{}, out); };
template <class E>
concept check = requires(const typename E::Params& p) { E::check(p); };

}  // namespace has

// What a header's struct is, read off its signatures.
template <class E, class Real>
struct Traits {
  static constexpr bool discrete = has::step<E, int, Real> || has::agents_step<E, int, Real>;
  static constexpr bool many_agents =
      has::agents_step<E, int, Real> || has::agents_step<E, Real, Real>;
  static constexpr bool steps = discrete || many_agents || has::step<E, const Real*, Real>;

  template <class Value>
  static constexpr bool observes =
      many_agents ? has::agents_observe<E, Value> : has::observe<E, Value>;

  static constexpr Spec spec(const typename E::Params& params) {
    if constexpr (has::sized_spec<E>) {
      return E::spec(params);
    } else {
      return E::spec();
    }
  }
};

template <class E, class Real>
concept Environment =
    has::params<E> && has::state<E> && has::reset<E> &&
    (has::fixed_spec<E> || has::sized_spec<E>) && Traits<E, Real>::steps &&
    (Traits<E, Real>::template observes<Real> || Traits<E, Real>::template observes<u8>);

struct AnyField {
  template <class T>
  constexpr operator T() const;
};

// How many values a plain struct can be initialised with, which is how many fields it has.
template <class P, class... Fields>
constexpr int field_count() {
  if constexpr (requires { P{Fields{}..., AnyField{}}; }) {
    return field_count<P, Fields..., AnyField>();
  } else {
    return sizeof...(Fields);
  }
}

constexpr int name_count(const char* names) {
  int count = *names != '\0';
  for (; *names != '\0'; ++names) count += *names == ',';
  return count;
}

// One sentence for each way to miss the contract; the first that fails is the one to mend.
template <class E, class Real>
constexpr bool explain_contract() {
  static_assert(
      has::params<E>,
      "leanfast: the environment needs `struct Params { ...; LEANFAST_PARAMS(names...) };` "
      "or `using Params = leanfast::NoParams;`");
  static_assert(has::state<E>, "leanfast: the environment needs `struct State { ... };`");
  if constexpr (has::params<E> && has::state<E>) {
    using State = typename E::State;
    using Params = typename E::Params;
    if constexpr (__is_aggregate(Params)) {
      static_assert(field_count<Params>() == name_count(Params::param_names),
                    "leanfast: LEANFAST_PARAMS(...) must name every field of Params once");
    }
    static_assert(
        has::plain_data<State>,
        "leanfast: State must be plain data: no containers, no strings, no constructors of "
        "its own");
    static_assert(sizeof(State) % 4 == 0,
                  "leanfast: State must be made of 32-bit or 64-bit fields (its size must be a "
                  "multiple of 4 bytes)");
    static_assert(has::fixed_spec<E> || has::sized_spec<E>,
                  "leanfast: the environment needs `static constexpr Spec spec()`, or "
                  "`spec(const Params&)` where sizes depend on parameters");
    static_assert(!has::fixed_spec<E> || has::constant_spec<E>,
                  "leanfast: spec() must be `static constexpr`, and so must all that it calls");
    static_assert(
        has::reset<E>,
        "leanfast: the environment needs `static void reset(State&, const Params&, Rng&)`");
    static_assert(Traits<E, Real>::steps,
                  "leanfast: the environment needs `static Outcome<Real> step(State&, int action, "
                  "const Params&, Rng&)` (or `const Real* action`; for several agents `static bool "
                  "step(State&, const int* actions, Real* rewards, const Params&, Rng&)`)");
    using T = Traits<E, Real>;
    constexpr bool observes = T::template observes<Real> || T::template observes<u8>;
    static_assert(
        !T::steps || observes,
        "leanfast: the environment needs `static void observe(const State&, const Params&, "
        "Real* out)` (or `u8* out`; for several agents `(const State&, const Params&, int "
        "agent, Real* out)`)");
    if constexpr (has::constant_spec<E> && T::steps && observes) {
      constexpr Spec spec = E::spec();
      static_assert(
          spec.observation.dtype != Dtype::u8 || T::template observes<u8>,
          "leanfast: the spec says planes of bytes, but observe does not write `u8* out`");
      static_assert(spec.observation.dtype != Dtype::real || T::template observes<Real>,
                    "leanfast: the spec says real-valued observations, but observe does not write "
                    "`Real* out`");
      static_assert(spec.action.is_discrete() == T::discrete,
                    "leanfast: the spec's action and step's disagree: discrete(n) goes with `int`, "
                    "continuous(...) with `const Real*`");
      static_assert(spec.agents >= 1 && spec.agents <= max_agents,
                    "leanfast: the spec's agents must be 1 to 128");
      static_assert(spec.agents == 1 || T::many_agents,
                    "leanfast: the spec has several agents, so step must take `const int* actions, "
                    "Real* rewards` and observe an agent's index");
    }
  }
  return Environment<E, Real>;
}

// Ends a header: says which struct is the environment.
template <class Real>
struct Declared {
  using type = void;
};

template <template <class> class>
constexpr bool is_template() {
  return true;
}
template <class>
constexpr bool is_template() {
  return false;
}

}  // namespace leanfast

#define LEANFAST_ENVIRONMENT(Struct)                                                           \
  static_assert(leanfast::is_template<Struct>(),                                               \
                "leanfast: the environment must be a template over its type of number: write " \
                "`template <class Real>` above `struct " #Struct "`");                         \
  template <>                                                                                  \
  struct leanfast::Declared<float> {                                                           \
    using type = Struct<float>;                                                                \
  };                                                                                           \
  template <>                                                                                  \
  struct leanfast::Declared<double> {                                                          \
    using type = Struct<double>;                                                               \
  };
