/* SPDX-License-Identifier: MIT
 *
 * Submissions: batches racing shutdown, dispose and close; memory; the cap.
 */
#include "scenes.h"

#include <string.h>

#include "uvsched/lane.h"

#include "model.h"
#include "stage.h"

/* More than one critical section takes, and more than the first chunk of memory holds. */
#define MANY 70

static struct {
  uvs_task_t spec[MANY];
  uvs_id_t id[MANY];
  int runs[MANY], dones[MANY], never_ran[MANY];
  int cancelled; /* of the dones */
  int rc;
  size_t n;
  bool refusable; /* by a shutdown, a lane's end, or the cap */
  uvs_lane_t lane;
  int quiets;
} many;

static int index_of(const void *arg) {
  long i = (const uvs_task_t *)arg - many.spec;

  WEAVE_CHECK(i >= 0 && i < MANY);
  return (int)i;
}

static int body(uvs_run_t *run) {
  int i = index_of(run->arg);

  WEAVE_SAME(0, weave_locks());
  WEAVE_SAME(many.id[i], run->id);
  WEAVE_SAME(0, many.runs[i]++ + many.dones[i]);
  weave_here();
  return 0;
}

static void on_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  int i = index_of(arg);

  (void)s;
  WEAVE_SAME(0, weave_self());
  WEAVE_SAME(0, weave_locks());
  WEAVE_SAME(many.id[i], id);
  WEAVE_SAME(0, many.dones[i]++);
  WEAVE_SAME(many.runs[i] == 1 && status == 0, status != UV_ECANCELED);
  many.cancelled += status == UV_ECANCELED;
}

static void prepare(size_t n, int64_t delay_ns) {
  memset(&many, 0, sizeof many);
  many.n = n;
  many.rc = 1;
  for (size_t i = 0; i < n; i++) {
    uvs_task_init(&many.spec[i]);
    many.spec[i].work = body;
    many.spec[i].done = on_done;
    many.spec[i].arg = &many.spec[i];
    many.spec[i].first_ns = delay_ns;
  }
}

static void submit(void *arg) {
  (void)arg;
  many.rc = uvs_submit_many(stage.s, many.spec, many.n, many.id);
  WEAVE_CHECK(many.rc == 0 || (many.refusable && many.rc < 0));
}

static void submit_held(void *arg) {
  submit(arg);
  uvs_release(stage.s);
}

/* All or none. */
static void check_dones(void) {
  for (size_t i = 0; i < many.n; i++)
    WEAVE_SAME(many.rc == 0, many.dones[i]);
}

static void shut_down(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_shutdown(stage.s));
}

static void on_never_ran(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  (void)s;
  (void)task_arg;
  (void)arg;
  WEAVE_SAME(0, stage.all_came);
  if (id == 0) {
    stage.all_came++;
    return;
  }
  for (size_t i = 0; i < many.n; i++) {
    if (many.id[i] == id)
      WEAVE_SAME(0, many.never_ran[i]++ + many.dones[i]);
  }
}

static void shut_down_now(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_shutdown_now(stage.s, on_never_ran, NULL));
}

static void open_strict(void) {
  stage_init();
  stage.options.concurrency = 1;
  stage.options.delayed_after_shutdown = 0;
  stage_open_with(1);
}

static void end_terminated(void) {
  stage_play();
  WEAVE_CHECK(stage.terminated);
  check_dones();
  stage_close();
}

/* ---- many ---- */

/* Tasks that are not yet in their slots at the shutdown end, too. */
static void batch_meets_shutdown(void) {
  open_strict();
  prepare(MANY, UVS_MS(50));
  many.refusable = true;
  weave_spawn("submit", submit, NULL, false);
  weave_spawn("shutdown", shut_down, NULL, false);
  end_terminated();
  WEAVE_CHECK(many.rc < 0 || many.cancelled == MANY);
}

static void batch_meets_shutdown_now(void) {
  open_strict();
  prepare(MANY, UVS_MS(50));
  many.refusable = true;
  weave_spawn("submit", submit, NULL, false);
  weave_spawn("now", shut_down_now, NULL, false);
  end_terminated();
  WEAVE_SAME(1, stage.all_came);
  for (int i = 0; i < MANY; i++) /* each is handed back */
    WEAVE_SAME(many.rc == 0, many.never_ran[i]);
}

static void batch_meets_close(void) {
  stage_open(1);
  stage.on_their_way = true;
  prepare(MANY, UVS_MS(50));
  many.refusable = true;
  uvs_retain(stage.s);
  weave_spawn("submit", submit_held, NULL, false);
  stage_go();
  WEAVE_SAME(0, uvs_close(stage.s, stage_on_closed));
  stage_await_close();
  check_dones();
}

