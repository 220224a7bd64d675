/* SPDX-License-Identifier: MIT
 *
 * entries: calls every public function again and again with arguments that a careless caller might
 * pass: structs of wrong sizes, with nonzero tails, numbers at the limits of their types, unknown
 * flags and kinds, NULL, stale and foreign ids. Each call must succeed or return a code that its
 * comment in the header names. An error changes nothing. The scheduler can be used and closed
 * afterwards. Pointers are NULL or valid: avoiding wild ones is the caller's duty.
 *
 *   entries [--seed N] [--rounds N]        or SEED=N in the environment
 *
 * Each round goes through the table once, and then picks calls at random. It is an error if the
 * library exports a function that the table does not have. Structs are in blocks of exactly the
 * size that they claim, so that AddressSanitizer detects each access out of bounds.
 */
#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uvsched/calendar.h"
#include "uvsched/control.h"
#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"
#include "uvsched/trace.h"
#include "uvsched/executor.h"
#include "uvsched/lane.h"
#include "uvsched/queue.h"

#define IDS 16
#define PENDING_MAX 4096
#define BLOCK_MAX 4096
#define CALLS 400

/* ------------------------------------------------------------------- world --- */

static uint64_t seed, state;
static const char *current = "the start";

struct world {
  uv_loop_t loop;
  uvs_t *s, *other;
  uvs_lane_t lane, foreign, disposed;
  uvs_queue_t *q;
  uvs_threads_t *threads;
  uvs_id_t id[IDS];
  uvs_item_t item[IDS];
  uvs_id_t pending[PENDING_MAX];
  size_t pendings;
  int64_t now_ns;
  uint64_t accepted, done; /* of tasks with a `done` */
  bool closed;
  uint64_t others, others_closed; /* schedulers that only came and went */
};

static struct world w;

static void fail(const char *what, long long answer) {
  fprintf(stderr, "entries: %s: %s (%lld); again with --seed %llu\n", current, what, answer,
          (unsigned long long)seed);
  abort();
}

static uint64_t rnd(void) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * UINT64_C(2685821657736338717);
}

static size_t below(size_t n) {
  return (size_t)(rnd() >> 11) % n;
}

static bool chance(unsigned percent) {
  return below(100) < percent;
}

#define PICK(type, ...) \
  (((const type[]){__VA_ARGS__})[below(sizeof((const type[]){__VA_ARGS__}) / sizeof(type))])

static int any_int(void) {
  return PICK(int, INT_MIN, -3900, -2, -1, 0, 0, 1, 1, 2, 3, 4, 5, 8, 100, 101, 1025, INT_MAX,
              (int)(uint32_t)rnd());
}

static int64_t any_ns(void) {
  return PICK(int64_t, INT64_MIN, INT64_MIN + 1, -1, 0, 0, 1, 999, UVS_US(1), UVS_MS(1), UVS_SEC(1),
              UVS_HOUR(1), UVS_DAY(10000), INT64_MAX / 2, INT64_MAX - 1, INT64_MAX, (int64_t)rnd());
}

static uint32_t any_u32(void) {
  return PICK(uint32_t, 0, 0, 1, 2, 3, 1000, INT32_MAX, UINT32_C(1) << 31, UINT32_MAX,
              (uint32_t)rnd());
}

/* Not UVS_CANCEL_NO_DONE: each round counts one `done` per task. */
static unsigned any_flags(void) {
  return PICK(unsigned, 0, 0, 1, 2, 3, 8, 0x80000000u, UINT_MAX);
}

static uvs_id_t any_id(void) {
  uvs_id_t id = w.id[below(IDS)];

  return PICK(uvs_id_t, id, id, id, id, 0, 1, id ^ 1, id + (UINT64_C(1) << 26), UINT64_MAX, rnd());
}

static uvs_lane_t any_lane(void) {
  return PICK(uvs_lane_t, w.lane, w.lane, w.lane, w.foreign, w.disposed, 0, 1, UINT64_MAX, rnd());
}

static uvs_t *any_scheduler(void) {
  return chance(5) ? NULL : w.s;
}

static uvs_queue_t *any_queue(void) {
  return chance(5) ? NULL : w.q;
}

static const char *any_name(void) {
  return PICK(char *, NULL, NULL, "", "a", "ten bytes!", "eleven byte", "twenty-three bytes long",
              "a name that is longer than anything that is kept", "\xff\xfe\x01%s%n");
}

/* A struct in a block of exactly the size that it claims. */
struct block {
  void *at;
  size_t size;
};

/* The first `ours` bytes are those of `from`, whose first field is the size. Bytes that are cut off
 * or added are random, and valid most of the time. */
static struct block block_of(const void *from, size_t ours) {
  size_t size = chance(60)
                    ? ours
                    : PICK(size_t, 0, 1, 7, 8, 16, 24, ours - 8, ours - 1, ours + 1, ours + 8,
                           ours + 64, BLOCK_MAX, BLOCK_MAX + 8, SIZE_MAX, below(2 * ours));
  size_t made = size < sizeof size ? sizeof size : size > BLOCK_MAX ? BLOCK_MAX : size;
  struct block b = {malloc(made), made};

  if (b.at == NULL)
    abort();
  memset(b.at, 0, made);
  memcpy(b.at, from, made < ours ? made : ours);
  if (made > ours && chance(50))
    ((unsigned char *)b.at)[ours + below(made - ours)] = 1;
  memcpy(b.at, &size, sizeof size);
  return b;
}

/* --------------------------------------------------------------- callbacks --- */

static void on_drop(void *result) {
  if (result != &w)
    fail("drop_result", 0);
}

static int64_t world_ns(void *arg) {
  (void)arg;
  return w.now_ns;
}

static int body(uvs_run_t *run) {
  int status = PICK(int, 0, 0, 0, UVS_STOP, UVS_PENDING, UV_EIO, INT_MIN, INT_MAX, 3);
  int rc = uvs_set_result(run, &w);

  if (rc != 0 && rc != UV_EINVAL)
    fail("uvs_set_result", rc);
  rc = uvs_cancelled(run);
  if (rc != 0 && rc != 1)
    fail("uvs_cancelled", rc);
  if (run->end_ns != 0 || status != UVS_PENDING) /* an `after`, or nothing to remember */
    return status == UVS_PENDING ? 0 : status;
  if (w.pendings == PENDING_MAX)
    return 0;
  w.pending[w.pendings++] = run->id;
  return status;
}

/* A body for other threads, where nothing may be written. */
static int quick(uvs_run_t *run) {
  return uvs_cancelled(run) == 0 ? 0 : UV_ECANCELED;
}

static void done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)arg;
  if (status > 0)
    fail("done with a positive status", status);
  w.done++;
}

static void on_interrupt(uvs_t *s, uvs_id_t id, void *arg) {
  (void)s;
  (void)arg;
  if (id == 0)
    fail("interrupt without an id", 0);
}

static void on_lane(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s;
  (void)lane;
  (void)arg;
}

static void on_cleanup(uvs_t *s, void *arg) {
  (void)s;
  (void)arg;
}

static void on_close(uvs_t *s) {
  if (s == w.s)
    w.closed = true;
  else
    w.others_closed++;
}

static void on_never_ran(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  (void)s;
  (void)id;
  (void)task_arg;
  (void)arg;
}

static int on_each(uvs_t *s, const uvs_info_t *info, void *arg) {
  uvs_info_t again;

  (void)arg;
  uvs_info_init(&again);
  if (uvs_info(s, info->id, &again) != 0)
    fail("uvs_info in each", 0);
  if (uvs_each(s, on_each, NULL) != UV_EBUSY)
    fail("uvs_each in each", 0);
  return (int)below(20) == 0 ? 77 : 0;
}

static int on_write(const char *data, size_t size, void *arg) {
  (void)arg;
  if (size == 0 || data[size - 1] != '\n')
    fail("stats write no whole line", (long long)size);
  return below(50) == 0 ? 77 : 0;
}

/* The number of queue values that are held. It is 0 whenever a call has returned. */
static long held;

static void hold(void *value, void *arg) {
  (void)arg;
  held++;
  if (value == NULL)
    fail("a NULL value is held", 0);
}

static void drop(void *value, void *arg) {
  (void)arg;
  held--;
  if (value == NULL)
    fail("a NULL value is dropped", 0);
}

static void on_value(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  (void)arg;
  if (e->value == NULL)
    fail("a NULL value", 0);
}

static int on_entry(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  on_value(q, e, arg);
  return below(20) == 0 ? 77 : 0;
}

static void on_job(void *arg) {
  (void)arg;
}

static int on_submit(void *self, void (*fn)(void *arg), void *arg) {
  (void)self;
  fn(arg);
  return 0;
}

static void *on_alloc(size_t size, void *arg) {
  (void)arg;
  return malloc(size);
}

static void on_free(void *ptr, void *arg) {
  (void)arg;
  free(ptr);
}

/* -------------------------------------------------------------- elsewhere --- */

