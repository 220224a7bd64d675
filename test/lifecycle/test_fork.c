/* SPDX-License-Identifier: MIT
 *
 * A forked child has a copy of the scheduler, but neither the loop's thread nor the pool's threads.
 * It may close its copy, which frees the memory. All other calls are refused. A child reports an
 * error by its exit code. An alarm ends a child that hangs.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "uvsched/executor.h"
#include "uvsched/lane.h"
#include "uvsched/queue.h"

#include "lib/patience.h"
#include "lib/unit.h"

#define CHILD_SECONDS 15

struct world {
  uv_loop_t loop;
  uvs_t *s;
  uvs_queue_t *q; /* of the tests that have one */
  uvs_threads_t *pool;
  struct fault fault;
  _Atomic int started, go, done, closed, cleaned;
  uvs_allocator_t mem;  /* of `fault` */
  _Atomic int held;     /* allocations wait for `go` */
  _Atomic int in_alloc; /* one does */
};

static void *alloc_when_let(size_t size, void *arg) {
  struct world *w = arg;
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  while (atomic_load(&w->held) != 0 && atomic_load(&w->go) == 0 && uv_hrtime() < end_ns) {
    atomic_store(&w->in_alloc, 1);
    uv_sleep(1);
  }
  return w->mem.alloc(size, w->mem.arg);
}

static void free_always(void *ptr, void *arg) {
  struct world *w = arg;

  w->mem.free(ptr, w->mem.arg);
}

static int quick(uvs_run_t *run) {
  (void)run;
  return 0;
}

static int blocked(uvs_run_t *run) {
  struct world *w = uvs_data(run->scheduler);
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  atomic_fetch_add(&w->started, 1);
  while (atomic_load(&w->go) == 0 && !uvs_cancelled(run) && uv_hrtime() < end_ns)
    uv_sleep(1);
  return 0;
}

static void on_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct world *w = uvs_data(s);

  (void)id;
  (void)status;
  (void)arg;
  atomic_fetch_add(&w->done, 1);
}

static void on_cleanup(uvs_t *s, void *arg) {
  struct world *w = arg;

  (void)s;
  atomic_fetch_add(&w->cleaned, 1);
}

static void on_closed(uvs_t *s) {
  struct world *w = uvs_data(s);

  atomic_fetch_add(&w->closed, 1);
}

static int each(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s;
  (void)info;
  ++*(int *)arg;
  return 0;
}

/* With own threads; 0: with libuv's pool. */
static enum greatest_test_res open_world_on(struct world *w, int threads) {
  uvs_options_t o;

  memset(w, 0, sizeof *w);
  fault_init(&w->fault);
  ASSERT_RC(0, uv_loop_init(&w->loop));
  uvs_options_init(&o);
  o.concurrency = 2;
  o.threads = threads;
  o.keep_alive = UVS_KEEP_ALIVE_ALWAYS; /* other threads submit */
  w->mem = fault_option(&w->fault);
  o.allocator = (uvs_allocator_t){.alloc = alloc_when_let, .free = free_always, .arg = w};
  o.data = w;
  ASSERT_RC(0, uvs_open(&w->loop, &o, &w->s));
  PASS();
}

static enum greatest_test_res open_world(struct world *w) {
  CHECK_CALL(open_world_on(w, 0));
  PASS();
}

static enum greatest_test_res close_world(struct world *w) {
  ASSERT_RC(0, uvs_close(w->s, on_closed));
  ASSERT(turn_loop_until(&w->loop, &w->closed, 1));
  ASSERT_RC(0, uv_loop_close(&w->loop));
  ASSERT_EQ_FMT(0L, atomic_load(&w->fault.live), "%ld");
  PASS();
}

static uvs_task_t spec(int64_t delay_ns, uvs_work_cb work) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.first_ns = delay_ns;
  t.work = work;
  t.done = on_done;
  return t;
}

/* ------------------------------------------------------------- in the child --- */