static bool is_known(const void *arg) {
  return *(const uvs_id_t *)arg != 0;
}

static void cancel_first(void *arg) {
  int rc;

  (void)arg;
  weave_sleep(is_known, &many.id[0], WEAVE_NEVER);
  rc = uvs_cancel(stage.s, many.id[0], 0);
  WEAVE_SAME(UVS_CANCELLED, rc);
}

static void cancel_last(void *arg) {
  (void)arg;
  weave_sleep(is_known, &many.id[MANY - 1], WEAVE_NEVER);
  WEAVE_SAME(UVS_CANCELLED, uvs_cancel(stage.s, many.id[MANY - 1], 0));
}

/* Between two batches. The remaining tasks are cancelled at the end. */
static void batch_meets_cancel(void) {
  open_strict();
  prepare(MANY, UVS_MS(50));
  weave_spawn("submit", submit, NULL, false);
  weave_spawn("first", cancel_first, NULL, false);
  weave_spawn("last", cancel_last, NULL, false);
  stage_go();
  while (weave_unfinished() != NULL)
    WEAVE_CHECK(model_turn());
  WEAVE_SAME(0, uvs_shutdown(stage.s));
  end_terminated();
}

static void count_thrice(void *arg) {
  (void)arg;
  for (int i = 0; i < 3; i++)
    stage_check_counts();
}

static void batch_meets_counts(void) {
  open_strict();
  prepare(MANY, UVS_MS(50));
  many.refusable = true;
  weave_spawn("submit", submit, NULL, false);
  weave_spawn("count", count_thrice, NULL, false);
  weave_spawn("shutdown", shut_down, NULL, false);
  end_terminated();
}

/* Only the last task wakes the loop. */
static void last_of_a_batch_is_the_nearest(void) {
  stage_open(1);
  prepare(3, UVS_MS(50));
  many.spec[2].first_ns = UVS_MS(2);
  many.spec[0].flags = many.spec[1].flags = UVS_UNREF;
  weave_spawn("submit", submit, NULL, false);
  stage_go();
  while (many.dones[2] == 0)
    WEAVE_CHECK(model_turn());
  WEAVE_CHECK(weave_now_ns <= UINT64_C(1003000000));
  stage_play();
  check_dones();
  stage_close();
}

static void batch_runs_during_submission(void) {
  stage_open(2);
  prepare(3, 0);
  weave_spawn("submit", submit, NULL, false);
  stage_play();
  check_dones();
  stage_close();
}

/* ---- lanes ---- */

static void on_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s;
  (void)lane;
  (void)arg;
  WEAVE_SAME(0, many.quiets++);
  for (size_t i = 0; i < many.n; i++) /* nothing comes after it, and its tasks come before it */
    WEAVE_CHECK(many.id[i] == 0 || many.spec[i].lane == 0 || many.dones[i] == 1);
}

static void open_lane(void) {
  uvs_lane_options_t o;

  uvs_lane_options_init(&o);
  o.on_quiet = on_quiet;
  WEAVE_SAME(0, uvs_lane_open(stage.s, &o, &many.lane));
}

static void dispose(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_lane_dispose(many.lane, 0));
}

static void end_of_lane(void) {
  stage_play();
  check_dones();
  WEAVE_SAME(1, many.quiets);
  stage_close();
}

/* The lane is disposed when some tasks are in it and others are not. */
static void dispose_meets_batch(void) {
  stage_open(1);
  prepare(66, UVS_MS(50));
  many.refusable = true;
  open_lane();
  many.spec[0].lane = many.spec[65].lane = many.lane;
  weave_spawn("submit", submit, NULL, false);
  weave_spawn("dispose", dispose, NULL, false);
  end_of_lane();
}

static void cancel_65th(void *arg) {
  int rc = uvs_cancel(stage.s, many.id[64], 0);

  (void)arg;
  WEAVE_CHECK(rc == UVS_CANCELLED || rc == UV_ENOENT);
}

/* Cancelling all takes two batches: 64 tasks, and one that another strand cancels. */
static void dispose_of_many_tasks(void) {
  stage_open(1);
  prepare(65, UVS_MS(50));
  open_lane();
  for (int i = 0; i < 65; i++)
    many.spec[i].lane = many.lane;
  submit(NULL);
  while (model_sleeps_until() == 0)
    WEAVE_CHECK(model_turn());
  weave_spawn("dispose", dispose, NULL, false);
  weave_spawn("cancel", cancel_65th, NULL, false);
  end_of_lane();
  WEAVE_SAME(65, many.cancelled);
}

