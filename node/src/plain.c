/* SPDX-License-Identifier: MIT
 *
 * plain: tasks with one run and no options, in bundles. Most tasks are plain.
 *
 * The loop's timer counts in whole ms, so tasks that are due in the same ms run in the same loop
 * pass. Plain tasks that are due in the same grain of time (1 ms, or `precise`) therefore share one
 * task of the core, their bundle. Arming or cancelling a member only changes a linked list. The
 * bundle is due when the last of its members is due, so no member is early. JavaScript gets the
 * members that are due together in the order of their deadlines: a bundle that was not filled in
 * that order is sorted, and when another task is due, the members with earlier deadlines go before
 * it (uvs_node_plain_until).
 *
 * The idle callback hands a new bundle to the core. Most time-outs are cancelled before that, and a
 * bundle whose members are all gone by then has cost the core nothing.
 *
 * For the core a bundle is a task, which ends when it is due. This file and JavaScript count the
 * members (stats).
 */
#include "host.h"

#include <stdlib.h>

#define NONE UINT32_MAX /* no slot */
#define SEALED (-1)     /* no bundle of a time has this key */

static int64_t key_of(const struct plain *p, int64_t due_ns) {
  if (due_ns > UVS_NEVER - p->grain_ns)
    return UVS_NEVER;
  return (due_ns + p->grain_ns - 1) / p->grain_ns;
}

/* ---- bundles ---- */

static uint32_t *chain_of(struct plain *p, int64_t key) {
  uint64_t mixed = (uint64_t)key * UINT64_C(0x9e3779b97f4a7c15);

  return &p->hash[(mixed >> 32) & (p->hash_size - 1)];
}

static bool grow_hash(struct plain *p) {
  uint32_t size = p->hash_size == 0 ? 64 : p->hash_size * 2;
  uint32_t *old = p->hash;
  uint32_t old_size = p->hash_size;
  uint32_t *hash = calloc(size, sizeof *hash);

  if (hash == NULL)
    return false;
  p->hash = hash;
  p->hash_size = size;
  for (uint32_t i = 0; i < old_size; i++) {
    for (uint32_t b = old[i], next; b != 0; b = next) {
      uint32_t *chain = chain_of(p, p->bundles[b].key);

      next = p->bundles[b].chain;
      p->bundles[b].chain = *chain;
      *chain = b;
    }
  }
  free(old);
  return true;
}

static uint32_t find_bundle(struct plain *p, int64_t key) {
  uint32_t b;

  if (p->hash_size == 0)
    return 0;
  for (b = *chain_of(p, key); b != 0 && p->bundles[b].key != key; b = p->bundles[b].chain)
    continue;
  return b;
}

/* 0: no memory. */
static uint32_t make_bundle(struct host *h, int64_t key) {
  struct plain *p = &h->plain;
  uint32_t b = p->free;
  uint32_t *chain;

  if (p->bundle_count >= p->hash_size && !grow_hash(p))
    return 0;
  if (b == 0) {
    /* 0 means none, so the first bundle is 1. */
    if (!uvs_node_grow((void **)&p->bundles, &p->bundle_room, p->bundle_count + 2,
                       sizeof *p->bundles))
      return 0;
    b = p->bundle_count + 1;
  } else {
    p->free = p->bundles[b].chain;
  }
  p->bundle_count++;
  chain = chain_of(p, key);
  p->bundles[b] = (struct bundle){key, 0, 0, NONE, NONE, 0, 0, *chain, p->fresh, true};
  *chain = b;
  p->fresh = b;
  uvs_node_wake(h); /* the idle callback hands it over */
  return b;
}

static void unlink_bundle(struct plain *p, uint32_t *link, uint32_t b) {
  while (*link != b)
    link = &p->bundles[*link].chain;
  *link = p->bundles[b].chain;
}

/* The bundle takes no more members. */
static void seal_bundle(struct plain *p, uint32_t b) {
  unlink_bundle(p, chain_of(p, p->bundles[b].key), b);
  p->bundles[b].key = SEALED;
  p->bundles[b].chain = p->sealed;
  p->sealed = b;
}

/* Frees the bundle. Only the core may still have a task with its number. */
static void drop_bundle(struct plain *p, uint32_t b) {
  struct bundle *bundle = &p->bundles[b];

  unlink_bundle(p, bundle->key == SEALED ? &p->sealed : chain_of(p, bundle->key), b);
  bundle->id = 0;
  bundle->key = SEALED;
  bundle->chain = p->free;
  p->free = b;
  p->bundle_count--;
}

