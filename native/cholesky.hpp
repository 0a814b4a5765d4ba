// Positive definite systems in doubles: Cholesky's method, A = L L', L written to the lower triangle of A.
#pragma once

#include "minimum_norm.hpp"

namespace {

// A is a positive semi-definite matrix and a diagonal one with `least` on it, so no pivot is smaller than that; one that
// comes out smaller has been lost to rounding.
inline void factorise(double* matrix, int size, const float* least) {
  for (int row = 0; row < size; ++row) {
    double* current = matrix + row * size;
    for (int column = 0; column < row; ++column) {
      const double* before = matrix + column * size;
      current[column] = (current[column] - dot_of(current, before, column)) / before[column];
    }
    const double pivot = current[row] - dot_of(current, current, row), smallest = double(least[row]);
    current[row] = std::sqrt(pivot < smallest ? smallest : pivot);  // what is not a number stays so
  }
}

// Solves L y = right from row `first` on, where y starts to differ from zero.
inline void solve_lower(const double* lower, int size, int first, double* right) {
  for (int row = first; row < size; ++row)
    right[row] = (right[row] - dot_of(lower + row * size + first, right + first, row - first)) / lower[row * size + row];
}

inline void solve_factorised(const double* lower, int size, double* right) {
  solve_lower(lower, size, 0, right);
  for (int row = size - 1; row >= 0; --row) {
    right[row] /= lower[row * size + row];
    for (int above = 0; above < row; ++above) right[above] -= lower[row * size + above] * right[row];
  }
}

// The entry `at` of the diagonal of A^-1: with L y = e it is y'y. `work` holds `size` doubles.
inline double inverse_diagonal(const double* lower, int size, int at, double* work) {
  for (int row = 0; row < size; ++row) work[row] = row == at ? 1.0 : 0.0;
  solve_lower(lower, size, at, work);
  return dot_of(work + at, work + at, size - at);
}

}  // namespace
