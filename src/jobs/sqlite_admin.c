/* SPDX-License-Identifier: MIT
 *
 * sqlite_admin: SET_QUEUE, COUNT, EVENTS and TRIM of the SQLite store.
 */
#include <string.h>

#include "jobs/sqlite.h"

#define QUEUES_TRIMMED 100 /* how many queues one TRIM looks at */

/* ------------------------------------------------------------------ queues --- */

static struct uvs__arg unless_unset(int64_t value) {
  return value == -1 ? uvs__text(NULL) : uvs__int(value);
}

void uvs__do_set_queue(struct uvs__db *c, struct uvs__queue_request *r) {
  const uvs_job_queue_t *set = &r->set;

  uvs__do(c, UVS__SQL_SET_QUEUE,
          UVS__ARGS(uvs__int(uvs__make_queue(c, set->name)), unless_unset(set->paused),
                    unless_unset(set->concurrency), unless_unset(set->rate),
                    unless_unset(set->rate_ns), unless_unset(set->catch_up_rate)));
  uvs__event(c, UVS_EVENT_QUEUE_CHANGED, set->name, NULL, "");
}

/* ------------------------------------------------------------------- count --- */

struct dead {
  int64_t queue;
  uint64_t n;
};

/* In the order of the queues' numbers. NULL: none, or an error. */
static struct dead *count_dead(struct uvs__db *c, struct uvs__arena *a, size_t *ret_n) {
  const enum uvs__sql row = UVS__SQL_COUNT_DEAD_BY_QUEUE;
  struct dead *dead = NULL;
  size_t n = 0, room = 0;
  bool more;

  for (more = uvs__row(c, row, NULL); more; more = uvs__next_row(c, row)) {
    if (n == room) {
      struct dead *larger = uvs__arena_alloc(a, (room * 2 + 16) * sizeof *larger);

      if (larger == NULL) {
        uvs__db_failed(c, SQLITE_NOMEM);
        return NULL;
      }
      if (n > 0)
        memcpy(larger, dead, n * sizeof *dead);
      dead = larger;
      room = room * 2 + 16;
    }
    dead[n].queue = uvs__col(c, row, 0);
    dead[n++].n = (uint64_t)uvs__col(c, row, 1);
  }
  *ret_n = n;
  return dead;
}

