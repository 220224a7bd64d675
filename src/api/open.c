/* SPDX-License-Identifier: MIT
 *
 * open: opens, configures and closes a scheduler. loop/close.c does the work of closing.
 */
#include "api/api.h"

#include "loop/loop.h"
#include "pool/crew.h"
#include "util/numbers.h"
#include "uvsched/executor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u
#define OWNER_PATIENCE_MS 20
#define OPTIONS_SIZE_MIN offsetof(uvs_options_t, seed)
#define HOOKS_SIZE_MIN offsetof(uvs_hooks_t, before_body)
#define POOL_SIZE_DEFAULT 4
#define POOL_SIZE_MAX 1024

/* ---- the loop's thread ---- */

bool uvs__owns_loop(const uvs_t *s) {
  uintptr_t owner = uvs__load(&s->loop_thread, relaxed); /* see uvs__own_loop */

  return uvs__self() == (owner == 0 ? s->opener : owner);
}

/* Has the loop's thread ended? A thread that was just joined may still be exiting, so this function
 * asks repeatedly for a while. A correct program that has one loop thread never calls it. */
static bool owner_is_gone(const uvs_t *s) {
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
  if (!owner_is_gone(s))
    return UV_EPERM;
  uvs__own_loop(s);
  return 0;
}

/* ---- open ---- */

/* One less than the size of libuv's pool, but at least 1. Reads the size as libuv does. */
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

/* The caller's hooks, with NULL for missing fields. */
static int read_hooks(const uvs_hooks_t *given, uvs_hooks_t *h) {
  uvs_hooks_init(h);
  if (given == NULL)
    return 0;
  return uvs__read_sized(h, sizeof *h, given, given->size, HOOKS_SIZE_MIN);
}

static int read_options(const uvs_options_t *given, uvs_options_t *o, uvs_hooks_t *h) {
  int rc;

  uvs_options_init(o);
  uvs_hooks_init(h);
  if (given == NULL)
    return 0;
  rc = uvs__read_sized(o, sizeof *o, given, given->size, OPTIONS_SIZE_MIN);
  if (rc < 0)
    return rc;
  if (o->concurrency < -1 || o->concurrency > UVS__CONCURRENCY_MAX)
    return UV_EINVAL;
  if (o->keep_alive < UVS_KEEP_ALIVE_AUTO || o->keep_alive > UVS_KEEP_ALIVE_NEVER)
    return UV_EINVAL;
  if ((o->delayed_after_shutdown & ~1) != 0 || (o->periodic_after_shutdown & ~1) != 0)
    return UV_EINVAL;
  if (o->budget_ns < UVS_US(1) || o->budget_ns > UVS_SEC(1))
    return UV_EINVAL;
  if (o->name != NULL &&
      (strnlen(o->name, UVS_NAME_MAX + 1) > UVS_NAME_MAX || !uvs__is_utf8(o->name)))
    return UV_EINVAL;
  if (o->max_names < 0 || o->max_names > UVS_NAMES_MAX)
    return UV_EINVAL;
  rc = read_hooks(o->hooks, h);
  if (rc < 0)
    return rc;
  if (h->on_rejected != NULL && o->rejection_policy == UVS_REJECT_ABORT)
    o->rejection_policy = UVS_REJECT_ASK;
  if (!uvs__rejection_known(o->rejection_policy, h->on_rejected))
    return UV_EINVAL;
  if ((o->clock.monotonic_ns == NULL) != (o->clock.wall_ns == NULL))
    return UV_EINVAL;
  if ((o->allocator.alloc == NULL) != (o->allocator.free == NULL))
    return UV_EINVAL;
  if (o->concurrency == 0 && (o->executor != NULL || o->threads != 0))
    return UV_EINVAL; /* concurrency 0: bodies run on the loop */
  if (o->precise_ns < 0 || o->precise_ns > UVS_MS(1))
    return UV_EINVAL;
  if (o->precise_ns > 0 && uvs__clock_replaced(&o->clock)) /* no timer runs */
    return UV_EINVAL;
  return 0;
}

