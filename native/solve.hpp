// Small symmetric systems, stored as the upper triangle in rows.
#pragma once

#include "kernels.hpp"
#include "vector.hpp"

namespace {

#if defined(__AVX512VL__) || defined(__aarch64__)
constexpr int kTileRows = 8;  // 32 vector registers
#else
constexpr int kTileRows = 4;  // 16 vector registers
#endif

// Rows of numbers that are multiplied with each other: row `at` starts at rows + at * stride. Meanwhile the memory at
// ahead[at], for each row, is asked for: products keep the processor busy for as long as memory takes to answer.
struct Factors {
  const float* rows;
  int stride;
  int count;
  const float* const* ahead;
};

// A symmetric matrix as the upper triangle in rows, and the right side of its equations as one more row.
// `stride` is a multiple of kLanes; what lies left of the diagonal or beyond `size` is of no meaning.
struct System {
  float* matrix;
  float* right;
  int stride;
  int size;

  float* row(int at) const { return matrix + at * stride; }
};

// Adds products of columns: matrix[i][c] += sum_j rows[j][i] rows[j][c] for a tile of entries that stays in registers,
// and, in a tile of the first rows, right[c] += sum_j shares[j] rows[j][c].
template <int kRows, int kVectors, bool kWithRight>
inline void add_tile(const Factors& from, const float* shares, int first_row, int first_column, const System& into) {
  constexpr int kHeight = kRows + (kWithRight ? 1 : 0);
  Vector sums[kHeight][kVectors];
  auto target = [&](int row) { return (row < kRows ? into.row(first_row + row) : into.right) + first_column; };
  for (int row = 0; row < kHeight; ++row)
    for (int part = 0; part < kVectors; ++part) sums[row][part] = load(target(row) + part * kLanes);
  const float* source = from.rows;
  for (int at = 0; at < from.count; ++at, source += from.stride) {
    if (kWithRight) __builtin_prefetch(from.ahead[at] + first_column);
    Vector right[kVectors];
    for (int part = 0; part < kVectors; ++part) right[part] = load(source + first_column + part * kLanes);
    for (int row = 0; row < kHeight; ++row) {
      const float left = row < kRows ? source[first_row + row] : shares[at];
      for (int part = 0; part < kVectors; ++part) sums[row][part] += left * right[part];
    }
  }
  for (int row = 0; row < kHeight; ++row)
    for (int part = 0; part < kVectors; ++part) store(target(row) + part * kLanes, sums[row][part]);
}

template <int kRows, bool kWithRight>
inline void add_tiles(int height, const Factors& from, const float* shares, int row, int column, const System& into) {
  if constexpr (kRows > 1) {
    if (height < kRows) return add_tiles<kRows - 1, kWithRight>(height, from, shares, row, column, into);
  }
  for (; column + 2 * kLanes <= into.stride; column += 2 * kLanes)
    add_tile<kRows, 2, kWithRight>(from, shares, row, column, into);
  if (column < into.stride) add_tile<kRows, 1, kWithRight>(from, shares, row, column, into);
}

// Adds the products of all columns of `from`, and their sums weighted with `shares`.
inline void add_products(const Factors& from, const float* shares, const System& into) {
  add_tiles<kTileRows, true>(into.size, from, shares, 0, 0, into);
  for (int row = kTileRows; row < into.size; row += kTileRows)
    add_tiles<kTileRows, false>(into.size - row, from, shares, row, row / kLanes * kLanes, into);
}

// A pivot that falls below this share of its diagonal entry is too uncertain in single precision.
constexpr float kLeastPivot = 1e-3f;

// kLanes systems of one size, solved side by side: each lane of each vector belongs to one of them. Row i holds the upper
// triangle and, in the column behind the last, the right side. Cholesky's method: A = U' U, U' y = right, U x = y.
class SideBySide {
 public:
  // `cells` has room for width_of(...) vectors a row, and is aligned to a vector.
  SideBySide(Vector* cells, int size, bool with_inverses)
      : cells_(cells), size_(size), width_(width_of(size, with_inverses)) {}

  // Inverses need another tile of right sides.
  static int width_of(int size, bool with_inverses) { return (size / kTile + 1 + with_inverses) * kTile; }

  // Takes in `count` systems; lanes without one repeat the first.
  void take_in(const System* systems, int count) {
    Vector lanes[kLanes];
    for (int row = 0; row < size_; ++row)
      for (int column = row / kLanes * kLanes; column < systems[0].stride; column += kLanes) {
        for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = load(systems[lane < count ? lane : 0].row(row) + column);
        transpose(lanes);
        for (int at = 0; at < kLanes && column + at < size_; ++at) cell(row, column + at) = lanes[at];
      }
    for (int row = 0; row < size_; row += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = load(systems[lane < count ? lane : 0].right + row);
      transpose(lanes);
      for (int at = 0; at < kLanes && row + at < size_; ++at) cell(row + at, size_) = lanes[at];
    }
    for (int row = 0; row < size_; ++row)
      for (int column = size_ + 1; column < width_; ++column) cell(row, column) = Vector{};
  }

