/* SPDX-License-Identifier: MIT
 *
 * Something else happens between any two steps of ours. The library is compiled with UVS__STEPS: it
 * calls a hook before each atomic operation that is not inside a lock. A scene runs one operation
 * (a submit, a turn of the loop with its re-arm, a reschedule, a cancel, a finish); at its n-th
 * step the hook stops it and lets another thread, or the loop, do something (an act) and come back.
 * For n = 0, 1, 2 ... until the operation has no n-th step, and for every act: nothing is queued
 * and forgotten, nothing runs against the policy, one `done` each, the counts add up, the loop
 * closes.
 *
 * If a step were inside a lock that the act needs, the act would never come back: after a while the
 * program says so and gives up.
 */
#include <stdlib.h>

#include "atomic.h"

#include "lib/fixture.h"

/* All times are on the virtual clock, in ms since it started. */
enum { DUE_MS = 10, PERIOD_MS = 10, MOVED_MS = 20, SOONER_MS = 5, LATER_MS = 40, END_MS = 100 };

enum op { OP_SUBMIT, OP_TURN, OP_RESCHEDULE, OP_CANCEL, OP_FINISH };

/* The state that the task is brought into first, for a cancel. */
enum state { STATE_WAITING, STATE_READY, STATE_PENDING };

struct scene {
  const char *name;
  enum op op;
  bool off_loop;
  int kind;
  enum state state;
  int concurrency; /* 0: on the loop */
  bool loop_task;
  bool with_after; /* and with `work` */
  bool cold;       /* missed-run policy, jitter: other paths through the same moves */
  bool pending;    /* the first run ends by uvs_finish */
  bool full;       /* a submit that finds no room */
  bool inbox;      /* another thread's task 'x' is on its way already */
  bool survive_delayed, survive_periodic;
};

enum act {
  ACT_SHUTDOWN,
  ACT_SHUTDOWN_NOW,
  ACT_CANCEL,
  ACT_SOONER,
  ACT_LATER,
  ACT_FINISH,
  ACT_SUBMIT,
  ACT_LOOK,
  ACTS_ANYWHERE,
  /* Only by the loop, which then also takes a turn. */
  ACT_TURN = ACTS_ANYWHERE,
  ACT_SHUTDOWN_TURN,
  ACT_SHUTDOWN_NOW_TURN,
  ACT_CANCEL_TURN,
  ACT_CANCEL_TURN_SUBMIT, /* the slot may be somebody else's by now */
  ACT_SOONER_TURN,
  ACTS
};

static const char *const act_names[] = {
    "shutdown",
    "shutdown_now",
    "cancel",
    "sooner",
    "later",
    "finish",
    "submit",
    "look",
    "turn",
    "shutdown+turn",
    "now+turn",
    "cancel+turn",
    "cancel+turn+submit",
    "sooner+turn",
};

static struct race {
  const struct scene *scene;
  struct fixture f;
  uvs_task_t spec, other, x;
  uvs_id_t id;    /* as submit wrote it */
  uvs_id_t guess; /* what it will be: so we can be at a task before its submitter knows it */
  enum act act;
  bool by_loop;

  unsigned step, target;
  bool hit;

  int rc;                /* of the operation */
  int act_rc, submit_rc; /* of the act */
  uint64_t runs_at_act;  /* started when the act was over */
  int64_t act_ms;        /* when was that */
  bool looked_wrong;
  uint64_t submitted_at_start;
  int finishes; /* how many were answered 0 */

  uv_mutex_t lock;
  uv_cond_t cond;
  bool requested, finished, act_over;
} race;

static _Thread_local bool under_test;

/* -------------------------------------------------------------------- the act --- */

static unsigned runs_of(int tag) {
  unsigned after = race.scene->loop_task ? log_count(&race.f, EV_AFTER, tag) : 0;

  return log_count(&race.f, EV_WORK, tag) + after;
}

static void look(void) {
  uvs_counts_t c;
  uvs_info_t info;
  int rc;

  uvs_counts_init(&c);
  uvs_info_init(&info);
  race.looked_wrong |= uvs_counts(race.f.s, &c) != 0;
  race.looked_wrong |= !adds_up(&c);
  if (race.scene->full) /* it is refused in the end: it never counts, S18 */
    race.looked_wrong |= c.submitted != race.submitted_at_start;
  rc = uvs_info(race.f.s, race.guess, &info);
  race.looked_wrong |= rc != 0 && rc != UV_ENOENT;
  race.looked_wrong |=
      rc == 0 && (info.id != race.guess || info.state < UVS_WAITING || info.state > UVS_ENDED);
}