/* ---- members ---- */

/* While a bundle is not handed over, the idle handle keeps the loop alive for those members that
 * do. */
static void count_fresh(struct host *h, const struct bundle *bundle, bool more) {
  if (bundle->id != 0)
    return;
  if (more) {
    if (h->plain.fresh_refs++ == 0)
      uv_ref((uv_handle_t *)&h->idle);
  } else if (--h->plain.fresh_refs == 0 && h->event_count == 0) {
    uv_unref((uv_handle_t *)&h->idle);
  }
}

static void link_member(struct host *h, uint32_t b, uint32_t slot) {
  struct bundle *bundle = &h->plain.bundles[b];
  struct slot *t = &h->slots[slot];

  t->bundle = b;
  t->prev = bundle->tail;
  t->next = NONE;
  if (bundle->tail == NONE) {
    bundle->head = slot;
  } else {
    h->slots[bundle->tail].next = slot;
    if (h->slots[bundle->tail].due_ns > t->due_ns)
      bundle->sorted = false;
  }
  bundle->tail = slot;
  bundle->live++;
  h->plain.waiting++;
  if (t->unref)
    return;
  if (bundle->refs++ == 0 && bundle->id != 0)
    uvs_ref(h->s, bundle->id);
  count_fresh(h, bundle, true);
}

/* If the bundle is empty afterwards, the caller drops it. */
static void unlink_member(struct host *h, uint32_t slot) {
  struct slot *t = &h->slots[slot];
  struct bundle *bundle = &h->plain.bundles[t->bundle];

  if (t->prev == NONE)
    bundle->head = t->next;
  else
    h->slots[t->prev].next = t->next;
  if (t->next == NONE)
    bundle->tail = t->prev;
  else
    h->slots[t->next].prev = t->prev;
  bundle->live--;
  h->plain.waiting--;
  if (!t->unref) {
    bundle->refs--;
    count_fresh(h, bundle, false);
  }
}

/* A member has left the bundle before the bundle was due. */
static void after_leaving(struct host *h, uint32_t b, uint32_t refs_before) {
  struct bundle *bundle = &h->plain.bundles[b];

  if (bundle->id == 0)
    return; /* uvs_node_plain_flush drops it if it is empty then */
  if (bundle->live == 0) {
    uvs_cancel(h->s, bundle->id, UVS_CANCEL_NO_DONE);
    h->plain.dropped++;
    drop_bundle(&h->plain, b);
  } else if (bundle->refs == 0 && refs_before > 0) {
    uvs_unref(h->s, bundle->id);
  }
}

/* Does a time belong to this bundle? The same answer as with key_of, but without a division. */
static bool is_of(const struct plain *p, uint32_t b, int64_t due_ns) {
  int64_t end_ns;

  if (b == 0 || p->bundles[b].key <= 0 || p->bundles[b].key == UVS_NEVER)
    return false;
  end_ns = p->bundles[b].key * p->grain_ns;
  return due_ns <= end_ns && due_ns > end_ns - p->grain_ns;
}

/* The bundle for a deadline. It is due no earlier than that. 0: no memory. */
static uint32_t bundle_for(struct host *h, int64_t now_ns, int64_t due_ns) {
  struct plain *p = &h->plain;
  uint32_t b = p->last;
  int64_t key = 0;

  if (!is_of(p, b, due_ns)) {
    key = key_of(p, due_ns);
    b = find_bundle(p, key);
  }
  /* The bundle moves to the later deadline. If the core has made it ready already, it cannot move:
   * it is sealed, and a new bundle begins. */
  if (b != 0 && due_ns > p->bundles[b].due_ns && p->bundles[b].id != 0 &&
      uvs_reschedule(h->s, p->bundles[b].id, due_ns - now_ns) < 0) {
    key = p->bundles[b].key;
    seal_bundle(p, b);
    b = 0;
  }
  if (b == 0)
    b = make_bundle(h, key);
  if (b != 0 && due_ns > p->bundles[b].due_ns)
    p->bundles[b].due_ns = due_ns;
  return b;
}

