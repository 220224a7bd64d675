/* SPDX-License-Identifier: MIT */
#include "agenda.h"

#include <string.h>

#define NEXT_MOST 128u /* entries that may be looked at to see when the loop is to wake */

/* Chunk k of the slots brings its links and its room in the delay heap. */
static int grow(void *arg, unsigned k) {
  struct uvs__agenda *a = arg;
  size_t through = (size_t)uvs__chunk_size(k + 1) - UVS__CHUNK_FIRST;
  int rc;

  if (a->links[k] == NULL)
    a->links[k] = uvs__mem_alloc(a->mem, uvs__chunk_size(k), sizeof *a->links[k], 0);
  if (a->links[k] == NULL)
    return UV_ENOMEM;
  rc = uvs__wheel_reserve(&a->wheel, a->mem, through);
  return rc;
}

static void make_slot(void *arg, uint32_t slot) {
  struct uvs__agenda *a = arg;
  struct uvs__slot *t = uvs__agenda_slot(a, slot);

  /* The first generation is 1, so that no id is 0. */
  atomic_init(&t->word, (uint64_t)UVS__FREE | UINT64_C(1) << UVS__GENERATION_SHIFT);
  atomic_init(&t->deadline_ns, 0);
  atomic_init(&t->period_ns, 0);
  atomic_init(&t->fn, NULL);
  atomic_init(&t->arg, NULL);
  atomic_init(&t->seq_cold, 0);
  atomic_init(&t->next, UVS__NONE);
  atomic_init(&t->runs, 0);
  *uvs__agenda_link(a, slot) = (struct uvs__link){UVS__NONE, UVS__NONE};
}

static void make_cold(void *arg, uint32_t index) {
  struct uvs__agenda *a = arg;
  struct uvs__cold *c = uvs__slab_at(&a->colds, index);

  atomic_init(&c->missed_total, 0);
  for (size_t i = 0; i < sizeof c->name / sizeof c->name[0]; i++)
    atomic_init(&c->name[i], 0);
  for (size_t i = 0; i < UVS_LATE_CAUSES; i++)
    atomic_init(&c->late_by_ns[i], 0);
  atomic_init(&c->jitter_now_ns, 0);
  atomic_init(&c->failures, 0);
  atomic_init(&c->class, 0);
  atomic_init(&c->lane, NULL);
  atomic_init(&c->spared, false);
}

int uvs__agenda_init(struct uvs__agenda *a, const uvs_allocator_t *mem) {
  int rc;

  memset(a, 0, sizeof *a);
  a->mem = mem;
  uvs__wheel_init(&a->wheel, a->links, &a->slots);
  uvs__heap_init(&a->wall, a->links);
  uvs__heap_init(&a->limits, a->limit_links);

  a->slots.mem = mem;
  a->slots.element_size = sizeof(struct uvs__slot);
  a->slots.grow = grow;
  a->slots.init = make_slot;
  a->slots.arg = a;
  rc = uvs__slab_init(&a->slots);
  if (rc < 0)
    return rc;

  a->colds.mem = mem;
  a->colds.element_size = UVS__COLD_SIZE;
  a->colds.init = make_cold;
  a->colds.arg = a;
  rc = uvs__slab_init(&a->colds);
  if (rc < 0)
    uvs__slab_destroy_lock(&a->slots);
  return rc;
}

void uvs__agenda_free_memory(struct uvs__agenda *a) {
  uvs__slab_free_memory(&a->slots);
  uvs__slab_free_memory(&a->colds);
  uvs__wheel_destroy(&a->wheel, a->mem);
  uvs__heap_destroy(&a->wall, a->mem);
  uvs__heap_destroy(&a->limits, a->mem);
  for (unsigned k = 0; k < UVS__CHUNKS; k++) {
    uvs__mem_free(a->mem, a->links[k]);
    uvs__mem_free(a->mem, a->limit_links[k]);
    uvs__mem_free(a->mem, a->lane_links[k]);
  }
}

void uvs__agenda_destroy(struct uvs__agenda *a) {
  uvs__agenda_free_memory(a);
  uvs__slab_destroy_lock(&a->slots);
  uvs__slab_destroy_lock(&a->colds);
}

