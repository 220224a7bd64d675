/* SPDX-License-Identifier: MIT
 *
 * A stage: the loop runs on a thread of its own, with libuv's pool, so that the test thread may
 * wait; or other threads wait, and the test knows when they sleep. For programs with the fixture
 * that are linked with 'wrap': ['uv_cond_wait'].
 *
 * What other threads touch is static in the tests: a failed ASSERT leaves them running.
 */
#ifndef TEST_STAGE_H
#define TEST_STAGE_H

#include "bodies.h"
#include "fixture.h"

/* Open it; the clock is virtual unless `real`. Or fixture_init, change f.options, and
 * stage_start. */
enum greatest_test_res stage_open(struct fixture *f, uv_thread_t *thread, int concurrency,
                                  bool real);
enum greatest_test_res stage_start(struct fixture *f, uv_thread_t *thread);
void stage_join(struct fixture *f, uv_thread_t *thread); /* shut down; the loop is ours again */
enum greatest_test_res stage_close(struct fixture *f, uv_thread_t *thread);
void stage_advance(struct fixture *f, int64_t ns);

/* Threads that sleep in a wait without end, and how often one has woken up. Counted with the
 * library's lock held, so who is counted is asleep for whoever takes that lock later. */
int asleep_now(void);
unsigned long wakes_so_far(void);
bool await_asleep(int n); /* all of these: false if it does not come to it in PATIENCE_NS */
bool await_asleep_after(int n, unsigned long wakes); /* and so many wake-ups since the start */

/* Only a look: legal everywhere. */
int peek_at(uvs_t *s, uvs_id_t id, uvs_outcome_t *o);

/* A thread that waits. */
struct waiter {
  uvs_t *s;
  uvs_id_t id;
  int64_t timeout_ns;
  unsigned flags;
  int rc;
  int64_t took_ns;
  _Atomic int back; /* its wait has returned */
  uvs_outcome_t o;
  uv_thread_t thread;
};

void waiter_main(void *waiter);
int waiter_start(struct waiter *w, uvs_t *s, uvs_id_t id, int64_t timeout_ns, unsigned flags);
void waiter_join(struct waiter *w);

/* Bodies. */
int give_arg(uvs_run_t *run); /* as the result */
int fail_work(uvs_run_t *run);

/* Without a probe. */
uvs_task_t plain(uvs_work_cb work, void *arg);

/* A thread that gathers. */
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
