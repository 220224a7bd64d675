/* SPDX-License-Identifier: MIT
 *
 * redis_reshard_pass: one pass over a server. It reads all jobs, crons, dead letters and records of
 * ends page by page, finds the server that each one belongs to, and moves those that belong to
 * another server: in batches, through the outbox.
 *
 * WHAT STAYS. A job that is running or held stays until it is pending or has ended. A job without a
 * key that was put after the move began stays on a server that keeps slots: only a run on that
 * server can have put it there, with an id that nobody else knows. So a chain of such jobs does not
 * keep the move from ending.
 *
 * CLEAN. A pass may miss a job that is put during the pass. The field `strays` counts the puts here
 * of things that belong to another server. A server is clean if a pass has found nothing, and
 * `strays` has not changed during the pass. If the server keeps no slots, no job at all may have
 * been put during the pass.
 */
#include <stdlib.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_reshard.h"

#define JOBS_PAGE 500 /* of HSCAN */
#define ENDS_PAGE 100 /* of HSCAN; an end may have a result of 64 KiB */
#define DEAD_PAGE 20  /* a dead letter has its payload */

/* ------------------------------------------------------------------------ page --- */

/* An item of the page that is to be moved. */
struct found {
  const char *id; /* in the arena; for a job the part behind the queue */
  size_t to;      /* index in the map */
};

struct pass {
  struct uvs__reshard_server *server;
  size_t self; /* index of the server in the map; SIZE_MAX: it is not there */
  struct uvs__arena arena;
  const char *kind, *queue; /* queue: of jobs; else NULL */
  struct found *found;
  size_t n;
  int64_t cursor;
  uint64_t moved, running;
};

static void forget_page(struct pass *p) {
  uvs__arena_free(&p->arena);
  p->found = NULL;
  p->n = 0;
}

/* Does the server keep some slots? */
static bool stays(const struct pass *p) {
  return p->self < p->server->move->map.n;
}

/* Does this belong to another server, and must it move? *ret: index of the server it belongs to. */
static bool is_elsewhere(const struct pass *p, const char *queue, const char *rest, const char *key,
                         int64_t number, size_t *ret) {
  const struct uvs__redis_map *map = &p->server->move->map;

  *ret = map->owner[uvs__redis_slot(queue, rest, key)];
  return *ret != p->self && (key != NULL || !stays(p) || number <= p->server->moved_from ||
                             strcmp(queue, UVS__CRON_QUEUE) == 0);
}

static void add_found(struct pass *p, const char *id, size_t to) {
  p->found[p->n++] = (struct found){id, to};
}

static int make_room(struct pass *p, size_t n) {
  p->found = uvs__arena_alloc(&p->arena, (n + 1) * sizeof *p->found);
  p->n = 0;
  return p->found == NULL ? UV_ENOMEM : 0;
}

/* Moves all items of the page that belong to one server. */
static int move_to(struct pass *p, size_t to, const char **ids) {
  struct uvs__reshard *m = p->server->move;
  struct uvs__queue_names queues = {.n = 0};
  struct uvs__reshard_export e = {m->map.servers[to], p->kind, ids, 0};
  int rc = 0;

  for (size_t i = 0; i < p->n; i++)
    if (p->found[i].to == to)
      ids[e.n++] = p->found[i].id;
  if (e.n == 0)
    return 0;
  if (p->queue != NULL)
    uvs__queue_index(&queues, p->queue);
  while (e.n > 0 && rc == 0) {
    size_t looked_at = 0, moved = 0;

    rc = uvs__reshard_move(p->server, &e, &queues, &looked_at, &moved);
    p->moved += moved;
    e.ids += looked_at;
    e.n -= looked_at;
  }
  return rc;
}

static int move_page(struct pass *p) {
  const char **ids = uvs__arena_alloc(&p->arena, (p->n + 1) * sizeof *ids);
  int rc = ids == NULL ? UV_ENOMEM : 0;

  for (size_t to = 0; to < p->server->move->map.n && rc == 0 && p->n > 0; to++)
    rc = move_to(p, to, ids);
  forget_page(p);
  return rc;
}

/* ------------------------------------------------------------------------ jobs --- */

static int look_at_job(struct pass *p, redisReply *const *body) {
  struct uvs__reader head = uvs__reader_of(uvs__redis_bytes(body[3]));
  struct uvs__bytes run_text = uvs__redis_bytes(body[2]);
  const char *rest = uvs__redis_string(&p->arena, uvs__redis_bytes(body[0])), *key = NULL;
  struct uvs__redis_run run = {.claimed = false};
  struct uvs__redis_record record;
  size_t to;

  if (!uvs__redis_read_record(&head, false, &record) ||
      (run_text.size > 0 && !uvs__redis_read_run(run_text, &run)))
    return UV_EIO;
  if (record.key.size > 0)
    key = uvs__redis_string(&p->arena, record.key);
  if (rest == NULL || (record.key.size > 0 && key == NULL))
    return UV_ENOMEM;
  if (!is_elsewhere(p, p->queue, rest, key, record.number, &to))
    return 0;
  if (run.claimed || run.held)
    p->running++;
  else
    add_found(p, rest, to);
  return 0;
}

