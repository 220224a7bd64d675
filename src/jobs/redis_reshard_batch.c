/* SPDX-License-Identifier: MIT
 *
 * redis_reshard_batch: moves one batch: exports it into the outbox of the old server, imports it
 * into the new server, and drops it from the outbox. See export.lua, import.lua and drop.lua.
 */
#include <string.h>

#include "jobs/redis_reshard.h"

#define BATCH 200 /* the most items of a batch */

/* ---------------------------------------------------------------------- batch --- */

struct batch {
  struct uvs__arena arena;
  int64_t looked_at, number, fence;
  const char *to, *kind, *from;
  struct uvs__bytes *items; /* id and text of each */
  size_t n;                 /* texts in items: two for each item */
};

static int read_batch(void *to, redisReply *const *body, size_t n) {
  struct batch *b = to;

  if (n < 6 || (n - 6) % 2 != 0)
    return UV_EIO;
  b->looked_at = uvs__redis_int(body[0]);
  b->number = uvs__redis_int(body[1]);
  b->to = uvs__redis_string(&b->arena, uvs__redis_bytes(body[2]));
  b->kind = uvs__redis_string(&b->arena, uvs__redis_bytes(body[3]));
  b->from = uvs__redis_string(&b->arena, uvs__redis_bytes(body[4]));
  b->fence = uvs__redis_int(body[5]);
  b->n = n - 6;
  b->items = uvs__arena_alloc(&b->arena, (b->n + 1) * sizeof *b->items);
  if (b->to == NULL || b->kind == NULL || b->from == NULL || b->items == NULL)
    return UV_ENOMEM;
  for (size_t i = 0; i < b->n; i++) {
    struct uvs__bytes bytes = uvs__redis_bytes(body[6 + i]);

    b->items[i].data = uvs__redis_string(&b->arena, bytes);
    b->items[i].size = bytes.size;
    if (b->items[i].data == NULL)
      return UV_ENOMEM;
  }
  return 0;
}

/* Reads the queue of a batch of jobs. Other batches have no queue. False: no memory. */
static bool queue_of(struct batch *b, struct uvs__queue_names *ret) {
  const char *id, *name;

  ret->n = 0;
  if (strcmp(b->kind, "job") != 0)
    return true;
  id = b->items[0].data;
  name = uvs__redis_string(&b->arena, (struct uvs__bytes){id, strcspn(id, "/")});
  return name != NULL && uvs__queue_index(ret, name) > 0;
}

static void add_import(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  const struct batch *b = from;

  (void)s;
  uvs__words_text(w, b->from);
  uvs__words_int(w, b->number);
  uvs__words_text(w, b->kind);
  uvs__words_int(w, b->fence);
  for (size_t i = 0; i < b->n; i++)
    uvs__words_add(w, b->items[i].data, b->items[i].size);
}

static void add_drop(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  const struct batch *b = from;

  (void)s;
  uvs__words_int(w, b->number);
  uvs__words_text(w, b->kind);
}

static void count(struct uvs__reshard *m, const struct batch *b) {
  uint64_t n = b->n / 2;

  if (strcmp(b->kind, "dead") == 0)
    m->progress.dead += n;
  else if (strcmp(b->kind, "end") == 0)
    m->progress.ends += n;
  else
    m->progress.jobs += n;
}

/* Lets the other server take the batch over, and then drops the batch here. */
static int deliver(struct uvs__reshard_server *s, struct batch *b) {
  struct uvs__reshard *m = s->move;
  struct uvs__reshard_server *to = uvs__reshard_find(m, b->to);
  struct uvs__queue_names queues;
  struct uvs__reshard_command take = {UVS__REDIS_IMPORT, &queues, add_import, b, NULL, NULL},
                              drop = {UVS__REDIS_DROP, &queues, add_drop, b, NULL, NULL};
  int rc;

  if (to == NULL)
    return uvs__reshard_fail(
        m, UV_EINVAL, "%s: its outbox has a batch for %s, which is not in the map", s->name, b->to);
  if (!queue_of(b, &queues))
    return uvs__reshard_fail(m, UV_ENOMEM, "no memory");
  rc = uvs__reshard_tell(m, UVS_RESHARD_EXPORTED, s->name);
  if (rc == 0)
    rc = uvs__reshard_do(to, &take);
  if (rc == 0)
    rc = uvs__reshard_tell(m, UVS_RESHARD_IMPORTED, to->name);
  if (rc == 0)
    rc = uvs__reshard_do(s, &drop);
  if (rc != 0)
    return rc;
  count(m, b);
  return uvs__reshard_tell(m, UVS_RESHARD_MOVED, s->name);
}

/* ---------------------------------------------------------------------- export --- */

static void add_export(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  const struct uvs__reshard_export *e = from;

  uvs__words_text(w, s->redis.run_id);
  uvs__words_text(w, e->to);
  uvs__words_text(w, e->kind);
  for (size_t i = 0; i < e->n && i < BATCH; i++)
    uvs__words_text(w, e->ids[i]);
}

static void add_nothing(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  (void)s;
  (void)w;
  (void)from;
}

/* Puts no jobs: a full server refuses that. Then no batch is made for this server. */
static int has_room(struct uvs__reshard_server *s) {
  struct uvs__queue_names none = {.n = 0};
  struct uvs__reshard_command c = {UVS__REDIS_PUT, &none, add_nothing, NULL, NULL, NULL};

  return uvs__reshard_do(s, &c);
}

/* Moves a batch. If the outbox has an earlier batch, moves that one instead. */
static int move(struct uvs__reshard_server *s, const struct uvs__reshard_export *e,
                const struct uvs__queue_names *queues, size_t *ret_looked_at, size_t *ret_moved) {
  struct batch b = {.n = 0};
  struct uvs__reshard_command c = {UVS__REDIS_EXPORT, queues, add_export, e, read_batch, &b};
  int rc = uvs__reshard_do(s, &c);

  if (rc == 0 && b.n > 0)
    rc = deliver(s, &b);
  *ret_looked_at = (size_t)b.looked_at;
  *ret_moved = b.n / 2;
  uvs__arena_free(&b.arena);
  return rc;
}

int uvs__reshard_move(struct uvs__reshard_server *s, const struct uvs__reshard_export *e,
                      const struct uvs__queue_names *queues, size_t *ret_looked_at,
                      size_t *ret_moved) {
  int rc = has_room(uvs__reshard_find(s->move, e->to));

  return rc != 0 ? rc : move(s, e, queues, ret_looked_at, ret_moved);
}

int uvs__reshard_finish_batch(struct uvs__reshard_server *s) {
  struct uvs__queue_names none = {.n = 0};
  struct uvs__reshard_export nothing = {"", "", NULL, 0};
  size_t looked_at, moved;

  return move(s, &nothing, &none, &looked_at, &moved);
}
