/* SPDX-License-Identifier: MIT
 *
 * Something else happens between any two steps of a submission that finds no room. Built with
 * -DUVS__STEPS, as test_race.c: the call is stopped before its n-th atomic step, another thread (or
 * the loop, which then takes a turn) does something from start to end, and the call goes on; for
 * n = 0, 1, 2 ... until there is no n-th step. Whatever came between: refused or accepted, one
 * `done` each, nothing lost or early, the counts add up, nobody terminates under a body.
 */
#include "lib/bodies.h"
#include "lib/full.h"

#define UNTOUCHED UINT64_C(0x7e57)
#define STEPS_MAX 5000

/* In ms on the virtual clock. 'x' takes all the room. */
enum { DUE_MS = 10, X_MS = 5, LATER_MS = 40, END_MS = 100 };

struct scene {
  const char *name;
  int policy;
  int says; /* with UVS_REJECT_ASK */
  bool off_loop;
  size_t n;   /* tasks in one call: 'a', 'b', 'c' */
  bool light; /* no `done` */
  bool after; /* with one */
  bool keep;
  bool no_survivors;
};

enum act {
  ACT_SHUTDOWN,
  ACT_STOP,
  ACT_CANCEL, /* the last of those in the call, as soon as its id is written */
  ACT_LATER,  /* the same */
  ACT_FINISH,
  ACT_FORGET,
  ACT_CANCEL_X, /* there is room again */
  ACT_SUBMIT,   /* another that finds none */
  ACT_ABORT,    /* another policy */
  ACT_LOOK,
  ACTS
};

static const char *const act_names[ACTS] = {"shutdown", "stop",     "cancel", "later", "finish",
                                            "forget",   "cancel x", "submit", "abort", "look"};

static struct {
  const struct scene *scene;
  struct fixture f;
  uvs_task_t t[3], other;
  uvs_id_t ids[3], x;
  enum act act;
  bool by_loop;
  unsigned left;
  bool came;
  uv_sem_t asked, answered;

  int rc, act_rc;
  int asked_times;
  uint64_t dropped_seen; /* by the act */
  bool looked_wrong;
  bool body_ran_after_the_end;
} race;

static _Thread_local bool under_test;

/* ---------------------------------------------------------------------- the act --- */

static uvs_id_t last_id(void) {
  uvs_id_t id = race.ids[race.scene->n - 1];

  return id == UNTOUCHED ? 0 : id;
}

static int act(void *arg) {
  uvs_t *s = race.f.s;
  uvs_counts_t c;

  (void)arg;
  c = counts_of(s);
  race.dropped_seen = c.dropped;
  race.looked_wrong |= !adds_up(&c) || c.running + c.ready > c.submitted;
  switch (race.act) {
  case ACT_SHUTDOWN:
    return uvs_shutdown(s);
  case ACT_STOP:
    return uvs_shutdown_now(s, probe_never_ran, NULL);
  case ACT_CANCEL:
    return uvs_cancel(s, last_id(), 0);
  case ACT_LATER:
    return uvs_reschedule(s, last_id(), UVS_MS(LATER_MS));
  case ACT_FINISH:
    return uvs_finish(s, last_id(), 0);
  case ACT_FORGET:
    return uvs_forget(s, last_id());
  case ACT_CANCEL_X:
    return uvs_cancel(s, race.x, 0);
  case ACT_SUBMIT:
    return uvs_submit(s, &race.other, NULL);
  case ACT_ABORT:
    return uvs_set_rejection(s, UVS_REJECT_ABORT);
  default:
    return uvs_wait(s, last_id(), 0, 0, NULL);
  }
}

static void act_and_look(void) {
  uvs_counts_t c;

  race.act_rc = act(NULL);
  if (race.by_loop)
    fixture_turn(&race.f);
  c = counts_of(race.f.s);
  race.looked_wrong |= !adds_up(&c);
  if (uvs_is_terminated(race.f.s) == 1)
    race.looked_wrong |= c.waiting + c.ready + c.running != 0;
}