static int read_jobs(void *to, redisReply *const *body, size_t n) {
  struct pass *p = to;
  int rc = n == 0 ? UV_EIO : make_room(p, n / 4);

  for (size_t i = 1; i + 4 <= n && rc == 0; i += 4)
    rc = look_at_job(p, body + i);
  if (rc == 0)
    p->cursor = strtoll(uvs__redis_bytes(body[0]).data, NULL, 10);
  return rc;
}

static int look_at_letter(struct pass *p, redisReply *const *body) {
  struct uvs__bytes id = uvs__redis_bytes(body[0]);
  uvs_job_info_t info = {.size = 0};
  int64_t number;
  size_t to;
  int rc = uvs__redis_read_dead(&p->arena, id, uvs__redis_bytes(body[1]), &info, &number);

  if (rc != 0)
    return rc;
  if (is_elsewhere(p, info.queue, info.id + strlen(info.queue) + 1, info.key, number, &to))
    add_found(p, info.id, to);
  return 0;
}

static int look_at_end(struct pass *p, redisReply *const *body) {
  struct uvs__bytes id = uvs__redis_bytes(body[0]);
  uvs_job_info_t info = {.size = 0};
  const char *key = NULL;
  int64_t number;
  size_t to;
  int rc =
      uvs__redis_read_end(&p->arena, id, uvs__redis_bytes(body[1]), false, &info, &number, &key);

  if (rc != 0)
    return rc;
  if (is_elsewhere(p, info.queue, info.id + strlen(info.queue) + 1, key, number, &to))
    add_found(p, info.id, to);
  return 0;
}

static int read_others(struct pass *p, redisReply *const *body, size_t n,
                       int (*look_at)(struct pass *, redisReply *const *)) {
  int rc = n == 0 ? UV_EIO : make_room(p, n / 2);

  for (size_t i = 1; i + 2 <= n && rc == 0; i += 2)
    rc = look_at(p, body + i);
  if (rc == 0)
    p->cursor = strtoll(uvs__redis_bytes(body[0]).data, NULL, 10);
  return rc;
}

static int read_letters(void *to, redisReply *const *body, size_t n) {
  return read_others(to, body, n, look_at_letter);
}

static int read_ends(void *to, redisReply *const *body, size_t n) {
  return read_others(to, body, n, look_at_end);
}

struct page {
  const char *what;
  int64_t cursor;
  int n;
};

static void add_page(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  const struct page *page = from;

  (void)s;
  uvs__words_text(w, page->what);
  uvs__words_int(w, page->cursor);
  uvs__words_int(w, page->n);
}

/* Looks at all jobs of a queue, all dead letters, or all ends. */
static int walk(struct pass *p, const char *what, int page_size, const char *kind,
                const char *queue, int (*read)(void *, redisReply *const *, size_t)) {
  struct uvs__queue_names queues = {.n = 0};
  int rc;

  p->kind = kind;
  p->queue = queue;
  p->cursor = 0;
  if (queue != NULL)
    uvs__queue_index(&queues, queue);
  do {
    struct page page = {what, p->cursor, page_size};
    struct uvs__reshard_command c = {UVS__REDIS_SCAN, &queues, add_page, &page, read, p};

    rc = uvs__reshard_do(p->server, &c);
    if (rc == 0)
      rc = move_page(p);
    forget_page(p);
  } while (rc == 0 && p->cursor != 0);
  return rc;
}

/* ------------------------------------------------------------------------ crons --- */

/* A cron whose tick was cancelled has no job. */
static int read_crons(void *to, redisReply *const *body, size_t n) {
  struct pass *p = to;
  int rc = make_room(p, n / 3);

  for (size_t i = 0; i + 3 <= n && rc == 0; i += 3) {
    const char *name = uvs__redis_string(&p->arena, uvs__redis_bytes(body[i]));
    size_t owner;

    if (name == NULL)
      rc = UV_ENOMEM;
    else if (uvs__redis_int(body[i + 2]) == UVS__NEVER_US &&
             is_elsewhere(p, UVS__CRON_QUEUE, name, NULL, 0, &owner))
      add_found(p, name, owner);
  }
  return rc;
}

static void add_nothing(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  (void)s;
  (void)w;
  (void)from;
}

