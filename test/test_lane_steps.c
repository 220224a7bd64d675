/* SPDX-License-Identifier: MIT
 *
 * Something else happens between any two steps of what is done to a lane. As in test_race.c the
 * library is compiled with UVS__STEPS: a scene runs one operation (a submit, a dispose, a cancel, a
 * finish, a reschedule, a runner, a turn of the loop), and at its n-th step another thread, or the
 * loop, does something (an act), for every n and every act.
 *
 * Whatever comes between: each accepted task has one `done`, each refused one nothing, and the
 * refusal is the right one; nothing starts once a dispose has returned; `quiet` comes once, after
 * all of that, and without anybody else waking the loop; the next in turn starts; what may not
 * overlap does not; the counts add up and go back to zero; nothing leaks, and the loop closes.
 */
#include <stdlib.h>

#include "lib/lanes.h"
#include "lib/threads.h"

enum op { OP_SUBMIT, OP_DISPOSE, OP_CANCEL, OP_FINISH, OP_MOVE, OP_RUN, OP_TURN };

/* What the lane has when the operation begins: nothing; one that is due later; one that is the next
 * to start, and one behind it; one that is pending, and one behind it; both on their way. */
enum has { HAS_NOTHING, HAS_WAITING, HAS_READY, HAS_PENDING, HAS_COMING };

struct scene {
  const char *name;
  enum op op;
  enum has has;
  bool on_loop;
  bool loop_task; /* the one behind */
  bool periodic;  /* the first one */
  bool with_after;
  bool without_done;
  uint32_t width; /* 0: 1 */
  bool no_runners;
  bool shut_inside; /* somebody shuts down as soon as the submit counts in the lane */
};

enum act {
  ACT_DISPOSE,
  ACT_DISPOSE_TOKEN,
  ACT_SUBMIT,
  ACT_CANCEL,
  ACT_CANCEL_BEHIND,
  ACT_FINISH,
  ACT_MOVE,
  ACT_SHUTDOWN,
  ACT_SHUTDOWN_NOW,
  ACT_LOOK,
  ACTS_ANYWHERE,
  /* By the loop, which takes a turn, too. */
  ACT_TURN = ACTS_ANYWHERE,
  ACT_DISPOSE_TURN,
  ACT_CANCEL_TURN,
  ACT_FINISH_TURN,
  ACT_GONE, /* all over, the lane too */
  ACT_CLOSE,
  ACTS
};

static const char *const act_names[] = {
    "dispose",
    "dispose with token",
    "submit",
    "cancel",
    "cancel the one behind",
    "finish",
    "move",
    "shutdown",
    "shutdown_now",
    "look",
    "turn",
    "dispose+turn",
    "cancel+turn",
    "finish+turn",
    "gone",
    "close",
};

static struct race {
  const struct scene *scene;
  struct fixture f;
  uvs_t *s; /* with a reference of ours */
  uvs_lane_t lane;
  uvs_task_t first, behind, fresh, other;
  uvs_id_t id, behind_id;
  enum act act;
  bool by_loop;

  unsigned step, target;
  bool hit, acted, closed;

  bool accepted[128]; /* by tag */
  bool cancelled[128];
  int submit_rc; /* of the operation */
  bool shut;     /* a shutdown was called before it returned */
  bool disposed; /* a dispose has returned */
  unsigned runs_at_dispose;
  bool wrong;
  _Atomic int inside;
  bool released;

  uv_mutex_t lock;
  uv_cond_t cond;
  bool requested, finished, act_over;
} race;

static _Thread_local bool under_test;

/* ------------------------------------------------------------- what can be done --- */

static unsigned runs(void) {
  return log_count(&race.f, EV_WORK, 0) + log_count(&race.f, EV_AFTER, 'b');
}

/* In a lane of width 1 nobody else is inside. */
static int act_inside(struct probe *p, uvs_run_t *run) {
  int inside = atomic_fetch_add(&race.inside, 1);

  if (inside > 0 && race.scene->width <= 1)
    race.wrong = true;
  race.wrong |= (run->scheduler == NULL) != (p->tag != 'b');
  atomic_fetch_sub(&race.inside, 1);
  return run->number == 1 ? p->ret : 0;
}

static void dispose(unsigned flags) {
  race.wrong |= uvs_lane_dispose(race.lane, flags) != 0;
  race.wrong |= uvs_lane_is_disposed(race.lane) != 1;
  if (!race.disposed)
    race.runs_at_dispose = runs();
  race.disposed = true;
}

