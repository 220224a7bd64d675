/* SPDX-License-Identifier: MIT */
#include "util/stats.h"

#define FIRST_NS 1024
#define FIRST_SHIFT 8 /* bucket 1 goes from 4 << 8 to 5 << 8 */

_Static_assert(UVS_BUCKETS == 1 + 4 * 30 + 1, "four to each power of two from 2^10 to 2^40 ns");

void uvs__stat_add_high(struct uvs__stat *t, uint64_t ns) {
  bool last = ns >= UVS__LAST_BUCKET_NS;

  /* relaxed, both: this thread is the only writer; readers acquire from the bucket */
  if (ns > uvs__locked_load(&t->max_ns, relaxed))
    uvs__locked_store(&t->max_ns, ns, relaxed);
  t->ceiling_ns = last ? UVS__LAST_BUCKET_NS - 1 : ns;
  uvs__stat_count(t, last ? UVS__RAW_BUCKETS - 1 : uvs__stat_raw(ns));
}

void uvs__stat_read(const struct uvs__stat *t, uvs_histogram_t *h) {
  uint64_t max_ns;

  for (size_t i = 0; i < UVS__RAW_BUCKETS; i++) {
    uint64_t n = uvs__locked_load(&t->raw[i], acquire); /* pairs with uvs__stat_count */

    h->bucket[i < UVS__RAW_LOW ? 0 : i - UVS__RAW_LOW + 1] += n;
    h->count += n;
  }
  /* relaxed, both: the buckets were acquired, so these values are no older */
  h->sum_ns += uvs__locked_load(&t->sum_ns, relaxed);
  max_ns = uvs__locked_load(&t->max_ns, relaxed);
  if (max_ns > h->max_ns)
    h->max_ns = max_ns;
}

int64_t uvs_bucket_ns(unsigned bucket) {
  unsigned quarter = (bucket - 1) % 4;

  if (bucket == 0)
    return FIRST_NS;
  if (bucket >= UVS_BUCKETS - 1)
    return UVS_NEVER;
  return (int64_t)(5 + quarter) << (FIRST_SHIFT + (bucket - 1) / 4);
}

int64_t uvs_quantile_ns(const uvs_histogram_t *h, double q) {
  uint64_t below = 0;
  unsigned bucket = 0;
  int64_t most_ns;
  double rank;

  if (h == NULL || h->count == 0)
    return 0;
  most_ns = h->max_ns < (uint64_t)UVS_NEVER ? (int64_t)h->max_ns : UVS_NEVER;
  rank = (q > 0 ? q < 1 ? q : 1 : 0) * (double)h->count; /* NaN counts as 0 */
  while (bucket < UVS_BUCKETS) {
    below += h->bucket[bucket];
    if (below > 0 && (double)below >= rank)
      break;
    bucket++;
  }
  return uvs_bucket_ns(bucket) < most_ns ? uvs_bucket_ns(bucket) : most_ns;
}

const char *uvs_late_name(int cause) {
  static const char *const names[] = {"on time", "timer", "loop",   "budget", "runners",
                                      "overlap", "clock", "submit", "paused", "retry"};

  _Static_assert(sizeof names / sizeof names[0] == UVS_LATE_RETRY + 2, "a name for each");
  return cause >= -1 && cause <= UVS_LATE_RETRY ? names[cause + 1] : "?";
}
