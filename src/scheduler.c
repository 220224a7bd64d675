/* SPDX-License-Identifier: MIT
 *
 * scheduler: open, close, and what keeps the loop alive.
 *
 * Closing has three steps: refuse new work and stop (shutdown.c), let tick() end every task, close
 * the handles. Memory goes with the last reference: the owner's is given back after the close
 * callback.
 */
#include "scheduler.h"

#include "uvsched/executor.h"

#include <stddef.h>
#include <string.h>

#ifdef UVS__STEPS
void (*uvs__step_hook)(void);
#endif

#define OWNER_PATIENCE_MS 20
#define STRUCT_SIZE_MAX \
  4096 /* no version of any struct will be larger: a size beyond is a mistake */
#define OPTIONS_SIZE_MIN offsetof(uvs_options_t, seed)
#define POOL_SIZE_DEFAULT 4
#define POOL_SIZE_MAX 1024

void uvs__own_loop(uvs_t *s) {
  /* relaxed, both: only the thread itself finds its own number there, and whoever takes the loop
   * over from another thread has been told so by the program */
  uvs__store(&s->loop_thread, uvs__self(), relaxed);
  uvs__store(&s->loop_tid, uvs__thread.tid, relaxed);
}

bool uvs__owns_loop(const uvs_t *s) {
  uintptr_t owner = uvs__load(&s->loop_thread, relaxed); /* see uvs__own_loop */

  return uvs__self() == (owner == 0 ? s->opener : owner);
}

/* Has the loop's thread ended? One that was just joined may still be on its way out, so ask for a
 * while: this is no path of a program that is right. */
static bool owner_gone(const uvs_t *s) {
  /* relaxed, both: see uvs__own_loop */
  int tid =
      uvs__load(&s->loop_thread, relaxed) == 0 ? s->opener_tid : uvs__load(&s->loop_tid, relaxed);

  for (int ms = 0; ms < OWNER_PATIENCE_MS; ms++) {
    if (uvs__thread_gone(tid))
      return true;
    uv_sleep(1);
  }
  return false;
}

int uvs__enter_loop(uvs_t *s) {
  int rc = uvs__enter(s);

  if (rc < 0 || uvs__owns_loop(s))
    return rc;
  if (!owner_gone(s))
    return UV_EPERM;
  uvs__own_loop(s);
  return 0;
}

void uvs__notice_loss(uvs_t *s) {
  if (!uvs__ticker_lost(&s->ticker) || s->closers > 0)
    return;
  uvs__inbox_shut(&s->inbox);
  if (!s->closing)
    uvs__ticker_mute(&s->ticker);
  else if (uvs__ticker_replace(&s->ticker) == 0) /* else the end of a runner has to bring us here */
    uvs__ticker_keep(&s->ticker, true);
}

void uvs__wake(void *s) {
  uvs__ticker_wake(&((uvs_t *)s)->ticker);
}

void uvs__owe_turn(uvs_t *s) {
  uvs__notice_loss(s);
  s->owed = true;
  uvs__inbox_lower(&s->inbox, UVS__AWAKE);
  uvs__ticker_wake(&s->ticker);
  uvs__update_keep(s);
}

void uvs__update_keep(uvs_t *s) {
  bool keep = s->closing;

  uvs__learn_of_here(s);
  if (s->taken_ref > 0)
    uvs__store(&s->unkept, false, relaxed); /* who sees the old value sends for nothing */
  if (s->keep_alive == UVS_KEEP_AUTO)
    keep |= s->taken_ref > 0 || s->owed;
  if (s->keep_alive == UVS_KEEP_ALWAYS)
    keep |= !uvs__load(&s->terminated, relaxed); /* written by this thread */
  if (s->keep_alive != UVS_KEEP_NEVER)
    keep |= uvs__load(&s->queues.refs, relaxed) > 0; /* a count; the news order it */
  uvs__ticker_keep(&s->ticker, keep);
}

/* ---- open ---- */

/* As libuv reads it. */
static int default_concurrency(void) {
  char text[16];
  size_t size = sizeof text;
  long n = POOL_SIZE_DEFAULT;

  if (uv_os_getenv("UV_THREADPOOL_SIZE", text, &size) == 0)
    n = strtol(text, NULL, 10);
  if (n > POOL_SIZE_MAX || n < 0) /* libuv takes a negative number for a huge one */
    n = POOL_SIZE_MAX;
  return n <= 2 ? 1 : (int)n - 1;
}

/* A smaller struct leaves defaults; a larger one must say nothing that we do not know. */
int uvs__check_size(const void *given, size_t size, size_t ours, size_t least) {
  if (size < least || size > STRUCT_SIZE_MAX || size % _Alignof(uvs_options_t) != 0)
    return UV_EINVAL;
  for (size_t i = ours; i < size; i++) {
    if (((const char *)given)[i] != 0)
      return UV_EINVAL;
  }
  return 0;
}

