/* SPDX-License-Identifier: MIT
 *
 * clock: the two clocks of an open store, random numbers, and the hash of an id.
 */
#include "jobs/engine.h"

#include <time.h>

int64_t uvs__mono_ns(const uvs_jobs_t *jobs) {
  const uvs_clock_t *c = &jobs->options.clock;

  return c->monotonic_ns != NULL ? c->monotonic_ns(c->arg) : (int64_t)uv_hrtime();
}

int64_t uvs__wall_ns(const uvs_jobs_t *jobs) {
  const uvs_clock_t *c = &jobs->options.clock;
  struct timespec t;

  if (c->wall_ns != NULL)
    return c->wall_ns(c->arg);
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t uvs__later_ns(int64_t now_ns, int64_t ns) {
  return ns >= UVS_NEVER - now_ns ? UVS_NEVER : now_ns + ns;
}

uint64_t uvs__random(uvs_jobs_t *jobs) {
  uint64_t x;

  uv_mutex_lock(&jobs->lock);
  x = jobs->random; /* xorshift64; never zero */
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  jobs->random = x;
  uv_mutex_unlock(&jobs->lock);
  return x;
}

unsigned uvs__bucket_of_id(const char *queue, const char *rest) {
  uint32_t hash = 2166136261u; /* FNV-1a */

  for (; *queue != '\0'; queue++)
    hash = (hash ^ (uint8_t)*queue) * 16777619u;
  for (; *rest != '\0'; rest++)
    hash = (hash ^ (uint8_t)*rest) * 16777619u;
  return hash % UVS__BUCKETS_OF_IDS;
}
