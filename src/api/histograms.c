/* SPDX-License-Identifier: MIT
 *
 * histograms: reads the histograms of a scheduler, and those of its tasks by name.
 *
 * No lock is held while a histogram is read: each is written by one thread at a time, and any
 * thread may read it (util/stats.h).
 */
#include "api/api.h"
#include "pool/runner.h"

#include <string.h>

/* Runners stay as long as the scheduler, and new ones are added in front. So the list can be
 * followed without the lock. */
const struct uvs__runner *uvs__all_runners(uvs_t *s) {
  const struct uvs__runner *first;

  uvs__lock(s);
  first = s->runners.all;
  uvs__unlock(s);
  return first;
}

void uvs__read_stats(const uvs_t *s, const struct uvs__runner *runners, int from, int to,
                     uvs_histogram_t *ret) {
  uvs_histogram_init(ret);
  for (int stat = from; stat <= to; stat++) {
    uvs__stat_read(&s->loop_cell.stat[stat], ret);
    uvs__stat_read(&s->shared_cell.stat[stat], ret);
    for (const struct uvs__runner *r = runners; r != NULL; r = r->all)
      uvs__stat_read(&r->cell.stat[stat], ret);
  }
}

int uvs_histogram(uvs_t *s, int which, uvs_histogram_t *ret) {
  uvs_histogram_t h;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (which < 0 || which >= UVS__STATS || ret == NULL ||
      uvs__check_size(ret, ret->size, sizeof h, sizeof h) < 0)
    return UV_EINVAL;
  uvs__read_stats(s, uvs__all_runners(s), which, which == UVS_STAT_LATE ? UVS__STATS - 1 : which,
                  &h);
  h.size = ret->size; /* a larger struct is zero beyond ours: uvs__check_size */
  memcpy(ret, &h, sizeof h);
  return 0;
}

/* ---- by name ---- */

static void read_name_stats(const struct uvs__name_stat *from, uvs_name_stats_t *ret) {
  uvs_name_stats_init(ret);
  memcpy(ret->name, from->name, sizeof ret->name);
  uvs_histogram_init(&ret->late);
  uvs_histogram_init(&ret->run);
  uvs__stat_read(&from->late, &ret->late);
  uvs__stat_read(&from->run, &ret->run);
}

int uvs_name_stats(uvs_t *s, const char *name, uvs_name_stats_t *ret) {
  const struct uvs__name_stat *found;
  uvs_name_stats_t n;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (name == NULL || ret == NULL || uvs__check_size(ret, ret->size, sizeof n, sizeof n) < 0)
    return UV_EINVAL;
  uvs__lock(s);
  found = uvs__name_stat_find(s, name);
  uvs__unlock(s);
  if (found == NULL)
    return UV_ENOENT;
  read_name_stats(found, &n);
  n.size = ret->size;
  memcpy(ret, &n, sizeof n);
  return 0;
}

struct uvs__name_list uvs__all_names(uvs_t *s) {
  struct uvs__name_list l = {s->name_stats.of, 0, 0};

  uvs__lock(s);
  l.from = s->name_stats.of[UVS__OTHER] != NULL ? UVS__OTHER : UVS__OTHER + 1;
  l.to = s->name_stats.made;
  uvs__unlock(s);
  return l;
}

int uvs_each_name(uvs_t *s, uvs_each_name_cb each, void *arg) {
  struct uvs__name_list l;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (each == NULL)
    return UV_EINVAL;
  l = uvs__all_names(s);
  uvs_retain(s); /* `each` may close the scheduler */
  for (int i = l.from; i < l.to && rc == 0; i++) {
    uvs_name_stats_t n;

    read_name_stats(l.of[i], &n);
    rc = each(s, &n, arg);
  }
  uvs_release(s);
  return rc;
}
