/* SPDX-License-Identifier: MIT
 *
 * crew: the runners of an executor, and how many there may be.
 *
 * Runners are made before they are needed, so that sending one cannot fail for lack of memory. All
 * crews share them, and each crew has some reserved. They are freed with the scheduler, since each
 * runner holds the statistics of its runs.
 */
#include "pool/crew.h"

#include "core/wake.h"
#include "uvsched/executor.h"

#include <string.h>

/* ---- runners ---- */

static void free_runners(uvs_t *s, struct uvs__runner *first) {
  while (first != NULL) {
    struct uvs__runner *r = first;

    first = r->all;
    uvs__mem_free(&s->mem, r);
  }
}

void uvs__free_runners(uvs_t *s) {
  free_runners(s, s->runners.all);
}

/* Makes one more runner, at the front of *list. 0, UV_ENOMEM. */
static int make_runner(uvs_t *s, struct uvs__runner **list) {
  struct uvs__runner *r = uvs__mem_alloc(&s->mem, 1, sizeof *r, 0);

  if (r == NULL)
    return UV_ENOMEM;
  memset(r, 0, sizeof *r);
  r->scheduler = s;
  r->all = *list;
  *list = r;
  return 0;
}

/* Lock held: reserves n runners for the crew. Missing runners are taken from *spare. False: there
 * are too few, and nothing has changed. */
static bool reserve(uvs_t *s, struct uvs__crew *c, int n, struct uvs__runner **spare, int spares) {
  int missing = s->runners.reserved + n - c->reserved - s->runners.made;

  if (n <= c->reserved)
    return true;
  if (missing > spares)
    return false;
  for (; missing > 0; missing--) {
    struct uvs__runner *r = *spare;

    *spare = r->all;
    r->index = s->runners.made++;
    r->all = s->runners.all;
    s->runners.all = r;
    r->next = s->runners.idle;
    s->runners.idle = r;
  }
  s->runners.reserved += n - c->reserved;
  c->reserved = n;
  return true;
}

/* Lock held: if the crew may no longer have runners (concurrency 0), gives up to a batch of its
 * ready tasks to the loop. False: there is nothing left to give. */
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

int uvs__crew_set_concurrency(uvs_t *s, struct uvs__crew *c, int concurrency, bool asked) {
  struct uvs__runner *spare = NULL;
  int rc = 0;

  uvs__lock(s);
  /* Runners are made without the lock. Meanwhile another thread may make some, or reserve the
   * runners that were counted on. */
  for (int spares = 0; rc == 0 && !reserve(s, c, concurrency, &spare, spares); spares++) {
    uvs__unlock(s);
    rc = make_runner(s, &spare);
    uvs__lock(s);
  }
  if (rc == 0 && (!asked || c->follows)) {
    c->concurrency = concurrency;
    c->follows = asked;
  }
  while (give_to_loop(s, c)) {
    uvs__unlock(s);
    uvs__lock(s);
  }
  uvs__unlock_and_wake(s, 0);
  free_runners(s, spare);
  return rc;
}

/* ---- executors ---- */

static int ask(const struct uvs__crew *c) {
  const uvs_executor_t *e = c->executor;
  int n = e->concurrency == NULL ? 1 : e->concurrency(e->self);

  return n < 1 ? 1 : n > c->most ? c->most : n;
}

void uvs__crew_follow(uvs_t *s, struct uvs__crew *c) {
  int old = c->concurrency;
  int n;

  if (!c->follows)
    return;
  uvs__unlock(s);
  n = ask(c);
  if (n != old)
    uvs__crew_set_concurrency(s, c, n, true); /* if there is no memory, the old number stays */
  uvs__lock(s);
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

static void on_resized(void *s) {
  uvs__wake_loop(s);
}

int uvs__crew_open(uvs_t *s, struct uvs__crew *c, const struct uvs__crew_options *o) {
  const uvs_executor_t *e = o->executor;
  int rc = 0;

  c->executor = e;
  c->follows = o->concurrency < 0;
  c->most = o->most;
  if (e != NULL && (o->threads != 0 || e->size != sizeof *e || e->submit == NULL))
    return UV_EINVAL;
  if (o->threads == 0 && o->thread_name != NULL)
    return UV_EINVAL;
  if (o->threads != 0)
    rc = open_own(s, c, o);
  if (rc < 0)
    return rc;
  rc = uvs__crew_set_concurrency(s, c, c->follows ? ask(c) : o->concurrency, c->follows);
  if (rc < 0 && c->own != NULL)
    uvs_threads_close(c->own);
  c->watch = (struct uvs__resize_watch){NULL, NULL, on_resized, s};
  if (rc == 0 && c->executor != NULL && c->own == NULL) /* nobody can resize a crew's own threads */
    uvs__threads_watch(c->executor, &c->watch);
  return rc;
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
  c->executor = NULL; /* the executor may be gone, and this may be called again */
}
