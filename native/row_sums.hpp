// Sums of the rows of a dense matrix that sparse rows name: the product of a matrix of ones and zeros with a dense one.
#pragma once

#include "kernels.hpp"
#include "vector.hpp"

namespace {

using tacit::RowSums;

constexpr int kStrip = 8;  // vectors whose sums stay in registers
constexpr int64_t kPiece = 512;  // rows summed up before they are added to a longer sum, beside which they would vanish
constexpr int64_t kSumsAhead = 6;  // rows asked for before they are needed

// Adds columns [at, at + kVectors * kLanes) of the dense rows named by entries [first, last).
template <int kVectors>
inline void add_strip(const RowSums& task, int64_t first, int64_t last, int at, float* out) {
  Vector sums[kVectors] = {};
  const float* dense = task.dense + at;
  for (int64_t entry = first; entry < last; ++entry) {
    const int64_t later = entry + kSumsAhead < task.entries ? entry + kSumsAhead : entry;
    const float* next = dense + task.columns[later] * int64_t(task.width);
    for (int line = 0; line < kVectors * kLanes; line += tacit::kCacheLine) __builtin_prefetch(next + line);
    const float* row = dense + task.columns[entry] * int64_t(task.width);
    for (int part = 0; part < kVectors; ++part) sums[part] += load(row + part * kLanes);
  }
  for (int part = 0; part < kVectors; ++part)
    store(out + at + part * kLanes, load(out + at + part * kLanes) + sums[part]);
}

inline void add_piece(const RowSums& task, int64_t first, int64_t last, float* out) {
  int at = 0;
  for (; at + kStrip * kLanes <= task.width; at += kStrip * kLanes) add_strip<kStrip>(task, first, last, at, out);
  for (; at + kLanes <= task.width; at += kLanes) add_strip<1>(task, first, last, at, out);
  for (; at < task.width; ++at) {
    float sum = 0.0f;
    for (int64_t entry = first; entry < last; ++entry) sum += task.dense[task.columns[entry] * int64_t(task.width) + at];
    out[at] += sum;
  }
}

void row_sums(const RowSums& task, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    float* out = task.out + row * task.width;
    std::memset(out, 0, sizeof(float) * task.width);
    const int64_t end = task.starts[row + 1];
    for (int64_t from = task.starts[row]; from < end; from += kPiece)
      add_piece(task, from, end - from < kPiece ? end : from + kPiece, out);
  }
}

}  // namespace
