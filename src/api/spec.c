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
  if (t->kind == UVS_ONE_SHOT)
    return t->period_ns == 0 && t->max_runs == 0 && t->until_ns == 0 ? 0 : UV_EINVAL;
  if (t->period_ns <= 0 || t->from == UVS_FROM_WALL || t->until_ns < 0)
    return UV_EINVAL;
  if (t->until_ns != 0 && t->until_ns < t->first_ns)
    return UV_EINVAL; /* not one run */
  if (t->kind == UVS_FIXED_RATE && t->jitter_ns >= t->period_ns)
    return UV_EINVAL;
  return 0;
}

static int check_failure(const uvs_task_t *t) {
  if (t->failure_policy < UVS_FAIL_STOP || t->failure_policy > UVS_FAIL_RETRY)
    return UV_EINVAL;
  if (t->failure_policy == UVS_FAIL_STOP && t->max_failures != 0)
    return UV_EINVAL;
  if (t->failure_policy == UVS_FAIL_CONTINUE && t->kind == UVS_ONE_SHOT)
    return UV_EINVAL;
  if (t->failure_policy != UVS_FAIL_RETRY)
    return t->retry.wait_ns == 0 && t->retry.max_wait_ns == 0 && t->retry.jitter_percent == 0
               ? 0
               : UV_EINVAL;
  if (t->retry.wait_ns <= 0 ||
      (t->retry.max_wait_ns != 0 && t->retry.max_wait_ns < t->retry.wait_ns))
    return UV_EINVAL;
  return t->retry.jitter_percent < 0 || t->retry.jitter_percent > 100 ? UV_EINVAL : 0;
}

static int check_limit(const uvs_task_t *t) {
  if (t->limit.total_ns < 0 || (t->limit.substitute & ~1) != 0 ||
      (t->limit.total_ns > 0 && t->work == NULL))
    return UV_EINVAL;
  if (t->limit.substitute == 0)
    return t->limit.status == 0 && t->limit.result == NULL ? 0 : UV_EINVAL;
  if (t->limit.total_ns == 0 || t->limit.status > 0 ||
      uvs__status_of(t->limit.status) != t->limit.status)
    return UV_EINVAL;
  return t->limit.result == NULL || (t->keep_outcome != 0 && t->limit.status == 0) ? 0 : UV_EINVAL;
}

int uvs__check_spec(const uvs_task_t *t) {
  if (t->work == NULL && t->after == NULL)
    return UV_EINVAL;
  if (t->kind < UVS_ONE_SHOT || t->kind > UVS_FIXED_DELAY || t->from < UVS_FROM_NOW ||
      t->from > UVS_FROM_WALL)
    return UV_EINVAL;
  if (t->missed_policy < UVS_MISSED_CATCH_UP || t->missed_policy > UVS_MISSED_SKIP ||
      (t->flags & ~(unsigned)UVS_UNREF) != 0)
    return UV_EINVAL;
  if (t->kind != UVS_FIXED_RATE && (t->missed_policy != UVS_MISSED_CATCH_UP || t->max_burst != 0))
    return UV_EINVAL;
  if (t->missed_policy != UVS_MISSED_CATCH_UP && t->max_burst != 0)
    return UV_EINVAL;
  if (t->jitter_ns < 0 || (t->name != NULL && strnlen(t->name, UVS_NAME_MAX + 1) > UVS_NAME_MAX))
    return UV_EINVAL;
  if (t->priority < UVS_PRIORITY_LOW || t->priority > UVS_PRIORITY_HIGH)
    return UV_EINVAL;
  if ((t->keep_outcome & ~1) != 0 ||
      ((t->result != NULL || t->drop_result != NULL) && t->keep_outcome == 0))
    return UV_EINVAL;
  if (check_failure(t) < 0 || check_limit(t) < 0)
    return UV_EINVAL;
  return check_periodic(t);
}
