/* SPDX-License-Identifier: MIT
 *
 * Something else happens between any two steps around a time limit. As in test_race.c the library
 * is compiled with UVS__STEPS: a scene runs one operation (the turn of the loop that finds the
 * limit passed, a runner from start to end of a body, a finish, a cancel, a forget, a wait), and at
 * its n-th step another thread, or the loop, does something (an act), for every n and every act.
 *
 * Whatever comes between: one `done`, and what any wait was told is what `done` says; a cancel that
 * was answered with a receipt stands, a limit that has settled stands; nothing touches the next
 * task of the slot; the counts add up; no limit is left; the loop closes.
 */
#include <stdlib.h>

#include "scheduler.h"

#include "lib/limited.h"

enum op { OP_TURN, OP_RUN, OP_FINISH, OP_CANCEL, OP_CANCEL_TOKEN, OP_FORGET, OP_WAIT, OP_SETTLED };

struct scene {
  const char *name;
  enum op op;
  bool pending; /* in its run, pending; else it is ready, and the runner is held back */
  bool with_after;
  bool retried;  /* a late run does not settle it, the next one is in time */
  bool periodic; /* a late run settles it, after one in time there is another */
  int how;       /* LATE_... */
  bool on_loop;  /* the body */
};

enum act {
  ACT_CLOCK, /* the clock passes the limit, and nobody looks */
  ACT_CANCEL,
  ACT_CANCEL_TOKEN,
  ACT_FINISH,
  ACT_FORGET,
  ACT_LOOK,
  ACT_SHUTDOWN,
  ACT_SHUTDOWN_NOW,
  ACT_RUN, /* the runner comes for it */
  ACTS_ANYWHERE,
  /* By the loop, which takes a turn with the limit passed, before or after the rest. */
  ACT_LIMIT = ACTS_ANYWHERE,
  ACT_CANCEL_LIMIT,
  ACT_LIMIT_CANCEL,
  ACT_LIMIT_FORGET,
  ACT_LIMIT_FINISH,
  ACT_FINISH_LIMIT,
  ACT_LIMIT_GONE, /* finished, forgotten, and the slot is another's */
  ACT_LIMIT_CLOSE,
  ACTS
};

static const char *const act_names[] = {
    "clock",        "cancel",       "cancel with token", "finish",       "forget",
    "look",         "shutdown",     "shutdown_now",      "run",          "limit",
    "cancel+limit", "limit+cancel", "limit+forget",      "limit+finish", "finish+limit",
    "limit+gone",   "limit+close",
};

static struct race {
  const struct scene *scene;
  struct fixture f;
  uvs_t *s; /* with a reference of ours */
  uvs_task_t spec, other;
  uvs_id_t id;
  enum act act;
  bool by_loop;

  unsigned step, target;
  bool hit;    /* the operation has an n-th step */
  bool acted;  /* there, or when it had gone to sleep */
  bool closed; /* the act did */

  int cancels; /* answered with a receipt */
  int finishes;
  int seen; /* what a wait was told; 1: none was */
  bool wrong, forgotten, other_in;
  int wait_rc; /* of the operation; 1: it was no wait */
  uvs_outcome_t o;
  bool settled_by_limit;

  uv_mutex_t lock;
  uv_cond_t cond;
  bool requested, finished, act_over;
} race;

static _Thread_local bool under_test;

/* -------------------------------------------------------------------- the act --- */

static void saw(int status) {
  race.wrong |= race.seen != 1 && race.seen != status; /* F1: it has changed */
  race.seen = status;
}

static void look(void) {
  uvs_counts_t c = counts_of(race.s);
  uvs_outcome_t o;

  race.wrong |= !adds_up(&c);
  for (unsigned flags = 0; flags <= UVS_WAIT_SETTLED; flags++) {
    int rc = peek(race.s, race.id, flags, &o);

    race.wrong |= rc != 0 && rc != UV_ETIMEDOUT && rc != UV_ENOENT;
    if (rc != 0)
      continue;
    saw(o.status);
    race.wrong |= o.status == 0 && o.result != PRESET && o.result != late_result(race.scene->how);
  }
}