static int write_never(const char *data, size_t size, void *arg) {
  (void)data;
  (void)size;
  (void)arg;
  return UV_EIO;
}

/* The number of the first call that does not return UV_ENOTSUP, or 0. */
static int refuses_everything(struct world *w, uvs_id_t id) {
  uvs_t *s = w->s;
  uvs_task_t t[2] = {spec(0, quick), spec(0, quick)};
  uvs_id_t ids[2] = {7, 7};
  uvs_info_t info;
  uvs_counts_t counts;
  uvs_histogram_t histogram;
  int64_t ns = 7;
  int seen = 0;
  int n = 0;

  uvs_info_init(&info);
  uvs_counts_init(&counts);
  uvs_histogram_init(&histogram);
#define REFUSED(call) \
  do { \
    n++; \
    if ((call) != UV_ENOTSUP) \
      return n; \
  } while (0)
  REFUSED(uvs_submit(s, t, ids));
  REFUSED(uvs_submit_many(s, t, 2, ids));
  REFUSED(uvs_execute(s, quick, NULL));
  REFUSED(uvs_schedule(s, 0, quick, NULL, ids));
  REFUSED(uvs_schedule_at_fixed_rate(s, 0, 1, quick, NULL, ids));
  REFUSED(uvs_schedule_with_fixed_delay(s, 0, 1, quick, NULL, ids));
  REFUSED(uvs_schedule_at(s, 0, quick, NULL, ids));
  REFUSED(uvs_cancel(s, id, 0));
  REFUSED(uvs_reschedule(s, id, 0));
  REFUSED(uvs_finish(s, id, 0));
  REFUSED(uvs_add_cleanup(s, id, on_cleanup, w, 0));
  REFUSED(uvs_ref(s, id));
  REFUSED(uvs_unref(s, id));
  REFUSED(uvs_has_ref(s, id));
  REFUSED(uvs_info(s, id, &info));
  REFUSED(uvs_each(s, each, &seen));
  REFUSED(uvs_counts(s, &counts));
  REFUSED(uvs_histogram(s, UVS_STAT_LATE, &histogram));
  REFUSED(uvs_stats_write(s, UVS_FORMAT_TEXT, write_never, NULL));
  REFUSED(uvs_stats_write_all(&s, 1, write_never, NULL));
  REFUSED(uvs_name_stats(s, "a", NULL));
  REFUSED(uvs_each_name(s, NULL, NULL));
  REFUSED(uvs_dump(s, stdout));
  REFUSED(uvs_concurrency(s));
  REFUSED(uvs_set_concurrency(s, 3));
  REFUSED(uvs_after_shutdown(s, UVS_DELAYED_TASKS));
  REFUSED(uvs_set_after_shutdown(s, UVS_DELAYED_TASKS, 0));
  REFUSED(uvs_rejection_policy(s));
  REFUSED(uvs_set_rejection_policy(s, UVS_REJECT_ABORT));
  REFUSED(uvs_next_due(s, &ns));
  REFUSED(uvs_clock_changed(s));
  REFUSED(uvs_shutdown(s));
  REFUSED(uvs_shutdown_within(s, 0));
  REFUSED(uvs_shutdown_now(s, NULL, NULL));
  REFUSED(uvs_is_shutdown(s));
  REFUSED(uvs_is_terminating(s));
  REFUSED(uvs_is_terminated(s));
  REFUSED(uvs_wait_terminated(s, UVS_MS(1)));
#undef REFUSED
  if (ids[0] != 7 || ids[1] != 7 || ns != 7 || seen != 0 || info.id != 0)
    return n + 1;
  if (uvs_loop(s) != &w->loop || uvs_data(s) != w)
    return n + 2;
  return 0;
}

enum { NOT_CLOSED = 101, NO_CALLBACK, DONE_WAS_CALLED, MEMORY_LEFT };

