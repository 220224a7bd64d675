/* SPDX-License-Identifier: MIT */
#include "pool.h"

#include <string.h>

#define FIRST (UVS__NONE - 1) /* `a` of the first on a list; UVS__NONE would mean: on no list */

void uvs__list_init(struct uvs__list *l) {
  l->head = UVS__NONE;
  l->tail = UVS__NONE;
}

void uvs__list_append(const struct uvs__agenda *a, struct uvs__list *l, uint32_t slot) {
  struct uvs__link *k = uvs__agenda_link(a, slot);

  UVS_ASSERT(k->a == UVS__NONE);
  k->a = l->tail == UVS__NONE ? FIRST : l->tail;
  k->b = UVS__NONE;
  if (l->tail == UVS__NONE)
    l->head = slot;
  else
    uvs__agenda_link(a, l->tail)->b = slot;
  l->tail = slot;
}

void uvs__list_unlink(const struct uvs__agenda *a, struct uvs__list *l, uint32_t slot) {
  struct uvs__link *k = uvs__agenda_link(a, slot);

  if (k->a == UVS__NONE)
    return;
  if (k->a == FIRST)
    l->head = k->b;
  else
    uvs__agenda_link(a, k->a)->b = k->b;
  if (k->b == UVS__NONE)
    l->tail = k->a == FIRST ? UVS__NONE : k->a;
  else
    uvs__agenda_link(a, k->b)->a = k->a;
  *k = (struct uvs__link){UVS__NONE, UVS__NONE};
}

int uvs__pool_init(struct uvs__pool *p, struct uvs__agenda *a, const uvs_allocator_t *mem,
                   void *runner_arg) {
  int rc;

  memset(p, 0, sizeof *p);
  p->agenda = a;
  p->mem = mem;
  p->runner_arg = runner_arg;
  uvs__list_init(&p->ready);
  rc = uv_mutex_init(&p->lock);
  if (rc < 0)
    return rc;
  rc = uv_cond_init(&p->settled);
  if (rc < 0)
    uv_mutex_destroy(&p->lock);
  return rc;
}

void uvs__pool_free_memory(struct uvs__pool *p) {
  while (p->all != NULL) {
    struct uvs__runner *r = p->all;

    p->all = r->all;
    uvs__mem_free(p->mem, r);
  }
}

void uvs__pool_destroy(struct uvs__pool *p) {
  uvs__pool_free_memory(p);
  uv_cond_destroy(&p->settled);
  uv_mutex_destroy(&p->lock);
}

int uvs__pool_set_concurrency(struct uvs__pool *p, int concurrency) {
  struct uvs__runner *made = NULL;
  struct uvs__runner **last = &made;
  struct uvs__runner *newest;
  int rc = 0;

  uv_mutex_lock(&p->lock);
  newest = p->all;
  for (int i = p->made; i < concurrency; i++) {
    struct uvs__runner *r = uvs__mem_alloc(p->mem, 1, sizeof *r, 0);

    if (r == NULL) {
      rc = UV_ENOMEM;
      break;
    }
    memset(r, 0, sizeof *r);
    r->arg = p->runner_arg;
    r->index = i;
    r->all = newest;
    newest = r;
    *last = r;
    last = &r->next;
  }
  if (rc == 0) {
    if (made != NULL) {
      *last = p->idle;
      p->idle = made;
      p->made = concurrency;
      p->all = newest;
    }
    uvs__locked_store(&p->concurrency, concurrency,
                      relaxed); /* a setting; what follows from it is under the lock */
    made = NULL;
  }
  uv_mutex_unlock(&p->lock);
  while (made != NULL) {
    struct uvs__runner *r = made;

    made = r->next;
    uvs__mem_free(p->mem, r);
  }
  return rc;
}

uint64_t uvs__pool_settle_locked(struct uvs__pool *p, uint64_t w, enum uvs__outcome outcome) {
  uint64_t one = UVS__LOAD_ONE + ((w & UVS__REF) != 0 ? UVS__LOAD_REF : 0);

  if (uvs__word_state(w) == UVS__READY)
    p->ready_count[uvs__on_which(w)]--;
  if (uvs__word_state(w) == UVS__RUNNING)
    p->running_count--;
  p->ended[outcome]++;
  if ((w & UVS__KEEP) != 0)
    uv_cond_broadcast(&p->settled);
  /* relaxed: a count; the cap and the last-ref'd wake-up need only its own order */
  return uvs__locked_sub(&p->load, one, relaxed) - one;
}

uint64_t uvs__pool_settle(struct uvs__pool *p, uint64_t w, enum uvs__outcome outcome) {
  uint64_t load;

  uv_mutex_lock(&p->lock);
  load = uvs__pool_settle_locked(p, w, outcome);
  uv_mutex_unlock(&p->lock);
  return load;
}

bool uvs__pool_cancel(struct uvs__pool *p, uint32_t slot, uint64_t *w, uint64_t flags,
                      uint64_t *ret_load) {
  bool running = uvs__word_state(*w) == UVS__RUNNING;
  uint64_t to = *w | UVS__CANCELLED | flags;
  uint64_t load = 0;
  bool done;

  if (!running)
    to = uvs__word_in(to, UVS__ENDED) | UVS__INBOX;
  uv_mutex_lock(&p->lock);
  done = uvs__word_try_locked(uvs__agenda_slot(p->agenda, slot), w, to);
  if (done)
    load = uvs__pool_settle_locked(p, *w, UVS__CANCELED);
  uv_mutex_unlock(&p->lock);
  if (ret_load != NULL)
    *ret_load = load;
  return done;
}

uint32_t uvs__pool_start_locked(struct uvs__pool *p, struct uvs__list *list) {
  uint32_t slot;

  while ((slot = list->head) != UVS__NONE) {
    struct uvs__slot *t = uvs__agenda_slot(p->agenda, slot);
    uint64_t w = uvs__locked_load(&t->word, relaxed); /* the CAS acquires */

    uvs__list_unlink(p->agenda, list, slot);
    while (uvs__word_state(w) == UVS__READY) {
      if (uvs__word_try_locked(t, &w, uvs__word_in(w & ~UVS__LISTED, UVS__RUNNING))) {
        p->ready_count[uvs__on_which(w)]--;
        p->running_count++;
        p->runs++;
        return slot;
      }
    }
    /* It was cancelled, and the loop already has it. */
  }
  return UVS__NONE;
}

struct uvs__runner *uvs__pool_call_out(struct uvs__pool *p) {
  struct uvs__runner *called = NULL;
  struct uvs__runner **last = &called;

  uv_mutex_lock(&p->lock);
  while (p->ready_count[0] > p->seeking &&
         (int)p->out < uvs__locked_load(&p->concurrency, relaxed)) {
    struct uvs__runner *r = p->idle;

    UVS_ASSERT(r != NULL);
    p->idle = r->next;
    p->seeking++;
    p->out++;
    *last = r;
    last = &r->next;
  }
  *last = NULL;
  uv_mutex_unlock(&p->lock);
  return called;
}

void uvs__pool_home(struct uvs__pool *p, struct uvs__runner *r) {
  uv_mutex_lock(&p->lock);
  p->out--;
  r->next = p->idle;
  p->idle = r;
  uv_mutex_unlock(&p->lock);
}