static int act_elsewhere(void *arg) {
  (void)arg;
  act_and_look();
  return 0;
}

static void on_step(void) {
  if (!under_test || race.came || race.left-- > 0)
    return;
  under_test = false;
  race.came = true;
  if (race.by_loop) {
    uv_sem_post(&race.asked);
    uv_sem_wait(&race.answered);
  } else {
    elsewhere(act_elsewhere, NULL);
  }
  under_test = true;
}

/* ----------------------------------------------------------------- the operation --- */

/* A body must never find the scheduler terminated. */
static int body_looks(struct probe *p, uvs_run_t *run) {
  bool tested = under_test;

  (void)p;
  under_test = false;
  race.body_ran_after_the_end |= uvs_is_terminated(run->scheduler) != 0;
  under_test = tested;
  return 0;
}

static int answers(uvs_t *s, const uvs_task_t *t, size_t n, int code) {
  (void)s;
  race.looked_wrong |= n == 0 || t == NULL || (code != UV_EAGAIN && code != UV_ESHUTDOWN);
  race.asked_times += under_test; /* those of the act are not under test */
  return race.scene->says;
}

static void operate(void) {
  under_test = true;
  race.rc = uvs_submit_many(race.f.s, race.t, race.scene->n, race.ids);
  under_test = false;
}

static void operate_main(void *arg) {
  (void)arg;
  operate();
  uv_sem_post(&race.asked);
}

static enum greatest_test_res run_operation(void) {
  uv_thread_t thread;

  uvs__step_hook = on_step;
  if (!race.scene->off_loop) {
    operate();
  } else {
    ASSERT_RC(0, uv_thread_create(&thread, operate_main, NULL));
    uv_sem_wait(&race.asked);
    if (race.came && race.by_loop) {
      act_and_look();
      uv_sem_post(&race.answered);
      uv_sem_wait(&race.asked);
    }
    uv_thread_join(&thread);
  }
  uvs__step_hook = NULL;
  PASS();
}

static enum greatest_test_res set_the_scene(void) {
  const struct scene *c = race.scene;
  struct fixture *f = &race.f;
  int64_t delay_ns =
      c->policy == UVS_REJECT_CALLER_RUNS || c->says == UVS_RUN_HERE ? 0 : UVS_MS(DUE_MS);

  prepare(f, 1, c->policy);
  f->options.survive_delayed = !c->no_survivors;
  f->options.rejected = c->policy == UVS_REJECT_ASK ? answers : NULL;
  if (c->policy == UVS_REJECT_DISCARD_OLDEST)
    f->options.max_pending = (uint32_t)c->n;
  CHECK_CALL(fixture_open_turned(f));
  for (size_t i = 0; i < 3; i++) {
    race.t[i] = fixture_once(f, 'a' + (int)i, delay_ns);
    race.t[i].after = c->after ? probe_after : NULL;
    race.t[i].keep = c->keep;
    if (c->light)
      race.t[i].done = NULL;
    probe_of(&race.t[i])->act = body_looks;
    race.ids[i] = UNTOUCHED;
  }
  race.other = fixture_once(f, 'o', UVS_MS(DUE_MS));
  uvs_task_t x = fixture_once(f, 'x', UVS_MS(X_MS));
  for (uint32_t i = 0; i < f->options.max_pending; i++)
    ASSERT_RC(0, uvs_submit(f->s, &x, &race.x));
  fixture_turn(f);
  race.came = race.looked_wrong = race.body_ran_after_the_end = false;
  race.rc = race.act_rc = 1;
  race.asked_times = 0;
  race.dropped_seen = 0;
  PASS();
}

/* ---------------------------------------------------------------------- the check --- */

static bool acted(enum act a) {
  return race.came && race.act == a;
}