static int closes_its_copy(struct world *w, bool count_memory) {
  int done = atomic_load(&w->done);
  int cleaned = atomic_load(&w->cleaned);

  if (uvs_close(w->s, on_closed) != 0)
    return NOT_CLOSED;
  if (atomic_load(&w->closed) != 1)
    return NO_CALLBACK;
  if (atomic_load(&w->done) != done || atomic_load(&w->cleaned) != cleaned)
    return DONE_WAS_CALLED;
  if (count_memory && atomic_load(&w->fault.live) != 0)
    return MEMORY_LEFT;
  return 0;
}

/* Forks. Returns the child's exit code, or minus the signal that ended it. */
static int in_child(int (*child)(struct world *w, uvs_id_t id), struct world *w, uvs_id_t id) {
  int status;
  pid_t pid;

  fflush(NULL);
  pid = fork();
  if (pid == 0) {
    alarm(CHILD_SECONDS);
    _exit(child(w, id));
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid)
    return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* The same, repeated until no thread was in the middle of a change: the child does not free what
 * was locked. */
static int in_child_at_rest(int (*child)(struct world *w, uvs_id_t id), struct world *w,
                            uvs_id_t id) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;
  int rc;

  do
    rc = in_child(child, w, id);
  while (rc == MEMORY_LEFT && uv_hrtime() < end_ns);
  return rc;
}

static int child_refuses_and_closes(struct world *w, uvs_id_t id) {
  int rc = refuses_everything(w, id);

  return rc != 0 ? rc : closes_its_copy(w, true);
}

static int child_closes_with_a_reference(struct world *w, uvs_id_t id) {
  int rc;

  uvs_retain(w->s);
  rc = closes_its_copy(w, false);
  if (rc != 0)
    return rc;
  rc = refuses_everything(w, id);
  if (rc != 0)
    return rc;
  if (uvs_close(w->s, on_closed) != UV_EALREADY)
    return NOT_CLOSED;
  if (atomic_load(&w->fault.live) == 0)
    return MEMORY_LEFT;
  uvs_release(w->s);
  return atomic_load(&w->fault.live) == 0 ? 0 : MEMORY_LEFT;
}

static int child_hammered(struct world *w, uvs_id_t id) {
  int rc = refuses_everything(w, id);

  /* Another thread may have had a block in its hands at the fork: its memory is not counted. */
  return rc != 0 ? rc : closes_its_copy(w, false);
}

static int child_opens_its_own(struct world *w, uvs_id_t id) {
  uvs_options_t o;
  uvs_task_t t = spec(0, quick);
  struct world own;

  (void)id;
  memset(&own, 0, sizeof own);
  fault_init(&own.fault);
  if (uv_loop_init(&own.loop) != 0)
    return 1;
  uvs_options_init(&o);
  o.concurrency = 0;
  o.allocator = fault_option(&own.fault);
  o.data = &own;
  if (uvs_open(&own.loop, &o, &own.s) != 0 || uvs_submit(own.s, &t, NULL) != 0)
    return 2;
  if (!turn_loop_until(&own.loop, &own.done, 1))
    return 3;
  if (uvs_close(own.s, on_closed) != 0 || !turn_loop_until(&own.loop, &own.closed, 1))
    return 4;
  if (uv_loop_close(&own.loop) != 0 || atomic_load(&own.fault.live) != 0)
    return 5;
  return closes_its_copy(w, true);
}

static void on_value(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  struct world *w = arg;

  (void)q;
  (void)e;
  atomic_fetch_add(&w->done, 1);
}

static int on_entry(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  on_value(q, e, arg);
  return 0;
}