static uint64_t dead_of(const struct dead *dead, size_t n, int64_t queue) {
  while (n > 0) { /* a binary search */
    size_t half = n / 2;

    if (dead[half].queue == queue)
      return dead[half].n;
    if (dead[half].queue < queue) {
      dead += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return 0;
}

static void add_pending(struct uvs__db *c, enum uvs__sql row, int first, uvs_queue_stats_t *q) {
  int64_t overdue = uvs__col(c, row, first + 1), late_us;

  q->pending += (uint64_t)uvs__col(c, row, first);
  q->overdue += (uint64_t)overdue;
  late_us = c->now_us - uvs__col(c, row, first + 2);
  if (overdue > 0 && late_us * 1000 > q->oldest_overdue_ns)
    q->oldest_overdue_ns = late_us * 1000;
}

/* Returns whether the queue has jobs that have not ended. */
static bool count_queue(struct uvs__db *c, int64_t queue, uvs_queue_stats_t *q) {
  const enum uvs__sql pending = UVS__SQL_COUNT_PENDING, leased = UVS__SQL_COUNT_LEASED;
  struct uvs__arg args[] = {uvs__int(queue), uvs__int(c->now_us), {0, 0, {NULL, 0}}};
  bool more;

  if (uvs__row(c, pending, args))
    add_pending(c, pending, 0, q);
  uvs__end_rows(c, pending);
  for (more = uvs__row(c, leased, args); more; more = uvs__next_row(c, leased)) {
    if (uvs__col(c, leased, 0) != 0)
      q->running += (uint64_t)uvs__col(c, leased, 1);
    else
      add_pending(c, leased, 1, q);
  }
  return q->pending + q->running > 0; /* a held job waits for a job that is running */
}

static void read_settings(struct uvs__db *c, uvs_queue_stats_t *q) {
  const enum uvs__sql row = UVS__SQL_QUEUES;

  if (uvs__col(c, row, 2) == 0)
    return;
  q->paused = (int)uvs__col(c, row, 3);
  q->concurrency = uvs__col(c, row, 4);
  q->rate = uvs__col(c, row, 5);
  q->rate_ns = uvs__col(c, row, 6);
  q->catch_up_rate = uvs__col(c, row, 7);
}

static void add_up(uvs_jobs_stats_t *s, const uvs_queue_stats_t *q) {
  s->pending += q->pending;
  s->overdue += q->overdue;
  s->running += q->running;
  s->dead += q->dead;
  if (q->oldest_overdue_ns > s->oldest_overdue_ns)
    s->oldest_overdue_ns = q->oldest_overdue_ns;
}

void uvs__do_count(struct uvs__db *c, struct uvs__count_request *r) {
  const enum uvs__sql row = UVS__SQL_QUEUES;
  size_t n_dead = 0, n = 0, room = (size_t)uvs__number(c, UVS__SQL_COUNT_QUEUES, NULL, 0);
  struct dead *dead = count_dead(c, &r->arena, &n_dead);
  uvs_queue_stats_t *queues = uvs__arena_alloc(&r->arena, room * sizeof *queues);
  bool more;

  memset(&r->stats, 0, sizeof r->stats);
  r->stats.size = sizeof r->stats;
  if (queues == NULL) {
    uvs__db_failed(c, SQLITE_NOMEM);
    return;
  }
  for (more = uvs__row(c, row, NULL); more && n < room; more = uvs__next_row(c, row)) {
    uvs_queue_stats_t q = {.dead = dead_of(dead, n_dead, uvs__col(c, row, 0))};
    bool listed = count_queue(c, uvs__col(c, row, 0), &q) || q.dead > 0 || uvs__col(c, row, 2) != 0;

    read_settings(c, &q);
    add_up(&r->stats, &q);
    if (!listed)
      continue;
    if (!uvs__col_text(c, row, 1, &r->arena, &q.queue))
      uvs__db_failed(c, SQLITE_NOMEM);
    queues[n++] = q;
  }
  uvs__end_rows(c, row);
  r->stats.kept = (uint64_t)uvs__number(c, UVS__SQL_COUNT_KEPT, UVS__ARGS(uvs__int(c->now_us)), 0);
  r->stats.queues = queues;
  r->stats.n_queues = n;
}

/* ------------------------------------------------------------------- events --- */

void uvs__do_events(struct uvs__db *c, struct uvs__events_request *r) {
  const enum uvs__sql row = UVS__SQL_EVENTS;
  bool more;

  r->n = 0;
  r->last = (uint64_t)uvs__number(c, UVS__SQL_LAST_EVENT, NULL, 0);
  r->events = uvs__arena_alloc(&r->arena, UVS__EVENTS_PAGE * sizeof *r->events);
  if (r->events == NULL) {
    uvs__db_failed(c, SQLITE_NOMEM);
    return;
  }
  for (more = uvs__row(c, row, UVS__ARGS(uvs__int((int64_t)r->after), uvs__int(UVS__EVENTS_PAGE)));
       more; more = uvs__next_row(c, row)) {
    struct uvs__event *e = &r->events[r->n++];

    e->number = (uint64_t)uvs__col(c, row, 0);
    e->what = (int)uvs__col(c, row, 1);
    if (!uvs__col_text(c, row, 2, &r->arena, &e->id) ||
        !uvs__col_text(c, row, 3, &r->arena, &e->text))
      uvs__db_failed(c, SQLITE_NOMEM);
  }
}

/* --------------------------------------------------------------------- trim --- */

static uint32_t left(const struct uvs__trim_request *r) {
  return r->count < r->limit ? r->limit - (uint32_t)r->count : 0;
}

static void trim_ends(struct uvs__db *c, struct uvs__trim_request *r) {
  int64_t now_us = c->now_us, kept, above;
  int class;

  for (class = UVS__CLASS_KEPT; class <= UVS__CLASS_ENDED; class ++)
    r->count += (uint64_t)uvs__do(c, UVS__SQL_EXPIRED,
                                  UVS__ARGS(uvs__int(class), uvs__int(now_us), uvs__int(left(r))));
  kept = uvs__number(c, UVS__SQL_COUNT_KEPT, UVS__ARGS(uvs__int(now_us)), 0);
  above = kept - r->max_done;
  if (above > left(r))
    above = left(r);
  if (above > 0)
    r->count += (uint64_t)uvs__do(
        c, UVS__SQL_OLDEST_KEPT,
        UVS__ARGS(uvs__int(now_us), uvs__int(now_us - UVS__REPEAT_US), uvs__int(above)));
}

static void trim_dead(struct uvs__db *c, struct uvs__trim_request *r) {
  int64_t dead = uvs__number(c, UVS__SQL_COUNT_DEAD, NULL, 0), removed = 0;
  struct uvs__row job;
  char text[40];

  while (left(r) > 0 && uvs__find_oldest_dead(
                            c, dead > r->max_dead ? INT64_MAX : c->now_us - r->dead_age_us, &job)) {
    uvs__remove_dead(c, &job);
    dead--;
    removed++;
    r->count++;
  }
  sqlite3_snprintf(sizeof text, text, "removed: %lld", (long long)removed);
  if (removed > 0)
    uvs__event(c, UVS_EVENT_DEAD_DROPPED, NULL, NULL, text);
}

/* Removes the names of queues that are not used any more. It looks at some queues from a random
 * place on, so that the next TRIM looks at others. */
static void trim_queues(struct uvs__db *c) {
  int64_t last = uvs__number(c, UVS__SQL_LAST_QUEUE, NULL, 0);
  uint32_t random;

  sqlite3_randomness(sizeof random, &random);
  if (last > 0)
    uvs__do(c, UVS__SQL_DROP_QUEUES,
            UVS__ARGS(uvs__int((int64_t)random % last), uvs__int(QUEUES_TRIMMED)));
  c->queue = 0;
}

void uvs__do_trim(struct uvs__db *c, struct uvs__trim_request *r) {
  r->count = 0;
  trim_ends(c, r);
  trim_dead(c, r);
  trim_queues(c);
}