static int walk_crons(struct pass *p) {
  struct uvs__queue_names queues = {{UVS__CRON_QUEUE}, 1};
  struct uvs__reshard_command c = {UVS__REDIS_CRONS, &queues, add_nothing, NULL, read_crons, p};
  int rc;

  p->kind = "job";
  p->queue = UVS__CRON_QUEUE;
  rc = uvs__reshard_do(p->server, &c);
  if (rc == 0)
    rc = move_page(p);
  forget_page(p);
  return rc;
}

/* ------------------------------------------------------------------------- pass --- */

static void add_names(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  (void)from;
  uvs__words_text(w, "ZRANGE");
  uvs__words_text(w, uvs__redis_key(&s->redis, &w->arena, "queues", ""));
  uvs__words_text(w, "0");
  uvs__words_text(w, "-1");
}

static int read_names(void *to, redisReply *const *body, size_t n) {
  struct uvs__reshard_names *names = to;
  const redisReply *list = body[0];

  (void)n;
  if (list->type != REDIS_REPLY_ARRAY)
    return UV_EIO;
  names->names = uvs__arena_alloc(&names->arena, (list->elements + 1) * sizeof *names->names);
  if (names->names == NULL)
    return UV_ENOMEM;
  for (names->n = 0; names->n < list->elements; names->n++) {
    names->names[names->n] =
        uvs__redis_string(&names->arena, uvs__redis_bytes(list->element[names->n]));
    if (names->names[names->n] == NULL)
      return UV_ENOMEM;
  }
  return 0;
}

int uvs__reshard_queues(struct uvs__reshard_server *s, struct uvs__reshard_names *ret) {
  struct uvs__reshard_command c = {UVS__REDIS_NO_SCRIPT, NULL, add_names, NULL, read_names, ret};
  int rc;

  rc = uvs__reshard_do(s, &c);
  if (rc != 0)
    uvs__arena_free(&ret->arena);
  return rc;
}

/* Counts of puts. If they change during a pass, the pass may have missed something. */
struct puts {
  int64_t strays, number;
};

static void add_ask_puts(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  (void)from;
  uvs__words_text(w, "HMGET");
  uvs__words_text(w, uvs__redis_key(&s->redis, &w->arena, "meta", ""));
  uvs__words_text(w, "strays");
  uvs__words_text(w, "number");
}

static int read_puts(void *to, redisReply *const *body, size_t n) {
  struct puts *puts = to;

  (void)n;
  if (body[0]->type != REDIS_REPLY_ARRAY || body[0]->elements != 2)
    return UV_EIO;
  puts->strays = strtoll(uvs__redis_bytes(body[0]->element[0]).data, NULL, 10);
  puts->number = strtoll(uvs__redis_bytes(body[0]->element[1]).data, NULL, 10);
  return 0;
}

static int ask_puts(struct uvs__reshard_server *s, struct puts *ret) {
  struct uvs__reshard_command c = {UVS__REDIS_NO_SCRIPT, NULL, add_ask_puts, NULL, read_puts, ret};

  return uvs__reshard_do(s, &c);
}

/* Ticks move with their crons, as jobs of UVS__CRON_QUEUE. Jobs come before dead letters and ends,
 * because a job may become one of these meanwhile. */
static int walk_all(struct pass *p) {
  struct uvs__reshard_names names = {.n = 0};
  int rc = uvs__reshard_queues(p->server, &names);

  if (rc != 0)
    return rc;
  for (size_t i = 0; i < names.n && rc == 0; i++)
    rc = walk(p, "jobs", JOBS_PAGE, "job", names.names[i], read_jobs);
  uvs__arena_free(&names.arena);
  if (rc == 0)
    rc = walk_crons(p);
  if (rc == 0)
    rc = walk(p, "dead", DEAD_PAGE, "dead", NULL, read_letters);
  if (rc == 0)
    rc = walk(p, "ends", ENDS_PAGE, "end", NULL, read_ends);
  return rc;
}

int uvs__reshard_pass(struct uvs__reshard_server *s, uint64_t *ret_running) {
  struct pass p = {.server = s, .self = uvs__redis_map_find(&s->move->map, s->name)};
  struct puts before = {0, 0}, after = {0, 0};
  int rc = uvs__reshard_finish_batch(s);

  if (rc == 0)
    rc = ask_puts(s, &before);
  if (rc == 0)
    rc = walk_all(&p);
  if (rc == 0)
    rc = ask_puts(s, &after);
  s->clean = rc == 0 && p.moved == 0 && p.running == 0 && before.strays == after.strays &&
             (stays(&p) || before.number == after.number);
  strcpy(s->clean_run, s->redis.run_id);
  *ret_running = p.running;
  if (rc == UV_ENOMEM)
    return uvs__reshard_fail(s->move, rc, "no memory");
  return rc;
}