/* Like refuses_everything, for a queue. */
static int queue_refuses_everything(struct world *w) {
  uvs_entry_t e = {w, 7, 7};
  uvs_queue_t *other = NULL;
  uvs_item_t item = 7;
  uvs_waiter_t waiter;
  int done = atomic_load(&w->done);
  int n = 0;

  uvs_waiter_init(&waiter);
#define REFUSED(call) \
  do { \
    n++; \
    if ((call) != UV_ENOTSUP) \
      return n; \
  } while (0)
  REFUSED(uvs_queue_open(w->s, NULL, &other));
  REFUSED(uvs_queue_put(w->q, w, 0, &item));
  REFUSED(uvs_queue_put_at(w->q, w, 0, &item));
  REFUSED(uvs_queue_put_many(w->q, &e, 1));
  REFUSED(uvs_queue_poll(w->q, &e));
  REFUSED(uvs_queue_take(w->q, NULL, &e));
  REFUSED(uvs_queue_poll_within(w->q, UVS_SEC(1), &waiter, &e));
  REFUSED(uvs_queue_abandon(w->q, &waiter));
  REFUSED(uvs_queue_consume(w->q, on_value, w));
  REFUSED(uvs_queue_drain(w->q, UVS_QUEUE_ALL, on_value, w));
  REFUSED(uvs_queue_clear(w->q, on_value, w));
  REFUSED(uvs_queue_remove(w->q, 7, &e));
  REFUSED(uvs_queue_remove_value(w->q, w, &e));
  REFUSED(uvs_queue_peek(w->q, &e));
  REFUSED(uvs_queue_size(w->q));
  REFUSED(uvs_queue_contains(w->q, w));
  REFUSED(uvs_queue_each(w->q, on_entry, w));
  REFUSED(uvs_queue_dump(w->q, stdout));
  REFUSED(uvs_queue_ref(w->q));
  REFUSED(uvs_queue_unref(w->q));
  REFUSED(uvs_queue_has_ref(w->q));
#undef REFUSED
  if (other != NULL || item != 7 || e.item != 7 || atomic_load(&w->done) != done)
    return n + 1;
  return 0;
}

/* Closes the queue first (id 0), or the scheduler. With id 2 a thread of the parent waits in the
 * queue; its reference is lost in the child. */
static int child_closes_its_queue(struct world *w, uvs_id_t id) {
  int rc = queue_refuses_everything(w);
  int done = atomic_load(&w->done);

  if (rc != 0)
    return rc;
  uvs_queue_retain(w->q);
  if (id == 1 && (rc = closes_its_copy(w, false)) != 0)
    return rc;
  if (uvs_queue_close(w->q) != 0 || uvs_queue_close(w->q) != UV_EALREADY)
    return NOT_CLOSED;
  uvs_queue_release(w->q);
  if (id != 1 && (rc = closes_its_copy(w, false)) != 0)
    return rc;
  if (atomic_load(&w->done) != done) /* `left` was called */
    return DONE_WAS_CALLED;
  return id == 2 || atomic_load(&w->fault.live) == 0 ? 0 : MEMORY_LEFT;
}

/* Closes everything with its lanes. Then the pool that the test passed in, which the scheduler does
 * not own. */
static int child_closes_all_threads(struct world *w, uvs_id_t lane) {
  uvs_task_t t = spec(0, quick);
  uvs_lane_t other = 7;
  uvs_id_t id = 7;
  int rc;

  if (uvs_lane_open(w->s, NULL, &other) != UV_ENOTSUP || other != 7)
    return 1;
  if (uvs_lane_submit(lane, &t, &id) != UV_ENOTSUP || id != 7)
    return 2;
  if (uvs_lane_dispose(lane, 0) != UV_ENOTSUP)
    return 3;
  rc = refuses_everything(w, id);
  if (rc != 0)
    return 10 + rc;
  rc = closes_its_copy(w, false);
  if (rc != 0)
    return rc;
  if (uvs_lane_submit(lane, &t, &id) != UV_ECANCELED)
    return 4;
  if (uvs_threads_close(w->pool) != 0)
    return 5;
  return atomic_load(&w->fault.live) == 0 ? 0 : MEMORY_LEFT;
}

/* -------------------------------------------------------------------- tests --- */

