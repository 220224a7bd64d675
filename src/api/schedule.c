/* SPDX-License-Identifier: MIT
 *
 * schedule: the short calls for common cases of uvs_submit.
 */
#include "uvsched.h"

static int submit_short(uvs_t *s, int kind, int from, int64_t delay_ns, int64_t period_ns,
                        uvs_work_cb work, void *arg, uvs_id_t *ret_id) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.kind = kind;
  t.from = from;
  t.first_ns = delay_ns;
  t.period_ns = period_ns;
  t.work = work;
  t.arg = arg;
  return uvs_submit(s, &t, ret_id);
}

int uvs_execute(uvs_t *s, uvs_work_cb work, void *arg) {
  return submit_short(s, UVS_ONE_SHOT, UVS_FROM_NOW, 0, 0, work, arg, NULL);
}

int uvs_schedule(uvs_t *s, int64_t delay_ns, uvs_work_cb work, void *arg, uvs_id_t *ret_id) {
  return submit_short(s, UVS_ONE_SHOT, UVS_FROM_NOW, delay_ns, 0, work, arg, ret_id);
}

int uvs_schedule_at_fixed_rate(uvs_t *s, int64_t initial_ns, int64_t period_ns, uvs_work_cb work,
                               void *arg, uvs_id_t *ret_id) {
  return submit_short(s, UVS_FIXED_RATE, UVS_FROM_NOW, initial_ns, period_ns, work, arg, ret_id);
}

int uvs_schedule_with_fixed_delay(uvs_t *s, int64_t initial_ns, int64_t delay_ns, uvs_work_cb work,
                                  void *arg, uvs_id_t *ret_id) {
  return submit_short(s, UVS_FIXED_DELAY, UVS_FROM_NOW, initial_ns, delay_ns, work, arg, ret_id);
}

int uvs_schedule_at(uvs_t *s, int64_t unix_ns, uvs_work_cb work, void *arg, uvs_id_t *ret_id) {
  return submit_short(s, UVS_ONE_SHOT, UVS_FROM_WALL, unix_ns, 0, work, arg, ret_id);
}