static bool here(void) {
  return race.scene->policy == UVS_REJECT_CALLER_RUNS || race.scene->says == UVS_RUN_HERE;
}

static bool discards(void) {
  return race.scene->policy == UVS_REJECT_DISCARD || race.scene->says == UVS_DROP;
}

static enum greatest_test_res check_answer(void) {
  const struct scene *c = race.scene;
  bool shut = acted(ACT_SHUTDOWN) || acted(ACT_STOP);
  bool room = acted(ACT_CANCEL_X);

  if (race.rc == UV_ESHUTDOWN)
    ASSERT(shut);
  else if (race.rc == UV_EAGAIN)
    ASSERT(acted(ACT_ABORT) || /* two newcomers, and no turn for either */
           (acted(ACT_SUBMIT) && c->policy == UVS_REJECT_DISCARD_OLDEST) ||
           (c->policy == UVS_REJECT_ASK && c->says == UVS_REFUSE));
  else
    ASSERT_RC(0, race.rc);
  for (size_t i = 0; i < c->n; i++)
    ASSERT_EQ(race.rc == 0, race.ids[i] != UNTOUCHED);
  if (c->policy == UVS_REJECT_ASK && !acted(ACT_ABORT) && !room)
    ASSERT_RC(1, race.asked_times);
  ASSERT(race.asked_times <= 1);
  ASSERT_FALSE(race.looked_wrong);
  PASS();
}

static bool nothing_after_done(int tag) {
  bool over = false;

  for (unsigned i = 0; i < log_total(&race.f); i++) {
    const struct event *e = log_nth(&race.f, (enum event_kind)0, 0, i);
    if (e->tag != tag)
      continue;
    if (over)
      return false;
    over = e->what == EV_DONE;
  }
  return true;
}

static enum greatest_test_res check_task(size_t i) {
  const struct scene *c = race.scene;
  struct fixture *f = &race.f;
  int tag = 'a' + (int)i;
  bool last = i == c->n - 1;
  unsigned runs = log_count(f, EV_WORK, tag);
  unsigned never_ran = log_count(f, EV_NEVER_RAN, tag);
  int status = log_nth(f, EV_DONE, tag, 0)->status;
  bool room = acted(ACT_CANCEL_X);
  bool cancelled = last && acted(ACT_CANCEL) && race.act_rc >= 0;
  bool moved = last && acted(ACT_LATER) && race.act_rc == 0;

  if (race.rc < 0) {
    ASSERT_U64(0, log_count(f, 0, tag));
    PASS();
  }
  ASSERT(runs <= 1);
  ASSERT(nothing_after_done(tag));
  ASSERT_U64(runs != 0 && c->after, log_count(f, EV_AFTER, tag));
  ASSERT_U64(!c->light, log_count(f, EV_DONE, tag));
  if (!c->light)
    ASSERT_RC(runs == 1 && !(cancelled && race.act_rc == UVS_RUN_FINISHES) ? 0 : UV_ECANCELED,
              status);
  if (cancelled && race.act_rc == UVS_NEVER_RUNS)
    ASSERT_U64(0, runs);
  if (!acted(ACT_STOP))
    ASSERT_U64(0, never_ran);
  if (moved && runs == 1)
    ASSERT_I64(LATER_MS, fixture_ms(f, log_nth(f, EV_WORK, tag, 0)->start_ns));
  if (discards() && !room) {
    ASSERT_U64(0, runs + never_ran);
    if (last && (acted(ACT_CANCEL) || acted(ACT_LATER) || acted(ACT_FINISH)))
      ASSERT_RC(UV_ENOENT, race.act_rc);
  }
  if (here() && !room) {
    if (!cancelled && !acted(ACT_STOP))
      ASSERT_U64(1, runs);
    if (acted(ACT_STOP))
      ASSERT_U64(1, runs + never_ran);
    if (runs == 1 && !moved)
      ASSERT_RC(UVS_ON_CALLER, log_nth(f, EV_WORK, tag, 0)->runner);
  }
  PASS();
}

