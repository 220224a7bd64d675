/* SPDX-License-Identifier: MIT
 *
 * The table of items is claimed and read with relaxed atomics and without a lock. The fake pool
 * must not add ordering between threads: otherwise ThreadSanitizer would not see ordering that is
 * missing in the library. For the same reason an item is handed to the helper thread just as libuv
 * would do it.
 */
#include "fakepool.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "main.h"

#define ITEMS 2048

int __real_uv_queue_work(uv_loop_t *, uv_work_t *, uv_work_cb, uv_after_work_cb);
int __real_uv_timer_init(uv_loop_t *, uv_timer_t *);
int __real_uv_timer_start(uv_timer_t *, uv_timer_cb, uint64_t, uint64_t);
int __real_uv_timer_stop(uv_timer_t *);
int __real_uv_async_init(uv_loop_t *, uv_async_t *, uv_async_cb);
int __real_uv_async_send(uv_async_t *);

int __wrap_uv_queue_work(uv_loop_t *, uv_work_t *, uv_work_cb, uv_after_work_cb);
int __wrap_uv_timer_init(uv_loop_t *, uv_timer_t *);
int __wrap_uv_timer_start(uv_timer_t *, uv_timer_cb, uint64_t, uint64_t);
int __wrap_uv_timer_stop(uv_timer_t *);
int __wrap_uv_async_init(uv_loop_t *, uv_async_t *, uv_async_cb);
int __wrap_uv_async_send(uv_async_t *);

struct item {
  uv_work_t *_Atomic req;   /* NULL: free */
  _Atomic(uv_work_cb) work; /* atomic: in real mode loops of several threads share the table */
  _Atomic(uv_after_work_cb) after;
  uint64_t order; /* fake modes */
  bool ran;       /* fake modes: work has returned, after_work is still to come */
};

static struct item items[ITEMS];
static _Atomic unsigned top; /* no item at or above this index was ever used */
static _Atomic unsigned outstanding;
static _Thread_local bool in_work;
static _Thread_local enum fakepool_place place;

/* State of the fake modes. Loop thread only. */
static enum fakepool_mode mode;
static uv_loop_t *loop;
static uv_idle_t idle;
static bool idle_open;
static unsigned pins;
static unsigned holds;
static uint64_t next_order;
static uint64_t random_state;

static uv_thread_t helper;
static bool helper_open;
static uv_sem_t helper_go, helper_done;
static struct item *helper_item; /* NULL: the helper thread ends */

#define HANDLES 8 /* timers and asyncs that are watched; one or two of each are expected */

static bool watching;
static struct {
  const uv_timer_t *_Atomic handle;
  uv_timer_cb cb; /* loop thread */
} timers[HANDLES];
static struct {
  const uv_async_t *_Atomic handle;
  uv_async_cb cb; /* loop thread */
} asyncs[HANDLES];

static struct {
  _Atomic uint64_t timer_inits, timer_starts, timer_rechecks, timer_stops, timer_fires;
  _Atomic uint64_t async_inits, async_sends, queue_works;
  _Atomic unsigned peak;
  const uv_timer_t *_Atomic last_handle;
  _Atomic uint64_t last_timeout_ms, last_at_ns, last_loop_ms, stalest_ms;
} seen;

static void zero(_Atomic uint64_t *n) {
  atomic_store_explicit(n, 0, memory_order_relaxed);
}