/* A call on another thread, while this one waits: nothing runs concurrently. */
struct elsewhere {
  int (*fn)(void *arg);
  void *arg;
  int rc;
};

static void elsewhere_run(void *arg) {
  struct elsewhere *e = arg;

  e->rc = e->fn(e->arg);
}

/* Or on this thread, the loop's, where the call must not wait. */
static int elsewhere(int (*fn)(void *arg), void *arg) {
  struct elsewhere e = {fn, arg, 0};
  uv_thread_t thread;

  if (chance(30))
    return fn(arg);
  if (uv_thread_create(&thread, elsewhere_run, &e) != 0)
    abort();
  uv_thread_join(&thread);
  return e.rc;
}

/* How long a call waits for a loop that does not run meanwhile. */
static int64_t short_ns(void) {
  return PICK(int64_t, INT64_MIN, -1, 0, 1, 1000, UVS_US(100));
}

/* ------------------------------------------------------------------- tasks --- */

static uvs_task_t any_task(uvs_work_cb work) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.work = work;
  t.done = chance(80) ? done : NULL;
  t.first_ns = UVS_HOUR(1);
  t.keep_outcome = chance(20);
  for (size_t k = below(5); k > 0; k--) {
    switch (below(26)) {
    case 0:
      t.kind = any_int();
      break;
    case 1:
      t.from = any_int();
      break;
    case 2:
    case 3:
      t.first_ns = any_ns();
      break;
    case 4:
      t.period_ns = any_ns();
      break;
    case 5:
      t.kind = PICK(int, UVS_FIXED_RATE, UVS_FIXED_DELAY);
      t.period_ns = UVS_SEC(1);
      break;
    case 6:
      t.work = NULL;
      break;
    case 7:
      t.after = work;
      break;
    case 8:
      t.flags = any_flags();
      break;
    case 9:
      t.missed_policy = any_int();
      break;
    case 10:
      t.max_burst = any_u32();
      break;
    case 11:
      t.max_runs = any_u32();
      break;
    case 12:
      t.until_ns = any_ns();
      break;
    case 13:
      t.jitter_ns = any_ns();
      break;
    case 14:
      t.name = any_name();
      break;
    case 15:
      t.keep_outcome = PICK(int, 1, 1, any_int());
      break;
    case 16:
      t.result = &w;
      break;
    case 17:
      t.failure_policy = any_int();
      break;
    case 18:
      t.max_failures = any_u32();
      break;
    case 19:
      t.retry.wait_ns = any_ns();
      t.retry.max_wait_ns = any_ns();
      t.retry.jitter_percent = any_int();
      break;
    case 20:
      t.limit.substitute = any_int();
      t.limit.status = any_int();
      break;
    case 21:
      t.limit.run_ns = any_ns();
      t.limit.total_ns = any_ns();
      t.limit.result = chance(50) ? &w : NULL;
      break;
    case 22:
      t.priority = any_int();
      break;
    case 23:
      t.drop_result = on_drop;
      break;
    case 24:
      t.interrupt = on_interrupt;
      break;
    default:
      t.lane = any_lane();
      break;
    }
  }
  return t;
}

/* Remembers an accepted task. Its `done` will be counted. */
static void accepted(int rc, const uvs_task_t *t, uvs_id_t id) {
  if (rc < 0)
    return;
  if (t->done != NULL)
    w.accepted++;
  w.id[below(IDS)] = id;
}

/* Is the block large enough for its `done` to be read? */
static bool reads_done(const struct block *b) {
  return b->size >= offsetof(uvs_task_t, done) + sizeof(uvs_done_cb);
}

static int submit_with(int (*fn)(const uvs_task_t *t, uvs_id_t *ret)) {
  uvs_task_t t = any_task(body);
  struct block b = block_of(&t, sizeof t);
  uvs_id_t id = UINT64_MAX;
  bool null_ret = chance(20);
  int rc = fn(chance(3) ? NULL : b.at, null_ret ? NULL : &id);

  if (!reads_done(&b))
    t.done = NULL;
  if (rc < 0 && id != UINT64_MAX)
    fail("an error, and an id", rc);
  if (rc > 0)
    fail("an unknown success", rc);
  accepted(rc, &t, null_ret ? 0 : id);
  free(b.at);
  return rc;
}

static int do_submit(const uvs_task_t *t, uvs_id_t *ret) {
  return uvs_submit(any_scheduler(), t, ret);
}

static int e_submit(void) {
  return submit_with(do_submit);
}

static int do_lane_submit(const uvs_task_t *t, uvs_id_t *ret) {
  return uvs_lane_submit(any_lane(), t, ret);
}

static int e_lane_submit(void) {
  return submit_with(do_lane_submit);
}

/* n specs in an array, one of which is unusual. */
static uvs_task_t *any_tasks(size_t n, uvs_work_cb work) {
  uvs_task_t *t = malloc((n > 0 ? n : 1) * sizeof *t);

  if (t == NULL)
    abort();
  for (size_t i = 0; i < n; i++) {
    uvs_task_init(&t[i]);
    t[i].work = work;
    t[i].first_ns = UVS_HOUR(1);
    t[i].done = done;
  }
  if (n > 0 && chance(60))
    t[below(n)] = any_task(work);
  if (n > 0 && chance(10))
    t[below(n)].size = PICK(size_t, 0, 8, sizeof *t - 8, SIZE_MAX);
  if (n > 1 && t[0].size != sizeof *t) /* else they would not lie where it says */
    t[0].size = PICK(size_t, 0, SIZE_MAX, sizeof *t);
  return t;
}

static int e_submit_many(void) {
  size_t n = below(6);
  uvs_task_t *t = any_tasks(n, body);
  uvs_id_t ids[6];
  int rc = uvs_submit_many(any_scheduler(), chance(3) ? NULL : t, n, ids);

  for (size_t i = 0; rc >= 0 && i < n; i++)
    accepted(rc, &t[i], ids[i]);
  free(t);
  return rc;
}

static uvs_work_cb any_body(void) {
  return chance(5) ? NULL : body;
}

static int e_execute(void) {
  return uvs_execute(any_scheduler(), any_body(), NULL);
}

static uvs_id_t *any_place(void) {
  return chance(20) ? NULL : &w.id[below(IDS)];
}

static int e_schedule(void) {
  return uvs_schedule(any_scheduler(), any_ns(), any_body(), NULL, any_place());
}

/* Never so short that catching up would not end. */
static int64_t any_period(void) {
  int64_t ns = any_ns();

  return ns > 0 && ns < UVS_MS(1) ? UVS_MS(1) : ns;
}

static int e_rate(void) {
  return uvs_schedule_at_fixed_rate(any_scheduler(), any_ns(), any_period(), any_body(), NULL,
                                    any_place());
}

static int e_delay(void) {
  return uvs_schedule_with_fixed_delay(any_scheduler(), any_ns(), any_period(), any_body(), NULL,
                                       any_place());
}

static int e_at(void) {
  return uvs_schedule_at(any_scheduler(), any_ns(), any_body(), NULL, any_place());
}

static int e_cancel(void) {
  return uvs_cancel(any_scheduler(), any_id(), chance(30) ? UVS_CANCEL_IF_WAITING : any_flags());
}

static int e_reschedule(void) {
  return uvs_reschedule(any_scheduler(), any_id(), any_ns());
}

static int e_pause(void) {
  return uvs_pause(any_scheduler(), any_id());
}

static int e_resume(void) {
  return uvs_resume(any_scheduler(), any_id(), any_flags());
}

static int e_pause_all(void) {
  return uvs_pause_all(any_scheduler());
}

static int e_resume_all(void) {
  return uvs_resume_all(any_scheduler());
}

static int e_run_now(void) {
  return uvs_run_now(any_scheduler(), any_id());
}

static int e_next_runs(void) {
  int64_t runs[8];

  return uvs_next_runs(any_scheduler(), any_id(), chance(5) ? NULL : runs, chance(50) ? 8 : 0);
}

static int e_find(void) {
  uvs_id_t id;

  return uvs_find(any_scheduler(), chance(5) ? NULL : "entry", chance(5) ? NULL : &id);
}

static int e_schedule_cron(void) {
  return uvs_schedule_cron(any_scheduler(), chance(20) ? "61 * * * *" : "* * * * * *",
                           chance(20) ? "no such zone" : "UTC", any_body(), NULL, any_place());
}

static int e_finish(void) {
  return uvs_finish(any_scheduler(), any_id(), any_int());
}

static int e_ref(void) {
  return uvs_ref(any_scheduler(), any_id());
}

static int e_unref(void) {
  return uvs_unref(any_scheduler(), any_id());
}

static int e_has_ref(void) {
  return uvs_has_ref(any_scheduler(), any_id());
}

static int e_add_cleanup(void) {
  return uvs_add_cleanup(any_scheduler(), any_id(), chance(5) ? NULL : on_cleanup, NULL,
                         any_flags());
}

static void on_post(uvs_t *s, void *arg) {
  (void)s;
  (void)arg;
}