static void cancel(unsigned flags) {
  int rc = uvs_cancel(race.s, race.id, flags);

  race.cancels += rc >= 0;
  race.wrong |= rc >= 0 && race.settled_by_limit;
}

static void finish(void) {
  race.finishes += uvs_finish(race.s, race.id, 0) == 0;
}

static void forget(void) {
  race.forgotten |= uvs_forget(race.s, race.id) == 0;
}

static void pass_limit(void) {
  uint64_t w;

  vclock_advance_to(&race.f.clock, VCLOCK_START_NS + LIMIT_NS);
  uvs_clock_changed(race.s);
  fixture_turn(&race.f);
  /* In its run it is settled now, unless its body was through; and it is not ready any more. */
  w = atomic_load(&uvs__slot(race.s, (uint32_t)race.id & UVS__SLOT_MASK)->word);
  race.wrong |= uvs__word_state(w) == UVS__READY;
  race.wrong |= uvs__word_state(w) == UVS__RUNNING && (w & UVS__INBOX) == 0 && !uvs__settled(w) &&
                (~w & (UVS__PENDING | UVS__FINISHED)) != 0 && /* else its body is over */
                !race.scene->retried;
  race.settled_by_limit |= (w & UVS__LATE) != 0;
  look();
}

/* The slot is given to another task, which no one must touch. */
static void replace(void) {
  finish();
  fixture_turn(&race.f);
  look();
  forget();
  fixture_turn(&race.f);
  race.other_in = uvs_submit(race.s, &race.other, NULL) == 0;
}

static void perform(void) {
  race.acted = true;
  switch (race.act) {
  case ACT_CLOCK:
    vclock_advance_to(&race.f.clock, VCLOCK_START_NS + LIMIT_NS);
    return;
  case ACT_CANCEL:
  case ACT_CANCEL_LIMIT:
    cancel(0);
    break;
  case ACT_CANCEL_TOKEN:
    cancel(UVS_CANCEL_TOKEN);
    break;
  case ACT_FINISH:
  case ACT_FINISH_LIMIT:
    finish();
    break;
  case ACT_FORGET:
    forget();
    break;
  case ACT_SHUTDOWN:
    uvs_shutdown(race.s);
    break;
  case ACT_SHUTDOWN_NOW:
    uvs_shutdown_now(race.s, NULL, NULL);
    break;
  case ACT_RUN:
    fakepool_step();
    break;
  default:
    break;
  }
  if (race.act >= ACTS_ANYWHERE)
    pass_limit();
  if (race.act == ACT_LIMIT_CANCEL)
    cancel(UVS_CANCEL_TOKEN);
  if (race.act == ACT_LIMIT_FINISH)
    finish();
  if (race.act == ACT_LIMIT_FORGET)
    forget();
  if (race.act == ACT_LIMIT_GONE)
    replace();
  if (race.act == ACT_LIMIT_CLOSE)
    race.closed = uvs_close(race.s, note_closed) == 0;
  if (race.closed)
    return; /* the turn that closes our handles would wait for one who is about to use them */
  if (race.act >= ACTS_ANYWHERE)
    fixture_turn(&race.f);
  look();
}

/* Waits for a or b with the lock held. Nothing here takes long unless it takes for ever. */
static void await_either(const bool *a, const bool *b) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;

  while (!*a && !*b) {
    uv_cond_timedwait(&race.cond, &race.lock, (uint64_t)UVS_SEC(1));
    if (!*a && !*b && (int64_t)uv_hrtime() > end_ns) {
      fprintf(stderr, "%s, %s%s at step %u: nobody comes back\n", race.scene->name,
              act_names[race.act], race.by_loop ? " by the loop" : "", race.target);
      abort();
    }
  }
}

static void set_flag(bool *flag) {
  uv_mutex_lock(&race.lock);
  *flag = true;
  uv_cond_broadcast(&race.cond);
  uv_mutex_unlock(&race.lock);
}

static void act_main(void *arg) {
  (void)arg;
  perform();
  set_flag(&race.act_over);
}

