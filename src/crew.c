/* SPDX-License-Identifier: MIT
 *
 * crew: the runners, who has them, and how many may be out.
 *
 * Runners are made before they are needed, so that sending one out cannot fail for memory. They
 * belong to all crews together: each has so many reserved. They are never given back, since each
 * has the statistics of its runs.
 */
#include "pool.h"

#include "uvsched/executor.h"

#include <string.h>

#define PER_RUNNER 32
#define HELD_BACK_NS 1000000

/* ---- runners ---- */

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

/* `asked`: the executor says so. Then who has set it meanwhile has the last word. */
static int set_concurrency(struct uvs__pool *p, struct uvs__crew *c, int concurrency, bool asked) {
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
  if (!asked || c->follows) {
    uvs__locked_store(&c->concurrency, concurrency,
                      relaxed); /* a setting; what follows from it is under the lock */
    c->follows = asked;
  }
  uv_mutex_unlock(&p->lock);
  free_runners(p, made);
  return 0;
}

int uvs__crew_set_concurrency(struct uvs__pool *p, struct uvs__crew *c, int concurrency) {
  return set_concurrency(p, c, concurrency, false);
}

/* ---- executors ---- */

static int ask(const struct uvs__crew *c) {
  const uvs_executor_t *e = c->executor;
  int n = e->concurrency == NULL ? 1 : e->concurrency(e->self);

  return n < 1 ? 1 : n > c->most ? c->most : n;
}

void uvs__crew_follow(struct uvs__pool *p, struct uvs__crew *c) {
  bool follows;
  int n;

  uv_mutex_lock(&p->lock);
  follows = c->follows;
  uv_mutex_unlock(&p->lock);
  if (!follows)
    return;
  n = ask(c);
  if (n != uvs__load(&c->concurrency, relaxed)) /* a setting */
    set_concurrency(p, c, n, true);             /* without memory it stays as it is */
}

static int open_own(struct uvs__pool *p, struct uvs__crew *c, const struct uvs__crew_options *o) {
  uvs_threads_options_t t;
  int rc;

  uvs_threads_options_init(&t);
  t.threads = o->threads;
  t.name = o->thread_name;
  t.allocator = *p->mem;
  rc = uvs_threads_open(&t, &c->own);
  if (rc == 0)
    c->executor = uvs_threads_executor(c->own);
  return rc;
}

static bool is_executor(const uvs_executor_t *e) {
  return e->size == sizeof *e && e->submit != NULL;
}

int uvs__crew_open(struct uvs__pool *p, struct uvs__crew *c, const struct uvs__crew_options *o) {
  int rc = 0;

  c->executor = o->executor;
  c->follows = o->concurrency < 0;
  c->most = o->most;
  if (o->executor != NULL && (o->threads != 0 || !is_executor(o->executor)))
    return UV_EINVAL;
  if (o->threads == 0 && o->thread_name != NULL)
    return UV_EINVAL;
  if (o->threads != 0)
    rc = open_own(p, c, o);
  if (rc < 0)
    return rc;
  rc = set_concurrency(p, c, c->follows ? ask(c) : o->concurrency, c->follows);
  if (rc < 0 && c->own != NULL)
    uvs_threads_close(c->own);
  return rc;
}

void uvs__crew_watch(struct uvs__crew *c, void (*resized)(void *arg), void *arg) {
  c->watch = (struct uvs__resize_watch){NULL, NULL, resized, arg};
  if (c->executor != NULL && c->own == NULL) /* else nobody can resize it */
    uvs__threads_watch(c->executor, &c->watch);
}

void uvs__crew_close(struct uvs__pool *p, struct uvs__crew *c) {
  uv_mutex_lock(&p->lock);
  UVS_ASSERT(c->out == 0);
  UVS_ASSERT(c == &p->home || c->startable == 0); /* so it is on no list */
  p->reserved -= c->reserved;
  c->reserved = 0;
  uv_mutex_unlock(&p->lock);
  if (c->executor != NULL && c->own == NULL)
    uvs__threads_unwatch(c->executor, &c->watch);
  if (c->own != NULL)
    uvs_threads_close(c->own); /* its threads are idle: it does not take long */
  c->own = NULL;
  c->executor = NULL; /* it may be gone, and we may be called once more */
}

struct uvs__runner *uvs__pool_runners(struct uvs__pool *p) {
  struct uvs__runner *newest;

  uv_mutex_lock(&p->lock);
  newest = p->all;
  uv_mutex_unlock(&p->lock);
  return newest;
}

/* ---- out and home ---- */