int uvs__agenda_take_slot(struct uvs__agenda *a, uintptr_t stripe, bool cold, bool wall,
                          uint32_t *ret_slot) {
  uint32_t cold_index = UVS__NONE;
  uint32_t slot;
  int rc;

  rc = uvs__slab_take(&a->slots, stripe, &slot);
  if (rc < 0)
    return rc;
  if (wall) {
    uv_mutex_lock(&a->slots.lock);
    rc = uvs__heap_reserve(&a->wall, a->mem, (size_t)slot + 1);
    uv_mutex_unlock(&a->slots.lock);
  }
  if (rc == 0 && cold)
    rc = uvs__slab_take(&a->colds, stripe, &cold_index);
  if (rc < 0) {
    uvs__slab_give(&a->slots, stripe, slot);
    return rc;
  }
  /* UVS__NONE + 1 is 0: none. release: pairs with uvs__agenda_cold, for who has a stale id */
  uvs__store(&uvs__agenda_slot(a, slot)->seq_cold, (uint64_t)(uint32_t)(cold_index + 1), release);
  *ret_slot = slot;
  return 0;
}

/* The loop finds the links through the slot, which it gets after this. */
static int make_links(struct uvs__agenda *a, struct uvs__link **ret, unsigned k) {
  struct uvs__link *links;

  if (*ret != NULL)
    return 0;
  links = uvs__mem_alloc(a->mem, uvs__chunk_size(k), sizeof *links, 0);
  if (links == NULL)
    return UV_ENOMEM;
  for (uint32_t i = 0; i < uvs__chunk_size(k); i++)
    links[i] = (struct uvs__link){UVS__NONE, UVS__NONE};
  *ret = links;
  return 0;
}

int uvs__agenda_reserve_lane(struct uvs__agenda *a, uint32_t slot) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);
  int rc;

  uv_mutex_lock(&a->slots.lock);
  rc = make_links(a, &a->lane_links[k], k);
  uv_mutex_unlock(&a->slots.lock);
  return rc;
}

int uvs__agenda_reserve_limit(struct uvs__agenda *a, uint32_t slot) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);
  int rc;

  uv_mutex_lock(&a->slots.lock);
  rc = make_links(a, &a->limit_links[k], k);
  if (rc == 0)
    rc = uvs__heap_reserve(&a->limits, a->mem, (size_t)slot + 1);
  uv_mutex_unlock(&a->slots.lock);
  return rc;
}

void uvs__agenda_give_slot(struct uvs__agenda *a, uintptr_t stripe, uint32_t slot) {
  struct uvs__slot *t = uvs__agenda_slot(a, slot);
  /* relaxed, both: the slot is free and in our hand only */
  uint32_t cold = (uint32_t)uvs__load(&t->seq_cold, relaxed) & UVS__SLOT_MASK;
  uint64_t w = uvs__load(&t->word, relaxed);

  UVS_ASSERT(uvs__word_state(w) == UVS__FREE);
  UVS_ASSERT(uvs__agenda_link(a, slot)->a == UVS__NONE);
  if (cold != 0)
    uvs__slab_give(&a->colds, stripe, cold - 1);
  if (uvs__word_generation(w) < UVS__GENERATION_MAX)
    uvs__slab_give(&a->slots, stripe, slot);
}

void uvs__agenda_free_now(struct uvs__agenda *a, uintptr_t stripe, struct uvs__freed *f) {
  if (f->count > 0)
    uvs__slab_give_many(&a->slots, stripe, f->slot, f->count);
  f->count = 0;
}

void uvs__agenda_free_later(struct uvs__agenda *a, uintptr_t stripe, struct uvs__freed *f,
                            uint32_t slot) {
  uint64_t w = uvs__load(&uvs__agenda_slot(a, slot)->word, relaxed); /* free, and in our hand */

  UVS_ASSERT(uvs__word_state(w) == UVS__FREE);
  UVS_ASSERT(uvs__agenda_link(a, slot)->a == UVS__NONE);
  if (uvs__word_generation(w) == UVS__GENERATION_MAX)
    return;
  f->slot[f->count++] = slot;
  if (f->count == UVS__SLAB_BATCH)
    uvs__agenda_free_now(a, stripe, f);
}

void uvs__agenda_number(struct uvs__agenda *a, uint32_t slot) {
  struct uvs__slot *t = uvs__agenda_slot(a, slot);
  /* The loop alone changes it; others read only the cold index, which stays. release: as above */
  uint64_t cold = uvs__load(&t->seq_cold, relaxed) & UVS__SLOT_MASK;

  uvs__store(&t->seq_cold, ++a->last_seq << UVS__SLOT_BITS | cold, release);
}

/* Its place among equals, and the slot. relaxed: only the loop writes the sequence. */
static uint64_t key_of(const struct uvs__agenda *a, uint32_t slot) {
  uint64_t seq_cold = uvs__locked_load(&uvs__agenda_slot(a, slot)->seq_cold, relaxed);

  return (seq_cold & ~(uint64_t)UVS__SLOT_MASK) | slot;
}

