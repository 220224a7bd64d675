/* SPDX-License-Identifier: MIT
 *
 * The decorate hook: a task's body runs inside the wrapper that the hook returns.
 */
#include "lib/bodies.h"

#include <stdlib.h>
#include <string.h>

#define WRAPPERS 64

/* A wrapper as a user would write it: counts its calls, and calls the wrapped body with its arg. */
struct wrapper {
  uvs_work_cb work;
  void *arg;
  uvs_id_t id;
  int runs;
  int over;
};

static struct {
  struct wrapper made[WRAPPERS];
  int count;
  int over;
  void (*act)(uvs_t *s, uvs_id_t id);
} decorated;

static int run_wrapper(uvs_run_t *run) {
  struct wrapper *w = run->arg;
  uvs_run_t inner = *run;

  w->runs++;
  inner.arg = w->arg;
  return w->work(&inner);
}

static void wrapper_over(void *arg) {
  struct wrapper *w = arg;

  w->over = ++decorated.over;
}

static void wrap(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  struct wrapper *w = &decorated.made[decorated.count++ % WRAPPERS];

  *w = (struct wrapper){d->work, d->arg, id, 0, 0};
  d->work = run_wrapper;
  d->arg = w;
  d->release = wrapper_over;
  if (decorated.act != NULL)
    decorated.act(s, id);
}

static enum greatest_test_res open_decorated(struct fixture *f, int concurrency) {
  memset(&decorated, 0, sizeof decorated);
  fixture_init(f);
  f->options.concurrency = concurrency;
  f->hooks.decorate = wrap;
  CHECK_CALL(fixture_open_turned(f));
  PASS();
}

/* S60 */
TEST every_task_runs_in_its_wrapper_on_every_execution(void) {
  for (int concurrency = 0; concurrency < 3; concurrency++) {
    struct fixture f;

    CHECK_CALL(open_decorated(&f, concurrency));
    uvs_task_t once = fixture_once(&f, 'o', UVS_MS(10)),
               rate = fixture_rate(&f, 'r', 0, UVS_MS(10));
    uvs_task_t delay = fixture_delay(&f, 'd', 0, UVS_MS(10)), loop = fixture_loop_task(&f, 'l', 0);
    rate.max_runs = 5;
    delay.max_runs = 4;
    ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &delay, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &loop, NULL));
    ASSERT_RC(0, decorated.count); /* never inside a call */
    fixture_turn(&f);
    ASSERT_RC(4, decorated.count); /* once each, and not again when it is queued again */
    fixture_advance_ms(&f, 100);
    ASSERT_RC(4, decorated.count);
    ASSERT_RC(1, decorated.made[0].runs);
    ASSERT_RC(5, decorated.made[1].runs);
    ASSERT_RC(4, decorated.made[2].runs);
    ASSERT_RC(1, decorated.made[3].runs);
    ASSERT_U64(1, log_count(&f, EV_WORK, 'o')); /* and the body inside saw its own arg */
    ASSERT_U64(5, log_count(&f, EV_WORK, 'r'));
    ASSERT_U64(4, log_count(&f, EV_WORK, 'd'));
    ASSERT_U64(4, log_count(&f, EV_DONE, 0));
    ASSERT_RC(4, decorated.over); /* each wrapper hears of its end, once */
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S60 A task from another thread is wrapped when the loop takes it from the inbox. */
static void submit_from_thread(void *arg) {
  struct fixture *f = arg;
  uvs_task_t t = fixture_once(f, 't', 0);

  uvs_submit(f->s, &t, NULL);
}

TEST a_task_from_another_thread_is_wrapped_on_the_loop(void) {
  struct fixture f;
  uv_thread_t thread;

  CHECK_CALL(open_decorated(&f, 1));
  ASSERT_RC(0, uv_thread_create(&thread, submit_from_thread, &f));
  uv_thread_join(&thread);
  ASSERT_RC(0, decorated.count);
  fixture_turn(&f);
  ASSERT_RC(1, decorated.count);
  ASSERT_RC(1, decorated.made[0].runs);
  ASSERT_U64(1, log_count(&f, EV_DONE, 't'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S61 */
TEST a_wrapped_task_keeps_its_delay_order_period_and_cancel(void) {
  struct fixture f;
  uvs_id_t id, first, second;
  uvs_info_t info;

  CHECK_CALL(open_decorated(&f, 1));
  uvs_task_t far = fixture_rate(&f, 'f', UVS_MS(50), UVS_MS(20));
  uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10)), b = fixture_once(&f, 'b', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &far, &id));
  ASSERT_RC(0, uvs_submit(f.s, &a, &first));
  ASSERT_RC(0, uvs_submit(f.s, &b, &second));
  uvs_info_init(&info);
  ASSERT_RC(0, uvs_info(f.s, id, &info));
  ASSERT_I64(UVS_MS(50), info.remaining_ns);
  ASSERT_RC(UVS_FIXED_RATE, info.kind);
  ASSERT_I64(UVS_MS(20), info.period_ns);
  ASSERT(info.arg == far.arg); /* the original, not the wrapper's */
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, first, 0));
  ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, second, 0));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'f', 0)->status);
  ASSERT_RC(0, decorated.made[0].runs); /* never entered */
  ASSERT(decorated.made[0].over != 0);  /* but heard of its end */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S61 `done` is called only after the wrapper has run. */