/* Terminated, while somebody is in the middle of a submit that will be refused: S56. */
static void look_at_the_end(void) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  race.looked_wrong |= uvs_counts(race.f.s, &c) != 0;
  race.looked_wrong |= c.waiting + c.ready + c.running != 0;
  race.looked_wrong |= !adds_up(&c);
}

static void perform(void) {
  uvs_t *s = race.f.s;

  race.act_ms = fixture_now_ms(&race.f);
  switch (race.act) {
  case ACT_SHUTDOWN:
  case ACT_SHUTDOWN_TURN:
    race.act_rc = uvs_shutdown(s);
    break;
  case ACT_SHUTDOWN_NOW:
  case ACT_SHUTDOWN_NOW_TURN:
    race.act_rc = uvs_shutdown_now(s, probe_never_ran, NULL);
    break;
  case ACT_CANCEL:
  case ACT_CANCEL_TURN:
  case ACT_CANCEL_TURN_SUBMIT:
    race.act_rc = uvs_cancel(s, race.guess, 0);
    break;
  case ACT_SOONER:
  case ACT_SOONER_TURN:
    race.act_rc = uvs_reschedule(s, race.guess, UVS_MS(SOONER_MS));
    break;
  case ACT_LATER:
    race.act_rc = uvs_reschedule(s, race.guess, UVS_MS(LATER_MS));
    break;
  case ACT_FINISH:
    race.act_rc = uvs_finish(s, race.guess, 0);
    race.finishes += race.act_rc == 0;
    break;
  case ACT_SUBMIT:
    race.submit_rc = uvs_submit(s, &race.other, NULL);
    break;
  case ACT_LOOK:
    look();
    break;
  default:
    break;
  }
  race.runs_at_act = runs_of('a');
  if (race.act >= ACTS_ANYWHERE)
    fixture_turn(&race.f);
  if (uvs_is_terminated(s) == 1)
    look_at_the_end();
  if (race.act == ACT_CANCEL_TURN_SUBMIT)
    race.submit_rc = uvs_submit(s, &race.other, NULL);
}

