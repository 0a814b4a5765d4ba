// The kernels for one instruction set; compiled several times, with TACIT_BUILD naming the set.
#include "half_sweep.hpp"
#include "kernels.hpp"
#include "posterior_sweep.hpp"
#include "row_sums.hpp"
#include "sgd.hpp"
#include "top_n.hpp"

namespace {

int64_t scratch_floats(int stride) { return Cuts(stride).end; }

// Up to rank 16 and 32 the loops over a row's factors have a fixed length.
template <template <int> class Solver, typename Sweep, typename Found>
void solve_rows(const Sweep& sweep, int64_t first, int64_t last, float* scratch, Found& found) {
  switch (sweep.stride) {
    case 16: return Solver<16 / kLanes>(sweep, scratch, found).solve_rows(first, last);
    case 32: return Solver<32 / kLanes>(sweep, scratch, found).solve_rows(first, last);
    default: return Solver<0>(sweep, scratch, found).solve_rows(first, last);
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
const Build TACIT_BUILD{TACIT_QUOTE(TACIT_BUILD),
                        scratch_floats,
                        solve_rows<HalfSweepSolver, HalfSweep, Statistics>,
                        solve_rows<PosteriorSolver, PosteriorSweep, double>,
                        sgd_steps_of_any_stride,
                        find_top_n,
                        row_sums};
}  // namespace tacit
