/* SPDX-License-Identifier: MIT
 *
 * PUT: each put goes to the server that owns its slot. SETTLE: the items go to the server where
 * they were claimed. A put of an item stays with its item, and so is one step with it, if its slot
 * is on that server, or if nobody else can put such a job: it has no key, and its id was made for
 * this put; or it has the key of the job that ends. The other puts are carried out first.
 */
#include <string.h>

#include "jobs/redis_shards.h"

/* Puts that are carried out for a PUT or a SETTLE. */
struct putting {
  struct uvs__arena *answers; /* for `there` */
  struct uvs__put **later;    /* puts that the new owner gets, after the old owner */
  size_t n_later;
  void (*then)(struct uvs__task *t);
};

static unsigned slot_of(const struct uvs__put *put) {
  return uvs__redis_slot(put->job.queue, put->job.rest, put->job.key);
}

static bool is_moving(const struct uvs__shards *all, unsigned slot) {
  return all->map->owner[slot] != all->map->from[slot];
}

/* ----------------------------------------------------------------- answers --- */

static void take_answer(struct uvs__sub *sub, struct uvs__put *put, const struct uvs__put *from) {
  struct uvs__task *t = sub->task;
  struct putting *p = t->more;

  if (from->status == UVS__NOT_HERE) {
    p->later[p->n_later++] = put;
    return;
  }
  if (from->status == UVS__IN_TRANSIT) {
    uvs__task_fail(t, UVS__IN_TRANSIT);
    return;
  }
  put->status = from->status;
  put->there = from->there;
  put->due_us = uvs__shard_to_store_us(sub->shard, from->due_us);
  put->answered = true;
  if (put->status == 0)
    uvs__shard_due(sub->shard, put->job.queue, from->due_us);
}

static void answered(struct uvs__sub *sub) {
  struct uvs__put_request *r = (struct uvs__put_request *)(void *)sub->r;
  struct putting *p = sub->task->more;

  uvs__arena_join(p->answers, &r->arena);
  if (r->r.status != 0) {
    uvs__task_fail(sub->task, r->r.status);
    return;
  }
  for (size_t i = 0; i < r->n; i++)
    take_answer(sub, sub->puts[i], &r->puts[i]);
}

/* -------------------------------------------------------------------- send --- */

/* The puts for one server. NULL: no memory, and the task has failed. */
static struct uvs__sub *make_sub(struct uvs__task *t, struct uvs__shard *shard, size_t n) {
  struct uvs__sub *sub =
      uvs__sub_new(t, shard, sizeof(struct uvs__put_request), UVS__PUT, answered);
  struct uvs__put_request *r;

  if (sub == NULL)
    return NULL;
  r = (struct uvs__put_request *)(void *)sub->r;
  r->puts = uvs__arena_alloc(&t->arena, n * sizeof *r->puts);
  sub->puts = uvs__arena_alloc(&t->arena, n * sizeof(struct uvs__put *));
  if (r->puts != NULL && sub->puts != NULL)
    return sub;
  uvs__task_fail(t, UV_ENOMEM);
  return NULL;
}

static struct uvs__shard *server_of(const struct uvs__task *t, const struct uvs__put *put,
                                    bool first) {
  unsigned slot = slot_of(put);

  return first ? uvs__shard_before(t->all, slot) : uvs__shard_of(t->all, slot);
}

static void add(struct uvs__sub *sub, struct uvs__put *put, bool first) {
  struct uvs__put_request *r = (struct uvs__put_request *)(void *)sub->r;

  r->puts[r->n] = *put;
  if (first && is_moving(sub->task->all, slot_of(put)))
    r->puts[r->n].job.key_policy |= UVS__ONLY_IF_THERE;
  sub->puts[r->n++] = put;
}

/* first: the servers that owned the slots before the move are asked, otherwise the owners. */
static void send_puts(struct uvs__task *t, struct uvs__put **puts, size_t n, bool first) {
  size_t counts[UVS__SHARDS_MAX] = {0};
  struct uvs__sub *subs[UVS__SHARDS_MAX] = {NULL};

  for (size_t i = 0; i < n; i++)
    counts[server_of(t, puts[i], first)->index]++;
  for (size_t i = 0; i < t->all->n; i++)
    if (counts[i] > 0)
      subs[i] = make_sub(t, t->all->shards[i], counts[i]);
  for (size_t i = 0; i < n; i++) {
    struct uvs__sub *sub = subs[server_of(t, puts[i], first)->index];

    if (sub != NULL)
      add(sub, puts[i], first);
  }
  for (size_t i = 0; i < UVS__SHARDS_MAX; i++)
    if (subs[i] != NULL)
      uvs__sub_send(subs[i]);
}