/* Waits for *flag with the lock held. Nothing here takes long unless it takes for ever. */
static void await_flag(const bool *flag) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;

  while (!*flag) {
    uv_cond_timedwait(&race.cond, &race.lock, (uint64_t)UVS_SEC(1));
    if (!*flag && (int64_t)uv_hrtime() > end_ns) {
      fprintf(stderr, "%s, %s%s at step %u: deadlock, a step is inside a lock\n", race.scene->name,
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

  if (!under_test || race.step++ != race.target)
    return;
  under_test = false;
  race.hit = true;
  if (race.by_loop) {
    set_flag(&race.requested);
  } else if (uv_thread_create(&thread, act_main, NULL) < 0) {
    abort();
  }
  uv_mutex_lock(&race.lock);
  await_flag(&race.act_over);
  uv_mutex_unlock(&race.lock);
  if (!race.by_loop)
    uv_thread_join(&thread);
  under_test = true;
}

/* --------------------------------------------------------------- the operation --- */

static void operate(void) {
  uvs_t *s = race.f.s;

  under_test = true;
  switch (race.scene->op) {
  case OP_SUBMIT:
    race.rc = uvs_submit(s, &race.spec, &race.id);
    break;
  case OP_TURN:
    race.rc = uvs_clock_changed(s);
    fixture_turn(&race.f);
    break;
  case OP_RESCHEDULE:
    race.rc = uvs_reschedule(s, race.id, UVS_MS(MOVED_MS));
    break;
  case OP_CANCEL:
    race.rc = uvs_cancel(s, race.id, 0);
    break;
  case OP_FINISH:
    race.rc = uvs_finish(s, race.id, 0);
    race.finishes += race.rc == 0;
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
  if (!race.scene->off_loop) {
    operate();
    return;
  }
  if (uv_thread_create(&thread, operate_main, NULL) < 0)
    abort();
  uv_mutex_lock(&race.lock);
  if (race.by_loop) {
    while (!race.requested && !race.finished)
      uv_cond_wait(&race.cond, &race.lock);
    if (race.requested) {
      uv_mutex_unlock(&race.lock);
      perform();
      uv_mutex_lock(&race.lock);
      race.act_over = true;
      uv_cond_broadcast(&race.cond);
    }
  }
  await_flag(&race.finished);
  uv_mutex_unlock(&race.lock);
  uv_thread_join(&thread);
}

static void x_main(void *arg) {
  *(int *)arg = uvs_submit(race.f.s, &race.x, NULL);
}

/* So that the loop has not yet seen it. */
static void submit_x_elsewhere(void) {
  uv_thread_t thread;
  int rc = UV_EAGAIN;

  if (uv_thread_create(&thread, x_main, &rc) < 0)
    abort();
  uv_thread_join(&thread);
  if (rc != 0)
    abort();
}

static enum greatest_test_res set_the_scene(void) {
  const struct scene *c = race.scene;
  struct fixture *f = &race.f;

  fixture_init(f);
  f->pool = FAKEPOOL_INLINE;
  f->options.concurrency = c->concurrency;
  f->options.survive_delayed = c->survive_delayed;
  f->options.survive_periodic = c->survive_periodic;
  f->options.max_pending = c->full ? 1 : 0;
  f->options.seed = 1;
  CHECK_CALL(fixture_open(f));
  fixture_turn(f);
  race.id = 0;
  race.rc = race.act_rc = race.submit_rc = UV_EAGAIN;
  race.step = 0;
  race.hit = race.looked_wrong = false;
  race.finishes = 0;
  race.runs_at_act = 0;
  race.act_ms = 0;
  race.spec = c->loop_task ? fixture_loop_task(f, 'a', UVS_MS(DUE_MS))
                           : fixture_once(f, 'a', UVS_MS(DUE_MS));
  race.spec.kind = c->kind;
  race.spec.period_ns = c->kind == UVS_ONCE ? 0 : UVS_MS(PERIOD_MS);
  race.other = fixture_once(f, 'b', UVS_MS(DUE_MS));
  if (c->with_after)
    race.spec.after = probe_after;
  if (c->cold)
    race.spec.name = "cold";
  if (c->cold && c->kind == UVS_RATE)
    race.spec.missed = UVS_MISSED_SKIP;
  if (c->pending || c->state == STATE_PENDING) {
    race.spec.done = probe_done;
    probe_of(&race.spec)->ret = UVS_PENDING;
  }
  race.x = fixture_once(f, 'x', UVS_MS(DUE_MS));
  race.submitted_at_start = c->full || c->inbox;
  if (c->full) {
    ASSERT_RC(0, uvs_submit(f->s, &race.x, NULL));
    fixture_turn(f);
  }
  if (c->op == OP_SUBMIT) {
    if (c->inbox)
      submit_x_elsewhere();
    PASS();
  }

  if (c->state != STATE_WAITING)
    race.spec.delay_ns = 0;
  ASSERT_RC(0, uvs_submit(f->s, &race.spec, &race.id));
  race.guess = race.id;
  if (c->state == STATE_READY)
    fakepool_hold();
  fixture_turn(f);
  if (c->op == OP_TURN) {
    /* Two points late, if some are to be left out. */
    vclock_advance_ns(&f->clock, UVS_MS(race.spec.missed == UVS_MISSED_SKIP ? 35 : DUE_MS));
  }
  PASS();
}

/* -------------------------------------------------------------------- the check --- */

static bool acted(enum act a, enum act b) {
  return race.hit && (race.act == a || race.act == b);
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

static int64_t start_of_run(unsigned n) {
  enum event_kind what = race.scene->loop_task ? EV_AFTER : EV_WORK;

  return fixture_ms(&race.f, log_nth(&race.f, what, 'a', n)->start_ns);
}

/* What the operation and the act answered. */
static enum greatest_test_res check_answers(void) {
  const struct scene *c = race.scene;
  bool shut =
      acted(ACT_SHUTDOWN, ACT_SHUTDOWN_TURN) || acted(ACT_SHUTDOWN_NOW, ACT_SHUTDOWN_NOW_TURN);
  bool cancelled = acted(ACT_CANCEL, ACT_CANCEL_TURN) || acted(ACT_CANCEL_TURN_SUBMIT, ACT_CANCEL);

  switch (c->op) {
  case OP_SUBMIT:
    if (c->full)
      ASSERT(race.rc == UV_EAGAIN || (shut && race.rc == UV_ESHUTDOWN));
    else
      ASSERT(race.rc == 0 || (shut && race.rc == UV_ESHUTDOWN));
    ASSERT(race.rc == 0 ? race.id != 0 : race.id == 0);
    break;
  case OP_TURN:
    ASSERT_RC(0, race.rc);
    break;
  case OP_RESCHEDULE:
    ASSERT(race.rc == 0 || ((cancelled || shut) && race.rc == UV_ENOENT));
    break;
  case OP_CANCEL:
    if (!cancelled && !shut && !(race.hit && race.act == ACT_FINISH))
      ASSERT_RC(c->state == STATE_PENDING ? UVS_RUN_FINISHES : UVS_NEVER_RUNS, race.rc);
    ASSERT(race.rc >= 0 || race.rc == UV_ENOENT);
    break;
  case OP_FINISH:
    ASSERT(race.rc == 0 || (race.hit && race.act == ACT_FINISH && race.rc == UV_ENOENT));
    break;
  }
  if (cancelled)
    ASSERT(race.act_rc >= 0 || race.act_rc == UV_ENOENT);
  if (cancelled && c->op == OP_CANCEL) /* one of the two, and not both, was first */
    ASSERT((race.rc == UVS_NEVER_RUNS) + (race.act_rc == UVS_NEVER_RUNS) ==
           (c->state != STATE_PENDING));
  if (shut)
    ASSERT_RC(0, race.act_rc);
  ASSERT_FALSE(race.looked_wrong);
  PASS();
}

/* How often the task ran, when, and how it ended. */
static enum greatest_test_res check_task(void) {
  const struct scene *c = race.scene;
  struct fixture *f = &race.f;
  bool accepted = c->op != OP_SUBMIT || race.rc == 0;
  bool shut = acted(ACT_SHUTDOWN, ACT_SHUTDOWN_TURN);
  bool now = acted(ACT_SHUTDOWN_NOW, ACT_SHUTDOWN_NOW_TURN);
  bool act_cancelled =
      (acted(ACT_CANCEL, ACT_CANCEL_TURN) || acted(ACT_CANCEL_TURN_SUBMIT, ACT_CANCEL)) &&
      race.act_rc >= 0;
  bool op_cancelled = c->op == OP_CANCEL && race.rc >= 0;
  bool act_moved =
      (acted(ACT_SOONER, ACT_SOONER_TURN) || acted(ACT_LATER, ACT_LATER)) && race.act_rc == 0;
  bool op_moved = c->op == OP_RESCHEDULE && race.rc == 0;
  bool was_due = c->op == OP_TURN || c->state != STATE_WAITING;
  int64_t act_to_ms = race.act_ms + (race.act == ACT_LATER ? LATER_MS : SOONER_MS);
  unsigned runs = runs_of('a');
  int status = log_nth(f, EV_DONE, 'a', 0)->status;

  ASSERT_U64(accepted, log_count(f, EV_DONE, 'a'));
  ASSERT(nothing_after_done('a'));
  if (!accepted) {
    ASSERT_U64(0, runs);
    ASSERT_U64(0, log_count(f, (enum event_kind)0, 'a'));
    PASS();
  }

  if (act_cancelled || op_cancelled)
    ASSERT_RC(UV_ECANCELED, status);
  if (act_cancelled && race.act_rc == UVS_NEVER_RUNS)
    ASSERT_U64(race.runs_at_act, runs);
  if (op_cancelled && race.rc == UVS_NEVER_RUNS)
    ASSERT_U64(0, runs);

  /* Handed back exactly if an immediate shutdown found it, and it never started. */
  if (!act_cancelled && !op_cancelled)
    ASSERT_U64(now && runs == 0, log_count(f, EV_NEVER_RAN, 'a'));

  if (!act_cancelled && !op_cancelled && c->op != OP_FINISH) {
    if (now) {
      /* Who was due may just have been on its way. */
      ASSERT(runs <= race.runs_at_act + (was_due ? 1 : 0));
      ASSERT_RC(c->kind == UVS_ONCE && runs > 0 ? 0 : UV_ECANCELED, status);
    } else if (c->kind == UVS_ONCE) {
      bool runs_once = !shut || c->survive_delayed || was_due;
      ASSERT_U64(runs_once, runs);
      ASSERT_RC(runs_once ? 0 : UV_ECANCELED, status);
    } else if (shut && !c->survive_periodic) {
      ASSERT(runs <= race.runs_at_act + (was_due ? 1 : 0));
      ASSERT_RC(UV_ECANCELED, status);
    } else {
      ASSERT(runs >= 5); /* it goes on until we end it */
      ASSERT_RC(UV_ECANCELED, status);
    }
  }

  /* A move that was answered 0 has moved the next run, unless another one did. */
  if (act_moved && op_moved && runs > 0)
    ASSERT(start_of_run(0) == act_to_ms || start_of_run(0) == MOVED_MS);
  else if (act_moved && runs > race.runs_at_act)
    ASSERT_I64(act_to_ms, start_of_run((unsigned)race.runs_at_act));
  else if (op_moved && runs > 0)
    ASSERT_I64(MOVED_MS, start_of_run(0));
  else if (!act_moved && c->op == OP_SUBMIT && runs > 0)
    ASSERT_I64(DUE_MS, start_of_run(0));

  /* A pending run ends by exactly one finish. */
  if ((c->pending || c->state == STATE_PENDING) && c->kind == UVS_ONCE)
    ASSERT_U64(runs, race.finishes);
  PASS();
}

/* The bystander. */
static enum greatest_test_res check_x(void) {
  const struct scene *c = race.scene;
  bool shut = acted(ACT_SHUTDOWN, ACT_SHUTDOWN_TURN);
  bool now = acted(ACT_SHUTDOWN_NOW, ACT_SHUTDOWN_NOW_TURN);
  bool runs = !now && (!shut || c->survive_delayed);

  if (!c->full && !c->inbox)
    PASS();
  ASSERT_U64(1, log_count(&race.f, EV_DONE, 'x'));
  ASSERT_U64(runs, log_count(&race.f, EV_WORK, 'x'));
  ASSERT_U64(now, log_count(&race.f, EV_NEVER_RAN, 'x'));
  ASSERT_RC(runs ? 0 : UV_ECANCELED, log_nth(&race.f, EV_DONE, 'x', 0)->status);
  ASSERT(nothing_after_done('x'));
  PASS();
}

static enum greatest_test_res check_counts(bool ended) {
  const struct scene *c = race.scene;
  struct fixture *f = &race.f;
  uint64_t accepted = c->op != OP_SUBMIT || race.rc == 0;
  bool other = race.hit && (race.act == ACT_SUBMIT || race.act == ACT_CANCEL_TURN_SUBMIT);
  uvs_counts_t n;

  if (c->full || c->inbox)
    accepted++;
  accepted += other && race.submit_rc == 0;
  uvs_counts_init(&n);
  ASSERT_RC(0, uvs_counts(f->s, &n));
  ASSERT(adds_up(&n));
  ASSERT_U64(accepted, n.submitted);
  ASSERT_U64((c->op == OP_SUBMIT && race.rc < 0) + (other && race.submit_rc < 0), n.rejected);
  ASSERT_U64(runs_of('a') + log_count(f, EV_WORK, 'b') + log_count(f, EV_WORK, 'x'), n.runs);
  ASSERT_U64(0, n.failed);
  if (ended)
    ASSERT_U64(0, n.waiting + n.ready + n.running + n.runners);
  PASS();
}

/* Whatever the first run waits for, let it end. */
static void finish_pending(void) {
  uvs_info_t info;

  for (int i = 0; i < 20; i++) {
    uvs_info_init(&info);
    if (uvs_info(race.f.s, race.guess, &info) < 0 || info.state != UVS_RUNNING)
      return;
    race.finishes += uvs_finish(race.f.s, race.guess, 0) == 0;
    fixture_turn(&race.f);
    fixture_advance_ms(&race.f, 5);
  }
}

static enum greatest_test_res play_once(void) {
  struct fixture *f = &race.f;

  CHECK_CALL(set_the_scene());
  run_operation();
  if (race.scene->state == STATE_READY)
    fakepool_release();
  CHECK_CALL(check_answers());
  CHECK_CALL(check_counts(false));
  fixture_turn(f);
  finish_pending();
  fixture_advance_ms(f, END_MS);
  finish_pending();
  CHECK_CALL(check_counts(false));
  int rc = uvs_shutdown_now(f->s, NULL, NULL);
  ASSERT_RC(acted(ACT_SHUTDOWN_NOW, ACT_SHUTDOWN_NOW_TURN) ? UV_EALREADY : 0, rc);
  fixture_turn(f);
  finish_pending();
  ASSERT_RC(1, uvs_is_terminated(f->s));
  ASSERT_U64(1, log_count(f, EV_TERMINATED, 0));
  CHECK_CALL(check_counts(true));
  ASSERT_RC(EV_TERMINATED,
            log_nth(f, (enum event_kind)0, 0, log_total(f) - 1)->what); /* the last */
  CHECK_CALL(check_task());
  CHECK_CALL(check_x());
  if (race.hit && (race.act == ACT_SUBMIT || race.act == ACT_CANCEL_TURN_SUBMIT) &&
      race.submit_rc == 0) {
    ASSERT_U64(1, log_count(f, EV_WORK, 'b'));
    ASSERT_U64(1, log_count(f, EV_DONE, 'b'));
  }
  CHECK_CALL(fixture_close(f));
  PASS();
}

static enum greatest_test_res play(const struct scene *scene) {
  static bool made;
  unsigned steps = 0;

  if (!made) {
    uv_mutex_init(&race.lock);
    uv_cond_init(&race.cond);
    uvs__step_hook = on_step;
    made = true;
  }
  race.scene = scene;
  /* Once without anybody in between, to learn the id. */
  race.act = ACT_LOOK;
  race.by_loop = false;
  race.target = UINT32_MAX;
  race.guess = 0;
  CHECK_CALL(play_once());
  ASSERT(race.step > 0);
  race.guess = race.id;
  for (int by_loop = 0; by_loop <= scene->off_loop; by_loop++) {
    for (int act = 0; act < (by_loop ? ACTS : ACTS_ANYWHERE); act++) {
      for (unsigned n = 0;; n++) {
        race.act = (enum act)act;
        race.by_loop = by_loop != 0;
        race.target = n;
        enum greatest_test_res res = play_once();
        if (res != GREATEST_TEST_RES_PASS) {
          fprintf(stderr, "%s, %s%s at step %u: answers %d and %d, %d\n", scene->name,
                  act_names[act], by_loop ? " by the loop" : "", n, race.rc, race.act_rc,
                  race.submit_rc);
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
  ASSERT(steps > ACTS_ANYWHERE);
  PASS();
}

#define PLAY(...) CHECK_CALL(play(&(const struct scene){__VA_ARGS__}))

/* ------------------------------------------------------------------- the scenes --- */

/* S68 S56 */
TEST a_submit_off_the_loop_is_refused_or_accepted_whatever_comes_between(void) {
  PLAY(.name = "once, survives", .op = OP_SUBMIT, .off_loop = true, .concurrency = 1,
       .survive_delayed = true);
  PLAY(.name = "once, does not survive", .op = OP_SUBMIT, .off_loop = true, .concurrency = 1);
  PLAY(.name = "rate, survives", .op = OP_SUBMIT, .off_loop = true, .concurrency = 1,
       .kind = UVS_RATE, .survive_periodic = true, .cold = true);
  PLAY(.name = "delay, does not survive", .op = OP_SUBMIT, .off_loop = true, .concurrency = 1,
       .kind = UVS_DELAY);
  PLAY(.name = "loop task", .op = OP_SUBMIT, .off_loop = true, .loop_task = true,
       .survive_delayed = true);
  PLAY(.name = "behind another", .op = OP_SUBMIT, .off_loop = true, .concurrency = 1, .inbox = true,
       .survive_delayed = true);
  PASS();
}

/* S68 */
TEST a_submit_on_the_loop_is_refused_or_accepted_whatever_comes_between(void) {
  PLAY(.name = "once, survives", .op = OP_SUBMIT, .concurrency = 1, .survive_delayed = true);
  PLAY(.name = "once, does not survive", .op = OP_SUBMIT, .concurrency = 1);
  PLAY(.name = "rate, does not survive", .op = OP_SUBMIT, .concurrency = 1, .kind = UVS_RATE,
       .cold = true);
  PLAY(.name = "delay, survives", .op = OP_SUBMIT, .concurrency = 1, .kind = UVS_DELAY,
       .survive_periodic = true);
  PLAY(.name = "behind another", .op = OP_SUBMIT, .concurrency = 1, .inbox = true,
       .survive_delayed = true);
  PASS();
}

/* S68 S18 */
TEST a_submit_that_finds_no_room_never_counts_whatever_comes_between(void) {
  PLAY(.name = "off the loop", .op = OP_SUBMIT, .off_loop = true, .full = true, .concurrency = 1,
       .survive_delayed = true);
  PLAY(.name = "on the loop", .op = OP_SUBMIT, .full = true, .concurrency = 1,
       .survive_delayed = true);
  PASS();
}

/* S68 */
TEST a_one_shot_that_comes_due_runs_once_or_was_cancelled(void) {
  PLAY(.name = "on a runner", .op = OP_TURN, .concurrency = 1);
  PLAY(.name = "on the loop", .op = OP_TURN, .concurrency = 0, .survive_delayed = true);
  PLAY(.name = "loop task", .op = OP_TURN, .concurrency = 1, .loop_task = true);
  PLAY(.name = "with after", .op = OP_TURN, .concurrency = 1, .with_after = true, .cold = true);
  PASS();
}

/* S68 S39 S40 */
TEST the_re_arm_of_a_periodic_task_on_a_runner_follows_the_policy(void) {
  PLAY(.name = "rate, does not survive", .op = OP_TURN, .concurrency = 1, .kind = UVS_RATE);
  PLAY(.name = "delay, survives", .op = OP_TURN, .concurrency = 1, .kind = UVS_DELAY,
       .survive_periodic = true);
  PLAY(.name = "with after", .op = OP_TURN, .concurrency = 1, .kind = UVS_DELAY,
       .with_after = true);
  PLAY(.name = "points left out", .op = OP_TURN, .concurrency = 1, .kind = UVS_RATE, .cold = true);
  PASS();
}

/* S68 S39 S40 */
TEST the_re_arm_of_a_periodic_task_on_the_loop_follows_the_policy(void) {
  PLAY(.name = "rate, survives", .op = OP_TURN, .concurrency = 0, .kind = UVS_RATE,
       .survive_periodic = true);
  PLAY(.name = "delay, does not survive", .op = OP_TURN, .concurrency = 0, .kind = UVS_DELAY);
  PLAY(.name = "loop task", .op = OP_TURN, .concurrency = 1, .kind = UVS_DELAY, .loop_task = true,
       .cold = true);
  PASS();
}

/* S68 L14 */
TEST a_pending_run_ends_once_whatever_comes_between(void) {
  PLAY(.name = "the body's side", .op = OP_TURN, .concurrency = 1, .pending = true,
       .survive_delayed = true);
  PLAY(.name = "the body's side, with after", .op = OP_TURN, .concurrency = 1, .pending = true,
       .with_after = true, .survive_delayed = true);
  PLAY(.name = "finish off the loop", .op = OP_FINISH, .off_loop = true, .state = STATE_PENDING,
       .concurrency = 1);
  PLAY(.name = "finish off the loop, with after", .op = OP_FINISH, .off_loop = true,
       .state = STATE_PENDING, .concurrency = 1, .with_after = true);
  PLAY(.name = "finish of a periodic one", .op = OP_FINISH, .off_loop = true, .kind = UVS_DELAY,
       .state = STATE_PENDING, .concurrency = 1, .survive_periodic = true);
  PLAY(.name = "finish on the loop", .op = OP_FINISH, .state = STATE_PENDING, .concurrency = 1);
  PASS();
}

/* S68 */
TEST a_reschedule_moves_the_task_or_finds_it_gone(void) {
  PLAY(.name = "off the loop", .op = OP_RESCHEDULE, .off_loop = true, .concurrency = 1,
       .survive_delayed = true);
  PLAY(.name = "off the loop, does not survive", .op = OP_RESCHEDULE, .off_loop = true,
       .concurrency = 1);
  PLAY(.name = "off the loop, periodic", .op = OP_RESCHEDULE, .off_loop = true, .concurrency = 1,
       .kind = UVS_RATE, .cold = true);
  PLAY(.name = "on the loop", .op = OP_RESCHEDULE, .concurrency = 1, .survive_delayed = true);
  PLAY(.name = "on the loop, periodic", .op = OP_RESCHEDULE, .concurrency = 1, .kind = UVS_RATE,
       .cold = true, .survive_periodic = true);
  PASS();
}

/* S68 P12 */
TEST a_cancel_gives_one_receipt_and_keeps_its_word(void) {
  PLAY(.name = "waiting, off the loop", .op = OP_CANCEL, .off_loop = true, .concurrency = 1,
       .survive_delayed = true);
  PLAY(.name = "ready, off the loop", .op = OP_CANCEL, .off_loop = true, .concurrency = 1,
       .state = STATE_READY);
  PLAY(.name = "running, off the loop", .op = OP_CANCEL, .off_loop = true, .concurrency = 1,
       .state = STATE_PENDING);
  PLAY(.name = "periodic, off the loop", .op = OP_CANCEL, .off_loop = true, .concurrency = 1,
       .kind = UVS_RATE, .cold = true, .survive_periodic = true);
  PLAY(.name = "waiting, on the loop", .op = OP_CANCEL, .concurrency = 1, .survive_delayed = true);
  PLAY(.name = "ready, on the loop", .op = OP_CANCEL, .concurrency = 1, .state = STATE_READY);
  PASS();
}

/* ---- a clock that is slow to answer: what happens between reading it and using what it said */

static struct slow_clock {
  struct fixture f;
  _Atomic int armed;    /* the next who asks off the loop ... */
  uv_sem_t asked, seen; /* ... tells the loop, and waits until it has turned */
} slow;

static int64_t slow_monotonic(void *arg) {
  int64_t now_ns = vclock_now(arg);
  uv_thread_t self = uv_thread_self();

  if (!uv_thread_equal(&self, &slow.f.loop_thread) && atomic_exchange(&slow.armed, 0)) {
    uv_sem_post(&slow.asked);
    uv_sem_wait(&slow.seen);
  }
  return now_ns;
}

static int64_t slow_wall(void *arg) {
  return vclock_wall(arg);
}

static int arm_slow_clock(struct probe *p, uvs_run_t *run) {
  (void)p;
  (void)run;
  atomic_store(&slow.armed, 1); /* the clock is asked when the body has ended */
  return 0;
}

/* S2 S4 */
TEST a_runner_that_takes_the_next_task_does_not_date_its_start_back(void) {
  struct fixture *f = &slow.f;

  ASSERT_RC(0, uv_sem_init(&slow.asked, 0));
  ASSERT_RC(0, uv_sem_init(&slow.seen, 0));
  fixture_init(f);
  f->pool = FAKEPOOL_REAL;
  f->options.concurrency = 1;
  f->options.budget_ns = UVS_SEC(1);
  f->options.clock = (uvs_clock_t){slow_monotonic, slow_wall, &f->clock};
  CHECK_CALL(fixture_open(f));
  uvs_task_t first = fixture_once(f, 'a', 0);
  uvs_task_t next = fixture_once(f, 'b', UVS_MS(10));
  probe_of(&first)->act = arm_slow_clock;
  ASSERT_RC(0, uvs_submit(f->s, &first, NULL));
  ASSERT_RC(0, uvs_submit(f->s, &next, NULL));
  fixture_turn(f);
  uv_sem_wait(&slow.asked); /* the runner knows the time, and has not yet looked for more */
  fixture_jump_ms(f, 10);   /* now the next is due, and ready for the same runner */
  uv_sem_post(&slow.seen);
  ASSERT(fixture_wait_log(f, EV_DONE, 'b', 1));
  ASSERT_STR_EQ("10", log_runs(f, EV_WORK, 'b'));
  CHECK_CALL(fixture_close(f));
  uv_sem_destroy(&slow.asked);
  uv_sem_destroy(&slow.seen);
  PASS();
}

SUITE(steps) {
  RUN_TEST(a_submit_off_the_loop_is_refused_or_accepted_whatever_comes_between);
  RUN_TEST(a_submit_on_the_loop_is_refused_or_accepted_whatever_comes_between);
  RUN_TEST(a_submit_that_finds_no_room_never_counts_whatever_comes_between);
  RUN_TEST(a_one_shot_that_comes_due_runs_once_or_was_cancelled);
  RUN_TEST(the_re_arm_of_a_periodic_task_on_a_runner_follows_the_policy);
  RUN_TEST(the_re_arm_of_a_periodic_task_on_the_loop_follows_the_policy);
  RUN_TEST(a_pending_run_ends_once_whatever_comes_between);
  RUN_TEST(a_reschedule_moves_the_task_or_finds_it_gone);
  RUN_TEST(a_cancel_gives_one_receipt_and_keeps_its_word);
  RUN_TEST(a_runner_that_takes_the_next_task_does_not_date_its_start_back);
}

TEST_MAIN(RUN_SUITE(steps));
