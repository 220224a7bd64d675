/* SPDX-License-Identifier: MIT
 *
 * crew: the runners, who has them, and how many may be out.
 *
 * Runners are made before they are needed, so that sending one out cannot fail for memory. They
 * belong to all crews together: each has so many reserved. They are never given back, since each
 * has the statistics of its runs.
 */
#include "pool.h"

#include <string.h>

void uvs__crew_init(struct uvs__crew *c, const struct uvs_executor_s *executor) {
  memset(c, 0, sizeof *c);
  c->executor = executor;
  uvs__ready_init(&c->ready);
}

/* A list by `next`. */
static void free_runners(struct uvs__pool *p, struct uvs__runner *r) {
  while (r != NULL) {
    struct uvs__runner *next = r->next;

    uvs__mem_free(p->mem, r);
    r = next;
  }
}

void uvs__crew_free_runners(struct uvs__pool *p) {
  while (p->all != NULL) {
    struct uvs__runner *r = p->all;

    p->all = r->all;
    uvs__mem_free(p->mem, r);
  }
}

/* So many, linked by `next`. NULL with n > 0: no memory. */
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

/* With the lock: so many are missing if this crew is to have n. */
static int missing_locked(const struct uvs__pool *p, const struct uvs__crew *c, int n) {
  return n <= c->reserved ? 0 : p->reserved + (n - c->reserved) - p->made;
}

/* With the lock: as many of `spare` as are missing. Returns the rest. */
static struct uvs__runner *reserve_locked(struct uvs__pool *p, struct uvs__crew *c, int n,
                                          struct uvs__runner *spare) {
  for (int missing = missing_locked(p, c, n); missing > 0; missing--) {
    struct uvs__runner *r = spare;

    UVS_ASSERT(r != NULL);
    spare = r->next;
    r->index = p->made++;
    r->all = p->all;
    p->all = r;
    r->next = p->idle;
    p->idle = r;
  }
  if (n > c->reserved) {
    p->reserved += n - c->reserved;
    c->reserved = n;
  }
  return spare;
}

int uvs__crew_set_concurrency(struct uvs__pool *p, struct uvs__crew *c, int concurrency) {
  struct uvs__runner *made = NULL;
  int missing;

  /* Made without the lock, since many are much memory: another may have been faster, or have taken
   * what we counted on. */
  uv_mutex_lock(&p->lock);
  missing = missing_locked(p, c, concurrency);
  while (missing > 0) {
    struct uvs__runner *more;

    uv_mutex_unlock(&p->lock);
    more = make_runners(p, missing);
    if (more == NULL) {
      free_runners(p, made);
      return UV_ENOMEM;
    }
    while (more != NULL) {
      struct uvs__runner *r = more;

      more = r->next;
      r->next = made;
      made = r;
    }
    uv_mutex_lock(&p->lock);
    missing = missing_locked(p, c, concurrency);
    for (struct uvs__runner *r = made; r != NULL; r = r->next)
      missing--;
  }
  made = reserve_locked(p, c, concurrency, made);
  uvs__locked_store(&c->concurrency, concurrency,
                    relaxed); /* a setting; what follows from it is under the lock */
  uv_mutex_unlock(&p->lock);
  free_runners(p, made);
  return 0;
}

struct uvs__runner *uvs__pool_runners(struct uvs__pool *p) {
  struct uvs__runner *newest;

  uv_mutex_lock(&p->lock);
  newest = p->all;
  uv_mutex_unlock(&p->lock);
  return newest;
}

struct uvs__runner *uvs__crew_call_out(struct uvs__pool *p, struct uvs__crew *c, uint64_t now_ns) {
  struct uvs__runner *called = NULL;
  struct uvs__runner **last = &called;

  uv_mutex_lock(&p->lock);
  while (c->startable > c->seeking && (int)c->out < uvs__locked_load(&c->concurrency, relaxed)) {
    struct uvs__runner *r = p->idle;

    UVS_ASSERT(r != NULL);
    p->idle = r->next;
    r->crew = c;
    c->seeking++;
    c->out++;
    p->out++;
    *last = r;
    last = &r->next;
  }
  *last = NULL;
  if (called != NULL && c->called_ns < c->home_ns)
    c->called_ns = now_ns;
  uv_mutex_unlock(&p->lock);
  return called;
}

static void home_locked(struct uvs__pool *p, struct uvs__runner *r) {
  r->crew->out--;
  p->out--;
  r->next = p->idle;
  p->idle = r;
}

void uvs__crew_home(struct uvs__pool *p, struct uvs__runner *r) {
  uv_mutex_lock(&p->lock);
  home_locked(p, r);
  uv_mutex_unlock(&p->lock);
}

void uvs__crew_not_out(struct uvs__pool *p, struct uvs__runner *r) {
  uv_mutex_lock(&p->lock);
  r->crew->seeking--;
  home_locked(p, r);
  uv_mutex_unlock(&p->lock);
}
