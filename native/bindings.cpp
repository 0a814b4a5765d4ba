// Python's door to the kernels: checks shapes, shares the rows out to threads, adds up in a fixed order.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels.hpp"

namespace nb = nanobind;

namespace tacit {

#ifdef TACIT_HAS_X86_BUILDS
extern const Build v3, v4;
#endif
extern const Build baseline;

namespace {

std::vector<const Build*> usable_builds() {
  std::vector<const Build*> builds;
#ifdef TACIT_HAS_X86_BUILDS
  __builtin_cpu_init();
  // Processors with AVX2, FMA and BMI2 have the rest of x86-64-v3 too.
  const bool has_v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                      __builtin_cpu_supports("bmi2");
  if (has_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd"))
    builds.push_back(&v4);
  if (has_v3) builds.push_back(&v3);
#endif
  builds.push_back(&baseline);
  return builds;
}

const Build& build_named(const std::string& name) {
  for (const Build* build : usable_builds())
    if (build->name == name) return *build;
  throw std::invalid_argument("no kernel named " + name + " for this machine");
}

template <typename Scalar, int Dimensions>
using Array = nb::ndarray<const Scalar, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;
template <typename Scalar, int Dimensions>
using Writable = nb::ndarray<Scalar, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void demand(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// Runs task(0 ... tasks - 1) on several threads, each taking the next one that is left. Where the system gives fewer
// threads, those there are do it all. What goes wrong in one of them, such as want of memory, is thrown in the end.
template <typename MakeWorker>
void share_out(int64_t tasks, int threads, MakeWorker make_worker) {
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failing;
  auto work = [&] {
    try {
      auto worker = make_worker();
      for (int64_t task = next++; task < tasks; task = next++) worker(task);
    } catch (...) {
      next = tasks;
      const std::lock_guard<std::mutex> alone(failing);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (int thread = 1; thread < std::min<int64_t>(threads, tasks); ++thread) others.emplace_back(work);
  } catch (const std::exception&) {
  }
  work();
  for (std::thread& thread : others) thread.join();
  if (failure) std::rethrow_exception(failure);
}

// Cuts rows into tasks of about as many reports each. The cuts do not depend on the number of threads.
std::vector<int64_t> cut(const int64_t* starts, int64_t rows, int64_t reports_each) {
  std::vector<int64_t> cuts{0};
  while (cuts.back() < rows) {
    const int64_t wanted = starts[cuts.back()] + reports_each;
    const int64_t* found = std::upper_bound(starts + cuts.back() + 1, starts + rows, wanted);
    cuts.push_back(std::min<int64_t>({rows, found - starts, cuts.back() + 4096}));
  }
  return cuts;
}

constexpr int64_t kReportsPerTask = 16384;

ValueKind kind_of(const Values& values) {
  if (values.dtype() == nb::dtype<uint8_t>()) return ValueKind::kBytes;
  if (values.dtype() == nb::dtype<uint16_t>()) return ValueKind::kShorts;
  demand(values.dtype() == nb::dtype<float>(), "values must be uint8, uint16 or float32");
  return ValueKind::kFloats;
}

Rows rows_of(const Array<int64_t, 1>& starts, const Array<int32_t, 1>& columns, const Values& values,
             const std::optional<Array<float, 1>>& table) {
  const ValueKind kind = kind_of(values);
  demand(starts.size() >= 1 && values.size() == columns.size(), "starts, columns and values do not fit together");
  demand(starts.data()[starts.size() - 1] == int64_t(columns.size()), "the last start is not the number of reports");
  demand((kind == ValueKind::kFloats) != table.has_value(), "codes need a table, and floats none");
  return {starts.data(), columns.data(), values.data(), kind, table ? table->data() : nullptr};
}

// The components from the widest on, those without weight behind: the order the kernels want.
std::vector<int> widest_first(const std::vector<double>& weights, const std::vector<double>& variances) {
  std::vector<int> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if ((weights[a] > 0) != (weights[b] > 0)) return weights[a] > 0;
    return variances[a] > variances[b];
  });
  return order;
}

Mixture mixture_of(const std::vector<double>& weights, const std::vector<double>& variances, const std::vector<int>& order) {
  Mixture mixture{1, 0, {}, {}, {}};
  while (mixture.components < int(order.size())) mixture.components *= 2;
  std::fill_n(mixture.log_ratio, kMostComponents, -1e30f);
  auto log_scale = [&](int k) { return std::log(weights[k]) - 0.5 * std::log(2 * M_PI * variances[k]); };
  mixture.log_scale = float(log_scale(order[0]));
  for (size_t place = 0; place < order.size(); ++place) {
    const int k = order[place];
    mixture.half_precision[place] = float(0.5 / variances[k]);
    if (weights[k] <= 0) continue;
    // The exponential's range; only a mixture that no fit makes, with a widest component of next to no weight, needs it.
    mixture.log_ratio[place] = float(std::min(80.0, log_scale(k) - log_scale(order[0])));
    mixture.precision_gap[place] = float(0.5 / variances[k] - 0.5 / variances[order[0]]);
  }
  return mixture;
}

// Memory that starts with a cache line.
class Scratch {
 public:
  explicit Scratch(int64_t floats) : memory_(size_t(floats) + 16) {}
  float* data() {
    void* start = memory_.data();
    size_t space = memory_.size() * sizeof(float);
    return static_cast<float*>(std::align(64, space - 64, start, space));
  }

 private:
  std::vector<float> memory_;
};

Sweep sweep_of(const Rows& rows, const Array<int64_t, 1>& starts, const Array<float, 2>& fixed,
               const Writable<float, 2>& solved, int coordinates, size_t free) {
  const int64_t count = int64_t(starts.size()) - 1;
  const int stride = int(fixed.shape(1));
  demand(int64_t(solved.shape(0)) == count && solved.shape(1) == fixed.shape(1), "the two sides' factors do not fit");
  demand(stride % kCacheLine == 0 && coordinates <= stride && coordinates <= kMostCoordinates,
         "factors must be padded to 16");
  demand(free >= 1 && int64_t(free) <= coordinates, "the number of free coordinates is out of range");
  return {rows, fixed.data(), solved.data(), stride, coordinates, int(free), rows.starts[count]};
}

// Runs through all rows of a sweep, and returns what was found, task by task.
template <typename Found, typename AnySweep>
std::vector<Found> sweep_rows(void (*solve_rows)(const AnySweep&, int64_t, int64_t, float*, Found&), const AnySweep& sweep,
                              int64_t rows, int64_t scratch_floats, int threads) {
  demand(threads >= 1, "threads out of range");
  const std::vector<int64_t> cuts = cut(sweep.rows.starts, rows, kReportsPerTask);
  std::vector<Found> found(cuts.size() - 1);
  nb::gil_scoped_release released;
  share_out(int64_t(found.size()), threads, [&] {
    return [&, scratch = Scratch(scratch_floats)](int64_t task) mutable {
      solve_rows(sweep, cuts[size_t(task)], cuts[size_t(task) + 1], scratch.data(), found[size_t(task)]);
    };
  });
  return found;
}

std::vector<double> half_sweep(const std::string& build_name, const Array<int64_t, 1>& starts,
                               const Array<int32_t, 1>& columns, const Values& values,
                               const std::optional<Array<float, 1>>& table, const Array<float, 2>& fixed,
                               const Writable<float, 2>& solved, int coordinates, const Array<float, 1>& ridge,
                               const std::vector<double>& weights, const std::vector<double>& variances,
                               bool with_statistics, int threads) {
  const Build& build = build_named(build_name);
  const Rows rows = rows_of(starts, columns, values, table);
  const Sweep sides = sweep_of(rows, starts, fixed, solved, coordinates, ridge.size());
  const bool ridged = std::any_of(ridge.data(), ridge.data() + ridge.size(), [](float each) { return each > 0.0f; });
  demand(!weights.empty() && weights.size() <= kMostComponents && weights.size() == variances.size(),
         "a mixture has 1 to 16 components");
  const std::vector<int> order = widest_first(weights, variances);
  const HalfSweep sweep{sides, ridge.data(), ridged, mixture_of(weights, variances, order), with_statistics};
  const std::vector<Statistics> found =
      sweep_rows(build.half_sweep, sweep, int64_t(solved.shape(0)), build.scratch_floats(sides.stride), threads);
  std::vector<double> total(2 + 2 * order.size());
  for (const Statistics& part : found) {
    total[0] += part.log_likelihood;
    total[1] += double(part.singular_rows);
    for (size_t place = 0; place < order.size(); ++place) {
      total[2 + size_t(order[place])] += part.responsibility[place];
      total[2 + order.size() + size_t(order[place])] += part.square[place];
    }
  }
  return total;
}

double posterior_sweep(const std::string& build_name, const Array<int64_t, 1>& starts, const Array<int32_t, 1>& columns,
                       const Values& values, const std::optional<Array<float, 1>>& table, const Array<float, 1>& weights,
                       const Array<float, 2>& fixed, const Writable<float, 2>& solved,
                       const Writable<float, 2>& variances, int coordinates, const Array<float, 1>& precision,
                       const std::optional<Array<float, 2>>& centres,
                       const std::optional<Array<float, 2>>& fixed_variances, int threads) {
  const Build& build = build_named(build_name);
  const Rows rows = rows_of(starts, columns, values, table);
  const size_t free = precision.size();
  const Sweep sides = sweep_of(rows, starts, fixed, solved, coordinates, free);
  const auto fits = [&](const auto& each) { return each.shape(0) == solved.shape(0) && each.shape(1) == free; };
  demand(fits(variances) && (!centres || fits(*centres)), "variances or centres do not fit the rows solved for");
  demand(!fixed_variances || (fixed_variances->shape(0) == fixed.shape(0) && fixed_variances->shape(1) <= free),
         "the other side's variances do not fit its factors");
  demand(weights.size() == (table ? table->size() : 1), "there must be one weight for each symbol, or one for all floats");
  std::vector<float> roots(weights.data(), weights.data() + weights.size());
  for (float& root : roots) {
    demand(root >= 0.0f, "a weight must not be negative");
    root = std::sqrt(root);
  }
  demand(std::all_of(precision.data(), precision.data() + free, [](float each) { return each > 0.0f; }),
         "the prior's precision must be positive");
  const PosteriorSweep sweep{sides,
                             roots.data(),
                             precision.data(),
                             centres ? centres->data() : nullptr,
                             fixed_variances ? fixed_variances->data() : nullptr,
                             fixed_variances ? int(fixed_variances->shape(1)) : 0,
                             variances.data()};
  const std::vector<double> squares =
      sweep_rows(build.posterior_sweep, sweep, int64_t(solved.shape(0)), build.scratch_floats(sides.stride), threads);
  return std::accumulate(squares.begin(), squares.end(), 0.0);
}

// Reports lie in blocks, `side` times `side` of them: user group by item group. Blocks on a diagonal share no row, so
// they can be worked on at the same time, and the result does not depend on how many threads do it.
double sgd_epoch(const std::string& build_name, const Array<int64_t, 1>& block_starts, const Array<int32_t, 1>& users,
                 const Array<int32_t, 1>& items, const Values& values, const std::optional<Array<float, 1>>& table,
                 const Writable<float, 2>& user_factors, const Writable<float, 2>& item_factors,
                 const Array<float, 2>& rates, int side, int threads) {
  const Build& build = build_named(build_name);
  const int64_t stride = int64_t(user_factors.shape(1));
  demand(int64_t(block_starts.size()) == int64_t(side) * side + 1 && users.size() == items.size(), "the blocks do not fit");
  demand(stride % 16 == 0 && int64_t(item_factors.shape(1)) == stride, "factors must be padded to 16");
  demand(rates.shape(0) == 4 && int64_t(rates.shape(1)) == stride && threads >= 1, "rates or threads out of range");
  demand(values.size() == users.size() && block_starts.data()[block_starts.size() - 1] == int64_t(users.size()),
         "the blocks do not fit");
  demand((kind_of(values) == ValueKind::kFloats) != table.has_value(), "codes need a table, and floats none");
  const Rows reports{nullptr, nullptr, values.data(), kind_of(values), table ? table->data() : nullptr};
  const SgdEpoch epoch{users.data(), items.data(), reports, user_factors.data(), item_factors.data(), int(stride),
                       rates.data(), rates.data() + stride, rates.data() + 2 * stride, rates.data() + 3 * stride};
  std::vector<double> squares(block_starts.size() - 1);
  nb::gil_scoped_release released;
  for (int diagonal = 0; diagonal < side; ++diagonal)
    share_out(side, threads, [&] {
      return [&](int64_t group) {
        const size_t block = size_t(group * side + (group + diagonal) % side);
        squares[block] = build.sgd_steps(epoch, block_starts.data()[block], block_starts.data()[block + 1]);
      };
    });
  return std::accumulate(squares.begin(), squares.end(), 0.0);
}

constexpr int64_t kUsersPerTask = 512;

// Interleaves the factors of kPanel items, coordinate by coordinate; the last panel is filled up with zeros.
std::vector<float> panels_of(const Array<float, 2>& items, int coordinates) {
  const int64_t count = int64_t(items.shape(0)), stride = int64_t(items.shape(1));
  std::vector<float> panels(size_t((count + kPanel - 1) / kPanel * kPanel * coordinates));
  for (int64_t item = 0; item < count; ++item)
    for (int at = 0; at < coordinates; ++at)
      panels[size_t((item / kPanel * coordinates + at) * kPanel + item % kPanel)] = items.data()[item * stride + at];
  return panels;
}

void top_n(const std::string& build_name, const Array<float, 2>& users, const Array<float, 2>& items, int coordinates,
           const std::optional<Array<int64_t, 1>>& rated_starts, const std::optional<Array<int32_t, 1>>& rated_columns,
           const Writable<int32_t, 2>& found_items, const Writable<float, 2>& found_scores, int threads) {
  const Build& build = build_named(build_name);
  const int64_t count = int64_t(users.shape(0));
  demand(coordinates <= int(users.shape(1)) && coordinates <= int(items.shape(1)), "too few coordinates");
  demand(found_items.shape(0) == users.shape(0) && found_scores.shape(0) == users.shape(0), "the lists do not fit");
  demand(found_items.shape(1) == found_scores.shape(1) && found_items.shape(1) >= 1, "the lists do not fit");
  demand(rated_starts.has_value() == rated_columns.has_value() && threads >= 1, "rated or threads do not fit");
  demand(!rated_starts || rated_starts->size() == users.shape(0) + 1, "what was rated does not fit the users");
  demand(!rated_starts || rated_starts->data()[users.shape(0)] <= int64_t(rated_columns->size()),
         "what was rated does not fit the users");
  nb::gil_scoped_release released;
  const std::vector<float> panels = panels_of(items, coordinates);
  const TopN search{users.data(), int(users.shape(1)), coordinates, panels.data(), int64_t(items.shape(0)),
                    rated_starts ? rated_starts->data() : nullptr, rated_columns ? rated_columns->data() : nullptr,
                    int(found_items.shape(1)), found_items.data(), found_scores.data()};
  share_out((count + kUsersPerTask - 1) / kUsersPerTask, threads, [&] {
    return [&](int64_t task) {
      build.find_top_n(search, task * kUsersPerTask, std::min(count, (task + 1) * kUsersPerTask));
    };
  });
}

void row_sums(const std::string& build_name, const Array<int64_t, 1>& starts, const Array<int32_t, 1>& columns,
              const Array<float, 2>& dense, const Writable<float, 2>& out, int threads) {
  const Build& build = build_named(build_name);
  const int64_t rows = int64_t(starts.size()) - 1, entries = int64_t(columns.size());
  demand(rows >= 0 && starts.data()[rows] == entries, "starts and columns do not fit together");
  demand(int64_t(out.shape(0)) == rows && out.shape(1) == dense.shape(1), "the sums do not fit what is summed");
  demand(threads >= 1, "threads out of range");
  const RowSums sums{starts.data(), columns.data(), entries, dense.data(), int(dense.shape(1)), out.data()};
  const std::vector<int64_t> cuts = cut(starts.data(), rows, kReportsPerTask);
  nb::gil_scoped_release released;
  share_out(int64_t(cuts.size()) - 1, threads, [&] {
    return [&](int64_t task) { build.row_sums(sums, cuts[size_t(task)], cuts[size_t(task) + 1]); };
  });
}

}  // namespace

NB_MODULE(_native, module) {
  module.doc() = "Compiled kernels of tacit.learning: arrays in, arrays out.";
  module.def("builds", [] {
    std::vector<std::string> names;
    for (const Build* build : usable_builds()) names.push_back(build->name);
    return names;
  });
  // Arrays that are written to must be taken as they are: a converted copy would be changed in their place.
  const auto as_is = [](const char* name) { return nb::arg(name).noconvert(); };
  const auto given = [](const char* name) { return nb::arg(name); };
  module.def("half_sweep", &half_sweep, given("build"), given("starts"), given("columns"), given("values"),
             given("table").none(), given("fixed"), as_is("solved"), given("coordinates"), given("ridge"),
             given("weights"), given("variances"), given("with_statistics"), given("threads"));
  module.def("posterior_sweep", &posterior_sweep, given("build"), given("starts"), given("columns"), given("values"),
             given("table").none(), given("weights"), given("fixed"), as_is("solved"), as_is("variances"),
             given("coordinates"), given("precision"), given("centres").none(), given("fixed_variances").none(),
             given("threads"));
  module.def("sgd_epoch", &sgd_epoch, given("build"), given("block_starts"), given("users"), given("items"),
             given("values"), given("table").none(), as_is("user_factors"), as_is("item_factors"), given("rates"),
             given("side"), given("threads"));
  module.def("top_n", &top_n, given("build"), given("users"), given("items"), given("coordinates"),
             given("rated_starts").none(), given("rated_columns").none(), as_is("found_items"), as_is("found_scores"),
             given("threads"));
  module.def("row_sums", &row_sums, given("build"), given("starts"), given("columns"), given("dense"), as_is("out"),
             given("threads"));
}

}  // namespace tacit