static void on_async(struct uvs__ticker *k) {
  uvs__pass((uvs_t *)(void *)((char *)k - offsetof(uvs_t, ticker)));
}

static void on_timer(struct uvs__ticker *k) {
  uvs__dispatch((uvs_t *)(void *)((char *)k - offsetof(uvs_t, ticker)), true);
}

static void on_runner_back(uvs_t *s) {
  uvs__dispatch(s, false);
}

void uvs_ignore_errors(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  (void)arg;
}

/* Loop thread. The error hook of a scheduler without one: prints the first failure, so that
 * failures are not silent. */
static void print_first_error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  char text[64];
  uvs_info_t info;

  (void)arg;
  if (s->error_printed)
    return;
  s->error_printed = true;
  uvs_info_init(&info);
  uvs_info(s, id, &info); /* if the task has ended, it has no name here */
  fprintf(stderr,
          "uvsched: task %llu%s%s failed: %s (%d). Further failures are not printed: set on_error, "
          "or uvs_ignore_errors.\n",
          (unsigned long long)id, info.name[0] != '\0' ? ", " : "", info.name,
          status == UV_ETIMEDOUT ? "timed out" : uv_strerror_r(status, text, sizeof text), status);
}

static void set_up(uvs_t *s, uv_loop_t *loop, const uvs_options_t *o, const uvs_hooks_t *h) {
  s->loop = loop;
  s->opener = uvs__self();
  s->opener_tid = uvs__thread.tid;
  s->clock = o->clock;
  s->mem = o->allocator;
  s->keep_alive = o->keep_alive;
  s->max_pending = o->max_pending;
  s->budget_ns = (uint64_t)o->budget_ns;
  s->seed = o->seed != 0 ? o->seed : uv_hrtime() ^ (uint64_t)(uintptr_t)s;
  s->error_cb = o->on_error == NULL                ? print_first_error
                : o->on_error == uvs_ignore_errors ? NULL
                                                   : o->on_error;
  s->terminated_cb = o->on_terminated;
  s->decorate_cb = h->decorate;
  s->missed_cb = h->on_missed;
  s->before_cb = h->before_body;
  s->after_cb = h->after_body;
  s->rejected_cb = h->on_rejected;
  s->runner_is_back = on_runner_back;
  s->rejection = o->rejection_policy;
  s->data = o->data;
  if (o->name != NULL)
    memcpy(s->name, o->name, strlen(o->name));
  s->name_stats.most = (uint16_t)o->max_names;
  s->name_stats.made = UVS__OTHER + 1;
  s->at.sent_ns = UVS__NEVER;
  atomic_init(&s->refs, 1);
  atomic_init(&s->kill_ns, UVS__NEVER);
  s->survive[UVS_DELAYED_TASKS] = o->delayed_after_shutdown;
  s->survive[UVS_PERIODIC_TASKS] = o->periodic_after_shutdown;
  s->shutdown_ns = s->shutdown_wall_ns = UVS__NEVER;
  s->at.armed_ns = UVS__NEVER;
  s->at.first_pass = true;
  s->names = UVS__NONE;
  s->zones_generation = UINT64_MAX;
  s->at.kept = true; /* the async handle is ref'd at first */
  s->at.owed = s->at.arrivals = (struct uvs__list){UVS__NONE, UVS__NONE};
  s->at.last_call = &s->at.calls;
  s->queues.due_ns = UVS__NEVER;
  uvs__ready_init(&s->loop_ready);
  uvs__ready_init(&s->home.ready);
  uvs__table_init(&s->table);
}

static int open_crew(uvs_t *s, const uvs_options_t *o) {
  struct uvs__crew_options c = {o->executor, o->threads, o->thread_name, o->concurrency,
                                UVS__CONCURRENCY_MAX};

  if (c.concurrency < 0 && c.executor == NULL && c.threads == 0)
    c.concurrency = default_concurrency();
  return uvs__crew_open(s, &s->home, &c);
}

