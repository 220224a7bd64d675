/* SPDX-License-Identifier: MIT
 *
 * sqlite_claim: CLAIM of the SQLite store. The numbers 1 to 8 are those of the walk in store.h. In
 * each class, the walk first decides and copies the jobs, then writes.
 */
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/sqlite.h"

#define SECOND_US INT64_C(1000000)

struct window {
  int64_t rate, length_us, start_us, used;
};

struct walk {
  struct uvs__db *c;
  struct uvs__claim_request *r;
  int64_t queue, concurrency;
  struct window rate, catch_up;
  bool windows_changed;
  struct uvs__claimed **end; /* of r->claimed */
  uint64_t fence;            /* 0: not drawn */
  uint32_t handled, crashed;
  size_t bytes;     /* of payloads that were claimed */
  int64_t running;  /* with leases that have not ended */
  int64_t token_us; /* when a job that was skipped may get a token */
  bool stopped, no_memory;

  /* Jobs of this class that must end as cancelled or replaced. */
  struct to_end {
    struct to_end *next;
    int64_t seq;
    bool cancelled;
  } * to_end, **to_end_last;
  struct uvs__arena arena;
};

enum step { NEXT_JOB, SKIP_OVERDUE, NEXT_CLASS, STOP };

/* ------------------------------------------------------------------ tokens --- */

static bool is_over(const struct window *w, int64_t now_us) {
  return now_us - w->start_us >= w->length_us || now_us < w->start_us;
}

static bool has_token(const struct window *w, int64_t now_us) {
  return w->rate == 0 || w->used < w->rate || is_over(w, now_us);
}

static void take_token(struct walk *walk, struct window *w) {
  if (w->rate == 0)
    return;
  if (is_over(w, walk->c->now_us)) {
    w->start_us = walk->c->now_us;
    w->used = 0;
  }
  w->used++;
  walk->windows_changed = true;
}

/* -------------------------------------------------------------------- walk --- */

static enum step stop(struct walk *w, int64_t next_us) {
  w->stopped = true;
  w->r->next_us = next_us;
  return STOP;
}

static bool is_overdue(const struct walk *w, int64_t visible_us) {
  return visible_us < w->c->now_us - UVS__OVERDUE_US;
}

/* The end of the leases that this walk gives. These leases are not stored yet. */
static int64_t lease_end(const struct walk *w) {
  int64_t now_us = w->c->now_us;

  return w->r->lease_us < UVS__NEVER_US - now_us ? now_us + w->r->lease_us : UVS__NEVER_US - 1;
}

static int64_t nearest_lease_end(struct walk *w) {
  int64_t end_us =
      uvs__number(w->c, UVS__SQL_NEXT_LEASE_END,
                  UVS__ARGS(uvs__int(w->queue), uvs__int(w->c->now_us)), UVS__NEVER_US);

  return w->r->claimed != NULL && lease_end(w) < end_us ? lease_end(w) : end_us;
}

/* Steps 4 to 7. */
static enum step look_at_bounds(struct walk *w, int64_t visible_us, bool *ret_claim) {
  int64_t now_us = w->c->now_us;

  *ret_claim = false;
  if (w->concurrency > 0 && w->running >= w->concurrency)
    return stop(w, nearest_lease_end(w));
  if (!has_token(&w->rate, now_us))
    return stop(w, w->rate.start_us + w->rate.length_us);
  if (is_overdue(w, visible_us) && !has_token(&w->catch_up, now_us)) {
    w->token_us = w->catch_up.start_us + w->catch_up.length_us;
    return SKIP_OVERDUE;
  }
  if (w->handled == w->r->max || w->bytes > UVS__STEP_BYTES)
    return stop(w, now_us);
  *ret_claim = true;
  return NEXT_JOB;
}

/* Step 8: copies the job of the row. Its lease is written later. NULL: no memory. */
static struct uvs__claimed *copy_job(struct walk *w) {
  const enum uvs__sql row = UVS__SQL_VISIBLE;
  struct uvs__db *c = w->c;
  struct uvs__claimed *job = uvs__jobs_alloc(sizeof *job);

  if (job == NULL)
    return NULL;
  job->row = uvs__col(c, row, 0);
  job->crashed_now = uvs__col(c, row, 2) != 0;
  job->priority = (int)uvs__col(c, row, 7);
  job->failures = (uint32_t)uvs__col(c, row, 8);
  job->crashes = (uint32_t)uvs__col(c, row, 9) + job->crashed_now;
  job->due_us = uvs__col(c, row, 10);
  job->put_us = uvs__col(c, row, 11);
  if (uvs__arena_string(&job->arena, w->r->queue, &job->queue) &&
      uvs__col_text(c, row, 4, &job->arena, &job->rest) &&
      uvs__col_text(c, row, 5, &job->arena, &job->name) &&
      uvs__col_text(c, row, 6, &job->arena, &job->key) &&
      uvs__col_bytes(c, row, 13, &job->arena, &job->payload) &&
      uvs__col_bytes(c, row, 14, &job->arena, &job->meta)) {
    if (job->name == NULL)
      job->name = job->queue;
    return job;
  }
  uvs__arena_free(&job->arena);
  uvs__jobs_free(job);
  return NULL;
}

