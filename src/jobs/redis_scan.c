/* SPDX-License-Identifier: MIT
 *
 * redis_scan: finds the jobs that a filter matches. Jobs that have not ended are in one hash for
 * each queue, so a scan goes from queue to queue. Dead letters and ends are in one place each.
 *
 * CURSOR. Dead letters: the number of the last one. Ends: the cursor of HSCAN. Jobs: the index of
 * the queue times 2^40, plus the cursor of HSCAN. HSCAN's cursors are below the size of the hash's
 * table, and 2^40 entries need more memory than a server has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_store.h"

#define PAGES 20 /* most commands for one page of the requester; then the page is short */
#define NAMES 50 /* queues whose names are asked for at once */
#define QUEUE_BITS 40
#define IN_QUEUE ((INT64_C(1) << QUEUE_BITS) - 1)

enum { NOTHING, JOBS, DEAD, ENDS, IN_OUTBOX };

/* ------------------------------------------------------------------- names --- */

static void on_names(void *arg, int status, const redisReply *reply, int64_t sent_ns,
                     int64_t received_ns) {
  struct uvs__redis_names *names = arg;
  struct uvs__redis *s = names->store;

  (void)sent_ns;
  (void)received_ns;
  if (status != 0)
    snprintf(s->face->trouble, sizeof s->face->trouble, "%s", s->link->trouble);
  else if (reply->type != REDIS_REPLY_ARRAY)
    status = UV_EIO;
  if (status == 0)
    names->named(names, 0, (redisReply *const *)reply->element, reply->elements);
  else
    names->named(names, status, NULL, 0);
}

void uvs__redis_ask_names(struct uvs__redis_names *names, int64_t from, int64_t n) {
  struct uvs__words w = {0};
  const char *key = uvs__redis_key(names->store, &w.arena, "queues", "");
  int rc = UV_ENOMEM;

  uvs__words_text(&w, "ZRANGE");
  uvs__words_text(&w, key);
  uvs__words_int(&w, from);
  uvs__words_int(&w, n < 0 ? -1 : from + n - 1);
  if (key != NULL && !w.no_memory)
    rc = uvs__redis_link_send(names->store->link, UVS__REDIS_NO_SCRIPT, w.n, w.words, w.sizes,
                              false, on_names, names);
  uvs__words_free(&w);
  if (rc != 0)
    names->named(names, rc, NULL, 0);
}

/* ----------------------------------------------------------------- matches --- */

static int kind_of_state(int state) {
  switch (state) {
  case 0:
  case UVS_JOB_PENDING:
  case UVS_JOB_RUNNING:
  case UVS_JOB_HELD:
    return JOBS;
  case UVS_JOB_DEAD:
    return DEAD;
  case UVS_JOB_DONE:
    return ENDS;
  default:
    return NOTHING;
  }
}

static bool matches(const struct uvs__redis_scan *scan, const uvs_job_info_t *info) {
  const uvs_job_filter_t *f = scan->filter;

  if ((f->queue != NULL && strcmp(f->queue, info->queue) != 0) ||
      (f->name != NULL && strcmp(f->name, info->name) != 0))
    return false;
  if (scan->kind == JOBS && f->state != 0 && f->state != info->state)
    return false;
  return !f->overdue ||
         (info->state == UVS_JOB_PENDING && info->due_ns / 1000 <= scan->call.wall_ns / 1000);
}

/* Room for one more. NULL: no memory. */
static struct uvs__match *next_match(struct uvs__redis_scan *scan) {
  if (scan->n == scan->room) {
    size_t room = scan->room == 0 ? 16 : 2 * scan->room;
    struct uvs__match *more = uvs__jobs_realloc(scan->matches, room * sizeof *more);

    if (more == NULL)
      return NULL;
    scan->matches = more;
    scan->room = room;
  }
  memset(&scan->matches[scan->n], 0, sizeof *scan->matches);
  return &scan->matches[scan->n];
}

