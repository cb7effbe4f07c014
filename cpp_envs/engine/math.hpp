// Arithmetic that a compiler can vectorise: no branches, no calls, and in float the same bits on
// every instruction set and on the GPU (the build forbids contraction to fused multiply-adds).
#pragma once

#include "engine/platform.hpp"

#if !defined(__CUDACC__)
#include <cmath>
#endif

namespace leanfast {

inline constexpr double pi = 3.14159265358979323846;
inline constexpr double inf = bit_cast<double>(u64{0x7FF0000000000000});

template <class Real>
struct SinCos {
  Real sin, cos;
};

// Absolute error below 1e-7 for |x| up to 1e4 (Cody-Waite reduction, the Cephes polynomials);
// libm's functions are as good, but their calls keep a loop from being vectorised.
LEANFAST_FN SinCos<float> sin_cos(float x) {
  const float rounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = x * 0.636619772f + rounder;
  const u32 quadrant = bit_cast<u32>(shifted);
  const float k = shifted - rounder;
  const float r = ((x - k * 1.5703125f) - k * 4.837512969970703125e-4f) - k * 7.54978995489188e-8f;
  const float z = r * r;
  const float s = r + r * z * (-1.6666654611e-1f + z * (8.3321608736e-3f - z * 1.9515295891e-4f));
  const float c =
      (1.0f - 0.5f * z) +
      z * z * (4.166664568298827e-2f - z * (1.388731625493765e-3f - z * 2.443315711809948e-5f));
  const bool odd = (quadrant & 1u) != 0;
  const u32 sin_sign = (quadrant & 2u) << 30, cos_sign = ((quadrant + 1u) & 2u) << 30;
  return {bit_cast<float>(bit_cast<u32>(odd ? c : s) ^ sin_sign),
          bit_cast<float>(bit_cast<u32>(odd ? s : c) ^ cos_sign)};
}

LEANFAST_FN SinCos<double> sin_cos(double x) { return {::sin(x), ::cos(x)}; }

template <class Real>
LEANFAST_FN Real sin(Real x) {
  return sin_cos(x).sin;
}

template <class Real>
LEANFAST_FN Real cos(Real x) {
  return sin_cos(x).cos;
}

// The same angle within 1e-6, for |x| up to 1e4, in [-pi, pi] or beyond it by at most 1e-7 |x|.
LEANFAST_FN float wrap_angle(float x) {
  const float rounder = 12582912.0f;
  const float turns = (x * 0.159154943f + rounder) - rounder;
  return ((x - turns * 6.28125f) - turns * 1.93500518798828125e-3f) - turns * 3.019915982e-7f;
}

LEANFAST_FN double wrap_angle(double x) {
  const double rounder = 6755399441055744.0;  // 1.5 * 2^52
  return x - ((x * (0.5 / pi) + rounder) - rounder) * (2 * pi);
}

LEANFAST_FN float sqrt(float x) { return ::sqrtf(x); }
LEANFAST_FN double sqrt(double x) { return ::sqrt(x); }
LEANFAST_FN float exp(float x) { return ::expf(x); }
LEANFAST_FN double exp(double x) { return ::exp(x); }
LEANFAST_FN float log(float x) { return ::logf(x); }
LEANFAST_FN double log(double x) { return ::log(x); }
LEANFAST_FN float floor(float x) { return ::floorf(x); }
LEANFAST_FN double floor(double x) { return ::floor(x); }

template <class Real>
LEANFAST_FN constexpr Real abs(Real x) {
  return x < 0 ? -x : x;
}

template <class Real>
LEANFAST_FN constexpr Real min(Real a, Real b) {
  return b < a ? b : a;
}

template <class Real>
LEANFAST_FN constexpr Real max(Real a, Real b) {
  return a < b ? b : a;
}

template <class Real>
LEANFAST_FN constexpr Real clip(Real x, Real low, Real high) {
  return x < low ? low : (x > high ? high : x);
}

template <class Real>
LEANFAST_FN constexpr Real square(Real x) {
  return x * x;
}

// A divisor that every env shares: float multiplies by its reciprocal, double divides exactly.
template <class Real>
struct Divisor {
  Real value, reciprocal;

  LEANFAST_FN constexpr explicit Divisor(Real v) : value(v), reciprocal(1 / v) {}

  LEANFAST_FN friend constexpr Real operator/(Real x, const Divisor& d) {
    if constexpr (sizeof(Real) == 4) {
      return x * d.reciprocal;
    } else {
      return x / d.value;
    }
  }
};

}  // namespace leanfast
