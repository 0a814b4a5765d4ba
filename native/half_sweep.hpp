// The weighted low-rank step of one side (Eq. 10), with the responsibilities (Eq. 8) computed on the fly.
//
// A row is solved for the change of its factors, not for the factors: single precision then costs accuracy only in
// proportion to the change, and the error does not stay. Rows that are nearly singular are solved afresh in doubles.
#pragma once

#include <cmath>

#include "kernels.hpp"
#include "minimum_norm.hpp"
#include "solve.hpp"
#include "vector.hpp"

namespace {

using tacit::HalfSweep;
using tacit::Mixture;
using tacit::Rows;
using tacit::Statistics;
using tacit::ValueKind;

constexpr int64_t kSegment = 1 << 14;  // reports of one row that are summed up in single precision
constexpr int kBlock = 64;  // reports handled at once: their factors stay in the first-level cache

inline void decode(const Rows& rows, int64_t from, int count, float* to) {
  if (rows.kind == ValueKind::kFloats) {
    std::memcpy(to, static_cast<const float*>(rows.values) + from, count * sizeof(float));
  } else if (rows.kind == ValueKind::kBytes) {
    const uint8_t* codes = static_cast<const uint8_t*>(rows.values) + from;
    for (int report = 0; report < count; ++report) to[report] = rows.table[codes[report]];
  } else {
    const uint16_t* codes = static_cast<const uint16_t*>(rows.values) + from;
    for (int report = 0; report < count; ++report) to[report] = rows.table[codes[report]];
  }
}

// Finds the factors of reports a block later. Columns of one row of reports follow those of the row before, so looking
// over the row's end is useful too; at the very end there is nothing to look for.
inline void look_ahead(const HalfSweep& sweep, int64_t from, int count, const float** ahead) {
  const int32_t* columns = sweep.rows.columns + (from + count + kBlock <= sweep.reports ? from + kBlock : from);
  const float* fixed = sweep.fixed;
  const int64_t stride = sweep.stride;
  for (int report = 0; report < count; ++report) ahead[report] = fixed + columns[report] * stride;
}

// Multiplies the factors of up to kLanes reports with `own`; lanes beyond `count` repeat the last report.
// kVectors is the stride in vectors where it is known at compile time, or 0.
template <int kVectors>
inline Vector products_of(const HalfSweep& sweep, int64_t from, int count, const float* own) {
  const int stride = kVectors ? kVectors * kLanes : sweep.stride;
  const int32_t* columns = sweep.rows.columns + from;
  Vector dots[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const float* row = sweep.fixed + int64_t(columns[lane < count ? lane : count - 1]) * stride;
    Vector dot = load(row) * load(own);
    for (int at = kLanes; at < stride; at += kLanes) dot += load(row + at) * load(own + at);
    dots[lane] = dot;
  }
  return sums_of(dots);
}

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

constexpr int kBatch = kLanes;  // rows whose equations are solved side by side

// Where a thread's memory for factors of a given stride is cut up: a block of weighted factors, a batch of systems, the
// same side by side, and, for rows that must be solved in doubles, matrices of those.
struct Cuts {
  int64_t systems, cells, doubles, end;  // in floats

  explicit Cuts(int64_t stride)
      : systems(kBlock * stride),
        cells(systems + kBatch * (stride + 1) * stride),
        doubles(cells + stride * SideBySide::width_of(int(stride)) * kLanes),
        end(doubles + 2 * (4 * stride * stride + 4 * stride)) {}
};

// Solves rows one batch after another, with memory for one thread.
template <int kVectors>
class RowSolver {
 public:
  RowSolver(const HalfSweep& sweep, float* memory, Statistics& statistics)
      : sweep_(sweep),
        stride_(kVectors ? kVectors * kLanes : sweep.stride),
        weighted_(memory),
        side_by_side_(reinterpret_cast<Vector*>(memory + Cuts(stride_).cells), sweep.free),
        doubles_(reinterpret_cast<double*>(memory + Cuts(stride_).doubles)),
        statistics_(statistics),
        summary_(sweep.mixture, statistics) {
    const int width = (sweep.free + kLanes - 1) / kLanes * kLanes;
    for (int each = 0; each < kBatch; ++each) {
      float* matrix = memory + Cuts(stride_).systems + int64_t(each) * (stride_ + 1) * stride_;
      systems_[each] = {matrix, matrix + sweep.free * width, width, sweep.free};
    }
  }