static int e_post(void) {
  return uvs_post(any_scheduler(), chance(5) ? NULL : on_post, NULL);
}

static int e_ignore_errors(void) {
  uvs_ignore_errors(any_scheduler(), any_id(), any_int(), NULL);
  return 0;
}

static int e_complete(void) {
  return uvs_complete(any_scheduler(), any_id(), any_int(), chance(50) ? NULL : &w);
}

static int e_set_result(void) {
  uvs_run_t run;

  memset(&run, 0, sizeof run);
  return uvs_set_result(chance(50) ? NULL : &run, &w); /* a good one: in `body` */
}

static int e_cancelled(void) {
  uvs_run_t run;

  memset(&run, 0, sizeof run);
  return uvs_cancelled(chance(50) ? NULL : &run);
}

/* ---------------------------------------------------------------- outcomes --- */

static struct block any_outcome(void) {
  uvs_outcome_t o;

  uvs_outcome_init(&o);
  return block_of(&o, sizeof o);
}

static int do_wait(void *arg) {
  return uvs_wait(any_scheduler(), any_id(), short_ns(), chance(70) ? 0 : any_flags(),
                  chance(10) ? NULL : arg);
}

static int e_wait(void) {
  struct block b = any_outcome();
  int rc = elsewhere(do_wait, b.at);

  free(b.at);
  return rc;
}

static int with_waiter(int (*fn)(void *arg)) {
  uvs_waiter_t waiter;

  uvs_waiter_init(&waiter);
  if (chance(20))
    waiter.size = PICK(size_t, 0, 8, sizeof waiter - 8, sizeof waiter + 8, SIZE_MAX);
  return elsewhere(fn, &waiter);
}

/* In half of the cases the call is abandoned before it waits. */
static uvs_waiter_t *any_waiter(uvs_waiter_t *waiter) {
  int rc = chance(50) ? uvs_abandon(w.s, waiter) : 0;

  if (rc != 0 && rc != UV_EINVAL && rc != UV_ESHUTDOWN)
    fail("uvs_abandon", rc);
  return chance(20) ? NULL : waiter;
}

static int do_wait_with(void *arg) {
  struct block b = any_outcome();
  int rc = uvs_wait_with(any_scheduler(), any_id(), short_ns(), chance(70) ? 0 : any_flags(),
                         any_waiter(arg), chance(10) ? NULL : b.at);

  free(b.at);
  return rc;
}

static int e_wait_with(void) {
  return with_waiter(do_wait_with);
}

static int do_abandon_wait(void *arg) {
  return uvs_abandon(any_scheduler(), chance(5) ? NULL : arg);
}

static int e_abandon(void) {
  return with_waiter(do_abandon_wait);
}

static int e_forget(void) {
  return uvs_forget(any_scheduler(), any_id());
}

/* The arguments of uvs_all and uvs_any. */
struct group {
  uvs_outcome_t outcomes[4];
  uvs_outcome_t *o; /* or NULL */
  size_t n, index;
  size_t *ret_index; /* or NULL */
  uvs_task_t *tasks;
  const uvs_task_t *t; /* or NULL */
};

static void any_group(struct group *g) {
  for (size_t i = 0; i < 4; i++)
    uvs_outcome_init(&g->outcomes[i]);
  if (chance(10))
    g->outcomes[0].size = PICK(size_t, 0, 1, 8, sizeof g->outcomes[0] - 8, SIZE_MAX);
  g->o = chance(20) ? NULL : g->outcomes;
  g->ret_index = chance(20) ? NULL : &g->index;
  g->n = below(5);
  g->tasks = any_tasks(g->n, quick);
  for (size_t i = 0; i < g->n; i++)
    g->tasks[i].done = NULL;
  g->t = chance(3) ? NULL : g->tasks;
}

static int do_all(void *arg) {
  struct group g;
  int rc;

  (void)arg;
  any_group(&g);
  rc = uvs_all(any_scheduler(), g.t, g.n, short_ns(), g.o);
  free(g.tasks);
  return rc;
}

static int do_any(void *arg) {
  struct group g;
  int rc;

  (void)arg;
  any_group(&g);
  rc = uvs_any(any_scheduler(), g.t, g.n, short_ns(), g.ret_index, g.o);
  free(g.tasks);
  return rc;
}

static int do_all_with(void *arg) {
  struct group g;
  int rc;

  any_group(&g);
  rc = uvs_all_with(any_scheduler(), g.t, g.n, short_ns(), any_waiter(arg), g.o);
  free(g.tasks);
  return rc;
}

static int do_any_with(void *arg) {
  struct group g;
  int rc;

  any_group(&g);
  rc = uvs_any_with(any_scheduler(), g.t, g.n, short_ns(), any_waiter(arg), g.ret_index, g.o);
  free(g.tasks);
  return rc;
}

static int e_all(void) {
  return elsewhere(do_all, NULL);
}

static int e_any(void) {
  return elsewhere(do_any, NULL);
}

static int e_all_with(void) {
  return with_waiter(do_all_with);
}

static int e_any_with(void) {
  return with_waiter(do_any_with);
}

/* --------------------------------------------------------------------- ask --- */

/* INIT, CALL(pointer): a struct that the call fills. */
#define FILLS(type, call) \
  type given; \
  struct block b; \
  int rc; \
  type##_fill(&given); \
  b = block_of(&given, sizeof given); \
  rc = call; \
  free(b.at); \
  return rc
#define uvs_info_t_fill uvs_info_init
#define uvs_counts_t_fill uvs_counts_init
#define uvs_name_stats_t_fill uvs_name_stats_init
#define uvs_histogram_t_fill uvs_histogram_init

static int e_info(void) {
  FILLS(uvs_info_t, uvs_info(any_scheduler(), any_id(), chance(5) ? NULL : b.at));
}

static int e_counts(void) {
  FILLS(uvs_counts_t, uvs_counts(any_scheduler(), chance(5) ? NULL : b.at));
}

static int e_histogram(void) {
  FILLS(uvs_histogram_t, uvs_histogram(any_scheduler(), any_int(), chance(5) ? NULL : b.at));
}

static int e_each(void) {
  int rc = uvs_each(any_scheduler(), chance(5) ? NULL : on_each, NULL);

  return rc == 77 ? 0 : rc;
}

static int e_each_step(void) {
  uint64_t cursor = chance(2) ? 0 : (uint64_t)any_int();
  int rc = uvs_each_step(any_scheduler(), chance(5) ? NULL : &cursor, (uint32_t)any_int(),
                         chance(5) ? NULL : on_each, NULL);

  return rc == 77 ? 0 : rc;
}

static int on_each_lane(uvs_t *s, const uvs_lane_info_t *info, void *arg) {
  (void)s, (void)arg;
  if (info->lane == 0 || (info->disposed && uvs_lane_is_disposed(info->lane) != 1))
    fail("uvs_each_lane", (long long)info->lane);
  return (int)below(20) == 0 ? 77 : 0;
}

static int e_each_lane(void) {
  int rc = uvs_each_lane(any_scheduler(), chance(5) ? NULL : on_each_lane, NULL);

  return rc == 77 ? 0 : rc;
}

static int e_name_stats(void) {
  FILLS(uvs_name_stats_t, uvs_name_stats(any_scheduler(), any_name(), chance(5) ? NULL : b.at));
}

static int on_each_name(uvs_t *s, const uvs_name_stats_t *stats, void *arg) {
  (void)s, (void)arg;
  if (stats->name[0] == '\0')
    fail("uvs_each_name", 0);
  return chance(5) ? 77 : 0;
}

static int e_each_name(void) {
  int rc = uvs_each_name(any_scheduler(), chance(5) ? NULL : on_each_name, NULL);

  return rc == 77 ? 0 : rc;
}

static FILE *nowhere;

static int e_dump(void) {
  return uvs_dump(any_scheduler(), chance(10) ? NULL : nowhere);
}

static int e_stats_write(void) {
  int rc = uvs_stats_write(any_scheduler(), any_int(), chance(5) ? NULL : on_write, NULL);

  return rc == 77 ? 0 : rc;
}

/* The two have no name, so they cannot be on one page. */
static int e_stats_write_all(void) {
  uvs_t *list[2] = {any_scheduler(), w.other};
  int rc =
      uvs_stats_write_all(chance(5) ? NULL : list, below(3), chance(5) ? NULL : on_write, NULL);

  return rc == 77 ? 0 : rc;
}

static void on_trigger(uvs_t *s, int reason, int64_t ns, uvs_id_t id, void *arg) {
  (void)s, (void)id, (void)arg;
  if (reason < UVS_TRACE_LATE || reason > UVS_TRACE_HELD || ns <= 0)
    fail("on_trigger", reason);
}

