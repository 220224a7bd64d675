/* SPDX-License-Identifier: MIT
 *
 * worker: claims the jobs of one queue, as many as there are free places.
 *
 * Memory for the runs is taken before the claim, so that what was claimed can always be settled.
 */
#include "jobs/run.h"

#include <string.h>

#include <uvsched/settings.h>

#include "jobs/alloc.h"

#define AFTER_FAILURE_NS UVS_SEC(1)
#define CLAIM_MAX 500
#define CRON_PLACES 16
#define CRON_LEASE_US INT64_C(30000000)

/* ------------------------------------------------------------------ claim --- */

/* Takes a spare run: `claim` has made enough of them. */
static struct uvs__run *take_spare(struct uvs__worker *w) {
  struct uvs__run *run = w->spare;

  w->spare = run->spare;
  w->n_spare--;
  return run;
}

static void claimed(uvs_jobs_t *jobs, struct uvs__ask *ask, int status) {
  struct uvs__worker *w = UVS__OWNER(ask, struct uvs__worker, ask);
  struct uvs__claim_request *r = &w->request;

  w->asking = false;
  if (status != 0) {
    if (!jobs->keeper.closing)
      uvs__worker_sleep_for(
          w, AFTER_FAILURE_NS); /* if the store is down: all workers wake up when it works again */
    return;
  }
  while (r->claimed != NULL) {
    struct uvs__claimed *c = r->claimed;

    r->claimed = c->next;
    w->running++;
    uvs__run_start(take_spare(w), jobs, w, c, r->now_us);
  }
  if (jobs->keeper.closing)
    return;
  uvs__worker_sleep_until(w, r->now_us, r->next_us);
  if (r->pending_only) /* expired leases were left alone */
    uvs__worker_wake_at(w, w->expired_allowed_ns);
}

/* Allocates spare runs, up to n. Returns how many there are, at most n. */
static size_t make_spares(struct uvs__worker *w, size_t n) {
  while (w->n_spare < n) {
    struct uvs__run *run = uvs__run_new();

    if (run == NULL)
      break;
    run->spare = w->spare;
    w->spare = run;
    w->n_spare++;
  }
  return w->n_spare < n ? w->n_spare : n;
}

static void claim(uvs_jobs_t *jobs, struct uvs__worker *w) {
  struct uvs__claim_request *r = &w->request;
  size_t places = w->places - w->running;
  size_t max = make_spares(w, places < CLAIM_MAX ? places : CLAIM_MAX);

  w->wanted = false;
  if (max == 0) {
    uvs__worker_sleep_for(w, AFTER_FAILURE_NS); /* no memory */
    return;
  }
  memset(r, 0, sizeof *r);
  r->r.op = UVS__CLAIM;
  r->queue = w->queue;
  r->max = (uint32_t)max;
  r->max_crashed = w->handlers == NULL ? r->max : jobs->keeper.crashed == NULL ? 1 : 0;
  /* The first claim after the store was down must leave expired leases alone too. */
  r->pending_only = jobs->keeper.told_down || uvs__mono_ns(jobs) < w->expired_allowed_ns;
  r->lease_us = w->lease_us;
  w->asking = true;
  w->ask.request = &r->r;
  w->ask.repeat = UVS__ONCE;
  w->ask.answered = claimed;
  uvs__keeper_ask(jobs, &w->ask);
}

void uvs__workers_claim(uvs_jobs_t *jobs) {
  if (jobs->keeper.closing)
    return;
  for (struct uvs__worker *w = jobs->keeper.workers; w != NULL; w = w->next)
    if (w->wanted && !w->asking && w->running < w->places)
      claim(jobs, w);
}

/* --------------------------------------------------------------- handlers --- */

static void add_worker(uvs_jobs_t *jobs, struct uvs__worker *w, const char *queue) {
  w->jobs = jobs;
  strcpy(w->queue, queue);
  w->next = jobs->keeper.workers;
  jobs->keeper.workers = w;
}

void uvs__worker_for_crons(uvs_jobs_t *jobs) {
  struct uvs__worker *w = uvs__worker_find(jobs, UVS__CRON_QUEUE);

  if (w == NULL) {
    w = uvs__jobs_alloc(sizeof *w);
    if (w == NULL)
      return; /* the next handler, or cron, tries again */
    add_worker(jobs, w, UVS__CRON_QUEUE);
    w->places = CRON_PLACES;
    w->lease_us = CRON_LEASE_US;
  }
  w->wanted = true;
}

