/* SPDX-License-Identifier: MIT
 *
 * sqlite_list: GET, LIST, REDRIVE and PURGE of the SQLite store. Lists go through the table in the
 * order of numbers and compare each row with the filter; a page looks at a bounded number of rows.
 * Dead letters are found by their index.
 */
#include <string.h>

#include "jobs/sqlite.h"

#define LOOKED_AT_MAX 5000 /* rows for a page; about 5 ms */

/* A row of INFO_COLUMNS. */
struct seen {
  int64_t seq, visible_us, due_us, put_us;
  int state;
  bool kept, big;
  const char *queue, *rest, *name; /* valid until the next row */
};

static int state_of_row(struct uvs__db *c, enum uvs__sql row) {
  bool claimed = uvs__col(c, row, 3) != 0;

  switch (uvs__col(c, row, 1)) {
  case UVS__CLASS_HELD:
    return UVS_JOB_HELD;
  case UVS__CLASS_DEAD:
    return UVS_JOB_DEAD;
  case UVS__CLASS_KEPT:
  case UVS__CLASS_ENDED:
    return (int)uvs__col(c, row, 2);
  default:
    return claimed ? UVS_JOB_RUNNING : UVS_JOB_PENDING;
  }
}

static const char *text_of_row(struct uvs__db *c, enum uvs__sql row, int column) {
  const char *text = (const char *)sqlite3_column_text(c->statements[row], column);

  if (text == NULL)
    uvs__db_failed(c, SQLITE_NOMEM);
  return text == NULL ? "" : text;
}

static void read_seen(struct uvs__db *c, enum uvs__sql row, struct seen *ret) {
  ret->seq = uvs__col(c, row, 0);
  ret->state = state_of_row(c, row);
  ret->kept = uvs__col(c, row, 1) >= UVS__CLASS_KEPT;
  ret->queue = text_of_row(c, row, 4);
  ret->rest = text_of_row(c, row, 5);
  ret->name = text_of_row(c, row, 6);
  ret->visible_us = uvs__col(c, row, 9);
  ret->due_us = uvs__col(c, row, 10);
  ret->put_us = uvs__col(c, row, 11);
  ret->big = uvs__col(c, row, 17) != 0;
}

/* --------------------------------------------------------------------- info --- */

static bool copy_bytes(struct uvs__db *c, enum uvs__sql row, int column, struct uvs__arena *a,
                       const void **ret, size_t *ret_size) {
  struct uvs__bytes bytes;
  bool copied = uvs__col_bytes(c, row, column, a, &bytes);

  *ret = bytes.data;
  *ret_size = bytes.size;
  return copied;
}

static bool copy_payload(struct uvs__db *c, enum uvs__sql row, const struct seen *seen,
                         struct uvs__arena *a, uvs_job_info_t *ret) {
  bool copied = true;

  if (!seen->big)
    return copy_bytes(c, row, 18, a, &ret->payload, &ret->payload_size);
  if (uvs__row(c, UVS__SQL_GET_PAYLOAD, UVS__ARGS(uvs__int(seen->seq))))
    copied = copy_bytes(c, UVS__SQL_GET_PAYLOAD, 0, a, &ret->payload, &ret->payload_size);
  uvs__end_rows(c, UVS__SQL_GET_PAYLOAD);
  return copied;
}

static bool copy_id(struct uvs__arena *a, const struct seen *seen, const char **ret) {
  size_t size = strlen(seen->queue) + strlen(seen->rest) + 2;
  char *id = uvs__arena_alloc(a, size);

  *ret = id;
  if (id != NULL)
    sqlite3_snprintf((int)size, id, "%s/%s", seen->queue, seen->rest);
  return id != NULL;
}

/* Copies the fields that the record of an end does not have. False: no memory. */
static bool copy_live(struct uvs__db *c, enum uvs__sql row, const struct seen *seen, bool whole,
                      struct uvs__arena *a, uvs_job_info_t *ret) {
  ret->priority = (int)uvs__col(c, row, 8);
  ret->due_ns = (seen->state == UVS_JOB_RUNNING ? seen->visible_us : seen->due_us) * 1000;
  ret->cancelling = uvs__col(c, row, 15) != 0;
  if (!uvs__col_text(c, row, 7, a, &ret->key) || !uvs__col_text(c, row, 16, a, &ret->error))
    return false;
  if (ret->error == NULL)
    ret->error = "";
  if (!whole && seen->state != UVS_JOB_DEAD)
    return true;
  return copy_payload(c, row, seen, a, ret) &&
         copy_bytes(c, row, 19, a, &ret->meta, &ret->meta_size) &&
         copy_bytes(c, row, 20, a, &ret->progress, &ret->progress_size);
}