static void count(_Atomic uint64_t *n) {
  atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

/* ---------------------------------------------------------------- items --- */

static unsigned used(void) {
  return atomic_load_explicit(&top, memory_order_relaxed);
}

static struct item *find(uv_work_t *req) {
  for (unsigned i = 0; i < used(); i++)
    if (atomic_load_explicit(&items[i].req, memory_order_relaxed) == req)
      return &items[i];
  fprintf(stderr, "fakepool: a request that was never queued\n");
  abort();
}

static struct item *claim(uv_work_t *req, uv_work_cb work, uv_after_work_cb after) {
  for (unsigned i = 0; i < ITEMS; i++) {
    uv_work_t *none = NULL;
    if (atomic_compare_exchange_strong_explicit(&items[i].req, &none, req, memory_order_relaxed,
                                                memory_order_relaxed)) {
      unsigned now = atomic_fetch_add_explicit(&outstanding, 1, memory_order_relaxed) + 1;
      unsigned peak = atomic_load_explicit(&seen.peak, memory_order_relaxed);
      while (peak < now && !atomic_compare_exchange_weak_explicit(
                               &seen.peak, &peak, now, memory_order_relaxed, memory_order_relaxed))
        ;
      unsigned old = used();
      while (old <= i && !atomic_compare_exchange_weak_explicit(
                             &top, &old, i + 1, memory_order_relaxed, memory_order_relaxed))
        ;
      atomic_store_explicit(&items[i].work, work, memory_order_relaxed);
      atomic_store_explicit(&items[i].after, after, memory_order_relaxed);
      return &items[i];
    }
  }
  fprintf(stderr, "fakepool: more than %d items\n", ITEMS);
  abort();
}

static void give_back(struct item *it) {
  atomic_fetch_sub_explicit(&outstanding, 1, memory_order_relaxed);
  atomic_store_explicit(&it->req, NULL, memory_order_relaxed);
}

static uv_work_t *req_of(struct item *it) {
  return atomic_load_explicit(&it->req, memory_order_relaxed);
}

static void run_work(struct item *it) {
  in_work = true;
  atomic_load_explicit(&it->work, memory_order_relaxed)(req_of(it));
  in_work = false;
}

/* In real mode, libuv's pool calls these instead of the library's callbacks. */
static void real_work(uv_work_t *req) {
  run_work(find(req));
}

static void real_after(uv_work_t *req, int status) {
  struct item *it = find(req);
  uv_after_work_cb after = atomic_load_explicit(&it->after, memory_order_relaxed);

  give_back(it); /* first: after_work may queue, or free, the request */
  place = IN_HOME;
  after(req, status);
  place = IN_NONE;
}

/* ------------------------------------------------------------ fake modes --- */

static void helper_main(void *arg) {
  (void)arg;
  for (;;) {
    uv_sem_wait(&helper_go);
    if (helper_item == NULL)
      return;
    run_work(helper_item);
    uv_sem_post(&helper_done);
  }
}

static void step(struct item *it) {
  if (!it->ran) {
    if (helper_open) {
      helper_item = it;
      uv_sem_post(&helper_go);
      uv_sem_wait(&helper_done);
    } else {
      run_work(it);
    }
    it->ran = true;
    return;
  }
  uv_work_t *req = req_of(it);
  uv_after_work_cb after = atomic_load_explicit(&it->after, memory_order_relaxed);
  give_back(it);
  fakepool_unpin();
  place = IN_HOME;
  after(req, 0);
  place = IN_NONE;
}

static struct item *oldest(uint64_t before) {
  struct item *best = NULL;

  for (unsigned i = 0; i < used(); i++)
    if (req_of(&items[i]) != NULL && items[i].order < before &&
        (best == NULL || items[i].order < best->order))
      best = &items[i];
  return best;
}

static struct item *any_item(void) {
  unsigned n = fakepool_pending();
  uint64_t pick;

  if (n == 0)
    return NULL;
  pick = test_random_below(&random_state, n);
  for (unsigned i = 0; i < used(); i++)
    if (req_of(&items[i]) != NULL && pick-- == 0)
      return &items[i];
  return NULL;
}

static void on_idle(uv_idle_t *h) {
  uint64_t before = next_order; /* items that an after_work queues wait for the next loop pass */
  struct item *it;

  (void)h;
  if (mode == FAKEPOOL_REAL || holds > 0)
    return;
  if (mode == FAKEPOOL_SEEDED) {
    for (uint64_t n = test_random_below(&random_state, 4); n > 0; n--)
      if ((it = any_item()) != NULL)
        step(it);
    return;
  }
  while ((it = oldest(before)) != NULL)
    step(it);
}

bool fakepool_step(void) {
  struct item *it = mode == FAKEPOOL_REAL ? NULL : oldest(UINT64_MAX);

  if (it == NULL)
    return false;
  step(it);
  return true;
}

void fakepool_hold(void) {
  holds++;
}

void fakepool_release(void) {
  holds--;
}

bool fakepool_held(void) {
  return holds > 0;
}

unsigned fakepool_pending(void) {
  return atomic_load_explicit(&outstanding, memory_order_relaxed);
}

void fakepool_pin(void) {
  if (pins++ == 0)
    uv_idle_start(&idle, on_idle);
}

void fakepool_unpin(void) {
  if (--pins == 0)
    uv_idle_stop(&idle);
}

bool fakepool_in_work(void) {
  return in_work;
}

enum fakepool_place fakepool_place(void) {
  return place;
}

bool fakepool_owns_handle(const uv_handle_t *h) {
  return idle_open && h == (const uv_handle_t *)&idle;
}

int fakepool_open(uv_loop_t *on, enum fakepool_mode m, uint64_t seed) {
  int rc;

  /* A test that failed half-way may have left items behind. Its loop does not run again. */
  for (unsigned i = 0; i < ITEMS; i++)
    atomic_store_explicit(&items[i].req, NULL, memory_order_relaxed);
  atomic_store_explicit(&outstanding, 0, memory_order_relaxed);
  pins = 0;
  holds = 0;
  mode = m;
  loop = on;
  random_state = seed == 0 ? 1 : seed;
  rc = uv_idle_init(loop, &idle);
  if (rc < 0)
    return rc;
  idle_open = true;
  if ((mode == FAKEPOOL_STEPPED || mode == FAKEPOOL_SEEDED) && !helper_open) {
    if (uv_sem_init(&helper_go, 0) < 0 || uv_sem_init(&helper_done, 0) < 0 ||
        uv_thread_create(&helper, helper_main, NULL) < 0)
      return UV_ENOMEM;
    helper_open = true;
  }
  for (int i = 0; i < HANDLES; i++) {
    atomic_store_explicit(&timers[i].handle, NULL, memory_order_relaxed);
    atomic_store_explicit(&asyncs[i].handle, NULL, memory_order_relaxed);
  }
  fakepool_watch(true);
  zero(&seen.timer_inits);
  zero(&seen.async_inits);
  fakepool_forget();
  return 0;
}

static void on_idle_closed(uv_handle_t *h) {
  (void)h;
  idle_open = false;
}

bool fakepool_close(void) {
  bool empty = fakepool_pending() == 0;

  if (helper_open) {
    helper_item = NULL;
    uv_sem_post(&helper_go);
    uv_thread_join(&helper);
    uv_sem_destroy(&helper_go);
    uv_sem_destroy(&helper_done);
    helper_open = false;
  }
  mode = FAKEPOOL_REAL;
  uv_close((uv_handle_t *)&idle, on_idle_closed);
  for (int i = 0; idle_open && i < 100; i++)
    uv_run(loop, UV_RUN_NOWAIT);
  loop = NULL;
  return empty && !idle_open;
}

/* ----------------------------------------------------------------- wraps --- */

static unsigned works_refused,
    timers_refused; /* number of calls still to refuse; loop thread only */

void fakepool_refuse_next(unsigned works, unsigned timer_starts) {
  works_refused = works;
  timers_refused = timer_starts;
}

static bool refused(unsigned *left) {
  if (*left == 0)
    return false;
  --*left;
  return true;
}

int __wrap_uv_queue_work(uv_loop_t *on, uv_work_t *req, uv_work_cb work, uv_after_work_cb after) {
  struct item *it;
  int rc = 0;

  if (work == NULL)
    return UV_EINVAL;
  if (refused(&works_refused))
    return UV_EAGAIN;
  count(&seen.queue_works);
  it = claim(req, work, after);
  if (mode == FAKEPOOL_REAL || on != loop) {
    rc = __real_uv_queue_work(on, req, real_work, real_after);
    if (rc < 0)
      give_back(it);
    return rc;
  }
  it->order = next_order++;
  it->ran = false;
  req->type = UV_WORK;
  req->loop = on;
  req->work_cb = work;
  req->after_work_cb = after;
  fakepool_pin();
  return 0;
}

/* The index of h among the watched timers, or HANDLES. */
static unsigned timer_index(const uv_timer_t *h) {
  unsigned i = 0;

  while (i < HANDLES && atomic_load_explicit(&timers[i].handle, memory_order_relaxed) != h)
    i++;
  return i;
}

static unsigned async_index(const uv_async_t *h) {
  unsigned i = 0;

  while (i < HANDLES && atomic_load_explicit(&asyncs[i].handle, memory_order_relaxed) != h)
    i++;
  return i;
}

static void on_timer(uv_timer_t *h) {
  unsigned i = timer_index(h);

  count(&seen.timer_fires);
  place = IN_TIMER;
  timers[i].cb(h);
  place = IN_NONE;
}

static void on_async(uv_async_t *h) {
  place = IN_ASYNC;
  asyncs[async_index(h)].cb(h);
  place = IN_NONE;
}

int __wrap_uv_timer_init(uv_loop_t *on, uv_timer_t *h) {
  unsigned i = timer_index(NULL);

  if (watching) {
    count(&seen.timer_inits);
    if (i < HANDLES && timer_index(h) == HANDLES)
      atomic_store_explicit(&timers[i].handle, h, memory_order_relaxed);
  }
  return __real_uv_timer_init(on, h);
}

int __wrap_uv_timer_start(uv_timer_t *h, uv_timer_cb cb, uint64_t timeout_ms, uint64_t repeat_ms) {
  unsigned i = timer_index(h);
  uint64_t now_ns = uv_hrtime();
  uint64_t now_ms = now_ns / 1000000;
  uint64_t stale_ms = now_ms > uv_now(h->loop) ? now_ms - uv_now(h->loop) : 0;

  if (i == HANDLES)
    return __real_uv_timer_start(h, cb, timeout_ms, repeat_ms);
  if (refused(&timers_refused))
    return UV_EINVAL;
  count(&seen.timer_starts);
  if (timeout_ms == 1)
    count(&seen.timer_rechecks);
  atomic_store_explicit(&seen.last_handle, h, memory_order_relaxed);
  atomic_store_explicit(&seen.last_timeout_ms, timeout_ms, memory_order_relaxed);
  atomic_store_explicit(&seen.last_at_ns, now_ns, memory_order_relaxed);
  atomic_store_explicit(&seen.last_loop_ms, uv_now(h->loop), memory_order_relaxed);
  if (stale_ms > atomic_load_explicit(&seen.stalest_ms, memory_order_relaxed))
    atomic_store_explicit(&seen.stalest_ms, stale_ms, memory_order_relaxed);
  timers[i].cb = cb;
  return __real_uv_timer_start(h, cb == NULL ? NULL : on_timer, timeout_ms, repeat_ms);
}

int __wrap_uv_timer_stop(uv_timer_t *h) {
  if (timer_index(h) < HANDLES)
    count(&seen.timer_stops);
  return __real_uv_timer_stop(h);
}

static int async_refusal;

void fakepool_refuse_async(int rc) {
  async_refusal = rc;
}

int __wrap_uv_async_init(uv_loop_t *on, uv_async_t *h, uv_async_cb cb) {
  unsigned i = async_index(NULL);

  if (async_refusal != 0)
    return async_refusal;
  /* A statically linked libuv initialises an async of its own. */
  if (watching && h != &on->wq_async) {
    count(&seen.async_inits);
    if (i < HANDLES && async_index(h) == HANDLES)
      atomic_store_explicit(&asyncs[i].handle, h, memory_order_relaxed);
    i = async_index(h);
    if (i < HANDLES) {
      asyncs[i].cb = cb;
      cb = on_async;
    }
  }
  return __real_uv_async_init(on, h, cb);
}

int __wrap_uv_async_send(uv_async_t *h) {
  if (async_index(h) < HANDLES)
    count(&seen.async_sends);
  return __real_uv_async_send(h);
}

/* ------------------------------------------------------------ observations --- */

static uint64_t get(const _Atomic uint64_t *n) {
  return atomic_load_explicit(n, memory_order_relaxed);
}

struct fakepool_seen fakepool_seen(void) {
  struct fakepool_seen r;

  r.timer_inits = get(&seen.timer_inits);
  r.timer_starts = get(&seen.timer_starts);
  r.timer_rechecks = get(&seen.timer_rechecks);
  r.timer_stops = get(&seen.timer_stops);
  r.timer_fires = get(&seen.timer_fires);
  r.async_inits = get(&seen.async_inits);
  r.async_sends = get(&seen.async_sends);
  r.queue_works = get(&seen.queue_works);
  r.peak_outstanding = atomic_load_explicit(&seen.peak, memory_order_relaxed);
  r.last.handle = atomic_load_explicit(&seen.last_handle, memory_order_relaxed);
  r.last.timeout_ms = get(&seen.last_timeout_ms);
  r.last.at_ns = get(&seen.last_at_ns);
  r.last.loop_ms = get(&seen.last_loop_ms);
  r.stalest_ms = get(&seen.stalest_ms);
  return r;
}

void fakepool_forget(void) {
  zero(&seen.timer_starts);
  zero(&seen.timer_rechecks);
  zero(&seen.timer_stops);
  zero(&seen.timer_fires);
  zero(&seen.async_sends);
  zero(&seen.queue_works);
  zero(&seen.last_timeout_ms);
  zero(&seen.last_at_ns);
  zero(&seen.last_loop_ms);
  zero(&seen.stalest_ms);
  atomic_store_explicit(&seen.peak, 0, memory_order_relaxed);
  atomic_store_explicit(&seen.last_handle, NULL, memory_order_relaxed);
}

void fakepool_watch(bool on) {
  watching = on;
}