static void on_step(void) {
  uv_thread_t thread;

  if (!under_test || race.acted || race.step++ != race.target)
    return;
  under_test = false;
  race.hit = true;
  if (race.by_loop)
    set_flag(&race.requested);
  else if (uv_thread_create(&thread, act_main, NULL) < 0)
    abort();
  uv_mutex_lock(&race.lock);
  await_either(&race.act_over, &race.act_over);
  uv_mutex_unlock(&race.lock);
  if (!race.by_loop)
    uv_thread_join(&thread);
  under_test = true;
}

/* A wait that has reached its sleep: there comes no step any more, so the loop acts now. */
void __real_uv_cond_wait(uv_cond_t *cond, uv_mutex_t *mutex);
void __wrap_uv_cond_wait(uv_cond_t *cond, uv_mutex_t *mutex);
void __wrap_uv_cond_wait(uv_cond_t *cond, uv_mutex_t *mutex) {
  if (under_test)
    set_flag(&race.requested);
  __real_uv_cond_wait(cond, mutex);
}

/* --------------------------------------------------------------- the operation --- */

static void operate(void) {
  under_test = true;
  switch (race.scene->op) {
  case OP_TURN:
    uvs_clock_changed(race.s);
    fixture_turn(&race.f);
    break;
  case OP_RUN:
    fakepool_step();
    break;
  case OP_FINISH:
    finish();
    break;
  case OP_CANCEL:
  case OP_CANCEL_TOKEN: {
    int rc = uvs_cancel(race.s, race.id, race.scene->op == OP_CANCEL ? 0 : UVS_CANCEL_TOKEN);

    race.cancels += rc >= 0; /* it may have been answered before the limit */
    break;
  }
  case OP_FORGET:
    forget();
    break;
  case OP_WAIT:
  case OP_SETTLED:
    uvs_outcome_init(&race.o);
    race.wait_rc = uvs_wait(race.s, race.id, UVS_NEVER,
                            race.scene->op == OP_WAIT ? 0 : UVS_WAIT_SETTLED, &race.o);
    break;
  }
  under_test = false;
}

static void operate_main(void *arg) {
  (void)arg;
  operate();
  set_flag(&race.finished);
}

static void run_operation(void) {
  uv_thread_t thread;

  race.requested = race.finished = race.act_over = false;
  if (race.scene->op == OP_TURN) {
    operate();
    return;
  }
  if (uv_thread_create(&thread, operate_main, NULL) < 0)
    abort();
  uv_mutex_lock(&race.lock);
  if (race.by_loop) {
    await_either(&race.requested, &race.finished);
    if (race.requested && !race.acted) {
      uv_mutex_unlock(&race.lock);
      perform();
      uv_mutex_lock(&race.lock);
      race.act_over = true;
      uv_cond_broadcast(&race.cond);
    }
  }
  await_either(&race.finished, &race.finished);
  uv_mutex_unlock(&race.lock);
  uv_thread_join(&thread);
}

/* -------------------------------------------------------------------- one play --- */

static int in_time_later(struct probe *p, uvs_run_t *run) {
  return run->number == 1 ? p->ret : 0;
}

static enum greatest_test_res set_the_scene(void) {
  const struct scene *c = race.scene;
  struct fixture *f = &race.f;

  fixture_init(f);
  f->pool = FAKEPOOL_INLINE;
  f->options.concurrency = c->on_loop ? 0 : 1;
  CHECK_CALL(fixture_open_turned(f));
  race.s = uvs_retain(f->s);
  race.step = 0;
  race.hit = race.acted = race.closed = race.wrong = race.forgotten = race.other_in = false;
  race.settled_by_limit = false;
  race.cancels = race.finishes = 0;
  race.seen = race.wait_rc = 1;
  race.other = fixture_once(f, 'b', UVS_MS(50));
  race.other.keep = 1;
  race.spec = limited(f, 'a', c->how);
  race.spec.after = c->with_after ? probe_after : NULL;
  probe_of(&race.spec)->act = in_time_later;
  probe_of(&race.spec)->ret = c->pending ? UVS_PENDING : 0;
  if (c->retried) {
    race.spec.failure = UVS_FAIL_RETRY;
    race.spec.retry_ns = UVS_MS(20);
  }
  if (c->periodic) {
    race.spec.kind = UVS_RATE;
    race.spec.period_ns = UVS_MS(30);
    race.spec.max_runs = 2;
  }
  if (!c->pending)
    fakepool_hold();
  ASSERT_RC(0, uvs_submit(f->s, &race.spec, &race.id));
  fixture_turn(f);
  if (c->pending)
    fakepool_hold();
  ASSERT_RC(c->pending ? UVS_RUNNING : UVS_READY, state_of(f->s, race.id));
  vclock_advance_ns(&f->clock, LIMIT_NS - (c->op == OP_TURN ? 0 : 1));
  PASS();
}