  // Solves them. Where lane l of the answer is 0, system l is singular or nearly so, and not solved.
  IntVector solve() {
    IntVector regular = ~IntVector{};
    int first = 0;
    for (; first + kTile <= size_; first += kTile) eliminate<kTile>(first, regular);
    for (; first < size_; ++first) eliminate<1>(first, regular);
    for (int row = size_ - 1; row >= 0; --row) {
      const Vector found = cell(row, size_) *= inverse_[row];
      for (int above = 0; above < row; ++above) cell(above, size_) -= found * cell(above, row);
    }
    return regular;
  }

  // Once they are solved, puts the diagonals of their inverses in place of the solutions. With U' y = e, e the unit vector
  // of an unknown, its entry is y'y; y is zero above it.
  void invert() {
    const int units = width_ - kTile;
    for (int unknown = 0; unknown < size_; unknown += kTile) {
      for (int row = unknown; row < size_; ++row)
        for (int at = 0; at < kTile; ++at) cell(row, units + at) = filled(row == unknown + at ? 1.0f : 0.0f);
      int first = unknown;
      for (; first + kTile <= size_; first += kTile) finish<kTile, kTile>(first, units, unknown);
      for (; first < size_; ++first) finish<1, kTile>(first, units, unknown);
      for (int at = 0; at < kTile && unknown + at < size_; ++at) {
        Vector squares{};
        for (int row = unknown + at; row < size_; ++row) squares += cell(row, units + at) * cell(row, units + at);
        cell(unknown + at, size_) = squares;
      }
    }
  }

  // Writes the solutions, or what took their place, over the right sides.
  void give_out(const System* systems, int count) {
    Vector lanes[kLanes];
    for (int row = 0; row < size_; row += kLanes) {
      for (int at = 0; at < kLanes; ++at) lanes[at] = row + at < size_ ? cell(row + at, size_) : Vector{};
      transpose(lanes);
      for (int lane = 0; lane < count; ++lane) store(systems[lane].right + row, lanes[lane]);
    }
  }

 private:
  static constexpr int kTile = 4;

  Vector& cell(int row, int column) { return cells_[row * width_ + column]; }

  // Makes kRows rows, from `first` on, rows of U: first those columns that hold the pivots, then the others.
  template <int kRows>
  void eliminate(int first, IntVector& regular) {
    Vector diagonal[kRows];
    for (int row = 0; row < kRows; ++row) diagonal[row] = cell(first + row, first + row);
    reduce<kRows, kRows>(first, first);
    for (int row = 0; row < kRows; ++row) {
      const Vector pivot = cell(first + row, first + row);
      regular &= pivot > kLeastPivot * diagonal[row];
      inverse_[first + row] = regular ? 1.0f / square_root(pivot) : Vector{};
      for (int column = row; column < kRows; ++column) cell(first + row, first + column) *= inverse_[first + row];
      for (int below = row + 1; below < kRows; ++below)
        for (int column = below; column < kRows; ++column)
          cell(first + below, first + column) -= cell(first + row, first + below) * cell(first + row, first + column);
    }
    int column = first + kRows;
    for (; column % kTile; ++column) finish<kRows, 1>(first, column);
    for (; column <= size_; column += kTile) finish<kRows, kTile>(first, column);
  }

  // Takes all earlier rows of U, down from `top`, out of a tile.
  template <int kRows, int kColumns>
  void reduce(int first, int column, int top = 0) {
    Vector tile[kRows][kColumns];
    for (int row = 0; row < kRows; ++row)
      for (int at = 0; at < kColumns; ++at) tile[row][at] = cell(first + row, column + at);
    for (int before = top; before != first; ++before)
      for (int row = 0; row < kRows; ++row)
        for (int at = 0; at < kColumns; ++at) tile[row][at] -= cell(before, first + row) * cell(before, column + at);
    for (int row = 0; row < kRows; ++row)
      for (int at = 0; at < kColumns; ++at) cell(first + row, column + at) = tile[row][at];
  }

  // The same, and then the rows of this panel out of each other.
  template <int kRows, int kColumns>
  void finish(int first, int column, int top = 0) {
    reduce<kRows, kColumns>(first, column, top);
    for (int row = 0; row < kRows; ++row)
      for (int at = 0; at < kColumns; ++at) {
        Vector entry = cell(first + row, column + at);
        for (int before = 0; before < row; ++before)
          entry -= cell(first + before, first + row) * cell(first + before, column + at);
        cell(first + row, column + at) = entry * inverse_[first + row];
      }
  }

  Vector* cells_;
  const int size_, width_;
  Vector inverse_[tacit::kMostCoordinates];
};

}  // namespace