static int read_options(const uvs_options_t *given, uvs_options_t *o) {
  size_t known;
  int rc;

  uvs_options_init(o);
  if (given == NULL)
    return 0;
  rc = uvs__check_size(given, given->size, sizeof *o, OPTIONS_SIZE_MIN);
  if (rc < 0)
    return rc;
  known = given->size < sizeof *o ? given->size : sizeof *o;
  memcpy(o, given, known);
  if (o->concurrency < -1 || o->concurrency > UVS__CONCURRENCY_MAX)
    return UV_EINVAL;
  if (o->keep_alive < UVS_KEEP_AUTO || o->keep_alive > UVS_KEEP_NEVER)
    return UV_EINVAL;
  if ((o->survive_delayed & ~1) != 0 || (o->survive_periodic & ~1) != 0)
    return UV_EINVAL;
  if (o->budget_ns < UVS_US(1) || o->budget_ns > UVS_SEC(1))
    return UV_EINVAL;
  if (o->rejected != NULL && o->rejection == UVS_REJECT_ABORT)
    o->rejection = UVS_REJECT_ASK;
  if (!uvs__rejection_known(o->rejection, o->rejected))
    return UV_EINVAL;
  if ((o->clock.monotonic_ns == NULL) != (o->clock.wall_ns == NULL))
    return UV_EINVAL;
  if ((o->allocator.alloc == NULL) != (o->allocator.free == NULL))
    return UV_EINVAL;
  if (o->precise_ns < 0 || o->precise_ns > UVS_MS(1))
    return UV_EINVAL;
  if (o->precise_ns > 0 && uvs__clock_replaced(&o->clock)) /* nobody would wait */
    return UV_EINVAL;
  return 0;
}

static void on_tick(struct uvs__ticker *k) {
  uvs__tick((uvs_t *)(void *)((char *)k - offsetof(uvs_t, ticker)));
}

static void on_due(struct uvs__ticker *k) {
  uvs_t *s = (void *)((char *)k - offsetof(uvs_t, ticker));

  uvs__notice_loss(s); /* of the async handle; or nobody would hear of it */
  uvs__tick_light(s, true);
}

static void on_wall_changed(struct uvs__wallwatch *w) {
  uvs__ticker_wake(&((uvs_t *)(void *)((char *)w - offsetof(uvs_t, watch)))->ticker);
}

static void set_up(uvs_t *s, uv_loop_t *loop, const uvs_options_t *o) {
  memset(s, 0, sizeof *s);
  s->loop = loop;
  s->opener = uvs__self();
  s->opener_tid = uvs__thread.tid;
  s->clock = o->clock;
  s->mem = o->allocator;
  s->keep_alive = o->keep_alive;
  s->max_pending = o->max_pending;
  s->budget_ns = (uint64_t)o->budget_ns;
  s->seed = o->seed != 0 ? o->seed : uv_hrtime() ^ (uint64_t)(uintptr_t)s;
  s->error_cb = o->error;
  s->terminated_cb = o->terminated;
  s->decorate_cb = o->decorate;
  s->missed_cb = o->missed;
  s->before_cb = o->before_body;
  s->after_cb = o->after_body;
  s->rejected_cb = o->rejected;
  atomic_init(&s->rejection, o->rejection);
  s->data = o->data;
  atomic_init(&s->refs, 1);
  atomic_init(&s->wakeups, 0);
  atomic_init(&s->survive[UVS_SURVIVE_DELAYED], o->survive_delayed);
  atomic_init(&s->survive[UVS_SURVIVE_PERIODIC], o->survive_periodic);
  atomic_init(&s->shutdown_ns, UVS__NEVER);
  atomic_init(&s->shutdown_wall_ns, UVS__NEVER);
  atomic_init(&s->kill_ns, UVS__NEVER);
  s->owed = true; /* the first turn */
  s->intake.head = UVS__NONE;
  s->todo.head = UVS__NONE;
  uvs__lanes_init(&s->lanes);
  uvs__inbox_init(&s->inbox, &s->agenda);
  uvs__queues_init(&s->queues);
  uvs__wallwatch_init(&s->watch, on_wall_changed);
}

static int open_crew(uvs_t *s, const uvs_options_t *o) {
  struct uvs__crew_options c = {o->executor, o->threads, o->thread_name, o->concurrency,
                                UVS__CONCURRENCY_MAX};

  if (c.concurrency < 0 && c.executor == NULL && c.threads == 0)
    c.concurrency = default_concurrency();
  return uvs__crew_open(&s->pool, &s->pool.home, &c);
}