/* How often 'x' was dropped, cancelled, or ran. */
static enum greatest_test_res check_the_others(void) {
  const struct scene *c = race.scene;
  struct fixture *f = &race.f;
  unsigned x = f->options.max_pending;
  unsigned x_runs = log_count(f, EV_WORK, 'x');
  unsigned other = acted(ACT_SUBMIT) && race.act_rc == 0;
  int refused = (race.rc < 0) + (acted(ACT_SUBMIT) && race.act_rc < 0);
  unsigned accepted = x + (race.rc == 0 ? (unsigned)c->n : 0) + other;
  uvs_counts_t n = counts_of(f->s);

  ASSERT(adds_up(&n));
  ASSERT_U64(x, log_count(f, EV_DONE, 'x'));
  ASSERT_U64(other, log_count(f, EV_DONE, 'o'));
  ASSERT_U64(accepted, n.submitted);
  ASSERT_U64(refused, n.rejected);
  ASSERT(n.dropped >= race.dropped_seen); /* what is over stays over */
  ASSERT_U64(accepted, n.completed + n.cancelled + n.dropped);
  ASSERT_U64(log_count(f, EV_WORK, 0), n.runs);
  if (c->policy == UVS_REJECT_DISCARD_OLDEST && race.rc == 0 && !acted(ACT_SHUTDOWN) &&
      !acted(ACT_STOP) && !acted(ACT_CANCEL_X)) {
    if (acted(ACT_CANCEL) && race.act_rc >= 0)
      ASSERT(x_runs <= 1); /* one may stay, if the loop had not yet come to it */
    else
      ASSERT_U64(0, x_runs); /* each had to go for one of ours, or for the other */
    ASSERT_U64(accepted - x, n.dropped + (acted(ACT_CANCEL) && race.act_rc >= 0 ? x_runs : 0));
  }
  if (discards() && !acted(ACT_CANCEL_X))
    ASSERT_U64((race.rc == 0 ? c->n : 0) + other, n.dropped);
  if (here())
    ASSERT_U64(0, n.dropped);
  if (c->policy != UVS_REJECT_DISCARD_OLDEST && !c->no_survivors && !acted(ACT_STOP) &&
      !acted(ACT_CANCEL_X))
    ASSERT_U64(x, x_runs); /* nobody else had to go */
  PASS();
}

static enum greatest_test_res play_once(void) {
  struct fixture *f = &race.f;

  CHECK_CALL(set_the_scene());
  CHECK_CALL(run_operation());
  CHECK_CALL(check_answer());
  fixture_turn(f);
  if (acted(ACT_STOP))
    ASSERT_RC(1, uvs_is_terminated(f->s)); /* nobody else has to wake the loop for it */
  fixture_advance_ms(f, END_MS);
  ASSERT_RC(acted(ACT_STOP) ? UV_EALREADY : 0, uvs_shutdown_now(f->s, NULL, NULL));
  fixture_turn(f);
  ASSERT_RC(1, uvs_is_terminated(f->s));
  ASSERT_U64(1, log_count(f, EV_TERMINATED, 0));
  ASSERT_RC(EV_TERMINATED, log_nth(f, (enum event_kind)0, 0, log_total(f) - 1)->what);
  ASSERT_FALSE(race.body_ran_after_the_end);
  ASSERT_FALSE(race.looked_wrong);
  for (size_t i = 0; i < race.scene->n; i++)
    CHECK_CALL(check_task(i));
  CHECK_CALL(check_the_others());
  CHECK_CALL(close_checked(f));
  PASS();
}

