/* SPDX-License-Identifier: MIT
 *
 * The ways to an end: orderly and immediate shutdown, what survives them, termination, close, and
 * those who wait for it. What races a shutdown is in test_race.c.
 */
#include <stdlib.h>

#include "lib/fixture.h"

#define PATIENCE_NS UVS_SEC(20) /* real time, for waits that end much sooner unless broken */

/* ----------------------------------------------------------------- helpers --- */

static uvs_counts_t counts_of(uvs_t *s) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  if (uvs_counts(s, &c) < 0)
    memset(&c, 0xff, sizeof c);
  return c;
}

static bool adds_up(const uvs_counts_t *c) {
  return c->submitted ==
         c->completed + c->failed + c->cancelled + c->waiting + c->ready + c->running;
}

static int state_of(uvs_t *s, uvs_id_t id) {
  uvs_info_t info;
  int rc;

  uvs_info_init(&info);
  rc = uvs_info(s, id, &info);
  return rc < 0 ? rc : info.state;
}

/* Every accepted task of the log has had one `done`, and nothing came after it. */
static bool one_done_and_last(struct fixture *f, int tag) {
  uvs_id_t id = log_nth(f, EV_DONE, tag, 0)->id;

  if (log_count(f, EV_DONE, tag) != 1 || id == 0)
    return false;
  for (unsigned i = 0, seen = 0; i < log_total(f); i++) {
    const struct event *e = log_nth(f, (enum event_kind)0, 0, i);
    if (e->tag == tag && seen > 0)
      return false;
    seen += e->tag == tag && e->what == EV_DONE;
  }
  return true;
}

/* Something that another thread does while we wait for it. */
struct errand {
  int (*run)(void *arg);
  void *arg;
  int rc;
};

static void errand_main(void *arg) {
  struct errand *e = arg;

  e->rc = e->run(e->arg);
}

static int elsewhere(int (*run)(void *arg), void *arg) {
  struct errand e = {run, arg, UV_EAGAIN};
  uv_thread_t thread;

  if (uv_thread_create(&thread, errand_main, &e) < 0)
    return UV_EAGAIN;
  uv_thread_join(&thread);
  return e.rc;
}

static int do_shutdown(void *s) {
  return uvs_shutdown(s);
}

static int do_shutdown_now(void *s) {
  return uvs_shutdown_now(s, probe_never_ran, NULL);
}

static int do_shutdown_now_quietly(void *s) {
  return uvs_shutdown_now(s, NULL, NULL);
}

static int do_shutdown_within(void *s) {
  return uvs_shutdown_within(s, UVS_SEC(1));
}

static int do_look(void *s) {
  return uvs_await(s, 0);
}

static void mine_closed(uvs_t *s) {
  struct fixture *f = uvs_data(s);

  log_add(f, EV_USER, 'C', 0, uvs_is_terminated(s));
  f->closed = true;
}

/* Bodies that stay inside until they are let go, or until they are asked to stop. On a real pool.
 */
struct gate {
  uv_mutex_t lock;
  uv_cond_t cond;
  int let_go; /* so many may still leave */
  int inside, peak;
  bool stop_ends; /* the token opens it too */
  bool made;
};

static struct gate gate;

static void gate_init(bool stop_ends) {
  if (!gate.made) {
    uv_mutex_init(&gate.lock);
    uv_cond_init(&gate.cond);
    gate.made = true;
  }
  gate.let_go = gate.inside = gate.peak = 0;
  gate.stop_ends = stop_ends;
}

static void gate_let(int n) {
  uv_mutex_lock(&gate.lock);
  gate.let_go += n;
  uv_cond_broadcast(&gate.cond);
  uv_mutex_unlock(&gate.lock);
}

static int gate_inside(void) {
  int n;

  uv_mutex_lock(&gate.lock);
  n = gate.inside;
  uv_mutex_unlock(&gate.lock);
  return n;
}

static int gate_peak(void) {
  int n;

  uv_mutex_lock(&gate.lock);
  n = gate.peak;
  gate.peak = gate.inside;
  uv_mutex_unlock(&gate.lock);
  return n;
}

/* For a probe's `act`. The answer is the probe's `ret`. */
static int gate_pass(struct probe *p, uvs_run_t *run) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;
  int rc = p->ret;

  uvs_clock_changed(run->scheduler); /* the test may be waiting for us in its loop */
  uv_mutex_lock(&gate.lock);
  if (++gate.inside > gate.peak)
    gate.peak = gate.inside;
  uv_cond_broadcast(&gate.cond);
  while (gate.let_go == 0 && !(gate.stop_ends && uvs_cancelled(run))) {
    if ((int64_t)uv_hrtime() > end_ns) {
      rc = UV_ETIMEDOUT;
      gate.let_go++;
      break;
    }
    /* Nobody signals a token: look now and then. */
    uv_cond_timedwait(&gate.cond, &gate.lock, (uint64_t)UVS_MS(1));
  }
  if (gate.let_go > 0)
    gate.let_go--;
  gate.inside--;
  uv_mutex_unlock(&gate.lock);
  return rc;
}

/* -------------------------------------------------------------- state asked --- */

