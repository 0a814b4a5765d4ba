// The weighted low-rank step of one side (Eq. 10), with the responsibilities (Eq. 8) computed on the fly.
#pragma once

#include "kernels.hpp"
#include "minimum_norm.hpp"
#include "row_solver.hpp"
#include "vector.hpp"

namespace {

using tacit::HalfSweep;
using tacit::Mixture;
using tacit::Statistics;

// Eq. 8 for kLanes squared residuals, relative to the widest component so that no exponential is out of range.
template <int kComponents>
struct Responsibilities {
  Vector shares[kComponents];  // not yet divided by `total`
  Vector total = filled(1.0f);

  Responsibilities(const Mixture& mixture, Vector squares) {
    shares[0] = filled(1.0f);
    for (int k = 1; k < kComponents; ++k) {
      shares[k] = exp_of(mixture.log_ratio[k] - mixture.precision_gap[k] * squares);
      total += shares[k];
    }
  }
};

// The weight of Eq. 10, the expected precision of the noise, for `count` residuals: its square root.
template <int kComponents>
inline void weight_roots_with(const Mixture& mixture, const float* residuals, int count, float* roots) {
  for (int at = 0; at < count; at += kLanes) {
    const Vector residual = load(residuals + at);
    const Responsibilities<kComponents> found(mixture, residual * residual);
    Vector weights{};
    for (int k = 0; k < kComponents; ++k) weights += found.shares[k] * mixture.half_precision[k];
    store(roots + at, square_root(2.0f * weights / found.total));
  }
}

inline void weight_roots(const Mixture& mixture, const float* residuals, int count, float* roots) {
  switch (mixture.components) {
    case 1: return weight_roots_with<1>(mixture, residuals, count, roots);
    case 2: return weight_roots_with<2>(mixture, residuals, count, roots);
    case 4: return weight_roots_with<4>(mixture, residuals, count, roots);
    case 8: return weight_roots_with<8>(mixture, residuals, count, roots);
    default: return weight_roots_with<16>(mixture, residuals, count, roots);
  }
}

// Sums of Eq. 9 and of the log-likelihood: in floats for a while, then in doubles.
class Summary {
 public:
  Summary(const Mixture& mixture, Statistics& statistics) : mixture_(mixture), statistics_(statistics) {}
  ~Summary() { flush(); }

  void add(const float* residuals, int count) {
    switch (mixture_.components) {
      case 1: add_with<1>(residuals, count); break;
      case 2: add_with<2>(residuals, count); break;
      case 4: add_with<4>(residuals, count); break;
      case 8: add_with<8>(residuals, count); break;
      default: add_with<16>(residuals, count);
    }
    added_ += count;
    if (added_ >= kFlushAfter) flush();
  }

 private:
  static constexpr int kFlushAfter = 1024;

  template <int kComponents>
  inline void add_with(const float* residuals, int count) {
    for (int at = 0; at < count; at += kLanes) {
      const Vector residual = load(residuals + at), squares = residual * residual;
      const Responsibilities<kComponents> found(mixture_, squares);
      Vector one = filled(1.0f);
      for (int lane = count - at; lane < kLanes; ++lane) one[lane] = 0.0f;
      const Vector inverse = one / found.total;
      for (int k = 0; k < kComponents; ++k) {
        const Vector share = found.shares[k] * inverse;
        responsibility_[k] += share;
        square_[k] += share * squares;
      }
      logarithm_ += one * (log_of(found.total) - mixture_.half_precision[0] * squares);
    }
  }

  void flush() {
    statistics_.log_likelihood += sum_of(logarithm_) + double(mixture_.log_scale) * added_;
    for (int k = 0; k < mixture_.components; ++k) {
      statistics_.responsibility[k] += sum_of(responsibility_[k]);
      statistics_.square[k] += sum_of(square_[k]);
      responsibility_[k] = square_[k] = Vector{};
    }
    logarithm_ = Vector{};
    added_ = 0;
  }