/* L8 */
TEST a_forked_child_can_only_close_and_that_frees_its_copy(void) {
  static struct world w;
  uvs_id_t id;

  CHECK_CALL(open_world(&w));
  uvs_task_t far = spec(UVS_HOUR(1), quick), wall = spec(UVS_NEVER - 1, quick);
  far.name = "far";
  wall.from = UVS_FROM_WALL;
  ASSERT_RC(0, uvs_submit(w.s, &far, &id));
  ASSERT_RC(0, uvs_submit(w.s, &wall, NULL));
  ASSERT_RC(0, in_child(child_refuses_and_closes, &w, id)); /* before the first pass */
  uvs_task_t soon = spec(0, quick);
  ASSERT_RC(0, uvs_submit(w.s, &soon, NULL));
  ASSERT(turn_loop_until(&w.loop, &w.done, 1));
  ASSERT_RC(0, in_child(child_refuses_and_closes, &w, id));
  /* The parent is not affected. */
  ASSERT_RC(0, atomic_load(&w.closed));
  ASSERT_RC(0, uvs_submit(w.s, &soon, NULL));
  ASSERT(turn_loop_until(&w.loop, &w.done, 2));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(w.s, id, 0));
  ASSERT(turn_loop_until(&w.loop, &w.done, 3));
  CHECK_CALL(close_world(&w));
  ASSERT_RC(4, atomic_load(&w.done));
  PASS();
}

/* L8 */
TEST a_fork_while_bodies_run_leaves_parent_and_child_intact(void) {
  static struct world w;
  uvs_id_t id;

  CHECK_CALL(open_world(&w));
  uvs_task_t t = spec(0, blocked);
  ASSERT_RC(0, uvs_submit(w.s, &t, &id));
  ASSERT(turn_loop_until(&w.loop, &w.started, 1));
  ASSERT_RC(0, in_child(child_refuses_and_closes, &w, id)); /* no thread there will end the run */
  ASSERT_RC(0, atomic_load(&w.done));
  atomic_store(&w.go, 1);
  ASSERT(turn_loop_until(&w.loop, &w.done, 1));
  CHECK_CALL(close_world(&w));
  PASS();
}

/* Idle, or while bodies run: their threads do not exist in the child. L8 */
TEST a_forked_child_closes_a_scheduler_and_lanes_with_threads(void) {
  static struct world w;
  uvs_threads_options_t po;
  uvs_lane_options_t lo;
  uvs_lane_t lane[3];

  CHECK_CALL(open_world_on(&w, 2));
  uvs_threads_options_init(&po);
  po.threads = 2;
  po.allocator = fault_option(&w.fault);
  ASSERT_RC(0, uvs_threads_open(&po, &w.pool));
  for (int i = 0; i < 3; i++) {
    uvs_lane_options_init(&lo);
    lo.threads = i == 0 ? 1 : 0;
    lo.executor = i == 1 ? uvs_threads_executor(w.pool) : i == 2 ? uvs_inline_executor() : NULL;
    ASSERT_RC(0, uvs_lane_open(w.s, &lo, &lane[i]));
  }
  ASSERT_RC(0, in_child_at_rest(child_closes_all_threads, &w, lane[0]));
  uvs_task_t t = spec(0, quick);
  for (int i = 0; i < 4; i++) {
    t.lane = i < 3 ? lane[i] : 0;
    ASSERT_RC(0, uvs_submit(w.s, &t, NULL));
  }
  ASSERT(turn_loop_until(&w.loop, &w.done, 4));
  ASSERT_RC(0, in_child_at_rest(child_closes_all_threads, &w, lane[0]));
  for (int i = 0; i < 3; i++) {
    t = spec(0, blocked);
    t.lane = i < 2 ? lane[i] : 0;
    ASSERT_RC(0, uvs_submit(w.s, &t, NULL));
  }
  ASSERT(turn_loop_until(&w.loop, &w.started, 3));
  ASSERT_RC(
      0, in_child_at_rest(child_closes_all_threads, &w, lane[1])); /* no thread there ends them */
  atomic_store(&w.go, 1);
  ASSERT(turn_loop_until(&w.loop, &w.done, 7)); /* the parent has noticed nothing */
  ASSERT_RC(0, uvs_close(w.s, on_closed));
  ASSERT(turn_loop_until(&w.loop, &w.closed, 1));
  ASSERT_RC(0, uvs_threads_close(w.pool));
  ASSERT_RC(0, uv_loop_close(&w.loop));
  ASSERT_EQ_FMT(0L, atomic_load(&w.fault.live), "%ld");
  PASS();
}

