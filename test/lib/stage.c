/* SPDX-License-Identifier: MIT */
#include "stage.h"

static _Atomic int asleep;
static _Atomic unsigned long wakes;

void __real_uv_cond_wait(uv_cond_t *cond, uv_mutex_t *mutex);
void __wrap_uv_cond_wait(uv_cond_t *cond, uv_mutex_t *mutex);
void __wrap_uv_cond_wait(uv_cond_t *cond, uv_mutex_t *mutex) {
  atomic_fetch_add(&asleep, 1);
  __real_uv_cond_wait(cond, mutex);
  atomic_fetch_sub(&asleep, 1);
  atomic_fetch_add(&wakes, 1);
}

int asleep_now(void) {
  return atomic_load(&asleep);
}

unsigned long wakes_so_far(void) {
  return atomic_load(&wakes);
}

bool await_asleep(int n) {
  uint64_t end_ns = patience_end_ns();

  while (atomic_load(&asleep) != n && uv_hrtime() < end_ns)
    uv_sleep(1);
  return atomic_load(&asleep) == n;
}

bool await_asleep_after(int n, unsigned long wanted) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;

  while (atomic_load(&wakes) < wanted || atomic_load(&asleep) != n) {
    if ((int64_t)uv_hrtime() > end_ns)
      return false;
    uv_sleep(0); /* only yields, since many threads do this */
  }
  return true;
}

int peek_at(uvs_t *s, uvs_id_t id, uvs_outcome_t *o) {
  uvs_outcome_init(o);
  return uvs_wait(s, id, 0, 0, o);
}

/* ---- the stage ---- */

static void run_loop(void *arg) {
  struct fixture *f = arg;

  uv_run(&f->loop, UV_RUN_DEFAULT); /* until terminated: UVS_KEEP_ALIVE_ALWAYS */
}

enum greatest_test_res stage_start(struct fixture *f, uv_thread_t *thread) {
  f->pool = FAKEPOOL_REAL;
  f->options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  CHECK_CALL(fixture_open(f));
  ASSERT_RC(0, uv_thread_create(thread, run_loop, f));
  /* Until the loop has had its first turn there, this thread counts as the loop's. */
  for (int i = 0; i < 20000 && uvs_wait_terminated(f->s, 1) == UVS_EDEADLK; i++) {
    ASSERT_RC(0, uvs_clock_changed(f->s));
    uv_sleep(1);
  }
  ASSERT_RC(UV_ETIMEDOUT, uvs_wait_terminated(f->s, 0));
  PASS();
}

enum greatest_test_res stage_open(struct fixture *f, uv_thread_t *thread, int concurrency,
                                  bool real) {
  fixture_init(f);
  f->real_clock = real;
  f->options.concurrency = concurrency;
  CHECK_CALL(stage_start(f, thread));
  PASS();
}

void stage_join(struct fixture *f, uv_thread_t *thread) {
  uvs_shutdown_now(f->s, NULL, NULL);
  uv_thread_join(thread);
  fixture_jump_ns(f, 0); /* from now on the loop runs on this thread */
}

enum greatest_test_res stage_close(struct fixture *f, uv_thread_t *thread) {
  stage_join(f, thread);
  CHECK_CALL(fixture_close(f));
  PASS();
}

void stage_advance(struct fixture *f, int64_t ns) {
  vclock_advance_ns(&f->clock, ns);
  uvs_clock_changed(f->s);
}

/* ---- waiters ---- */

void waiter_main(void *arg) {
  struct waiter *w = arg;
  int64_t start_ns = (int64_t)uv_hrtime();

  uvs_outcome_init(&w->o);
  w->rc = uvs_wait(w->s, w->id, w->timeout_ns, w->flags, &w->o);
  w->took_ns = (int64_t)uv_hrtime() - start_ns;
  atomic_store(&w->back, 1);
}

int waiter_start(struct waiter *w, uvs_t *s, uvs_id_t id, int64_t timeout_ns, unsigned flags) {
  memset(w, 0, sizeof *w);
  w->s = s;
  w->id = id;
  w->timeout_ns = timeout_ns;
  w->flags = flags;
  w->rc = UV_EAGAIN;
  return uv_thread_create(&w->thread, waiter_main, w);
}

void waiter_join(struct waiter *w) {
  uv_thread_join(&w->thread);
}

void gather_main(void *arg) {
  struct gather *g = arg;

  g->rc = uvs_all(g->s, g->t, g->n, g->limit_ns, g->o);
  atomic_store(&g->returned, 1);
}

/* ---- bodies ---- */

int give_arg(uvs_run_t *run) {
  return uvs_set_result(run, run->arg);
}

int fail_work(uvs_run_t *run) {
  (void)run;
  return UV_EIO;
}

uvs_task_t plain(uvs_work_cb work, void *arg) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.work = work;
  t.arg = arg;
  return t;
}