static int e_trace_open(void) {
  uvs_trace_options_t o;
  struct block b;
  int rc;

  uvs_trace_options_init(&o);
  o.bytes = (size_t)64 << 10;
  for (size_t k = below(3); k > 0; k--) {
    switch (below(4)) {
    case 0:
      o.bytes = PICK(size_t, 0, 1, 65535, 65537, SIZE_MAX);
      break;
    case 1:
      o.on_trigger = on_trigger;
      break;
    case 2:
      o.late_ns = any_ns();
      break;
    default:
      o.held_ns = any_ns();
    }
  }
  b = block_of(&o, sizeof o);
  rc = uvs_trace_open(any_scheduler(), chance(10) ? NULL : b.at);
  free(b.at);
  return rc;
}

static int e_trace_close(void) {
  return uvs_trace_close(any_scheduler());
}

static int e_trace_write(void) {
  int rc = uvs_trace_write(any_scheduler(), any_ns(), chance(70) ? (unsigned)below(2) : any_flags(),
                           chance(5) ? NULL : on_write, NULL);

  return rc == 77 ? 0 : rc;
}

static int e_trace_runs(void) {
  uvs_trace_run_t run;
  struct block b;
  size_t count, left_out;
  int rc;

  uvs_trace_run_init(&run);
  b = block_of(&run, sizeof run);
  rc = uvs_trace_runs(any_scheduler(), any_ns(), chance(5) ? NULL : b.at, below(2),
                      chance(5) ? NULL : &count, chance(5) ? NULL : &left_out);
  if (rc == 0 && count > 1)
    fail("more runs than there is room", (long long)count);
  free(b.at);
  return rc;
}

static int is_text(const char *text) {
  return text == NULL || text[0] == '\0' ? INT_MIN : 0;
}

static int e_state_name(void) {
  return is_text(uvs_state_name(any_int()));
}

static int e_outcome_name(void) {
  return is_text(uvs_outcome_name(any_int()));
}

static int e_name(void) {
  return strcmp(uvs_name(w.s), "") == 0 ? 0 : INT_MIN;
}

static int e_late_name(void) {
  return is_text(uvs_late_name(any_int()));
}

static int e_check(void) {
  uvs_task_t t = any_task(body);
  char text[64];

  return uvs_check(chance(90) ? &t : NULL, chance(80) ? text : NULL, below(65));
}

static int e_strerror(void) { /* of unknown codes libuv makes text that nobody frees */
  return is_text(uvs_strerror(PICK(int, 0, UVS_EDEADLK, UV_EINVAL, UV_EOF, UV_ENOMEM)));
}

static int e_version_string(void) {
  return is_text(uvs_version_string());
}

static int e_version(void) {
  return uvs_version() == UVS_VERSION_HEX ? 0 : INT_MIN;
}

static int e_loop(void) {
  return uvs_loop(w.s) == &w.loop && uvs_loop(NULL) == NULL ? 0 : INT_MIN;
}

static int e_data(void) {
  return uvs_data(w.s) == &w && uvs_data(NULL) == NULL ? 0 : INT_MIN;
}

static int e_now(void) {
  return uvs_now(w.s) == w.now_ns && uvs_now(NULL) == 0 ? 0 : INT_MIN;
}

static int e_owns_handle(void) {
  uv_handle_t h;

  memset(&h, 0, sizeof h);
  return uvs_owns_handle(any_scheduler(), chance(50) ? NULL : &h) == 0 ? 0 : INT_MIN;
}

static int e_bucket_ns(void) {
  return uvs_bucket_ns((unsigned)any_u32()) > 0 ? 0 : INT_MIN;
}

static int e_quantile(void) {
  uvs_histogram_t h;

  uvs_histogram_init(&h);
  for (size_t i = 0; i < sizeof h / 8; i++) { /* any bytes at all; `size` is not asked for */
    uint64_t bits = PICK(uint64_t, 0, 1, 5, UINT64_MAX, INT64_MAX, rnd());
    memcpy((char *)&h + 8 * i, &bits, 8);
  }
  (void)uvs_quantile_ns(&h, PICK(double, 0, 1, 0.5, -1, 2, NAN, INFINITY, -INFINITY, 1e-300));
  return 0;
}

/* --------------------------------------------------------------- configure --- */

static int e_concurrency(void) {
  return uvs_concurrency(any_scheduler());
}

static int e_set_concurrency(void) { /* stays 0: no other thread, so that counts stand still */
  return uvs_set_concurrency(any_scheduler(), PICK(int, INT_MIN, -2, -1, 0, 1025, INT_MAX));
}

static int e_survive(void) {
  return uvs_after_shutdown(any_scheduler(), any_int());
}

static int e_set_survive(void) {
  return uvs_set_after_shutdown(any_scheduler(), any_int(), any_int());
}

static int e_rejection(void) {
  return uvs_rejection_policy(any_scheduler());
}

static int e_set_rejection(void) {
  return uvs_set_rejection_policy(any_scheduler(), any_int());
}

static int e_rejection_handler(void) {
  return uvs_rejection_handler(any_scheduler()) == NULL ? 0 : INT_MIN;
}

static int e_next_due(void) {
  int64_t ns;

  return uvs_next_due(any_scheduler(), chance(5) ? NULL : &ns);
}

static int e_clock_changed(void) {
  return uvs_clock_changed(any_scheduler());
}

static int e_is_paused(void) {
  return uvs_is_paused(any_scheduler());
}

static int e_is_shutdown(void) {
  return uvs_is_shutdown(any_scheduler());
}

static int e_is_terminating(void) {
  return uvs_is_terminating(any_scheduler());
}

static int e_is_terminated(void) {
  return uvs_is_terminated(any_scheduler());
}

static int do_await(void *arg) {
  (void)arg;
  return uvs_wait_terminated(any_scheduler(), short_ns());
}

static int e_await(void) {
  return elsewhere(do_await, NULL);
}

static int do_await_with(void *arg) {
  return uvs_wait_terminated_with(any_scheduler(), short_ns(), any_waiter(arg));
}

static int e_await_with(void) {
  return with_waiter(do_await_with);
}

static int e_retain(void) {
  uvs_t *s = any_scheduler();

  if (uvs_retain(s) != s)
    return INT_MIN;
  uvs_release(s);
  return 0;
}

/* -------------------------------------------------------- open and the end --- */

/* Executors are borrowed, so they never change. */
static const uvs_executor_t good = {sizeof good, on_submit, NULL, NULL, NULL};
static const uvs_executor_t small = {sizeof small - 8, on_submit, NULL, NULL, NULL};
static const uvs_executor_t empty = {sizeof empty, NULL, NULL, NULL, NULL};

static const uvs_executor_t *any_executor(void) {
  return PICK(uvs_executor_t *, &good, &good, &small, &empty);
}

static void spoil_allocator(uvs_allocator_t *a) {
  a->alloc = chance(50) ? on_alloc : NULL;
  a->free = chance(50) ? on_free : NULL;
}

static int e_open(void) {
  uvs_options_t o;
  struct block b;
  uvs_t *s = NULL;
  int rc;

  uvs_options_init(&o);
  for (size_t k = below(4); k > 0; k--) {
    switch (below(14)) {
    case 0:
      o.concurrency = PICK(int, any_int(), 1024, -1);
      break;
    case 1:
      o.keep_alive = any_int();
      break;
    case 2:
      o.delayed_after_shutdown = any_int();
      break;
    case 3:
      o.periodic_after_shutdown = any_int();
      break;
    case 4:
      o.max_pending = any_u32();
      break;
    case 5:
      o.budget_ns = any_ns();
      break;
    case 6:
      o.clock.monotonic_ns = world_ns;
      o.clock.wall_ns = chance(50) ? world_ns : NULL;
      break;
    case 7:
      spoil_allocator(&o.allocator);
      break;
    case 8:
      o.rejection_policy = any_int();
      break;
    case 9:
      o.executor = any_executor();
      break;
    case 10:
      o.threads = PICK(int, INT_MIN, -1, 1, 2, 1025, INT_MAX);
      break;
    case 11:
      o.thread_name = any_name();
      break;
    case 12:
      o.precise_ns = any_ns();
      break;
    default:
      o.seed = rnd();
      break;
    }
  }
  b = block_of(&o, sizeof o);
  rc = uvs_open(chance(3) ? NULL : &w.loop, chance(5) ? NULL : b.at, chance(3) ? NULL : &s);
  free(b.at);
  if ((rc == 0) != (s != NULL))
    fail("opened, or not?", rc);
  if (rc == 0) {
    w.others++;
    if (uvs_close(s, on_close) != 0)
      fail("cannot be closed", rc);
  }
  return rc;
}

static int e_shutdown(void) {
  return uvs_shutdown(any_scheduler());
}

static int e_shutdown_within(void) {
  return uvs_shutdown_within(any_scheduler(), any_ns());
}

static int e_shutdown_now(void) {
  return uvs_shutdown_now(any_scheduler(), chance(50) ? NULL : on_never_ran, NULL);
}

static int do_close(void *arg) { /* the loop's thread is another */
  (void)arg;
  return uvs_close(w.s, on_close);
}