/* S30 */
TEST is_shut_down_turns_true_with_the_call_itself(void) {
  static int (*const ways[])(void *) = {do_shutdown, do_shutdown_within, do_shutdown_now,
                                        do_shutdown_now_quietly};
  struct fixture f;

  for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
    for (int off_loop = 0; off_loop < 2; off_loop++) {
      fixture_init(&f);
      CHECK_CALL(fixture_open(&f));
      fixture_turn(&f);
      ASSERT_RC(0, uvs_is_shutdown(f.s));
      ASSERT_RC(0, uvs_is_terminating(f.s));
      ASSERT_RC(0, off_loop ? elsewhere(ways[way], f.s) : ways[way](f.s));
      ASSERT_RC(1, uvs_is_shutdown(f.s));
      ASSERT_RC(UV_ESHUTDOWN, uvs_execute(f.s, probe_work, fixture_probe(&f, 'x')));
      fixture_turn(&f);
      ASSERT_RC(1, uvs_is_shutdown(f.s));
      ASSERT_STR_EQ("t", log_string(&f, 0));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

static int say_states(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, 's', run->id, uvs_is_shutdown(run->scheduler));
  log_add(p->f, EV_USER, 'i', run->id, uvs_is_terminating(run->scheduler));
  log_add(p->f, EV_USER, 'd', run->id, uvs_is_terminated(run->scheduler));
  return 0;
}

static int shut_and_say_states(struct probe *p, uvs_run_t *run) {
  say_states(p, run);
  uvs_shutdown(run->scheduler);
  return say_states(p, run);
}

/* S31 S32 */
TEST terminating_lasts_from_shutdown_to_the_end_of_the_last_body(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  probe_of(&t)->act = shut_and_say_states;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_is_terminating(f.s));
  ASSERT_RC(0, uvs_is_terminated(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("sidsid", log_string(&f, EV_USER));
  for (unsigned i = 0; i < 3; i++)
    ASSERT_RC(0, log_nth(&f, EV_USER, 0, i)->status);
  ASSERT_RC(1, log_nth(&f, EV_USER, 's', 1)->status);
  ASSERT_RC(1, log_nth(&f, EV_USER, 'i', 1)->status);
  ASSERT_RC(0, log_nth(&f, EV_USER, 'd', 1)->status);
  ASSERT_RC(1, uvs_is_shutdown(f.s));
  ASSERT_RC(0, uvs_is_terminating(f.s));
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S31 S32 S42 */
TEST a_pending_run_keeps_the_scheduler_from_termination(void) {
  struct fixture f;
  uvs_id_t id;

  for (int now = 0; now < 2; now++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    probe_of(&t)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_RC(0, now ? do_shutdown_now(f.s) : do_shutdown(f.s));
    fixture_turn(&f);
    fixture_advance_ns(&f, UVS_HOUR(1));
    ASSERT_RC(1, uvs_is_terminating(f.s));
    ASSERT_RC(0, uvs_is_terminated(f.s));
    ASSERT_RC(UVS_RUNNING, state_of(f.s, id));
    ASSERT_RC(UV_ETIMEDOUT, elsewhere(do_look, f.s));
    ASSERT_RC(0, uvs_finish(f.s, id, UV_EIO));
    ASSERT_RC(0, uvs_is_terminated(f.s)); /* its `done` is still to come */
    fixture_turn(&f);
    ASSERT_RC(UV_EIO, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_RC(0, uvs_is_terminating(f.s));
    ASSERT_RC(1, uvs_is_terminated(f.s));
    ASSERT_RC(0, elsewhere(do_look, f.s));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* -------------------------------------------------------- immediate shutdown --- */

/* S33 S42 S43 */
TEST immediate_shutdown_hands_back_what_has_not_started_and_lets_the_rest_finish(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open(&f));
  gate_init(true);
  for (int tag = 'a'; tag <= 'e'; tag++) { /* two run, three are ready */
    uvs_task_t t = fixture_once(&f, tag, 0);
    probe_of(&t)->act = gate_pass;
    probe_of(&t)->ret = tag == 'b' ? UV_EIO : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  uvs_task_t later = fixture_once(&f, 'g', UVS_MS(20));
  uvs_task_t sooner = fixture_rate(&f, 'f', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &later, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &sooner, NULL));
  ASSERT(fixture_wait_log(&f, EV_WORK, 0, 2));
  ASSERT_U64(3, counts_of(f.s).ready);
  ASSERT_RC(0, elsewhere(do_shutdown_now, f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_STR_EQ("cdefg", log_string(&f, EV_NEVER_RAN));
  ASSERT_U64(2, log_count(&f, EV_WORK, 0)); /* they saw their token, or we would still wait */
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_RC(UV_EIO, log_nth(&f, EV_DONE, 'b', 0)->status);
  for (int tag = 'c'; tag <= 'g'; tag++)
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, tag, 0)->status);
  for (int tag = 'a'; tag <= 'g'; tag++)
    ASSERT(one_done_and_last(&f, tag));
  uvs_counts_t c = counts_of(f.s);
  ASSERT_U64(1, c.completed);
  ASSERT_U64(1, c.failed);
  ASSERT_U64(5, c.cancelled);
  ASSERT_U64(2, c.runs);
  ASSERT_U64(0, c.waiting + c.ready + c.running);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S33 */
TEST the_queue_is_empty_before_a_running_body_of_an_immediate_shutdown_has_ended(void) {
  struct fixture f;
  uvs_id_t running;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t a = fixture_once(&f, 'a', 0);
  uvs_task_t b = fixture_once(&f, 'b', UVS_MS(10));
  uvs_task_t c = fixture_delay(&f, 'c', UVS_NEVER, UVS_MS(1));
  probe_of(&a)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &a, &running));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
  fixture_turn(&f);
  ASSERT_RC(0, do_shutdown_now(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("bc", log_string(&f, EV_NEVER_RAN));
  ASSERT_STR_EQ("bc", log_string(&f, EV_DONE));
  uvs_counts_t n = counts_of(f.s);
  ASSERT_U64(0, n.waiting + n.ready);
  ASSERT_U64(1, n.running);
  ASSERT_U64(2, n.cancelled);
  ASSERT_I64(-1, fixture_next_ms(&f));
  ASSERT_RC(0, uvs_finish(f.s, running, 0));
  fixture_turn(&f);
  ASSERT_U64(1, counts_of(f.s).completed);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S34 S33 */
TEST delayed_and_periodic_tasks_are_all_handed_back_and_end_cancelled(void) {
  struct fixture f;
  int off_loop;

  for (off_loop = 0; off_loop < 2; off_loop++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t specs[] = {
        fixture_once(&f, 'd', UVS_MS(40)),
        fixture_rate(&f, 'b', UVS_MS(20), UVS_MS(1)),
        fixture_delay(&f, 'c', UVS_MS(30), UVS_MS(1)),
        fixture_loop_task(&f, 'a', UVS_MS(10)),
        fixture_once(&f, 'w', VCLOCK_WALL_NS + UVS_MS(5)),
        fixture_once(&f, 'n', UVS_NEVER),
    };
    specs[4].from = UVS_FROM_WALL;
    for (unsigned i = 0; i < 6; i++)
      ASSERT_RC(0, uvs_submit(f.s, &specs[i], NULL));
    fixture_turn(&f);
    ASSERT_RC(0, off_loop ? elsewhere(do_shutdown_now, f.s) : do_shutdown_now(f.s));
    ASSERT_U64(0, log_total(&f)); /* never from inside a call */
    fixture_turn(&f);
    /* By deadline; those of the other clock and the "never" ones behind. */
    ASSERT_STR_EQ("abcdwn", log_string(&f, EV_NEVER_RAN));
    ASSERT_U64(6, log_count(&f, EV_DONE, 0));
    for (unsigned i = 0; i < 6; i++) {
      int tag = probe_of(&specs[i])->tag;
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, tag, 0)->status);
      ASSERT(log_nth(&f, EV_NEVER_RAN, tag, 0)->on_loop);
      ASSERT_U64(log_nth(&f, EV_DONE, tag, 0)->id, log_nth(&f, EV_NEVER_RAN, tag, 0)->id);
      ASSERT(one_done_and_last(&f, tag));
    }
    ASSERT_U64(0, log_count(&f, EV_WORK, 0) + log_count(&f, EV_AFTER, 0));
    fixture_advance_ns(&f, UVS_HOUR(1));
    ASSERT_U64(13, log_total(&f));
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int submit_spec(void *arg) {
  void **both = arg;

  return uvs_submit(both[0], both[1], NULL);
}

/* S33 S34 */
TEST tasks_that_the_loop_has_not_yet_seen_are_handed_back_too(void) {
  struct fixture f;

  for (int turned = 0; turned < 2; turned++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    if (turned)
      fixture_turn(&f);
    uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
    uvs_task_t b = fixture_rate(&f, 'b', 0, UVS_MS(10));
    uvs_task_t c = fixture_once(&f, 'c', 0);
    void *submissions[][2] = {{f.s, &a}, {f.s, &b}, {f.s, &c}};
    for (int i = 0; i < 3; i++)
      ASSERT_RC(0, elsewhere(submit_spec, submissions[i]));
    ASSERT_RC(0, do_shutdown_now(f.s));
    fixture_turn(&f);
    ASSERT_U64(0, log_count(&f, EV_WORK, 0));
    ASSERT_U64(3, log_count(&f, EV_DONE, 0));
    for (int tag = 'a'; tag <= 'c'; tag++) {
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, tag, 0)->status);
      ASSERT_U64(1, log_count(&f, EV_NEVER_RAN, tag));
    }
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S33 */
TEST a_task_that_has_run_is_not_handed_back(void) {
  struct fixture f;
  uvs_id_t cancelled;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t ran = fixture_rate(&f, 'r', 0, UVS_MS(10));
  uvs_task_t not_yet = fixture_rate(&f, 'n', UVS_MS(5), UVS_MS(10));
  uvs_task_t gone = fixture_once(&f, 'g', UVS_MS(5));
  ASSERT_RC(0, uvs_submit(f.s, &ran, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &not_yet, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &gone, &cancelled));
  fixture_turn(&f);
  ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, cancelled, 0)); /* its owner has taken it back itself */
  ASSERT_RC(0, do_shutdown_now(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("r", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("n", log_string(&f, EV_NEVER_RAN));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'r', 0)->status);
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'n', 0)->status);
  ASSERT_U64(3, log_count(&f, EV_DONE, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S33 */
TEST only_the_first_immediate_shutdown_hands_back(void) {
  struct fixture f;

  for (int first = 0; first < 2; first++) { /* with and without a callback of its own */
    for (int turn = 0; turn < 2; turn++) {
      fixture_init(&f);
      CHECK_CALL(fixture_open(&f));
      uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
      ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
      fixture_turn(&f);
      ASSERT_RC(0, first ? do_shutdown_now(f.s) : do_shutdown_now_quietly(f.s));
      if (turn)
        fixture_turn(&f);
      ASSERT_RC(UV_EALREADY, do_shutdown_now(f.s));
      ASSERT_RC(UV_EALREADY, elsewhere(do_shutdown_now, f.s));
      ASSERT_RC(0, uvs_shutdown(f.s)); /* any number of times */
      fixture_turn(&f);
      ASSERT_U64((unsigned)first, log_count(&f, EV_NEVER_RAN, 0));
      ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
      ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* S33 S35 */
TEST immediate_shutdown_overtakes_an_orderly_one(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.survive_periodic = 1;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
  uvs_task_t b = fixture_rate(&f, 'b', 0, UVS_MS(4));
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_advance_ms(&f, 9);
  ASSERT_STR_EQ("0 4 8", log_runs(&f, EV_WORK, 'b'));
  ASSERT_RC(0, do_shutdown_now(f.s));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("bbb", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("a", log_string(&f, EV_NEVER_RAN));
  ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S33 S34 */
TEST what_sits_ready_in_the_hands_of_the_pool_is_handed_back(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fakepool_hold();
  uvs_task_t a = fixture_once(&f, 'a', 0);
  uvs_task_t b = fixture_rate(&f, 'b', 0, UVS_MS(1));
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_turn(&f);
  ASSERT_U64(2, counts_of(f.s).ready);
  ASSERT(fakepool_pending() > 0);
  ASSERT_RC(0, do_shutdown_now(f.s));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_WORK, 0));
  ASSERT_STR_EQ("ab", log_string(&f, EV_NEVER_RAN));
  ASSERT_U64(2, log_count(&f, EV_DONE, 0));
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* --------------------------------------------------------- orderly shutdown --- */

/* S35 */
TEST by_default_delayed_tasks_survive_shutdown_and_periodic_ones_do_not(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t once = fixture_once(&f, 'o', UVS_MS(50));
  uvs_task_t rate = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10));
  uvs_task_t delay = fixture_delay(&f, 'd', UVS_MS(10), UVS_MS(10));
  uvs_task_t gone = fixture_once(&f, 'c', UVS_MS(20));
  uvs_task_t wall = fixture_once(&f, 'w', VCLOCK_WALL_NS + UVS_MS(60));
  wall.from = UVS_FROM_WALL;
  ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &delay, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &wall, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &gone, &id));
  fixture_turn(&f);
  ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, id, 0));
  ASSERT_U64(4, counts_of(f.s).waiting); /* at once */
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_U64(2, counts_of(f.s).waiting);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'r'));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'd'));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'r', 0)->status);
  fixture_advance_ms(&f, 200);
  ASSERT_STR_EQ("ow", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("50", log_runs(&f, EV_WORK, 'o'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'o', 0)->status);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'w', 0)->status);
  ASSERT_I64(60, fixture_ms(&f, log_nth(&f, EV_TERMINATED, 0, 0)->time_ns));
  ASSERT_U64(0, log_count(&f, EV_NEVER_RAN, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S36 */
TEST survive_policies_read_back_before_and_after_shutdown(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(1, uvs_survive(f.s, UVS_SURVIVE_DELAYED));
  ASSERT_RC(0, uvs_survive(f.s, UVS_SURVIVE_PERIODIC));
  for (int after = 0; after < 2; after++) {
    for (int which = UVS_SURVIVE_DELAYED; which <= UVS_SURVIVE_PERIODIC; which++) {
      int other = uvs_survive(f.s, 1 - which);
      for (int on = 1; on >= 0; on--) {
        ASSERT_RC(0, uvs_set_survive(f.s, which, on));
        ASSERT_RC(on, uvs_survive(f.s, which));
        ASSERT_RC(other, uvs_survive(f.s, 1 - which));
      }
      ASSERT_RC(0, uvs_set_survive(f.s, which, 1));
    }
    ASSERT_RC(UV_EINVAL, uvs_survive(f.s, 2));
    ASSERT_RC(UV_EINVAL, uvs_survive(f.s, -1));
    ASSERT_RC(UV_EINVAL, uvs_set_survive(f.s, 2, 1));
    ASSERT_RC(1, uvs_survive(f.s, UVS_SURVIVE_DELAYED));
    ASSERT_RC(0, uvs_shutdown(f.s));
    fixture_turn(&f);
  }
  CHECK_CALL(fixture_close(&f));

  fixture_init(&f);
  f.options.survive_delayed = 0;
  f.options.survive_periodic = 1;
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(0, uvs_survive(f.s, UVS_SURVIVE_DELAYED));
  ASSERT_RC(1, uvs_survive(f.s, UVS_SURVIVE_PERIODIC));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int periodic_off(void *s) {
  return uvs_set_survive(s, UVS_SURVIVE_PERIODIC, 0);
}

static int delayed_off(void *s) {
  return uvs_set_survive(s, UVS_SURVIVE_DELAYED, 0);
}

/* S36 */
TEST a_policy_switched_off_after_shutdown_acts_at_once(void) {
  struct fixture f;

  for (int off_loop = 0; off_loop < 2; off_loop++) {
    fixture_init(&f);
    f.options.survive_periodic = 1;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t once = fixture_once(&f, 'o', UVS_HOUR(1));
    uvs_task_t never = fixture_once(&f, 'n', UVS_NEVER);
    uvs_task_t rate = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10));
    ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &never, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
    ASSERT_RC(0, uvs_shutdown(f.s));
    fixture_advance_ms(&f, 25);
    ASSERT_STR_EQ("10 20", log_runs(&f, EV_WORK, 'r'));
    ASSERT_RC(0, off_loop ? elsewhere(periodic_off, f.s) : periodic_off(f.s));
    fixture_turn(&f);
    ASSERT_STR_EQ("r", log_string(&f, EV_DONE));
    ASSERT_U64(2, counts_of(f.s).waiting);
    ASSERT_RC(0, uvs_is_terminated(f.s));
    ASSERT_RC(0, off_loop ? elsewhere(delayed_off, f.s) : delayed_off(f.s));
    fixture_turn(&f);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    for (int i = 0; i < 3; i++)
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, "ron"[i], 0)->status);
    ASSERT_STR_EQ("rr", log_string(&f, EV_WORK));
    ASSERT_I64(25, fixture_now_ms(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S36 */
TEST a_policy_switched_before_shutdown_waits_for_it(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t once = fixture_once(&f, 'o', UVS_MS(50));
  uvs_task_t rate = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
  fixture_turn(&f);
  ASSERT_RC(0, delayed_off(f.s));
  ASSERT_RC(0, uvs_set_survive(f.s, UVS_SURVIVE_PERIODIC, 1));
  fixture_advance_ms(&f, 15);
  ASSERT_U64(2, counts_of(f.s).waiting);
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("o", log_string(&f, EV_DONE));
  ASSERT_STR_EQ("10 20", log_runs(&f, EV_WORK, 'r'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S37 */
TEST without_delayed_survive_what_is_not_yet_due_leaves_the_queue_at_shutdown(void) {
  struct fixture f;

  for (int seen = 0; seen < 2; seen++) { /* by the loop, or still on its way there */
    fixture_init(&f);
    f.options.survive_delayed = 0;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t specs[] = {
        fixture_once(&f, 'a', UVS_MS(1)),
        fixture_loop_task(&f, 'b', UVS_MS(50)),
        fixture_once(&f, 'c', UVS_NEVER),
        fixture_once(&f, 'd', VCLOCK_WALL_NS + 1),
    };
    specs[3].from = UVS_FROM_WALL;
    for (int i = 0; i < 4; i++)
      ASSERT_RC(0, uvs_submit(f.s, &specs[i], NULL));
    if (seen)
      fixture_turn(&f);
    ASSERT_RC(0, uvs_shutdown(f.s));
    fixture_turn(&f);
    ASSERT_U64(0, counts_of(f.s).waiting);
    ASSERT_U64(4, counts_of(f.s).cancelled);
    for (int tag = 'a'; tag <= 'd'; tag++)
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, tag, 0)->status);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    fixture_advance_ms(&f, 100);
    ASSERT_U64(0, log_count(&f, EV_WORK, 0) + log_count(&f, EV_AFTER, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S38 */
TEST a_one_shot_already_due_at_shutdown_runs_whatever_the_policies_say(void) {
  struct fixture f;

  for (int seen = 0; seen < 2; seen++) {
    fixture_init(&f);
    f.options.survive_delayed = 0;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t now = fixture_once(&f, 'n', 0);
    uvs_task_t just = fixture_once(&f, 'j', UVS_MS(10));
    uvs_task_t loop = fixture_loop_task(&f, 'l', UVS_MS(10));
    uvs_task_t wall = fixture_once(&f, 'w', VCLOCK_WALL_NS + UVS_MS(10));
    uvs_task_t not = fixture_once(&f, 'x', UVS_MS(10) + 1);
    wall.from = UVS_FROM_WALL;
    fakepool_hold();
    ASSERT_RC(0, uvs_submit(f.s, &just, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &loop, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &wall, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &not, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &now, NULL));
    if (seen)
      fixture_turn(&f);
    vclock_advance_ns(&f.clock, UVS_MS(10)); /* due, though nobody has looked at the clock */
    ASSERT_RC(0, uvs_shutdown(f.s));
    vclock_advance_ns(&f.clock, UVS_MS(10)); /* what became due since then was not */
    fakepool_release();
    fixture_turn(&f);
    ASSERT_U64(3, log_count(&f, EV_WORK, 0));
    ASSERT_U64(0, log_count(&f, EV_WORK, 'x'));
    ASSERT_U64(1, log_count(&f, EV_AFTER, 'l'));
    for (int i = 0; i < 4; i++)
      ASSERT_RC(0, log_nth(&f, EV_DONE, "njlw"[i], 0)->status);
    ASSERT_U64(5, log_count(&f, EV_DONE, 0));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'x', 0)->status);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int shut_and_look(struct probe *p, uvs_run_t *run) {
  uvs_info_t info;

  uvs_shutdown(run->scheduler);
  uvs_info_init(&info);
  if (uvs_info(run->scheduler, run->id, &info) == 0)
    log_add(p->f, EV_USER, info.cancelled ? 'c' : 'n', run->id, info.state);
  return run->number > 1 ? p->ret : 0;
}

/* S39 S42 */
TEST a_periodic_task_in_the_middle_of_a_run_finishes_it_and_ends_cancelled(void) {
  struct fixture f;

  for (int kind = UVS_RATE; kind <= UVS_DELAY; kind++) {
    for (int concurrency = 0; concurrency < 2; concurrency++) {
      fixture_init(&f);
      f.options.concurrency = concurrency;
      CHECK_CALL(fixture_open(&f));
      uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
      uvs_task_t queued = fixture_rate(&f, 'q', UVS_MS(5), UVS_MS(10));
      t.kind = kind;
      t.after = probe_after;
      probe_of(&t)->act = shut_and_look;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      ASSERT_RC(0, uvs_submit(f.s, &queued, NULL));
      fixture_turn(&f);
      ASSERT_STR_EQ("n", log_string(&f, EV_USER)); /* not over, not cancelled, and still running */
      ASSERT_RC(UVS_RUNNING, log_nth(&f, EV_USER, 'n', 0)->status);
      ASSERT_U64(1, log_count(&f, EV_AFTER, 'a'));
      ASSERT_RC(0, log_nth(&f, EV_AFTER, 'a', 0)->status);
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'q', 0)->status);
      ASSERT_RC(1, uvs_is_terminated(f.s));
      fixture_advance_ms(&f, 100);
      ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
      ASSERT_U64(2, counts_of(f.s).cancelled);
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* S39 */
TEST queued_periodic_tasks_end_at_once_while_another_one_is_still_running(void) {
  struct fixture f;
  uvs_id_t running;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t a = fixture_delay(&f, 'a', 0, UVS_MS(10));
  uvs_task_t b = fixture_delay(&f, 'b', 0, UVS_MS(10));
  probe_of(&a)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &a, &running));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("b", log_string(&f, EV_DONE));
  ASSERT_RC(UVS_RUNNING, state_of(f.s, running));
  ASSERT_RC(0, uvs_finish(f.s, running, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("ba", log_string(&f, EV_DONE));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S39 S41 S42 */
TEST the_last_run_of_a_periodic_task_may_still_fail_or_stop_it(void) {
  static const int rets[] = {UV_EIO, UVS_STOP};
  static const int outcomes[] = {UV_EIO, 0};
  struct fixture f;
  uvs_id_t id;

  for (int i = 0; i < 2; i++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
    probe_of(&t)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_shutdown(f.s));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_finish(f.s, id, rets[i]));
    fixture_turn(&f);
    ASSERT_RC(outcomes[i], log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(i == 0, log_count(&f, EV_ERROR, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S40 */
TEST surviving_periodic_tasks_go_on_until_the_last_one_is_cancelled(void) {
  struct fixture f;
  uvs_id_t ids[3];

  fixture_init(&f);
  f.options.survive_periodic = 1;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t specs[] = {
      fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10)),
      fixture_delay(&f, 'b', UVS_MS(10), UVS_MS(20)),
      fixture_rate(&f, 'c', UVS_MS(10), UVS_MS(50)),
  };
  probe_of(&specs[2])->ret = UVS_STOP;
  probe_of(&specs[2])->ret_from = 3;
  for (int i = 0; i < 3; i++)
    ASSERT_RC(0, uvs_submit(f.s, &specs[i], &ids[i]));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_advance_ms(&f, 45);
  ASSERT_STR_EQ("10 20 30 40", log_runs(&f, EV_WORK, 'a'));
  ASSERT_STR_EQ("10 30", log_runs(&f, EV_WORK, 'b'));
  for (int i = 0; i < 3; i++)
    ASSERT_RC(UVS_WAITING, state_of(f.s, ids[i]));
  ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, ids[0], 0));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
  ASSERT_STR_EQ("10 30 50", log_runs(&f, EV_WORK, 'b'));
  ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, ids[1], 0));
  fixture_advance_ms(&f, 45);
  ASSERT_STR_EQ("10 60", log_runs(&f, EV_WORK, 'c'));
  ASSERT_RC(0, uvs_is_terminated(f.s));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("10 60 110", log_runs(&f, EV_WORK, 'c'));
  ASSERT_STR_EQ("abc", log_string(&f, EV_DONE));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'c', 0)->status);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  ASSERT_I64(110, fixture_ms(&f, log_nth(&f, EV_TERMINATED, 0, 0)->time_ns));
  ASSERT_STR_EQ("10 20 30 40", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int shut_in_body(struct probe *p, uvs_run_t *run) {
  uvs_shutdown(run->scheduler);
  return p->ret;
}

/* S42 */
TEST a_body_that_runs_at_shutdown_delivers_its_result(void) {
  static const int rets[] = {0, UV_EIO, UVS_STOP, 77};
  static const int outcomes[] = {0, UV_EIO, 0, UV_EINVAL};
  struct fixture f;

  for (int i = 0; i < 4; i++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    t.after = probe_after;
    probe_of(&t)->act = shut_in_body;
    probe_of(&t)->ret = rets[i];
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_RC(outcomes[i], log_nth(&f, EV_AFTER, 'a', 0)->status);
    ASSERT_RC(outcomes[i], log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(outcomes[i] < 0, log_count(&f, EV_ERROR, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int count_one(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s;
  (void)info;
  ++*(int *)arg;
  return 0;
}

/* Logs what is left when it is called: tasks known, waiting + ready + running. */
static void look_when_terminated(uvs_t *s) {
  struct fixture *f = uvs_data(s);
  uvs_counts_t c = counts_of(s);
  int left = 0;

  uvs_each(s, count_one, &left);
  left += (int)(c.waiting + c.ready + c.running + c.runners);
  log_add(f, EV_TERMINATED, adds_up(&c) && uvs_is_terminated(s) == 1 ? 't' : '!', 0, left);
}

/* S43 S44 S56 */
TEST at_termination_nothing_is_left_and_every_done_was_called(void) {
  struct fixture f;
  uint64_t random = test_seed;
  int tasks = 0;

  fixture_init(&f);
  f.pool = FAKEPOOL_SEEDED;
  f.options.terminated = look_when_terminated;
  f.options.concurrency = 3;
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < 100; i++) {
    uvs_id_t id;
    int64_t delay_ns = (int64_t)test_random_below(&random, 30) * UVS_MS(1);
    uvs_task_t t = i % 3 == 0   ? fixture_rate(&f, 'A' + i % 26, delay_ns, UVS_MS(7))
                   : i % 3 == 1 ? fixture_loop_task(&f, 'A' + i % 26, delay_ns)
                                : fixture_once(&f, 'A' + i % 26, delay_ns);
    probe_of(&t)->ret = i % 7 == 0 ? UV_EIO : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    tasks++;
    if (i % 5 == 0)
      ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, id, 0));
    if (i % 10 == 0)
      fixture_advance_ms(&f, 1);
  }
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_advance_ms(&f, 100);
  ASSERT_U64(1, log_count(&f, EV_TERMINATED, 't'));
  ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
  ASSERT_RC(0, log_nth(&f, EV_TERMINATED, 't', 0)->status);
  ASSERT_U64((unsigned)tasks, log_count(&f, EV_DONE, 0));
  /* It was the last thing that was said. */
  ASSERT_RC(EV_TERMINATED, log_nth(&f, (enum event_kind)0, 0, log_total(&f) - 1)->what);
  uvs_counts_t c = counts_of(f.s);
  ASSERT_U64((unsigned)tasks, c.submitted);
  ASSERT_U64((unsigned)tasks, c.completed + c.failed + c.cancelled);
  ASSERT_U64(log_count(&f, EV_WORK, 0) + log_count(&f, EV_AFTER, 0), c.runs);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S44 S35 S37 S40 */
TEST the_number_of_runs_is_exact_for_each_combination_of_policies(void) {
  struct fixture f;

  for (int delayed = 0; delayed < 2; delayed++) {
    for (int periodic = 0; periodic < 2; periodic++) {
      for (int way = 0; way < 3; way++) { /* orderly, with a grace of 50 ms, immediate */
        for (int concurrency = 0; concurrency < 3; concurrency++) {
          unsigned late_once = way == 2 ? 0 : delayed && way == 0 ? 10 : delayed ? 5 : 0;
          unsigned late_rate = way == 2 || !periodic ? 0 : way == 0 ? 10 : 5;
          fixture_init(&f);
          f.options.concurrency = concurrency;
          f.options.survive_delayed = delayed;
          f.options.survive_periodic = periodic;
          CHECK_CALL(fixture_open(&f));
          /* Before the shutdown at 25 ms three one-shots and 2 runs are due, and 100 ms follow. */
          for (int i = 0; i < 13; i++) {
            uvs_task_t o = fixture_once(&f, 'o', i < 3 ? UVS_MS(5 * i) : UVS_MS(10 * i));
            ASSERT_RC(0, uvs_submit(f.s, &o, NULL));
          }
          uvs_task_t r = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10));
          uvs_task_t d = fixture_delay(&f, 'd', UVS_MS(10), UVS_MS(10));
          ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
          ASSERT_RC(0, uvs_submit(f.s, &d, NULL));
          fixture_advance_ms(&f, 25);
          ASSERT_RC(0, way == 0   ? uvs_shutdown(f.s)
                       : way == 1 ? uvs_shutdown_within(f.s, UVS_MS(50))
                                  : do_shutdown_now(f.s));
          fixture_advance_ms(&f, 100);
          ASSERT_U64(3 + late_once, log_count(&f, EV_WORK, 'o'));
          ASSERT_U64(2 + late_rate, log_count(&f, EV_WORK, 'r'));
          ASSERT_U64(2 + late_rate, log_count(&f, EV_WORK, 'd'));
          ASSERT_U64(13, log_count(&f, EV_DONE, 'o'));
          ASSERT_U64(log_count(&f, EV_WORK, 0), counts_of(f.s).runs);
          ASSERT_RC(periodic && way == 0 ? 0 : 1, uvs_is_terminated(f.s));
          CHECK_CALL(fixture_close(&f));
        }
      }
    }
  }
  PASS();
}

/* ---------------------------------------------------------------- the grace --- */

static int within(struct fixture *f, int64_t grace_ns) {
  return uvs_shutdown_within(f->s, grace_ns);
}

/* S33 S35 */
TEST when_the_grace_is_over_the_rest_is_cancelled(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.survive_periodic = 1;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t in_time = fixture_once(&f, 'i', UVS_MS(99));
  uvs_task_t too_late = fixture_once(&f, 'l', UVS_MS(101));
  uvs_task_t rate = fixture_rate(&f, 'r', 0, UVS_MS(60));
  uvs_task_t pending = fixture_once(&f, 'p', 0);
  probe_of(&pending)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &in_time, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &too_late, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &pending, &id));
  ASSERT_RC(0, within(&f, UVS_MS(100)));
  fixture_advance_ns(&f, UVS_MS(100) - 1);
  ASSERT_STR_EQ("i", log_string(&f, EV_DONE));
  ASSERT_I64(100, fixture_next_ms(&f));
  fixture_advance_ns(&f, 1);
  ASSERT_U64(3, log_count(&f, EV_DONE, 0));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'l', 0)->status);
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'r', 0)->status);
  ASSERT_RC(UVS_RUNNING, state_of(f.s, id));
  ASSERT_RC(0, uvs_is_terminated(f.s));
  fixture_advance_ms(&f, 100); /* the loop sleeps meanwhile, or this turn would not end */
  ASSERT_FALSE(f.overrun);
  ASSERT_I64(-1, fixture_next_ms(&f));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'p', 0)->status);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S42 */
TEST a_body_sees_its_token_when_the_grace_is_over(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open(&f));
  gate_init(true);
  uvs_task_t t = fixture_once(&f, 'a', 0);
  probe_of(&t)->act = gate_pass;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(fixture_wait_log(&f, EV_WORK, 'a', 1));
  ASSERT_RC(0, within(&f, UVS_MS(100)));
  fixture_jump_ms(&f, 99);
  ASSERT_U64(0, log_count(&f, EV_DONE, 'a'));
  fixture_jump_ms(&f, 1);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S35 */
TEST the_nearest_of_several_graces_counts(void) {
  static const int64_t graces[][3] = {{50, 20, 80}, {20, 50, 80}, {80, 50, 20}, {20, 20, 20}};
  struct fixture f;

  for (int i = 0; i < 4; i++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(200));
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    for (int k = 0; k < 3; k++)
      ASSERT_RC(0, within(&f, UVS_MS(graces[i][k])));
    ASSERT_RC(0, within(&f, UVS_NEVER));
    fixture_advance_ms(&f, 19);
    ASSERT_U64(0, log_total(&f));
    fixture_advance_ms(&f, 1);
    ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S35 S42 */
TEST a_grace_that_is_not_needed_changes_nothing(void) {
  static const int64_t graces[] = {UVS_MS(100), UVS_NEVER, UVS_NEVER - 1};
  struct fixture f;

  for (int i = 0; i < 3; i++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(20));
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT_RC(0, within(&f, graces[i]));
    fixture_advance_ms(&f, 20);
    ASSERT_STR_EQ("20", log_runs(&f, EV_WORK, 'a'));
    ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    fixture_advance_ms(&f, 200);
    ASSERT_U64(3, log_total(&f));
    ASSERT_FALSE(f.overrun);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S33 */
TEST a_grace_of_zero_or_less_is_over_at_once(void) {
  static const int64_t graces[] = {0, -1, INT64_MIN};
  struct fixture f;

  for (int i = 0; i < 3; i++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(20));
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_RC(0, within(&f, graces[i]));
    fixture_turn(&f);
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    ASSERT_FALSE(f.overrun);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ---------------------------------------------------------------- afterwards --- */

/* S55 S29 */
TEST scheduling_and_cancelling_without_end_stays_in_constant_memory(void) {
  enum { WARM = 2000, PAIRS = 1000000 };
  struct fixture f;
  long peak = 0;
  uint64_t slots = 0;
  uvs_task_t t;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  uvs_task_init(&t);
  t.work = probe_work;
  t.delay_ns = UVS_DAY(365);
  for (int i = 0; i < PAIRS; i++) {
    ASSERT_EQ(0, uvs_submit(f.s, &t, &id));
    ASSERT_EQ(UVS_NEVER_RUNS, uvs_cancel(f.s, id, 0));
    if (i == WARM) {
      fixture_turn(&f);
      peak = atomic_load(&f.fault.peak_bytes);
      slots = counts_of(f.s).slots;
    }
  }
  ASSERT_U64((uint64_t)peak, atomic_load(&f.fault.peak_bytes));
  ASSERT_U64(slots, counts_of(f.s).slots);
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  uvs_counts_t c = counts_of(f.s);
  ASSERT_U64(PAIRS, c.submitted);
  ASSERT_U64(PAIRS, c.cancelled);
  ASSERT(adds_up(&c));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct churn {
  uvs_t *s;
  int pairs;
};

static int churn_far_tasks(void *arg) {
  struct churn *m = arg;
  uvs_id_t id;
  int rc = 0;

  for (int i = 0; i < m->pairs && rc == 0; i++) {
    rc = uvs_schedule(m->s, UVS_DAY(365), probe_work, NULL, &id);
    if (rc == 0)
      rc = uvs_cancel(m->s, id, 0);
  }
  return rc;
}

/* S55 S59 */
TEST pairs_from_another_thread_give_their_room_back_with_the_next_turn(void) {
  struct fixture f;
  uint64_t slots = 0;
  long peak = 0;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  struct churn m = {f.s, 1000};
  for (int i = 0; i < 100; i++) {
    ASSERT_RC(0, elsewhere(churn_far_tasks, &m));
    fixture_turn(&f);
    if (i == 8) { /* each thread may use another stripe of the free list: let them all have some */
      slots = counts_of(f.s).slots;
      peak = atomic_load(&f.fault.peak_bytes);
    }
  }
  ASSERT(counts_of(f.s).slots <= 2 * slots);
  ASSERT(atomic_load(&f.fault.peak_bytes) <= 3 * peak);
  ASSERT_U64(100000, counts_of(f.s).cancelled);
  ASSERT_U64(0, counts_of(f.s).waiting);
  ASSERT_I64(-1, fixture_next_ms(&f));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S56 S12 */
TEST after_termination_all_is_zero_and_new_work_is_refused(void) {
  struct fixture f;
  uvs_id_t id = 4711;

  for (int now = 0; now < 2; now++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t a = fixture_once(&f, 'a', 0);
    uvs_task_t b = fixture_once(&f, 'b', 0);
    uvs_task_t c = fixture_rate(&f, 'c', 0, UVS_MS(10));
    probe_of(&b)->ret = UV_EIO;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
    fixture_turn(&f);
    ASSERT_RC(0, now ? do_shutdown_now(f.s) : do_shutdown(f.s));
    fixture_turn(&f);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    ASSERT_RC(0, uvs_is_terminating(f.s));
    ASSERT_RC(0, elsewhere(do_look, f.s));
    uvs_counts_t n = counts_of(f.s);
    ASSERT_U64(0, n.waiting + n.ready + n.running + n.runners);
    ASSERT_U64(3, n.submitted);
    ASSERT_U64(1, n.completed);
    ASSERT_U64(1, n.failed);
    ASSERT_U64(1, n.cancelled);
    ASSERT_U64(1, n.peak_runners);
    ASSERT_I64(-1, fixture_next_ms(&f));
    struct probe *p = fixture_probe(&f, 'x');
    ASSERT_RC(UV_ESHUTDOWN, uvs_submit(f.s, &a, &id));
    ASSERT_RC(UV_ESHUTDOWN, uvs_submit_many(f.s, &a, 1, &id));
    ASSERT_RC(UV_ESHUTDOWN, uvs_execute(f.s, probe_work, p));
    ASSERT_RC(UV_ESHUTDOWN, uvs_schedule(f.s, 1, probe_work, p, &id));
    ASSERT_RC(UV_ESHUTDOWN, uvs_schedule_at_fixed_rate(f.s, 1, 1, probe_work, p, &id));
    ASSERT_RC(UV_ESHUTDOWN, uvs_schedule_with_fixed_delay(f.s, 1, 1, probe_work, p, &id));
    ASSERT_RC(UV_ESHUTDOWN, uvs_schedule_at(f.s, 1, probe_work, p, &id));
    ASSERT_U64(4711, id);
    ASSERT_U64(7, counts_of(f.s).rejected);
    ASSERT_U64(3, counts_of(f.s).submitted);
    ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, log_nth(&f, EV_DONE, 'a', 0)->id, 0));
    fixture_advance_ms(&f, 100);
    ASSERT_U64(0, log_count(&f, 0, 'x'));
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int await_end(void *s) {
  return uvs_await(s, UVS_NEVER);
}

/* S59 */
TEST a_cancelled_task_is_released_although_threads_wait_for_the_scheduler(void) {
  struct fixture f;
  struct errand waiter;
  uv_thread_t thread;
  uvs_id_t id, again;
  uint64_t slots;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  waiter = (struct errand){await_end, f.s, UV_EAGAIN};
  ASSERT_RC(0, uv_thread_create(&thread, errand_main, &waiter));
  uvs_task_t t = fixture_once(&f, 'a', UVS_DAY(1));
  t.name = "with a cold record";
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  slots = counts_of(f.s).slots;
  for (int i = 0; i < 1000; i++) {
    ASSERT_EQ(UVS_NEVER_RUNS, uvs_cancel(f.s, id, 0));
    fixture_turn(&f); /* `done`: the last touch of arg, and the slot is free again */
    ASSERT_EQ(UV_ENOENT, state_of(f.s, id));
    ASSERT_EQ(0, uvs_submit(f.s, &t, &again));
    ASSERT(again != id);
    id = again;
  }
  ASSERT_U64(1000, log_count(&f, EV_DONE, 'a'));
  ASSERT_U64(slots, counts_of(f.s).slots);
  ASSERT_RC(0, do_shutdown_now_quietly(f.s));
  fixture_turn(&f);
  uv_thread_join(&thread);
  ASSERT_RC(0, waiter.rc);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* --------------------------------------------------------------- concurrency --- */

static bool wait_inside(struct fixture *f, int n) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;

  while (gate_inside() != n) {
    if ((int64_t)uv_hrtime() > end_ns)
      return false;
    fixture_turn(f);
    uv_mutex_lock(&gate.lock);
    if (gate.inside != n)
      uv_cond_timedwait(&gate.cond, &gate.lock, (uint64_t)UVS_MS(1));
    uv_mutex_unlock(&gate.lock);
  }
  return true;
}

/* S67 S25 */
TEST raising_and_lowering_the_concurrency_takes_effect(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open(&f));
  gate_init(false);
  for (int i = 0; i < 12; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, 0);
    probe_of(&t)->act = gate_pass;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  ASSERT(wait_inside(&f, 1));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_WORK, 0));
  ASSERT_U64(11, counts_of(f.s).ready);

  ASSERT_RC(0, uvs_set_concurrency(f.s, 3)); /* nobody had to end for that */
  ASSERT_RC(3, uvs_concurrency(f.s));
  ASSERT(wait_inside(&f, 3));
  ASSERT_U64(3, log_count(&f, EV_WORK, 0));
  ASSERT_U64(3, counts_of(f.s).runners);

  ASSERT_RC(0, uvs_set_concurrency(f.s, 1)); /* who is inside stays; then one at a time */
  gate_let(2);
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 2));
  ASSERT(wait_inside(&f, 1));
  gate_peak();
  gate_let(4);
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 6));
  ASSERT(wait_inside(&f, 1));
  ASSERT_RC(1, gate_peak());
  ASSERT_U64(7, log_count(&f, EV_WORK, 0));
  ASSERT_U64(3, counts_of(f.s).peak_runners);

  ASSERT_RC(0, uvs_set_concurrency(f.s, 0)); /* what is ready moves to the loop */
  gate_let(6);
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 12));
  for (int i = 7; i < 12; i++)
    ASSERT_RC(UVS_ON_LOOP, log_nth(&f, EV_WORK, 'a' + i, 0)->runner);
  ASSERT_STR_EQ("abcdefghijkl", log_string(&f, EV_WORK));

  ASSERT_RC(0, uvs_set_concurrency(f.s, 2)); /* and back to the pool */
  uvs_task_t t = fixture_once(&f, 'z', 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'z', 1));
  ASSERT(log_nth(&f, EV_WORK, 'z', 0)->runner >= 0);
  ASSERT_FALSE(log_nth(&f, EV_WORK, 'z', 0)->on_loop);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int set_three(void *s) {
  return uvs_set_concurrency(s, 3);
}