/* Makes the task a member of the bundle for its deadline. */
static int enter(struct host *h, uint32_t slot, int64_t now_ns, int64_t due_ns) {
  uint32_t b = bundle_for(h, now_ns, due_ns);

  if (b == 0)
    return UV_ENOMEM;
  h->plain.last = b;
  h->slots[slot].due_ns = due_ns;
  h->slots[slot].state = SLOT_WAITS;
  link_member(h, b, slot);
  return 0;
}

/* ---- due ---- */

/* By deadline, then in the order in which the events were noted, which is in `d` for now. */
static int compare(const void *a, const void *b) {
  const struct event *x = a;
  const struct event *y = b;

  if (x->b != y->b)
    return x->b < y->b ? -1 : 1;
  return x->d < y->d ? -1 : x->d > y->d;
}

/* Sorts the events since `before` by deadline. */
static void sort_since(struct host *h, uint32_t before) {
  uint32_t n = h->event_count - before;
  struct event *first = h->events + h->event_first + before;

  for (uint32_t i = 0; i < n; i++)
    first[i].d = i;
  qsort(first, n, sizeof *first, compare);
  for (uint32_t i = 0; i < n; i++)
    first[i].d = 0; /* missed runs: none */
}

/* The members with a deadline up to until_ns become due. */
static void take(struct host *h, uint32_t b, int64_t until_ns) {
  uint32_t before = h->event_count;
  bool sorted = h->plain.bundles[b].sorted;

  for (uint32_t slot = h->plain.bundles[b].head, next; slot != NONE; slot = next) {
    struct slot *t = &h->slots[slot];
    double due = (double)t->due_ns;

    next = t->next;
    if (t->due_ns > until_ns) {
      if (sorted)
        break;
      continue;
    }
    unlink_member(h, slot);
    t->state = SLOT_DUE;
    h->io[IO_PLAIN_DUE]++;
    uvs_node_note(h, (struct event){EVENT_RUN, slot, due, due, 1, 0});
  }
  if (!sorted && h->event_count > before)
    sort_since(h, before);
}

/* All members with a deadline up to until_ns become due. They are in the bundle of that grain, in
 * sealed bundles, which the core is about to run, and in fresh bundles, which the core does not
 * know yet because its pass came first. All other bundles with such members have run already, at
 * their own deadlines. `told` is the bundle that the core runs just now, or 0. */
static void collect(struct host *h, int64_t until_ns, uint32_t told) {
  struct plain *p = &h->plain;
  uint32_t before = h->event_count;
  uint32_t same = find_bundle(p, key_of(p, until_ns));
  bool several = false;

  for (uint32_t b = p->fresh; b != 0; b = p->bundles[b].fresh) {
    take(h, b, until_ns);
    several = true;
  }
  for (uint32_t b = p->sealed, next; b != 0; b = next) {
    uint32_t refs = p->bundles[b].refs;

    next = p->bundles[b].chain;
    take(h, b, until_ns);
    several = true;
    if (b != told)
      after_leaving(h, b, refs);
  }
  if (same != 0 && p->bundles[same].live > 0) {
    uint32_t refs = p->bundles[same].refs;

    take(h, same, until_ns);
    if (same != told)
      after_leaving(h, same, refs);
  }
  if (several && h->event_count > before)
    sort_since(h, before);
}

void uvs_node_plain_until(struct host *h, int64_t until_ns) {
  collect(h, until_ns, 0);
}

static int on_bundle(uvs_run_t *run) {
  struct host *h = uvs_data(run->scheduler);
  uint32_t b = uvs_node_number(run->arg);

  h->plain.fired++;
  collect(h, h->plain.bundles[b].due_ns, b);
  drop_bundle(&h->plain, b);
  return 0;
}

/* The core has ended a bundle before it was due, by a shutdown or a close. Members that were due at
 * the time of the shutdown still run. */
static void on_bundle_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct host *h = uvs_data(s);
  uint32_t b = uvs_node_number(arg);

  (void)status;
  if (h->plain.bundles[b].id != id)
    return; /* it was due, or was dropped here */
  h->plain.dropped++;
  if (!h->stopped)
    take(h, b, h->shut_ns);
  for (uint32_t slot = h->plain.bundles[b].head, next; slot != NONE; slot = next) {
    next = h->slots[slot].next;
    unlink_member(h, slot);
    h->slots[slot].state = SLOT_FREE;
    uvs_node_note(h, (struct event){EVENT_DONE, slot, UV_ECANCELED, 0, 0, 0});
  }
  drop_bundle(&h->plain, b);
}