/* L8 */
TEST a_fork_while_the_parent_closes_leaves_parent_and_child_intact(void) {
  static struct world w;
  uvs_id_t id;

  CHECK_CALL(open_world(&w));
  uvs_task_t t = spec(UVS_HOUR(1), quick);
  ASSERT_RC(0, uvs_submit(w.s, &t, &id));
  uv_run(&w.loop, UV_RUN_NOWAIT);
  ASSERT_RC(0, uvs_shutdown(w.s));
  ASSERT_RC(0, in_child(child_refuses_and_closes, &w, id));
  ASSERT_RC(0, uvs_shutdown_now(w.s, NULL, NULL));
  ASSERT_RC(0, in_child(child_refuses_and_closes, &w, id));
  CHECK_CALL(close_world(&w));
  ASSERT_RC(1, atomic_load(&w.done));
  PASS();
}

/* L8 L17 */
TEST a_reference_in_the_child_keeps_the_memory_until_released(void) {
  static struct world w;
  uvs_id_t id;

  CHECK_CALL(open_world(&w));
  uvs_task_t t = spec(UVS_HOUR(1), quick);
  ASSERT_RC(0, uvs_submit(w.s, &t, &id));
  uv_run(&w.loop, UV_RUN_NOWAIT);
  ASSERT_RC(0, in_child(child_closes_with_a_reference, &w, id));
  CHECK_CALL(close_world(&w));
  PASS();
}

/* L8 */
TEST a_child_may_have_a_loop_and_a_scheduler_of_its_own(void) {
  static struct world w;

  CHECK_CALL(open_world(&w));
  uv_run(&w.loop, UV_RUN_NOWAIT);
  ASSERT_RC(0, in_child(child_opens_its_own, &w, 0));
  CHECK_CALL(close_world(&w));
  PASS();
}

struct hammer {
  struct world *w;
  uvs_t *s;
  _Atomic int stop, accepted;
};

#define HELD 2000 /* the most tasks whose end the loop has not seen */

/* Takes the scheduler's lock again and again. */
static void hammer_main(void *arg) {
  struct hammer *h = arg;
  uvs_task_t t = spec(UVS_HOUR(1), quick);
  uvs_counts_t counts;
  uvs_id_t id;

  t.name = "hammer";
  while (atomic_load(&h->stop) == 0) {
    bool room = atomic_load(&h->accepted) - atomic_load(&h->w->done) < HELD;

    if (room && uvs_submit(h->s, &t, &id) == 0) {
      atomic_fetch_add(&h->accepted, 1);
      uvs_cancel(h->s, id, 0);
    }
    uvs_counts_init(&counts);
    uvs_counts(h->s, &counts);
  }
}

static void wait_in_queue(void *arg) {
  struct world *w = arg;
  uvs_entry_t e;

  atomic_store(&w->started, uvs_queue_take(w->q, NULL, &e));
}

/* Waits until the thread sleeps in the queue, so that it is not in the middle of a change at the
 * fork. */
static bool await_sleeper(uvs_queue_t *q) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;
  bool sleeps = false;

  while (!sleeps && uv_hrtime() < end_ns) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    uvs_queue_dump(q, out);
    fclose(out);
    sleeps = strstr(text, "1 wait") != NULL;
    free(text);
    uv_sleep(sleeps ? 0 : 1);
  }
  return sleeps;
}