static void at_owners(struct uvs__task *t) {
  struct putting *p = t->more;
  size_t n = p->n_later;

  if (n == 0) {
    p->then(t);
    return;
  }
  p->n_later = 0;
  uvs__task_begin(t, at_owners);
  if (t->generation == t->all->current.generation)
    send_puts(t, p->later, n, false);
  else
    uvs__task_fail(t, UV_EAGAIN); /* another server may own the slots by now */
  uvs__task_sent(t);
}

/* Carries out n puts, and then calls `then`. */
static void carry_out(struct uvs__task *t, struct uvs__put **puts, size_t n,
                      struct uvs__arena *answers, void (*then)(struct uvs__task *t)) {
  struct putting *p = uvs__arena_alloc(&t->arena, sizeof *p);

  uvs__task_begin(t, at_owners);
  if (p != NULL)
    p->later = uvs__arena_alloc(&t->arena, (n + 1) * sizeof(struct uvs__put *));
  if (p == NULL || p->later == NULL) {
    t->joined = uvs__task_end;
    uvs__task_fail(t, UV_ENOMEM);
  } else {
    p->answers = answers;
    p->then = then;
    t->more = p;
    send_puts(t, puts, n, true);
  }
  uvs__task_sent(t);
}

/* --------------------------------------------------------------------- PUT --- */

void uvs__shards_put(struct uvs__task *t) {
  struct uvs__put_request *r = (struct uvs__put_request *)(void *)t->r;
  struct uvs__put **puts = uvs__arena_alloc(&t->arena, (r->n + 1) * sizeof(struct uvs__put *));
  size_t n = 0;

  if (puts == NULL) {
    uvs__task_fail(t, UV_ENOMEM);
    uvs__task_end(t);
    return;
  }
  for (size_t i = 0; i < r->n; i++)
    if (!r->puts[i].answered)
      puts[n++] = &r->puts[i];
  carry_out(t, puts, n, &r->arena, uvs__task_end);
}

/* ------------------------------------------------------------------ SETTLE --- */

static struct uvs__shard *shard_of_claim(const struct uvs__shards *all, int part) {
  return all->shards[part == 0 ? 0 : part - 1];
}

/* Is the server to own this slot, and has it owned it before? */
static bool keeps(const struct uvs__shard *shard, unsigned slot) {
  return !is_moving(shard->all, slot) && uvs__shard_of(shard->all, slot) == shard;
}

static bool has_key_of(const struct uvs__put *put, const struct uvs__settle *item) {
  return put->job.key != NULL && item->key != NULL && strcmp(put->job.key, item->key) == 0 &&
         strcmp(put->job.queue, item->queue) == 0;
}

static bool owns_slots(const struct uvs__shard *shard) {
  for (unsigned slot = 0; slot < UVS__SLOTS; slot++)
    if (uvs__shard_of(shard->all, slot) == shard)
      return true;
  return false;
}

/* On a server that is being removed, only occurrences stay: they are one step with their tick. If
 * other jobs stayed, a chain of them would go on there.
 * While jobs move, the key of the job itself is in use on this server until the job has ended. So
 * nobody can have put a job with this key on another server. */
static bool stays(const struct uvs__shard *shard, const struct uvs__settle *item,
                  const struct uvs__put *put) {
  bool own = put->job.made && put->job.key == NULL;

  return (own && (item->op == UVS__RELEASE || owns_slots(shard))) || keeps(shard, slot_of(put)) ||
         (shard->all->map->moving && has_key_of(put, item));
}

static bool goes_first(const struct uvs__shard *shard, const struct uvs__settle *item,
                       const struct uvs__put *put) {
  return !put->answered && !stays(shard, item, put);
}

static size_t puts_of(const struct uvs__settle_request *r) {
  size_t n = 0;

  for (size_t i = 0; i < r->n; i++)
    n += r->items[i].n_puts;
  return n;
}

