// Small symmetric systems, stored as the upper triangle in rows.
#pragma once

#include "kernels.hpp"
#include "vector.hpp"

namespace {

#if defined(__AVX512VL__) || defined(__aarch64__)
constexpr int kTileRows = 8;  // 32 vector registers
#else
constexpr int kTileRows = 4;  // 16 vector registers
#endif

// Rows of numbers that are multiplied with each other: row `at` starts at rows + at * stride. Meanwhile the memory at
// ahead[at], for each row, is asked for: products keep the processor busy for as long as memory takes to answer.
struct Factors {
  const float* rows;
  int stride;
  int count;
  const float* const* ahead;
};

// A symmetric matrix as the upper triangle in rows, and the right side of its equations as one more row.
// `stride` is a multiple of kLanes; what lies left of the diagonal or beyond `size` is of no meaning.
struct System {
  float* matrix;
  float* right;
  int stride;
  int size;

  float* row(int at) const { return matrix + at * stride; }
};

// Adds (or subtracts) products of columns: matrix[i][c] += sum_j rows[j][i] rows[j][c] for a tile of entries that stays
// in registers, and, in a tile of the first rows, right[c] += sum_j shares[j] rows[j][c].
template <int kRows, int kVectors, bool kSubtract, bool kWithRight>
inline void add_tile(const Factors& from, const float* shares, int first_row, int first_column, const System& into) {
  constexpr int kHeight = kRows + (kWithRight ? 1 : 0);
  Vector sums[kHeight][kVectors];
  auto target = [&](int row) { return (row < kRows ? into.row(first_row + row) : into.right) + first_column; };
  for (int row = 0; row < kHeight; ++row)
    for (int part = 0; part < kVectors; ++part) sums[row][part] = load(target(row) + part * kLanes);
  const float* source = from.rows;
  for (int at = 0; at < from.count; ++at, source += from.stride) {
    if (kWithRight) __builtin_prefetch(from.ahead[at] + first_column);
    Vector right[kVectors];
    for (int part = 0; part < kVectors; ++part) right[part] = load(source + first_column + part * kLanes);
    for (int row = 0; row < kHeight; ++row) {
      const float left = row < kRows ? source[first_row + row] : shares[at];
      for (int part = 0; part < kVectors; ++part) {
        if (kSubtract)
          sums[row][part] -= left * right[part];
        else
          sums[row][part] += left * right[part];
      }
    }
  }
  for (int row = 0; row < kHeight; ++row)
    for (int part = 0; part < kVectors; ++part) store(target(row) + part * kLanes, sums[row][part]);
}

template <int kRows, bool kSubtract, bool kWithRight>
inline void add_tiles(int height, const Factors& from, const float* shares, int row, int column, const System& into) {
  if constexpr (kRows > 1) {
    if (height < kRows) return add_tiles<kRows - 1, kSubtract, kWithRight>(height, from, shares, row, column, into);
  }
  for (; column + 2 * kLanes <= into.stride; column += 2 * kLanes)
    add_tile<kRows, 2, kSubtract, kWithRight>(from, shares, row, column, into);
  if (column < into.stride) add_tile<kRows, 1, kSubtract, kWithRight>(from, shares, row, column, into);
}

// Adds the products of all columns of `from`, and their sums weighted with `shares`.
inline void add_products(const Factors& from, const float* shares, const System& into) {
  add_tiles<kTileRows, false, true>(into.size, from, shares, 0, 0, into);
  for (int row = kTileRows; row < into.size; row += kTileRows)
    add_tiles<kTileRows, false, false>(into.size - row, from, shares, row, row / kLanes * kLanes, into);
}

// A pivot that falls below this share of its diagonal entry is too uncertain in single precision.
constexpr float kLeastPivot = 1e-3f;

// What becomes of a system while it is solved: A = U' U, then U' y = right, then U x = y.
struct Solution {
  System system;
  bool regular = true;
  float diagonal[tacit::kMostCoordinates];
  float inverse[tacit::kMostCoordinates];
  float forward[tacit::kMostCoordinates];  // y