bool uvs_node_plain_never_ran(struct host *h, uvs_work_cb body, void *arg) {
  if (body != on_bundle)
    return false;
  for (uint32_t slot = h->plain.bundles[uvs_node_number(arg)].head; slot != NONE;
       slot = h->slots[slot].next)
    uvs_node_note(h, (struct event){EVENT_NEVER_RAN, slot, 0, 0, 0, 0});
  return true;
}

/* ---- called by the host ---- */

/* Hands the fresh bundles to the core. Their members were accepted when they were armed, so nothing
 * may refuse them here. */
void uvs_node_plain_flush(struct host *h) {
  struct plain *p = &h->plain;
  uvs_task_t t;

  if (p->fresh == 0 || h->s == NULL)
    return;
  uvs_task_init(&t);
  t.from = UVS_FROM_MONOTONIC;
  t.after = on_bundle;
  t.done = on_bundle_done;
  while (p->fresh != 0) {
    uint32_t b = p->fresh;
    struct bundle *bundle = &p->bundles[b];
    int rc;

    p->fresh = bundle->fresh;
    if (bundle->live == 0) {
      drop_bundle(p, b);
      continue;
    }
    t.first_ns = bundle->due_ns;
    t.arg = uvs_node_arg(b);
    t.flags = bundle->refs > 0 ? 0 : UVS_UNREF;
    rc = uvs_submit(h->s, &t, &bundle->id);
    if (rc == UV_ENOMEM)
      uvs_node_out_of_memory();
    p->submitted++;
    if (rc < 0) { /* somebody has closed the core's handles; the core has not counted the bundle */
      on_bundle_done(h->s, bundle->id, UV_ECANCELED, t.arg);
      p->submitted--;
      p->dropped--;
    } else {
      p->fresh_refs -= bundle->refs;
    }
  }
  if (h->event_count == 0)
    uv_unref((uv_handle_t *)&h->idle);
}

void uvs_node_plain_cancel(struct host *h, uint32_t slot) {
  uint32_t b = h->slots[slot].bundle;
  uint32_t refs = h->plain.bundles[b].refs;

  unlink_member(h, slot);
  h->slots[slot].state = SLOT_FREE;
  after_leaving(h, b, refs);
}

int uvs_node_plain_move(struct host *h, uint32_t slot, int64_t delay_ns) {
  int64_t now_ns = uvs_now(h->s);
  int64_t due_ns = uvs_node_later(now_ns, delay_ns);
  uint32_t from = h->slots[slot].bundle;
  uint32_t refs = h->plain.bundles[from].refs;
  uint32_t to;

  if (h->shut)
    return UV_ESHUTDOWN; /* the core accepts no more bundles */
  to = bundle_for(h, now_ns, due_ns);
  if (to == 0)
    return UV_ENOMEM;
  unlink_member(h, slot);
  h->slots[slot].due_ns = due_ns;
  link_member(h, to, slot);
  if (to != from)
    after_leaving(h, from, refs);
  return 0;
}

void uvs_node_plain_ref(struct host *h, uint32_t slot, bool ref) {
  struct slot *t = &h->slots[slot];
  struct bundle *bundle = &h->plain.bundles[t->bundle];

  if (t->unref == !ref)
    return;
  t->unref = !ref;
  bundle->refs += ref ? 1 : UINT32_MAX;
  count_fresh(h, bundle, ref);
  if (bundle->id != 0 && bundle->refs == (ref ? 1 : 0))
    (ref ? uvs_ref : uvs_unref)(h->s, bundle->id);
}

napi_value uvs_node_arm(napi_env env, napi_callback_info info) {
  struct host *h = uvs_node_host(env, info);
  uint32_t slot = (uint32_t)h->io[IO_SLOT];
  int rc = UV_ESHUTDOWN;

  if (!h->shut) {
    rc = UV_ENOMEM;
    if (uvs_node_slot_room(h, slot)) {
      h->slots[slot].unref = h->io[IO_FLAGS] != 0;
      int64_t now_ns = uvs_now(h->s);

      rc = enter(h, slot, now_ns, uvs_node_later(now_ns, uvs_node_ns(h->io[IO_DELAY])));
      h->plain.armed += rc == 0;
    }
  }
  h->io[IO_RC] = rc;
  return NULL;
}

void uvs_node_plain_free(struct host *h) {
  free(h->plain.bundles);
  free(h->plain.hash);
}
