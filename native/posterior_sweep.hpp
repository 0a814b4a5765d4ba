// The Gaussian posterior of every row's factors, given the other side's, which may be uncertain themselves.
#pragma once

#include "cholesky.hpp"
#include "kernels.hpp"
#include "row_solver.hpp"
#include "vector.hpp"

namespace {

using tacit::PosteriorSweep;

template <int kVectors>
class PosteriorSolver : public RowSolver<PosteriorSolver<kVectors>, kVectors> {
  using Base = RowSolver<PosteriorSolver, kVectors>;
  friend Base;
  using Base::own_factors, Base::reports_of, Base::side_by_side_, Base::start_of, Base::systems_;

 public:
  PosteriorSolver(const PosteriorSweep& sweep, float* memory, double& squares)
      : Base(sweep, memory, true), sweep_(sweep), certain_(sweep.free - sweep.uncertain), squares_(squares) {}

 private:
  // Without reports the posterior is the prior.
  bool settle(int64_t row) {
    if (reports_of(row) > 0) return false;
    for (int at = 0; at < sweep_.free; ++at) {
      own_factors(row)[at] = centre_of(row, at);
      variances_of(row)[at] = 1.0f / sweep_.precision[at];
    }
    return true;
  }

  float centre_of(int64_t row, int at) const { return sweep_.centres ? sweep_.centres[row * sweep_.free + at] : 0.0f; }
  float* variances_of(int64_t row) const { return sweep_.variances + row * sweep_.free; }
  const float* fixed_variances_of(int32_t column) const {
    return sweep_.fixed_variances + int64_t(column) * sweep_.uncertain;
  }

  void weight_roots(int64_t from, int count, const float*, float* roots) const {
    if (sweep_.rows.kind == ValueKind::kFloats) {
      for (int report = 0; report < count; ++report) roots[report] = sweep_.weight_roots[0];
    } else {
      look_up(sweep_.rows, sweep_.weight_roots, from, count, roots);
    }
    store(roots + count, Vector{});  // to fill the last vector up
  }

  void add_prior(int64_t row, const float* own, const System& system) const {
    for (int at = 0; at < sweep_.free; ++at) {
      system.row(at)[at] += sweep_.precision[at];
      system.right[at] -= sweep_.precision[at] * (own[at] - centre_of(row, at));
    }
  }

  // The expected square of an uncertain factor is its square and its variance.
  void add_beside(int64_t from, int count, const float* own, const float* roots, const System& system) const {
    if (sweep_.uncertain == 0) return;
    float sums[tacit::kMostCoordinates] = {};
    const int32_t *columns = sweep_.rows.columns + from, *ahead = columns_ahead(sweep_, from, count);
    for (int report = 0; report < count; ++report) {
      const float *variances = fixed_variances_of(columns[report]), *next = fixed_variances_of(ahead[report]);
      const float weight = roots[report] * roots[report];
      for (int at = 0; at < sweep_.uncertain; at += tacit::kCacheLine) __builtin_prefetch(next + at);
      for (int at = 0; at < sweep_.uncertain; ++at) sums[at] += weight * variances[at];
    }
    for (int at = 0; at < sweep_.uncertain; ++at) {
      system.row(certain_ + at)[certain_ + at] += sums[at];
      system.right[certain_ + at] -= sums[at] * own[certain_ + at];
    }
  }

  void conclude(const int64_t* batch, int count, IntVector regular) {
    side_by_side_.invert();
    side_by_side_.give_out(systems_, count);
    for (int each = 0; each < count; ++each) {
      if (regular[each]) {
        std::memcpy(variances_of(batch[each]), systems_[each].right, sizeof(float) * sweep_.free);
      } else {
        solve_in_doubles(batch[each]);
      }
      add_squares(batch[each]);
    }
  }

  void add_squares(int64_t row) {
    Base::for_blocks(row, [&](int64_t from, int count) {
      float residuals[kBlock], roots[kBlock + kLanes];
      Base::residuals_of(from, count, own_factors(row), residuals);
      weight_roots(from, count, residuals, roots);
      Vector squares{};
      for (int at = 0; at < count; at += kLanes) {
        const Vector weighted = load(residuals + at) * load(roots + at);
        squares += weighted * weighted;
      }
      squares_ += sum_of(squares);
    });
  }

  void solve_in_doubles(int64_t row) {
    const int free = sweep_.free;
    double *matrix = Base::doubles_, *right = matrix + free * free, *work = right + free;
    Base::form_in_doubles(row, matrix, right, work);
    add_in_doubles(row, matrix);
    for (int at = 0; at < free; ++at) {
      matrix[at * free + at] += double(sweep_.precision[at]);
      right[at] += double(sweep_.precision[at]) * double(centre_of(row, at));
    }
    factorise(matrix, free, sweep_.precision);
    solve_factorised(matrix, free, right);
    for (int at = 0; at < free; ++at) {
      own_factors(row)[at] = float(right[at]);
      variances_of(row)[at] = float(inverse_diagonal(matrix, free, at, work));
    }
  }

  void add_in_doubles(int64_t row, double* matrix) const {
    Base::for_blocks(row, [&](int64_t from, int count) {
      float roots[kBlock + kLanes];
      weight_roots(from, count, nullptr, roots);
      for (int report = 0; report < count; ++report) {
        const float* variances = fixed_variances_of(sweep_.rows.columns[from + report]);
        const double weight = double(roots[report]) * double(roots[report]);
        for (int at = 0; at < sweep_.uncertain; ++at)
          matrix[(certain_ + at) * (sweep_.free + 1)] += weight * double(variances[at]);
      }
    });
  }

  const PosteriorSweep& sweep_;
  const int certain_;  // the free coordinates that are known exactly on the other side come first
  double& squares_;
};

}  // namespace
