/* SPDX-License-Identifier: MIT
 *
 * cron: makes jobs of the occurrences of a cron. The tick of a cron is a job of the queue
 * UVS__CRON_QUEUE that never ends: it is claimed when the next occurrence is due, and released
 * until the one after that. In the same step the jobs are put, and the newest occurrence becomes
 * the `last` of the cron. So each occurrence is dealt with once, whoever claims the tick.
 */
#include "jobs/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <uvsched/calendar.h>

#include "jobs/alloc.h"

#define MISFIRED_US INT64_C(60000000) /* an occurrence that is later than this is a misfire */
#define MISSED_MAX 1000
#define FRESH_MAX 61 /* occurrences of the last minute */
#define COUNTED_MAX 1000
#define AGAIN_US INT64_C(60000000) /* after a failure, such as a zone that cannot be read */
#define LEAST_INTERVAL_NS UVS_SEC(1)
#define KEY_PREFIX "uvs.cron:"

/* -------------------------------------------------------------- occurrences --- */

/* The grid of @every begins at the cron's `last`. */
static int64_t newest_until(const uvs_calendar_t *c, int64_t last_us, int64_t until_us) {
  int64_t interval_us = uvs_calendar_interval(c) / 1000, ns;

  if (interval_us > 0)
    return until_us < last_us ? last_us
                              : last_us + (until_us - last_us) / interval_us * interval_us;
  ns = uvs_calendar_previous(c, until_us * 1000 + 1);
  return ns == -UVS_NEVER ? last_us : ns / 1000;
}

static int64_t next_after(const uvs_calendar_t *c, int64_t last_us, int64_t now_us) {
  int64_t interval_us = uvs_calendar_interval(c) / 1000, ns;

  if (now_us < last_us)
    now_us = last_us;
  if (interval_us > 0)
    return newest_until(c, last_us, now_us) + interval_us;
  ns = uvs_calendar_next(c, now_us * 1000);
  return ns == UVS_NEVER || ns / 1000 >= UVS__NEVER_US ? UVS__NEVER_US - 1 : ns / 1000;
}

struct occurrences {
  int64_t us[FRESH_MAX + MISSED_MAX]; /* newest first */
  size_t n;
  size_t dropped;
};

/* How many misfires get a job. */
static size_t misfires_allowed(const struct uvs__cron *cron) {
  return cron->misfire == UVS_MISFIRE_SKIP   ? 0
         : cron->misfire == UVS_MISFIRE_ONCE ? 1
                                             : cron->max_missed;
}

static void collect(const struct uvs__cron *cron, const uvs_calendar_t *c, int64_t now_us,
                    struct occurrences *ret) {
  size_t allowed = misfires_allowed(cron);
  int64_t us = newest_until(c, cron->last_us, now_us);

  while (us > cron->last_us && ret->dropped < COUNTED_MAX) {
    if (now_us - us <= MISFIRED_US)
      ret->us[ret->n++] = us;
    else if (allowed > 0 && allowed-- > 0)
      ret->us[ret->n++] = us;
    else
      ret->dropped++;
    us = newest_until(c, cron->last_us, us - 1);
  }
}

/* -------------------------------------------------------------------- put --- */

/* "NAME@2026-11-18T09:00:00Z", with a fraction if there is one. */
static void write_rest(const char *name, int64_t us, char ret[UVS__REST_MAX + 1]) {
  time_t seconds = (time_t)(us / 1000000);
  char when[40], fraction[16] = "";
  struct tm t;

  gmtime_r(&seconds, &t);
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &t);
  if (us % 1000000 != 0)
    snprintf(fraction, sizeof fraction, ".%06d", (int)(us % 1000000));
  snprintf(ret, UVS__REST_MAX + 1, "%s@%s%sZ", name, when, fraction);
}

/* Oldest first, so that jobs that are due now start in order. */
static bool make_puts(struct uvs__run *run, const struct uvs__cron *cron,
                      const struct occurrences *o) {
  struct uvs__put *puts = uvs__arena_alloc(&run->notes, (o->n + 1) * sizeof *puts);
  char key[sizeof KEY_PREFIX + UVS_JOB_NAME_MAX];
  const char *kept_key = NULL;

  snprintf(key, sizeof key, KEY_PREFIX "%s", cron->name);
  if (puts == NULL || !uvs__arena_string(&run->notes, key, &kept_key))
    return false;
  for (size_t i = 0; i < o->n; i++) {
    struct uvs__record *job = &puts[i].job;
    char rest[UVS__REST_MAX + 1];
    int64_t us = o->us[o->n - 1 - i];

    *job = cron->job;
    write_rest(cron->name, us, rest);
    if (!uvs__arena_string(&run->notes, rest, &job->rest))
      return false;
    job->key = cron->overlap == UVS_CRON_SKIP ? kept_key : NULL;
    job->key_policy = UVS_KEY_KEEP;
    job->due = (struct uvs__when){-1, us};
  }
  run->end.puts = puts;
  run->end.n_puts = o->n;
  return true;
}

