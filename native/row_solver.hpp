// Rows of reports, each solved for its own factors with the other side's held: what is common to all such sweeps.
//
// A row is solved for the change of its factors, not for the factors: single precision then costs accuracy only in
// proportion to the change, and the error does not stay. Rows that are nearly singular are solved afresh in doubles.
#pragma once

#include "kernels.hpp"
#include "solve.hpp"
#include "vector.hpp"

namespace {

using tacit::Rows;
using tacit::Sweep;
using tacit::ValueKind;

constexpr int64_t kSegment = 1 << 14;  // reports of one row that are summed up in single precision
constexpr int kBlock = 64;  // reports handled at once: their factors stay in the first-level cache

// What the codes of some reports stand for in a table.
inline void look_up(const Rows& rows, const float* table, int64_t from, int count, float* to) {
  const auto find = [&](const auto* codes) {
    for (int report = 0; report < count; ++report) to[report] = table[codes[from + report]];
  };
  if (rows.kind == ValueKind::kBytes) {
    find(static_cast<const uint8_t*>(rows.values));
  } else {
    find(static_cast<const uint16_t*>(rows.values));
  }
}

inline void decode(const Rows& rows, int64_t from, int count, float* to) {
  if (rows.kind == ValueKind::kFloats) {
    std::memcpy(to, static_cast<const float*>(rows.values) + from, count * sizeof(float));
  } else {
    look_up(rows, rows.table, from, count, to);
  }
}

// Where to find the reports a block later. Columns of one row of reports follow those of the row before, so looking
// over the row's end is useful too; at the very end there is nothing to look for.
inline const int32_t* columns_ahead(const Sweep& sweep, int64_t from, int count) {
  return sweep.rows.columns + (from + count + kBlock <= sweep.reports ? from + kBlock : from);
}

inline void look_ahead(const Sweep& sweep, int64_t from, int count, const float** ahead) {
  const int32_t* columns = columns_ahead(sweep, from, count);
  const float* fixed = sweep.fixed;
  const int64_t stride = sweep.stride;
  for (int report = 0; report < count; ++report) ahead[report] = fixed + columns[report] * stride;
}

// Multiplies the factors of up to kLanes reports with `own`; lanes beyond `count` repeat the last report.
// kVectors is the stride in vectors where it is known at compile time, or 0.
template <int kVectors>
inline Vector products_of(const Sweep& sweep, int64_t from, int count, const float* own) {
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

constexpr int kBatch = kLanes;  // rows whose equations are solved side by side

// Where a thread's memory for factors of a given stride is cut up: a block of weighted factors, a batch of systems, the
// same side by side, and, for rows that must be solved in doubles, matrices of those.
struct Cuts {
  int64_t systems, cells, doubles, end;  // in floats

  explicit Cuts(int64_t stride)
      : systems(kBlock * stride),
        cells(systems + kBatch * (stride + 1) * stride),
        doubles(cells + stride * SideBySide::width_of(int(stride), true) * kLanes),
        end(doubles + 2 * (4 * stride * stride + 4 * stride)) {}
};

// Solves rows one batch after another, with memory for one thread. What is particular to a sweep is in Self, derived from
// this: `weight_roots`, `add_prior`, `settle` for rows that no batch takes, `conclude` for those of a batch.
template <typename Self, int kVectors>
class RowSolver {
 public:
  void solve_rows(int64_t first, int64_t last) {
    for (int64_t row = first; row < last;) {
      int64_t batch[kBatch];
      int count = 0;
      for (; row < last && count < kBatch; ++row) {
        if (self().settle(row)) continue;
        form_equations(row, systems_[count]);
        batch[count++] = row;
      }
      finish(batch, count);
    }
  }

 protected:
  RowSolver(const Sweep& sweep, float* memory, bool with_inverses)
      : side_by_side_(reinterpret_cast<Vector*>(memory + Cuts(sweep.stride).cells), sweep.free, with_inverses),
        doubles_(reinterpret_cast<double*>(memory + Cuts(sweep.stride).doubles)),
        all_(sweep),
        stride_(kVectors ? kVectors * kLanes : sweep.stride),
        weighted_(memory) {
    const int width = (sweep.free + kLanes - 1) / kLanes * kLanes;
    for (int each = 0; each < kBatch; ++each) {
      float* matrix = memory + Cuts(stride_).systems + int64_t(each) * (stride_ + 1) * stride_;
      systems_[each] = {matrix, matrix + sweep.free * width, width, sweep.free};
    }
  }

  int64_t start_of(int64_t row) const { return all_.rows.starts[row]; }
  int64_t reports_of(int64_t row) const { return start_of(row + 1) - start_of(row); }
  float* own_factors(int64_t row) const { return all_.solved + row * stride_; }

  // Calls visit(from, count) for all blocks of a row's reports.
  template <typename Visit>
  void for_blocks(int64_t row, Visit visit) const {
    for (int64_t from = start_of(row); from < start_of(row + 1); from += kBlock)
      visit(from, block_size(from, start_of(row + 1)));
  }

  // What the factors leave unexplained; entries beyond `count`, up to a whole vector, are zero or finite.
  void residuals_of(int64_t from, int count, const float* own, float* residuals) const {
    float values[kBlock + kLanes];
    decode(all_.rows, from, count, values);
    store(values + count, Vector{});
    for (int at = 0; at < count; at += kLanes) {
      const int here = count - at < kLanes ? count - at : kLanes;
      store(residuals + at, load(values + at) - products_of<kVectors>(all_, from + at, here, own));
    }
  }

  // The equations in doubles, for the factors themselves, without the prior: a full matrix. `weighted` is room for a report.
  void form_in_doubles(int64_t row, double* matrix, double* right, double* weighted) const {
    const int free = all_.free;
    for (int at = 0; at < free * free; ++at) matrix[at] = 0.0;
    for (int at = 0; at < free; ++at) right[at] = 0.0;
    for (int64_t report = start_of(row); report < start_of(row + 1); ++report) {
      const double target = weigh(report, own_factors(row), weighted);
      for (int a = 0; a < free; ++a) {
        right[a] += weighted[a] * target;
        for (int b = 0; b < free; ++b) matrix[a * free + b] += weighted[a] * weighted[b];
      }
    }
  }

  // Writes one report's factors times the root of its weight, and returns its target times the same root.
  double weigh(int64_t report, const float* own, double* weighted) const {
    const float* other = all_.fixed + int64_t(all_.rows.columns[report]) * stride_;
    float value;
    decode(all_.rows, report, 1, &value);
    double target = double(value), known = 0.0;
    for (int at = all_.free; at < all_.coordinates; ++at) target -= double(other[at]) * double(own[at]);
    for (int at = 0; at < all_.free; ++at) known += double(other[at]) * double(own[at]);
    float residual[kLanes] = {float(target - known)}, roots[2 * kLanes];
    self().weight_roots(report, 1, residual, roots);
    const double root = double(roots[0]);
    for (int at = 0; at < all_.free; ++at) weighted[at] = root * double(other[at]);
    return root * target;
  }

  // Adds to the equations what a block of reports says beside their products: nothing, unless Self has something to say.
  void add_beside(int64_t, int, const float*, const float*, const System&) {}

  SideBySide side_by_side_;
  double* doubles_;
  System systems_[kBatch];

 private:
  Self& self() { return static_cast<Self&>(*this); }
  const Self& self() const { return static_cast<const Self&>(*this); }

  static int block_size(int64_t from, int64_t last) { return last - from < kBlock ? int(last - from) : kBlock; }

  void finish(const int64_t* batch, int count) {
    if (count == 0) return;
    side_by_side_.take_in(systems_, count);
    const IntVector regular = side_by_side_.solve();
    side_by_side_.give_out(systems_, count);
    for (int each = 0; each < count; ++each) {
      if (!regular[each]) continue;
      float* own = own_factors(batch[each]);
      for (int at = 0; at < all_.free; ++at) own[at] += systems_[each].right[at];
    }
    self().conclude(batch, count, regular);
  }

  // The normal equations for the change of a row's factors.
  void form_equations(int64_t row, const System& system) {
    const float* own = own_factors(row);
    const int64_t first = start_of(row), last = start_of(row + 1);
    sum_up(first, last - first < kSegment ? last : first + kSegment, own, system);
    if (last - first > kSegment) add_segments(first + kSegment, last, own, system);
    self().add_prior(row, own, system);
  }

  void sum_up(int64_t first, int64_t last, const float* own, const System& system) {
    std::memset(system.matrix, 0, sizeof(float) * (all_.free + 1) * system.stride);
    for (int64_t from = first; from < last; from += kBlock) {
      const int count = block_size(from, last);
      float shares[kBlock], roots[kBlock + kLanes];
      const float* ahead[kBlock];
      weigh_block(from, count, own, shares, roots);
      look_ahead(all_, from, count, ahead);
      add_products({weighted_, stride_, count, ahead}, shares, system);
      self().add_beside(from, count, own, roots, system);
    }
  }

  // Beside a long sum in single precision one more report would vanish: only segments are summed so, and their sums in
  // doubles.
  void add_segments(int64_t first, int64_t last, const float* own, const System& system) {
    const int entries = (all_.free + 1) * system.stride;  // the right side follows the matrix
    for (int at = 0; at < entries; ++at) doubles_[at] = double(system.matrix[at]);
    for (int64_t from = first; from < last; from += kSegment) {
      sum_up(from, last - from < kSegment ? last : from + kSegment, own, system);
      for (int at = 0; at < entries; ++at) doubles_[at] += double(system.matrix[at]);
    }
    for (int at = 0; at < entries; ++at) system.matrix[at] = float(doubles_[at]);
  }

  // Writes the factors of the block's reports times the root of their weights; `shares` gets that root times the
  // residual. In three passes, because each of them has much that can go on at the same time.
  void weigh_block(int64_t from, int count, const float* own, float* shares, float* roots) {
    residuals_of(from, count, own, shares);
    self().weight_roots(from, count, shares, roots);
    copy_weighted(from, count, roots);
    for (int at = 0; at < count; at += kLanes) store(shares + at, load(shares + at) * load(roots + at));
  }

  void copy_weighted(int64_t from, int count, const float* roots) {
    const int stride = kVectors ? kVectors * kLanes : stride_;
    const int32_t* columns = all_.rows.columns + from;
    const float* fixed = all_.fixed;
    float* target = weighted_;
    for (int report = 0; report < count; ++report, target += stride) {
      const float* source = fixed + int64_t(columns[report]) * stride;
      for (int at = 0; at < stride; at += kLanes) store(target + at, roots[report] * load(source + at));
    }
  }

  const Sweep& all_;
  const int stride_;
  float* weighted_;
};

}  // namespace