void uvs__agenda_insert(struct uvs__agenda *a, uint32_t slot, uint64_t w) {
  struct uvs__slot *t = uvs__agenda_slot(a, slot);
  /* relaxed: whoever wrote it handed the slot over through the word or the inbox */
  uint64_t deadline_ns = uvs__load(&t->deadline_ns, relaxed);

  if (deadline_ns >= UVS__NEVER)
    uvs__agenda_remove(a, slot, w);
  else if (!uvs__is_wall(w))
    (uvs__wheel_has(&a->wheel, slot) ? uvs__wheel_move : uvs__wheel_put)(
        &a->wheel, slot, deadline_ns, key_of(a, slot));
  else if (uvs__heap_has(&a->wall, slot))
    uvs__heap_move(&a->wall, slot, deadline_ns);
  else
    uvs__heap_push(&a->wall, deadline_ns, key_of(a, slot));
}

void uvs__agenda_remove(struct uvs__agenda *a, uint32_t slot, uint64_t w) {
  if (!uvs__wheel_has(&a->wheel, slot)) /* they share the links */
    return;
  if (uvs__is_wall(w))
    uvs__heap_remove(&a->wall, slot);
  else
    uvs__wheel_remove(&a->wheel, slot);
}

/* ---- who is first ---- */

/* What its slot says of the head of a queue. relaxed: if a mover is at it, the task's INBOX or
 * MOVING bit keeps it from being made ready */
static uint64_t true_deadline(struct uvs__agenda *a, const struct uvs__heap_entry *e) {
  return uvs__load(&uvs__agenda_slot(a, uvs__heap_slot(e))->deadline_ns, relaxed);
}

/* An entry that was pushed back learns of it when it comes up. True if the head was one: there is
 * another head now. */
static bool put_back_wall(struct uvs__agenda *a, uint64_t until_ns) {
  const struct uvs__heap_entry *e = uvs__heap_head(&a->wall);
  uint64_t deadline_ns;

  if (e == NULL || e->deadline_ns > until_ns)
    return false;
  deadline_ns = true_deadline(a, e);
  if (deadline_ns <= e->deadline_ns)
    return false;
  if (deadline_ns >= UVS__NEVER)
    uvs__heap_remove(&a->wall, uvs__heap_slot(e));
  else
    uvs__heap_move(&a->wall, uvs__heap_slot(e), deadline_ns);
  return true;
}

/* The same of the other queue, whose head may have to be brought up first. */
static unsigned put_back_wheel(struct uvs__agenda *a, uint64_t until_ns) {
  unsigned n = uvs__wheel_step(&a->wheel);
  struct uvs__heap_entry e;
  uint64_t deadline_ns;

  if (n > 0)
    return n;
  if (!uvs__wheel_head(&a->wheel, &e) || e.deadline_ns > until_ns)
    return 0;
  deadline_ns = true_deadline(a, &e);
  if (deadline_ns <= e.deadline_ns)
    return 0;
  if (deadline_ns >= UVS__NEVER)
    uvs__wheel_remove(&a->wheel, uvs__heap_slot(&e));
  else
    uvs__wheel_move(&a->wheel, uvs__heap_slot(&e), deadline_ns, e.key);
  return 1;
}

/* The head with its true deadline, if that is until then; false if there is none. */
static bool wall_head(struct uvs__agenda *a, uint64_t until_ns, struct uvs__heap_entry *ret) {
  const struct uvs__heap_entry *e;

  while (put_back_wall(a, until_ns)) {
  }
  e = uvs__heap_head(&a->wall);
  if (e != NULL)
    *ret = *e;
  return e != NULL;
}

static bool wheel_head(struct uvs__agenda *a, uint64_t until_ns, struct uvs__heap_entry *ret) {
  while (put_back_wheel(a, until_ns) > 0) {
  }
  return uvs__wheel_head(&a->wheel, ret);
}

unsigned uvs__agenda_put_back(struct uvs__agenda *a, uint64_t now_ns, uint64_t wall_ns) {
  unsigned n;

  a->wheel.now_ns = now_ns;
  n = put_back_wheel(a, now_ns);
  return n > 0 ? n : put_back_wall(a, wall_ns);
}