static void tell_misfired(uvs_jobs_t *jobs, const char *name, size_t n) {
  char text[80];

  snprintf(text, sizeof text, "%zu%s occurrences have passed without a job", n,
           n == COUNTED_MAX ? " or more" : "");
  if (n > 0)
    uvs__tell(jobs, UVS_EVENT_MISFIRED, name, text);
}

static bool tick(struct uvs__run *run, const struct uvs__cron *cron, int64_t now_us) {
  struct occurrences *o = uvs__jobs_alloc(sizeof *o);
  uvs_calendar_t *c;
  bool made = false;

  if (o == NULL)
    return false;
  if (uvs_calendar_parse(cron->expression, cron->zone, NULL, &c, NULL) == 0) {
    collect(cron, c, now_us, o);
    made = make_puts(run, cron, o);
    if (made) {
      int64_t newest_us = newest_until(c, cron->last_us, now_us);

      run->end.tick_last_us = newest_us > cron->last_us ? newest_us : 0;
      run->end.when = (struct uvs__when){
          -1, next_after(c, newest_us > cron->last_us ? newest_us : cron->last_us, now_us)};
      tell_misfired(run->jobs, cron->name, o->dropped);
    }
    uvs_calendar_release(c);
  }
  uvs__jobs_free(o);
  return made;
}

void uvs__cron_tick(uvs_jobs_t *jobs, struct uvs__run *run, int64_t now_us) {
  const struct uvs__cron *cron = run->claimed->cron;

  (void)jobs;
  memset(&run->end, 0, sizeof run->end);
  run->end.op = UVS__RELEASE;
  if (cron == NULL || !tick(run, cron, now_us)) {
    memset(&run->end, 0, sizeof run->end);
    run->end.op = UVS__RELEASE;
    run->end.when.delay_us = AGAIN_US;
  }
  uvs__settle_end(run);
}

/* ------------------------------------------------------------------- calls --- */

static int refuse(char *text, size_t size, const char *reason) {
  snprintf(text, size, "%s", reason);
  return UV_EINVAL;
}

static int check_calendar(const uvs_job_cron_t *cron, char *text, size_t size) {
  uvs_calendar_error_t error;
  uvs_calendar_t *c;
  int64_t interval_ns;
  int rc;

  rc = uvs_calendar_parse(cron->expression, cron->zone == NULL ? "UTC" : cron->zone, NULL, &c,
                          &error);
  if (rc != 0) {
    snprintf(text, size, "%s: %s", error.field, error.text);
    return rc;
  }
  interval_ns = uvs_calendar_interval(c);
  uvs_calendar_release(c);
  if (interval_ns != 0 && interval_ns < LEAST_INTERVAL_NS)
    return refuse(text, size, "the interval of @every is shorter than 1s");
  return 0;
}

static int check_cron(const uvs_job_cron_t *c, char *text, size_t size) {
  const uvs_job_spec_t *s = &c->spec;
  int rc = uvs__check_name("name", c->name, text, size);

  if (rc != 0)
    return rc;
  if (c->revision == 0)
    return refuse(text, size, "revision is 0");
  if (c->expression == NULL)
    return refuse(text, size, "expression is missing");
  if (c->misfire < UVS_MISFIRE_ONCE || c->misfire > UVS_MISFIRE_ALL)
    return refuse(text, size, "misfire is no UVS_MISFIRE_...");
  if (c->misfire == UVS_MISFIRE_ALL && (c->max_missed < 1 || c->max_missed > MISSED_MAX))
    return refuse(text, size, "max_missed is not from 1 to 1000");
  if (c->misfire != UVS_MISFIRE_ALL && c->max_missed != 0)
    return refuse(text, size, "max_missed is only for UVS_MISFIRE_ALL");
  if (c->overlap != UVS_CRON_QUEUE && c->overlap != UVS_CRON_SKIP)
    return refuse(text, size, "overlap is no UVS_CRON_...");
  rc = uvs_job_check(s, text, size);
  if (rc != 0)
    return rc;
  if (s->id != NULL || s->key != NULL || s->delay_ns != 0 || s->at_ns != 0)
    return refuse(text, size, "spec has an id, a key or a time: the cron sets them");
  return check_calendar(c, text, size);
}