static void sleep_3ms(uvs_run_t *run, struct part *p) {
  (void)run;
  (void)p;
  stage_sleep_ms(3);
}

/* The only runner is busy. None of the tasks starts between the batches. */
static void dispose_of_ready_ones(int waiting) {
  stage_open(1);
  prepare(MANY, 0);
  open_lane();
  for (int i = 0; i < MANY; i++) {
    many.spec[i].lane = many.lane;
    many.spec[i].first_ns = i < waiting ? UVS_MS(50) : 0;
  }
  stage_part('x')->act = sleep_3ms;
  stage_submit(&stage.parts[0]);
  while (stage.parts[0].runs == 0) {
    WEAVE_CHECK(model_turn());
    weave_yield();
  }
  submit(NULL);
  weave_spawn("dispose", dispose, NULL, false);
  end_of_lane();
}

static void dispose_of_many_ready_tasks(void) {
  dispose_of_ready_ones(0);
}

/* The lane's next task is in the second batch. */
static void dispose_of_the_last_ready_task(void) {
  dispose_of_ready_ones(MANY - 1);
}

/* The only runner is in the first body and has the next task in hand: nothing more starts. */
static void dispose_of_many_tasks_meets_run(void) {
  stage_open(1);
  prepare(3, 0);
  open_lane();
  for (int i = 0; i < 3; i++)
    many.spec[i].lane = many.lane;
  submit(NULL);
  weave_spawn("dispose", dispose, NULL, false);
  end_of_lane();
}

/* ---- memory ---- */

#define SOME 66 /* it takes two batches, and two groups more than the first piece */

static uvs_id_t ids[2][SOME];

static void submit_some(void *arg) {
  uvs_task_t t[SOME];
  uvs_id_t *id = arg;

  for (int i = 0; i < SOME; i++) {
    t[i] = many.spec[0];
    t[i].done = NULL;
    t[i].name = id == ids[1] ? "with an extra record" : NULL;
  }
  many.rc = uvs_submit_many(stage.s, t, SOME, id);
  WEAVE_CHECK(many.rc == 0 || (many.refusable && many.rc == UV_ENOMEM));
  if (many.rc < 0)
    memset(id, 0, sizeof ids[0]);
}

static void check_ids(void) {
  for (int i = 0; i < 2 * SOME; i++) {
    for (int k = i + 1; k < 2 * SOME; k++) {
      uvs_id_t a = ids[i / SOME][i % SOME];

      WEAVE_CHECK(a == 0 || a != ids[k / SOME][k % SOME]);
    }
  }
}

static void end_of_some(void) {
  uvs_counts_t c;

  stage_go();
  while (weave_unfinished() != NULL)
    weave_yield();
  weave_calm(true);
  check_ids();
  uvs_counts_init(&c);
  WEAVE_SAME(0, uvs_counts(stage.s, &c));
  WEAVE_SAME((ids[0][0] != 0 ? SOME : 0) + (ids[1][0] != 0 ? SOME : 0), c.waiting);
  WEAVE_SAME(0, uvs_shutdown_now(stage.s, NULL, NULL));
  stage_play();
  stage_close();
}

/* Both need the same chunk of memory. */
static void two_threads_grow_the_table(void) {
  stage_open(1);
  prepare(1, UVS_NEVER);
  memset(ids, 0, sizeof ids);
  weave_spawn("one", submit_some, ids[0], false);
  weave_spawn("two", submit_some, ids[1], false);
  end_of_some();
}

static uvs_allocator_t memory;
static int scarce; /* number of allocations that succeed */

static void *alloc_slowly(size_t size, void *arg) {
  (void)arg;
  if (weave_is_calm())
    return memory.alloc(size, memory.arg);
  weave_here();
  return scarce-- > 0 ? memory.alloc(size, memory.arg) : NULL;
}

/* One gets no memory and submits nothing. The other has what it needs, or not. */
static void two_threads_grow_with_little_memory(void) {
  stage_init();
  memory = stage.options.allocator;
  stage.options.allocator.alloc = alloc_slowly;
  stage.options.concurrency = 1;
  stage_open_with(1);
  prepare(1, UVS_NEVER);
  many.refusable = true;
  memset(ids, 0, sizeof ids);
  scarce = 2;
  weave_spawn("one", submit_some, ids[0], false);
  weave_spawn("two", submit_some, ids[1], false);
  end_of_some();
}

/* ---- the cap ---- */