static enum greatest_test_res play(const struct scene *scene) {
  race.scene = scene;
  for (int by_loop = 0; by_loop <= scene->off_loop; by_loop++) {
    for (int a = 0; a < ACTS; a++) {
      unsigned n = 0;

      do {
        race.act = (enum act)a;
        race.by_loop = by_loop != 0;
        race.left = n;
        enum greatest_test_res res = play_once();
        if (res != GREATEST_TEST_RES_PASS) {
          fprintf(stderr, "%s, %s%s at step %u: answers %d and %d\n", scene->name, act_names[a],
                  by_loop ? " by the loop" : "", n, race.rc, race.act_rc);
          log_print(&race.f);
          return res;
        }
      } while (race.came && n++ < STEPS_MAX);
      ASSERT(n > 4); /* it was stopped at all */
      ASSERT(n < STEPS_MAX);
    }
  }
  PASS();
}

#define PLAY(...) CHECK_CALL(play(&(const struct scene){__VA_ARGS__}))

/* ------------------------------------------------------------------- the scenes --- */

/* S68 S16 V10 */
TEST a_discarded_submission_is_dropped_or_refused_whatever_comes_between(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    PLAY(.name = "one", .policy = UVS_REJECT_DISCARD, .off_loop = off_loop, .n = 1);
    PLAY(.name = "light", .policy = UVS_REJECT_DISCARD, .off_loop = off_loop, .n = 1,
         .light = true);
    PLAY(.name = "kept", .policy = UVS_REJECT_DISCARD, .off_loop = off_loop, .n = 2, .keep = true);
    PLAY(.name = "nobody survives", .policy = UVS_REJECT_DISCARD, .off_loop = off_loop, .n = 2,
         .after = true, .no_survivors = true);
  }
  PASS();
}

/* S68 P6 */
TEST a_newcomer_and_the_oldest_each_have_one_end_whatever_comes_between(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    PLAY(.name = "one", .policy = UVS_REJECT_DISCARD_OLDEST, .off_loop = off_loop, .n = 1);
    PLAY(.name = "three", .policy = UVS_REJECT_DISCARD_OLDEST, .off_loop = off_loop, .n = 3,
         .keep = true);
    PLAY(.name = "light, nobody survives", .policy = UVS_REJECT_DISCARD_OLDEST,
         .off_loop = off_loop, .n = 2, .light = true, .no_survivors = true);
  }
  PASS();
}

/* S68 S17 V7 S32 */
TEST what_the_submitter_runs_is_run_once_or_refused_whatever_comes_between(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    PLAY(.name = "one", .policy = UVS_REJECT_CALLER_RUNS, .off_loop = off_loop, .n = 1);
    PLAY(.name = "light", .policy = UVS_REJECT_CALLER_RUNS, .off_loop = off_loop, .n = 2,
         .light = true);
    PLAY(.name = "with after", .policy = UVS_REJECT_CALLER_RUNS, .off_loop = off_loop, .n = 1,
         .after = true);
    PLAY(.name = "two, kept", .policy = UVS_REJECT_CALLER_RUNS, .off_loop = off_loop, .n = 2,
         .keep = true, .no_survivors = true);
  }
  PASS();
}

/* S68 S13 S14 */
TEST the_handler_is_asked_once_whatever_comes_between(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    PLAY(.name = "refuse", .policy = UVS_REJECT_ASK, .says = UVS_REFUSE, .off_loop = off_loop,
         .n = 1);
    PLAY(.name = "drop", .policy = UVS_REJECT_ASK, .says = UVS_DROP, .off_loop = off_loop, .n = 2);
    PLAY(.name = "run here", .policy = UVS_REJECT_ASK, .says = UVS_RUN_HERE, .off_loop = off_loop,
         .n = 2);
  }
  PASS();
}

/* ------------------------------------------------ a mover that is in the middle of it --- */

/* While the first of two bodies runs, another thread begins to move the second task, and is stopped
 * before its n-th step until the call is over. */
static struct {
  struct fixture f;
  uvs_id_t ids[2];
  uv_thread_t thread;
  uv_sem_t paused, go;
  unsigned left;
  bool came;
  int rc;
} mover;

