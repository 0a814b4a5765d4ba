// The kernels for one instruction set; compiled several times, with TACIT_BUILD naming the set.
#include "half_sweep.hpp"
#include "kernels.hpp"
#include "sgd.hpp"
#include "top_n.hpp"

namespace {

template <int kVectors>
void solve_rows(const HalfSweep& sweep, int64_t first, int64_t last, float* scratch, Statistics& statistics) {
  RowSolver<kVectors>(sweep, scratch, statistics).solve_rows(first, last);
}

int64_t scratch_floats(int stride) { return Cuts(stride).end; }

// Up to rank 16 and 32 the loops over a row's factors have a fixed length.
void half_sweep(const HalfSweep& sweep, int64_t first, int64_t last, float* scratch, Statistics& statistics) {
  switch (sweep.stride) {
    case 16: return solve_rows<16 / kLanes>(sweep, first, last, scratch, statistics);
    case 32: return solve_rows<32 / kLanes>(sweep, first, last, scratch, statistics);
    default: return solve_rows<0>(sweep, first, last, scratch, statistics);
  }
}

double sgd_steps_of_any_stride(const SgdEpoch& epoch, int64_t first, int64_t last) {
  switch (epoch.stride) {
    case 16: return sgd_steps<16 / kLanes>(epoch, first, last);
    case 32: return sgd_steps<32 / kLanes>(epoch, first, last);
    default: return sgd_steps<0>(epoch, first, last);
  }
}

}  // namespace

#define TACIT_QUOTED(text) #text
#define TACIT_QUOTE(name) TACIT_QUOTED(name)

namespace tacit {
extern const Build TACIT_BUILD;
const Build TACIT_BUILD{TACIT_QUOTE(TACIT_BUILD), scratch_floats, half_sweep, sgd_steps_of_any_stride, find_top_n};
}  // namespace tacit
