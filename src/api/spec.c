/* SPDX-License-Identifier: MIT
 *
 * spec: reads and checks a caller's spec, and says what is wrong with it.
 */
#include "api/api.h"

#include "uvsched/calendar.h"

#include <stdio.h>
#include <string.h>

#define TASK_SIZE_MIN offsetof(uvs_task_t, flags) /* up to the callbacks and their arg */

int uvs__read_spec(const void *given, size_t size, uvs_task_t *ret) {
  uvs_task_init(ret);
  if (uvs__read_sized(ret, sizeof *ret, given, size, TASK_SIZE_MIN) < 0)
    return UV_EINVAL;
  return ret->size == size ? 0 : UV_EINVAL;
}

/* Each function returns what is wrong, or NULL. */

static const char *kind_error(const uvs_task_t *t) {
  if (t->work == NULL && t->after == NULL)
    return "work and after are both NULL: a task needs one of them";
  if (t->kind < UVS_ONE_SHOT || t->kind > UVS_CALENDAR)
    return "kind is not UVS_ONE_SHOT, UVS_FIXED_RATE, UVS_FIXED_DELAY or UVS_CALENDAR";
  if (t->from < UVS_FROM_NOW || t->from > UVS_FROM_WALL)
    return "from is not UVS_FROM_NOW, UVS_FROM_MONOTONIC or UVS_FROM_WALL";
  if ((t->flags & ~(unsigned)(UVS_UNREF | UVS_REPLACE)) != 0)
    return "flags has an unknown bit: only UVS_UNREF and UVS_REPLACE are known";
  if ((t->flags & UVS_REPLACE) != 0 && (t->name == NULL || t->name[0] == '\0'))
    return "UVS_REPLACE needs a name";
  if (t->interrupt != NULL && t->work == NULL)
    return "interrupt is only for tasks with work";
  if (t->priority < UVS_PRIORITY_LOW || t->priority > UVS_PRIORITY_HIGH)
    return "priority is not UVS_PRIORITY_LOW, UVS_PRIORITY_NORMAL or UVS_PRIORITY_HIGH";
  if (t->jitter_ns < 0)
    return "jitter_ns is negative";
  if (t->name != NULL && strnlen(t->name, UVS_NAME_MAX + 1) > UVS_NAME_MAX)
    return "name is longer than UVS_NAME_MAX (23) bytes";
  return NULL;
}

static const char *period_error(const uvs_task_t *t) {
  if (t->kind == UVS_ONE_SHOT) {
    if (t->period_ns != 0)
      return "period_ns is only for UVS_FIXED_RATE and UVS_FIXED_DELAY";
    if (t->max_runs != 0)
      return "max_runs is only for periodic tasks";
    return t->until_ns != 0 ? "until_ns is only for periodic tasks" : NULL;
  }
  if (t->kind == UVS_CALENDAR) {
    if (t->period_ns != 0)
      return "period_ns is only for UVS_FIXED_RATE and UVS_FIXED_DELAY";
    if (t->from == UVS_FROM_MONOTONIC)
      return "UVS_FROM_MONOTONIC is not for UVS_CALENDAR, which follows the wall clock";
  } else if (t->period_ns <= 0) {
    return "period_ns is not positive: a periodic task needs one";
  } else if (t->from == UVS_FROM_WALL) {
    return "UVS_FROM_WALL is only for UVS_ONE_SHOT and UVS_CALENDAR";
  }
  if (t->until_ns < 0)
    return "until_ns is negative";
  if (t->until_ns != 0 && t->until_ns < t->first_ns)
    return "until_ns is before first_ns: the task would never run";
  if (t->kind == UVS_FIXED_RATE && t->jitter_ns >= t->period_ns)
    return "jitter_ns is not below period_ns: UVS_FIXED_RATE needs that";
  return NULL;
}

static const char *calendar_error(const uvs_task_t *t) {
  if (t->kind != UVS_CALENDAR)
    return t->calendar != NULL ? "calendar is only for UVS_CALENDAR" : NULL;
  if (t->calendar == NULL)
    return "calendar is NULL: UVS_CALENDAR needs one";
  if (uvs_calendar_interval(t->calendar) != 0)
    return "calendar is an @every: use UVS_FIXED_RATE, and uvs_calendar_interval as period_ns";
  return NULL;
}

