// Symmetric systems that may be singular: the solution of least norm, in doubles.
#pragma once

#include <cmath>

#include "kernels.hpp"

namespace {

// Pivots below this share of the largest count as zero: factors in single precision carry no more than that.
constexpr double kLeastDoublePivot = 1e-10;

inline double dot_of(const double* a, const double* b, int size) {
  double total = 0.0;
  for (int at = 0; at < size; ++at) total += a[at] * b[at];
  return total;
}

// Factorises matrix = L L' with the largest remaining pivot first, until nothing is left; returns the rank.
// Column c of L is written to lower[c * size ...]. `matrix` is full and symmetric; only its diagonal is spoiled.
inline int factorise_by_pivots(double* matrix, int size, double* lower) {
  double largest = 0.0;
  for (int rank = 0; rank < size; ++rank) {
    int pivot = 0;
    for (int row = 1; row < size; ++row)
      if (matrix[row * size + row] > matrix[pivot * size + pivot]) pivot = row;
    const double remaining = matrix[pivot * size + pivot];
    if (rank == 0) largest = remaining;
    if (!(remaining > kLeastDoublePivot * largest)) return rank;
    double* column = lower + rank * size;
    for (int row = 0; row < size; ++row) column[row] = row == pivot ? remaining : matrix[pivot * size + row];
    for (int before = 0; before < rank; ++before) {
      const double share = lower[before * size + pivot];
      for (int row = 0; row < size; ++row)
        if (row != pivot) column[row] -= share * lower[before * size + row];
    }
    const double inverse = 1.0 / std::sqrt(remaining);
    for (int row = 0; row < size; ++row) column[row] *= inverse;
    for (int row = 0; row < size; ++row) matrix[row * size + row] -= column[row] * column[row];
    matrix[pivot * size + pivot] = 0.0;
  }
  return size;
}

// Makes the columns of L orthonormal in place, twice over for accuracy, and writes R with L = Q R.
inline void orthonormalise(double* lower, int size, int rank, double* upper) {
  for (int column = 0; column < rank; ++column) {
    double* current = lower + column * size;
    for (int before = 0; before < column; ++before) upper[before * rank + column] = 0.0;
    for (int pass = 0; pass < 2; ++pass)
      for (int before = 0; before < column; ++before) {
        const double share = dot_of(lower + before * size, current, size);
        upper[before * rank + column] += share;
        for (int row = 0; row < size; ++row) current[row] -= share * lower[before * size + row];
      }
    const double length = std::sqrt(dot_of(current, current, size));
    upper[column * rank + column] = length;
    for (int row = 0; row < size; ++row) current[row] /= length;
  }
}

// Overwrites `right` with the least-norm solution of matrix x = right: with matrix = Q R R' Q', x = Q R'^-1 R^-1 Q' right.
// `work` holds 2 size^2 + size doubles.
inline void solve_least_norm(double* matrix, int size, double* right, double* work) {
  double trace = 0.0;
  for (int row = 0; row < size; ++row) trace += matrix[row * size + row];
  if (!std::isfinite(trace)) {  // no pivot would pass, and not a number would come out as zero
    for (int row = 0; row < size; ++row) right[row] = trace - trace;
    return;
  }
  double *lower = work, *upper = work + size * size, *inner = work + 2 * size * size;
  const int rank = factorise_by_pivots(matrix, size, lower);
  orthonormalise(lower, size, rank, upper);
  for (int at = 0; at < rank; ++at) inner[at] = dot_of(lower + at * size, right, size);
  for (int row = rank - 1; row >= 0; --row) {
    for (int at = row + 1; at < rank; ++at) inner[row] -= upper[row * rank + at] * inner[at];
    inner[row] /= upper[row * rank + row];
  }
  for (int row = 0; row < rank; ++row) {
    for (int at = 0; at < row; ++at) inner[row] -= upper[at * rank + row] * inner[at];
    inner[row] /= upper[row * rank + row];
  }
  for (int row = 0; row < size; ++row) right[row] = 0.0;
  for (int at = 0; at < rank; ++at)
    for (int row = 0; row < size; ++row) right[row] += inner[at] * lower[at * size + row];
}

}  // namespace
