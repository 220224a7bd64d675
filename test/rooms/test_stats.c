/* SPDX-License-Identifier: MIT
 *
 * Statistics: what a cell counts, the bounds of the buckets, reading while other threads write, and
 * quantiles.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/stats.h"

#include "lib/unit.h"

#define LAST (UVS_BUCKETS - 1)

static uvs_histogram_t read_cell(const struct uvs__cell *c, int which) {
  uvs_histogram_t h;

  uvs_histogram_init(&h);
  uvs__stat_read(&c->stat[which], &h);
  return h;
}

static uint64_t lower_ns(unsigned bucket) {
  return bucket == 0 ? 0 : (uint64_t)uvs_bucket_ns(bucket - 1);
}

/* The slow way: by comparing with the bounds. */
static unsigned bucket_of(uint64_t ns) {
  unsigned bucket = 0;

  while (bucket < LAST && ns >= (uint64_t)uvs_bucket_ns(bucket))
    bucket++;
  return bucket;
}

static uint64_t sum_of_buckets(const uvs_histogram_t *h) {
  uint64_t n = 0;

  for (unsigned i = 0; i < UVS_BUCKETS; i++)
    n += h->bucket[i];
  return n;
}

/* Values of every number of bits, so that every bucket gets some. */
static uint64_t any_ns(uint64_t *seed) {
  return test_random(seed) >> test_random_below(seed, 64);
}

/* -------------------------------------------------------------------- buckets --- */

TEST four_buckets_end_in_each_power_of_two(void) {
  ASSERT_U64(1024, uvs_bucket_ns(0));
  ASSERT_U64(1280, uvs_bucket_ns(1));
  ASSERT_U64(1536, uvs_bucket_ns(2));
  ASSERT_U64(1792, uvs_bucket_ns(3));
  for (unsigned k = 0; k <= 30; k++)
    ASSERT_U64(UINT64_C(1) << (10 + k), uvs_bucket_ns(4 * k));
  for (unsigned i = 5; i < LAST; i++)
    ASSERT_U64(2 * uvs_bucket_ns(i - 4), uvs_bucket_ns(i));
  ASSERT_U64(UVS_NEVER, uvs_bucket_ns(LAST));
  ASSERT_U64(UVS_NEVER, uvs_bucket_ns(UVS_BUCKETS));
  ASSERT_U64(UVS_NEVER, uvs_bucket_ns(UINT_MAX));
  PASS();
}

/* The first value of its size sets a new maximum, which takes another path than the second. */
static enum greatest_test_res is_counted_right(uint64_t ns) {
  static struct uvs__cell c;
  uvs_histogram_t h;

  memset(&c, 0, sizeof c);
  for (unsigned n = 1; n <= 2; n++) {
    uvs__stat_add(&c.stat[UVS_STAT_RUN], ns);
    h = read_cell(&c, UVS_STAT_RUN);
    ASSERT_U64(n, h.bucket[bucket_of(ns)]);
    ASSERT_U64(n, sum_of_buckets(&h));
    ASSERT_U64(n, h.count);
    ASSERT_U64(n * ns, h.sum_ns);
    ASSERT_U64(ns, h.max_ns);
  }
  PASS();
}

TEST a_value_is_in_the_bucket_whose_bounds_it_lies_between(void) {
  uint64_t seed = test_seed;

  for (uint64_t ns = 0; ns < 4096; ns++)
    CHECK_CALL(is_counted_right(ns));
  for (unsigned i = 0; i < LAST; i++) {
    uint64_t bound_ns = (uint64_t)uvs_bucket_ns(i);

    ASSERT_U64(i, bucket_of(bound_ns - 1));
    ASSERT_U64(i + 1, bucket_of(bound_ns));
    CHECK_CALL(is_counted_right(bound_ns - 1));
    CHECK_CALL(is_counted_right(bound_ns));
    CHECK_CALL(is_counted_right(bound_ns + 1));
  }
  CHECK_CALL(is_counted_right(UVS__NEVER));
  CHECK_CALL(is_counted_right(UINT64_MAX));
  for (int i = 0; i < 10000; i++)
    CHECK_CALL(is_counted_right(any_ns(&seed)));
  PASS();
}

