/* SPDX-License-Identifier: MIT
 *
 * sqlite_job: one job of the SQLite store: finds it, ends it, and gives its place to its successor.
 * Also writes events.
 */
#include <string.h>

#include "jobs/sqlite.h"

/* ----------------------------------------------------------------- queues --- */

static bool is_remembered(const struct uvs__db *c, const char *name) {
  return c->queue != 0 && strcmp(c->queue_name, name) == 0;
}

static int64_t remember(struct uvs__db *c, const char *name, int64_t queue) {
  if (queue != 0) {
    sqlite3_snprintf(sizeof c->queue_name, c->queue_name, "%s", name);
    c->queue = queue;
  }
  return queue;
}

int64_t uvs__find_queue(struct uvs__db *c, const char *name) {
  if (is_remembered(c, name))
    return c->queue;
  return remember(c, name, uvs__number(c, UVS__SQL_FIND_QUEUE, UVS__ARGS(uvs__text(name)), 0));
}

int64_t uvs__make_queue(struct uvs__db *c, const char *name) {
  int64_t queue = uvs__find_queue(c, name);

  if (queue != 0 || c->rc != SQLITE_OK)
    return queue;
  return remember(c, name, uvs__number(c, UVS__SQL_ADD_QUEUE, UVS__ARGS(uvs__text(name)), 0));
}

/* ------------------------------------------------------------------- find --- */

/* The columns ROW_COLUMNS of a row. */
static void read_row(struct uvs__db *c, enum uvs__sql which, const char *queue,
                     struct uvs__row *ret) {
  ret->seq = uvs__col(c, which, 0);
  ret->queue = uvs__col(c, which, 1);
  ret->class = (int)uvs__col(c, which, 2);
  ret->visible_us = uvs__col(c, which, 3);
  ret->due_us = uvs__col(c, which, 4);
  ret->put_us = uvs__col(c, which, 5);
  ret->keep_us = uvs__col(c, which, 6);
  ret->failures = uvs__col(c, which, 7);
  ret->crashes = uvs__col(c, which, 8);
  ret->fence = (uint64_t)uvs__col(c, which, 9);
  ret->priority = (int)uvs__col(c, which, 10);
  ret->cancelled = uvs__col(c, which, 11) != 0;
  ret->big = uvs__col(c, which, 12) != 0;
  uvs__col_copy(c, which, 13, ret->rest, sizeof ret->rest);
  ret->keyed = uvs__col_copy(c, which, 14, ret->key, sizeof ret->key);
  ret->queue_name = queue;
  uvs__end_rows(c, which);
}

static bool find(struct uvs__db *c, enum uvs__sql which, const char *queue,
                 const struct uvs__arg *args, struct uvs__row *ret) {
  if (!uvs__row(c, which, args))
    return false;
  read_row(c, which, queue, ret);
  return c->rc == SQLITE_OK;
}

bool uvs__find_any(struct uvs__db *c, const char *queue, const char *rest, struct uvs__row *ret) {
  int64_t q = uvs__find_queue(c, queue);

  return q != 0 && find(c, UVS__SQL_FIND, queue, UVS__ARGS(uvs__int(q), uvs__text(rest)), ret);
}

bool uvs__is_past(const struct uvs__db *c, const struct uvs__row *job) {
  return job->class >= UVS__CLASS_KEPT && job->visible_us <= c->now_us;
}

bool uvs__find(struct uvs__db *c, const char *queue, const char *rest, struct uvs__row *ret) {
  return uvs__find_any(c, queue, rest, ret) && !uvs__is_past(c, ret);
}

bool uvs__find_row(struct uvs__db *c, const char *queue, int64_t seq, struct uvs__row *ret) {
  return find(c, UVS__SQL_FIND_ROW, queue, UVS__ARGS(uvs__int(seq)), ret) && !uvs__is_past(c, ret);
}

bool uvs__find_holder(struct uvs__db *c, const char *queue, const char *key, struct uvs__row *ret) {
  int64_t q = uvs__find_queue(c, queue);

  return q != 0 && find(c, UVS__SQL_HOLDER, queue, UVS__ARGS(uvs__int(q), uvs__text(key)), ret);
}

bool uvs__find_oldest_dead(struct uvs__db *c, int64_t before_us, struct uvs__row *ret) {
  return find(c, UVS__SQL_OLDEST_DEAD, "", UVS__ARGS(uvs__int(before_us)), ret);
}