static void link_last(struct uvs__pool *p, struct uvs__crew *c) {
  c->prev = p->wanting_last;
  c->next = NULL;
  if (c->prev == NULL)
    p->wanting = c;
  else
    c->prev->next = c;
  p->wanting_last = c;
  p->wanting_count++;
}

static void unlink_crew(struct uvs__pool *p, struct uvs__crew *c) {
  if (c->prev == NULL)
    p->wanting = c->next;
  else
    c->prev->next = c->next;
  if (c->next == NULL)
    p->wanting_last = c->prev;
  else
    c->next->prev = c->prev;
  p->wanting_count--;
}

void uvs__crew_list_locked(struct uvs__pool *p, struct uvs__crew *c) {
  bool wants = c->startable > 0;

  if (wants == c->listed)
    return;
  c->listed = wants;
  if (wants)
    link_last(p, c);
  else
    unlink_crew(p, c);
}

/* Of brief runs: one runner for each 32. */
static uint32_t wanted(const struct uvs__crew *c) {
  return uvs__crew_alone(c) ? 1 : (c->startable + PER_RUNNER - 1) / PER_RUNNER;
}

/* To wake a thread takes longer than many a run. So where one run after another was over at once, a
 * runner is wanted for each 32 tasks, not for each; until a run is long, or none starts for 1 ms.
 */
static bool wants_more(struct uvs__pool *p, struct uvs__crew *c, uint64_t now_ns) {
  if (c->startable <= c->seeking)
    return false;
  if (c->brief < UVS__BRIEF_MANY || wanted(c) > c->seeking + c->active)
    return true;
  if (c->starts != c->starts_seen) {
    c->starts_seen = c->starts;
    c->seen_ns = now_ns;
  } else if (now_ns - c->seen_ns >= HELD_BACK_NS) {
    c->brief = 0;
    return true;
  }
  p->held_back = true;
  return false;
}

struct uvs__crew *uvs__crew_that_wants(struct uvs__pool *p, uint64_t now_ns, uint32_t *left) {
  struct uvs__crew *c = NULL;

  uv_mutex_lock(&p->lock);
  if (*left == UVS__NONE) {
    *left = p->wanting_count;
    p->held_back = false;
    if (wants_more(p, &p->home, now_ns))
      c = &p->home;
  }
  /* Each goes to the end, so whatever leaves the list meanwhile, we come to all who stay. */
  for (; c == NULL && *left > 0 && p->wanting != NULL; --*left) {
    struct uvs__crew *first = p->wanting;

    unlink_crew(p, first);
    link_last(p, first);
    if (wants_more(p, first, now_ns))
      c = first;
  }
  uv_mutex_unlock(&p->lock);
  return c;
}

struct uvs__runner *uvs__crew_call_out(struct uvs__pool *p, struct uvs__crew *c, uint64_t now_ns) {
  struct uvs__runner *called = NULL;
  struct uvs__runner **last = &called;
  unsigned summoned = 0;

  uv_mutex_lock(&p->lock);
  while (c == &p->home && p->lingering > 0 && wants_more(p, c, now_ns)) {
    p->lingering--;
    p->summoned++;
    c->seeking++;
    summoned++;
  }
  while (wants_more(p, c, now_ns) && (int)c->out < uvs__locked_load(&c->concurrency, relaxed)) {
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
  if ((called != NULL || summoned > 0) && c->called_ns < c->home_ns)
    c->called_ns = now_ns;
  uv_mutex_unlock(&p->lock);
  for (; summoned > 0; summoned--)
    uv_cond_signal(&p->more);
  return called;
}

static bool home_locked(struct uvs__pool *p, struct uvs__runner *r) {
  p->out--;
  r->next = p->idle;
  p->idle = r;
  return --r->crew->out == 0;
}

bool uvs__crew_home(struct uvs__pool *p, struct uvs__runner *r) {
  bool last;

  uv_mutex_lock(&p->lock);
  last = home_locked(p, r);
  uv_mutex_unlock(&p->lock);
  return last;
}

bool uvs__crew_is_out(struct uvs__pool *p, const struct uvs__crew *c) {
  bool out;

  uv_mutex_lock(&p->lock);
  out = c->out > 0;
  uv_mutex_unlock(&p->lock);
  return out;
}

bool uvs__crew_not_out(struct uvs__pool *p, struct uvs__runner *r) {
  bool last;

  uv_mutex_lock(&p->lock);
  r->crew->seeking--;
  last = home_locked(p, r);
  uv_mutex_unlock(&p->lock);
  return last;
}