TEST the_last_bucket_does_not_count_smaller_values(void) {
  static const uint64_t ns[] = {
      UINT64_C(1) << 50, UINT64_C(1) << 39, (UINT64_C(1) << 40) - 1, (UINT64_C(1) << 41) + 7, 5000,
      UINT64_C(1) << 40};
  static struct uvs__cell c;
  uint64_t sum_ns = 0;
  uvs_histogram_t h;

  memset(&c, 0, sizeof c);
  for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++) {
    uvs__cell_end(&c, ns[i]);
    sum_ns += ns[i];
  }
  h = read_cell(&c, UVS_STAT_RUN);
  ASSERT_U64(3, h.bucket[LAST]);
  ASSERT_U64(1, h.bucket[LAST - 1]);
  ASSERT_U64(1, h.bucket[bucket_of(UINT64_C(1) << 39)]);
  ASSERT_U64(1, h.bucket[bucket_of(5000)]);
  ASSERT_U64(6, h.count);
  ASSERT_U64(sum_ns, h.sum_ns);
  ASSERT_U64(UINT64_C(1) << 50, h.max_ns);
  PASS();
}

/* ---------------------------------------------------------------------- cells --- */

TEST a_start_and_an_end_are_counted_in_their_histograms(void) {
  static struct uvs__cell c;

  memset(&c, 0, sizeof c);
  uvs__cell_start(&c, 0, -1, 300);
  uvs__cell_start(&c, 0, -1, 0);
  uvs__cell_end(&c, 70000);
  ASSERT_U64(2, read_cell(&c, UVS_STAT_LATE).count);
  ASSERT_U64(0, read_cell(&c, UVS_STAT_LATE).sum_ns);
  ASSERT_U64(2, read_cell(&c, UVS_STAT_QUEUE).count);
  ASSERT_U64(300, read_cell(&c, UVS_STAT_QUEUE).sum_ns);
  ASSERT_U64(1, read_cell(&c, UVS_STAT_RUN).count);
  ASSERT_U64(70000, read_cell(&c, UVS_STAT_RUN).sum_ns);
  for (int cause = 0; cause < UVS_LATE_CAUSES; cause++)
    ASSERT_U64(0, read_cell(&c, UVS_STAT_CAUSE + cause).count);
  PASS();
}

TEST a_lateness_is_counted_once_with_its_culprit(void) {
  static struct uvs__cell c;

  for (int culprit = 0; culprit < UVS_LATE_CAUSES; culprit++) {
    memset(&c, 0, sizeof c);
    uvs__cell_start(&c, 3000, culprit, 1);
    for (int cause = -1; cause < UVS_LATE_CAUSES; cause++) {
      uvs_histogram_t h = read_cell(&c, UVS_STAT_CAUSE + cause);

      ASSERT_U64(cause == culprit, h.count);
      ASSERT_U64(cause == culprit, h.bucket[bucket_of(3000)]);
      ASSERT_U64(cause == culprit ? 3000 : 0, h.sum_ns);
      ASSERT_U64(cause == culprit ? 3000 : 0, h.max_ns);
    }
    ASSERT_U64(1, read_cell(&c, UVS_STAT_QUEUE).count);
  }
  PASS();
}

TEST causes_of_lateness_have_names(void) {
  static const char *const names[] = {"timer", "loop",   "budget", "runners", "overlap",
                                      "clock", "submit", "paused", "retry"};

  for (int cause = 0; cause <= UVS_LATE_RETRY; cause++)
    ASSERT_STR_EQ(names[cause], uvs_late_name(cause));
  ASSERT_STR_EQ("on time", uvs_late_name(-1));
  ASSERT_STR_EQ("?", uvs_late_name(-2));
  ASSERT_STR_EQ("?", uvs_late_name(UVS_LATE_RETRY + 1));
  ASSERT_STR_EQ("?", uvs_late_name(INT_MAX));
  ASSERT_STR_EQ("?", uvs_late_name(INT_MIN));
  PASS();
}

/* ------------------------------------------------------------- several threads --- */

#define WRITERS 4
#define VALUES 40000

static struct writer {
  struct uvs__cell cell;
  uvs_histogram_t expected[UVS__STATS]; /* the writer's own account */
  uint64_t seed;
} writers[WRITERS];
static _Atomic int writing;

static void expect(struct writer *w, int which, uint64_t ns) {
  uvs_histogram_t *h = &w->expected[which];

  h->count++;
  h->sum_ns += ns;
  h->bucket[bucket_of(ns)]++;
  if (ns > h->max_ns)
    h->max_ns = ns;
}

static void write_values(void *arg) {
  struct writer *w = arg;

  for (int i = 0; i < VALUES; i++) {
    int culprit = (int)(any_ns(&w->seed) % (UVS_LATE_CAUSES + 1)) - 1;
    uint64_t ns[3];

    for (int k = 0; k < 3; k++)
      ns[k] = any_ns(&w->seed) >> 20;
    uvs__cell_start(&w->cell, ns[0], culprit, ns[1]);
    uvs__cell_end(&w->cell, ns[2]);
    expect(w, UVS_STAT_CAUSE + culprit, ns[0]);
    expect(w, UVS_STAT_QUEUE, ns[1]);
    expect(w, UVS_STAT_RUN, ns[2]);
  }
  atomic_fetch_sub(&writing, 1);
}