/* `text` has the elements of one job, dead letter or end. */
static int add_match(struct uvs__redis_scan *scan, redisReply *const *text) {
  struct uvs__match *m = next_match(scan);
  struct uvs__bytes id = uvs__redis_bytes(text[0]);
  int rc = UV_ENOMEM;

  if (m == NULL)
    return rc;
  if (scan->kind == JOBS)
    rc = uvs__redis_read_job(scan->arena, scan->names[0], id, uvs__redis_int(text[1]),
                             uvs__redis_bytes(text[2]), uvs__redis_bytes(text[3]), false, &m->info,
                             &m->number);
  else if (scan->kind == DEAD)
    rc = uvs__redis_read_dead(scan->arena, id, uvs__redis_bytes(text[1]), &m->info, &m->number);
  else
    rc = uvs__redis_read_end(scan->arena, id, uvs__redis_bytes(text[1]), false, &m->info,
                             &m->number, NULL);
  if (rc == 0 && matches(scan, &m->info))
    scan->n++;
  return rc;
}

static int compare_numbers(const void *a, const void *b) {
  int64_t x = ((const struct uvs__match *)a)->number, y = ((const struct uvs__match *)b)->number;

  return (x > y) - (x < y);
}

static void finish(struct uvs__redis_scan *scan, int status) {
  if (status == 0 && scan->n > 0)
    qsort(scan->matches, scan->n, sizeof *scan->matches, compare_numbers);
  scan->found(scan, status);
}

/* ------------------------------------------------------------------- pages --- */

static void next_page(struct uvs__redis_scan *scan);

static void next_queue(struct uvs__redis_scan *scan) {
  scan->cursor = ((scan->cursor >> QUEUE_BITS) + 1) << QUEUE_BITS;
  scan->names++;
  scan->n_names--;
}

/* Where the next page begins. */
static int move_cursor(struct uvs__redis_scan *scan, int64_t next) {
  if (scan->kind != JOBS) {
    scan->cursor = next;
    return 0;
  }
  if (next > IN_QUEUE)
    return UV_EOVERFLOW;
  if (next != 0)
    scan->cursor = (scan->cursor & ~IN_QUEUE) | next;
  else if (scan->filter->queue != NULL)
    scan->cursor = 0;
  else
    next_queue(scan);
  return 0;
}

static void on_page(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  struct uvs__redis_scan *scan = (struct uvs__redis_scan *)(void *)call;
  size_t each = scan->kind == JOBS ? 4 : 2;

  if (status == 0 && n == 0)
    status = UV_EIO;
  for (size_t i = 1; i + each <= n && status == 0; i += each)
    status = add_match(scan, body + i);
  if (status == 0)
    status = move_cursor(scan, strtoll(uvs__redis_bytes(body[0]).data, NULL, 10));
  if (status != 0 || scan->cursor == 0 || scan->n >= scan->limit || ++scan->pages == PAGES)
    finish(scan, status);
  else
    next_page(scan);
}

static void ask_page(struct uvs__redis_scan *scan) {
  static const char *const whats[] = {[JOBS] = "jobs", [DEAD] = "dead", [ENDS] = "ends"};
  struct uvs__queue_names queues = {.n = 0};
  struct uvs__words w = {0};

  if (scan->kind == JOBS)
    uvs__queue_index(&queues, scan->names[0]);
  scan->call.answered = on_page;
  uvs__redis_begin(scan->call.store, &w, &queues);
  uvs__words_text(&w, whats[scan->kind]);
  uvs__words_int(&w, scan->kind == JOBS ? scan->cursor & IN_QUEUE : scan->cursor);
  uvs__words_int(&w, scan->limit);
  uvs__redis_send(&scan->call, UVS__REDIS_SCAN, &w, false);
}

struct ask_names {
  struct uvs__redis_names names;
  struct uvs__redis_scan *scan;
};

static int copy_names(struct uvs__redis_scan *scan, redisReply *const *list, size_t n) {
  scan->names = uvs__arena_alloc(scan->arena, (n + 1) * sizeof *scan->names);
  if (scan->names == NULL)
    return UV_ENOMEM;
  for (size_t i = 0; i < n; i++) {
    struct uvs__bytes name = uvs__redis_bytes(list[i]);

    scan->names[i] = uvs__arena_copy(scan->arena, name.data, name.size);
    if (scan->names[i] == NULL)
      return UV_ENOMEM;
  }
  scan->n_names = n;
  return 0;
}

static void on_queues(struct uvs__redis_names *names, int status, redisReply *const *list,
                      size_t n) {
  struct ask_names *ask = (struct ask_names *)(void *)names;
  struct uvs__redis_scan *scan = ask->scan;

  uvs__jobs_free(ask);
  if (status == 0)
    status = copy_names(scan, list, n);
  if (status == 0 && n > 0) {
    ask_page(scan);
    return;
  }
  if (status == 0)
    scan->cursor = 0; /* that was the last queue */
  finish(scan, status);
}