static void take_over(struct uvs__message *m, void *to) {
  struct uvs__handler *h = UVS__OWNER(m, struct uvs__handler, message);
  struct uvs__worker *w = uvs__worker_find(to, h->queue);
  int64_t lease_us = h->options.lease_ns / 1000;

  if (w == NULL) {
    w = h->new_worker;
    add_worker(to, w, h->queue);
  } else {
    uvs__jobs_free(h->new_worker);
  }
  h->new_worker = NULL;
  h->of_worker = w->handlers;
  w->handlers = h;
  w->places += (size_t)h->options.concurrency;
  if (w->lease_us < lease_us)
    w->lease_us = lease_us;
  w->wanted = true;
  uvs__worker_for_crons(to);
}

static bool are_handler_options_valid(const uvs_job_handler_t *h) {
  return h->concurrency >= 0 && h->lease_ns >= UVS_MS(100) && h->lease_ns < UVS_JOBS_END_NS / 2 &&
         h->retry.wait_ns >= 0 && h->retry.max_wait_ns >= 0 &&
         h->retry.max_wait_ns < UVS_JOBS_END_NS / 2 && h->retry.jitter_percent >= 0 &&
         h->retry.jitter_percent <= 100 && h->limit_ns >= 0;
}

static int read_handler(uvs_jobs_t *jobs, const uvs_job_handler_t *from, uvs_job_handler_t *ret) {
  uvs_job_handler_init(ret);
  if (from != NULL && from->size < sizeof *ret)
    return UV_EINVAL;
  if (from != NULL)
    memcpy(ret, from, sizeof *ret);
  if (!are_handler_options_valid(ret))
    return UV_EINVAL;
  if (ret->concurrency == 0)
    ret->concurrency = uvs_concurrency(jobs->s);
  if (ret->concurrency < 1)
    ret->concurrency = 1;
  return 0;
}

/* UV_EEXIST: the name has a handler. */
static int file_handler(uvs_jobs_t *jobs, struct uvs__handler *h) {
  int rc = 0;

  uv_mutex_lock(&jobs->lock);
  for (const struct uvs__handler *other = jobs->handlers; other != NULL; other = other->next)
    if (strcmp(other->name, h->name) == 0)
      rc = UV_EEXIST;
  if (rc == 0) {
    h->next = jobs->handlers;
    jobs->handlers = h;
  }
  uv_mutex_unlock(&jobs->lock);
  return rc;
}

int uvs_jobs_handle(uvs_jobs_t *jobs, const char *name, uvs_job_cb run, void *arg,
                    const uvs_job_handler_t *options) {
  uvs_job_handler_t o;
  struct uvs__handler *h;
  char text[100];
  int rc;

  if (jobs == NULL || run == NULL || uvs__check_name("name", name, text, sizeof text) != 0 ||
      read_handler(jobs, options, &o) != 0)
    return UV_EINVAL;
  if (o.queue != NULL && uvs__check_name("queue", o.queue, text, sizeof text) != 0)
    return UV_EINVAL;
  if (atomic_load(&jobs->closing))
    return UV_ESHUTDOWN;
  h = uvs__jobs_alloc(sizeof *h);
  if (h == NULL)
    return UV_ENOMEM;
  h->new_worker = uvs__jobs_alloc(sizeof *h->new_worker);
  rc = UV_ENOMEM;
  if (h->new_worker == NULL)
    goto free_handler;
  strcpy(h->name, name);
  strcpy(h->queue, o.queue == NULL ? name : o.queue);
  h->options = o;
  h->options.queue = NULL;
  h->run = run;
  h->arg = arg;
  h->message.receive = take_over;
  rc = file_handler(jobs, h);
  if (rc != 0)
    goto free_worker;
  if (uvs__keeper_send(jobs, &h->message))
    return 0;        /* freed with *jobs */
  rc = UV_ESHUTDOWN; /* h stays in the list of handlers: it is freed with *jobs */
  uvs__jobs_free(h->new_worker);
  h->new_worker = NULL;
  return rc;

free_worker:
  uvs__jobs_free(h->new_worker);
free_handler:
  uvs__jobs_free(h);
  return rc;
}