/* False: no memory. */
static bool copy_info(struct uvs__db *c, enum uvs__sql row, const struct seen *seen, bool whole,
                      struct uvs__arena *a, uvs_job_info_t *ret) {
  ret->size = sizeof *ret;
  ret->state = seen->state;
  ret->put_ns = seen->put_us * 1000;
  ret->ended_ns = uvs__col(c, row, 12) * 1000;
  ret->attempts = (uint32_t)uvs__col(c, row, 13);
  ret->crashes = (uint32_t)uvs__col(c, row, 14);
  ret->error = "";
  if (!copy_id(a, seen, &ret->id) || !uvs__arena_string(a, seen->queue, &ret->queue) ||
      !uvs__arena_string(a, seen->name, &ret->name))
    return false;
  if (!seen->kept)
    return copy_live(c, row, seen, whole, a, ret);
  return !whole || copy_bytes(c, row, 21, a, &ret->result, &ret->result_size);
}

void uvs__do_get(struct uvs__db *c, struct uvs__list_request *r) {
  const enum uvs__sql row = UVS__SQL_GET;
  int64_t queue = uvs__find_queue(c, r->queue);
  struct seen seen;

  r->n = 0;
  r->next = 0;
  r->r.status = UV_ENOENT;
  if (queue == 0 || !uvs__row(c, row, UVS__ARGS(uvs__int(queue), uvs__text(r->rest))))
    return;
  read_seen(c, row, &seen);
  if (!seen.kept || seen.visible_us > c->now_us) {
    r->r.status = 0;
    r->infos = uvs__arena_alloc(&r->arena, sizeof *r->infos);
    if (r->infos != NULL && copy_info(c, row, &seen, true, &r->arena, r->infos))
      r->n = 1;
    else
      uvs__db_failed(c, SQLITE_NOMEM);
  }
  uvs__end_rows(c, row);
}

/* --------------------------------------------------------------------- scan --- */

/* Goes through the rows that match a filter, in the order of numbers. */
struct scan {
  struct uvs__db *c;
  const uvs_job_filter_t *filter;
  enum uvs__sql row;
  int state; /* DEAD, DONE: any end; 0: not ended */
  bool begun;
  unsigned looked_at;
  int64_t cursor; /* all numbers up to here have been looked at */
  struct seen seen;
};

static bool matches(const struct scan *s) {
  const uvs_job_filter_t *f = s->filter;
  int state = s->seen.state;

  if (s->seen.kept && s->seen.visible_us <= s->c->now_us)
    return false;
  if (f->queue != NULL && strcmp(s->seen.queue, f->queue) != 0)
    return false;
  if (f->name != NULL && strcmp(s->seen.name, f->name) != 0)
    return false;
  if (f->overdue && (state != UVS_JOB_PENDING || s->seen.due_us > s->c->now_us))
    return false;
  if (s->state == UVS_JOB_DONE)
    return s->seen.kept;
  if (s->state == 0)
    return !s->seen.kept && state != UVS_JOB_DEAD;
  return !s->seen.kept && state == s->state;
}

static bool first_or_next(struct scan *s, const char *queue, const char *rest) {
  if (s->begun)
    return s->row != UVS__SQL_GET && uvs__next_row(s->c, s->row);
  s->begun = true;
  if (s->row != UVS__SQL_GET)
    return uvs__row(s->c, s->row, UVS__ARGS(uvs__int(s->cursor)));
  return uvs__row(s->c, s->row,
                  UVS__ARGS(uvs__int(uvs__find_queue(s->c, queue)), uvs__text(rest))) &&
         uvs__col(s->c, s->row, 0) > s->cursor;
}

/* Goes to the next row that matches. Returns false if there is none (*ret_more is false), or if the
 * page has looked at enough rows (*ret_more is true). */
static bool next_match(struct scan *s, const char *queue, const char *rest, bool *ret_more) {
  *ret_more = true;
  for (;;) {
    if (s->looked_at == LOOKED_AT_MAX)
      return false;
    if (!first_or_next(s, queue, rest)) {
      *ret_more = false;
      return false;
    }
    s->looked_at++;
    read_seen(s->c, s->row, &s->seen);
    if (matches(s))
      return true;
    s->cursor = s->seen.seq;
  }
}