static int copy_cron(struct uvs__call *call, const uvs_job_cron_t *c) {
  struct uvs__cron *to = &call->cron.cron;
  uvs_job_spec_t spec;
  int rc = uvs__read_job_spec(&c->spec, &spec);

  if (rc != 0)
    return rc;
  to->revision = c->revision;
  to->misfire = c->misfire;
  to->overlap = c->overlap;
  to->max_missed = c->max_missed;
  return uvs__arena_string(&call->arena, c->name, &to->name) &&
                 uvs__arena_string(&call->arena, c->expression, &to->expression) &&
                 uvs__arena_string(&call->arena, c->zone == NULL ? "UTC" : c->zone, &to->zone) &&
                 uvs__copy_spec(&spec, "", &call->arena, &to->job)
             ? 0
             : UV_ENOMEM;
}

static bool cron_answered(struct uvs__call *c) {
  if (c->status == 0 || c->status == UVS_JOB_EXISTS)
    uvs__worker_for_crons(c->jobs);
  if (c->status == UVS_JOB_EXISTS && c->ask.unknown)
    c->status = 0; /* an earlier try of this call, or an equal definition, has stored it */
  return true;
}

static void deliver_status(struct uvs__call *c) {
  ((uvs_jobs_cb)c->callback)(c->jobs, c->status, c->arg);
}

int uvs_jobs_cron(uvs_jobs_t *jobs, const uvs_job_cron_t *c, uvs_jobs_cb cb, void *arg, char *text,
                  size_t text_size) {
  char unused[200];
  struct uvs__call *call;
  int rc;

  if (text == NULL || text_size == 0) {
    text = unused;
    text_size = sizeof unused;
  }
  text[0] = '\0';
  if (c == NULL || c->size < sizeof *c)
    return refuse(text, text_size, "the cron is NULL, or was not made by uvs_job_cron_init");
  rc = check_cron(c, text, text_size);
  if (rc == 0)
    rc = uvs__call_new(jobs, UVS__SET_CRON, &call);
  if (rc != 0)
    return rc;
  call->callback = (void (*)(void))cb;
  call->arg = arg;
  call->deliver = deliver_status;
  call->answered = cron_answered;
  rc = copy_cron(call, c);
  if (rc == 0)
    return uvs__call_send(call);
  uvs__call_free(call);
  return rc;
}

int uvs_jobs_remove_cron(uvs_jobs_t *jobs, const char *name, uvs_jobs_cb cb, void *arg) {
  char text[100];
  struct uvs__call *c;
  int rc = uvs__check_name("name", name, text, sizeof text);

  if (rc == 0)
    rc = uvs__call_new(jobs, UVS__REMOVE_CRON, &c);
  if (rc != 0)
    return rc;
  c->callback = (void (*)(void))cb;
  c->arg = arg;
  c->deliver = deliver_status;
  if (uvs__arena_string(&c->arena, name, &c->cron.cron.name))
    return uvs__call_send(c);
  uvs__call_free(c);
  return UV_ENOMEM;
}

/* -------------------------------------------------------------------- list --- */

static int64_t next_ns(const struct uvs__cron *cron, int64_t now_us) {
  uvs_calendar_t *c;
  int64_t next_us;

  if (uvs_calendar_parse(cron->expression, cron->zone, NULL, &c, NULL) != 0)
    return UVS_NEVER;
  next_us = next_after(c, cron->last_us, now_us);
  uvs_calendar_release(c);
  return next_us == UVS__NEVER_US - 1 ? UVS_NEVER : next_us * 1000;
}

static void deliver_crons(struct uvs__call *c) {
  uvs_cron_list_cb cb = (uvs_cron_list_cb)c->callback;
  struct uvs__cron_request *r = &c->cron;
  uvs_cron_info_t *infos = uvs__arena_alloc(&c->arena, (r->n + 1) * sizeof *infos);

  if (infos == NULL)
    c->status = UV_ENOMEM;
  if (c->status != 0) {
    cb(c->jobs, c->status, NULL, 0, c->arg);
    return;
  }
  for (size_t i = 0; i < r->n; i++) {
    const struct uvs__cron *from = &r->crons[i];

    infos[i] = (uvs_cron_info_t){.name = from->name,
                                 .expression = from->expression,
                                 .zone = from->zone,
                                 .job_name = from->job.name,
                                 .queue = from->job.queue,
                                 .revision = from->revision,
                                 .last_ns = from->last_us * 1000,
                                 .next_ns = next_ns(from, r->now_us),
                                 .misfire = from->misfire,
                                 .overlap = from->overlap,
                                 .max_missed = from->max_missed};
  }
  cb(c->jobs, 0, infos, r->n, c->arg);
}

int uvs_jobs_crons(uvs_jobs_t *jobs, uvs_cron_list_cb cb, void *arg) {
  struct uvs__call *c;
  int rc = uvs__call_new(jobs, UVS__CRONS, &c);

  if (rc != 0)
    return rc;
  c->callback = (void (*)(void))cb;
  c->arg = arg;
  c->deliver = deliver_crons;
  return uvs__call_send(c);
}
