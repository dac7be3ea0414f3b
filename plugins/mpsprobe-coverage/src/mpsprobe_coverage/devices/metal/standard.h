// What Metal's standard library has, as C++, for sources that `translating.py` has prepared; see docs/explanation/compiled.md.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "threads.h"

using uchar = unsigned char;
using half = c10::Half;
using bfloat = c10::BFloat16;

#define M_PI_F 3.14159265358979323846f
#define M_SQRT2_F 1.41421356237309504880f
#define M_E_F 2.71828182845904523536f
#define M_LN2_F 0.69314718055994530942f
#define __METAL__ 1
#define __METAL_VERSION__ 400
#define MAXFLOAT std::numeric_limits<float>::max()

// Vectors: components by name, operations on each of them.
namespace mpsprobe_metal {

template <class T, int N>
struct vec;
template <class T>
struct is_vec : std::false_type {};
template <class T, int N>
struct is_vec<vec<T, N>> : std::true_type {};
template <class T>
concept Scalar = !is_vec<T>::value && std::is_convertible_v<T, float>;

template <class T>
struct vec<T, 2> {
  T x, y;
  constexpr vec() : x(T(0)), y(T(0)) {}
  template <Scalar A>
  constexpr vec(A all) : x(T(all)), y(T(all)) {}
  template <Scalar A, Scalar B>
  constexpr vec(A a, B b) : x(T(a)), y(T(b)) {}
  template <class U>
  explicit constexpr vec(const vec<U, 2>& o) : x(T(o.x)), y(T(o.y)) {}
  constexpr T& operator[](int at) { return at == 0 ? x : y; }
  constexpr const T& operator[](int at) const { return at == 0 ? x : y; }
};

template <class T>
struct vec<T, 3> {
  T x, y, z;
  constexpr vec() : x(T(0)), y(T(0)), z(T(0)) {}
  template <Scalar A>
  constexpr vec(A all) : x(T(all)), y(T(all)), z(T(all)) {}
  template <Scalar A, Scalar B, Scalar C>
  constexpr vec(A a, B b, C c) : x(T(a)), y(T(b)), z(T(c)) {}
  template <class U>
  explicit constexpr vec(const vec<U, 3>& o) : x(T(o.x)), y(T(o.y)), z(T(o.z)) {}
  constexpr T& operator[](int at) { return at == 0 ? x : at == 1 ? y : z; }
  constexpr const T& operator[](int at) const { return at == 0 ? x : at == 1 ? y : z; }
};

template <class T>
struct vec<T, 4> {
  T x, y;
  union {
    struct { T z, w; };
    vec<T, 2> zw;  // `ctr.zw = …` in c10/metal/random.h
  };
  constexpr vec() : x(T(0)), y(T(0)), zw(T(0)) {}
  template <Scalar A>
  constexpr vec(A all) : x(T(all)), y(T(all)), zw(T(all)) {}
  template <Scalar A, Scalar B, Scalar C, Scalar D>
  constexpr vec(A a, B b, C c, D d) : x(T(a)), y(T(b)), zw(T(c), T(d)) {}
  constexpr vec(const vec& o) : x(o.x), y(o.y), zw(o.zw) {}
  constexpr vec& operator=(const vec& o) {
    x = o.x, y = o.y, zw = o.zw;
    return *this;
  }
  template <class U>
  explicit constexpr vec(const vec<U, 4>& o) : x(T(o.x)), y(T(o.y)), zw(T(o.z), T(o.w)) {}
  constexpr T& operator[](int at) { return at == 0 ? x : at == 1 ? y : at == 2 ? z : w; }
  constexpr const T& operator[](int at) const { return at == 0 ? x : at == 1 ? y : at == 2 ? z : w; }
};

#define MPSPROBE_OPERATOR(op)                                          \
  template <class T, int N>                                            \
  constexpr vec<T, N> operator op(const vec<T, N>& a, const vec<T, N>& b) { \
    vec<T, N> made;                                                    \
    for (int at = 0; at < N; ++at) made[at] = T(a[at] op b[at]);       \
    return made;                                                       \
  }                                                                    \
  template <class T, int N, Scalar S>                                  \
  constexpr vec<T, N> operator op(const vec<T, N>& a, S b) { return a op vec<T, N>(b); } \
  template <class T, int N, Scalar S>                                  \
  constexpr vec<T, N> operator op(S a, const vec<T, N>& b) { return vec<T, N>(a) op b; } \
  template <class T, int N, class S>                                   \
  constexpr vec<T, N>& operator op##=(vec<T, N>& a, const S& b) { return a = a op b; }
MPSPROBE_OPERATOR(+)
MPSPROBE_OPERATOR(-)
MPSPROBE_OPERATOR(*)
MPSPROBE_OPERATOR(/)
MPSPROBE_OPERATOR(^)
MPSPROBE_OPERATOR(&)
MPSPROBE_OPERATOR(|)
#undef MPSPROBE_OPERATOR

}  // namespace mpsprobe_metal

