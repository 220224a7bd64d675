/* SPDX-License-Identifier: MIT
 *
 * stats: histograms of how late runs started, for what reasons, how long they were queued and how
 * long they took.
 *
 * A cell holds one of each. It has one writer at a time, which needs no lock and no atomic
 * read-modify-write. Any thread may read it meanwhile. A reader adds all cells up.
 *
 * Recording is on the path of every run, so it is made of few instructions:
 * - The bucket is read off a double: its exponent and the two highest bits of its mantissa. To
 *   count leading zeros takes longer where the compiler may not use the newest instruction for it.
 * - `ns | 128` spares a comparison with the least bucket. It costs twelve raw buckets below
 *   1024 ns, which a reader adds up to one.
 * - One comparison, with ceiling_ns, finds both a new maximum and a value for the last bucket.
 */
#ifndef UVS__STATS_H
#define UVS__STATS_H

#include "uvsched/stats.h"

#include "port/atomic.h"
#include "port/base.h"

#define UVS__STATS (UVS_STAT_CAUSE + UVS_LATE_CAUSES)
#define UVS__RAW_LOW 12 /* raw buckets that are bucket 0: 128, 160, 192, 224, 256, 320 ... 896 */
#define UVS__RAW_BUCKETS (UVS__RAW_LOW + UVS_BUCKETS - 1)
#define UVS__LAST_BUCKET_NS (UINT64_C(1) << 40)

struct uvs__stat {
  _Atomic uint64_t sum_ns;
  _Atomic uint64_t max_ns;
  uint64_t ceiling_ns; /* used by the writer: max_ns, but always below the last bucket */
  _Atomic uint64_t raw[UVS__RAW_BUCKETS];
};

/* All zero at first. The index is UVS_STAT_.... Each lateness is recorded once, under its culprit,
 * so UVS_STAT_LATE has only the runs without a culprit. A reader adds them up. */
struct uvs__cell {
  struct uvs__stat stat[UVS__STATS];
};

_Static_assert(UVS_STAT_LATE == UVS_STAT_CAUSE - 1, "no culprit is -1");

_Static_assert(sizeof(double) == sizeof(uint64_t), "a double's bits are read as a number");

/* The raw bucket of a value below the last bucket. */
static inline size_t uvs__stat_raw(uint64_t ns) {
  double d = (double)(int64_t)(ns | 128); /* exact: below 2^53 */
  uint64_t bits;

  memcpy(&bits, &d, sizeof bits);
  return (size_t)(bits >> 50) - (1023 + 7) * 4; /* 128 ns, 2^7, has raw bucket 0 */
}

/* Counts a value in a raw bucket. release: a reader that finds the value there also finds it in
 * sum_ns and max_ns. uvs__locked_...: a cell may be written under a lock, and nothing that
 * another thread does depends on a count. */
static inline void uvs__stat_count(struct uvs__stat *t, size_t raw) {
  uvs__locked_store(&t->raw[raw], uvs__locked_load(&t->raw[raw], relaxed) + 1, release);
}

/* The rest of uvs__stat_add, for a value above the ceiling. */
__attribute__((cold)) void uvs__stat_add_high(struct uvs__stat *t, uint64_t ns);

static inline void uvs__stat_add(struct uvs__stat *t, uint64_t ns) {
  /* relaxed, both: this thread is the only writer; readers acquire from the bucket */
  uvs__locked_store(&t->sum_ns, uvs__locked_load(&t->sum_ns, relaxed) + ns, relaxed);
  if (ns > t->ceiling_ns)
    uvs__stat_add_high(t, ns);
  else
    uvs__stat_count(t, uvs__stat_raw(ns));
}

/* A run starts: late_ns after it was due, mostly because of the culprit (-1: on time), and queue_ns
 * after it became ready. Only the cell's writer calls this and the next function. */
static inline void uvs__cell_start(struct uvs__cell *c, uint64_t late_ns, int culprit,
                                   uint64_t queue_ns) {
  uvs__stat_add(&c->stat[UVS_STAT_CAUSE + culprit], late_ns);
  uvs__stat_add(&c->stat[UVS_STAT_QUEUE], queue_ns);
}

/* A run has ended; it took run_ns. */
static inline void uvs__cell_end(struct uvs__cell *c, uint64_t run_ns) {
  uvs__stat_add(&c->stat[UVS_STAT_RUN], run_ns);
}

/* Any thread: add what is in *t to *h. */
void uvs__stat_read(const struct uvs__stat *t, uvs_histogram_t *h);

#endif