static bool acted(enum act a) {
  return race.acted && race.act == a;
}

static enum greatest_test_res check_task(void) {
  const struct scene *c = race.scene;
  struct fixture *f = &race.f;
  int status = log_nth(f, EV_DONE, 'a', 0)->status;
  unsigned runs = log_count(f, EV_WORK, 'a');
  bool passed =
      c->op == OP_TURN || (race.acted && (race.act == ACT_CLOCK || race.act >= ACT_LIMIT));
  bool stopped = acted(ACT_SHUTDOWN_NOW) || race.closed;

  ASSERT_FALSE(race.wrong);
  ASSERT_U64(1, log_count(f, EV_DONE, 'a'));
  ASSERT(log_count(f, EV_AFTER, 'a') <= (c->with_after ? runs : 0));
  if (race.seen != 1)
    ASSERT_RC(race.seen, status);
  if (race.cancels > 0)
    ASSERT_RC(UV_ECANCELED, status);
  else if (!stopped)
    ASSERT(status == 0 || (passed && !c->retried && status == late_status(c->how)));
  if (race.settled_by_limit)
    ASSERT_RC(late_status(c->how), status);
  if (c->pending && c->op == OP_TURN && race.cancels == 0 && !c->retried && !acted(ACT_FINISH))
    ASSERT_RC(late_status(c->how), status); /* nobody could be faster */
  if (!passed && race.cancels == 0 && !stopped)
    ASSERT_U64(c->periodic ? 2 : 1, runs);
  if (c->pending && !c->retried)
    ASSERT_RC(1, race.finishes);
  if (!c->retried)
    ASSERT(runs <= (c->periodic && status == 0 ? 2 : 1));
  for (unsigned i = 0, over = 0; i < log_total(f); i++) {
    const struct event *e = log_nth(f, (enum event_kind)0, 0, i);

    ASSERT(e->tag != 'a' || !over); /* `done` is the last touch */
    over |= e->tag == 'a' && e->what == EV_DONE;
  }
  PASS();
}

static enum greatest_test_res check_counts(void) {
  struct fixture *f = &race.f;
  int how = race.scene->how;
  int status = log_nth(f, EV_DONE, 'a', 0)->status;
  uvs_counts_t n = counts_of(f->s);
  uvs_outcome_t o;

  ASSERT(adds_up(&n));
  ASSERT_U64(1 + race.other_in, n.submitted);
  ASSERT_U64(status == UV_ECANCELED, n.cancelled);
  if (status != 0 || race.settled_by_limit)
    ASSERT_U64(status != UV_ECANCELED, n.timed_out);
  else if (late_status(how) < 0)
    ASSERT_U64(0, n.timed_out);
  ASSERT_U64(0, n.failed + n.waiting + n.ready + n.running + n.runners);
  ASSERT_U64(log_count(f, EV_WORK, 0), n.runs);
  ASSERT_U64(0, f->s->agenda.limits.count);
  ASSERT(uvs__agenda_check(&f->s->agenda));
  ASSERT_RC(race.forgotten ? UV_ENOENT : 0, peek(f->s, race.id, 0, &o));
  if (!race.forgotten) {
    ASSERT_RC(status, o.status);
    ASSERT_EQ(status < 0 ? NULL : n.timed_out == 1 ? late_result(how) : PRESET, o.result);
    if (n.timed_out == 1 && o.runs == 1) /* J7: what is said to have ended in time was in time */
      ASSERT(o.end_ns >= VCLOCK_START_NS + LIMIT_NS);
  }
  PASS();
}