/* S67 */
TEST raising_the_concurrency_from_another_thread_wakes_the_loop(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open(&f));
  fakepool_hold();
  for (int i = 0; i < 5; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, 0);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_turn(&f);
  ASSERT_U64(1, fakepool_pending());
  ASSERT_RC(0, elsewhere(set_three, f.s));
  fixture_turn(&f);
  ASSERT_U64(3, fakepool_pending());
  fakepool_release();
  fixture_turn(&f);
  ASSERT_U64(5, log_count(&f, EV_DONE, 0));
  ASSERT_U64(3, fakepool_seen().peak_outstanding);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---- the pool-size experiment: a short body due at 2 s, an endless one at 1 s, shutdown at once
 */

static enum greatest_test_res experiment_open(struct fixture *f, int concurrency) {
  fixture_init(f);
  f->pool = FAKEPOOL_REAL;
  f->options.concurrency = concurrency;
  f->options.keep_alive = UVS_KEEP_ALWAYS;
  CHECK_CALL(fixture_open(f));
  gate_init(true);
  uvs_task_t brief = fixture_once(f, 's', UVS_SEC(2));
  uvs_task_t endless = fixture_once(f, 'e', UVS_SEC(1));
  probe_of(&endless)->act = gate_pass;
  ASSERT_RC(0, uvs_submit(f->s, &brief, NULL));
  ASSERT_RC(0, uvs_submit(f->s, &endless, NULL));
  ASSERT_RC(0, uvs_shutdown(f->s));
  PASS();
}