/* L8 */
TEST a_forked_child_can_close_its_copy_of_a_queue(void) {
  static struct world w;
  uvs_queue_options_t o;
  uv_thread_t thread;

  CHECK_CALL(open_world(&w));
  uvs_queue_options_init(&o);
  o.on_left = on_value;
  o.arg = &w;
  ASSERT_RC(0, uvs_queue_open(w.s, &o, &w.q));
  ASSERT_RC(0, uvs_queue_put(w.q, &w, UVS_HOUR(1), NULL));
  for (uvs_id_t id = 0; id < 4; id++) { /* before and after the loop has seen it */
    ASSERT_RC(0, in_child(child_closes_its_queue, &w, id % 2));
    uv_run(&w.loop, UV_RUN_NOWAIT);
  }
  ASSERT_RC(0, uv_thread_create(&thread, wait_in_queue, &w));
  ASSERT(await_sleeper(w.q));
  ASSERT_RC(0, in_child(child_closes_its_queue, &w, 2));
  /* The parent is not affected. */
  ASSERT_RC(1, uvs_queue_size(w.q));
  ASSERT_RC(0, uvs_queue_put(w.q, &w, 0, NULL));
  uv_thread_join(&thread);
  ASSERT_RC(0, atomic_load(&w.started));
  ASSERT_RC(0, uvs_queue_close(w.q));
  ASSERT_RC(1, atomic_load(&w.done));
  CHECK_CALL(close_world(&w));
  PASS();
}

static void put_in_queue(void *arg) {
  struct world *w = arg;

  atomic_store(&w->started, uvs_queue_put(w->q, w, 0, NULL));
}

/* In the child the queue's lock is held for ever. L8 */
TEST a_fork_while_another_thread_holds_the_queues_lock_does_not_hang(void) {
  static struct world w;
  uv_thread_t thread;

  CHECK_CALL(open_world(&w));
  ASSERT_RC(0, uvs_queue_open(w.s, NULL, &w.q));
  uv_run(&w.loop, UV_RUN_NOWAIT);
  atomic_store(&w.started, 1);
  atomic_store(&w.held, 1); /* the first value needs memory */
  ASSERT_RC(0, uv_thread_create(&thread, put_in_queue, &w));
  ASSERT(await_flag(&w.in_alloc));
  ASSERT_RC(0, in_child(child_closes_its_queue, &w, 0));
  ASSERT_RC(0, in_child(child_closes_its_queue, &w, 1));
  atomic_store(&w.go, 1);
  uv_thread_join(&thread);
  ASSERT_RC(0, atomic_load(&w.started));
  ASSERT_RC(1, uvs_queue_size(w.q));
  ASSERT_RC(0, uvs_queue_close(w.q));
  CHECK_CALL(close_world(&w));
  PASS();
}

/* ThreadSanitizer's own runtime does not survive this: the child hangs in free() on a lock that
 * another thread of the parent held. L8 */
TEST a_fork_while_other_threads_hold_locks_does_not_hang(void) {
  static struct world w;
  static struct hammer h;
  uv_thread_t thread[2];

  if (UNDER_TSAN)
    SKIPm("ThreadSanitizer's runtime hangs in such a child");
  CHECK_CALL(open_world(&w));
  uv_run(&w.loop, UV_RUN_NOWAIT);
  memset(&h, 0, sizeof h);
  h.w = &w;
  h.s = w.s;
  for (int i = 0; i < 2; i++)
    ASSERT_RC(0, uv_thread_create(&thread[i], hammer_main, &h));
  for (int i = 0; i < 30; i++) {
    int rc;

    uv_run(&w.loop, UV_RUN_NOWAIT);
    rc = in_child(child_hammered, &w, 1);
    ASSERT_RC(0, rc);
  }
  atomic_store(&h.stop, 1);
  for (int i = 0; i < 2; i++)
    uv_thread_join(&thread[i]);
  ASSERT(turn_loop_until(&w.loop, &w.done, atomic_load(&h.accepted)));
  ASSERT_RC(atomic_load(&h.accepted), atomic_load(&w.done));
  uvs_task_t t = spec(0, quick);
  ASSERT_RC(0, uvs_submit(w.s, &t, NULL));
  ASSERT(turn_loop_until(&w.loop, &w.done, atomic_load(&h.accepted) + 1));
  CHECK_CALL(close_world(&w));
  PASS();
}