static int e_close(void) {
  struct elsewhere e = {do_close, NULL, 0};
  uv_thread_t thread;

  if (chance(50))
    return uvs_close(NULL, on_close);
  if (uv_thread_create(&thread, elsewhere_run, &e) != 0)
    abort();
  uv_thread_join(&thread);
  return e.rc;
}

/* -------------------------------------------------------------------- lanes --- */

static int e_lane_open(void) {
  uvs_lane_options_t o;
  uvs_lane_t lane = UINT64_MAX;
  struct block b;
  int rc;

  uvs_lane_options_init(&o);
  for (size_t k = below(3); k > 0; k--) {
    switch (below(5)) {
    case 0:
      o.width = any_u32();
      break;
    case 1:
      o.on_quiet = on_lane;
      break;
    case 2:
      o.executor = any_executor();
      break;
    case 3:
      o.threads = PICK(int, INT_MIN, -1, 1025, INT_MAX);
      break;
    default:
      o.thread_name = any_name();
      break;
    }
  }
  b = block_of(&o, sizeof o);
  rc = uvs_lane_open(any_scheduler(), chance(5) ? NULL : b.at, chance(3) ? NULL : &lane);
  free(b.at);
  if ((rc == 0) != (lane != UINT64_MAX))
    fail("a lane, or not?", rc);
  if (rc == 0 && chance(70)) {
    if (uvs_lane_dispose(lane, 0) != 0)
      fail("cannot be disposed", rc);
    w.disposed = lane;
  } else if (rc == 0) {
    w.lane = lane;
  }
  return rc;
}

static int e_lane_dispose(void) {
  uvs_lane_t lane = any_lane();

  return uvs_lane_dispose(lane == w.foreign ? 0 : lane, any_flags());
}

static int e_lane_is_disposed(void) {
  return uvs_lane_is_disposed(any_lane());
}

static int e_lane_add_cleanup(void) {
  return uvs_lane_add_cleanup(any_scheduler(), any_lane(), chance(5) ? NULL : on_cleanup, NULL,
                              any_flags());
}

static int e_lane_cancel(void) {
  return uvs_lane_cancel(any_lane(), any_id(), chance(30) ? UVS_CANCEL_IF_WAITING : any_flags());
}

static int e_lane_reschedule(void) {
  return uvs_lane_reschedule(any_lane(), any_id(), any_ns());
}

static int e_lane_finish(void) {
  return uvs_lane_finish(any_lane(), any_id(), any_int());
}

/* ------------------------------------------------------------------- queues --- */

static int e_queue_open(void) {
  uvs_queue_options_t o;
  uvs_queue_t *q = NULL;
  struct block b;
  int rc;

  uvs_queue_options_init(&o);
  o.on_left = chance(50) ? on_value : NULL;
  o.hold = chance(30) ? hold : NULL; /* one without the other is wrong */
  o.drop = chance(30) ? drop : NULL;
  b = block_of(&o, sizeof o);
  rc = uvs_queue_open(any_scheduler(), chance(5) ? NULL : b.at, chance(3) ? NULL : &q);
  free(b.at);
  if ((rc == 0) != (q != NULL))
    fail("a queue, or not?", rc);
  if (rc == 0 && uvs_queue_close(q) != 0)
    fail("cannot be closed", rc);
  return rc;
}

static int e_queue_close(void) {
  return uvs_queue_close(NULL); /* the good one: at the end of the round */
}

static int e_queue_retain(void) {
  uvs_queue_t *q = any_queue();

  if (uvs_queue_retain(q) != q)
    return INT_MIN;
  uvs_queue_release(q);
  return 0;
}

static int e_queue_ref(void) {
  return uvs_queue_ref(any_queue());
}

static int e_queue_unref(void) {
  return uvs_queue_unref(any_queue());
}

static int e_queue_has_ref(void) {
  return uvs_queue_has_ref(any_queue());
}

static int e_queue_scheduler(void) {
  return uvs_queue_scheduler(NULL) == NULL && uvs_queue_scheduler(w.q) == w.s ? 0 : INT_MIN;
}

static void *any_value(void) {
  return chance(5) ? NULL : &w.id[below(IDS)];
}

static uvs_item_t *any_item_place(void) {
  return chance(20) ? NULL : &w.item[below(IDS)];
}

static int e_queue_put(void) {
  return uvs_queue_put(any_queue(), any_value(), any_ns(), any_item_place());
}

static int e_queue_put_at(void) {
  return uvs_queue_put_at(any_queue(), any_value(), any_ns(), any_item_place());
}

static int e_queue_put_many(void) {
  uvs_entry_t e[4];
  size_t n = below(5);

  for (size_t i = 0; i < 4; i++)
    e[i] = (uvs_entry_t){any_value(), rnd(), any_ns()};
  return uvs_queue_put_many(any_queue(), chance(3) ? NULL : e, n);
}

static uvs_entry_t place;

static uvs_entry_t *any_entry_place(void) {
  return chance(10) ? NULL : &place;
}

static int e_queue_poll(void) {
  return uvs_queue_poll(any_queue(), any_entry_place());
}

/* A waiting thread that is abandoned before it waits. */
static int do_take(void *arg) {
  uvs_waiter_t *waiter = arg;
  int rc = uvs_queue_abandon(w.q, waiter);

  if (rc != 0 && rc != UV_EINVAL && rc != UV_ESHUTDOWN)
    fail("uvs_queue_abandon", rc);
  return uvs_queue_take(any_queue(), waiter, any_entry_place());
}

static int do_poll_within(void *arg) {
  return uvs_queue_poll_within(any_queue(), short_ns(), chance(30) ? NULL : arg, any_entry_place());
}

static int e_queue_take(void) {
  return with_waiter(do_take);
}

static int e_queue_poll_within(void) {
  return with_waiter(do_poll_within);
}

static int do_abandon(void *arg) {
  return uvs_queue_abandon(any_queue(), chance(5) ? NULL : arg);
}

static int e_queue_abandon(void) {
  return with_waiter(do_abandon);
}

static int e_queue_consume(void) {
  return uvs_queue_consume(any_queue(), chance(50) ? NULL : on_value, NULL);
}

static int e_queue_drain(void) {
  return uvs_queue_drain(any_queue(), any_ns(), chance(5) ? NULL : on_value, NULL);
}

static int e_queue_clear(void) {
  return uvs_queue_clear(any_queue(), chance(50) ? NULL : on_value, NULL);
}

static int e_queue_remove(void) {
  uvs_item_t item = w.item[below(IDS)];

  return uvs_queue_remove(any_queue(),
                          PICK(uvs_item_t, item, item, 0, 1, item ^ 1, UINT64_MAX, rnd()),
                          any_entry_place());
}

static int e_queue_remove_value(void) {
  return uvs_queue_remove_value(any_queue(), any_value(), any_entry_place());
}

static int e_queue_peek(void) {
  int rc = uvs_queue_peek(any_queue(), any_entry_place());

  if (rc == 0)
    drop(place.value, NULL); /* it was held for us */
  return rc;
}

static int e_queue_size(void) {
  return uvs_queue_size(any_queue());
}

static int e_queue_contains(void) {
  return uvs_queue_contains(any_queue(), any_value());
}

static int e_queue_each(void) {
  int rc = uvs_queue_each(any_queue(), chance(5) ? NULL : on_entry, NULL);

  return rc == 77 ? 0 : rc;
}

static int e_queue_dump(void) {
  return uvs_queue_dump(any_queue(), chance(10) ? NULL : nowhere);
}

/* ------------------------------------------------------------------ threads --- */

static int e_inline_executor(void) {
  const uvs_executor_t *e = uvs_inline_executor();

  return e->submit(e->self, chance(20) ? NULL : on_job, NULL);
}

static int e_threads_open(void) {
  uvs_threads_options_t o;
  uvs_threads_t *p = NULL;
  struct block b;
  int rc;

  uvs_threads_options_init(&o);
  o.threads = 1;
  for (size_t k = below(3); k > 0; k--) {
    switch (below(3)) {
    case 0:
      o.threads = PICK(int, INT_MIN, -1, 0, 1, 2, 1025, INT_MAX);
      break;
    case 1:
      o.name = any_name();
      break;
    default:
      spoil_allocator(&o.allocator);
      break;
    }
  }
  b = block_of(&o, sizeof o);
  rc = uvs_threads_open(chance(3) ? NULL : b.at, chance(3) ? NULL : &p);
  free(b.at);
  if ((rc == 0) != (p != NULL))
    fail("threads, or not?", rc);
  if (rc == 0 && uvs_threads_close(p) != 0)
    fail("cannot be closed", rc);
  return rc;
}

static int e_threads_executor(void) {
  const uvs_executor_t *e = uvs_threads_executor(w.threads);

  if (uvs_threads_executor(NULL) != NULL)
    return INT_MIN;
  return e->submit(e->self, chance(20) ? NULL : on_job, NULL);
}

static uvs_threads_t *any_threads(void) {
  return chance(10) ? NULL : w.threads;
}

static int e_threads_size(void) {
  return uvs_threads_size(any_threads());
}