  int panel_end(int first) const { return first + kLanes < system.size ? first + kLanes : system.size; }
};

inline void prepare(Solution& solution) {
  solution.regular = true;
  for (int row = 0; row < solution.system.size; ++row) solution.diagonal[row] = solution.system.row(row)[row];
}

// Takes what earlier panels explain out of the panel of rows that starts at `first`.
inline void reduce_panel(Solution& solution, int first) {
  const System& system = solution.system;
  const Factors before{system.matrix, system.stride, first, nullptr};
  for (int row = first; row < solution.panel_end(first); row += kTileRows)
    add_tiles<kTileRows, true, false>(solution.panel_end(first) - row, before, nullptr, row, first, system);
  Vector right = load(system.right + first);
  for (int row = 0; row < first; ++row) right -= solution.forward[row] * load(system.row(row) + first);
  store(system.right + first, right);
}

// Makes row `pivot` a row of U, and takes it out of the rows below in its panel. kVectors is the number of vectors
// from the panel to the end of a row, where it is known at compile time, or 0.
template <int kVectors>
inline void eliminate(Solution& solution, int first, int pivot) {
  const System& system = solution.system;
  const int vectors = kVectors ? kVectors : (system.stride - first) / kLanes;
  float* row = system.row(pivot) + first;
  solution.regular &= row[pivot - first] > kLeastPivot * solution.diagonal[pivot];
  const float inverse = solution.regular ? 1.0f / __builtin_sqrtf(row[pivot - first]) : 0.0f;
  solution.inverse[pivot] = inverse;
  for (int part = 0; part < vectors; ++part) store(row + part * kLanes, load(row + part * kLanes) * inverse);
  const float forward = solution.forward[pivot] = system.right[pivot] * inverse;
  store(system.right + first, load(system.right + first) - forward * load(row));
  for (int below = pivot + 1; below < solution.panel_end(first); ++below) {
    float* other = system.row(below) + first;
    const float share = row[below - first];
    for (int part = 0; part < vectors; ++part)
      store(other + part * kLanes, load(other + part * kLanes) - share * load(row + part * kLanes));
  }
}

// Does so for all rows of the panel. Each step waits for the one before; several systems side by side fill the wait.
template <int kVectors>
inline void eliminate_panel(Solution* solutions, int count, int first) {
  for (int pivot = first; pivot < solutions[0].panel_end(first); ++pivot)
    for (int each = 0; each < count; ++each) eliminate<kVectors>(solutions[each], first, pivot);
}

// Takes the entries behind a panel, which are known, out of the panel's equations U x = y.
inline void take_out_known(Solution& solution, int first) {
  const System& system = solution.system;
  const int last = solution.panel_end(first);
  Vector dots[kLanes] = {};
  for (int row = first; row < last; ++row)
    for (int at = first + kLanes; at < system.stride; at += kLanes)
      dots[row - first] += load(system.row(row) + at) * load(system.right + at);
  store(system.right + first, load(system.right + first) - sums_of(dots));
}

// Finds one entry of x, and takes it out of the equations above it in its panel.
inline void substitute(Solution& solution, int first, int row) {
  const System& system = solution.system;
  const float found = system.right[row] *= solution.inverse[row];
  for (int above = first; above < row; ++above) system.right[above] -= found * system.row(above)[row];
}

// Solves systems of one size by Cholesky's method, their right sides becoming the solutions. One that is singular or
// nearly so is marked, not solved.
inline void solve_all(Solution* solutions, int count) {
  const int size = solutions[0].system.size, stride = solutions[0].system.stride;
  for (int each = 0; each < count; ++each) prepare(solutions[each]);
  for (int first = 0; first < size; first += kLanes) {
    for (int each = 0; first > 0 && each < count; ++each) reduce_panel(solutions[each], first);
    switch ((stride - first) / kLanes) {
      case 1: eliminate_panel<1>(solutions, count, first); break;
      case 2: eliminate_panel<2>(solutions, count, first); break;
      case 3: eliminate_panel<3>(solutions, count, first); break;
      case 4: eliminate_panel<4>(solutions, count, first); break;
      default: eliminate_panel<0>(solutions, count, first);
    }
  }
  for (int each = 0; each < count; ++each) {
    float* right = solutions[each].system.right;
    for (int at = 0; at < stride; ++at) right[at] = at < size ? solutions[each].forward[at] : 0.0f;
  }
  for (int first = (size - 1) / kLanes * kLanes; first >= 0; first -= kLanes) {
    for (int each = 0; first + kLanes < stride && each < count; ++each) take_out_known(solutions[each], first);
    for (int row = solutions[0].panel_end(first) - 1; row >= first; --row)
      for (int each = 0; each < count; ++each) substitute(solutions[each], first, row);
  }
}

}  // namespace