static void note_settled(struct uvs__shard *shard, const struct uvs__settle *item) {
  if (item->op == UVS__EXTEND) {
    int64_t now_us = uvs__redis_now_us(shard->redis), lease_us = item->when.delay_us;

    uvs__shard_due(shard, item->queue,
                   lease_us < UVS__NEVER_US - now_us ? now_us + lease_us : UVS__NEVER_US);
    return;
  }
  shard->held -= shard->held > 0;
  if (item->status != UVS_ELOST)
    uvs__shard_due(shard, item->queue, 0);
}

/* The puts of the copy are in the order of those of the item, without those that do not stay. */
static void take_puts(struct uvs__shard *shard, struct uvs__settle *item,
                      const struct uvs__settle *from) {
  for (size_t i = 0, j = 0; i < item->n_puts && j < from->n_puts; i++) {
    struct uvs__put *put = &item->puts[i];

    if (put->answered)
      continue;
    put->status = from->puts[j].status;
    put->there = from->puts[j].there;
    put->due_us = uvs__shard_to_store_us(shard, from->puts[j].due_us);
    if (put->status == 0 && item->status == 0)
      uvs__shard_due(shard, put->job.queue, from->puts[j].due_us);
    j++;
  }
}

/* Is this a server of the map, under another name? */
static bool is_in_map(const struct uvs__shard *shard) {
  const struct uvs__shards *all = shard->all;

  for (size_t i = 0; i < all->n; i++)
    if (all->shards[i]->in_map && strcmp(all->shards[i]->redis->run_id, shard->redis->run_id) == 0)
      return true;
  return false;
}

/* The request has failed because the server was removed: no job is left there. */
static bool is_gone(const struct uvs__shard *shard, int status) {
  return uvs__may_try_again(status) && !is_in_map(shard) &&
         (shard->stopped || shard->redis->link == NULL || !shard->redis->link->is_up);
}

static void settled(struct uvs__sub *sub) {
  struct uvs__settle_request *r = (struct uvs__settle_request *)(void *)sub->task->r;
  struct uvs__settle_request *from = (struct uvs__settle_request *)(void *)sub->r;
  struct uvs__shard *shard = sub->shard;
  bool gone = is_gone(shard, from->r.status);

  uvs__arena_join(&r->arena, &from->arena);
  if (from->r.status != 0 && !gone) {
    uvs__task_fail(sub->task, from->r.status);
    return;
  }
  for (size_t i = 0; i < r->n; i++) {
    r->items[i].status = gone ? UVS_ELOST : from->items[i].status;
    note_settled(shard, &r->items[i]);
    take_puts(shard, &r->items[i], &from->items[i]);
  }
}

/* Copies an item with the puts that were not carried out yet. False: no memory. */
static bool copy_item(struct uvs__task *t, const struct uvs__settle *item, struct uvs__settle *to) {
  const struct uvs__shard *shard = shard_of_claim(t->all, item->part);
  size_t n = 0;

  *to = *item;
  if (item->n_puts == 0)
    return true;
  to->puts = uvs__arena_alloc(&t->arena, item->n_puts * sizeof *to->puts);
  for (size_t i = 0; i < item->n_puts && to->puts != NULL; i++) {
    if (item->puts[i].answered)
      continue;
    to->puts[n] = item->puts[i];
    if (to->puts[n].job.key != NULL && t->all->map->moving &&
        !keeps(shard, slot_of(&item->puts[i])))
      to->puts[n].job.key_policy |= UVS__STRAY;
    n++;
  }
  to->n_puts = n;
  return to->puts != NULL;
}

static void free_extended(struct uvs__sub *sub) {
  uvs__arena_free(&((struct uvs__settle_request *)(void *)sub->r)->arena);
}

/* Extends the leases of the items, and then calls `then`. */
static void extend_items(struct uvs__task *t, void (*answered_items)(struct uvs__sub *sub),
                         void (*then)(struct uvs__task *t)) {
  struct uvs__settle_request *r = (struct uvs__settle_request *)(void *)t->r, *to;
  struct uvs__sub *sub;

  uvs__task_begin(t, then);
  sub = uvs__sub_new(t, shard_of_claim(t->all, r->items[0].part), sizeof *r, UVS__SETTLE,
                     answered_items);
  to = sub == NULL ? NULL : (struct uvs__settle_request *)(void *)sub->r;
  if (to != NULL)
    to->items = uvs__arena_alloc(&t->arena, r->n * sizeof *to->items);
  if (to != NULL && to->items == NULL)
    uvs__task_fail(t, UV_ENOMEM);
  if (to != NULL && to->items != NULL) {
    for (size_t i = 0; i < r->n; i++) {
      struct uvs__settle *item = &to->items[i];

      *item = r->items[i];
      item->op = UVS__EXTEND;
      item->when = (struct uvs__when){item->lease_us, 0};
      item->n_puts = 0;
      to->n += item->lease_us > 0;
    }
    if (to->n == r->n)
      uvs__sub_send(sub);
  }
  uvs__task_sent(t);
}