static void check_wait(void) {
  if (race.wait_rc == 1)
    return;
  race.wrong |= race.wait_rc != 0 && !(race.wait_rc == UV_ENOENT && race.forgotten);
  race.wrong |= race.wait_rc == 0 && race.scene->op == OP_WAIT && race.o.state != UVS_ENDED;
  if (race.wait_rc == 0)
    saw(race.o.status);
}

static enum greatest_test_res play_once(void) {
  struct fixture *f = &race.f;

  CHECK_CALL(set_the_scene());
  run_operation();
  check_wait();
  fakepool_release();
  fixture_turn(f);
  if (log_count(f, EV_WORK, 'a') > 0 && log_count(f, EV_DONE, 'a') == 0 && race.scene->pending)
    finish();
  if (race.closed) {
    fixture_turn_until_closed(f);
    f->s = NULL;
  } else {
    fixture_turn(f);
    fixture_advance_ms(f, 100); /* also for a retry, and for the other one */
    look();
    CHECK_CALL(check_counts());
  }
  CHECK_CALL(check_task());
  if (race.other_in) {
    ASSERT_U64(1, log_count(f, EV_WORK, 'b'));
    ASSERT_U64(1, log_count(f, EV_DONE, 'b'));
    ASSERT_RC(0, log_nth(f, EV_DONE, 'b', 0)->status);
  }
  uvs_release(race.s);
  CHECK_CALL(fixture_close(f));
  PASS();
}

/* Which acts make sense in a scene? */
static bool fits(const struct scene *c, enum act act) {
  /* Who sleeps is woken by the loop: by the limit, or when the run is over. */
  if (c->op == OP_SETTLED || c->op == OP_WAIT)
    return act >= ACT_LIMIT && (c->op == OP_SETTLED || !c->pending || act == ACT_LIMIT_FINISH ||
                                act == ACT_FINISH_LIMIT || act == ACT_LIMIT_GONE);
  if (act == ACT_RUN)
    return !c->pending && c->op != OP_RUN;
  if (act == ACT_SHUTDOWN || act == ACT_SHUTDOWN_NOW)
    return !c->retried && !c->periodic;
  if (act == ACT_LIMIT_GONE) /* only if the run is over without the operation */
    return c->op != OP_RUN && c->op != OP_FINISH && !c->retried;
  return true;
}

static enum greatest_test_res play(const struct scene *scene) {
  bool off_loop = scene->op != OP_TURN;
  unsigned steps = 0;

  if (uvs__step_hook == NULL) {
    uv_mutex_init(&race.lock);
    uv_cond_init(&race.cond);
    uvs__step_hook = on_step;
  }
  race.scene = scene;
  for (int by_loop = 0; by_loop <= off_loop; by_loop++) {
    for (int act = 0; act < (by_loop ? ACTS : ACTS_ANYWHERE); act++) {
      if (!fits(scene, (enum act)act))
        continue;
      for (unsigned n = 0;; n++) {
        enum greatest_test_res res;

        race.act = (enum act)act;
        race.by_loop = by_loop != 0;
        race.target = n;
        res = play_once();
        if (res != GREATEST_TEST_RES_PASS) {
          fprintf(stderr, "%s, %s%s at step %u: seen %d, cancels %d, finishes %d\n", scene->name,
                  act_names[act], by_loop ? " by the loop" : "", n, race.seen, race.cancels,
                  race.finishes);
          log_print(&race.f);
          return res;
        }
        if (!race.hit)
          break;
        steps++;
        ASSERT(n < 100000);
      }
    }
  }
  ASSERT(steps > 3);
  PASS();
}

#define PLAY(...) CHECK_CALL(play(&(const struct scene){__VA_ARGS__}))

/* ------------------------------------------------------------------- the scenes --- */