/* Aligned to a cache line. */
static uvs_t *allocate(const uvs_allocator_t *m) {
  void *raw = uvs__mem_alloc(m, 1, sizeof(uvs_t), ALIGNMENT);
  uvs_t *s;

  if (raw == NULL)
    return NULL;
  s = (void *)(((uintptr_t)raw + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
  memset(s, 0, sizeof *s);
  s->raw = raw;
  return s;
}

int uvs_open(uv_loop_t *loop, const uvs_options_t *given, uvs_t **ret) {
  uvs_options_t o;
  uvs_hooks_t hooks;
  uvs_t *s;
  int rc;

  if (loop == NULL || ret == NULL)
    return UV_EINVAL;
  rc = read_options(given, &o, &hooks);
  if (rc < 0)
    return rc;
  uvs__mem_init(&o.allocator);
  s = allocate(&o.allocator);
  if (s == NULL)
    return UV_ENOMEM;
  set_up(s, loop, &o, &hooks);
  uvs__delay_init(&s->delay, &s->table, uvs__now(s));
  rc = uvs__fork_init(&s->fork);
  if (rc < 0)
    goto free_scheduler;
  rc = uv_mutex_init(&s->lock);
  if (rc < 0)
    goto destroy_fork;
  rc = uv_cond_init(&s->lingering);
  if (rc < 0)
    goto destroy_lock;
  s->at.mute = true; /* there is no handle to send to yet */
  rc = open_crew(s, &o);
  if (rc < 0)
    goto destroy_cond;
  rc = uvs__ticker_init(&s->ticker, loop, &s->mem, (uint64_t)o.precise_ns, on_async, on_timer);
  if (rc < 0)
    goto close_crew;
  s->at.mute = false;
  s->table.id_base = (uint64_t)uvs__number_take() << UVS__ID_BITS;
  /* The first pass learns which thread is the loop's; until then the loop is kept alive. */
  uvs__wake_loop(s);
  *ret = s;
  return 0;

close_crew:
  uvs__crew_close(s, &s->home);
destroy_cond:
  uvs__free_runners(s);
  uv_cond_destroy(&s->lingering);
destroy_lock:
  uv_mutex_destroy(&s->lock);
destroy_fork:
  uvs__fork_destroy(&s->fork);
free_scheduler:
  uvs__mem_free(&o.allocator, s->raw);
  return rc;
}

/* ---- close ---- */

static int close_in_child(uvs_t *s, uvs_close_cb cb) {
  if (s->closed_in_child)
    return UV_EALREADY;
  s->closed_in_child = true;
  if (s->queues.close != NULL)
    s->queues.close(s);
  while (s->gates != NULL) {
    struct uvs__gate *g = s->gates;

    s->gates = g->next_gate;
    g->forget_lane(g);
  }
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
  s->close_cb = cb;
  uvs__lock(s);
  s->closing = true;
  s->closing_cleanups = true;
  s->at.mute = false;
  s->at.wake_sent = false;
  s->at.policy_changed = true;
  s->shut = true;
  uvs__unlock(s);
  uvs__stop_now(s, NULL, NULL);
  uvs__wake_loop(s);
  uvs__lock(s);
  s->at.kept = true;
  uvs__unlock(s);
  uvs__ticker_keep(&s->ticker, true);
  uvs__ticker_nudge(&s->ticker); /* a program may close all handles it finds right after this */
  return 0;
}

/* ---- configure ---- */

int uvs_concurrency(uvs_t *s) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  uvs__lock(s);
  rc = s->home.concurrency;
  uvs__unlock(s);
  return rc;
}

int uvs_set_concurrency(uvs_t *s, int concurrency) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (concurrency < 0 || concurrency > UVS__CONCURRENCY_MAX)
    return UV_EINVAL;
  if (uvs__on_loop(s))
    uvs__notice_loss(s); /* somebody may have closed the handles, and even the loop */
  return uvs__crew_set_concurrency(s, &s->home, concurrency, false);
}