bool uvs__find_successor(struct uvs__db *c, const struct uvs__row *job, struct uvs__row *ret) {
  return job->keyed && job->class != UVS__CLASS_HELD &&
         find(c, UVS__SQL_SUCCESSOR, job->queue_name,
              UVS__ARGS(uvs__int(job->queue), uvs__text(job->key)), ret);
}

/* -------------------------------------------------------------------- end --- */

void uvs__event(struct uvs__db *c, int what, const char *queue, const char *rest,
                const char *text) {
  char id[UVS_JOB_ID_MAX + 1];
  int64_t number;

  sqlite3_snprintf(sizeof id, id, rest == NULL ? "%s%s" : "%s/%s", queue == NULL ? "" : queue,
                   rest == NULL ? "" : rest);
  number = uvs__number(
      c, UVS__SQL_ADD_EVENT,
      UVS__ARGS(uvs__int(what), uvs__text(queue == NULL ? NULL : id), uvs__text(text)), 0);
  uvs__do(c, UVS__SQL_TRIM_EVENTS, UVS__ARGS(uvs__int(number - UVS__EVENTS_KEPT)));
  c->events = true;
}

void uvs__drop_row(struct uvs__db *c, int64_t seq, bool big) {
  uvs__do(c, UVS__SQL_DELETE, UVS__ARGS(uvs__int(seq)));
  if (big)
    uvs__do(c, UVS__SQL_DROP_PAYLOAD, UVS__ARGS(uvs__int(seq)));
}

void uvs__promote(struct uvs__db *c, const struct uvs__row *job) {
  if (job->keyed && job->class != UVS__CLASS_HELD)
    uvs__do(c, UVS__SQL_PROMOTE, UVS__ARGS(uvs__int(job->queue), uvs__text(job->key)));
}

void uvs__leave_record(struct uvs__db *c, const struct uvs__row *job, const struct uvs__end *end) {
  int64_t repeat_us = job->put_us + UVS__REPEAT_US, until_us = repeat_us;

  if (end->keep_us > 0 && end->keep_us < UVS__NEVER_US - c->now_us &&
      until_us < c->now_us + end->keep_us)
    until_us = c->now_us + end->keep_us;
  else if (end->keep_us >= UVS__NEVER_US - c->now_us)
    until_us = UVS__NEVER_US;
  if (until_us < end->least_us)
    until_us = end->least_us;
  if (until_us <= c->now_us) {
    uvs__drop_row(c, job->seq, job->big);
    return;
  }
  uvs__do(c, UVS__SQL_KEEP_END,
          UVS__ARGS(uvs__int(job->seq),
                    uvs__int(until_us > repeat_us && end->least_us == 0 ? UVS__CLASS_KEPT
                                                                        : UVS__CLASS_ENDED),
                    uvs__int(until_us), uvs__int(end->state), uvs__int(end->ended_us),
                    uvs__int(job->failures), uvs__blob(end->result),
                    uvs__int((int64_t)end->fence)));
  if (job->big)
    uvs__do(c, UVS__SQL_DROP_PAYLOAD, UVS__ARGS(uvs__int(job->seq)));
}

void uvs__end_job(struct uvs__db *c, const struct uvs__row *job, int state,
                  struct uvs__bytes result) {
  struct uvs__end end = {
      .state = state, .ended_us = c->now_us, .keep_us = job->keep_us, .result = result};

  if (state == UVS_JOB_CANCELLED)
    uvs__event(c, UVS_EVENT_CANCELLED, job->queue_name, job->rest, "");
  else if (state == UVS_JOB_REPLACED)
    uvs__event(c, UVS_EVENT_REPLACED, job->queue_name, job->rest, "");
  uvs__leave_record(c, job, &end);
  uvs__promote(c, job);
}

void uvs__die(struct uvs__db *c, const struct uvs__row *job, const char *error) {
  uvs__do(c, UVS__SQL_DIE,
          UVS__ARGS(uvs__int(job->seq), uvs__int(c->now_us), uvs__int(UVS_JOB_DEAD),
                    uvs__int(job->failures), uvs__text(error)));
  uvs__event(c, UVS_EVENT_DEAD, job->queue_name, job->rest, error == NULL ? "" : error);
  uvs__promote(c, job);
}
