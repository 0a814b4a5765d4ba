// What the kernels take and give: plain pointers and numbers, the same for every instruction set.
#pragma once

#include <cstdint>

namespace tacit {

constexpr int kMostComponents = 16;
constexpr int kMostCoordinates = 320;  // rank 256, two columns for offsets, and room to pad
constexpr int kCacheLine = 16;         // floats

enum class ValueKind : int { kBytes, kShorts, kFloats };

// Compressed rows of reports: values are codes into `table`, or numbers themselves.
struct Rows {
  const int64_t* starts;
  const int32_t* columns;
  const void* values;
  ValueKind kind;
  const float* table;
};

// Zero-mean Gaussians, each relative to the widest, which comes first: with r a residual, the logarithm of component k's
// share is log_scale[0] - half_precision[0] r^2 plus, for k > 0, log_ratio[k] - precision_gap[k] r^2. No gap is negative,
// so that nothing overflows, and the widest never vanishes beside the others. There are 1, 2, 4, 8 or 16 components:
// other numbers are filled up with some of no weight.
struct Mixture {
  int components;
  float log_scale;
  float half_precision[kMostComponents];
  float log_ratio[kMostComponents];
  float precision_gap[kMostComponents];
};

// What Eq. 9 needs, and the log-likelihood of Eq. 6, over some reports.
struct Statistics {
  double log_likelihood = 0.0;
  double responsibility[kMostComponents] = {};
  double square[kMostComponents] = {};
  int64_t singular_rows = 0;  // solved in doubles: not determined, or nearly not
};

// For every row, solve the first `free` coordinates of `solved` with `fixed` held.
struct Sweep {
  Rows rows;
  const float* fixed;
  float* solved;
  int stride;  // floats from one row of factors to the next, a multiple of 16, zero beyond `coordinates`
  int coordinates;
  int free;
  int64_t reports;  // of all rows
};

// With weights from the mixture, and a ridge.
struct HalfSweep : Sweep {
  const float* ridge;  // one for each free coordinate
  bool ridged;         // whether any is positive
  Mixture mixture;
  bool with_statistics;
};

// With known weights, and a Gaussian prior; gives variances too.
struct PosteriorSweep : Sweep {
  const float* weight_roots;     // roots of the precision of the noise: one for each entry of the table, or just one
  const float* precision;        // of the prior, one for each free coordinate
  const float* centres;          // of the prior, `free` a row; null where they are zero
  const float* fixed_variances;  // of the last `uncertain` free coordinates of `fixed`
  int uncertain;
  float* variances;  // `free` a row
};

// Stochastic gradient steps: coordinate c of a user becomes user_keep[c] times itself plus residual * user_step[c] times
// the item's; the same for items. A coordinate that is held has keep 1 and step 0.
struct SgdEpoch {
  const int32_t* users;
  const int32_t* items;
  Rows values;  // only the values: report k is between users[k] and items[k]
  float* user_factors;
  float* item_factors;
  int stride;
  const float* user_keep;
  const float* user_step;
  const float* item_keep;
  const float* item_step;
};

constexpr int kPanel = 16;  // items whose factors are interleaved: coordinate by coordinate, 16 items each

// For every user the n items of highest product, the rated ones left out. The lists hold -infinity and -1 at first.
struct TopN {
  const float* users;
  int stride;
  int coordinates;
  const float* panels;
  int64_t item_count;
  const int64_t* rated_starts;  // null when nothing is left out
  const int32_t* rated_columns;
  int n;
  int32_t* found_items;
  float* found_scores;
};

// Row r of `out` is the sum of the rows of `dense` that columns[starts[r]] ... columns[starts[r + 1] - 1] name.
struct RowSums {
  const int64_t* starts;
  const int32_t* columns;
  int64_t entries;  // of all rows
  const float* dense;
  int width;
  float* out;
};

// The same functions, built for one instruction set.
struct Build {
  const char* name;
  int64_t (*scratch_floats)(int stride);  // what a thread needs for sweeps, aligned to 64 bytes
  void (*half_sweep)(const HalfSweep&, int64_t first, int64_t last, float* scratch, Statistics&);
  void (*posterior_sweep)(const PosteriorSweep&, int64_t first, int64_t last, float* scratch, double& squares);
  double (*sgd_steps)(const SgdEpoch&, int64_t first, int64_t last);
  void (*find_top_n)(const TopN&, int64_t first, int64_t last);
  void (*row_sums)(const RowSums&, int64_t first, int64_t last);
};

}  // namespace tacit
