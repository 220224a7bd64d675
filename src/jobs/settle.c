/* SPDX-License-Identifier: MIT
 *
 * settle: tells the store how runs ended, and extends leases. Runs that wait while the store is
 * busy become one request. A request is repeated until the store has answered it.
 */
#include "jobs/run.h"

#include <string.h>

#include "jobs/alloc.h"

#define SETTLE_MAX 500

struct batch {
  struct uvs__ask ask;
  struct uvs__settle_request r;
  struct uvs__run **runs;
  struct uvs__settle items[];
};

static void add(struct uvs__run *run) {
  struct uvs__keeper *k = &run->jobs->keeper;

  if (run->listed || run->asked)
    return;
  run->listed = true;
  run->next_to_settle = NULL;
  *k->to_settle_end = run;
  k->to_settle_end = &run->next_to_settle;
  k->n_to_settle++;
}

void uvs__settle_end(struct uvs__run *run) {
  uvs__timer_clear(&run->jobs->keeper.timers, &run->extend);
  uvs__timer_clear(&run->jobs->keeper.timers, &run->limit);
  run->end_wanted = true;
  add(run);
}

void uvs__settle_extend(struct uvs__run *run) {
  run->extend_wanted = true;
  add(run);
}

/* ---------------------------------------------------------------- extend --- */

void uvs__settle_extend_all(uvs_jobs_t *jobs) {
  for (size_t i = 0; i < UVS__BUCKETS_OF_IDS; i++)
    for (struct uvs__run *run = jobs->keeper.runs[i]; run != NULL; run = run->next_by_id)
      if (!run->end_wanted && !run->lost && !(atomic_load(&run->stop) & UVS__STOP_LIMIT))
        uvs__settle_extend(run);
}

static void on_extend_due(struct uvs__timer *t, int64_t now_ns) {
  (void)now_ns;
  uvs__settle_extend(UVS__OWNER(t, struct uvs__run, extend));
}

/* The next heartbeat comes at a third of the lease. */
void uvs__settle_extend_later(struct uvs__run *run) {
  uvs_jobs_t *jobs = run->jobs;

  if (!run->end_wanted && !run->lost && !(atomic_load(&run->stop) & UVS__STOP_LIMIT))
    uvs__timer_set(&jobs->keeper.timers, &run->extend,
                   uvs__later_ns(uvs__mono_ns(jobs), run->lease_us * 1000 / 3), on_extend_due);
}

static void answer_extenders(struct uvs__run *run, int status) {
  while (run->extending != NULL) {
    struct uvs__extender *e = run->extending;

    run->extending = e->next;
    e->status = status;
    uv_sem_post(&e->done);
  }
}

static void extended(struct uvs__run *run, int status) {
  uvs_jobs_t *jobs = run->jobs;

  uvs__jobs_free(run->progress_sent);
  run->progress_sent = NULL;
  answer_extenders(run, status == UVS__SETTLE_CANCELLED ? 0 : status);
  if (status == UVS_ELOST && !run->lost) {
    run->lost = true;
    jobs->keeper.stats.lost_leases++;
    atomic_fetch_or(&run->stop, UVS__STOP_LOST);
    uvs__tell(jobs, UVS_EVENT_LOST, run->id, "the lease has ended, and the job is claimed again");
  }
  if (status == UVS__SETTLE_CANCELLED)
    atomic_fetch_or(&run->stop, UVS__STOP_CANCELLED);
  uvs__settle_extend_later(run);
}

/* Moves what the handler has noted to the item. */
static void fill_extend(struct uvs__run *run, struct uvs__settle *item) {
  uvs_jobs_t *jobs = run->jobs;
  int64_t lease_us = run->lease_us, now_ns = uvs__mono_ns(jobs);

  uv_mutex_lock(&jobs->lock);
  run->progress_sent = run->progress;
  item->progress = (struct uvs__bytes){run->progress, run->progress_size};
  run->progress = NULL;
  run->progress_size = 0;
  run->extending = run->extenders;
  run->extenders = NULL;
  uv_mutex_unlock(&jobs->lock);
  for (const struct uvs__extender *e = run->extending; e != NULL; e = e->next) {
    int64_t end_ns = uvs__later_ns(now_ns, e->lease_us * 1000);

    if (end_ns > run->least_end_ns)
      run->least_end_ns = end_ns;
  }
  if (run->least_end_ns - now_ns > lease_us * 1000)
    lease_us = (run->least_end_ns - now_ns + 999) / 1000;
  item->op = UVS__EXTEND;
  item->when = (struct uvs__when){lease_us, 0};
}