static void send_items(struct uvs__task *t) {
  struct uvs__settle_request *r = (struct uvs__settle_request *)(void *)t->r, *to;
  struct uvs__sub *sub;
  bool good;

  if (t->generation != t->all->current.generation)
    uvs__task_fail(t, UV_EAGAIN); /* the puts of the items may not stay with them any more */
  if (t->status != 0) {           /* meanwhile the leases must not end: the jobs would run again */
    extend_items(t, free_extended, uvs__task_end);
    return;
  }
  uvs__task_begin(t, uvs__task_end);
  sub = uvs__sub_new(t, shard_of_claim(t->all, r->items[0].part), sizeof *r, UVS__SETTLE, settled);
  if (sub != NULL) {
    to = (struct uvs__settle_request *)(void *)sub->r;
    to->items = uvs__arena_alloc(&t->arena, r->n * sizeof *to->items);
    to->n = r->n;
    good = to->items != NULL;
    for (size_t i = 0; i < r->n && good; i++)
      good = copy_item(t, &r->items[i], &to->items[i]);
    if (good)
      uvs__sub_send(sub);
    else
      uvs__task_fail(t, UV_ENOMEM);
  }
  uvs__task_sent(t);
}

/* Puts that go to other servers are carried out before their items, so the claims must still hold:
 * a claim that is lost puts nothing. */
static void checked(struct uvs__sub *sub) {
  struct uvs__settle_request *r = (struct uvs__settle_request *)(void *)sub->task->r;
  struct uvs__settle_request *from = (struct uvs__settle_request *)(void *)sub->r;
  bool gone = is_gone(sub->shard, from->r.status);

  for (size_t i = 0; i < r->n; i++)
    r->items[i].status = gone ? UVS_ELOST : from->items[i].status;
  if (!gone && from->r.status != 0)
    uvs__task_fail(sub->task, from->r.status);
  uvs__arena_free(&from->arena);
}

/* A cancelled tick puts nothing, either. */
static bool may_put(const struct uvs__settle *item) {
  return item->status == 0 || (item->status == UVS__SETTLE_CANCELLED && item->op == UVS__ACK);
}

static void put_elsewhere(struct uvs__task *t) {
  struct uvs__settle_request *r = (struct uvs__settle_request *)(void *)t->r;
  const struct uvs__shard *shard = shard_of_claim(t->all, r->items[0].part);
  struct uvs__put **puts;
  size_t n = 0;

  if (t->generation != t->all->current.generation)
    uvs__task_fail(t, UV_EAGAIN);
  puts = uvs__arena_alloc(&t->arena, (puts_of(r) + 1) * sizeof(struct uvs__put *));
  if (puts == NULL)
    uvs__task_fail(t, UV_ENOMEM);
  if (t->status != 0 || puts == NULL) {
    uvs__task_end(t);
    return;
  }
  for (size_t i = 0; i < r->n; i++)
    for (size_t j = 0; j < r->items[i].n_puts; j++)
      if (may_put(&r->items[i]) && goes_first(shard, &r->items[i], &r->items[i].puts[j]))
        puts[n++] = &r->items[i].puts[j];
  if (n == 0)
    send_items(t);
  else
    carry_out(t, puts, n, &r->arena, send_items);
}

void uvs__shards_settle(struct uvs__task *t) {
  struct uvs__settle_request *r = (struct uvs__settle_request *)(void *)t->r;
  const struct uvs__shard *shard = shard_of_claim(t->all, r->items[0].part);
  bool any = false;

  for (size_t i = 0; i < r->n; i++) {
    r->items[i].status = 0;
    for (size_t j = 0; j < r->items[i].n_puts; j++)
      any = any || goes_first(shard, &r->items[i], &r->items[i].puts[j]);
  }
  if (any)
    extend_items(t, checked, put_elsewhere);
  else
    send_items(t);
}