/* S67 S35 S42 */
TEST with_one_runner_the_endless_body_keeps_the_short_one_from_starting(void) {
  struct fixture f;

  CHECK_CALL(experiment_open(&f, 1));
  fixture_turn(&f);
  ASSERT_I64(1000, fixture_next_ms(&f)); /* the later submission is the nearer head */
  fixture_jump_ns(&f, UVS_SEC(1) - 1);
  ASSERT_U64(0, log_total(&f));
  fixture_jump_ns(&f, 1);
  ASSERT(fixture_wait_log(&f, EV_WORK, 'e', 1));
  ASSERT_STR_EQ("1000", log_runs(&f, EV_WORK, 'e'));
  fixture_jump_ns(&f, UVS_SEC(1));
  fixture_jump_ns(&f, UVS_HOUR(1));
  ASSERT_STR_EQ("e", log_string(&f, EV_WORK));
  ASSERT_U64(1, counts_of(f.s).ready); /* due, accepted, not dropped */
  ASSERT_U64(1, counts_of(f.s).running);
  ASSERT_RC(1, gate_inside());
  ASSERT_RC(1, uvs_is_terminating(f.s));
  ASSERT_RC(0, elsewhere(do_shutdown_now, f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_STR_EQ("e", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("s", log_string(&f, EV_NEVER_RAN));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'e', 0)->status);
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 's', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S67 S35 S42 */
TEST with_two_runners_both_bodies_run(void) {
  struct fixture f;

  CHECK_CALL(experiment_open(&f, 2));
  fixture_jump_ns(&f, UVS_SEC(1));
  ASSERT(fixture_wait_log(&f, EV_WORK, 'e', 1));
  fixture_jump_ns(&f, UVS_SEC(1));
  ASSERT(fixture_wait_log(&f, EV_DONE, 's', 1));
  ASSERT_STR_EQ("2000", log_runs(&f, EV_WORK, 's'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 's', 0)->status);
  ASSERT(log_nth(&f, EV_WORK, 's', 0)->runner != log_nth(&f, EV_WORK, 'e', 0)->runner);
  ASSERT_RC(1, gate_inside());
  ASSERT_RC(1, uvs_is_terminating(f.s));
  ASSERT_RC(0, elsewhere(do_shutdown_now, f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_U64(0, log_count(&f, EV_NEVER_RAN, 0));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'e', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static void loop_thread_main(void *arg) {
  struct fixture *f = arg;

  f->loop_thread = uv_thread_self();
  uv_run(&f->loop, UV_RUN_DEFAULT); /* until terminated: UVS_KEEP_ALWAYS */
}

/* Waits for the gate without a loop of our own. */
static bool await_inside(int n) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;
  bool reached;

  uv_mutex_lock(&gate.lock);
  while (gate.inside != n && (int64_t)uv_hrtime() < end_ns)
    uv_cond_timedwait(&gate.cond, &gate.lock, (uint64_t)UVS_MS(100));
  reached = gate.inside == n;
  uv_mutex_unlock(&gate.lock);
  return reached;
}

/* S67 S35 S42 L4 */
TEST without_runners_the_endless_body_blocks_the_loop_and_its_token_still_reaches_it(void) {
  struct fixture f;
  uv_thread_t thread;

  CHECK_CALL(experiment_open(&f, 0));
  ASSERT_RC(0, uv_thread_create(&thread, loop_thread_main, &f));
  vclock_advance_ns(&f.clock, UVS_SEC(1));
  ASSERT_RC(0, uvs_clock_changed(f.s));
  ASSERT(await_inside(1));
  vclock_advance_ns(&f.clock, UVS_SEC(1));
  ASSERT_RC(0, uvs_clock_changed(f.s));
  ASSERT_RC(UV_ETIMEDOUT,
            uvs_await(f.s, UVS_MS(20))); /* the loop had time to run it, if it could */
  ASSERT_U64(1, counts_of(f.s).running);
  ASSERT_U64(1, counts_of(f.s).waiting + counts_of(f.s).ready);
  ASSERT_RC(1, gate_inside());
  ASSERT_STR_EQ("e", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("1000", log_runs(&f, EV_WORK, 'e'));
  ASSERT_RC(0, do_shutdown_now(f.s));
  ASSERT_RC(0, uvs_await(f.s, PATIENCE_NS));
  uv_thread_join(&thread);
  ASSERT_STR_EQ("e", log_string(&f, EV_WORK));
  ASSERT(log_nth(&f, EV_WORK, 'e', 0)->on_loop);
  ASSERT_RC(UVS_ON_LOOP, log_nth(&f, EV_WORK, 'e', 0)->runner);
  ASSERT_STR_EQ("s", log_string(&f, EV_NEVER_RAN));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'e', 0)->status);
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 's', 0)->status);
  ASSERT_U64(0, fakepool_seen().queue_works);
  f.loop_thread = uv_thread_self(); /* the other has ended: the loop goes on with us */
  ASSERT_RC(0, uvs_clock_changed(f.s));
  fixture_turn(&f);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* --------------------------------------------------------------------- await --- */

struct patience {
  uvs_t *s;
  int64_t timeout_ns, took_ns;
};

static int await_measured(void *arg) {
  struct patience *p = arg;
  int64_t start_ns = (int64_t)uv_hrtime();
  int rc = uvs_await(p->s, p->timeout_ns);

  p->took_ns = (int64_t)uv_hrtime() - start_ns;
  return rc;
}

/* P4 F15 F16 */
TEST waiting_for_an_open_scheduler_times_out_and_not_early(void) {
  static const int64_t timeouts[] = {UVS_MS(5), UVS_US(1500), 1, 0, -1, INT64_MIN};
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  for (int i = 0; i < 6; i++) {
    struct patience p = {f.s, timeouts[i], 0};
    ASSERT_RC(UV_ETIMEDOUT, elsewhere(await_measured, &p));
    ASSERT(p.took_ns >= timeouts[i]);
  }
  /* The same while it winds down; the virtual clock has nothing to say here. */
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  struct patience p = {f.s, UVS_MS(5), 0};
  ASSERT_RC(UV_ETIMEDOUT, elsewhere(await_measured, &p));
  ASSERT(p.took_ns >= UVS_MS(5));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int await_here(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, p->tag, run->id, uvs_await(run->scheduler, UVS_NEVER));
  log_add(p->f, EV_USER, p->tag, run->id, uvs_await(run->scheduler, 0));
  return 0;
}

static void await_in_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  (void)status;
  log_add(p->f, EV_USER, 'd', id, uvs_await(s, UVS_NEVER));
}

/* L4 P4 */
TEST a_wait_that_would_never_end_is_refused(void) {
  struct fixture f;

  for (int concurrency = 0; concurrency < 2; concurrency++) {
    fixture_init(&f);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open(&f));
    ASSERT_RC(UVS_EDEADLK, uvs_await(f.s, UVS_NEVER)); /* before the first turn, who opened it */
    uvs_task_t w = fixture_once(&f, 'w', 0);
    uvs_task_t l = fixture_loop_task(&f, 'l', 0);
    probe_of(&w)->act = await_here;
    probe_of(&l)->act = await_here;
    w.done = await_in_done;
    ASSERT_RC(0, uvs_submit(f.s, &w, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &l, NULL));
    fixture_turn(&f);
    ASSERT_U64(5, log_count(&f, EV_USER, 0));
    for (unsigned i = 0; i < 5; i++)
      ASSERT_RC(UVS_EDEADLK, log_nth(&f, EV_USER, 0, i)->status);
    ASSERT_RC(UVS_EDEADLK, uvs_await(f.s, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S32 P4 L12 */
TEST waiting_threads_are_released_by_termination_and_by_close(void) {
  enum { WAITERS = 5 };
  struct fixture f;
  struct errand waiters[WAITERS];
  struct patience patience[WAITERS];
  uv_thread_t threads[WAITERS];

  for (int way = 0; way < 3; way++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    for (int i = 0; i < WAITERS; i++) {
      patience[i] = (struct patience){f.s, i % 2 == 0 ? UVS_NEVER : PATIENCE_NS, 0};
      waiters[i] = (struct errand){await_measured, &patience[i], UV_EAGAIN};
      ASSERT_RC(0, uv_thread_create(&threads[i], errand_main, &waiters[i]));
    }
    if (way == 0) {
      ASSERT_RC(0, uvs_shutdown(f.s));
      fixture_advance_ms(&f, 10);
      ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
    } else if (way == 1) {
      ASSERT_RC(0, do_shutdown_now(f.s));
      fixture_turn(&f);
    } else {
      /* A thread that has not entered by now needs a reference. */
      uvs_retain(f.s);
      ASSERT_RC(0, uvs_close(f.s, mine_closed));
      f.s = NULL;
      for (int i = 0; i < 10 && !f.closed; i++)
        fixture_turn(&f);
      ASSERT(f.closed);
    }
    for (int i = 0; i < WAITERS; i++) {
      uv_thread_join(&threads[i]);
      ASSERT_RC(0, waiters[i].rc);
    }
    if (way == 2)
      uvs_release(patience[0].s);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ------------------------------------------------------------------ callbacks --- */

/* S32 S43 */
TEST terminated_is_called_once_on_the_loop_and_never_from_inside_a_call(void) {
  struct fixture f;

  for (int with_task = 0; with_task < 2; with_task++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    fixture_turn(&f);
    uvs_task_t t = fixture_once(&f, 'a', 0);
    if (with_task)
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT_RC(0, uvs_shutdown(f.s));
    ASSERT_U64(0, log_total(&f));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    ASSERT(log_nth(&f, EV_TERMINATED, 0, 0)->on_loop);
    ASSERT_RC(EV_TERMINATED, log_nth(&f, (enum event_kind)0, 0, log_total(&f) - 1)->what);
    ASSERT_RC(0, uvs_shutdown(f.s));
    ASSERT_RC(0, do_shutdown_now(f.s));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* The close that the tests below make from inside a callback. */
static void close_here(uvs_t *s, struct fixture *f) {
  if (f->s == NULL)
    return;
  log_add(f, EV_USER, 'c', 0, uvs_close(s, mine_closed));
  log_add(f, EV_USER, 'd', 0, uvs_close(s, mine_closed));
  log_add(f, EV_USER, 'e', 0, uvs_execute(s, probe_work, fixture_probe(f, 'x')));
  f->s = NULL;
}

static int close_in_body(struct probe *p, uvs_run_t *run) {
  close_here(run->scheduler, p->f);
  return p->ret;
}

static int close_in_after(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_run(p->f, EV_AFTER, p->tag, run);
  close_here(run->scheduler, p->f);
  return 0;
}

static void close_in_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  log_add(p->f, EV_DONE, p->tag, id, status);
  close_here(s, p->f);
}

static void close_in_error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  log_add(uvs_data(s), EV_ERROR, ((struct probe *)arg)->tag, id, status);
  close_here(s, uvs_data(s));
}

static void close_in_never_ran(uvs_t *s, uvs_id_t id, void *arg) {
  (void)arg;
  log_add(uvs_data(s), EV_NEVER_RAN, 'n', id, 0);
  close_here(s, uvs_data(s));
}

static void close_in_terminated(uvs_t *s) {
  log_add(uvs_data(s), EV_TERMINATED, 't', 0, 0);
  close_here(s, uvs_data(s));
}

static int close_in_each(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)info;
  (void)arg;
  close_here(s, uvs_data(s));
  return 0;
}

/* S33 S43 L2 */
TEST close_works_from_inside_every_callback_of_the_loop(void) {
  enum { BODY, LOOP_BODY, PERIODIC, AFTER, DONE, ERROR, NEVER_RAN, TERMINATED, EACH, WAYS };
  struct fixture f;

  for (int way = 0; way < WAYS; way++) {
    fixture_init(&f);
    f.options.concurrency = way == BODY ? 0 : 1;
    if (way == ERROR)
      f.options.error = close_in_error;
    if (way == TERMINATED)
      f.options.terminated = close_in_terminated;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = way == LOOP_BODY ? fixture_loop_task(&f, 'a', 0) : fixture_once(&f, 'a', 0);
    uvs_task_t neighbour = fixture_once(&f, 'b', 0);
    uvs_task_t later = fixture_rate(&f, 'l', UVS_MS(10), UVS_MS(10));
    if (way == BODY || way == LOOP_BODY || way == PERIODIC)
      probe_of(&t)->act = close_in_body;
    if (way == PERIODIC) {
      t.kind = UVS_DELAY;
      t.period_ns = UVS_MS(1);
      t.after = t.work;
      t.work = NULL;
    }
    if (way == AFTER)
      t.after = close_in_after;
    if (way == DONE)
      t.done = close_in_done;
    if (way == ERROR)
      probe_of(&t)->ret = UV_EIO;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &neighbour, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &later, NULL));
    if (way == NEVER_RAN) {
      fakepool_hold(); /* else the first two are over */
      fixture_turn(&f);
      ASSERT_RC(0, uvs_shutdown_now(f.s, close_in_never_ran, NULL));
      fakepool_release();
    }
    if (way == TERMINATED)
      ASSERT_RC(0, uvs_shutdown(f.s));
    if (way == EACH) {
      fakepool_hold();
      fixture_turn(&f);
      ASSERT_RC(0, uvs_each(f.s, close_in_each, NULL));
      fakepool_release();
    }
    for (int i = 0; i < 10 && !f.closed; i++)
      fixture_turn(&f);
    ASSERT(f.s == NULL);
    ASSERT(f.closed);
    ASSERT_STR_EQ("cdeC", log_string(&f, EV_USER));
    ASSERT_RC(0, log_nth(&f, EV_USER, 'c', 0)->status);
    ASSERT_RC(UV_EALREADY, log_nth(&f, EV_USER, 'd', 0)->status);
    ASSERT_RC(UV_ESHUTDOWN, log_nth(&f, EV_USER, 'e', 0)->status);
    ASSERT_RC(1, log_nth(&f, EV_USER, 'C', 0)->status);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'b'));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'l'));
    ASSERT_U64(0, log_count(&f, EV_WORK, 'l') + log_count(&f, 0, 'x'));
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    /* The close callback is the very last one. */
    ASSERT_RC('C', log_nth(&f, (enum event_kind)0, 0, log_total(&f) - 1)->tag);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int try_to_close(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, 'c', run->id, uvs_close(run->scheduler, mine_closed));
  return 0;
}