  const Mixture& mixture_;
  Statistics& statistics_;
  int added_ = 0;
  Vector logarithm_{};
  Vector responsibility_[tacit::kMostComponents]{}, square_[tacit::kMostComponents]{};
};

// Rows whose reports do not determine them get the solution of least norm.
template <int kVectors>
class HalfSweepSolver : public RowSolver<HalfSweepSolver<kVectors>, kVectors> {
  using Base = RowSolver<HalfSweepSolver, kVectors>;
  friend Base;
  using Base::doubles_, Base::own_factors, Base::reports_of, Base::start_of;

 public:
  HalfSweepSolver(const HalfSweep& sweep, float* memory, Statistics& statistics)
      : Base(sweep, memory, false), sweep_(sweep), statistics_(statistics), summary_(sweep.mixture, statistics) {}

 private:
  // Fewer reports than unknowns, and no ridge to decide between the many solutions.
  bool is_open(int64_t row) const { return !sweep_.ridged && reports_of(row) < sweep_.free; }

  bool settle(int64_t row) {
    if (reports_of(row) == 0) return true;
    if (!is_open(row)) return false;
    solve_afresh(row);
    return true;
  }

  void weight_roots(int64_t, int count, const float* residuals, float* roots) const {
    ::weight_roots(sweep_.mixture, residuals, count, roots);
  }

  void add_prior(int64_t, const float* own, const System& system) const {
    for (int at = 0; at < sweep_.free; ++at) {
      system.row(at)[at] += sweep_.ridge[at];
      system.right[at] -= sweep_.ridge[at] * own[at];
    }
  }

  void conclude(const int64_t* batch, int count, IntVector regular) {
    for (int each = 0; each < count; ++each)
      if (regular[each]) summarise(batch[each]);
    for (int each = 0; each < count; ++each)
      if (!regular[each]) solve_afresh(batch[each]);
  }

  // Eq. 9 and Eq. 6 for one row, at its new factors.
  void summarise(int64_t row) {
    if (!sweep_.with_statistics) return;
    Base::for_blocks(row, [&](int64_t from, int count) {
      float residuals[kBlock];
      Base::residuals_of(from, count, own_factors(row), residuals);
      summary_.add(residuals, count);
    });
  }

  // The least-norm solution in doubles. With fewer reports than unknowns it is S' (S S')^-1 t, a smaller system.
  void solve_afresh(int64_t row) {
    const int free = sweep_.free, size = is_open(row) ? int(reports_of(row)) : free;
    double *matrix = doubles_, *right = matrix + size * size, *weighted = right + size;
    double* work = weighted + free * size;
    float* own = own_factors(row);
    if (size < free) {
      for (int at = 0; at < size; ++at) right[at] = Base::weigh(start_of(row) + at, own, weighted + at * free);
      for (int a = 0; a < size; ++a)
        for (int b = 0; b < size; ++b) matrix[a * size + b] = dot_of(weighted + a * free, weighted + b * free, free);
      solve_least_norm(matrix, size, right, work);
      combine(weighted, right, size, own);
    } else {
      Base::form_in_doubles(row, matrix, right, weighted);
      for (int at = 0; at < size; ++at) matrix[at * size + at] += double(sweep_.ridge[at]);
      solve_least_norm(matrix, size, right, work);
      for (int at = 0; at < free; ++at) own[at] = float(right[at]);
    }
    ++statistics_.singular_rows;
    summarise(row);
  }

  void combine(const double* weighted, const double* shares, int count, float* own) const {
    for (int at = 0; at < sweep_.free; ++at) {
      double sum = 0.0;
      for (int report = 0; report < count; ++report) sum += shares[report] * weighted[report * sweep_.free + at];
      own[at] = float(sum);
    }
  }

  const HalfSweep& sweep_;
  Statistics& statistics_;
  Summary summary_;
};

}  // namespace