int uvs_open(uv_loop_t *loop, const uvs_options_t *given, uvs_t **ret) {
  uvs_options_t o;
  uvs_t *s;
  int rc;

  if (loop == NULL || ret == NULL)
    return UV_EINVAL;
  rc = read_options(given, &o);
  if (rc < 0)
    return rc;
  uvs__mem_init(&o.allocator);
  s = uvs__mem_alloc(&o.allocator, 1, sizeof *s, 0);
  if (s == NULL)
    return UV_ENOMEM;
  set_up(s, loop, &o);
  rc = uvs__fork_init(&s->fork);
  if (rc < 0)
    goto free_scheduler;
  rc = uvs__agenda_init(&s->agenda, &s->mem);
  if (rc < 0)
    goto destroy_fork;
  rc = uvs__pool_init(&s->pool, &s->agenda, &s->mem, s);
  if (rc < 0)
    goto destroy_agenda;
  rc = open_crew(s, &o);
  if (rc < 0)
    goto destroy_pool;
  rc = uv_cond_init(&s->terminated_cond);
  if (rc < 0)
    goto close_crew;
  rc = uvs__ticker_init(&s->ticker, loop, &s->mem, (uint64_t)o.precise_ns, on_tick, on_due);
  if (rc < 0)
    goto destroy_cond;
  /* The first turn learns which thread is the loop's; until then the loop is held, so that it takes
   * in what is submitted before. */
  uvs__ticker_wake(&s->ticker);
  uvs__crew_watch(&s->pool.home, uvs__wake, s);
  *ret = s;
  return 0;

destroy_cond:
  uv_cond_destroy(&s->terminated_cond);
close_crew:
  uvs__crew_close(&s->pool, &s->pool.home);
destroy_pool:
  uvs__pool_destroy(&s->pool);
destroy_agenda:
  uvs__agenda_destroy(&s->agenda);
destroy_fork:
  uvs__fork_destroy(&s->fork);
free_scheduler:
  uvs__mem_free(&o.allocator, s);
  return rc;
}

/* ---- close ---- */

static void destroy(uvs_t *s) {
  uvs_allocator_t mem = s->mem;
  bool child = uvs__forked(&s->fork);

  if (!child) { /* a child's copies of locks may be held by threads that do not exist there */
    uv_cond_destroy(&s->terminated_cond);
    uvs__pool_destroy(&s->pool);
    uvs__agenda_destroy(&s->agenda);
  } else {
    if (s->pool.home.own != NULL)
      uvs_threads_close(s->pool.home.own);
    uvs__crew_free_runners(&s->pool);
    uvs__ticker_forget(&s->ticker);
    uvs__agenda_free_memory(&s->agenda);
  }
  uvs__cleanup_forget(s);
  uvs__fork_destroy(&s->fork);
  uvs__mem_free(&mem, s);
}

uvs_t *uvs_retain(uvs_t *s) {
  if (s != NULL)
    uvs__add(&s->refs, 1, relaxed); /* the caller has one, or is inside the owner's */
  return s;
}

void uvs_release(uvs_t *s) {
  if (s == NULL)
    return;
  /* acq_rel: releases what this thread did with it; the last one acquires what all others did */
  if (uvs__sub(&s->refs, 1, acq_rel) == 1)
    destroy(s);
}

static void finish_close(uvs_t *s) {
  if (--s->closers > 0)
    return;
  uvs__store(&s->closed, true, release); /* pairs with uvs__enter */
  if (s->close_cb != NULL)
    s->close_cb(s);
  uvs_release(s);
}

static void on_ticker_closed(struct uvs__ticker *k) {
  finish_close((uvs_t *)(void *)((char *)k - offsetof(uvs_t, ticker)));
}

static void on_watch_closed(struct uvs__wallwatch *w) {
  finish_close((uvs_t *)(void *)((char *)w - offsetof(uvs_t, watch)));
}

void uvs__close_handles(uvs_t *s) {
  bool lost = uvs__wallwatch_lost(&s->watch);

  if (s->closers > 0 || s->ticker.nudged)
    return;
  s->closers = 1;
  if (uvs__wallwatch_close(&s->watch, on_watch_closed))
    s->closers++;
  uvs__ticker_close(&s->ticker, on_ticker_closed, lost);
}

static int close_in_child(uvs_t *s, uvs_close_cb cb) {
  if (s->closed_in_child)
    return UV_EALREADY;
  s->closed_in_child = true;
  uvs__queues_forget(s);
  uvs__lanes_forget(s);
  if (cb != NULL)
    cb(s);
  uvs_release(s);
  return 0;
}

int uvs_close(uvs_t *s, uvs_close_cb cb) {
  int rc = uvs__enter_loop(s);

  if (rc == UV_ENOTSUP)
    return close_in_child(s, cb);
  if (rc < 0)
    return rc == UV_ESHUTDOWN ? UV_EALREADY : rc;
  if (s->closing)
    return UV_EALREADY;
  rc = uvs__ticker_replace(&s->ticker);
  if (rc < 0)
    return rc;
  s->closing = true;
  s->close_cb = cb;
  uvs__cleanup_close(s);
  uvs__stop_now(s, NULL, NULL);
  uvs__owe_turn(s);
  uvs__ticker_nudge(&s->ticker); /* a program may close all handles it finds right after this */
  return 0;
}