/* L3 */
TEST close_on_another_thread_is_refused_and_nothing_happens(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  probe_of(&t)->act = try_to_close;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_RC(UV_EPERM, log_nth(&f, EV_USER, 'c', 0)->status);
  ASSERT_RC(0, uvs_is_shutdown(f.s));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_U64(2, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S33 S42 L2 */
TEST close_waits_for_bodies_and_for_pending_runs(void) {
  struct fixture f;
  uvs_id_t pending;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open(&f));
  gate_init(false);
  uvs_task_t a = fixture_once(&f, 'a', 0);
  uvs_task_t p = fixture_once(&f, 'p', 0);
  probe_of(&a)->act = gate_pass;
  probe_of(&p)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &p, &pending));
  ASSERT(fixture_wait_log(&f, EV_WORK, 0, 2));
  uvs_t *s = uvs_retain(f.s);
  f.s = NULL;
  ASSERT_RC(0, uvs_close(s, mine_closed));
  fixture_turn(&f);
  ASSERT_FALSE(f.closed);
  ASSERT_RC(0, uvs_finish(s, pending, 0));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'p', 1));
  fixture_turn(&f);
  ASSERT_FALSE(f.closed);
  ASSERT_RC(1, gate_inside());
  gate_let(1);
  ASSERT(fixture_wait_log(&f, EV_USER, 'C', 1));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'p', 0)->status);
  ASSERT_RC(UV_ESHUTDOWN, uvs_shutdown(s));
  ASSERT_RC(UV_EALREADY, uvs_close(s, NULL));
  ASSERT_RC(1, uvs_is_terminated(s));
  uvs_release(s);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------- the task object --- */

