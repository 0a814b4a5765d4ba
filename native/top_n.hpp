// The best items of many users: products of factors, tile by tile, and a short list for every user.
#pragma once

#include "kernels.hpp"
#include "vector.hpp"

namespace {

using tacit::kPanel;
using tacit::TopN;

constexpr int kUsersAtOnce = 8;
constexpr int kPanelVectors = kPanel / kLanes;
constexpr int kPanelsAtOnce = 16;  // panels that stay in the first-level cache while users pass by

// The n best of one user so far, as a heap with the worst on top: lower scores are worse, then higher indices.
struct ShortList {
  float* scores;
  int32_t* items;
  int size;

  static bool worse(float score_a, int32_t item_a, float score_b, int32_t item_b) {
    return score_a < score_b || (score_a == score_b && item_a > item_b);
  }

  void place(int at, float score, int32_t item) {
    scores[at] = score;
    items[at] = item;
  }

  // Lets an entry sink from the top of the first `count` entries.
  void sink(float score, int32_t item, int count) {
    int at = 0;
    for (;;) {
      int child = 2 * at + 1;
      if (child >= count) break;
      if (child + 1 < count && worse(scores[child + 1], items[child + 1], scores[child], items[child])) ++child;
      if (!worse(scores[child], items[child], score, item)) break;
      place(at, scores[child], items[child]);
      at = child;
    }
    place(at, score, item);
  }

  // Turns the heap into a list, the best first.
  void sort() {
    for (int count = size - 1; count > 0; --count) {
      const float score = scores[0];
      const int32_t item = items[0];
      sink(scores[count], items[count], count);
      place(count, score, item);
    }
  }
};

inline bool is_rated(const TopN& search, int64_t user, int32_t item) {
  if (!search.rated_starts) return false;
  int64_t first = search.rated_starts[user], last = search.rated_starts[user + 1];
  while (first < last) {
    const int64_t middle = (first + last) / 2;
    if (search.rated_columns[middle] < item)
      first = middle + 1;
    else
      last = middle;
  }
  return first < search.rated_starts[user + 1] && search.rated_columns[first] == item;
}

// Scores of kUsersAtOnce users for one panel of items.
inline void score_panel(const TopN& search, const float* const* users, const float* panel, float (*scores)[kPanel]) {
  Vector sums[kUsersAtOnce][kPanelVectors] = {};
  for (int at = 0; at < search.coordinates; ++at, panel += kPanel) {
    Vector items[kPanelVectors];
    for (int part = 0; part < kPanelVectors; ++part) items[part] = load(panel + part * kLanes);
    for (int user = 0; user < kUsersAtOnce; ++user)
      for (int part = 0; part < kPanelVectors; ++part) sums[user][part] += users[user][at] * items[part];
  }
  for (int user = 0; user < kUsersAtOnce; ++user)
    for (int part = 0; part < kPanelVectors; ++part) store(scores[user] + part * kLanes, sums[user][part]);
}

inline bool any_above(const float* scores, float limit) {
  IntVector above{};
  for (int part = 0; part < kPanelVectors; ++part) above |= load(scores + part * kLanes) > filled(limit);
  int32_t any = 0;
  for (int lane = 0; lane < kLanes; ++lane) any |= above[lane];
  return any != 0;
}

inline void take_candidates(const TopN& search, int64_t user, int64_t panel, const float* scores) {
  ShortList list{search.found_scores + user * search.n, search.found_items + user * search.n, search.n};
  if (!any_above(scores, list.scores[0])) return;
  for (int at = 0; at < kPanel; ++at) {
    const int64_t item = panel * kPanel + at;
    if (scores[at] > list.scores[0] && item < search.item_count && !is_rated(search, user, int32_t(item)))
      list.sink(scores[at], int32_t(item), list.size);
  }
}

// Fills the lists of users [first, last).
inline void find_top_n(const TopN& search, int64_t first, int64_t last) {
  const int64_t panels = (search.item_count + kPanel - 1) / kPanel;
  const int64_t panel_floats = int64_t(kPanel) * search.coordinates;
  for (int64_t from = 0; from < panels; from += kPanelsAtOnce) {
    const int64_t to = from + kPanelsAtOnce < panels ? from + kPanelsAtOnce : panels;
    for (int64_t user = first; user < last; user += kUsersAtOnce) {
      const int count = last - user < kUsersAtOnce ? int(last - user) : kUsersAtOnce;
      const float* rows[kUsersAtOnce];
      for (int each = 0; each < kUsersAtOnce; ++each)
        rows[each] = search.users + (user + (each < count ? each : 0)) * search.stride;
      for (int64_t panel = from; panel < to; ++panel) {
        float scores[kUsersAtOnce][kPanel];
        score_panel(search, rows, search.panels + panel * panel_floats, scores);
        for (int each = 0; each < count; ++each) take_candidates(search, user + each, panel, scores[each]);
      }
    }
  }
  for (int64_t user = first; user < last; ++user)
    ShortList{search.found_scores + user * search.n, search.found_items + user * search.n, search.n}.sort();
}

}  // namespace
