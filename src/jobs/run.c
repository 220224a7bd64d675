/* SPDX-License-Identifier: MIT
 *
 * run: one claimed job, from its claim to the store's answer that it was settled. The handler runs
 * as a task of the scheduler. The keeper decides how the run ends.
 */
#include "jobs/run.h"

#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"

/* How long a job is given back if it has no handler here, and if the scheduler has refused it. */
#define UNKNOWN_NAME_US INT64_C(30000000)
#define NO_ROOM_US INT64_C(1000000)
#define SETTLE_AGAIN_NS UVS_SEC(1) /* the store refused, for example because it is full */

/* ------------------------------------------------------------------ memory --- */

struct uvs__run *uvs__run_new(void) {
  return uvs__jobs_alloc(sizeof(struct uvs__run));
}

void uvs__run_release(struct uvs__run *run) {
  if (atomic_fetch_sub(&run->users, 1) > 1)
    return;
  uvs__jobs_free(run->progress);
  uvs__arena_free(&run->notes);
  uvs__arena_free(&run->claimed->arena);
  uvs__jobs_free(run->claimed);
  uvs__jobs_free(run);
}

/* ------------------------------------------------------------ table by id --- */

static struct uvs__run *find_run(uvs_jobs_t *jobs, const char *queue, const char *rest) {
  struct uvs__run *run = jobs->keeper.runs[uvs__bucket_of_id(queue, rest)];

  while (run != NULL &&
         (strcmp(run->claimed->rest, rest) != 0 || strcmp(run->claimed->queue, queue) != 0))
    run = run->next_by_id;
  return run;
}

static void file_run(struct uvs__run *run) {
  struct uvs__claimed *c = run->claimed;
  struct uvs__run **bucket = &run->jobs->keeper.runs[uvs__bucket_of_id(c->queue, c->rest)];

  run->next_by_id = *bucket;
  *bucket = run;
  run->filed = true;
}

static void unfile_run(struct uvs__run *run) {
  struct uvs__claimed *c = run->claimed;
  struct uvs__run **at = &run->jobs->keeper.runs[uvs__bucket_of_id(c->queue, c->rest)];

  if (!run->filed)
    return;
  while (*at != run)
    at = &(*at)->next_by_id;
  *at = run->next_by_id;
}

/* --------------------------------------------------------- how a run ends --- */

static void end_as(struct uvs__run *run, enum uvs__settle_op op, int64_t delay_us,
                   const char *error) {
  memset(&run->end, 0, sizeof run->end);
  run->end.op = op;
  run->end.when.delay_us = delay_us;
  run->end.error = error;
  uvs__settle_end(run);
}

/* How long to wait after this failure. */
static int64_t retry_us(struct uvs__run *run) {
  const uvs_job_handler_t *h = &run->handler->options;
  int64_t wait_ns = h->retry.wait_ns, max_ns = h->retry.max_wait_ns;

  for (uint32_t i = 0; i < run->claimed->failures && wait_ns < max_ns; i++)
    wait_ns = wait_ns > max_ns / 2 ? max_ns : 2 * wait_ns;
  if (wait_ns > max_ns)
    wait_ns = max_ns;
  if (h->retry.jitter_percent > 0)
    wait_ns -= (int64_t)((double)wait_ns * h->retry.jitter_percent / 100 *
                         (double)(uvs__random(run->jobs) >> 11) / 9007199254740992.0);
  return (wait_ns + 999) / 1000;
}

static const char *reason(struct uvs__run *run, int status) {
  if (run->error != NULL)
    return run->error;
  if (status == UVS_JOB_GIVE_UP)
    return "given up by the handler";
  if (status > 0)
    return "the handler returned an unknown positive number";
  return uvs_jobs_strerror(status);
}

static void end_failed(struct uvs__run *run, int status) {
  uint32_t max = run->handler->options.max_attempts;
  uvs_jobs_stats_t *stats = &run->jobs->keeper.stats;

  stats->failed++;
  if (status == UVS_JOB_GIVE_UP || (max != 0 && run->job.attempt >= max))
    end_as(run, UVS__DEAD, 0, reason(run, status));
  else
    end_as(run, UVS__RETRY, retry_us(run), reason(run, status));
}

/* The jobs that the handler has put are part of the end of the run. */
static bool attach_puts(struct uvs__run *run) {
  struct uvs__put *puts;
  size_t n = 0;

  if (run->n_puts == 0)
    return true;
  puts = uvs__arena_alloc(&run->notes, run->n_puts * sizeof *puts);
  if (puts == NULL)
    return false;
  for (const struct uvs__job_put *p = run->puts; p != NULL; p = p->next)
    puts[n++].job = p->record;
  run->end.puts = puts;
  run->end.n_puts = n;
  return true;
}