#define MPSPROBE_VECTORS(T)               \
  using T##2 = mpsprobe_metal::vec<T, 2>; \
  using T##3 = mpsprobe_metal::vec<T, 3>; \
  using T##4 = mpsprobe_metal::vec<T, 4>;
MPSPROBE_VECTORS(float)
MPSPROBE_VECTORS(half)
MPSPROBE_VECTORS(bfloat)
MPSPROBE_VECTORS(bool)
MPSPROBE_VECTORS(char)
MPSPROBE_VECTORS(uchar)
MPSPROBE_VECTORS(short)
MPSPROBE_VECTORS(ushort)
MPSPROBE_VECTORS(int)
MPSPROBE_VECTORS(uint)
MPSPROBE_VECTORS(long)
MPSPROBE_VECTORS(ulong)
#undef MPSPROBE_VECTORS

template <class T, class U>
T as_type(const U& value) {
  static_assert(sizeof(T) == sizeof(U));
  T made;
  std::memcpy(static_cast<void*>(&made), static_cast<const void*>(&value), sizeof(T));
  return made;
}

namespace metal {

using std::declval;
using std::enable_if_t;
using std::is_same_v;
using std::numeric_limits;
template <class T>
constexpr bool is_floating_point_v = std::is_same_v<T, float> || std::is_same_v<T, half> || std::is_same_v<T, bfloat>;
template <class T>
constexpr bool is_integral_v = std::is_integral_v<T>;
template <class T>
constexpr bool is_signed_v = std::is_signed_v<T>;
template <class T>
constexpr bool is_scalar_v = !mpsprobe_metal::is_vec<T>::value;

template <class T, size_t N>
struct array {
  T of[N];
  constexpr T& operator[](size_t at) { return of[at]; }
  constexpr const T& operator[](size_t at) const { return of[at]; }
};

// Functions of one number: of float as the CPU computes it, of half and bfloat rounded from that. Metal's fast and
// precise forms are the same here.
#define MPSPROBE_UNARY(name, how)                        \
  inline float name(float x) { return how; }             \
  inline half name(half x) { return half(name(float(x))); } \
  inline bfloat name(bfloat x) { return bfloat(name(float(x))); }
#define MPSPROBE_BINARY(name, how)                                       \
  inline float name(float x, float y) { return how; }                    \
  inline half name(half x, half y) { return half(name(float(x), float(y))); } \
  inline bfloat name(bfloat x, bfloat y) { return bfloat(name(float(x), float(y))); }
#define MPSPROBE_FUNCTIONS                        \
  MPSPROBE_UNARY(floor, std::floor(x))            \
  MPSPROBE_UNARY(ceil, std::ceil(x))              \
  MPSPROBE_UNARY(trunc, std::trunc(x))            \
  MPSPROBE_UNARY(rint, std::rint(x))              \
  MPSPROBE_UNARY(round, std::round(x))            \
  MPSPROBE_UNARY(fract, x - std::floor(x))        \
  MPSPROBE_UNARY(fabs, std::fabs(x))              \
  MPSPROBE_UNARY(sqrt, std::sqrt(x))              \
  MPSPROBE_UNARY(rsqrt, 1.0f / std::sqrt(x))      \
  MPSPROBE_UNARY(exp, std::exp(x))                \
  MPSPROBE_UNARY(exp2, std::exp2(x))              \
  MPSPROBE_UNARY(exp10, std::pow(10.0f, x))       \
  MPSPROBE_UNARY(log, std::log(x))                \
  MPSPROBE_UNARY(log2, std::log2(x))              \
  MPSPROBE_UNARY(log10, std::log10(x))            \
  MPSPROBE_UNARY(log1p, std::log1p(x))            \
  MPSPROBE_UNARY(sin, std::sin(x))                \
  MPSPROBE_UNARY(cos, std::cos(x))                \
  MPSPROBE_UNARY(tan, std::tan(x))                \
  MPSPROBE_UNARY(sinpi, std::sin(M_PI_F * x))     \
  MPSPROBE_UNARY(cospi, std::cos(M_PI_F * x))     \
  MPSPROBE_UNARY(asin, std::asin(x))              \
  MPSPROBE_UNARY(acos, std::acos(x))              \
  MPSPROBE_UNARY(atan, std::atan(x))              \
  MPSPROBE_UNARY(sinh, std::sinh(x))              \
  MPSPROBE_UNARY(cosh, std::cosh(x))              \
  MPSPROBE_UNARY(tanh, std::tanh(x))              \
  MPSPROBE_UNARY(asinh, std::asinh(x))            \
  MPSPROBE_UNARY(acosh, std::acosh(x))            \
  MPSPROBE_UNARY(atanh, std::atanh(x))            \
  MPSPROBE_BINARY(pow, std::pow(x, y))            \
  MPSPROBE_BINARY(powr, std::pow(x, y))           \
  MPSPROBE_BINARY(fmod, std::fmod(x, y))          \
  MPSPROBE_BINARY(atan2, std::atan2(x, y))        \
  MPSPROBE_BINARY(fmin, std::fmin(x, y))          \
  MPSPROBE_BINARY(fmax, std::fmax(x, y))          \
  MPSPROBE_BINARY(fdim, std::fdim(x, y))          \
  MPSPROBE_BINARY(copysign, std::copysign(x, y))  \
  inline float sincos(float x, float& c) {        \
    c = std::cos(x);                              \
    return std::sin(x);                           \
  }
MPSPROBE_FUNCTIONS
namespace precise {
MPSPROBE_FUNCTIONS
}
namespace fast {
MPSPROBE_FUNCTIONS
}
#undef MPSPROBE_FUNCTIONS
#undef MPSPROBE_BINARY
#undef MPSPROBE_UNARY

inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
inline float ldexp(float x, int by) { return std::ldexp(x, by); }
inline float frexp(float x, int& exponent) { return std::frexp(x, &exponent); }
inline bool isnan(float x) { return x != x; }
inline bool isinf(float x) { return std::isinf(x); }
inline bool isfinite(float x) { return std::isfinite(x); }
inline bool signbit(float x) { return std::signbit(x); }
inline bool isunordered(float a, float b) { return isnan(a) || isnan(b); }
template <class T>
T sign(T x) {
  return isnan(float(x)) ? T(0) : T((float(x) > 0.0f) - (float(x) < 0.0f));
}
template <class T>
T abs(T x) {
  if constexpr (std::is_unsigned_v<T>) {
    return x;
  } else if constexpr (is_floating_point_v<T>) {
    return T(std::fabs(float(x)));
  } else {
    return T(x < T(0) ? -x : x);
  }
}
template <class T>
T max(T a, T b) {
  if constexpr (is_floating_point_v<T>) return T(std::fmax(float(a), float(b)));
  else return a < b ? b : a;
}
template <class T>
T min(T a, T b) {
  if constexpr (is_floating_point_v<T>) return T(std::fmin(float(a), float(b)));
  else return b < a ? b : a;
}
template <class T>
T clamp(T x, T low, T high) {
  return min(max(x, low), high);
}
template <class T>
T select(T no, T yes, bool which) {
  return which ? yes : no;
}
template <class T>
T mix(T a, T b, T by) {
  return a + (b - a) * by;
}
template <class T, int N>
T dot(const mpsprobe_metal::vec<T, N>& a, const mpsprobe_metal::vec<T, N>& b) {
  T sum = a[0] * b[0];
  for (int at = 1; at < N; ++at) sum = sum + a[at] * b[at];
  return sum;
}
template <class T>
T ctz(T x) {
  return x == 0 ? T(8 * sizeof(T)) : T(__builtin_ctzll(static_cast<unsigned long long>(x)));
}
template <class T>
T popcount(T x) {
  return T(__builtin_popcountll(static_cast<unsigned long long>(x)));
}

// Atomics: one operating-system thread runs a launch, and switches between Metal's threads at barriers only.
enum memory_order { memory_order_relaxed };
template <class T>
struct atomic {
  T value;
};
using atomic_int = atomic<int>;
using atomic_uint = atomic<uint>;
using atomic_bool = atomic<bool>;
using atomic_float = atomic<float>;
template <class P>
using held = std::remove_cvref_t<decltype(mpsprobe_metal::bare(std::declval<P>())->value)>;
template <class P>
held<P> atomic_load_explicit(P at, memory_order) {
  return mpsprobe_metal::inside(mpsprobe_metal::bare(at)) ? mpsprobe_metal::bare(at)->value : held<P>(0);
}
template <class P, class U>
void atomic_store_explicit(P at, U value, memory_order) {
  if (mpsprobe_metal::inside(mpsprobe_metal::bare(at))) mpsprobe_metal::bare(at)->value = held<P>(value);
}
#define MPSPROBE_FETCH(name, how)                                            \
  template <class P, class U>                                                \
  held<P> atomic_##name##_explicit(P at, U by, memory_order) {               \
    using T = held<P>;                                                       \
    if (!mpsprobe_metal::inside(mpsprobe_metal::bare(at))) return T(0);      \
    const T old = mpsprobe_metal::bare(at)->value, value = T(by);            \
    mpsprobe_metal::bare(at)->value = how;                                   \
    return old;                                                              \
  }