static int slow_wrapper_runs;

static int slow_wrapper(uvs_run_t *run) {
  struct wrapper *w = run->arg;
  uvs_run_t inner = *run;
  int rc;

  inner.arg = w->arg;
  rc = w->work(&inner);
  slow_wrapper_runs++; /* after the inner body, before the end of the wrapper */
  return rc == 0 ? UV_EIO : rc;
}

static void wrap_slowly(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  wrap(s, id, d);
  d->work = slow_wrapper;
}

TEST the_answer_of_the_wrapper_is_the_outcome(void) {
  struct fixture f;

  memset(&decorated, 0, sizeof decorated);
  slow_wrapper_runs = 0;
  fixture_init(&f);
  f.hooks.decorate = wrap_slowly;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_RC(1, slow_wrapper_runs);
  ASSERT_RC(UV_EIO, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S61 */
TEST a_task_handed_back_by_shutdown_now_never_entered_its_wrapper(void) {
  struct fixture f;

  CHECK_CALL(open_decorated(&f, 1));
  for (char tag = 'a'; tag < 'f'; tag++) {
    uvs_task_t t = tag == 'c' ? fixture_rate(&f, tag, UVS_MS(10), UVS_MS(10))
                              : fixture_once(&f, tag, UVS_MS(10));
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_turn(&f);
  ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
  fixture_turn(&f);
  ASSERT_U64(5, log_count(&f, EV_DONE, 0));
  ASSERT_RC(5, decorated.count);
  for (int i = 0; i < 5; i++) {
    ASSERT_RC(0, decorated.made[i].runs);
    ASSERT(decorated.made[i].over != 0);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static void cancel_it(uvs_t *s, uvs_id_t id) {
  decorated.act = NULL;
  uvs_cancel(s, id, 0);
}

static void unref_it(uvs_t *s, uvs_id_t id) {
  decorated.act = NULL;
  uvs_unref(s, id);
}

static int count_run(uvs_run_t *run) {
  ++*(int *)run->arg;
  return 0;
}

static int runs_of_another;

static void execute_another(uvs_t *s, uvs_id_t id) {
  (void)id;
  decorated.act = NULL;
  uvs_execute(s, count_run, &runs_of_another);
}

/* S60 */
TEST the_decorate_hook_may_call_back_into_the_scheduler(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_decorated(&f, 1));
  decorated.act = cancel_it;
  uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &a, &id));
  fixture_turn(&f);
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);

  decorated.act = unref_it;
  uvs_task_t b = fixture_once(&f, 'b', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &b, &id));
  ASSERT_RC(1, uvs_has_ref(f.s, id));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_has_ref(f.s, id));
  ASSERT_RC(0, uv_run(&f.loop, UV_RUN_NOWAIT)); /* nothing keeps it alive */

  runs_of_another = 0;
  decorated.act = execute_another;
  uvs_task_t c = fixture_once(&f, 'c', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &c, &id));
  fixture_advance_ms(&f, 10);
  ASSERT_RC(1, runs_of_another);
  ASSERT_STR_EQ("bc", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static void no_body(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  (void)s;
  (void)id;
  d->work = NULL;
}

TEST a_decorate_hook_that_removes_the_body_changes_nothing(void) {
  struct fixture f;

  fixture_init(&f);
  f.hooks.decorate = no_body;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static unsigned unrefd;

static void unref_in_hook(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  (void)d;
  unrefd += uvs_unref(s, id) == 0;
}

/* S60. The hook calls the scheduler, which takes tasks from the inbox, which calls the hook. This
 * must not recurse once for each task in the inbox. */
TEST a_decorate_hook_that_calls_back_does_not_recurse_per_task(void) {
  enum { MANY = 60000 };
  struct fixture f;

  fixture_init(&f);
  f.hooks.decorate = unref_in_hook;
  CHECK_CALL(fixture_open(&f)); /* not turned: all of them go through the inbox */
  unrefd = 0;
  for (int i = 0; i < MANY; i++)
    ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), work_nothing, NULL, NULL));
  fixture_turn(&f);
  ASSERT_U64(MANY, unrefd);
  ASSERT_U64(MANY, counts_of(f.s).waiting);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(decorate) {
  RUN_TEST(a_decorate_hook_that_calls_back_does_not_recurse_per_task);
  RUN_TEST(every_task_runs_in_its_wrapper_on_every_execution);
  RUN_TEST(a_task_from_another_thread_is_wrapped_on_the_loop);
  RUN_TEST(a_wrapped_task_keeps_its_delay_order_period_and_cancel);
  RUN_TEST(the_answer_of_the_wrapper_is_the_outcome);
  RUN_TEST(a_task_handed_back_by_shutdown_now_never_entered_its_wrapper);
  RUN_TEST(the_decorate_hook_may_call_back_into_the_scheduler);
  RUN_TEST(a_decorate_hook_that_removes_the_body_changes_nothing);
}

TEST_MAIN(RUN_SUITE(decorate));
