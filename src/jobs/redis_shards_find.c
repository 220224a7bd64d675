/* SPDX-License-Identifier: MIT
 *
 * Requests that one server answers. For a job by its id, the owners of the id's slot are asked
 * first, then all other servers. For a cron, the owner of the cron's slot is asked; for a page of a
 * list, the server that the cursor names.
 */
#include <string.h>

#include "jobs/redis_shards.h"

/* ------------------------------------------------------------------ search --- */

/* The servers that are asked, one after the other, until one has it. */
struct search {
  size_t size; /* of the request */
  struct uvs__shard *shards[UVS__SHARDS_MAX + 3];
  size_t n, at;
  bool all_must_answer; /* if a server does not work, do not ask the next: the first may have it */
};

static void add_shard(struct search *s, struct uvs__shard *shard) {
  if (s->n == 0 || s->shards[s->n - 1] != shard)
    s->shards[s->n++] = shard;
}

/* The old owner is asked before the new one, because jobs go in this direction. */
static void add_owners(const struct uvs__shards *all, struct search *s, unsigned slot) {
  add_shard(s, uvs__shard_before(all, slot));
  add_shard(s, uvs__shard_of(all, slot));
}

static bool loses_slots(const struct uvs__shards *all, const struct uvs__shard *shard) {
  for (unsigned slot = 0; slot < UVS__SLOTS; slot++)
    if (uvs__shard_before(all, slot) == shard && uvs__shard_of(all, slot) != shard)
      return true;
  return false;
}

/* While jobs move, those that lose slots are asked first, because jobs go from them to the others.
 * And one that was elsewhere may have come to its owner in the meantime. */
static void add_others(const struct uvs__shards *all, struct search *s, unsigned slot) {
  struct uvs__shard *owner = uvs__shard_of(all, slot), *before = uvs__shard_before(all, slot);

  for (int losers = all->map->moving; losers >= 0; losers--)
    for (size_t i = 0; i < all->n; i++) {
      struct uvs__shard *shard = all->shards[i];

      if (shard->in_map && shard != owner && shard != before &&
          (!all->map->moving || loses_slots(all, shard) == (losers == 1)))
        add_shard(s, shard);
    }
  if (all->map->moving)
    add_shard(s, owner);
}

static struct uvs__arena *arena_of(struct uvs__request *r) {
  switch (r->op) {
  case UVS__GET:
  case UVS__LIST:
    return &((struct uvs__list_request *)(void *)r)->arena;
  case UVS__SET_CRON:
  case UVS__REMOVE_CRON:
    return &((struct uvs__cron_request *)(void *)r)->arena;
  default:
    return NULL;
  }
}

static void free_answer(struct uvs__sub *sub) {
  if (arena_of(sub->r) != NULL)
    uvs__arena_free(arena_of(sub->r));
}

static bool is_missing(const struct uvs__request *r) {
  if (r->status == UV_ENOENT || r->status == UVS__NOT_HERE)
    return true;
  if (r->status != 0)
    return false;
  return (r->op == UVS__ALTER &&
          ((const struct uvs__alter_request *)(const void *)r)->status == UV_ENOENT) ||
         (r->op == UVS__LIST && ((const struct uvs__list_request *)(const void *)r)->n == 0);
}

/* A request that was carried out may have made a job visible. */
static void note_done(struct uvs__shard *shard, const struct uvs__request *r) {
  if (r->op == UVS__ALTER)
    uvs__shard_due(shard, ((const struct uvs__alter_request *)(const void *)r)->queue, 0);
  else if (r->op == UVS__SET_CRON)
    uvs__shard_due(shard, UVS__CRON_QUEUE, 0);
  else if (r->op == UVS__REDRIVE)
    uvs__shard_due(shard, NULL, 0);
}

/* Copies the answer of a server into the request. */
static void take_answer(struct uvs__sub *sub, size_t size) {
  struct uvs__request *r = sub->task->r;
  struct uvs__arena *to = arena_of(r), *from = arena_of(sub->r), all = {NULL};

  if (to != NULL) {
    all = *to;
    uvs__arena_join(&all, from);
  }
  uvs__copy_request(r, sub->r, size);
  if (to != NULL)
    *to = all;
}

static void next_server(struct uvs__task *t);

static void answered(struct uvs__sub *sub) {
  struct uvs__task *t = sub->task;
  struct search *s = t->more;
  int status = sub->r->status;
  bool again = uvs__may_try_again(status) || status == UVS__IN_TRANSIT;

  if (again) {
    free_answer(sub);
    uvs__task_fail(t, status);
    if (s->all_must_answer || status == UVS__IN_TRANSIT)
      s->at = s->n;
    return;
  }
  take_answer(sub, s->size);
  if (is_missing(sub->r) && s->at < s->n)
    return;
  s->at = s->n;
  if (!is_missing(sub->r))
    t->status = status; /* found, so it does not matter that another server has failed */
  else if (t->status == 0 && status != 0)
    t->status = status == UVS__NOT_HERE ? UV_ENOENT : status;
  note_done(sub->shard, sub->r);
}