static int submit_one(uvs_task_t *t) {
  int tag = probe_of(t)->tag;
  bool too_late = race.disposed;
  int rc = uvs_lane_submit(race.lane, t, NULL);

  race.accepted[tag] = rc == 0;
  race.wrong |= too_late && rc != UV_ECANCELED && rc != UV_ESHUTDOWN;
  return rc;
}

static void cancel(int tag) {
  int rc = uvs_lane_cancel(race.lane, tag == 'a' ? race.id : race.behind_id, 0);

  race.wrong |= rc < 0 && rc != UV_ENOENT && rc != UV_ESHUTDOWN;
  race.cancelled[tag] |= rc >= 0;
}

static void finish(void) {
  int rc = uvs_lane_finish(race.lane, race.id, 0);

  race.wrong |= rc < 0 && rc != UV_ENOENT && rc != UV_ESHUTDOWN;
}

static void move(void) {
  int rc = uvs_lane_reschedule(race.lane, race.id, UVS_MS(5));

  race.wrong |= rc < 0 && rc != UV_ENOENT && rc != UV_EBUSY && rc != UV_ESHUTDOWN;
}

static void look(void) {
  uvs_counts_t c = counts_of(race.s);

  race.wrong |= !adds_up(&c);
  race.wrong |= uvs_lane_is_disposed(race.lane) < 0;
}

static void release(void) {
  if (!race.released)
    fakepool_release();
  race.released = true;
}

/* -------------------------------------------------------------------- the act --- */

/* The turn that closes our handles waits for who is just about to wake the loop, and that one may
 * be stopped. */
static void turn_if_possible(void) {
  for (int i = 0; i < 20 && atomic_load(&race.s->ticker.senders) == 0; i++)
    uv_run(&race.f.loop, UV_RUN_NOWAIT);
}

