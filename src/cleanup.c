/* SPDX-License-Identifier: MIT */
#include "scheduler.h"

#include <string.h>

/* ---- lists ---- */

int uvs__cleanup_make(uvs_t *s, uvs_cleanup_cb cb, void *arg, unsigned flags,
                      struct uvs__cleanup **ret) {
  if (cb == NULL || (flags & ~(unsigned)UVS_WHEN_SETTLED) != 0)
    return UV_EINVAL;
  *ret = uvs__mem_alloc(&s->mem, 1, sizeof **ret, 0);
  if (*ret == NULL)
    return UV_ENOMEM;
  **ret = (struct uvs__cleanup){.cb = cb, .arg = arg, .when_settled = flags != 0};
  return 0;
}

static void append(struct uvs__cleanup_list *l, struct uvs__cleanup *a, int which) {
  a->lists++;
  a->next[which] = NULL;
  if (l->first == NULL)
    l->first = a;
  else
    l->last->next[which] = a;
  l->last = a;
}

void uvs__cleanup_append_locked(struct uvs__cleanup_list *l, struct uvs__cleanup *a) {
  append(l, a, UVS__CLEANUP_OWN);
}

static struct uvs__cleanup *pop(struct uvs__cleanup_list *l, int which) {
  struct uvs__cleanup *a = l->first;

  if (a != NULL) {
    l->first = a->next[which];
    a->lists--;
  }
  return a;
}

/* NULL if there was never one of a slot in its neighbourhood. */
static struct uvs__cleanup_list *list_of(uvs_t *s, uint32_t slot) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);
  struct uvs__cleanup_list *chunk =
      uvs__locked_load(&s->cleanups.of[k], acquire); /* pairs with reserve */

  return chunk == NULL ? NULL : &chunk[offset];
}

static int reserve(uvs_t *s, uint32_t slot) {
  struct uvs__cleanup_list *none = NULL;
  struct uvs__cleanup_list *chunk;
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);

  if (list_of(s, slot) != NULL)
    return 0;
  chunk = uvs__mem_alloc(&s->mem, uvs__chunk_size(k), sizeof *chunk, 0);
  if (chunk == NULL)
    return UV_ENOMEM;
  memset(chunk, 0, uvs__chunk_size(k) * sizeof *chunk);
  while (!uvs__cas(&s->cleanups.of[k], &none, chunk, release)) { /* pairs with list_of */
    if (none == NULL)
      continue; /* a weak CAS may fail for nothing */
    uvs__mem_free(&s->mem, chunk);
    break;
  }
  return 0;
}

/* ---- at the next turn ---- */

void uvs__cleanup_call_loop(uvs_t *s) {
  if (uvs__on_loop(s))
    uvs__owe_turn(s);
  else
    uvs__ticker_wake(&s->ticker);
}

void uvs__cleanup_now_locked(uvs_t *s, struct uvs__cleanup *a) {
  append(&s->cleanups.now, a, UVS__CLEANUP_NOW);
}

bool uvs__cleanup_settled_locked(uvs_t *s, struct uvs__cleanup_list *l) {
  bool any = false;

  for (struct uvs__cleanup *a = l->first; a != NULL; a = a->next[UVS__CLEANUP_OWN]) {
    if (!a->when_settled || a->cb == NULL || a->lists > 1)
      continue; /* or it was attached since, and is for now already */
    uvs__cleanup_now_locked(s, a);
    any = true;
  }
  return any;
}

/* With the lock: its list has become empty. */
static void clear_bit(uvs_t *s, uint32_t slot) {
  struct uvs__slot *t = uvs__slot(s, slot);
  uint64_t w = uvs__locked_load(&t->word, relaxed); /* the CAS acquires */

  while (!uvs__word_try_locked(t, &w, w & ~UVS__CLEANUP)) {
  }
}

void uvs__cleanup_settled(uvs_t *s, uint32_t slot, uint64_t w) {
  bool any = false;
  uint64_t now;

  if ((w & UVS__CLEANUP) == 0)
    return;
  uv_mutex_lock(&s->pool.lock);
  /* relaxed: with the lock, CLEANUP keeps the task where it is */
  now = uvs__locked_load(&uvs__slot(s, slot)->word, relaxed);
  if (uvs__word_generation(now) == uvs__word_generation(w) && (now & UVS__CLEANUP) != 0)
    any = uvs__cleanup_settled_locked(s, list_of(s, slot));
  uv_mutex_unlock(&s->pool.lock);
  if (any)
    uvs__cleanup_call_loop(s);
}