static void next_server(struct uvs__task *t) {
  struct search *s = t->more;
  struct uvs__sub *sub;

  if (s->at > 0 && s->at < s->n && t->generation != t->all->current.generation) {
    uvs__task_fail(t, UV_EAGAIN); /* these are servers of the map before */
    s->at = s->n;
  }
  if (s->at == s->n) {
    uvs__task_end(t);
    return;
  }
  uvs__task_begin(t, next_server);
  sub = uvs__sub_new(t, s->shards[s->at++], s->size, t->r->op, answered);
  if (sub == NULL) {
    s->at = s->n;
  } else {
    uvs__copy_request(sub->r, t->r, s->size);
    if (arena_of(sub->r) != NULL)
      *arena_of(sub->r) = (struct uvs__arena){NULL};
    if (t->r->op == UVS__SET_CRON)
      ((struct uvs__cron_request *)(void *)sub->r)->only_if_there = s->at < s->n;
    uvs__sub_send(sub);
  }
  uvs__task_sent(t);
}

/* NULL: no memory, and the task has ended. */
static struct search *new_search(struct uvs__task *t, size_t size) {
  struct search *s = uvs__arena_alloc(&t->arena, sizeof *s);

  if (s == NULL) {
    uvs__task_fail(t, UV_ENOMEM);
    uvs__task_end(t);
    return NULL;
  }
  s->size = size;
  t->more = s;
  return s;
}

static void find_job(struct uvs__task *t, size_t size, const char *queue, const char *rest) {
  struct search *s = new_search(t, size);
  unsigned slot = uvs__redis_slot(queue, rest, NULL);

  if (s == NULL)
    return;
  add_owners(t->all, s, slot);
  add_others(t->all, s, slot);
  next_server(t);
}

void uvs__shards_find(struct uvs__task *t) {
  if (t->r->op == UVS__ALTER) {
    const struct uvs__alter_request *r = (const struct uvs__alter_request *)(void *)t->r;

    find_job(t, sizeof *r, r->queue, r->rest);
  } else {
    const struct uvs__list_request *r = (const struct uvs__list_request *)(void *)t->r;

    find_job(t, sizeof *r, r->queue, r->rest);
  }
}

/* ------------------------------------------------------------------- crons --- */

void uvs__shards_cron(struct uvs__task *t) {
  const struct uvs__cron_request *r = (const struct uvs__cron_request *)(void *)t->r;
  struct search *s = new_search(t, sizeof *r);

  if (s == NULL)
    return;
  s->all_must_answer = true;
  add_owners(t->all, s, uvs__redis_slot(UVS__CRON_QUEUE, r->cron.name, NULL));
  next_server(t);
}

/* ------------------------------------------------------------------- pages --- */

/* A cursor is the server's cursor times UVS__SHARDS_MAX, plus the index of the server. */

/* The first server of the map from this index on, or all->n. */
static size_t server_from(const struct uvs__shards *all, size_t i) {
  while (i < all->n && !all->shards[i]->in_map)
    i++;
  return i;
}

static int64_t *cursor_of(struct uvs__request *r) {
  return r->op == UVS__LIST ? &((struct uvs__list_request *)(void *)r)->cursor
                            : &((struct uvs__bulk_request *)(void *)r)->cursor;
}

static int64_t *next_of(struct uvs__request *r) {
  return r->op == UVS__LIST ? &((struct uvs__list_request *)(void *)r)->next
                            : &((struct uvs__bulk_request *)(void *)r)->next;
}

static void page_answered(struct uvs__sub *sub) {
  struct uvs__task *t = sub->task;
  size_t size = *(size_t *)t->more, i;
  int64_t cursor = *cursor_of(t->r), *next = next_of(t->r);

  if (sub->r->status != 0) {
    free_answer(sub);
    uvs__task_fail(t, sub->r->status);
    return;
  }
  take_answer(sub, size);
  note_done(sub->shard, sub->r);
  *cursor_of(t->r) = cursor;
  if (*next > INT64_MAX / UVS__SHARDS_MAX - 1) {
    uvs__task_fail(t, UV_EOVERFLOW);
    return;
  }
  i = sub->shard->index;
  if (*next == 0)
    i = server_from(t->all, i + 1);
  *next = i == t->all->n ? 0 : *next * UVS__SHARDS_MAX + (int64_t)i;
}

static void ask_page(struct uvs__task *t, size_t size) {
  struct uvs__sub *sub = NULL;
  size_t *kept = uvs__arena_alloc(&t->arena, sizeof *kept);
  int64_t cursor = *cursor_of(t->r);
  size_t given = (size_t)(cursor % UVS__SHARDS_MAX), i = server_from(t->all, given);

  uvs__task_begin(t, uvs__task_end);
  if (kept == NULL) {
    uvs__task_fail(t, UV_ENOMEM);
  } else if (i < t->all->n) {
    *kept = size;
    t->more = kept;
    sub = uvs__sub_new(t, t->all->shards[i], size, t->r->op, page_answered);
  }
  if (sub != NULL) {
    uvs__copy_request(sub->r, t->r, size);
    *cursor_of(sub->r) = i == given ? cursor / UVS__SHARDS_MAX : 0;
    if (arena_of(sub->r) != NULL)
      *arena_of(sub->r) = (struct uvs__arena){NULL};
    uvs__sub_send(sub);
  }
  uvs__task_sent(t);
}

void uvs__shards_page(struct uvs__task *t) {
  if (t->r->op == UVS__LIST) {
    struct uvs__list_request *r = (struct uvs__list_request *)(void *)t->r;

    r->n = 0;
    r->next = 0;
    if (r->filter.id != NULL)
      find_job(t, sizeof *r, r->queue, r->rest);
    else
      ask_page(t, sizeof *r);
  } else {
    struct uvs__bulk_request *r = (struct uvs__bulk_request *)(void *)t->r;

    r->count = 0;
    r->next = 0;
    if (r->filter.id != NULL)
      find_job(t, sizeof *r, r->queue, r->rest);
    else
      ask_page(t, sizeof *r);
  }
}