MPSPROBE_FETCH(fetch_add, T(old + value))
MPSPROBE_FETCH(fetch_sub, T(old - value))
MPSPROBE_FETCH(fetch_max, metal::max(old, value))
MPSPROBE_FETCH(fetch_min, metal::min(old, value))
MPSPROBE_FETCH(fetch_or, T(old | value))
MPSPROBE_FETCH(fetch_and, T(old & value))
MPSPROBE_FETCH(exchange, value)
#undef MPSPROBE_FETCH
template <class P, class T>
bool atomic_compare_exchange_weak_explicit(P at, T* expected, T wanted, memory_order, memory_order) {
  auto* own = mpsprobe_metal::bare(at);
  if (!mpsprobe_metal::inside(own)) return true;
  if (std::memcmp(&own->value, expected, sizeof(T)) == 0) {
    own->value = wanted;
    return true;
  }
  *expected = own->value;
  return false;
}

// Functions of groups: `threads.h` has each lane wait for the others.
enum class mem_flags { mem_none, mem_device, mem_threadgroup, mem_texture };
inline void threadgroup_barrier(mem_flags) { mpsprobe_metal::barrier(); }
inline void simdgroup_barrier(mem_flags) { mpsprobe_metal::exchanged(0, "simdgroup_barrier"); }