static uvs_histogram_t read_all(int which) {
  uvs_histogram_t h;

  uvs_histogram_init(&h);
  for (int i = 0; i < WRITERS; i++)
    uvs__stat_read(&writers[i].cell.stat[which], &h);
  return h;
}

/* Is this reading possible after the previous one? */
static enum greatest_test_res is_sane(const uvs_histogram_t *h, const uvs_histogram_t *before) {
  uint64_t least_ns = 0;
  unsigned highest = 0;

  ASSERT_U64(sum_of_buckets(h), h->count);
  for (unsigned i = 0; i < UVS_BUCKETS; i++) {
    ASSERT(h->bucket[i] >= before->bucket[i]);
    least_ns += h->bucket[i] * lower_ns(i);
    if (h->bucket[i] > 0)
      highest = i;
  }
  ASSERTm("counted, but not yet in the sum", h->sum_ns >= least_ns);
  ASSERTm("counted, but above the maximum", h->max_ns >= lower_ns(highest));
  ASSERT(h->sum_ns >= before->sum_ns);
  ASSERT(h->max_ns >= before->max_ns);
  ASSERT(uvs_quantile_ns(h, 1) <= (int64_t)h->max_ns);
  PASS();
}

TEST readers_see_consistent_statistics_while_four_threads_write(void) {
  static uvs_histogram_t before[UVS__STATS];
  uv_thread_t threads[WRITERS];
  unsigned looks = 0;

  memset(before, 0, sizeof before);
  memset(writers, 0, sizeof writers);
  atomic_store(&writing, WRITERS);
  for (int i = 0; i < WRITERS; i++) {
    writers[i].seed = test_seed + (uint64_t)i;
    ASSERT_RC(0, uv_thread_create(&threads[i], write_values, &writers[i]));
  }
  while (atomic_load(&writing) > 0) {
    for (int which = 0; which < UVS__STATS; which++) {
      uvs_histogram_t h = read_all(which);

      if (h.count == 0)
        continue;
      CHECK_CALL(is_sane(&h, &before[which]));
      before[which] = h;
    }
    looks++;
  }
  for (int i = 0; i < WRITERS; i++)
    uv_thread_join(&threads[i]);
  for (int which = 0; which < UVS__STATS; which++) {
    uvs_histogram_t expected = {.size = sizeof expected};
    uvs_histogram_t h = read_all(which);

    for (int i = 0; i < WRITERS; i++) {
      const uvs_histogram_t *own = &writers[i].expected[which];

      expected.count += own->count;
      expected.sum_ns += own->sum_ns;
      if (own->max_ns > expected.max_ns)
        expected.max_ns = own->max_ns;
      for (unsigned k = 0; k < UVS_BUCKETS; k++)
        expected.bucket[k] += own->bucket[k];
    }
    ASSERT_U64(expected.count, h.count);
    ASSERT_MEM_EQ(&expected, &h, sizeof h);
  }
  ASSERT(looks > 0);
  PASS();
}

/* A reader reads this bucket last but one, and the sum right after: if the writer wrote them in the
 * wrong order, the test would see it. */
#define HIGH_NS (UINT64_C(7) << 37)
#define MANY 1000000

static void write_high_values(void *arg) {
  for (int i = 0; i < MANY; i++)
    uvs__cell_end(arg, HIGH_NS);
  atomic_fetch_sub(&writing, 1);
}

TEST every_counted_value_is_already_in_the_sum(void) {
  static struct uvs__cell c;
  uv_thread_t thread;

  ASSERT_U64(HIGH_NS, lower_ns(LAST - 1));
  memset(&c, 0, sizeof c);
  atomic_store(&writing, 1);
  ASSERT_RC(0, uv_thread_create(&thread, write_high_values, &c));
  while (atomic_load(&writing) > 0) {
    uvs_histogram_t h = read_cell(&c, UVS_STAT_RUN);

    ASSERT(h.sum_ns >= h.count * HIGH_NS);
    ASSERT_U64(h.count == 0 ? h.max_ns : HIGH_NS, h.max_ns);
  }
  uv_thread_join(&thread);
  ASSERT_U64(MANY, read_cell(&c, UVS_STAT_RUN).count);
  ASSERT_U64(MANY * HIGH_NS, read_cell(&c, UVS_STAT_RUN).sum_ns);
  PASS();
}

/* ------------------------------------------------------------------ quantiles --- */