static int e_threads_resize(void) {
  return uvs_threads_resize(any_threads(), PICK(int, INT_MIN, -1, 0, 1, 2, 3, 1025, INT_MAX));
}

static int e_threads_close(void) {
  return uvs_threads_close(NULL);
}

/* --------------------------------------------------------------- calendars --- */

static const char *any_expression(void) {
  return PICK(char *, "0 9 * * 1-5", "*/5 * * * *", "30 2 * * *", "0 0 29 2 *", "@every 90s",
              "0 0 L * 5L", "59 59 23 31 12 ?", "0 0 31 2 *", "60 * * * *", "FRI-MON", "", "@",
              "\xff\x01%s%n", NULL);
}

static const char *any_zone(void) {
  return PICK(char *, "UTC", "UTC", "UTC", NULL, "Local", "Europe/Berlin", "No/Such",
              "../etc/passwd", "", "/", "\xff\x01%s%n");
}

/* NULL if the expression or the zone was refused, sometimes. */
static uvs_calendar_t *any_calendar(int *ret_rc) {
  uvs_calendar_options_t o;
  uvs_calendar_error_t error;
  uvs_calendar_t *c = NULL;
  struct block b;

  uvs_calendar_options_init(&o);
  if (chance(20))
    o.days = any_int();
  if (chance(20))
    o.gap = any_int();
  if (chance(20))
    o.overlap = any_int();
  b = block_of(&o, sizeof o);
  memset(&error, 1, sizeof error);
  *ret_rc = uvs_calendar_parse(any_expression(), any_zone(), chance(20) ? NULL : b.at,
                               chance(3) ? NULL : &c, chance(20) ? NULL : &error);
  free(b.at);
  if ((*ret_rc == 0) != (c != NULL))
    fail("a calendar, and an error", *ret_rc);
  return c;
}

static int e_calendar_parse(void) {
  int rc;

  uvs_calendar_release(any_calendar(&rc));
  return rc;
}

static int e_calendar_retain(void) {
  int rc;
  uvs_calendar_t *c = any_calendar(&rc);

  if (uvs_calendar_retain(c) != c)
    return INT_MIN;
  uvs_calendar_release(c);
  uvs_calendar_release(c);
  return 0;
}

static int e_calendar_names(void) {
  int rc;
  uvs_calendar_t *c = any_calendar(&rc);
  bool right = (uvs_calendar_text(c) != NULL) == (c != NULL) &&
               (uvs_calendar_zone(c) != NULL) == (c != NULL) && uvs_calendar_interval(c) >= 0;

  uvs_calendar_release(c);
  return right ? 0 : INT_MIN;
}

static int e_calendar_search(void) {
  int rc;
  uvs_calendar_t *c = any_calendar(&rc);
  int64_t at = any_ns(), next = uvs_calendar_next(c, at), previous = uvs_calendar_previous(c, at);
  bool right = next > at || next == UVS_NEVER;

  right &= previous < at || previous == -UVS_NEVER;
  if (next != UVS_NEVER && uvs_calendar_interval(c) == 0)
    right &= uvs_calendar_matches(c, next) == 1;
  uvs_calendar_release(c);
  return right ? 0 : INT_MIN;
}

static int e_calendar_list(void) {
  int rc;
  uvs_calendar_t *c = any_calendar(&rc);
  size_t n = PICK(size_t, 0, 1, 2, 50);
  uvs_occurrence_t *list = malloc(n * sizeof *list + 1);

  rc = uvs_calendar_list(c, any_ns(), any_ns(), chance(3) ? NULL : list, n);
  free(list);
  uvs_calendar_release(c);
  return rc > (int)n ? INT_MIN : rc;
}

static int e_calendar_refresh(void) {
  return uvs_calendar_refresh() <= uvs_calendar_refresh() ? 0 : INT_MIN;
}

static int e_parse_duration(void) {
  int64_t ns = -1;
  int rc = uvs_parse_duration(PICK(char *, "90s", "1h30m", "", "s", "99999999999w", "1m1h", NULL),
                              chance(5) ? NULL : &ns);

  return rc == 0 && ns < 0 ? INT_MIN : rc;
}

/* -------------------------------------------------------------------- table --- */

/* The codes that a function may return according to its comment in the header, besides success,
 * UV_EINVAL and, after shutdown or close, UV_ESHUTDOWN. */
#define MAX_CODES 6

enum {
  MOVES = 1, /* an error that is no UV_EINVAL may come after something has happened (a wait) */
  ENDS = 2   /* only at the end of a round */
};

struct entry {
  const char *name;
  int (*call)(void);
  unsigned flags;
  int codes[MAX_CODES];
};

