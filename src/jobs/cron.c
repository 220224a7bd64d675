/* SPDX-License-Identifier: MIT
 *
 * cron: the calls that define, remove and list crons. tick.c makes their jobs.
 */
#include "jobs/run.h"

#include <stdio.h>

#define LEAST_INTERVAL_NS UVS_SEC(1)
#define PAYLOAD_MAX 65536 /* small, because one step may make jobs of 1000 missed occurrences */

/* ------------------------------------------------------------------ define --- */

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
    return refuse(text, size, "misfire is not a UVS_MISFIRE_...");
  if (c->misfire == UVS_MISFIRE_ALL && (c->max_missed < 1 || c->max_missed > UVS__MISSED_MAX))
    return refuse(text, size, "max_missed is not in the range 1 to 1000");
  if (c->misfire != UVS_MISFIRE_ALL && c->max_missed != 0)
    return refuse(text, size, "max_missed is only for UVS_MISFIRE_ALL");
  if (c->overlap != UVS_CRON_QUEUE && c->overlap != UVS_CRON_SKIP)
    return refuse(text, size, "overlap is not a UVS_CRON_...");
  rc = uvs__check_job_spec(s, PAYLOAD_MAX, text, size);
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

/* ------------------------------------------------------------------- calls --- */

static bool cron_answered(struct uvs__call *c) {
  if (c->status == 0 || c->status == UVS_JOB_EXISTS) {
    uvs__cron_keep(c);
    uvs__worker_for_crons(c->jobs);
  }
  if (c->status == UVS_JOB_EXISTS && c->ask.unknown)
    c->status = 0; /* an earlier try of this call, or an equal definition, has stored it */
  return true;
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
  call->deliver = uvs__call_deliver_status;
  call->answered = cron_answered;
  rc = copy_cron(call, c);
  if (rc == 0)
    return uvs__call_send(call);
  uvs__call_free(call);
  return rc;
}

static bool remove_answered(struct uvs__call *c) {
  if (c->status == 0)
    uvs__cron_forget(c->jobs, c->cron.cron.name);
  return true;
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
  c->deliver = uvs__call_deliver_status;
  c->answered = remove_answered;
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
  next_us = uvs__cron_next_us(c, cron->last_us, now_us);
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