TEST a_quantile_is_the_end_of_its_bucket(void) {
  static struct uvs__cell c;
  uvs_histogram_t h;

  memset(&c, 0, sizeof c);
  for (int i = 0; i < 90; i++)
    uvs__cell_end(&c, 2000); /* 1792 .. 2048 */
  for (int i = 0; i < 9; i++)
    uvs__cell_end(&c, 1000000); /* 917504 .. 1048576 */
  uvs__cell_end(&c, 5000000);
  h = read_cell(&c, UVS_STAT_RUN);
  ASSERT_U64(2048, uvs_quantile_ns(&h, 0));
  ASSERT_U64(2048, uvs_quantile_ns(&h, 0.5));
  ASSERT_U64(2048, uvs_quantile_ns(&h, 0.9));
  ASSERT_U64(1048576, uvs_quantile_ns(&h, 0.901));
  ASSERT_U64(1048576, uvs_quantile_ns(&h, 0.99));
  ASSERT_U64(5000000, uvs_quantile_ns(&h, 0.991)); /* not the end of its bucket, 5242880 */
  ASSERT_U64(5000000, uvs_quantile_ns(&h, 1));
  PASS();
}

TEST a_quantile_out_of_range_is_the_nearest(void) {
  static const uint64_t ns[] = {2000, UINT64_MAX};
  static struct uvs__cell c;
  uvs_histogram_t h;

  memset(&c, 0, sizeof c);
  ASSERT_U64(0, uvs_quantile_ns(NULL, 0.5));
  h = read_cell(&c, UVS_STAT_RUN);
  ASSERT_U64(0, uvs_quantile_ns(&h, 0.5));
  for (int i = 0; i < 2; i++)
    uvs__cell_end(&c, ns[i]);
  h = read_cell(&c, UVS_STAT_RUN);
  ASSERT_U64(2048, uvs_quantile_ns(&h, -1));
  ASSERT_U64(2048, uvs_quantile_ns(&h, -INFINITY));
  ASSERT_U64(2048, uvs_quantile_ns(&h, NAN));
  ASSERT_U64(UVS_NEVER, uvs_quantile_ns(&h, 1.1));
  ASSERT_U64(UVS_NEVER, uvs_quantile_ns(&h, INFINITY));
  h.count = 3; /* a caller's own that does not add up: no more than max_ns, and no end of time */
  h.max_ns = 7777;
  ASSERT_U64(7777, uvs_quantile_ns(&h, 1));
  PASS();
}

static int ascending(const void *x, const void *y) {
  uint64_t a = *(const uint64_t *)x;
  uint64_t b = *(const uint64_t *)y;

  return a < b ? -1 : a > b;
}

TEST quantiles_are_at_most_a_quarter_too_large(void) {
  static uint64_t ns[1000];
  static struct uvs__cell c;
  uint64_t seed = test_seed;
  uvs_histogram_t h;

  memset(&c, 0, sizeof c);
  for (size_t i = 0; i < 1000; i++) {
    ns[i] = any_ns(&seed) >> 24;
    uvs__cell_end(&c, ns[i]);
  }
  qsort(ns, 1000, sizeof ns[0], ascending);
  h = read_cell(&c, UVS_STAT_RUN);
  for (size_t i = 0; i < 1000; i++) {
    uint64_t got = (uint64_t)uvs_quantile_ns(&h, ((double)i + 0.5) / 1000);

    ASSERT(got >= ns[i]);
    ASSERT(got <= (ns[i] < 1024 ? 1024 : ns[i] + ns[i] / 4 + 1));
    ASSERT(got <= h.max_ns);
  }
  PASS();
}

SUITE(buckets) {
  RUN_TEST(four_buckets_end_in_each_power_of_two);
  RUN_TEST(a_value_is_in_the_bucket_whose_bounds_it_lies_between);
  RUN_TEST(the_last_bucket_does_not_count_smaller_values);
}

SUITE(cells) {
  RUN_TEST(a_start_and_an_end_are_counted_in_their_histograms);
  RUN_TEST(a_lateness_is_counted_once_with_its_culprit);
  RUN_TEST(causes_of_lateness_have_names);
  RUN_TEST(readers_see_consistent_statistics_while_four_threads_write);
  RUN_TEST(every_counted_value_is_already_in_the_sum);
}

SUITE(quantiles) {
  RUN_TEST(a_quantile_is_the_end_of_its_bucket);
  RUN_TEST(a_quantile_out_of_range_is_the_nearest);
  RUN_TEST(quantiles_are_at_most_a_quarter_too_large);
}

TEST_MAIN(RUN_SUITE(buckets); RUN_SUITE(cells); RUN_SUITE(quantiles));
