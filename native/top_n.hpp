// The best items of many users: products of factors, tile by tile, and a short list for every user.
#pragma once

#include "kernels.hpp"
#include "solve.hpp"
#include "vector.hpp"

namespace {

using tacit::kPanel;
using tacit::TopN;

constexpr int kUsersAtOnce = kTileRows;
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

// Scores of kUsersAtOnce users for one panel of items. They are written down only if one of them is above its user's
// limit, which is rare once the lists have filled.
inline bool score_panel(const TopN& search, const float* const* users, const float* limits, const float* panel,
                        float (*scores)[kPanel]) {
  Vector sums[kUsersAtOnce][kPanelVectors] = {};
  for (int at = 0; at < search.coordinates; ++at, panel += kPanel) {
    Vector items[kPanelVectors];
    for (int part = 0; part < kPanelVectors; ++part) items[part] = load(panel + part * kLanes);
    for (int user = 0; user < kUsersAtOnce; ++user)
      for (int part = 0; part < kPanelVectors; ++part) sums[user][part] += users[user][at] * items[part];
  }
  IntVector above{};
  for (int user = 0; user < kUsersAtOnce; ++user)
    for (int part = 0; part < kPanelVectors; ++part) above |= sums[user][part] > filled(limits[user]);
  if (!any_of(above)) return false;
  for (int user = 0; user < kUsersAtOnce; ++user)
    for (int part = 0; part < kPanelVectors; ++part) store(scores[user] + part * kLanes, sums[user][part]);
  return true;
}

inline ShortList list_of(const TopN& search, int64_t user) {
  return {search.found_scores + user * search.n, search.found_items + user * search.n, search.n};
}

inline void take_candidates(const TopN& search, int64_t user, int64_t panel, const float* scores) {
  ShortList list = list_of(search, user);
  for (int at = 0; at < kPanel; ++at) {
    const int64_t item = panel * kPanel + at;
    if (scores[at] > list.scores[0] && item < search.item_count && !is_rated(search, user, int32_t(item)))
      list.sink(scores[at], int32_t(item), list.size);
  }
}

// Passes some panels by kUsersAtOnce users, or fewer at the end; the places of missing ones repeat the first.
inline void search_panels(const TopN& search, int64_t user, int count, int64_t from, int64_t to) {
  const float* rows[kUsersAtOnce];
  float limits[kUsersAtOnce];
  for (int each = 0; each < kUsersAtOnce; ++each) {
    const int64_t here = user + (each < count ? each : 0);
    rows[each] = search.users + here * search.stride;
    limits[each] = list_of(search, here).scores[0];
  }
  for (int64_t panel = from; panel < to; ++panel) {
    float scores[kUsersAtOnce][kPanel];
    if (!score_panel(search, rows, limits, search.panels + panel * kPanel * search.coordinates, scores)) continue;
    for (int each = 0; each < count; ++each) {
      take_candidates(search, user + each, panel, scores[each]);
      limits[each] = list_of(search, user + each).scores[0];
    }
    for (int each = count; each < kUsersAtOnce; ++each) limits[each] = limits[0];
  }
}

// Fills the lists of users [first, last).
inline void find_top_n(const TopN& search, int64_t first, int64_t last) {
  const int64_t panels = (search.item_count + kPanel - 1) / kPanel;
  for (int64_t from = 0; from < panels; from += kPanelsAtOnce) {
    const int64_t to = from + kPanelsAtOnce < panels ? from + kPanelsAtOnce : panels;
    for (int64_t user = first; user < last; user += kUsersAtOnce)
      search_panels(search, user, last - user < kUsersAtOnce ? int(last - user) : kUsersAtOnce, from, to);
  }
  for (int64_t user = first; user < last; ++user) list_of(search, user).sort();
}

}  // namespace