void uvs__cleanup_unmade(uvs_t *s, uint32_t slot) {
  struct uvs__cleanup_list *l = list_of(s, slot);
  struct uvs__cleanup *a;

  uv_mutex_lock(&s->pool.lock);
  while ((a = pop(l, UVS__CLEANUP_OWN)) != NULL)
    uvs__cleanup_now_locked(s, a);
  uv_mutex_unlock(&s->pool.lock);
  uvs__cleanup_call_loop(s);
}

/* ---- calls ---- */

/* What to do about one that is off a list. */
struct call {
  uvs_cleanup_cb cb; /* NULL: nothing */
  void *arg;
  struct uvs__cleanup *spent; /* on no list any more; NULL */
};

/* With the lock: the next of the list. False if there is none. */
static bool take(struct uvs__cleanup_list *l, int which, struct call *ret) {
  struct uvs__cleanup *a = pop(l, which);

  *ret = (struct call){NULL, NULL, NULL};
  if (a == NULL)
    return false;
  *ret = (struct call){a->cb, a->arg, a->lists == 0 ? a : NULL};
  a->cb = NULL;
  return true;
}

static void make(uvs_t *s, const struct call *c) {
  uvs__mem_free(&s->mem, c->spent);
  if (c->cb != NULL)
    c->cb(s, c->arg);
}

void uvs__cleanup_list(uvs_t *s, struct uvs__cleanup_list *l) {
  struct call c;
  bool any;

  do {
    uv_mutex_lock(&s->pool.lock);
    any = take(l, UVS__CLEANUP_OWN, &c);
    uv_mutex_unlock(&s->pool.lock);
    if (any)
      make(s, &c);
  } while (any);
}

void uvs__cleanup_task(uvs_t *s, uint32_t slot) {
  for (;;) {
    /* relaxed: a look. With the bit set it is ours to clear, and without it there is nothing. */
    uint64_t w = uvs__load(&uvs__slot(s, slot)->word, relaxed);
    struct uvs__cleanup_list *l;
    struct call c;
    bool any;

    if ((w & UVS__CLEANUP) == 0)
      return;
    uv_mutex_lock(&s->pool.lock);
    l = list_of(s, slot); /* not before: it may have been made since */
    s->cleanups.ending = uvs__id(w, slot);
    any = take(l, UVS__CLEANUP_OWN, &c);
    if (l->first == NULL)
      clear_bit(s, slot);
    uv_mutex_unlock(&s->pool.lock);
    UVS_ASSERT(any);
    make(s, &c);
  }
}

bool uvs__cleanup_turn(uvs_t *s, uint64_t until_ns) {
  struct uvs__cleanup_list *now = &s->cleanups.now;
  struct uvs__cleanup *last;
  bool enough = false;
  bool more;

  uv_mutex_lock(&s->pool.lock);
  last = now->last; /* what these add waits for the next turn */
  more = now->first != NULL;
  while (more && !enough) {
    struct call c;

    enough = now->first == last;
    take(now, UVS__CLEANUP_NOW, &c);
    uv_mutex_unlock(&s->pool.lock);
    make(s, &c);
    enough |= uvs__now(s) >= until_ns;
    uv_mutex_lock(&s->pool.lock);
    more = now->first != NULL;
  }
  uv_mutex_unlock(&s->pool.lock);
  return more;
}

/* ---- attach ---- */

bool uvs__cleanup_refused_locked(const uvs_t *s, bool on_loop) {
  return s->cleanups.shut || (s->cleanups.closing && !on_loop);
}

/* With the lock: onto its task's list, or to be called now, or both. *ret_call: the loop must look.
 * False if there is no turn to come. */