/* P10 S14 S15 */
TEST the_same_spec_may_be_submitted_again_and_again_also_after_a_refusal(void) {
  struct fixture f;
  uvs_id_t ids[4] = {0, 0, 0, 99};

  fixture_init(&f);
  f.options.max_pending = 2;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &ids[0]));
  ASSERT_RC(0, uvs_submit(f.s, &t, &ids[1]));
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, &t, &ids[3]));
  ASSERT_U64(99, ids[3]);
  fixture_advance_ms(&f, 10);
  ASSERT_RC(0, uvs_submit(f.s, &t, &ids[2]));
  ASSERT(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("aaa", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("aaa", log_string(&f, EV_DONE));
  ASSERT_STR_EQ("10 10#1 20#1", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT_RC(UV_ESHUTDOWN, uvs_submit(f.s, &t, &ids[3]));
  ASSERT_RC(UV_ESHUTDOWN, uvs_submit(f.s, &t, &ids[3]));
  ASSERT_U64(99, ids[3]);
  ASSERT_U64(3, counts_of(f.s).submitted);
  ASSERT_U64(3, counts_of(f.s).rejected);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* P11 */
TEST nothing_but_cancelled_tasks_leaves_the_queue_unrun(void) {
  enum { TASKS = 200 };
  struct fixture f;
  uvs_id_t ids[TASKS];
  bool cancelled[TASKS] = {false};
  uint64_t random = test_seed;
  unsigned live = TASKS;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < TASKS; i++) {
    uvs_task_t t =
        fixture_once(&f, i + 1, (int64_t)test_random_below(&random, 50) * UVS_MS(1) + UVS_MS(1));
    ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
  }
  fixture_turn(&f);
  for (int n = 0; n < 300; n++) {
    unsigned i = (unsigned)test_random_below(&random, TASKS);
    ASSERT_RC(cancelled[i] ? UV_ENOENT : UVS_NEVER_RUNS, uvs_cancel(f.s, ids[i], 0));
    live -= !cancelled[i];
    cancelled[i] = true;
    ASSERT_U64(live, counts_of(f.s).waiting);
  }
  fixture_advance_ms(&f, 100);
  for (int i = 0; i < TASKS; i++) {
    ASSERT_U64(cancelled[i] ? 0 : 1, log_count(&f, EV_WORK, i + 1));
    ASSERT_U64(1, log_count(&f, EV_DONE, i + 1));
    ASSERT_RC(cancelled[i] ? UV_ECANCELED : 0, log_nth(&f, EV_DONE, i + 1, 0)->status);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int cancel_both(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, 'r', run->id, uvs_cancel(run->scheduler, run->id, 0));
  log_add(p->f, EV_USER, 'q', run->id, uvs_cancel(run->scheduler, p->id, 0));
  log_add(p->f, EV_USER, 'R', run->id, uvs_cancel(run->scheduler, run->id, 0));
  log_add(p->f, EV_USER, 'Q', run->id, uvs_cancel(run->scheduler, p->id, 0));
  return 0;
}

/* P12 P11 */
TEST a_running_and_a_queued_task_cancelled_together_both_end_cancelled(void) {
  struct fixture f;

  for (int64_t delay_ns = 0; delay_ns <= UVS_MS(10); delay_ns += UVS_MS(10)) { /* ready, waiting */
    fixture_init(&f);
    f.options.concurrency = 1;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t r = fixture_once(&f, 'r', 0);
    uvs_task_t q = fixture_once(&f, 'q', delay_ns);
    probe_of(&r)->act = cancel_both;
    ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &q, &probe_of(&r)->id));
    fixture_turn(&f);
    ASSERT_RC(UVS_RUN_FINISHES, log_nth(&f, EV_USER, 'r', 0)->status);
    ASSERT_RC(UVS_NEVER_RUNS, log_nth(&f, EV_USER, 'q', 0)->status);
    ASSERT_RC(UVS_RUN_FINISHES, log_nth(&f, EV_USER, 'R', 0)->status);
    ASSERT_RC(UV_ENOENT, log_nth(&f, EV_USER, 'Q', 0)->status);
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'r', 0)->status);
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'q', 0)->status);
    fixture_advance_ms(&f, 50);
    ASSERT_STR_EQ("r", log_string(&f, EV_WORK));
    ASSERT_U64(2, log_count(&f, EV_DONE, 0));
    ASSERT_U64(2, counts_of(f.s).cancelled);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