struct simd_vote {
  uint64_t bits;
  explicit operator uint64_t() const { return bits; }
  bool all() const { return bits == 0xffffffffull; }
  bool any() const { return bits != 0; }
};
#define MPSPROBE_REDUCTION(name, how)                                    \
  template <class T>                                                     \
  T simd_##name(T value) {                                               \
    const auto& lanes = mpsprobe_metal::exchanged(value, #name);         \
    bool first = true;                                                   \
    T a = value;                                                         \
    for (int lane = 0; lane < 32; ++lane) {                              \
      if (!lanes.active(lane)) continue;                                 \
      const T b = lanes.template of<T>(lane);                            \
      a = first ? b : how;                                               \
      first = false;                                                     \
    }                                                                    \
    return a;                                                            \
  }
MPSPROBE_REDUCTION(sum, T(a + b))
MPSPROBE_REDUCTION(product, T(a * b))
MPSPROBE_REDUCTION(max, metal::max(a, b))
MPSPROBE_REDUCTION(min, metal::min(a, b))
MPSPROBE_REDUCTION(or, T(a | b))
MPSPROBE_REDUCTION(and, T(a & b))
MPSPROBE_REDUCTION(xor, T(a ^ b))
#undef MPSPROBE_REDUCTION
// What a lane reads of one that takes no part is undefined; on Apple's GPUs it is 0 (c10/metal/reduction_utils.h).
template <class T, class Other>
T simd_read(T value, const char* what, Other other, T beyond) {
  const auto& lanes = mpsprobe_metal::exchanged(value, what);
  const int lane = other(mpsprobe_metal::lane());
  if (lane < 0 || lane > 31) return beyond;
  return lanes.active(lane) ? lanes.template of<T>(lane) : T(0);
}
template <class T>
T simd_broadcast(T value, ushort lane) {
  return simd_read(value, "broadcast", [=](int) { return int(lane); }, value);
}
template <class T>
T simd_broadcast_first(T value) {
  const auto& lanes = mpsprobe_metal::exchanged(value, "broadcast_first");
  for (int lane = 0; lane < 32; ++lane)
    if (lanes.active(lane)) return lanes.template of<T>(lane);
  return value;
}
template <class T>
T simd_shuffle(T value, ushort lane) {
  return simd_read(value, "shuffle", [=](int) { return int(lane); }, value);
}
template <class T>
T simd_shuffle_down(T value, ushort by) {
  return simd_read(value, "shuffle_down", [=](int own) { return own + by; }, value);
}
template <class T>
T simd_shuffle_up(T value, ushort by) {
  return simd_read(value, "shuffle_up", [=](int own) { return own - by; }, value);
}
template <class T>
T simd_shuffle_xor(T value, ushort mask) {
  return simd_read(value, "shuffle_xor", [=](int own) { return own ^ mask; }, value);
}
template <class T>
T simd_shuffle_and_fill_down(T value, T fill, ushort by) {
  return simd_read(value, "shuffle_and_fill_down", [=](int own) { return own + by; }, fill);
}
template <class T>
T simd_shuffle_and_fill_up(T value, T fill, ushort by) {
  return simd_read(value, "shuffle_and_fill_up", [=](int own) { return own - by; }, fill);
}
inline simd_vote simd_ballot(bool value) {
  const auto& lanes = mpsprobe_metal::exchanged(value, "ballot");
  uint64_t bits = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (lanes.active(lane) && lanes.template of<bool>(lane)) bits |= uint64_t(1) << lane;
  return {bits};
}
inline bool simd_any(bool value) { return simd_ballot(value).bits != 0; }
inline bool simd_all(bool value) { return simd_ballot(!value).bits == 0; }

}  // namespace metal

#define expm1f metal_expm1f  // c10/metal/expm1f.h has one, the C library another
#define device
#define constant
#define thread
#define threadgroup
#define kernel