static bool attach_locked(uvs_t *s, uvs_id_t id, struct uvs__cleanup *a, bool on_loop,
                          bool *ret_call) {
  uint32_t slot = (uint32_t)id & UVS__SLOT_MASK;
  struct uvs__slot *t = uvs__slot(s, slot);
  uint64_t w = uvs__locked_load(&t->word, relaxed); /* the CAS acquires */
  bool too_late = s->cleanups.ending == id && !on_loop;

  *ret_call = true;
  while (uvs__word_generation(w) == id >> UVS__SLOT_BITS && uvs__word_state(w) != UVS__FREE &&
         uvs__word_state(w) != UVS__OVER && !too_late) {
    if (!uvs__word_try_locked(t, &w, w | UVS__CLEANUP))
      continue;
    uvs__cleanup_append_locked(list_of(s, slot), a);
    if (uvs__word_state(w) != UVS__ENDED) { /* else its end comes; nobody else may have called it */
      *ret_call = a->when_settled && uvs__settled(w);
      if (*ret_call)
        uvs__cleanup_now_locked(s, a);
    }
    return true;
  }
  if (uvs__cleanup_refused_locked(s, on_loop))
    return false;
  uvs__cleanup_now_locked(s, a);
  return true;
}

/* Is or was there such a task? */
static bool was(const uvs_t *s, uvs_id_t id) {
  uint64_t generation = id >> UVS__SLOT_BITS;
  uint32_t slot = (uint32_t)id & UVS__SLOT_MASK;
  uint64_t w;

  if (generation == 0 || slot >= uvs__slab_made(&s->agenda.slots))
    return false;
  w = uvs__load(&uvs__slot(s, slot)->word, relaxed); /* its generation only grows */
  return generation < uvs__word_generation(w) ||
         (generation == uvs__word_generation(w) && uvs__word_state(w) != UVS__FREE);
}

int uvs_add_cleanup(uvs_t *s, uvs_id_t id, uvs_cleanup_cb cb, void *arg, unsigned flags) {
  struct uvs__cleanup *a;
  bool on_loop;
  bool attached;
  bool call_loop;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  rc = uvs__cleanup_make(s, cb, arg, flags, &a);
  if (rc < 0)
    return rc;
  rc = was(s, id) ? reserve(s, (uint32_t)id & UVS__SLOT_MASK) : UV_ENOENT;
  if (rc < 0) {
    uvs__mem_free(&s->mem, a);
    return rc;
  }
  on_loop = uvs__on_loop(s);
  uv_mutex_lock(&s->pool.lock);
  attached = attach_locked(s, id, a, on_loop, &call_loop);
  uv_mutex_unlock(&s->pool.lock);
  if (!attached) {
    uvs__mem_free(&s->mem, a);
    return UV_ESHUTDOWN;
  }
  if (call_loop)
    uvs__cleanup_call_loop(s);
  return 0;
}

bool uvs__cleanup_any(uvs_t *s) {
  bool any;

  uv_mutex_lock(&s->pool.lock);
  any = s->cleanups.now.first != NULL;
  uv_mutex_unlock(&s->pool.lock);
  return any;
}

/* ---- the end ---- */

void uvs__cleanup_close(uvs_t *s) {
  uv_mutex_lock(&s->pool.lock);
  s->cleanups.closing = true;
  uv_mutex_unlock(&s->pool.lock);
}

bool uvs__cleanup_shut(uvs_t *s) {
  bool none;

  uv_mutex_lock(&s->pool.lock);
  s->cleanups.shut = true; /* first, or others could go on for ever */
  none = s->cleanups.now.first == NULL;
  uv_mutex_unlock(&s->pool.lock);
  return none;
}

static void forget(uvs_t *s, struct uvs__cleanup_list *l, int which) {
  struct uvs__cleanup *a;

  while ((a = pop(l, which)) != NULL) {
    if (a->lists == 0)
      uvs__mem_free(&s->mem, a);
  }
}

void uvs__cleanup_forget_list(uvs_t *s, struct uvs__cleanup_list *l) {
  forget(s, l, UVS__CLEANUP_OWN);
}

void uvs__cleanup_forget(uvs_t *s) {
  forget(s, &s->cleanups.now, UVS__CLEANUP_NOW);
  for (unsigned k = 0; k < UVS__CHUNKS; k++) {
    struct uvs__cleanup_list *chunk = uvs__load(&s->cleanups.of[k], relaxed); /* ours alone */

    for (uint32_t i = 0; chunk != NULL && i < uvs__chunk_size(k); i++)
      uvs__cleanup_forget_list(s, &chunk[i]);
    uvs__mem_free(&s->mem, chunk);
  }
}