SUITE(states) {
  RUN_TEST(is_shut_down_turns_true_with_the_call_itself);
  RUN_TEST(terminating_lasts_from_shutdown_to_the_end_of_the_last_body);
  RUN_TEST(a_pending_run_keeps_the_scheduler_from_termination);
}

SUITE(immediate) {
  RUN_TEST(immediate_shutdown_hands_back_what_has_not_started_and_lets_the_rest_finish);
  RUN_TEST(the_queue_is_empty_before_a_running_body_of_an_immediate_shutdown_has_ended);
  RUN_TEST(delayed_and_periodic_tasks_are_all_handed_back_and_end_cancelled);
  RUN_TEST(tasks_that_the_loop_has_not_yet_seen_are_handed_back_too);
  RUN_TEST(a_task_that_has_run_is_not_handed_back);
  RUN_TEST(only_the_first_immediate_shutdown_hands_back);
  RUN_TEST(immediate_shutdown_overtakes_an_orderly_one);
  RUN_TEST(what_sits_ready_in_the_hands_of_the_pool_is_handed_back);
}

SUITE(orderly) {
  RUN_TEST(by_default_delayed_tasks_survive_shutdown_and_periodic_ones_do_not);
  RUN_TEST(survive_policies_read_back_before_and_after_shutdown);
  RUN_TEST(a_policy_switched_off_after_shutdown_acts_at_once);
  RUN_TEST(a_policy_switched_before_shutdown_waits_for_it);
  RUN_TEST(without_delayed_survive_what_is_not_yet_due_leaves_the_queue_at_shutdown);
  RUN_TEST(a_one_shot_already_due_at_shutdown_runs_whatever_the_policies_say);
  RUN_TEST(a_periodic_task_in_the_middle_of_a_run_finishes_it_and_ends_cancelled);
  RUN_TEST(queued_periodic_tasks_end_at_once_while_another_one_is_still_running);
  RUN_TEST(the_last_run_of_a_periodic_task_may_still_fail_or_stop_it);
  RUN_TEST(surviving_periodic_tasks_go_on_until_the_last_one_is_cancelled);
  RUN_TEST(a_body_that_runs_at_shutdown_delivers_its_result);
  RUN_TEST(at_termination_nothing_is_left_and_every_done_was_called);
  RUN_TEST(the_number_of_runs_is_exact_for_each_combination_of_policies);
}