static void end_done(struct uvs__run *run) {
  end_as(run, UVS__ACK, 0, NULL);
  run->end.result = run->result;
  if (!attach_puts(run))
    end_as(run, UVS__RETRY, retry_us(run), uvs_jobs_strerror(UV_ENOMEM));
}

static void end_retry_at(struct uvs__run *run) {
  end_as(run, UVS__RELEASE, -1, NULL);
  run->end.when.at_us = run->retry_at_us;
}

static void decide(struct uvs__run *run) {
  unsigned stop = atomic_load(&run->stop);
  int status = run->status;

  if (status == UVS__NOT_RUN)
    end_as(run, UVS__RELEASE, stop != 0 || run->jobs->keeper.closing ? 0 : NO_ROOM_US, NULL);
  else if (stop & UVS__STOP_LIMIT)
    end_failed(run, UV_ETIMEDOUT);
  else if (status == 0)
    end_done(run);
  else if (status == UVS_JOB_RETRY_AT && run->retry_at_us != 0)
    end_retry_at(run);
  else if (stop & UVS__STOP_CLOSE && status != UVS_JOB_GIVE_UP)
    end_as(run, UVS__RELEASE, 0, NULL);
  else
    end_failed(run, status);
}

static void count_time(const struct uvs__run *run) {
  uvs_jobs_stats_t *stats = &run->jobs->keeper.stats;
  int64_t start_ns = atomic_load(&run->start_ns);

  if (start_ns == 0)
    return;
  stats->started++;
  uvs__histogram_add(&stats->late, start_ns - run->claimed_ns + run->late_at_claim_ns);
  uvs__histogram_add(&stats->run, run->end_ns - start_ns);
}

/* The run may have passed its limit although the timer of the limit has not fired yet. */
static void check_limit(struct uvs__run *run) {
  int64_t start_ns = atomic_load(&run->start_ns), limit_ns = run->handler->options.limit_ns;

  if (limit_ns > 0 && start_ns != 0 && run->end_ns - start_ns > limit_ns)
    atomic_fetch_or(&run->stop, UVS__STOP_LIMIT);
}

static void on_ended(struct uvs__message *m, void *to) {
  struct uvs__run *run = UVS__OWNER(m, struct uvs__run, ended);

  (void)to;
  count_time(run);
  check_limit(run);
  decide(run);
  uvs__worker_place_free(run->worker);
}

/* ---------------------------------------------------------- the handler's task --- */

static void report_end(struct uvs__run *run, int status) {
  if (atomic_exchange(&run->finished, true))
    return;
  run->status = status;
  run->end_ns = uvs__mono_ns(run->jobs);
  uvs__keeper_send(run->jobs, &run->ended);
}

static int run_handler(uvs_run_t *r) {
  struct uvs__run *run = r->arg;
  int64_t now_ns = uvs__mono_ns(run->jobs);
  int status;

  if (atomic_load(&run->stop) != 0)
    return 0; /* on_task_done reports it */
  atomic_store(&run->start_ns, now_ns == 0 ? 1 : now_ns);
  status = run->handler->run(&run->job);
  if (status != UVS_PENDING)
    report_end(run, status);
  return 0;
}

static void on_task_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct uvs__run *run = arg;
  uvs_jobs_t *jobs = run->jobs;

  (void)s;
  (void)id;
  (void)status;
  if (atomic_load(&run->start_ns) == 0)
    report_end(run, UVS__NOT_RUN);
  uvs__run_release(run);
  if (atomic_fetch_sub(&jobs->tasks, 1) == 1)
    uvs__close_if_ended(jobs);
}

static int submit(struct uvs__run *run) {
  char name[UVS_NAME_MAX + 1];
  uvs_task_t t;
  int rc;

  uvs_task_init(&t);
  snprintf(name, sizeof name, "%s", run->claimed->name);
  t.name = name;
  t.priority = run->claimed->priority;
  t.work = run_handler;
  /* run_handler never fails, so it is never retried. But UVS_REJECT_CALLER_RUNS refuses a task that
   * can be retried, so no handler runs on this thread. */
  t.failure_policy = UVS_FAIL_RETRY;
  t.retry.wait_ns = UVS_SEC(1);
  t.done = on_task_done;
  t.arg = run;
  atomic_fetch_add(&run->jobs->tasks, 1);
  atomic_fetch_add(&run->users, 1);
  rc = uvs_submit(run->jobs->s, &t, NULL);
  if (rc == 0)
    return 0;
  atomic_fetch_sub(&run->users, 1);
  atomic_fetch_sub(&run->jobs->tasks, 1);
  return rc;
}

