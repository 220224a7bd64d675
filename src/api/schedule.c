/* SPDX-License-Identifier: MIT
 *
 * schedule: the short calls for common cases of uvs_submit.
 */
#include "uvsched/calendar.h"

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

int uvs_schedule_cron(uvs_t *s, const char *expression, const char *zone, uvs_work_cb work,
                      void *arg, uvs_id_t *ret_id) {
  uvs_calendar_t *calendar;
  uvs_task_t t;
  int rc = uvs_calendar_parse(expression, zone, NULL, &calendar, NULL);

  if (rc < 0)
    return rc;
  uvs_task_init(&t);
  t.missed_policy = UVS_MISSED_ONCE;
  t.work = work;
  t.arg = arg;
  if (uvs_calendar_interval(calendar) > 0) { /* @every is an interval */
    t.kind = UVS_FIXED_RATE;
    t.first_ns = t.period_ns = uvs_calendar_interval(calendar);
  } else {
    t.kind = UVS_CALENDAR;
    t.calendar = calendar;
  }
  rc = uvs_submit(s, &t, ret_id);
  uvs_calendar_release(calendar);
  return rc;
}

int uvs_schedule_at(uvs_t *s, int64_t unix_ns, uvs_work_cb work, void *arg, uvs_id_t *ret_id) {
  return submit_short(s, UVS_ONE_SHOT, UVS_FROM_WALL, unix_ns, 0, work, arg, ret_id);
}