static void init_scan(struct scan *s, struct uvs__db *c, const uvs_job_filter_t *f, int state,
                      int64_t cursor) {
  memset(s, 0, sizeof *s);
  s->c = c;
  s->filter = f;
  s->state = state;
  s->cursor = cursor;
  s->row = f->id != NULL           ? UVS__SQL_GET
           : state == UVS_JOB_DEAD ? UVS__SQL_SCAN_DEAD
                                   : UVS__SQL_SCAN;
}

static bool is_state(int state) {
  return state == 0 || state == UVS_JOB_PENDING || state == UVS_JOB_RUNNING ||
         state == UVS_JOB_HELD || state == UVS_JOB_DEAD || state == UVS_JOB_DONE;
}

void uvs__do_list(struct uvs__db *c, struct uvs__list_request *r) {
  struct scan s;
  size_t bytes = 0;
  bool more;

  r->n = 0;
  r->next = 0;
  if (!is_state(r->filter.state))
    return;
  r->infos = uvs__arena_alloc(&r->arena, r->limit * sizeof *r->infos);
  if (r->infos == NULL) {
    uvs__db_failed(c, SQLITE_NOMEM);
    return;
  }
  init_scan(&s, c, &r->filter, r->filter.state, r->cursor);
  while (next_match(&s, r->queue, r->rest, &more) && r->n < r->limit && bytes <= UVS__STEP_BYTES) {
    if (!copy_info(c, s.row, &s.seen, false, &r->arena, &r->infos[r->n]))
      uvs__db_failed(c, SQLITE_NOMEM);
    bytes += r->infos[r->n++].payload_size;
    s.cursor = s.seen.seq;
  }
  if (more)
    r->next = s.cursor;
  uvs__end_rows(c, s.row);
}

/* ----------------------------------------------------------- redrive, purge --- */

/* 0, or UV_EEXIST. */
static int redrive(struct uvs__db *c, const struct uvs__row *job) {
  struct uvs__row holder;

  if (job->keyed && uvs__find_holder(c, job->queue_name, job->key, &holder))
    return UV_EEXIST;
  uvs__do(c, UVS__SQL_REDRIVE, UVS__ARGS(uvs__int(job->seq), uvs__int(c->now_us)));
  return 0;
}

void uvs__remove_dead(struct uvs__db *c, const struct uvs__row *job) {
  struct uvs__end end = {.state = UVS_JOB_CANCELLED, .ended_us = job->visible_us};

  uvs__leave_record(c, job, &end);
}

static int purge(struct uvs__db *c, const struct uvs__row *job) {
  if (job->class == UVS__CLASS_DEAD)
    uvs__remove_dead(c, job);
  else
    uvs__drop_row(c, job->seq, false);
  return 0;
}

/* The rows are changed while the scan goes on. That is safe: the scan is by number, and no number
 * changes; a scan of dead letters was sorted before its first row. */
static int each_match(struct scan *s, struct uvs__bulk_request *r,
                      int (*act)(struct uvs__db *c, const struct uvs__row *job)) {
  struct uvs__db *c = s->c;
  struct uvs__row job;
  int rc = UV_ENOENT;
  uint32_t acted = 0;
  bool more;

  while (next_match(s, r->queue, r->rest, &more) && acted < r->limit) {
    s->cursor = s->seen.seq;
    if (s->seen.kept && s->seen.put_us + UVS__REPEAT_US > c->now_us)
      continue; /* still needed for repeated puts */
    acted++;
    if (uvs__find_row(c, s->seen.queue, s->seen.seq, &job))
      rc = act(c, &job);
    r->count += rc == 0;
  }
  uvs__end_rows(c, s->row);
  if (r->filter.id != NULL)
    return rc;
  r->next = more ? s->cursor : 0;
  return 0;
}

static void bulk(struct uvs__db *c, struct uvs__bulk_request *r, bool ends,
                 int (*act)(struct uvs__db *c, const struct uvs__row *job)) {
  struct scan s;

  r->count = 0;
  r->next = 0;
  if (r->filter.state == 0 || r->filter.state == UVS_JOB_DEAD) {
    init_scan(&s, c, &r->filter, UVS_JOB_DEAD, r->cursor);
  } else if (ends && r->filter.state == UVS_JOB_DONE) {
    init_scan(&s, c, &r->filter, UVS_JOB_DONE, r->cursor);
  } else {
    r->r.status = r->filter.id == NULL ? 0 : UV_ENOENT;
    return;
  }
  r->r.status = each_match(&s, r, act);
}

void uvs__do_redrive(struct uvs__db *c, struct uvs__bulk_request *r) {
  bulk(c, r, false, redrive);
}

void uvs__do_purge(struct uvs__db *c, struct uvs__bulk_request *r) {
  bulk(c, r, true, purge);
}