/* ------------------------------------------------------------------ start --- */

static void on_limit(struct uvs__timer *t, int64_t now_ns) {
  struct uvs__run *run = UVS__OWNER(t, struct uvs__run, limit);

  struct uvs__timers *timers = &run->jobs->keeper.timers;
  int64_t start_ns = atomic_load(&run->start_ns);
  int64_t end_ns = uvs__later_ns(start_ns == 0 ? now_ns : start_ns, run->handler->options.limit_ns);

  if (now_ns < end_ns) { /* the handler has not started, or started after the claim */
    uvs__timer_set(timers, t, end_ns, on_limit);
    return;
  }
  uvs__timer_clear(timers, &run->extend);
  atomic_fetch_or(&run->stop, UVS__STOP_LIMIT);
  run->extend_wanted = false;
  uvs__run_end_extenders(run, UV_ETIMEDOUT);
}

static const struct uvs__handler *find_handler(const struct uvs__worker *w, const char *name) {
  const struct uvs__handler *h = w->handlers;

  while (h != NULL && strcmp(h->name, name) != 0)
    h = h->of_worker;
  return h;
}

/* A run that ends without its handler. */
static void end_at_once(struct uvs__run *run, enum uvs__settle_op op, int64_t delay_us,
                        const char *error) {
  end_as(run, op, delay_us, error);
  uvs__worker_place_free(run->worker);
}

static void fill_job(struct uvs__run *run) {
  const struct uvs__claimed *c = run->claimed;
  struct uvs_job_s *job = &run->job;

  snprintf(run->id, sizeof run->id, "%s/%s", c->queue, c->rest);
  job->jobs = run->jobs;
  job->id = run->id;
  job->name = c->name;
  job->queue = c->queue;
  job->key = c->key;
  job->payload = c->payload.data;
  job->payload_size = c->payload.size;
  job->meta = c->meta.data;
  job->meta_size = c->meta.size;
  job->priority = c->priority;
  job->attempt = c->failures + 1;
  job->crashes = c->crashes;
  job->fence = c->fence;
  job->due_ns = c->due_us * 1000;
  job->put_ns = c->put_us * 1000;
}

static void start_handler(struct uvs__run *run) {
  const struct uvs__handler *h = run->handler;
  struct uvs__keeper *k = &run->jobs->keeper;

  run->job.arg = h->arg;
  if (h->options.limit_ns > 0)
    uvs__timer_set(&k->timers, &run->limit, uvs__later_ns(run->claimed_ns, h->options.limit_ns),
                   on_limit);
  uvs__settle_extend_later(run);
  if (submit(run) != 0) /* no memory, max_pending, or the scheduler was shut down */
    end_at_once(run, UVS__RELEASE, NO_ROOM_US, NULL);
}

static void told_crashed(struct uvs__run *run) {
  uvs_jobs_t *jobs = run->jobs;

  if (!run->claimed->crashed_now)
    return;
  jobs->keeper.stats.crashes++;
  uvs__tell(jobs, UVS_EVENT_CRASHED, run->id, "an earlier lease has ended without a result");
}

static void give_back_unknown(struct uvs__run *run) {
  int64_t jitter_us = (int64_t)(uvs__random(run->jobs) % (uint64_t)(UNKNOWN_NAME_US / 3));

  uvs__tell(run->jobs, UVS_EVENT_UNKNOWN_NAME, run->id, run->claimed->name);
  end_at_once(run, UVS__RELEASE, UNKNOWN_NAME_US + jitter_us, NULL);
}

/* Only one job with crashes runs at a time. Two workers may each have claimed one in a batch. */
static bool may_start(struct uvs__run *run) {
  struct uvs__keeper *k = &run->jobs->keeper;

  if (run->claimed->crashes == 0)
    return true;
  if (k->crashed != NULL)
    return false;
  k->crashed = run;
  return true;
}

static void start_or_end(struct uvs__run *run) {
  const struct uvs__claimed *c = run->claimed;

  run->handler = find_handler(run->worker, c->name);
  if (run->handler == NULL)
    give_back_unknown(run);
  else if (c->crashed_now && run->handler->options.max_crashes != 0 &&
           c->crashes >= run->handler->options.max_crashes)
    end_at_once(run, UVS__DEAD, 0, "crashed too often: its leases ended without a result");
  else if (may_start(run))
    start_handler(run);
  else
    end_at_once(run, UVS__RELEASE, 0, NULL);
}

static void settled(struct uvs__run *run, int status, bool unknown);