/* F5 F9 F12 J5 */
TEST the_turn_that_finds_the_limit_passed(void) {
  PLAY(.name = "ready", .op = OP_TURN);
  PLAY(.name = "ready, substitute", .op = OP_TURN, .how = LATE_VALUE, .with_after = true);
  PLAY(.name = "ready, retried", .op = OP_TURN, .retried = true);
  PLAY(.name = "pending", .op = OP_TURN, .pending = true, .how = LATE_FAILURE);
  PLAY(.name = "pending, with after", .op = OP_TURN, .pending = true, .with_after = true,
       .how = LATE_VALUE);
  PLAY(.name = "pending, retried", .op = OP_TURN, .pending = true, .retried = true);
  PLAY(.name = "pending on the loop", .op = OP_TURN, .pending = true, .on_loop = true);
  PASS();
}

/* J7 F5 F12b */
TEST a_runner_from_the_start_to_the_end_of_a_body(void) {
  PLAY(.name = "plain", .op = OP_RUN);
  PLAY(.name = "substitute", .op = OP_RUN, .how = LATE_VALUE);
  PLAY(.name = "with after", .op = OP_RUN, .how = LATE_VALUE, .with_after = true);
  PLAY(.name = "with after, failure", .op = OP_RUN, .how = LATE_FAILURE, .with_after = true);
  PLAY(.name = "retried", .op = OP_RUN, .retried = true);
  PLAY(.name = "periodic", .op = OP_RUN, .periodic = true, .how = LATE_FAILURE);
  PLAY(.name = "periodic, with after", .op = OP_RUN, .periodic = true, .with_after = true);
  PASS();
}

/* L14 F5 J7 */
TEST a_finish_against_the_limit(void) {
  PLAY(.name = "plain", .op = OP_FINISH, .pending = true);
  PLAY(.name = "substitute", .op = OP_FINISH, .pending = true, .how = LATE_VALUE);
  PLAY(.name = "with after", .op = OP_FINISH, .pending = true, .with_after = true,
       .how = LATE_FAILURE);
  PLAY(.name = "retried", .op = OP_FINISH, .pending = true, .retried = true);
  PLAY(.name = "periodic", .op = OP_FINISH, .pending = true, .periodic = true);
  PASS();
}

/* F5 F7 F9 F12 */
TEST a_cancel_against_the_limit(void) {
  PLAY(.name = "ready", .op = OP_CANCEL);
  PLAY(.name = "ready, token", .op = OP_CANCEL_TOKEN, .how = LATE_VALUE);
  PLAY(.name = "pending", .op = OP_CANCEL, .pending = true, .how = LATE_VALUE);
  PLAY(.name = "pending, token", .op = OP_CANCEL_TOKEN, .pending = true);
  PLAY(.name = "pending, with after", .op = OP_CANCEL, .pending = true, .with_after = true);
  PLAY(.name = "pending, retried", .op = OP_CANCEL_TOKEN, .pending = true, .retried = true);
  PASS();
}

/* F5 F13 L18 */
TEST a_forget_against_the_limit(void) {
  PLAY(.name = "ready", .op = OP_FORGET);
  PLAY(.name = "pending", .op = OP_FORGET, .pending = true, .how = LATE_VALUE);
  PASS();
}

/* F5 F6 F13 L12: also from its sleep. */
TEST a_wait_against_the_limit(void) {
  PLAY(.name = "settled, ready", .op = OP_SETTLED, .how = LATE_VALUE);
  PLAY(.name = "settled, pending", .op = OP_SETTLED, .pending = true);
  PLAY(.name = "quiet, ready", .op = OP_WAIT, .how = LATE_FAILURE);
  PLAY(.name = "quiet, pending", .op = OP_WAIT, .pending = true, .how = LATE_VALUE);
  PASS();
}

SUITE(limit_steps) {
  RUN_TEST(the_turn_that_finds_the_limit_passed);
  RUN_TEST(a_runner_from_the_start_to_the_end_of_a_body);
  RUN_TEST(a_finish_against_the_limit);
  RUN_TEST(a_cancel_against_the_limit);
  RUN_TEST(a_forget_against_the_limit);
  RUN_TEST(a_wait_against_the_limit);
}

TEST_MAIN(RUN_SUITE(limit_steps));