static void on_mover_step(void) {
  if (!under_test || mover.came || mover.left-- > 0)
    return;
  under_test = false;
  mover.came = true;
  uv_sem_post(&mover.paused);
  uv_sem_wait(&mover.go);
  under_test = true;
}

static void mover_main(void *arg) {
  (void)arg;
  under_test = true;
  mover.rc = uvs_reschedule(mover.f.s, mover.ids[1], UVS_MS(LATER_MS));
  under_test = false;
  if (!mover.came)
    uv_sem_post(&mover.paused);
}

static int start_the_mover(struct probe *p, uvs_run_t *run) {
  (void)p;
  (void)run;
  if (uv_thread_create(&mover.thread, mover_main, NULL) < 0)
    return UV_EAGAIN;
  uv_sem_wait(&mover.paused); /* or through */
  return 0;
}

static enum greatest_test_res move_the_second(unsigned n, bool off_loop, bool turn_first) {
  struct fixture *f = &mover.f;
  uvs_task_t t[2];

  CHECK_CALL(open_full(f, 1, UVS_REJECT_CALLER_RUNS));
  for (int i = 0; i < 2; i++)
    t[i] = fixture_once(f, 'a' + i, 0);
  probe_of(&t[0])->act = start_the_mover;
  mover.left = n;
  mover.came = false;
  uvs__step_hook = on_mover_step;
  ASSERT_RC(0, submit_from(off_loop, f->s, t, 2, mover.ids));
  if (turn_first)
    fixture_turn(f);
  if (mover.came)
    uv_sem_post(&mover.go);
  uv_thread_join(&mover.thread);
  uvs__step_hook = NULL;
  fixture_turn(f);
  if (mover.rc != 0) { /* it came too late */
    ASSERT(mover.rc == UV_EBUSY || mover.rc == UV_ENOENT);
    ASSERT_I64(0, fixture_ms(f, log_nth(f, EV_WORK, 'b', 0)->start_ns));
    ASSERT_RC(UVS_ON_CALLER, log_nth(f, EV_WORK, 'b', 0)->runner);
  } else {
    ASSERT_U64(0, log_count(f, EV_WORK, 'b'));
  }
  fixture_advance_ms(f, LATER_MS);
  if (mover.rc == 0)
    ASSERT_I64(LATER_MS, fixture_ms(f, log_nth(f, EV_WORK, 'b', 0)->start_ns));
  ASSERT_STR_EQ("ab", log_string(f, EV_WORK));
  ASSERT_STR_EQ("ab", log_string(f, EV_DONE));
  CHECK_CALL(close_checked(f));
  PASS();
}

/* V7 S2 */
TEST a_task_in_a_movers_hand_is_left_to_the_loop(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (int turn_first = 0; turn_first < 2; turn_first++) {
      unsigned n = 0;

      do {
        CHECK_CALL(move_the_second(n, off_loop, turn_first));
      } while (mover.came && n++ < STEPS_MAX);
      ASSERT(n > 4 && n < STEPS_MAX);
    }
  }
  PASS();
}

SUITE(reject_steps) {
  uv_sem_init(&race.asked, 0);
  uv_sem_init(&race.answered, 0);
  uv_sem_init(&mover.paused, 0);
  uv_sem_init(&mover.go, 0);
  RUN_TEST(a_discarded_submission_is_dropped_or_refused_whatever_comes_between);
  RUN_TEST(a_newcomer_and_the_oldest_each_have_one_end_whatever_comes_between);
  RUN_TEST(what_the_submitter_runs_is_run_once_or_refused_whatever_comes_between);
  RUN_TEST(the_handler_is_asked_once_whatever_comes_between);
  RUN_TEST(a_task_in_a_movers_hand_is_left_to_the_loop);
}

TEST_MAIN(RUN_SUITE(reject_steps));