static void open_capped(int rejection, unsigned max) {
  stage_init();
  stage.options.concurrency = 1;
  stage.options.max_pending = max;
  stage.options.rejection_policy = rejection;
  stage_open_with(1);
}

static void check_cap(void *arg) {
  for (int i = 0; i < 3; i++) {
    uvs_counts_t c;

    uvs_counts_init(&c);
    WEAVE_SAME(0, uvs_counts(stage.s, &c));
    WEAVE_CHECK(c.waiting + c.ready + c.running <= *(uint64_t *)arg);
  }
}

static void submit_maybe(void *arg) {
  struct part *p = arg;

  p->others_cancel = true;
  stage_submit(p);
  WEAVE_CHECK(p->rc == 0 || p->rc == UV_EAGAIN);
}

static void batch_meets_the_cap(void) {
  static uint64_t cap = 3;

  open_capped(UVS_REJECT_ABORT, 3);
  prepare(3, 0);
  many.refusable = true;
  weave_spawn("submit", submit, NULL, false);
  weave_spawn("other", submit_maybe, stage_part('a'), false);
  weave_spawn("check", check_cap, &cap, false);
  stage_play();
  check_dones();
  WEAVE_CHECK(many.rc == 0 || stage.parts[0].rc == 0);
  stage_close();
}

/* The oldest task is ready, or a runner has just taken it. */
static void oldest_meets_its_runner(void) {
  open_capped(UVS_REJECT_DISCARD_OLDEST, 2);
  submit_maybe(stage_part('a'));
  submit_maybe(stage_part('b'));
  weave_spawn("c", submit_maybe, stage_part('c'), false);
  weave_spawn("count", count_thrice, NULL, false);
  stage_play();
  for (int i = 0; i < 3; i++)
    WEAVE_SAME(0, stage.parts[i].rc);
  WEAVE_CHECK(stage.parts[0].runs + stage.parts[1].runs >= 1);
  WEAVE_SAME(1, stage.parts[2].runs);
  stage_close();
}

/* Only running tasks are left, so the new task is dropped. */
static void two_submissions_drop_the_oldest(void) {
  open_capped(UVS_REJECT_DISCARD_OLDEST, 1);
  submit_maybe(stage_part('a'));
  weave_spawn("b", submit_maybe, stage_part('b'), false);
  weave_spawn("c", submit_maybe, stage_part('c'), false);
  stage_play();
  for (int i = 0; i < 3; i++)
    WEAVE_SAME(0, stage.parts[i].rc);
  stage_close();
}

static void caller_runs_meets_runners(void) {
  open_capped(UVS_REJECT_CALLER_RUNS, 1);
  submit_maybe(stage_part('a'));
  weave_spawn("b", submit_maybe, stage_part('b'), false);
  weave_spawn("c", submit_maybe, stage_part('c'), false);
  weave_spawn("count", count_thrice, NULL, false);
  stage_play();
  for (int i = 0; i < 3; i++)
    WEAVE_SAME(1, stage.parts[i].runs);
  stage_close();
}

const struct weave_scene scenes_submit[] = {
    {"submit", "batch-meets-shutdown", batch_meets_shutdown},
    {"submit", "batch-meets-shutdown-now", batch_meets_shutdown_now},
    {"submit", "batch-meets-close", batch_meets_close},
    {"submit", "batch-meets-cancel", batch_meets_cancel},
    {"submit", "batch-meets-counts", batch_meets_counts},
    {"submit", "last-of-a-batch-is-the-nearest", last_of_a_batch_is_the_nearest},
    {"submit", "batch-runs-during-submission", batch_runs_during_submission},
    {"submit", "dispose-meets-batch", dispose_meets_batch},
    {"submit", "dispose-of-many-tasks", dispose_of_many_tasks},
    {"submit", "dispose-of-many-ready-tasks", dispose_of_many_ready_tasks},
    {"submit", "dispose-of-the-last-ready-task", dispose_of_the_last_ready_task},
    {"submit", "dispose-of-many-tasks-meets-run", dispose_of_many_tasks_meets_run},
    {"submit", "two-threads-grow-the-table", two_threads_grow_the_table},
    {"submit", "two-threads-grow-with-little-memory", two_threads_grow_with_little_memory},
    {"submit", "batch-meets-the-cap", batch_meets_the_cap},
    {"submit", "oldest-meets-its-runner", oldest_meets_its_runner},
    {"submit", "two-submissions-drop-the-oldest", two_submissions_drop_the_oldest},
    {"submit", "caller-runs-meets-runners", caller_runs_meets_runners},
    {NULL, NULL, NULL},
};