static void perform(void) {
  race.acted = true;
  switch (race.act) {
  case ACT_DISPOSE:
  case ACT_DISPOSE_TURN:
    dispose(0);
    break;
  case ACT_DISPOSE_TOKEN:
    dispose(UVS_DISPOSE_TOKEN);
    break;
  case ACT_SUBMIT:
    submit_one(&race.other);
    break;
  case ACT_CANCEL:
  case ACT_CANCEL_TURN:
    cancel('a');
    break;
  case ACT_CANCEL_BEHIND:
    cancel('b');
    break;
  case ACT_FINISH:
  case ACT_FINISH_TURN:
    finish();
    break;
  case ACT_MOVE:
    move();
    break;
  case ACT_SHUTDOWN:
    race.shut = true;
    uvs_shutdown(race.s);
    break;
  case ACT_SHUTDOWN_NOW:
    race.shut = true;
    uvs_shutdown_now(race.s, NULL, NULL);
    break;
  case ACT_GONE:
    release();
    dispose(0);
    finish();
    fixture_turn(&race.f);
    break;
  case ACT_CLOSE:
    if (race.scene->op != OP_RUN) /* which has the one thing that is held */
      release();
    race.shut = true;
    finish();
    race.closed = uvs_close(race.s, note_closed) == 0;
    turn_if_possible();
    return;
  default:
    break;
  }
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

/* Not for whom the lane is gone by then. */
static void shut_inside(void) {
  struct uvs__lane *lane = race.f.s->lanes.all;

  if (race.shut || lane == NULL || (atomic_load(&lane->life) & UVS__LIVE_MASK) == 0)
    return;
  under_test = false;
  race.shut = true;
  uvs_shutdown(race.s);
  under_test = true;
}

static void on_step(void) {
  uv_thread_t thread;

  if (under_test && race.scene->shut_inside)
    shut_inside();
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

/* --------------------------------------------------------------- the operation --- */

static void operate(void) {
  under_test = true;
  switch (race.scene->op) {
  case OP_SUBMIT:
    race.submit_rc = submit_one(&race.fresh);
    break;
  case OP_DISPOSE:
    dispose(0);
    break;
  case OP_CANCEL:
    cancel('a');
    break;
  case OP_FINISH:
    finish();
    break;
  case OP_MOVE:
    move();
    break;
  case OP_RUN:
    fakepool_step();
    break;
  case OP_TURN:
    fixture_turn(&race.f);
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
  if (race.scene->on_loop) {
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

static void add_elsewhere(void *arg) {
  race.wrong |= submit_one(arg) != 0;
}

static enum greatest_test_res add(uvs_task_t *t, bool from_elsewhere, uvs_id_t *ret_id) {
  uv_thread_t thread;

  if (from_elsewhere) {
    ASSERT_RC(0, uv_thread_create(&thread, add_elsewhere, t));
    uv_thread_join(&thread);
    PASS();
  }
  ASSERT_RC(0, uvs_lane_submit(race.lane, t, ret_id));
  race.accepted[probe_of(t)->tag] = true;
  PASS();
}

static uvs_task_t make(int tag, int64_t delay_ns, bool loop_task) {
  uvs_task_t t =
      loop_task ? fixture_loop_task(&race.f, tag, delay_ns) : fixture_once(&race.f, tag, delay_ns);

  probe_of(&t)->act = act_inside;
  if (race.scene->without_done)
    t.done = NULL;
  return t;
}

static enum greatest_test_res set_the_scene(void) {
  const struct scene *c = race.scene;
  struct fixture *f = &race.f;

  fixture_init(f);
  f->pool = FAKEPOOL_INLINE;
  f->options.concurrency = c->no_runners ? 0 : 1;
  CHECK_CALL(fixture_open_turned(f));
  race.s = uvs_retain(f->s);
  CHECK_CALL(open_lane(f, c->width == 0 ? 1 : c->width, &race.lane));
  race.step = 0;
  race.hit = race.acted = race.closed = race.wrong = race.shut = race.disposed = false;
  race.released = c->has != HAS_READY;
  race.submit_rc = 1;
  memset(race.accepted, 0, sizeof race.accepted);
  memset(race.cancelled, 0, sizeof race.cancelled);
  race.first = make('a', c->has == HAS_WAITING ? UVS_MS(10) : 0, false);
  race.behind = make('b', 0, c->loop_task);
  race.fresh = make('n', 0, false);
  race.other = make('x', 0, false);
  race.first.after = c->with_after ? probe_after : NULL;
  probe_of(&race.first)->ret = c->has == HAS_PENDING ? UVS_PENDING : 0;
  if (c->periodic) {
    race.first.kind = UVS_RATE;
    race.first.period_ns = UVS_MS(10);
  }
  race.id = race.behind_id = 0;
  if (c->has == HAS_READY)
    fakepool_hold();
  if (c->has != HAS_NOTHING)
    CHECK_CALL(add(&race.first, c->has == HAS_COMING, &race.id));
  CHECK_CALL(submit(f, 0, 'k', UVS_DAY(1))); /* nobody else is the last that holds the loop */
  race.behind.lane = race.lane;              /* by the other door: it sees its scheduler */
  if (c->has >= HAS_READY) {
    ASSERT_RC(0, uvs_submit(f->s, &race.behind, &race.behind_id));
    race.accepted['b'] = true;
  }
  if (c->has == HAS_COMING) /* what the loop submits takes in the rest */
    ASSERT_RC(0, uvs_clock_changed(f->s));
  else
    fixture_turn(f);
  PASS();
}

static enum greatest_test_res check(void) {
  static const char tags[] = "abnx";
  struct fixture *f = &race.f;
  const struct event *quiet = log_nth(f, EV_USER, 'q', 0);
  bool stopped = race.shut || race.closed;

  ASSERT_FALSE(race.wrong);
  for (const char *tag = tags; *tag != '\0'; tag++) {
    unsigned dones = log_count(f, EV_DONE, *tag);

    ASSERT_U64(race.accepted[(int)*tag] && !race.scene->without_done, dones);
    if (!race.accepted[(int)*tag])
      ASSERT_U64(0, log_count(f, EV_WORK, *tag));
    if (race.cancelled[(int)*tag] && dones > 0)
      ASSERT_RC(UV_ECANCELED, log_nth(f, EV_DONE, *tag, 0)->status);
  }
  if (race.submit_rc != 1)
    ASSERT(race.submit_rc == 0 || race.submit_rc == (stopped ? UV_ESHUTDOWN : UV_ECANCELED) ||
           race.submit_rc == UV_ECANCELED);
  if (race.submit_rc == UV_ECANCELED)
    ASSERT(race.disposed || race.closed);
  ASSERT_U64(1, log_count(f, EV_USER, 'q'));
  for (unsigned i = 0; i < log_total(f); i++) {
    const struct event *e = log_nth(f, (enum event_kind)0, 0, i);

    ASSERT(e <= quiet || e->tag == 'c' || e->tag == 't' || e->tag == 'k');
  }
  PASS();
}

/* Nobody but those who played has woken the loop. */
static enum greatest_test_res check_promptness(void) {
  const struct scene *c = race.scene;
  struct fixture *f = &race.f;

  if (race.closed || race.shut)
    PASS();
  if (race.disposed && c->has <= HAS_WAITING)
    ASSERT_U64(1, log_count(f, EV_USER, 'q'));
  if (race.disposed) /* one may just have been on its way into its body */
    ASSERT(runs() <= race.runs_at_dispose + (c->op == OP_RUN || c->op == OP_TURN));
  if (!race.disposed && c->has == HAS_READY && c->loop_task && race.cancelled['a'] &&
      !race.cancelled['b'])
    ASSERT_U64(1, log_count(f, EV_AFTER, 'b'));
  if (!race.disposed && c->op == OP_FINISH && !race.cancelled['b'])
    ASSERT_U64(1, runs() - log_count(f, EV_WORK, 'a') - log_count(f, EV_WORK, 'x'));
  PASS();
}

static enum greatest_test_res play_once(void) {
  struct fixture *f = &race.f;

  CHECK_CALL(set_the_scene());
  run_operation();
  if (!race.closed)
    fixture_turn(f);
  CHECK_CALL(check_promptness());
  release();
  if (!race.closed) {
    fixture_turn(f);
    finish();
    fixture_advance_ms(f, 25);
    if (race.disposed)
      ASSERT(race.shut || runs() <= race.runs_at_dispose +
                                        (race.scene->op == OP_RUN || race.scene->op == OP_TURN));
    dispose(0);
    fixture_turn(f);
    look();
    CHECK_CALL(lanes_left(f, 0));
    CHECK_CALL(pool_is_idle(f));
    CHECK_CALL(check());
  } else {
    finish();
    fixture_turn_until_closed(f);
    f->s = NULL;
    race.wrong |= uvs_lane_is_disposed(race.lane) != 1;
    CHECK_CALL(check());
  }
  uvs_release(race.s);
  CHECK_CALL(fixture_close(f));
  PASS();
}

static bool fits(const struct scene *c, enum act act) {
  switch (act) {
  case ACT_CANCEL:
  case ACT_CANCEL_TURN:
  case ACT_MOVE:
    return c->has != HAS_NOTHING && c->has != HAS_COMING;
  case ACT_CANCEL_BEHIND:
    return c->has == HAS_READY || c->has == HAS_PENDING;
  case ACT_FINISH:
  case ACT_FINISH_TURN:
    return c->has == HAS_PENDING;
  case ACT_GONE: /* only if it is over without the operation */
    return c->op != OP_RUN && c->op != OP_FINISH && c->op != OP_SUBMIT;
  default:
    return true;
  }
}

static enum greatest_test_res play(const struct scene *scene) {
  unsigned steps = 0;

  if (uvs__step_hook == NULL) {
    uv_mutex_init(&race.lock);
    uv_cond_init(&race.cond);
    uvs__step_hook = on_step;
  }
  race.scene = scene;
  for (int by_loop = 0; by_loop <= !scene->on_loop; by_loop++) {
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
          fprintf(stderr, "%s, %s%s at step %u: submit %d, disposed %d, runs then %u\n",
                  scene->name, act_names[act], by_loop ? " by the loop" : "", n, race.submit_rc,
                  race.disposed, race.runs_at_dispose);
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

/* R18 */
TEST a_submit_to_a_lane(void) {
  PLAY(.name = "off the loop", .op = OP_SUBMIT);
  PLAY(.name = "off the loop, without done", .op = OP_SUBMIT, .without_done = true);
  PLAY(.name = "off the loop, full", .op = OP_SUBMIT, .has = HAS_PENDING);
  PLAY(.name = "on the loop", .op = OP_SUBMIT, .on_loop = true);
  PLAY(.name = "shut down inside", .op = OP_SUBMIT, .shut_inside = true);
  PASS();
}

/* R15 R17 R23 */
TEST a_dispose(void) {
  PLAY(.name = "nothing", .op = OP_DISPOSE);
  PLAY(.name = "waiting", .op = OP_DISPOSE, .has = HAS_WAITING);
  PLAY(.name = "waiting, without done", .op = OP_DISPOSE, .has = HAS_WAITING, .without_done = true);
  PLAY(.name = "ready", .op = OP_DISPOSE, .has = HAS_READY);
  PLAY(.name = "ready, loop task behind", .op = OP_DISPOSE, .has = HAS_READY, .loop_task = true);
  PLAY(.name = "pending", .op = OP_DISPOSE, .has = HAS_PENDING, .loop_task = true);
  PLAY(.name = "coming", .op = OP_DISPOSE, .has = HAS_COMING, .without_done = true);
  PLAY(.name = "nothing, on the loop", .op = OP_DISPOSE, .on_loop = true);
  PLAY(.name = "ready, on the loop", .op = OP_DISPOSE, .has = HAS_READY, .on_loop = true);
  PLAY(.name = "pending, on the loop", .op = OP_DISPOSE, .has = HAS_PENDING, .on_loop = true);
  PLAY(.name = "coming, on the loop", .op = OP_DISPOSE, .has = HAS_COMING, .on_loop = true);
  PASS();
}

/* R17 R19 R23 R34 */
TEST a_cancel_of_a_task_of_a_lane(void) {
  PLAY(.name = "waiting", .op = OP_CANCEL, .has = HAS_WAITING);
  PLAY(.name = "waiting, without done", .op = OP_CANCEL, .has = HAS_WAITING, .without_done = true);
  PLAY(.name = "ready", .op = OP_CANCEL, .has = HAS_READY, .without_done = true);
  PLAY(.name = "ready, loop task behind", .op = OP_CANCEL, .has = HAS_READY, .loop_task = true);
  PLAY(.name = "ready, loop task behind, without done", .op = OP_CANCEL, .has = HAS_READY,
       .loop_task = true, .without_done = true);
  PLAY(.name = "pending", .op = OP_CANCEL, .has = HAS_PENDING);
  PLAY(.name = "ready, loop task behind, on the loop", .op = OP_CANCEL, .has = HAS_READY,
       .loop_task = true, .without_done = true, .on_loop = true);
  PASS();
}

TEST a_reschedule_of_a_task_of_a_lane(void) {
  PLAY(.name = "waiting", .op = OP_MOVE, .has = HAS_WAITING);
  PLAY(.name = "periodic, without done", .op = OP_MOVE, .has = HAS_WAITING, .periodic = true,
       .without_done = true);
  PASS();
}

/* L14 */
TEST a_finish_of_a_task_of_a_lane(void) {
  PLAY(.name = "pool task behind", .op = OP_FINISH, .has = HAS_PENDING);
  PLAY(.name = "loop task behind", .op = OP_FINISH, .has = HAS_PENDING, .loop_task = true);
  PLAY(.name = "with after", .op = OP_FINISH, .has = HAS_PENDING, .with_after = true);
  PLAY(.name = "periodic", .op = OP_FINISH, .has = HAS_PENDING, .periodic = true,
       .without_done = true, .loop_task = true);
  PLAY(.name = "on the loop", .op = OP_FINISH, .has = HAS_PENDING, .loop_task = true,
       .on_loop = true, .without_done = true);
  PLAY(.name = "no runners", .op = OP_FINISH, .has = HAS_PENDING, .no_runners = true);
  PASS();
}

/* R1 R16 R23 */
TEST a_runner_in_a_lane(void) {
  PLAY(.name = "two", .op = OP_RUN, .has = HAS_READY);
  PLAY(.name = "two, without done", .op = OP_RUN, .has = HAS_READY, .without_done = true);
  PLAY(.name = "loop task behind", .op = OP_RUN, .has = HAS_READY, .loop_task = true);
  PLAY(.name = "wide, loop task behind", .op = OP_RUN, .has = HAS_READY, .loop_task = true,
       .width = 2);
  PLAY(.name = "with after", .op = OP_RUN, .has = HAS_READY, .with_after = true);
  PLAY(.name = "periodic", .op = OP_RUN, .has = HAS_READY, .periodic = true, .loop_task = true);
  PASS();
}

/* R15 R23 */
TEST a_turn_of_the_loop_with_lanes(void) {
  PLAY(.name = "coming", .op = OP_TURN, .has = HAS_COMING, .on_loop = true);
  PLAY(.name = "coming, loop task behind", .op = OP_TURN, .has = HAS_COMING, .on_loop = true,
       .loop_task = true, .without_done = true, .with_after = true);
  PLAY(.name = "coming, periodic", .op = OP_TURN, .has = HAS_COMING, .on_loop = true,
       .periodic = true);
  PLAY(.name = "coming, no runners", .op = OP_TURN, .has = HAS_COMING, .on_loop = true,
       .no_runners = true, .loop_task = true);
  PASS();
}

/* ---- one who does not join after all, and everything ends meanwhile ---- */

static struct parting {
  struct fixture f;
  uvs_lane_t lane;
  uvs_task_t specs[2];
  uv_sem_t stopped, go;
  unsigned step, target;
  long allocations; /* so many succeed */
  bool hit, failed;
} parting;

static void parting_step(void) {
  if (!under_test || parting.step++ != parting.target)
    return;
  under_test = false;
  parting.hit = true;
  uv_sem_post(&parting.stopped);
  uv_sem_wait(&parting.go);
  under_test = true;
}

/* The second finds no memory, so the first leaves the lane again. */
static void submit_both(void *rc) {
  under_test = true;
  *(int *)rc = uvs_submit_many(parting.f.s, parting.specs, 2, NULL);
  under_test = false;
  if (!parting.hit)
    uv_sem_post(&parting.stopped);
}

static int dispose_it(void *lane) {
  return uvs_lane_dispose(*(uvs_lane_t *)lane, 0);
}

static enum greatest_test_res part_at(unsigned target) {
  struct fixture *f = &parting.f;
  uv_thread_t thread;
  uvs_t *s;
  int rc = 0;

  fixture_init(f);
  CHECK_CALL(fixture_open_turned(f));
  s = uvs_retain(f->s);
  ASSERT_RC(0, uvs_lane_open(f->s, NULL, &parting.lane));
  for (int i = 0; i < 2; i++) {
    parting.specs[i] = fixture_once(f, 'a', UVS_DAY(1));
    parting.specs[i].lane = parting.lane;
    ASSERT_RC(0, uvs_submit(f->s, &parting.specs[i], NULL)); /* makes room for both */
  }
  parting.specs[1].limit_ns = UVS_DAY(2); /* which needs more */
  parting.step = 0;
  parting.target = target;
  parting.hit = false;
  fault_after(parting.allocations);
  ASSERT_RC(0, uv_thread_create(&thread, submit_both, &rc));
  uv_sem_wait(&parting.stopped);
  if (parting.hit) {
    ASSERT_RC(0, elsewhere(dispose_it, &parting.lane)); /* somebody else tells the loop to look */
    fixture_turn(f);
    ASSERT_RC(0, uvs_close(f->s, note_closed));
    if (atomic_load(&s->ticker.senders) == 0) /* else the end waits for him */
      fixture_turn_until_closed(f);
    uv_sem_post(&parting.go);
  }
  uv_thread_join(&thread);
  parting.failed = fault_hit();
  ASSERT(rc == (parting.failed ? UV_ENOMEM : 0) ||
         (parting.hit && (rc == UV_ECANCELED || rc == UV_ESHUTDOWN)));
  if (!parting.hit)
    ASSERT_RC(0, uvs_close(f->s, note_closed));
  fixture_turn_until_closed(f);
  f->s = NULL;
  ASSERT_U64(1, log_count(f, EV_USER, 'c'));
  uvs_release(s);
  CHECK_CALL(fixture_close(f)); /* nobody holds the lane, and so the scheduler, for ever */
  PASS();
}

/* R18 R23 L2 */
TEST one_who_does_not_join_keeps_nothing_alive(void) {
  void (*hook)(void) = uvs__step_hook;

  ASSERT_RC(0, uv_sem_init(&parting.stopped, 0));
  ASSERT_RC(0, uv_sem_init(&parting.go, 0));
  uvs__step_hook = parting_step;
  for (parting.allocations = 0;; parting.allocations++) {
    unsigned n = 0;

    do {
      enum greatest_test_res res = part_at(n++);

      if (res != GREATEST_TEST_RES_PASS) {
        fprintf(stderr, "after %ld allocations, at step %u\n", parting.allocations, n - 1);
        return res;
      }
    } while (parting.hit);
    ASSERT(n > 10);
    if (!parting.failed)
      break;
  }
  uvs__step_hook = hook;
  uv_sem_destroy(&parting.stopped);
  uv_sem_destroy(&parting.go);
  PASS();
}

SUITE(lane_steps) {
  RUN_TEST(a_submit_to_a_lane);
  RUN_TEST(a_dispose);
  RUN_TEST(a_cancel_of_a_task_of_a_lane);
  RUN_TEST(a_reschedule_of_a_task_of_a_lane);
  RUN_TEST(a_finish_of_a_task_of_a_lane);
  RUN_TEST(a_runner_in_a_lane);
  RUN_TEST(a_turn_of_the_loop_with_lanes);
  RUN_TEST(one_who_does_not_join_keeps_nothing_alive);
}

TEST_MAIN(RUN_SUITE(lane_steps));
