/* SPDX-License-Identifier: MIT
 *
 * crew: the runners of an executor, and how many there may be.
 *
 * Runners are made before they are needed, so that sending one cannot fail for memory. All crews
 * share them, and each crew has some reserved. They are freed with the scheduler, since each runner
 * has the statistics of its runs.
 */
#include "pool/crew.h"

#include "core/wake.h"
#include "uvsched/executor.h"

#include <string.h>

/* ---- runners ---- */

/* Frees runners that are linked by `next`. */
static void free_list(uvs_t *s, struct uvs__runner *r) {
  while (r != NULL) {
    struct uvs__runner *next = r->next;

    uvs__mem_free(&s->mem, r);
    r = next;
  }
}

void uvs__free_runners(uvs_t *s) {
  while (s->runners.all != NULL) {
    struct uvs__runner *r = s->runners.all;

    s->runners.all = r->all;
    uvs__mem_free(&s->mem, r);
  }
}

/* Makes n runners, at the front of *list. False: no memory; the list is as it was. */
static bool make_runners(uvs_t *s, int n, struct uvs__runner **list) {
  struct uvs__runner *old = *list;

  for (; n > 0; n--) {
    struct uvs__runner *r = uvs__mem_alloc(&s->mem, 1, sizeof *r, 0);

    if (r == NULL) {
      while (*list != old) {
        r = *list;
        *list = r->next;
        uvs__mem_free(&s->mem, r);
      }
      return false;
    }
    memset(r, 0, sizeof *r);
    r->scheduler = s;
    r->next = *list;
    *list = r;
  }
  return true;
}

/* Lock held: how many runners are missing if this crew is to have n. */
static int missing(const uvs_t *s, const struct uvs__crew *c, int n) {
  return n <= c->reserved ? 0 : s->runners.reserved + (n - c->reserved) - s->runners.made;
}

/* Lock held: reserves n runners for the crew. Missing runners are taken from *spare. */
static void reserve(uvs_t *s, struct uvs__crew *c, int n, struct uvs__runner **spare) {
  for (int more = missing(s, c, n); more > 0; more--) {
    struct uvs__runner *r = *spare;

    UVS_ASSERT(r != NULL);
    *spare = r->next;
    r->index = s->runners.made++;
    r->all = s->runners.all;
    s->runners.all = r;
    r->next = s->runners.idle;
    s->runners.idle = r;
  }
  if (n > c->reserved) {
    s->runners.reserved += n - c->reserved;
    c->reserved = n;
  }
}

/* Lock held: the loop gets the ready tasks of a crew that has no runners any more, up to a batch.
 * False: there are none left. */
static bool give_to_loop(uvs_t *s, struct uvs__crew *c) {
  for (int steps = UVS__BATCH; steps > 0; steps--) {
    uint32_t slot = uvs__ready_first(&s->table, &c->ready);
    struct uvs__task *t;
    struct uvs__extra *x;

    if (slot == UVS__NONE || c->concurrency != 0)
      return false;
    t = uvs__task(s, slot);
    x = uvs__extra(s, t);
    uvs__ready_remove(&s->table, &c->ready, slot);
    t->flags |= UVS__ON_LOOP;
    uvs__ready_add(&s->table, &s->loop_ready, slot);
    if (x != NULL && x->gate != NULL)
      uvs__gate_promise(s, x->gate);
    else
      c->startable--;
  }
  return true;
}

/* asked: the number is the executor's answer. It is ignored if a caller has set another number
 * meanwhile. */
static int set_concurrency(uvs_t *s, struct uvs__crew *c, int concurrency, bool asked) {
  struct uvs__runner *spare = NULL;
  int spares = 0;
  int more;

  /* Runners are made without the lock. Meanwhile another thread may make some, or reserve the
   * runners that were counted on. */
  uvs__lock(s);
  while ((more = missing(s, c, concurrency) - spares) > 0) {
    uvs__unlock(s);
    if (!make_runners(s, more, &spare)) {
      free_list(s, spare);
      return UV_ENOMEM;
    }
    spares += more;
    uvs__lock(s);
  }
  reserve(s, c, concurrency, &spare);
  if (!asked || c->follows) {
    c->concurrency = concurrency;
    c->follows = asked;
  }
  while (give_to_loop(s, c)) {
    uvs__unlock(s);
    uvs__lock(s);
  }
  uvs__unlock_and_wake(s, 0);
  free_list(s, spare);
  return 0;
}

int uvs__crew_set_concurrency(uvs_t *s, struct uvs__crew *c, int concurrency) {
  return set_concurrency(s, c, concurrency, false);
}

/* ---- executors ---- */

static int ask(const struct uvs__crew *c) {
  const uvs_executor_t *e = c->executor;
  int n = e->concurrency == NULL ? 1 : e->concurrency(e->self);

  return n < 1 ? 1 : n > c->most ? c->most : n;
}

void uvs__crew_follow(uvs_t *s, struct uvs__crew *c) {
  bool follows;
  int old, n;

  uvs__lock(s);
  follows = c->follows;
  old = c->concurrency;
  uvs__unlock(s);
  if (!follows)
    return;
  n = ask(c);
  if (n != old)
    set_concurrency(s, c, n, true); /* without memory the old number stays */
}

static int open_own(uvs_t *s, struct uvs__crew *c, const struct uvs__crew_options *o) {
  uvs_threads_options_t t;
  int rc;

  uvs_threads_options_init(&t);
  t.threads = o->threads;
  t.name = o->thread_name;
  t.allocator = s->mem;
  rc = uvs_threads_open(&t, &c->own);
  if (rc == 0)
    c->executor = uvs_threads_executor(c->own);
  return rc;
}

static bool is_executor(const uvs_executor_t *e) {
  return e->size == sizeof *e && e->submit != NULL;
}

int uvs__crew_open(uvs_t *s, struct uvs__crew *c, const struct uvs__crew_options *o) {
  int rc = 0;

  c->executor = o->executor;
  c->follows = o->concurrency < 0;
  c->most = o->most;
  if (o->executor != NULL && (o->threads != 0 || !is_executor(o->executor)))
    return UV_EINVAL;
  if (o->threads == 0 && o->thread_name != NULL)
    return UV_EINVAL;
  if (o->threads != 0)
    rc = open_own(s, c, o);
  if (rc < 0)
    return rc;
  rc = set_concurrency(s, c, c->follows ? ask(c) : o->concurrency, c->follows);
  if (rc < 0 && c->own != NULL)
    uvs_threads_close(c->own);
  return rc;
}

static void on_resized(void *s) {
  uvs__wake_loop(s);
}

void uvs__crew_watch(uvs_t *s, struct uvs__crew *c) {
  c->watch = (struct uvs__resize_watch){NULL, NULL, on_resized, s};
  if (c->executor != NULL && c->own == NULL) /* else nobody can resize it */
    uvs__threads_watch(c->executor, &c->watch);
}

void uvs__crew_close(uvs_t *s, struct uvs__crew *c) {
  uvs__lock(s);
  UVS_ASSERT(c->out == 0);
  s->runners.reserved -= c->reserved;
  c->reserved = 0;
  uvs__unlock(s);
  if (c->executor != NULL && c->own == NULL)
    uvs__threads_unwatch(c->executor, &c->watch);
  if (c->own != NULL)
    uvs_threads_close(c->own); /* its threads are idle, so this does not take long */
  c->own = NULL;
  c->executor = NULL; /* it may be gone, and this may be called once more */
}