/* Copies the parts of a job that are not in its row. */
static bool copy_rest(struct walk *w, struct uvs__claimed *job, bool big) {
  struct uvs__db *c = w->c;
  struct uvs__cron *cron;

  if (big && uvs__row(c, UVS__SQL_GET_PAYLOAD, UVS__ARGS(uvs__int(job->row)))) {
    bool copied = uvs__col_bytes(c, UVS__SQL_GET_PAYLOAD, 0, &job->arena, &job->payload);

    uvs__end_rows(c, UVS__SQL_GET_PAYLOAD);
    if (!copied)
      return false;
  }
  if (strcmp(job->queue, UVS__CRON_QUEUE) != 0 ||
      !uvs__row(c, UVS__SQL_FIND_CRON, UVS__ARGS(uvs__text(job->rest))))
    return true;
  job->cron = cron = uvs__arena_alloc(&job->arena, sizeof *cron);
  if (cron != NULL && !uvs__read_cron(c, UVS__SQL_FIND_CRON, &job->arena, cron))
    cron = NULL;
  uvs__end_rows(c, UVS__SQL_FIND_CRON);
  return cron != NULL;
}

static enum step claim(struct walk *w, int class, int64_t visible_us) {
  struct uvs__claimed *job = copy_job(w);

  if (job != NULL && !copy_rest(w, job, uvs__col(w->c, UVS__SQL_VISIBLE, 12) != 0)) {
    uvs__arena_free(&job->arena);
    uvs__jobs_free(job);
    job = NULL;
  }
  if (job == NULL) {
    w->no_memory = true;
    return stop(w, w->c->now_us);
  }
  take_token(w, &w->rate);
  if (is_overdue(w, visible_us))
    take_token(w, &w->catch_up);
  w->crashed += class == UVS__CLASS_LEASED;
  w->running++;
  w->handled++;
  w->bytes += job->payload.size;
  *w->end = job;
  w->end = &job->next;
  return NEXT_JOB;
}

/* Step 3: the lease of the row has ended. Must the job end too? */
static bool has_to_end(struct walk *w) {
  const enum uvs__sql row = UVS__SQL_VISIBLE;
  struct uvs__row job = {.queue = w->queue, .class = UVS__CLASS_LEASED}, successor;

  if (uvs__col(w->c, row, 3) != 0)
    return true;
  job.keyed = uvs__col_copy(w->c, row, 6, job.key, sizeof job.key);
  return uvs__find_successor(w->c, &job, &successor);
}

static enum step note_to_end(struct walk *w) {
  struct to_end *e;

  if (w->handled == w->r->max)
    return stop(w, w->c->now_us);
  e = uvs__arena_alloc(&w->arena, sizeof *e);
  if (e == NULL) {
    w->no_memory = true;
    return stop(w, w->c->now_us);
  }
  e->seq = uvs__col(w->c, UVS__SQL_VISIBLE, 0);
  e->cancelled = uvs__col(w->c, UVS__SQL_VISIBLE, 3) != 0;
  *w->to_end_last = e;
  w->to_end_last = &e->next;
  w->handled++;
  return NEXT_JOB;
}

static enum step look_at(struct walk *w, int class) {
  int64_t visible_us = uvs__col(w->c, UVS__SQL_VISIBLE, 1);
  bool expired = uvs__col(w->c, UVS__SQL_VISIBLE, 2) != 0, may_claim;
  enum step step;

  if (class == UVS__CLASS_LEASED && w->crashed == w->r->max_crashed)
    return NEXT_CLASS; /* 1 */
  if (expired && w->r->pending_only)
    return NEXT_JOB; /* 2 */
  if (expired && has_to_end(w))
    return note_to_end(w); /* 3 */
  step = look_at_bounds(w, visible_us, &may_claim);
  return may_claim ? claim(w, class, visible_us) : step;
}

/* ------------------------------------------------------------------- write --- */

static void write_class(struct walk *w, struct uvs__claimed *job) {
  struct uvs__db *c = w->c;
  struct uvs__bytes none = {NULL, 0};
  struct to_end *e;
  struct uvs__row row;

  for (e = w->to_end; e != NULL; e = e->next) {
    if (uvs__find_row(c, w->r->queue, e->seq, &row))
      uvs__end_job(c, &row, e->cancelled ? UVS_JOB_CANCELLED : UVS_JOB_REPLACED, none);
  }
  for (; job != NULL; job = job->next) {
    if (w->fence == 0)
      w->fence = (uint64_t)uvs__count_up(c, "fence");
    job->fence = w->fence;
    uvs__do(c, UVS__SQL_CLAIM,
            UVS__ARGS(uvs__int(job->row), uvs__int(lease_end(w)), uvs__int((int64_t)w->fence),
                      uvs__int(c->owner), uvs__int(job->crashes)));
  }
}