static const struct entry table[] = {
    {"uvs_abandon", e_abandon, 0, {0}},
    {"uvs_add_cleanup", e_add_cleanup, 0, {UV_ENOENT}},
    {"uvs_after_shutdown", e_survive, 0, {0}},
    {"uvs_all", e_all, MOVES, {UV_ETIMEDOUT, UVS_EDEADLK, UV_ECANCELED, UV_ENOENT, UV_EAGAIN}},
    {"uvs_all_with",
     e_all_with,
     MOVES,
     {UV_ETIMEDOUT, UVS_EDEADLK, UV_ECANCELED, UV_ENOENT, UV_EAGAIN, UV_EINTR}},
    {"uvs_any", e_any, MOVES, {UV_ETIMEDOUT, UVS_EDEADLK, UV_ECANCELED, UV_ENOENT, UV_EAGAIN}},
    {"uvs_any_with",
     e_any_with,
     MOVES,
     {UV_ETIMEDOUT, UVS_EDEADLK, UV_ECANCELED, UV_ENOENT, UV_EAGAIN, UV_EINTR}},
    {"uvs_bucket_ns", e_bucket_ns, 0, {0}},
    {"uvs_calendar_interval", e_calendar_names, 0, {0}},
    {"uvs_calendar_list", e_calendar_list, 0, {UV_ENOTSUP}},
    {"uvs_calendar_matches", e_calendar_search, 0, {0}},
    {"uvs_calendar_next", e_calendar_search, 0, {0}},
    {"uvs_calendar_parse", e_calendar_parse, 0, {UV_ENOENT}},
    {"uvs_calendar_previous", e_calendar_search, 0, {0}},
    {"uvs_calendar_refresh", e_calendar_refresh, 0, {0}},
    {"uvs_calendar_release", e_calendar_retain, 0, {0}},
    {"uvs_calendar_retain", e_calendar_retain, 0, {0}},
    {"uvs_calendar_text", e_calendar_names, 0, {0}},
    {"uvs_calendar_zone", e_calendar_names, 0, {0}},
    {"uvs_cancel", e_cancel, 0, {UV_ENOENT, UV_EBUSY}},
    {"uvs_cancelled", e_cancelled, 0, {0}},
    {"uvs_check", e_check, 0, {0}},
    {"uvs_clock_changed", e_clock_changed, 0, {0}},
    {"uvs_close", e_close, 0, {UV_EPERM, UV_EALREADY}},
    {"uvs_complete", e_complete, 0, {UV_EBUSY, UV_ENOENT}},
    {"uvs_concurrency", e_concurrency, 0, {0}},
    {"uvs_counts", e_counts, 0, {0}},
    {"uvs_data", e_data, 0, {0}},
    {"uvs_dump", e_dump, 0, {0}},
    {"uvs_each", e_each, 0, {0}},
    {"uvs_each_lane", e_each_lane, 0, {0}},
    {"uvs_each_name", e_each_name, 0, {0}},
    {"uvs_each_step", e_each_step, 0, {0}},
    {"uvs_execute", e_execute, 0, {UV_EAGAIN}},
    {"uvs_find", e_find, 0, {UV_ENOENT}},
    {"uvs_finish", e_finish, 0, {UV_ENOENT}},
    {"uvs_forget", e_forget, 0, {UV_ENOENT}},
    {"uvs_has_ref", e_has_ref, 0, {UV_ENOENT}},
    {"uvs_histogram", e_histogram, 0, {0}},
    {"uvs_ignore_errors", e_ignore_errors, 0, {0}},
    {"uvs_info", e_info, 0, {UV_ENOENT}},
    {"uvs_inline_executor", e_inline_executor, 0, {0}},
    {"uvs_is_paused", e_is_paused, 0, {0}},
    {"uvs_is_shutdown", e_is_shutdown, 0, {0}},
    {"uvs_is_terminated", e_is_terminated, 0, {0}},
    {"uvs_is_terminating", e_is_terminating, 0, {0}},
    {"uvs_lane_add_cleanup", e_lane_add_cleanup, 0, {UV_ENOENT}},
    {"uvs_lane_cancel", e_lane_cancel, 0, {UV_ENOENT, UV_EBUSY}},
    {"uvs_lane_dispose", e_lane_dispose, 0, {UV_ENOENT}},
    {"uvs_lane_finish", e_lane_finish, 0, {UV_ENOENT}},
    {"uvs_lane_is_disposed", e_lane_is_disposed, 0, {UV_ENOENT}},
    {"uvs_lane_open", e_lane_open, 0, {0}},
    {"uvs_lane_reschedule", e_lane_reschedule, 0, {UV_ENOENT, UV_EBUSY}},
    {"uvs_lane_submit", e_lane_submit, 0, {UV_ENOENT, UV_ECANCELED, UV_EAGAIN}},
    {"uvs_late_name", e_late_name, 0, {0}},
    {"uvs_loop", e_loop, 0, {0}},
    {"uvs_name", e_name, 0, {0}},
    {"uvs_name_stats", e_name_stats, 0, {UV_ENOENT}},
    {"uvs_next_due", e_next_due, 0, {0}},
    {"uvs_next_runs", e_next_runs, 0, {UV_ENOENT}},
    {"uvs_now", e_now, 0, {0}},
    {"uvs_open", e_open, 0, {UV_ENOTSUP}},
    {"uvs_outcome_name", e_outcome_name, 0, {0}},
    {"uvs_owns_handle", e_owns_handle, 0, {0}},
    {"uvs_parse_duration", e_parse_duration, 0, {0}},
    {"uvs_pause", e_pause, 0, {UV_ENOENT, UV_EALREADY}},
    {"uvs_pause_all", e_pause_all, 0, {UV_EALREADY}},
    {"uvs_post", e_post, 0, {0}},
    {"uvs_quantile_ns", e_quantile, 0, {0}},
    {"uvs_queue_abandon", e_queue_abandon, 0, {0}},
    {"uvs_queue_clear", e_queue_clear, 0, {0}},
    {"uvs_queue_close", e_queue_close, 0, {0}},
    {"uvs_queue_consume", e_queue_consume, 0, {0}},
    {"uvs_queue_contains", e_queue_contains, 0, {0}},
    {"uvs_queue_drain", e_queue_drain, 0, {0}},
    {"uvs_queue_dump", e_queue_dump, 0, {0}},
    {"uvs_queue_each", e_queue_each, 0, {0}},
    {"uvs_queue_has_ref", e_queue_has_ref, 0, {0}},
    {"uvs_queue_open", e_queue_open, 0, {0}},
    {"uvs_queue_peek", e_queue_peek, 0, {UV_ENOENT}},
    {"uvs_queue_poll", e_queue_poll, 0, {UV_EAGAIN}},
    {"uvs_queue_poll_within", e_queue_poll_within, 0, {UV_ETIMEDOUT, UVS_EDEADLK}},
    {"uvs_queue_put", e_queue_put, 0, {0}},
    {"uvs_queue_put_at", e_queue_put_at, 0, {0}},
    {"uvs_queue_put_many", e_queue_put_many, 0, {0}},
    {"uvs_queue_ref", e_queue_ref, 0, {0}},
    {"uvs_queue_release", e_queue_retain, 0, {0}},
    {"uvs_queue_remove", e_queue_remove, 0, {UV_ENOENT}},
    {"uvs_queue_remove_value", e_queue_remove_value, 0, {UV_ENOENT}},
    {"uvs_queue_retain", e_queue_retain, 0, {0}},
    {"uvs_queue_scheduler", e_queue_scheduler, 0, {0}},
    {"uvs_queue_size", e_queue_size, 0, {0}},
    {"uvs_queue_take", e_queue_take, 0, {UV_EINTR, UVS_EDEADLK}},
    {"uvs_queue_unref", e_queue_unref, 0, {0}},
    {"uvs_ref", e_ref, 0, {UV_ENOENT}},
    {"uvs_rejection_handler", e_rejection_handler, 0, {0}},
    {"uvs_rejection_policy", e_rejection, 0, {0}},
    {"uvs_release", e_retain, 0, {0}},
    {"uvs_reschedule", e_reschedule, 0, {UV_ENOENT, UV_EBUSY}},
    {"uvs_resume", e_resume, 0, {UV_ENOENT, UV_EALREADY}},
    {"uvs_resume_all", e_resume_all, 0, {UV_EALREADY}},
    {"uvs_retain", e_retain, 0, {0}},
    {"uvs_run_now", e_run_now, 0, {UV_ENOENT, UV_EBUSY}},
    {"uvs_schedule", e_schedule, 0, {UV_EAGAIN}},
    {"uvs_schedule_at", e_at, 0, {UV_EAGAIN}},
    {"uvs_schedule_at_fixed_rate", e_rate, 0, {UV_EAGAIN}},
    {"uvs_schedule_cron", e_schedule_cron, 0, {UV_ENOENT, UV_EAGAIN}},
    {"uvs_schedule_with_fixed_delay", e_delay, 0, {UV_EAGAIN}},
    {"uvs_set_after_shutdown", e_set_survive, 0, {0}},
    {"uvs_set_concurrency", e_set_concurrency, 0, {0}},
    {"uvs_set_rejection_policy", e_set_rejection, 0, {0}},
    {"uvs_set_result", e_set_result, 0, {0}},
    {"uvs_shutdown", e_shutdown, ENDS, {0}},
    {"uvs_shutdown_now", e_shutdown_now, ENDS, {UV_EALREADY}},
    {"uvs_shutdown_within", e_shutdown_within, ENDS, {0}},
    {"uvs_state_name", e_state_name, 0, {0}},
    {"uvs_stats_write", e_stats_write, 0, {0}},
    {"uvs_stats_write_all", e_stats_write_all, 0, {0}},
    {"uvs_strerror", e_strerror, 0, {0}},
    {"uvs_submit", e_submit, 0, {UV_EAGAIN, UV_ECANCELED, UV_ENOENT}},
    {"uvs_submit_many", e_submit_many, 0, {UV_EAGAIN, UV_ECANCELED, UV_ENOENT}},
    {"uvs_threads_close", e_threads_close, 0, {0}},
    {"uvs_threads_executor", e_threads_executor, 0, {0}},
    {"uvs_threads_open", e_threads_open, 0, {0}},
    {"uvs_threads_resize", e_threads_resize, 0, {0}},
    {"uvs_threads_size", e_threads_size, 0, {0}},
    {"uvs_trace_close", e_trace_close, 0, {UV_ENOENT}},
    {"uvs_trace_open", e_trace_open, 0, {UV_EALREADY}},
    {"uvs_trace_runs", e_trace_runs, 0, {UV_ENOENT}},
    {"uvs_trace_write", e_trace_write, 0, {UV_ENOENT}},
    {"uvs_unref", e_unref, 0, {UV_ENOENT}},
    {"uvs_version", e_version, 0, {0}},
    {"uvs_version_string", e_version_string, 0, {0}},
    {"uvs_wait", e_wait, 0, {UV_ETIMEDOUT, UV_ENOENT, UVS_EDEADLK}},
    {"uvs_wait_terminated", e_await, 0, {UV_ETIMEDOUT, UVS_EDEADLK}},
    {"uvs_wait_terminated_with", e_await_with, 0, {UV_ETIMEDOUT, UVS_EDEADLK, UV_EINTR}},
    {"uvs_wait_with", e_wait_with, 0, {UV_ETIMEDOUT, UV_ENOENT, UVS_EDEADLK, UV_EINTR}},
};
#define ENTRIES (sizeof table / sizeof table[0])

/* The library's exports and the table's names are the same. Both are sorted. */
static void check_table(void) {
  char command[PATH_MAX + 64], line[256];
  size_t n = 0;
  Dl_info lib;
  FILE *nm;

  if (dladdr(dlsym(RTLD_DEFAULT, "uvs_open"), &lib) == 0)
    fail("where is the library?", 0);
  snprintf(command, sizeof command,
           "nm -D --defined-only '%s' | sed -n 's/.* T //p' | LC_ALL=C sort", lib.dli_fname);
  nm = popen(command, "r");
  while (nm != NULL && fgets(line, sizeof line, nm) != NULL) {
    line[strcspn(line, "\n@")] = '\0';
    if (strncmp(line, "uvs_", 4) != 0) /* a sanitizer's */
      continue;
    current = line;
    if (n == ENTRIES || strcmp(line, table[n].name) != 0)
      fail("exported, and not in the table here", (long long)n);
    n++;
  }
  if (nm == NULL || pclose(nm) != 0 || n != ENTRIES)
    fail("fewer are exported than the table has", (long long)n);
}

/* -------------------------------------------------------------------- calls --- */

static uint64_t calls, errors;

static uvs_counts_t counts_now(void) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  if (uvs_counts(w.s, &c) == 0 && c.submitted != c.completed + c.failed + c.cancelled +
                                                     c.timed_out + c.dropped + c.waiting + c.ready +
                                                     c.running)
    fail("the counts do not add up", (long long)c.submitted);
  return c;
}

static bool may_answer(const struct entry *e, int rc, bool ending) {
  if (rc >= 0 || rc == UV_EINVAL || (ending && rc == UV_ESHUTDOWN))
    return true;
  for (size_t i = 0; i < MAX_CODES; i++)
    if (e->codes[i] == rc)
      return true;
  return false;
}

