// Reads rows of a table in a given order, asking for each a while before it is needed, and does nothing else with them.
#include <pthread.h>
#include <stdint.h>

enum { AHEAD = 32, LINE = 16, MOST_THREADS = 64 };

struct part {
  const float* table;
  const int32_t* index;
  int64_t count;
  int64_t width;
  float sum;
};

static void* read_rows(void* argument) {
  struct part* part = argument;
  float sums[LINE] = {0};
  for (int64_t at = 0; at < part->count; ++at) {
    const int64_t later = at + AHEAD < part->count ? at + AHEAD : at;
    const float* next = part->table + part->index[later] * part->width;
    const float* row = part->table + part->index[at] * part->width;
    for (int64_t first = 0; first < part->width; first += LINE) {
      __builtin_prefetch(next + first);
      for (int lane = 0; lane < LINE; ++lane) sums[lane] += row[first + lane];
    }
  }
  for (int lane = 0; lane < LINE; ++lane) part->sum += sums[lane];
  return 0;
}

float gather(const float* table, const int32_t* index, int64_t count, int64_t width, int threads) {
  pthread_t running[MOST_THREADS];
  struct part parts[MOST_THREADS];
  float sum = 0;
  for (int thread = 0; thread < threads; ++thread) {
    const int64_t first = count * thread / threads, last = count * (thread + 1) / threads;
    parts[thread] = (struct part){table, index + first, last - first, width, 0};
    pthread_create(&running[thread], 0, read_rows, &parts[thread]);
  }
  for (int thread = 0; thread < threads; ++thread) {
    pthread_join(running[thread], 0);
    sum += parts[thread].sum;
  }
  return sum;
}