void uvs__run_start(struct uvs__run *run, uvs_jobs_t *jobs, struct uvs__worker *w,
                    struct uvs__claimed *c, int64_t now_us) {
  bool runs_here = find_run(jobs, c->queue, c->rest) != NULL;

  run->jobs = jobs;
  run->worker = w;
  run->claimed = c;
  run->claimed_ns = uvs__mono_ns(jobs);
  run->late_at_claim_ns = (now_us - c->due_us) * 1000;
  run->lease_us = w->lease_us;
  run->ended.receive = on_ended;
  run->settled = settled;
  run->puts_end = &run->puts;
  atomic_store(&run->users, 1);
  fill_job(run);
  jobs->keeper.running++;
  if (w->handlers == NULL) {
    uvs__cron_tick(jobs, run, now_us);
    uvs__worker_place_free(w);
    return;
  }
  told_crashed(run);
  if (runs_here) { /* its earlier lease has ended, but its handler still runs here */
    end_at_once(run, UVS__RELEASE, w->lease_us, NULL);
    return;
  }
  file_run(run);
  start_or_end(run);
}

/* ------------------------------------------------------------------- stop --- */

void uvs__run_cancelled(uvs_jobs_t *jobs, const char *queue, const char *rest) {
  struct uvs__run *run = find_run(jobs, queue, rest);

  if (run != NULL)
    atomic_fetch_or(&run->stop, UVS__STOP_CANCELLED);
}

void uvs__runs_stop(uvs_jobs_t *jobs, unsigned why) {
  for (size_t i = 0; i < UVS__BUCKETS_OF_IDS; i++)
    for (struct uvs__run *run = jobs->keeper.runs[i]; run != NULL; run = run->next_by_id)
      atomic_fetch_or(&run->stop, why);
}

/* ---------------------------------------------------------------- settled --- */

static void tell_waits_done(const struct uvs__run *run) {
  const struct uvs__claimed *c = run->claimed;
  struct uvs__store *store = run->jobs->keeper.store;
  uvs_job_info_t info = {.size = sizeof info,
                         .state = UVS_JOB_DONE,
                         .id = run->id,
                         .name = c->name,
                         .queue = c->queue,
                         .key = c->key,
                         .priority = c->priority,
                         .due_ns = run->job.due_ns,
                         .put_ns = run->job.put_ns,
                         .ended_ns = store->ops->now_us(store) * 1000,
                         .attempts = c->failures + 1,
                         .crashes = c->crashes,
                         .error = "",
                         .result = run->result.data,
                         .result_size = run->result.size};

  uvs__waits_ended(run->jobs, c->queue, c->rest, &info);
}

static void count_end(struct uvs__run *run) {
  uvs_jobs_stats_t *stats = &run->jobs->keeper.stats;

  switch (run->end.op) {
  case UVS__ACK:
    stats->done++;
    tell_waits_done(run);
    break;
  case UVS__RETRY:
    stats->retried++;
    break;
  case UVS__DEAD:
    stats->given_up++;
    break;
  default:
    break;
  }
  for (size_t i = 0; i < run->end.n_puts; i++) {
    const struct uvs__put *p = &run->end.puts[i];

    if (p->status == 0)
      uvs__worker_due(run->jobs, p->job.queue, p->due_us);
  }
}

static void on_settle_again(struct uvs__timer *t, int64_t now_ns) {
  (void)now_ns;
  uvs__settle_end(UVS__OWNER(t, struct uvs__run, extend));
}

static void settled(struct uvs__run *run, int status, bool unknown) {
  uvs_jobs_t *jobs = run->jobs;
  struct uvs__keeper *k = &jobs->keeper;

  if (status < 0 && status != UVS_ELOST && !k->closing) {
    uvs__timer_set(&k->timers, &run->extend, uvs__later_ns(uvs__mono_ns(jobs), SETTLE_AGAIN_NS),
                   on_settle_again);
    return;
  }
  if (status == 0 || (status == UVS_ELOST && unknown)) {
    count_end(run);
  } else if (status == UVS__SETTLE_CANCELLED) {
    k->stats.cancelled++;
  } else if (!run->lost && run->filed) { /* not the tick of a cron */
    k->stats.lost_leases++;
    uvs__tell(jobs, UVS_EVENT_LOST, run->id, "the result came too late");
  }
  uvs__run_end_extenders(run, UVS_ELOST);
  unfile_run(run);
  k->running--;
  if (k->crashed == run) {
    k->crashed = NULL;
    uvs__workers_due(jobs); /* until now no worker could claim a job with crashes */
  }
  uvs__worker_settled(run->worker);
  uvs__run_release(run);
}

/* --------------------------------------------------- the end of a pending run --- */

int uvs_job_finish(uvs_job_t *job, int status) {
  if (job == NULL || status == UVS_PENDING)
    return UV_EINVAL;
  report_end(uvs__run_of(job), status);
  return 0;
}