/* Overdue jobs are the first of their class. If they can get no token, the walk skips all of them
 * at once. In class 3 it looks at each job, because some may have to end. */
static enum step walk_class(struct walk *w, int class) {
  struct uvs__db *c = w->c;
  struct uvs__claimed **from = w->end;
  enum step step = NEXT_JOB;
  bool more;

  w->to_end = NULL;
  w->to_end_last = &w->to_end;
  more = uvs__row(
      c, UVS__SQL_VISIBLE,
      UVS__ARGS(uvs__int(w->queue), uvs__int(class), uvs__int(INT64_MIN), uvs__int(c->now_us)));
  while (more) {
    step = look_at(w, class);
    if (step == NEXT_CLASS || step == STOP)
      break;
    if (step == SKIP_OVERDUE && class != UVS__CLASS_LEASED)
      more = uvs__row(c, UVS__SQL_VISIBLE,
                      UVS__ARGS(uvs__int(w->queue), uvs__int(class),
                                uvs__int(c->now_us - UVS__OVERDUE_US), uvs__int(c->now_us)));
    else
      more = uvs__next_row(c, UVS__SQL_VISIBLE);
  }
  uvs__end_rows(c, UVS__SQL_VISIBLE);
  write_class(w, *from);
  return step;
}

/* --------------------------------------------------------------------- all --- */

/* False: the queue does not exist, or is paused. */
static bool read_queue(struct walk *w) {
  const enum uvs__sql row = UVS__SQL_FIND_QUEUE;
  struct uvs__db *c = w->c;
  bool paused;

  if (!uvs__row(c, row, UVS__ARGS(uvs__text(w->r->queue))))
    return false;
  w->queue = uvs__col(c, row, 0);
  paused = uvs__col(c, row, 1) != 0;
  w->concurrency = uvs__col(c, row, 2);
  w->rate =
      (struct window){.rate = uvs__col(c, row, 3),
                      .length_us = uvs__col(c, row, 4) / 1000 + (uvs__col(c, row, 4) % 1000 > 0),
                      .start_us = uvs__col(c, row, 6),
                      .used = uvs__col(c, row, 7)};
  if (w->rate.length_us < 1)
    w->rate.length_us = 1;
  w->catch_up = (struct window){.rate = uvs__col(c, row, 5),
                                .length_us = SECOND_US,
                                .start_us = uvs__col(c, row, 8),
                                .used = uvs__col(c, row, 9)};
  uvs__end_rows(c, row);
  return !paused;
}

/* next_us of a walk that was not stopped. */
static int64_t next_visible(struct walk *w) {
  int64_t next_us = w->token_us;
  int class;

  for (class = UVS__CLASS_HIGH; class <= UVS__CLASS_LEASED; class ++) {
    int64_t us = uvs__number(w->c, UVS__SQL_NEXT_VISIBLE,
                             UVS__ARGS(uvs__int(w->queue), uvs__int(class), uvs__int(w->c->now_us)),
                             UVS__NEVER_US);

    if (us < next_us)
      next_us = us;
  }
  return next_us;
}

void uvs__free_claimed(struct uvs__claim_request *r) {
  while (r->claimed != NULL) {
    struct uvs__claimed *next = r->claimed->next;

    uvs__arena_free(&r->claimed->arena);
    uvs__jobs_free(r->claimed);
    r->claimed = next;
  }
}

void uvs__do_claim(struct uvs__db *c, struct uvs__claim_request *r) {
  static const int classes[] = {UVS__CLASS_LEASED, UVS__CLASS_HIGH, UVS__CLASS_NORMAL,
                                UVS__CLASS_LOW};
  struct walk w = {.c = c, .r = r, .end = &r->claimed, .token_us = UVS__NEVER_US};
  size_t i;

  r->claimed = NULL;
  r->now_us = c->now_us;
  r->next_us = UVS__NEVER_US;
  if (!read_queue(&w))
    return;
  if (w.concurrency > 0)
    w.running =
        uvs__number(c, UVS__SQL_LEASED, UVS__ARGS(uvs__int(w.queue), uvs__int(c->now_us)), 0);
  for (i = 0; i < sizeof classes / sizeof *classes; i++) {
    if (walk_class(&w, classes[i]) == STOP)
      break;
  }
  if (!w.stopped)
    r->next_us = next_visible(&w);
  if (w.windows_changed)
    uvs__do(c, UVS__SQL_SET_WINDOWS,
            UVS__ARGS(uvs__int(w.queue), uvs__int(w.rate.start_us), uvs__int(w.rate.used),
                      uvs__int(w.catch_up.start_us), uvs__int(w.catch_up.used)));
  if (w.no_memory && w.handled == 0)
    uvs__db_failed(c, SQLITE_NOMEM);
  uvs__arena_free(&w.arena);
}
