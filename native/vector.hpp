// Short vectors of floats in the compiler's own vector types, so that one source serves every instruction set.
//
// This header is compiled once per instruction set. Everything lives in an anonymous namespace: a function that
// two builds shared would be linked once, and could run instructions the machine does not have.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#ifndef TACIT_LANES
#error "the build must say how many floats a vector holds"
#endif

namespace {

constexpr int kLanes = TACIT_LANES;

typedef float Vector __attribute__((vector_size(kLanes * 4)));
typedef int32_t IntVector __attribute__((vector_size(kLanes * 4)));

inline Vector load(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

inline void store(float* to, Vector vector) { std::memcpy(to, &vector, sizeof vector); }

// Minus zero, not plus: subtracting it changes no number, so that the compiler leaves it out.
inline Vector filled(float value) { return value - Vector{}; }

inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }

inline IntVector bits_of(Vector vector) {
  IntVector bits;
  std::memcpy(&bits, &vector, sizeof bits);
  return bits;
}

inline Vector from_bits(IntVector bits) {
  Vector vector;
  std::memcpy(&vector, &bits, sizeof vector);
  return vector;
}

inline bool any_of(IntVector mask) {
  int64_t words[sizeof mask / 8], any = 0;
  std::memcpy(words, &mask, sizeof mask);
  for (int64_t word : words) any |= word;
  return any != 0;
}

inline Vector square_root(Vector vector) {
  Vector root;
  for (int lane = 0; lane < kLanes; ++lane) root[lane] = __builtin_sqrtf(vector[lane]);
  return root;
}

inline double sum_of(Vector vector) {
  double total = 0.0;
  for (int lane = 0; lane < kLanes; ++lane) total += static_cast<double>(vector[lane]);
  return total;
}

// exp(x) for x <= 80, to a few units in the last place where it matters; below -87 the answer is the smallest normal number or so.
inline Vector exp_of(Vector x) {
  const Vector scaled = larger(x, filled(-87.0f)) * 1.44269504088896341f;
  // Adding and subtracting 1.5 * 2^23 rounds to the nearest whole number, and leaves it in the low bits of the sum.
  const Vector shifted = scaled + 12582912.0f;
  const Vector fraction = scaled - (shifted - 12582912.0f);
  Vector power = filled(1.54035304e-4f);
  power = power * fraction + 1.33335581e-3f;
  power = power * fraction + 9.61812911e-3f;
  power = power * fraction + 5.55041087e-2f;
  power = power * fraction + 2.40226507e-1f;
  power = power * fraction + 6.93147181e-1f;
  power = power * fraction + 1.0f;
  return from_bits(bits_of(power) + (bits_of(shifted) << 23));
}

// log(x) for normal x > 0, to a few units in the last place of log(x) or of 1, whichever is larger.
inline Vector log_of(Vector x) {
  // x = 2^exponent * (1 + excess) with the excess between -1/4 and 1/2, by moving the cut of the exponent to 3/4.
  const IntVector bits = bits_of(x) - 0x3f400000;
  const IntVector exponent = bits >> 23;
  const Vector excess = from_bits(bits_of(x) - (exponent << 23)) - 1.0f;
  // log((1 + t) / (1 - t)) = 2 (t + t^3/3 + t^5/5 + ...) with t = excess / (2 + excess), at most 1/5.
  const Vector t = excess / (2.0f + excess), square = t * t;
  Vector series = filled(2.0f / 9);
  series = series * square + 2.0f / 7;
  series = series * square + 2.0f / 5;
  series = series * square + 2.0f / 3;
  series = series * square + 2.0f;
  return series * t + __builtin_convertvector(exponent, Vector) * 0.693147181f;
}

// Which lane of two vectors, one behind the other, goes to a lane of the woven one: those whose index has the bit
// `distance` clear come from the first, the others from the second.
constexpr int woven_from(int lane, int distance, int side) {
  return ((lane & distance) ? kLanes + (lane & ~distance) : lane) + side * distance;
}

template <int Distance, int Side, std::size_t... Lane>
inline Vector woven(Vector a, Vector b, std::index_sequence<Lane...>) {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
  return __builtin_shuffle(a, b, IntVector{woven_from(int(Lane), Distance, Side)...});
#else
  return __builtin_shufflevector(a, b, woven_from(int(Lane), Distance, Side)...);
#endif
}

// Sums kLanes vectors into one: lane l of the answer is the sum of all lanes of vectors[l].
template <int Distance = 1>
inline Vector sums_of(Vector* vectors) {
  if constexpr (Distance == kLanes) {
    return vectors[0];
  } else {
    constexpr auto lanes = std::make_index_sequence<kLanes>{};
    constexpr int left = kLanes / Distance / 2;
    for (int pair = 0; pair < left; ++pair) {
      const Vector a = vectors[2 * pair], b = vectors[2 * pair + 1];
      vectors[pair] = woven<Distance, 0>(a, b, lanes) + woven<Distance, 1>(a, b, lanes);
    }
    return sums_of<Distance * 2>(vectors);
  }
}

// Exchanges rows and columns of kLanes vectors.
template <int Distance = 1>
inline void transpose(Vector* vectors) {
  constexpr auto lanes = std::make_index_sequence<kLanes>{};
  for (int at = 0; at < kLanes; ++at) {
    if (at & Distance) continue;
    const Vector a = vectors[at], b = vectors[at + Distance];
    vectors[at] = woven<Distance, 0>(a, b, lanes);
    vectors[at + Distance] = woven<Distance, 1>(a, b, lanes);
  }
  if constexpr (Distance * 2 < kLanes) transpose<Distance * 2>(vectors);
}

}  // namespace
