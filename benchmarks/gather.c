// Reads rows of a table in a given order, asking for each a while before it is needed, and does nothing else with them.
#include <pthread.h>
#include <stdint.h>

enum { AHEAD = 32, LINE = 16, AT_ONCE = 4, MOST_THREADS = 64 };

typedef float line __attribute__((vector_size(LINE * 4), aligned(64)));

struct part {
  const line* table;
  const int32_t* index;
  int64_t count;
  int64_t lines;
  line sum;
};

// With the number of lines in a row known, the sums stay in registers: several, so that none waits for the one before.
static inline void read_rows_of(struct part* part, const int64_t lines) {
  const line* table = part->table;
  const int32_t* index = part->index;
  line sums[AT_ONCE] = {{0}};
  int64_t at = 0;
  for (; at + AHEAD + AT_ONCE <= part->count; at += AT_ONCE)
    for (int each = 0; each < AT_ONCE; ++each)
      for (int64_t line_of_row = 0; line_of_row < lines; ++line_of_row) {
        __builtin_prefetch(table + index[at + AHEAD + each] * lines + line_of_row);
        sums[each] += table[index[at + each] * lines + line_of_row];
      }
  for (; at < part->count; ++at)
    for (int64_t line_of_row = 0; line_of_row < lines; ++line_of_row) sums[0] += table[index[at] * lines + line_of_row];
  part->sum = sums[0] + sums[1] + sums[2] + sums[3];
}

static void* read_rows(void* argument) {
  struct part* part = argument;
  switch (part->lines) {
    case 1: read_rows_of(part, 1); break;
    case 2: read_rows_of(part, 2); break;
    default: read_rows_of(part, part->lines);
  }
  return 0;
}

float gather(const float* table, const int32_t* index, int64_t count, int64_t width, int threads) {
  pthread_t running[MOST_THREADS];
  struct part parts[MOST_THREADS];
  float sum = 0;
  for (int thread = 0; thread < threads; ++thread) {
    const int64_t first = count * thread / threads, last = count * (thread + 1) / threads;
    parts[thread] = (struct part){(const line*)table, index + first, last - first, width / LINE, {0}};
    pthread_create(&running[thread], 0, read_rows, &parts[thread]);
  }
  for (int thread = 0; thread < threads; ++thread) {
    pthread_join(running[thread], 0);
    sum += parts[thread].sum[0];
  }
  return sum;
}