  void solve_rows(int64_t first, int64_t last) {
    for (int64_t row = first; row < last;) {
      int64_t batch[kBatch];
      int count = 0;
      for (; row < last && count < kBatch; ++row) {
        if (reports_of(row) == 0) continue;
        if (is_open(row)) {
          solve_afresh(row);
        } else {
          form_equations(row, systems_[count]);
          batch[count++] = row;
        }
      }
      finish(batch, count);
    }
  }

 private:
  int64_t start_of(int64_t row) const { return sweep_.rows.starts[row]; }
  int64_t reports_of(int64_t row) const { return start_of(row + 1) - start_of(row); }
  float* own_factors(int64_t row) const { return sweep_.solved + row * stride_; }

  // Fewer reports than unknowns, and no ridge to decide between the many solutions.
  bool is_open(int64_t row) const { return !sweep_.ridged && reports_of(row) < sweep_.free; }

  void finish(const int64_t* batch, int count) {
    if (count == 0) return;
    side_by_side_.take_in(systems_, count);
    const IntVector regular = side_by_side_.solve();
    side_by_side_.give_out(systems_, count);
    for (int each = 0; each < count; ++each) {
      if (!regular[each]) continue;
      float* own = own_factors(batch[each]);
      for (int at = 0; at < sweep_.free; ++at) own[at] += systems_[each].right[at];
      if (sweep_.with_statistics) summarise(batch[each]);
    }
    for (int each = 0; each < count; ++each)
      if (!regular[each]) solve_afresh(batch[each]);
  }

  // The normal equations for the change of a row's factors.
  void form_equations(int64_t row, const System& system) {
    const float* own = own_factors(row);
    const int64_t first = start_of(row), last = start_of(row + 1);
    sum_up(first, last - first < kSegment ? last : first + kSegment, own, system);
    if (last - first > kSegment) add_segments(first + kSegment, last, own, system);
    for (int at = 0; at < sweep_.free; ++at) {
      system.row(at)[at] += sweep_.ridge[at];
      system.right[at] -= sweep_.ridge[at] * own[at];
    }
  }

  void sum_up(int64_t first, int64_t last, const float* own, const System& system) {
    std::memset(system.matrix, 0, sizeof(float) * (sweep_.free + 1) * system.stride);
    for (int64_t from = first; from < last; from += kBlock) {
      const int count = block_size(from, last);
      float shares[kBlock];
      const float* ahead[kBlock];
      weigh_block(from, count, own, shares);
      look_ahead(sweep_, from, count, ahead);
      add_products({weighted_, stride_, count, ahead}, shares, system);
    }
  }

  // Beside a long sum in single precision one more report would vanish: only segments are summed so, and their sums in
  // doubles.
  void add_segments(int64_t first, int64_t last, const float* own, const System& system) {
    const int entries = (sweep_.free + 1) * system.stride;  // the right side follows the matrix
    for (int at = 0; at < entries; ++at) doubles_[at] = double(system.matrix[at]);
    for (int64_t from = first; from < last; from += kSegment) {
      sum_up(from, last - from < kSegment ? last : from + kSegment, own, system);
      for (int at = 0; at < entries; ++at) doubles_[at] += double(system.matrix[at]);
    }
    for (int at = 0; at < entries; ++at) system.matrix[at] = float(doubles_[at]);
  }

  static int block_size(int64_t from, int64_t last) { return last - from < kBlock ? int(last - from) : kBlock; }

  // Writes the factors of the block's reports times the root of their weights; `shares` gets that root times the
  // residual. In three passes, because each of them has much that can go on at the same time.
  void weigh_block(int64_t from, int count, const float* own, float* shares) {
    float roots[kBlock];
    residuals_of(from, count, own, shares);
    weight_roots(sweep_.mixture, shares, count, roots);
    copy_weighted(from, count, roots);
    for (int at = 0; at < count; at += kLanes) store(shares + at, load(shares + at) * load(roots + at));
  }

  // What the factors leave unexplained; entries beyond `count`, up to a whole vector, are zero or finite.
  void residuals_of(int64_t from, int count, const float* own, float* residuals) const {
    float values[kBlock + kLanes];
    decode(sweep_.rows, from, count, values);
    store(values + count, Vector{});
    for (int at = 0; at < count; at += kLanes) {
      const int here = count - at < kLanes ? count - at : kLanes;
      store(residuals + at, load(values + at) - products_of<kVectors>(sweep_, from + at, here, own));
    }
  }