uint32_t uvs__agenda_take_due(struct uvs__agenda *a, uint64_t now_ns, uint64_t wall_ns) {
  struct uvs__heap_entry e;
  struct uvs__heap_entry w;
  bool mono = wheel_head(a, now_ns, &e) && e.deadline_ns <= now_ns;
  bool wall = a->wall.count > 0 && wall_head(a, wall_ns, &w) && w.deadline_ns <= wall_ns;

  /* Two clocks, one order: what has been due for longer comes first. */
  if (wall && (!mono || wall_ns - w.deadline_ns > now_ns - e.deadline_ns)) {
    uvs__heap_remove(&a->wall, uvs__heap_slot(&w));
    return uvs__heap_slot(&w);
  }
  if (!mono)
    return UVS__NONE;
  uvs__wheel_remove(&a->wheel, uvs__heap_slot(&e));
  return uvs__heap_slot(&e);
}

unsigned uvs__agenda_take_front(struct uvs__agenda *a, uint64_t now_ns, uint32_t *ret_slots,
                                unsigned most) {
  return a->wall.count > 0 ? 0 : uvs__wheel_take_front(&a->wheel, now_ns, ret_slots, most);
}

uint32_t uvs__agenda_take_any(struct uvs__agenda *a) {
  return uvs__agenda_take_due(a, UVS__NEVER, UVS__NEVER);
}

uint32_t uvs__agenda_first(struct uvs__agenda *a, uint64_t now_ns, uint64_t wall_ns) {
  struct uvs__heap_entry e;
  struct uvs__heap_entry w;
  bool mono = wheel_head(a, UVS__NEVER, &e);
  bool wall = wall_head(a, UVS__NEVER, &w);

  /* Two clocks, one order: of what is left to wait, or has been overdue. */
  if (wall && (!mono || (int64_t)(w.deadline_ns - wall_ns) < (int64_t)(e.deadline_ns - now_ns)))
    return uvs__heap_slot(&w);
  return mono ? uvs__heap_slot(&e) : UVS__NONE;
}

uint64_t uvs__agenda_next(struct uvs__agenda *a, bool exact) {
  struct uvs__heap_entry e;

  if (exact)
    return wheel_head(a, UVS__NEVER, &e) ? e.deadline_ns : UVS__NEVER;
  for (unsigned n = 0, step; (step = uvs__wheel_step(&a->wheel)) > 0; n += step) {
    if (n >= NEXT_MOST)
      return 0;
  }
  return uvs__wheel_head(&a->wheel, &e) ? e.deadline_ns : UVS__NEVER;
}

uint64_t uvs__agenda_next_wall(struct uvs__agenda *a, bool exact) {
  const struct uvs__heap_entry *e = uvs__heap_head(&a->wall);
  struct uvs__heap_entry w;

  if (exact)
    return wall_head(a, UVS__NEVER, &w) ? w.deadline_ns : UVS__NEVER;
  return e == NULL ? UVS__NEVER : e->deadline_ns;
}

void uvs__agenda_limit(struct uvs__agenda *a, uint32_t slot, uint64_t due_ns) {
  uvs__heap_push(&a->limits, due_ns, key_of(a, slot));
}

void uvs__agenda_unlimit(struct uvs__agenda *a, uint32_t slot) {
  if (uvs__heap_has(&a->limits, slot))
    uvs__heap_remove(&a->limits, slot);
}

uint32_t uvs__agenda_take_limit(struct uvs__agenda *a, uint64_t now_ns) {
  const struct uvs__heap_entry *e = uvs__heap_head(&a->limits);
  uint32_t slot;

  if (e == NULL || e->deadline_ns > now_ns)
    return UVS__NONE;
  slot = uvs__heap_slot(e);
  uvs__heap_remove(&a->limits, slot);
  return slot;
}

uint64_t uvs__agenda_next_limit(const struct uvs__agenda *a) {
  const struct uvs__heap_entry *e = uvs__heap_head(&a->limits);

  return e == NULL ? UVS__NEVER : e->deadline_ns;
}

void uvs__agenda_prefetch(struct uvs__agenda *a, uint32_t slot) {
  uint64_t w =
      uvs__load(&uvs__agenda_slot(a, slot)->word, relaxed); /* only the loop ends WAITING so
                                                               that the link is others' */

  if (uvs__word_state(w) == UVS__WAITING && !uvs__is_wall(w))
    uvs__wheel_prefetch(&a->wheel, slot);
}

bool uvs__agenda_check(const struct uvs__agenda *a) {
  return uvs__wheel_check(&a->wheel) && uvs__heap_check(&a->wall) && uvs__heap_check(&a->limits);
}

uint64_t uvs__agenda_ops(const struct uvs__agenda *a) {
  /* relaxed, all: counts */
  return uvs__load(&a->wheel.puts, relaxed) + uvs__load(&a->wheel.moves, relaxed) +
         uvs__load(&a->wheel.removals, relaxed) + uvs__load(&a->wall.ops, relaxed) +
         uvs__load(&a->limits.ops, relaxed);
}
