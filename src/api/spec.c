/* SPDX-License-Identifier: MIT
 *
 * spec: reads and checks a caller's spec.
 */
#include "api/api.h"

#include <string.h>

#define TASK_SIZE_MIN offsetof(uvs_task_t, flags) /* up to the callbacks and their arg */

int uvs__read_spec(const void *given, size_t size, uvs_task_t *ret) {
  int rc = uvs__check_size(given, size, sizeof *ret, TASK_SIZE_MIN);

  if (rc < 0)
    return rc;
  uvs_task_init(ret);
  memcpy(ret, given, size < sizeof *ret ? size : sizeof *ret);
  return ret->size == size ? 0 : UV_EINVAL;
}

static int check_periodic(const uvs_task_t *t) {
  if (t->kind == UVS_ONCE)
    return t->period_ns == 0 && t->max_runs == 0 && t->until_ns == 0 ? 0 : UV_EINVAL;
  if (t->period_ns <= 0 || t->from == UVS_FROM_WALL || t->until_ns < 0)
    return UV_EINVAL;
  if (t->until_ns != 0 && t->until_ns < t->delay_ns)
    return UV_EINVAL; /* not one run */
  if (t->kind == UVS_RATE && t->jitter_ns >= t->period_ns)
    return UV_EINVAL;
  return 0;
}

static int check_failure(const uvs_task_t *t) {
  if (t->failure < UVS_FAIL_STOP || t->failure > UVS_FAIL_RETRY)
    return UV_EINVAL;
  if (t->failure == UVS_FAIL_STOP && t->max_failures != 0)
    return UV_EINVAL;
  if (t->failure == UVS_FAIL_GO_ON && t->kind == UVS_ONCE)
    return UV_EINVAL;
  if (t->failure != UVS_FAIL_RETRY)
    return t->retry_ns == 0 && t->retry_max_ns == 0 && t->retry_jitter == 0 ? 0 : UV_EINVAL;
  if (t->retry_ns <= 0 || (t->retry_max_ns != 0 && t->retry_max_ns < t->retry_ns))
    return UV_EINVAL;
  return t->retry_jitter < 0 || t->retry_jitter > 100 ? UV_EINVAL : 0;
}

static int check_limit(const uvs_task_t *t) {
  if (t->limit_ns < 0 || (t->substitute & ~1) != 0 || (t->limit_ns > 0 && t->work == NULL))
    return UV_EINVAL;
  if (t->substitute == 0)
    return t->limit_status == 0 && t->limit_result == NULL ? 0 : UV_EINVAL;
  if (t->limit_ns == 0 || t->limit_status > 0 || uvs__status_of(t->limit_status) != t->limit_status)
    return UV_EINVAL;
  return t->limit_result == NULL || (t->keep != 0 && t->limit_status == 0) ? 0 : UV_EINVAL;
}

int uvs__check_spec(const uvs_task_t *t) {
  if (t->work == NULL && t->after == NULL)
    return UV_EINVAL;
  if (t->kind < UVS_ONCE || t->kind > UVS_DELAY || t->from < UVS_FROM_NOW ||
      t->from > UVS_FROM_WALL)
    return UV_EINVAL;
  if (t->missed < UVS_MISSED_CATCH_UP || t->missed > UVS_MISSED_SKIP ||
      (t->flags & ~(unsigned)UVS_UNREF) != 0)
    return UV_EINVAL;
  if (t->kind != UVS_RATE && (t->missed != UVS_MISSED_CATCH_UP || t->max_burst != 0))
    return UV_EINVAL;
  if (t->missed != UVS_MISSED_CATCH_UP && t->max_burst != 0)
    return UV_EINVAL;
  if (t->jitter_ns < 0 || (t->name != NULL && strnlen(t->name, UVS_NAME_MAX + 1) > UVS_NAME_MAX))
    return UV_EINVAL;
  if (t->priority < UVS_PRIORITY_LOW || t->priority > UVS_PRIORITY_HIGH)
    return UV_EINVAL;
  if ((t->keep & ~1) != 0 || ((t->result != NULL || t->drop_result != NULL) && t->keep == 0))
    return UV_EINVAL;
  if (check_failure(t) < 0 || check_limit(t) < 0)
    return UV_EINVAL;
  return check_periodic(t);
}