  void copy_weighted(int64_t from, int count, const float* roots) {
    const int stride = kVectors ? kVectors * kLanes : stride_;
    const int32_t* columns = sweep_.rows.columns + from;
    const float* fixed = sweep_.fixed;
    float* target = weighted_;
    for (int report = 0; report < count; ++report, target += stride) {
      const float* source = fixed + int64_t(columns[report]) * stride;
      for (int at = 0; at < stride; at += kLanes) store(target + at, roots[report] * load(source + at));
    }
  }

  // Eq. 9 and Eq. 6 for one row, at its new factors.
  void summarise(int64_t row) {
    const float* own = own_factors(row);
    for (int64_t from = start_of(row); from < start_of(row + 1); from += kBlock) {
      const int count = block_size(from, start_of(row + 1));
      float residuals[kBlock];
      residuals_of(from, count, own, residuals);
      summary_.add(residuals, count);
    }
  }

  // The least-norm solution in doubles. With fewer reports than unknowns it is S' (S S')^-1 t, a smaller system.
  void solve_afresh(int64_t row) {
    const int free = sweep_.free, size = is_open(row) ? int(reports_of(row)) : free;
    double *matrix = doubles_, *right = matrix + size * size, *weighted = right + size;
    double* work = weighted + free * size;
    float* own = own_factors(row);
    if (size < free) {
      for (int at = 0; at < size; ++at) right[at] = weigh(start_of(row) + at, own, weighted + at * free);
      for (int a = 0; a < size; ++a)
        for (int b = 0; b < size; ++b) matrix[a * size + b] = dot_of(weighted + a * free, weighted + b * free, free);
      solve_least_norm(matrix, size, right, work);
      combine(weighted, right, size, own);
    } else {
      for (int at = 0; at < size * size + size; ++at) matrix[at] = 0.0;
      for (int64_t report = start_of(row); report < start_of(row + 1); ++report)
        add_outer_product(weigh(report, own, weighted), weighted, matrix, right);
      for (int at = 0; at < size; ++at) matrix[at * size + at] += double(sweep_.ridge[at]);
      solve_least_norm(matrix, size, right, work);
      for (int at = 0; at < free; ++at) own[at] = float(right[at]);
    }
    ++statistics_.singular_rows;
    if (sweep_.with_statistics) summarise(row);
  }

  // Writes one report's factors times the root of its weight, and returns its target times the same root.
  double weigh(int64_t report, const float* own, double* weighted) const {
    const float* other = sweep_.fixed + int64_t(sweep_.rows.columns[report]) * stride_;
    float value;
    decode(sweep_.rows, report, 1, &value);
    double target = double(value), known = 0.0;
    for (int at = sweep_.free; at < sweep_.coordinates; ++at) target -= double(other[at]) * double(own[at]);
    for (int at = 0; at < sweep_.free; ++at) known += double(other[at]) * double(own[at]);
    float residual[kLanes] = {float(target - known)}, roots[kLanes];
    weight_roots(sweep_.mixture, residual, 1, roots);
    const double root = double(roots[0]);
    for (int at = 0; at < sweep_.free; ++at) weighted[at] = root * double(other[at]);
    return root * target;
  }

  void add_outer_product(double target, const double* weighted, double* matrix, double* right) const {
    for (int a = 0; a < sweep_.free; ++a) {
      right[a] += weighted[a] * target;
      for (int b = 0; b < sweep_.free; ++b) matrix[a * sweep_.free + b] += weighted[a] * weighted[b];
    }
  }

  void combine(const double* weighted, const double* shares, int count, float* own) const {
    for (int at = 0; at < sweep_.free; ++at) {
      double sum = 0.0;
      for (int report = 0; report < count; ++report) sum += shares[report] * weighted[report * sweep_.free + at];
      own[at] = float(sum);
    }
  }

  const HalfSweep& sweep_;
  const int stride_;
  float* weighted_;
  SideBySide side_by_side_;
  double* doubles_;
  System systems_[kBatch];
  Statistics& statistics_;
  Summary summary_;
};

}  // namespace