static const char *missed_error(const uvs_task_t *t) {
  bool grid = t->kind == UVS_FIXED_RATE || t->kind == UVS_CALENDAR;

  if (t->missed_policy < UVS_MISSED_CATCH_UP || t->missed_policy > UVS_MISSED_SKIP)
    return "missed_policy is not UVS_MISSED_CATCH_UP, UVS_MISSED_ONCE or UVS_MISSED_SKIP";
  if (!grid && t->missed_policy != UVS_MISSED_CATCH_UP)
    return "missed_policy is only for UVS_FIXED_RATE and UVS_CALENDAR";
  if (!grid && t->max_burst != 0)
    return "max_burst is only for UVS_FIXED_RATE and UVS_CALENDAR";
  if (t->missed_policy != UVS_MISSED_CATCH_UP && t->max_burst != 0)
    return "max_burst is only for UVS_MISSED_CATCH_UP";
  return NULL;
}

static const char *failure_error(const uvs_task_t *t) {
  if (t->failure_policy < UVS_FAIL_STOP || t->failure_policy > UVS_FAIL_RETRY)
    return "failure_policy is not UVS_FAIL_STOP, UVS_FAIL_CONTINUE or UVS_FAIL_RETRY";
  if (t->failure_policy == UVS_FAIL_STOP && t->max_failures != 0)
    return "max_failures is only for UVS_FAIL_CONTINUE and UVS_FAIL_RETRY";
  if (t->failure_policy == UVS_FAIL_CONTINUE && t->kind == UVS_ONE_SHOT)
    return "UVS_FAIL_CONTINUE is only for periodic tasks";
  if (t->failure_policy != UVS_FAIL_RETRY) {
    if (t->retry.wait_ns != 0 || t->retry.max_wait_ns != 0 || t->retry.jitter_percent != 0)
      return "retry is only for UVS_FAIL_RETRY";
    return NULL;
  }
  if (t->retry.wait_ns <= 0)
    return "retry.wait_ns is not positive: UVS_FAIL_RETRY needs one";
  if (t->retry.max_wait_ns != 0 && t->retry.max_wait_ns < t->retry.wait_ns)
    return "retry.max_wait_ns is below retry.wait_ns";
  if (t->retry.jitter_percent < 0 || t->retry.jitter_percent > 100)
    return "retry.jitter_percent is not in 0 to 100";
  return NULL;
}

static const char *limit_error(const uvs_task_t *t) {
  bool limited = t->limit.run_ns != 0 || t->limit.total_ns != 0;

  if (t->limit.run_ns < 0)
    return "limit.run_ns is negative";
  if (t->limit.total_ns < 0)
    return "limit.total_ns is negative";
  if (limited && t->work == NULL)
    return "limit is only for tasks with work";
  if ((t->limit.substitute & ~1) != 0)
    return "limit.substitute is not 0 or 1";
  if (t->limit.substitute == 0) {
    if (t->limit.status != 0)
      return "limit.status needs limit.substitute";
    return t->limit.result != NULL ? "limit.result needs limit.substitute" : NULL;
  }
  if (!limited)
    return "limit.substitute needs limit.run_ns or limit.total_ns";
  if (t->limit.status > 0 || uvs__status_of(t->limit.status) != t->limit.status)
    return "limit.status is not 0 or a negative UV_E... code";
  if (t->limit.result != NULL && t->limit.status != 0)
    return "limit.result needs a limit.status of 0";
  return NULL;
}

static const char *outcome_error(const uvs_task_t *t) {
  if ((t->keep_outcome & ~1) != 0)
    return "keep_outcome is not 0 or 1";
  if (t->keep_outcome != 0)
    return NULL;
  if (t->result != NULL)
    return "result needs keep_outcome";
  if (t->drop_result != NULL)
    return "drop_result needs keep_outcome";
  return t->limit.result != NULL ? "limit.result needs keep_outcome" : NULL;
}

static const char *spec_error(const uvs_task_t *t) {
  static const char *(*const errors[])(const uvs_task_t *) = {
      kind_error,    period_error, calendar_error, missed_error,
      failure_error, limit_error,  outcome_error};

  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    const char *error = errors[i](t);

    if (error != NULL)
      return error;
  }
  return NULL;
}

int uvs__check_spec(const uvs_task_t *t) {
  return spec_error(t) == NULL ? 0 : UV_EINVAL;
}

int uvs_check(const uvs_task_t *t, char *text, size_t size) {
  const char *error;
  uvs_task_t spec;

  if (t == NULL)
    error = "the spec is NULL";
  else if (uvs__read_spec(t, t->size, &spec) < 0)
    error = "size is wrong: call uvs_task_init first";
  else
    error = spec_error(&spec);
  if (text != NULL && size > 0)
    snprintf(text, size, "%s", error == NULL ? "" : error);
  return error == NULL ? 0 : UV_EINVAL;
}
