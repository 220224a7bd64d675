/* SPDX-License-Identifier: MIT
 *
 * A stage: the loop runs on a thread of its own, with libuv's pool, so that the test thread may
 * wait. Or other threads wait, and the test can tell when they sleep. For programs with the fixture
 * that are linked with 'wrap': ['uv_cond_wait'].
 *
 * Data that other threads touch is static in the tests, because a failed ASSERT leaves these
 * threads running.
 */
#ifndef TEST_STAGE_H
#define TEST_STAGE_H

#include "bodies.h"
#include "fixture.h"

/* Opens the fixture and starts its loop on *thread. The clock is virtual unless `real`. To change
 * f.options first, call fixture_init, then stage_start. */
enum greatest_test_res stage_open(struct fixture *f, uv_thread_t *thread, int concurrency,
                                  bool real);
enum greatest_test_res stage_start(struct fixture *f, uv_thread_t *thread);
void stage_join(struct fixture *f,
                uv_thread_t *thread); /* shuts down and joins; the loop is then the test's */
enum greatest_test_res stage_close(struct fixture *f, uv_thread_t *thread);
void stage_advance(struct fixture *f, int64_t ns);

/* The number of threads that sleep in a wait without time-out, and how often one has woken up. Both
 * are counted under the library's lock: a counted thread is asleep for whoever takes the lock
 * later. */
int asleep_now(void);
unsigned long wakes_so_far(void);
bool await_asleep(int n); /* until n threads sleep; false after PATIENCE_NS */
bool await_asleep_after(int n, unsigned long wakes); /* and that many wake-ups have happened */

/* uvs_wait that only looks, which is legal on every thread. */
int peek_at(uvs_t *s, uvs_id_t id, uvs_outcome_t *o);

/* A thread that waits. */
struct waiter {
  uvs_t *s;
  uvs_id_t id;
  int64_t timeout_ns;
  unsigned flags;
  int rc;
  int64_t took_ns;
  _Atomic int back; /* the wait has returned */
  uvs_outcome_t o;
  uv_thread_t thread;
};

void waiter_main(void *waiter);
int waiter_start(struct waiter *w, uvs_t *s, uvs_id_t id, int64_t timeout_ns, unsigned flags);
void waiter_join(struct waiter *w);

/* Bodies. */
int give_arg(uvs_run_t *run); /* the arg is the result */
int fail_work(uvs_run_t *run);

/* A task without a probe. */
uvs_task_t plain(uvs_work_cb work, void *arg);

/* A thread in uvs_all. */
struct gather {
  uvs_t *s;
  const uvs_task_t *t;
  uvs_outcome_t *o;
  size_t n;
  int64_t limit_ns;
  int rc;
  _Atomic int returned;
};

void gather_main(void *gather);

#endif