/* L8 R32: a waiting task, a task cancelled during its run, an ended task, and a lane. */
TEST clean_ups_are_called_in_the_parent_only(void) {
  static struct world w;
  uvs_lane_t lane;
  uvs_id_t ids[3];

  CHECK_CALL(open_world(&w));
  uvs_task_t far = spec(UVS_HOUR(1), quick), running = spec(0, blocked), soon = spec(0, quick);
  ASSERT_RC(0, uvs_lane_open(w.s, NULL, &lane));
  ASSERT_RC(0, uvs_submit(w.s, &soon, &ids[2]));
  ASSERT(turn_loop_until(&w.loop, &w.done, 1));
  ASSERT_RC(0, uvs_submit(w.s, &far, &ids[0]));
  ASSERT_RC(0, uvs_submit(w.s, &running, &ids[1]));
  ASSERT(turn_loop_until(&w.loop, &w.started, 1));
  for (int i = 0; i < 3; i++) {
    ASSERT_RC(0, uvs_add_cleanup(w.s, ids[i], on_cleanup, &w, 0));
    ASSERT_RC(0, uvs_add_cleanup(w.s, ids[i], on_cleanup, &w, UVS_CLEANUP_WHEN_SETTLED));
  }
  ASSERT_RC(0, uvs_lane_add_cleanup(w.s, lane, on_cleanup, &w, 0));
  ASSERT_RC(0, uvs_lane_add_cleanup(w.s, lane, on_cleanup, &w, UVS_CLEANUP_WHEN_SETTLED));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(w.s, ids[1], 0)); /* one is on both lists */
  ASSERT_RC(0, in_child(child_refuses_and_closes, &w, ids[0]));
  ASSERT(turn_loop_until(&w.loop, &w.cleaned, 3));
  ASSERT_RC(0, in_child(child_refuses_and_closes, &w, ids[1])); /* one was called */
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  ASSERT_RC(0, in_child(child_refuses_and_closes, &w, ids[2]));
  ASSERT(turn_loop_until(&w.loop, &w.cleaned, 5));
  ASSERT_RC(5, atomic_load(&w.cleaned));
  atomic_store(&w.go, 1);
  ASSERT(turn_loop_until(&w.loop, &w.done, 2));
  ASSERT_RC(6, atomic_load(&w.cleaned));
  ASSERT_RC(0, uvs_cancel(w.s, ids[0], 0));
  CHECK_CALL(close_world(&w));
  ASSERT_RC(8, atomic_load(&w.cleaned));
  PASS();
}

SUITE(forked) {
  RUN_TEST(a_forked_child_can_only_close_and_that_frees_its_copy);
  RUN_TEST(a_fork_while_bodies_run_leaves_parent_and_child_intact);
  RUN_TEST(a_forked_child_closes_a_scheduler_and_lanes_with_threads);
  RUN_TEST(a_fork_while_the_parent_closes_leaves_parent_and_child_intact);
  RUN_TEST(a_reference_in_the_child_keeps_the_memory_until_released);
  RUN_TEST(a_child_may_have_a_loop_and_a_scheduler_of_its_own);
  RUN_TEST(a_forked_child_can_close_its_copy_of_a_queue);
  RUN_TEST(clean_ups_are_called_in_the_parent_only);
  RUN_TEST(a_fork_while_another_thread_holds_the_queues_lock_does_not_hang);
  RUN_TEST(a_fork_while_other_threads_hold_locks_does_not_hang);
}

TEST_MAIN(RUN_SUITE(forked));
