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

/* A list by `next`. */
static void free_runners(struct uvs__pool *p, struct uvs__runner *r) {
  while (r != NULL) {
    struct uvs__runner *next = r->next;

    uvs__mem_free(p->mem, r);
    r = next;
  }
}

/* So many, linked by `next`, for uvs__pool_set_concurrency to number. NULL with n > 0: no memory.
 */
static struct uvs__runner *make_runners(struct uvs__pool *p, int n) {
  struct uvs__runner *made = NULL;

  for (int i = 0; i < n; i++) {
    struct uvs__runner *r = uvs__mem_alloc(p->mem, 1, sizeof *r, 0);

    if (r == NULL) {
      free_runners(p, made);
      return NULL;
    }
    memset(r, 0, sizeof *r);
    r->arg = p->runner_arg;
    r->next = made;
    made = r;
  }
  return made;
}

int uvs__pool_set_concurrency(struct uvs__pool *p, int concurrency) {
  struct uvs__runner *made;
  struct uvs__runner *spare;
  struct uvs__runner **last;
  int missing;

  /* Taken without the lock, since many are much memory. Runners never become fewer, so the second
   * look finds no more missing than the first. */
  uv_mutex_lock(&p->lock);
  missing = concurrency - p->made;
  uv_mutex_unlock(&p->lock);
  made = make_runners(p, missing);
  if (missing > 0 && made == NULL)
    return UV_ENOMEM;

  uv_mutex_lock(&p->lock);
  last = &made;
  while (p->made < concurrency) {
    struct uvs__runner *r = *last;

    UVS_ASSERT(r != NULL);
    r->index = p->made++;
    r->all = p->all;
    p->all = r;
    last = &r->next;
  }
  spare = *last;
  *last = p->idle;
  p->idle = made;
  uvs__locked_store(&p->concurrency, concurrency,
                    relaxed); /* a setting; what follows from it is under the lock */
  uv_mutex_unlock(&p->lock);
  free_runners(p, spare);
  return 0;
}

struct uvs__runner *uvs__pool_runners(struct uvs__pool *p) {
  struct uvs__runner *newest;

  uv_mutex_lock(&p->lock);
  newest = p->all;
  uv_mutex_unlock(&p->lock);
  return newest;
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

bool uvs__pool_decide(struct uvs__pool *p, uint32_t slot, uint64_t *w, uint64_t to,
                      enum uvs__outcome outcome, uint64_t *ret_load) {
  uint64_t load = 0;
  bool done;

  uv_mutex_lock(&p->lock);
  done = uvs__word_try_locked(uvs__agenda_slot(p->agenda, slot), w, to);
  if (done)
    load = uvs__pool_settle_locked(p, *w, outcome);
  uv_mutex_unlock(&p->lock);
  if (ret_load != NULL)
    *ret_load = load;
  return done;
}

bool uvs__pool_cancel(struct uvs__pool *p, uint32_t slot, uint64_t *w, uint64_t flags,
                      uint64_t *ret_load) {
  uint64_t to = (*w & ~UVS__PUSHES) | UVS__CANCELLED | flags;

  if (uvs__word_state(*w) != UVS__RUNNING)
    to = uvs__word_in(to, UVS__ENDED) | UVS__INBOX;
  return uvs__pool_decide(p, slot, w, to, UVS__CANCELED, ret_load);
}

bool uvs__pool_drop(struct uvs__pool *p, uint32_t slot, uint64_t *w) {
  uint64_t to = uvs__word_in((*w & ~UVS__PUSHES) | UVS__CANCELLED | UVS__INBOX, UVS__ENDED);

  return uvs__pool_decide(p, slot, w, to, UVS__DROPPED, NULL);
}

/* Move 4. */
static bool start_locked(struct uvs__pool *p, struct uvs__slot *t, uint64_t *w) {
  if (!uvs__word_try_locked(t, w, uvs__word_in(*w & ~UVS__LISTED, UVS__RUNNING)))
    return false;
  p->ready_count[uvs__on_which(*w)]--;
  p->running_count++;
  return true;
}

uint32_t uvs__pool_start_locked(struct uvs__pool *p, struct uvs__list *list) {
  uint32_t slot;

  while ((slot = list->head) != UVS__NONE) {
    struct uvs__slot *t = uvs__agenda_slot(p->agenda, slot);
    uint64_t w = uvs__locked_load(&t->word, relaxed); /* the CAS acquires */

    uvs__list_unlink(p->agenda, list, slot);
    while (uvs__word_state(w) == UVS__READY) {
      if (start_locked(p, t, &w)) {
        p->runs++;
        return slot;
      }
    }
    /* It was cancelled, and the loop already has it. */
  }
  return UVS__NONE;
}

bool uvs__pool_withdraw(struct uvs__pool *p, struct uvs__list *list, uint32_t slot, uint64_t *w) {
  bool done;

  uv_mutex_lock(&p->lock);
  done = start_locked(p, uvs__agenda_slot(p->agenda, slot), w);
  if (done)
    uvs__list_unlink(p->agenda, list, slot);
  uv_mutex_unlock(&p->lock);
  return done;
}

struct uvs__runner *uvs__pool_call_out(struct uvs__pool *p, uint64_t now_ns) {
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
  if (called != NULL && p->called_ns < p->home_ns)
    p->called_ns = now_ns;
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
