// What differs between a host compiler and NVRTC: fixed-width names, inlining, bit casts.
#pragma once

#if defined(__CUDACC__)
#define LEANFAST_FN __host__ __device__ __forceinline__
#else
#define LEANFAST_FN [[gnu::always_inline]] inline
#endif

namespace leanfast {

using u8 = unsigned char;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

static_assert(sizeof(i32) == 4 && sizeof(i64) == 8);

template <class To, class From>
LEANFAST_FN constexpr To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

template <class A, class B>
inline constexpr bool same_type = false;
template <class A>
inline constexpr bool same_type<A, A> = true;

}  // namespace leanfast