SUITE(grace) {
  RUN_TEST(when_the_grace_is_over_the_rest_is_cancelled);
  RUN_TEST(a_body_sees_its_token_when_the_grace_is_over);
  RUN_TEST(the_nearest_of_several_graces_counts);
  RUN_TEST(a_grace_that_is_not_needed_changes_nothing);
  RUN_TEST(a_grace_of_zero_or_less_is_over_at_once);
}

SUITE(afterwards) {
  RUN_TEST(scheduling_and_cancelling_without_end_stays_in_constant_memory);
  RUN_TEST(pairs_from_another_thread_give_their_room_back_with_the_next_turn);
  RUN_TEST(after_termination_all_is_zero_and_new_work_is_refused);
  RUN_TEST(a_cancelled_task_is_released_although_threads_wait_for_the_scheduler);
}

SUITE(concurrency) {
  RUN_TEST(raising_and_lowering_the_concurrency_takes_effect);
  RUN_TEST(raising_the_concurrency_from_another_thread_wakes_the_loop);
  RUN_TEST(with_one_runner_the_endless_body_keeps_the_short_one_from_starting);
  RUN_TEST(with_two_runners_both_bodies_run);
  RUN_TEST(without_runners_the_endless_body_blocks_the_loop_and_its_token_still_reaches_it);
}

SUITE(waiting) {
  RUN_TEST(waiting_for_an_open_scheduler_times_out_and_not_early);
  RUN_TEST(a_wait_that_would_never_end_is_refused);
  RUN_TEST(waiting_threads_are_released_by_termination_and_by_close);
}

SUITE(callbacks) {
  RUN_TEST(terminated_is_called_once_on_the_loop_and_never_from_inside_a_call);
  RUN_TEST(close_works_from_inside_every_callback_of_the_loop);
  RUN_TEST(close_on_another_thread_is_refused_and_nothing_happens);
  RUN_TEST(close_waits_for_bodies_and_for_pending_runs);
}

SUITE(task_objects) {
  RUN_TEST(the_same_spec_may_be_submitted_again_and_again_also_after_a_refusal);
  RUN_TEST(nothing_but_cancelled_tasks_leaves_the_queue_unrun);
  RUN_TEST(a_running_and_a_queued_task_cancelled_together_both_end_cancelled);
}

/* Bodies that block need room in libuv's pool, whatever the environment says. */
TEST_MAIN(uv_os_setenv("UV_THREADPOOL_SIZE", "4"); RUN_SUITE(states); RUN_SUITE(immediate);
          RUN_SUITE(orderly); RUN_SUITE(grace); RUN_SUITE(afterwards); RUN_SUITE(concurrency);
          RUN_SUITE(waiting); RUN_SUITE(callbacks); RUN_SUITE(task_objects));