static void next_page(struct uvs__redis_scan *scan) {
  struct ask_names *ask;

  if (scan->kind != JOBS || scan->n_names > 0) {
    ask_page(scan);
    return;
  }
  ask = uvs__jobs_alloc(sizeof *ask);
  if (ask == NULL) {
    finish(scan, UV_ENOMEM);
    return;
  }
  ask->names.store = scan->call.store;
  ask->names.named = on_queues;
  ask->scan = scan;
  uvs__redis_ask_names(&ask->names, scan->cursor >> QUEUE_BITS, NAMES);
}

/* --------------------------------------------------------------- one by id --- */

static int read_one(struct uvs__redis_scan *scan, redisReply *const *body, size_t n,
                    int *ret_kind) {
  struct uvs__match *m = next_match(scan);
  size_t size = strlen(scan->queue) + strlen(scan->rest) + 2;
  char *text = uvs__arena_alloc(scan->arena, size);
  struct uvs__bytes id = {text, size - 1}, rest = {scan->rest, strlen(scan->rest)};

  if (m == NULL || text == NULL)
    return UV_ENOMEM;
  snprintf(text, size, "%s/%s", scan->queue, scan->rest);
  *ret_kind = n == 0 ? NOTHING : (int)uvs__redis_int(body[0]);
  if (*ret_kind == JOBS && n >= 4)
    return uvs__redis_read_job(scan->arena, scan->queue, rest, uvs__redis_int(body[1]),
                               uvs__redis_bytes(body[2]), uvs__redis_bytes(body[3]), scan->whole,
                               &m->info, &m->number);
  if (*ret_kind == DEAD && n >= 2)
    return uvs__redis_read_dead(scan->arena, id, uvs__redis_bytes(body[1]), &m->info, &m->number);
  if (*ret_kind == ENDS && n >= 2)
    return uvs__redis_read_end(scan->arena, id, uvs__redis_bytes(body[1]), scan->whole, &m->info,
                               &m->number, NULL);
  if (*ret_kind == IN_OUTBOX)
    return UVS__IN_TRANSIT;
  return *ret_kind == NOTHING ? 0 : UV_EIO;
}

static void on_one(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  struct uvs__redis_scan *scan = (struct uvs__redis_scan *)(void *)call;
  int kind = NOTHING;

  scan->cursor = 0;
  if (status == 0)
    status = read_one(scan, body, n, &kind);
  if (status == 0 && kind != NOTHING &&
      (scan->filter == NULL || (kind == scan->kind && matches(scan, &scan->matches[0].info))))
    scan->n = 1;
  finish(scan, status);
}

static void ask_one(struct uvs__redis_scan *scan) {
  struct uvs__queue_names queues = {{scan->queue}, 1};
  struct uvs__words w = {0};

  scan->call.answered = on_one;
  uvs__redis_begin(scan->call.store, &w, &queues);
  uvs__words_text(&w, scan->rest);
  uvs__redis_send(&scan->call, UVS__REDIS_GET, &w, false);
}

/* -------------------------------------------------------------------- scan --- */

void uvs__redis_scan(struct uvs__redis_scan *scan) {
  const uvs_job_filter_t *f = scan->filter;

  scan->kind = f == NULL ? NOTHING : kind_of_state(f->state);
  if (f == NULL || (f->id != NULL && scan->kind != NOTHING)) {
    ask_one(scan);
    return;
  }
  if (scan->kind == NOTHING) {
    scan->cursor = 0;
    finish(scan, 0);
    return;
  }
  if (scan->kind == JOBS && f->queue != NULL) {
    struct uvs__bytes name = {f->queue, strlen(f->queue)};

    scan->names = uvs__arena_alloc(scan->arena, sizeof *scan->names);
    if (scan->names == NULL ||
        (scan->names[0] = uvs__arena_copy(scan->arena, name.data, name.size)) == NULL) {
      finish(scan, UV_ENOMEM);
      return;
    }
    scan->n_names = 1;
  }
  next_page(scan);
}

void uvs__redis_scan_free(struct uvs__redis_scan *scan) {
  uvs__jobs_free(scan->matches);
  scan->matches = NULL;
}