/* ----------------------------------------------------------------- request --- */

static void fill(struct uvs__run *run, struct uvs__settle *item) {
  if (run->end_wanted) {
    *item = run->end;
  } else {
    memset(item, 0, sizeof *item);
    fill_extend(run, item);
  }
  item->queue = run->claimed->queue;
  item->rest = run->claimed->rest;
  item->key = run->claimed->key;
  item->part = run->claimed->part;
  item->row = run->claimed->row;
  item->fence = run->claimed->fence;
  item->lease_us = run->lease_us;
  run->extend_wanted = false;
}

static void answered(uvs_jobs_t *jobs, struct uvs__ask *ask, int status) {
  struct batch *b = UVS__OWNER(ask, struct batch, ask);

  (void)jobs;
  for (size_t i = 0; i < b->r.n; i++) {
    struct uvs__run *run = b->runs[i];
    int one = status != 0 ? status : b->items[i].status;

    run->asked = false;
    if (b->items[i].op != UVS__EXTEND) {
      run->settled(run, one, ask->unknown);
      continue;
    }
    extended(run, one);
    if (run->end_wanted || run->extend_wanted)
      add(run);
  }
  uvs__arena_free(&b->r.arena);
  uvs__jobs_free(b);
}

static struct batch *make_batch(size_t n) {
  size_t items = n * sizeof(struct uvs__settle);
  struct batch *b = uvs__jobs_alloc(sizeof *b + items + n * sizeof(struct uvs__run *));

  if (b == NULL)
    return NULL;
  b->runs = (struct uvs__run **)(void *)((char *)b->items + items);
  b->r.r.op = UVS__SETTLE;
  b->r.items = b->items;
  b->ask.request = &b->r.r;
  b->ask.repeat = UVS__UNTIL_CLOSE;
  b->ask.answered = answered;
  return b;
}

/* Takes the run that *at points to out of the list. */
static struct uvs__run *take_run(struct uvs__keeper *k, struct uvs__run **at) {
  struct uvs__run *run = *at;

  *at = run->next_to_settle;
  if (*at == NULL)
    k->to_settle_end = at;
  k->n_to_settle--;
  run->listed = false;
  run->asked = true;
  return run;
}

static size_t puts_of(const struct uvs__run *run) {
  return run->end_wanted ? run->end.n_puts : 0;
}

/* May two runs share a request? A request is for one part of the store. If the store has parts, a
 * run that puts jobs has a request of its own, because these jobs may belong to a part that does
 * not work. */
static bool may_share(const struct uvs__run *a, const struct uvs__run *b) {
  return a->claimed->part == b->claimed->part &&
         (a->claimed->part == 0 || (puts_of(a) == 0 && puts_of(b) == 0));
}

void uvs__settle_collect(uvs_jobs_t *jobs) {
  struct uvs__keeper *k = &jobs->keeper;

  while (k->n_to_settle > 0) {
    size_t max = k->n_to_settle < SETTLE_MAX ? k->n_to_settle : SETTLE_MAX;
    struct uvs__run **at = &k->to_settle;
    struct batch *b = make_batch(max);

    if (b == NULL)
      return; /* they stay in the list; the next pass tries again */
    while (*at != NULL && b->r.n < max) {
      if (b->r.n > 0 && !may_share(b->runs[0], *at)) {
        at = &(*at)->next_to_settle;
        continue;
      }
      b->runs[b->r.n] = take_run(k, at);
      fill(b->runs[b->r.n], &b->items[b->r.n]);
      b->r.n++;
    }
    uvs__keeper_ask(jobs, &b->ask);
  }
}