static bool met[ENTRIES][MAX_CODES];

static const char *code_name(int rc) {
  return rc == UVS_EDEADLK ? "EDEADLK" : uv_err_name(rc);
}

static void note_code(const struct entry *e, int rc) {
  for (size_t i = 0; i < MAX_CODES; i++)
    if (e->codes[i] == rc)
      met[e - table][i] = true;
}

/* Lists codes that no call returned: paths that were not covered. */
static void tell_unmet(void) {
  printf("entries: not met this time:");
  for (size_t i = 0; i < ENTRIES; i++)
    for (size_t k = 0; k < MAX_CODES && table[i].codes[k] != 0; k++)
      if (!met[i][k])
        printf(" %s(%s)", table[i].name, code_name(table[i].codes[k]));
  printf("\n");
}

/* The state that an error must not change. Asking for the next deadline takes tasks from the inbox.
 * Other calls do that before their own work, too, and a shutdown or a disposed lane then ends these
 * tasks: that is not a change by the failed call. */
struct seen {
  int64_t next_due_ns;
  uvs_counts_t counts;
  uvs_info_t info[IDS];
  int queue_size;
};

static void look(struct seen *ret) {
  memset(ret, 0, sizeof *ret);
  current = "a look around";
  (void)uvs_next_due(w.s, &ret->next_due_ns); /* any code: it may be closed */
  ret->counts = counts_now();
  for (size_t i = 0; i < IDS; i++) {
    uvs_info_init(&ret->info[i]);
    if (uvs_info(w.s, w.id[i], &ret->info[i]) < 0)
      uvs_info_init(&ret->info[i]);
  }
  ret->queue_size = uvs_queue_size(w.q);
}

static void compare(struct seen *before, struct seen *after, int rc) {
  if (rc == UV_EAGAIN || rc == UV_ESHUTDOWN) /* a refusal is counted */
    after->counts.rejected = before->counts.rejected;
  if (after->counts.slots > before->counts.slots) /* room for what was refused: the next has it */
    after->counts.slots = before->counts.slots;
  for (size_t i = 1; i < sizeof after->counts / 8; i++) {
    uint64_t was, is;

    memcpy(&was, (char *)&before->counts + 8 * i, 8);
    memcpy(&is, (char *)&after->counts + 8 * i, 8);
    if (was != is) {
      fprintf(stderr, "count %zu was %llu and is %llu\n", i, (unsigned long long)was,
              (unsigned long long)is);
      fail("an error, and something has changed", rc);
    }
  }
  if (before->next_due_ns != after->next_due_ns)
    fail("an error, and something else is next", rc);
  if (memcmp(before->info, after->info, sizeof before->info) != 0)
    fail("an error, and a task has changed", rc);
  if (before->queue_size != after->queue_size)
    fail("an error, and the queue has changed", rc);
}

static void call(const struct entry *e, bool ending, bool gone) {
  static struct seen before, after;
  bool calm = chance(75); /* else the call may be the first to take in, and is asked for less */
  int rc;

  if (calm)
    look(&before);
  current = e->name;
  rc = e->call();
  calls++;
  if (gone && rc == UV_EPERM) /* the loop's thread is not told any more */
    rc = UV_ESHUTDOWN;
  if (!may_answer(e, rc, ending))
    fail("answers what its comment does not say", rc);
  counts_now();
  if (rc >= 0)
    return;
  note_code(e, rc);
  errors++;
  if (!calm || ((e->flags & MOVES) != 0 && rc != UV_EINVAL))
    return;
  look(&after);
  current = e->name;
  compare(&before, &after, rc);
}

static void turn(void) {
  current = "a turn of the loop";
  w.now_ns += PICK(int64_t, 0, 1, UVS_MS(1), UVS_SEC(3));
  uvs_clock_changed(w.s);
  uvs_clock_changed(w.other);
  uv_run(&w.loop, UV_RUN_NOWAIT);
  uv_run(&w.loop, UV_RUN_NOWAIT);
}

static void finish_pending(void) {
  for (size_t i = 0; i < w.pendings; i++)
    for (int k = 0; k < 2; k++) /* whose it is, a body in a lane is not told */
      uvs_finish(k == 0 ? w.s : w.other, w.pending[i], 0);
  w.pendings = 0;
}

static void open_world(void) {
  uvs_threads_options_t t;
  uvs_queue_options_t q;
  uvs_options_t o;

  memset(&w, 0, sizeof w);
  w.now_ns = UVS_SEC(1000);
  uvs_options_init(&o);
  o.concurrency = 0;
  o.max_pending = PICK(uint32_t, 0, 0, 40, 3);
  o.clock = (uvs_clock_t){world_ns, world_ns, NULL};
  o.data = &w;
  o.seed = rnd() | 1;
  uvs_threads_options_init(&t);
  t.threads = 1;
  uvs_queue_options_init(&q);
  q.hold = hold;
  q.drop = drop;
  if (uv_loop_init(&w.loop) != 0 || uvs_open(&w.loop, &o, &w.s) != 0 ||
      uvs_open(&w.loop, &o, &w.other) != 0 || uvs_lane_open(w.s, NULL, &w.lane) != 0 ||
      uvs_lane_open(w.other, NULL, &w.foreign) != 0 || uvs_queue_open(w.s, &q, &w.q) != 0 ||
      uvs_threads_open(&t, &w.threads) != 0)
    abort();
  turn();
}

static void round_of_calls(void) {
  open_world();
  for (size_t i = 0; i < CALLS + ENTRIES; i++) {
    const struct entry *e = &table[i < ENTRIES ? i : below(ENTRIES)];

    if ((e->flags & ENDS) == 0)
      call(e, false, false);
    if (chance(10))
      turn();
    if (w.pendings > 64)
      finish_pending();
  }

  /* The scheduler still works: a task that is due now runs. */
  current = "a plain task after all that";
  uvs_resume_all(w.s);
  uvs_set_rejection_policy(w.s, UVS_REJECT_CALLER_RUNS);
  uint64_t runs = counts_now().runs;
  if (uvs_execute(w.s, quick, NULL) != 0)
    fail("refused", 0);
  for (int i = 0; i < 1000 && counts_now().runs == runs; i++)
    turn();
  if (counts_now().runs == runs)
    fail("never ran", 0);

  for (size_t i = 0; i < CALLS; i++) {
    call(&table[below(ENTRIES)], true, false);
    if (chance(10))
      turn();
    if (w.pendings > 64)
      finish_pending();
  }

  current = "the end of a round";
  finish_pending();
  uvs_retain(w.s);
  uvs_retain(w.other);
  if (uvs_close(w.s, on_close) != 0 || uvs_close(w.other, on_close) != 0)
    fail("cannot be closed", 0);
  for (int i = 0; i < 1000 && (!w.closed || w.others_closed != w.others + 1); i++) {
    uv_run(&w.loop, UV_RUN_NOWAIT);
    finish_pending();
  }
  if (!w.closed)
    fail("does not close", 0);
  for (int i = 0; i < 1000 && uv_run(&w.loop, UV_RUN_NOWAIT) != 0; i++)
    uv_sleep(1);
  if (w.others_closed != w.others + 1)
    fail("schedulers that do not close", (long long)(w.others + 1 - w.others_closed));
  if (uv_loop_alive(&w.loop)) {
    uv_print_all_handles(&w.loop, stderr);
    fail("something keeps the loop alive", 0);
  }
  if (w.done != w.accepted)
    fail("not one `done` for each", (long long)(w.accepted - w.done));
  for (size_t i = 0; i < ENTRIES; i++) /* e_open would bring the loop back to life */
    if (table[i].call != e_open)
      call(&table[i], true, true);
  current = "the end of a round";
  if (uvs_queue_close(w.q) != 0 || uvs_threads_close(w.threads) != 0)
    fail("cannot be closed", 0);
  if (held != 0)
    fail("a value is still held", (int)held);
  uvs_release(w.s);
  uvs_release(w.other);
  if (uv_loop_close(&w.loop) != 0)
    fail("something is left on the loop", 0);
}

int main(int argc, char **argv) {
  const char *given = getenv("SEED");
  unsigned long rounds = 50;

  seed = given == NULL ? uv_hrtime() ^ (uint64_t)uv_os_getpid() << 32 : strtoull(given, NULL, 0);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0)
      seed = strtoull(argv[i + 1], NULL, 0);
    else if (strcmp(argv[i], "--rounds") == 0)
      rounds = strtoul(argv[i + 1], NULL, 0);
  }
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  printf("entries: --seed %llu\n", (unsigned long long)seed);
  state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
  if (state == 0)
    state = 1;
  nowhere = fopen("/dev/null", "w");
  if (nowhere == NULL)
    abort();
  check_table();
  for (unsigned long i = 0; i < rounds; i++)
    round_of_calls();
  tell_unmet();
  fclose(nowhere);
  printf("entries: %zu functions, %llu calls, %llu of them refused\n", ENTRIES,
         (unsigned long long)calls, (unsigned long long)errors);
  return 0;
}
