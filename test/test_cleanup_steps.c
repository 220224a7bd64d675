/* SPDX-License-Identifier: MIT
 *
 * Something is attached between any two steps of a submit, a run, a cancel, a finish, a limit, a
 * dispose or a close; and any of these happens between any two steps of an attach. As in
 * test_race.c the library is compiled with UVS__STEPS: a scene runs one operation, and at its n-th
 * step another thread, or the loop, does something (an act), for every n and every act.
 *
 * Whatever comes between: what was answered with 0 is called once, without anybody looking at the
 * clock; not before its time; before `done` if the task had not ended when it was attached; and
 * nothing is left on any list (R23).
 */
#include <stdlib.h>

#include "uvsched/lane.h"

#include "scheduler.h"

#include "lib/cleanups.h"
#include "lib/limited.h"

enum op {
  OP_SUBMIT,
  OP_TURN, /* of the loop, with the clock where the limit is */
  OP_RUN,  /* a runner from the start of a body to its end */
  OP_FINISH,
  OP_CANCEL,
  OP_DISPOSE,
  OP_CLOSE,
  OP_ATTACH,
  OP_ATTACH_SETTLED
};

enum state { WAITING, READY, PENDING, CANCELLED, OVER };

struct scene {
  const char *name;
  enum op op;
  enum state state; /* into which it is brought first */
  bool on_loop;     /* the operation */
  bool light;       /* no `done`, no cold record */
  bool limited;
  bool kept;
  bool with_after;
  bool periodic;
  bool fails;
  bool laned;
  bool to_lane;  /* what is attached, is attached to the lane */
  bool attached; /* one of each kind is there from the start */
};

enum act {
  ACT_ATTACH,
  ACT_ATTACH_SETTLED,
  ACT_ATTACH_CANCEL,
  ACT_CANCEL_ATTACH,
  ACT_FINISH,
  ACT_FINISH_ATTACH,
  ACT_RUN,
  ACT_RUN_ATTACH,
  ACT_SHUTDOWN,
  ACT_ATTACH_SHUTDOWN, /* what is being submitted is refused */
  ACT_SHUTDOWN_NOW_ATTACH,
  ACT_FORGET,
  ACT_DISPOSE,
  ACT_ATTACH_DISPOSE,
  ACTS_ANYWHERE,
  /* By the loop, which then takes a turn. */
  ACT_TURN = ACTS_ANYWHERE,
  ACT_ATTACH_TURN,
  ACT_ATTACH_SETTLED_TURN,
  ACT_CANCEL_TURN,
  ACT_CANCEL_ATTACH_TURN,
  ACT_LIMIT_TURN,
  ACT_ATTACH_LIMIT_TURN,
  ACT_DISPOSE_TURN,
  ACT_GONE, /* it ends, and the slot is another's, who has one attached as well */
  ACT_CLOSE,
  ACTS
};

static const char *const act_names[] = {
    "attach",
    "attach settled",
    "attach+cancel",
    "cancel+attach",
    "finish",
    "finish+attach",
    "run",
    "run+attach",
    "shutdown",
    "attach+shut",
    "now+attach",
    "forget",
    "dispose",
    "attach+dispose",
    "turn",
    "attach+turn",
    "settled+turn",
    "cancel+turn",
    "cancel+att+turn",
    "limit+turn",
    "att+limit",
    "dispose+turn",
    "gone",
    "close",
};

enum { NOTES = 12 };

/* One that was attached. */
struct action {
  int tag;
  uvs_id_t id;
  bool settled, of_lane;
  int rc;
  bool in_time; /* the task had not ended when it was there */
  int calls;
  bool early; /* called before its time */
};

static struct race {
  const struct scene *scene;
  struct fixture f;
  uvs_t *s; /* with a reference of ours */
  uvs_task_t spec, other, bystander;
  uvs_lane_t lane;
  uvs_id_t id;
  uvs_id_t guess; /* what it will be */
  enum act act;
  bool by_loop;

  unsigned step, target;
  bool hit;
  bool stepped; /* the runner was */
  bool closed;
  int op_rc;
  struct action actions[NOTES];
  _Atomic int used;

  uv_mutex_t lock;
  uv_cond_t cond;
  bool requested, finished, act_over;
} race;

static _Thread_local bool under_test;

/* 0 if its slot was not yet made. */
static uint64_t word_now(uvs_id_t id) {
  uint32_t slot = (uint32_t)id & UVS__SLOT_MASK;

  if (slot >= uvs__slab_made(&race.s->agenda.slots))
    return 0;
  return atomic_load(&uvs__slot(race.s, slot)->word);
}

/* Is it still that task, and not over? */
static bool lives(uvs_id_t id, uint64_t w) {
  return uvs__word_generation(w) == id >> UVS__SLOT_BITS && uvs__word_state(w) != UVS__FREE &&
         uvs__word_state(w) != UVS__OVER;
}

/* The runners stay where they are. */
static void hold(void) {
  if (!fakepool_held())
    fakepool_hold();
}

static void release(void) {
  if (fakepool_held())
    fakepool_release();
}

static void step_runner(void) {
  race.stepped = true;
  fakepool_step();
}

/* ---------------------------------------------------------------- attach --- */

static bool lane_is_quiet(void) {
  return log_count(&race.f, EV_NEVER_RAN, 'Q') > 0;
}

/* Of the lane: not before it is disposed, and the last of its tasks over. */
static bool lane_too_early(const struct action *a) {
  return uvs_lane_is_disposed(race.lane) != 1 ||
         (!a->settled && race.scene->laned && lives(race.id, word_now(race.id)));
}

static void called(uvs_t *s, void *arg) {
  struct action *a = arg;
  uint64_t w = word_now(a->id);

  (void)s;
  a->calls++;
  if (a->of_lane)
    a->early |= lane_too_early(a);
  else
    a->early |= lives(a->id, w) && !(a->settled ? uvs__settled(w) : uvs__quiet(w));
  log_add(&race.f, EV_USER, a->tag, a->id, 0);
}

static int attach_to_lane(struct action *a) {
  a->of_lane = true;
  a->rc = uvs_lane_add_cleanup(race.s, race.lane, called, a, a->settled ? UVS_WHEN_SETTLED : 0);
  return a->rc;
}

static int attach_to(uvs_id_t id, bool settled) {
  int n = atomic_fetch_add(&race.used, 1);
  struct action *a = &race.actions[n];
  uint64_t w;

  if (n >= NOTES)
    abort();
  *a = (struct action){.tag = '0' + n, .id = id, .settled = settled};
  if (race.scene->to_lane)
    return attach_to_lane(a);
  a->rc = uvs_add_cleanup(race.s, id, called, a, settled ? UVS_WHEN_SETTLED : 0);
  w = word_now(id);
  a->in_time = a->rc == 0 && lives(id, w) && uvs__word_state(w) != UVS__ENDED;
  return a->rc;
}

static uvs_id_t target_id(void) {
  return race.scene->op == OP_SUBMIT ? race.guess : race.id;
}

/* -------------------------------------------------------------------- the act --- */

static void finish(void) {
  uvs_finish(race.s, target_id(), race.scene->fails ? UV_EIO : 0);
}

/* It ends and is forgotten; its slot is given to another. */
static void replace(void) {
  uvs_id_t id;

  uvs_cancel(race.s, target_id(), 0);
  finish();
  fixture_turn(&race.f);
  if (race.scene->kept)
    uvs_forget(race.s, target_id());
  fixture_turn(&race.f);
  if (uvs_submit(race.s, &race.other, &id) == 0)
    attach_to(id, false);
}

static void act_first(void) {
  switch (race.act) {
  case ACT_ATTACH:
  case ACT_ATTACH_CANCEL:
  case ACT_ATTACH_SHUTDOWN:
  case ACT_ATTACH_DISPOSE:
  case ACT_ATTACH_TURN:
  case ACT_ATTACH_LIMIT_TURN:
    attach_to(target_id(), false);
    if (race.act == ACT_ATTACH_LIMIT_TURN || race.act == ACT_ATTACH_CANCEL)
      attach_to(target_id(), true);
    break;
  case ACT_ATTACH_SETTLED:
  case ACT_ATTACH_SETTLED_TURN:
    attach_to(target_id(), true);
    break;
  case ACT_CANCEL_ATTACH:
  case ACT_CANCEL_TURN:
  case ACT_CANCEL_ATTACH_TURN:
    uvs_cancel(race.s, target_id(), 0);
    break;
  case ACT_FINISH:
  case ACT_FINISH_ATTACH:
    finish();
    break;
  case ACT_RUN:
  case ACT_RUN_ATTACH:
    step_runner();
    break;
  case ACT_SHUTDOWN:
    uvs_shutdown(race.s);
    break;
  case ACT_SHUTDOWN_NOW_ATTACH:
    uvs_shutdown_now(race.s, NULL, NULL);
    break;
  case ACT_FORGET:
    uvs_forget(race.s, target_id());
    break;
  case ACT_DISPOSE:
  case ACT_DISPOSE_TURN:
    uvs_lane_dispose(race.lane, 0);
    break;
  case ACT_LIMIT_TURN:
    break;
  case ACT_GONE:
    replace();
    break;
  case ACT_CLOSE:
    race.closed = uvs_close(race.s, note_closed) == 0;
    break;
  default:
    break;
  }
}

static void act_then(void) {
  switch (race.act) {
  case ACT_ATTACH_CANCEL:
    uvs_cancel(race.s, target_id(), 0);
    break;
  case ACT_CANCEL_ATTACH:
  case ACT_CANCEL_ATTACH_TURN:
    attach_to(target_id(), true);
    attach_to(target_id(), false);
    break;
  case ACT_FINISH_ATTACH:
  case ACT_RUN_ATTACH:
  case ACT_SHUTDOWN_NOW_ATTACH:
    attach_to(target_id(), false);
    break;
  case ACT_ATTACH_SHUTDOWN:
    uvs_shutdown(race.s);
    break;
  case ACT_ATTACH_DISPOSE:
    uvs_lane_dispose(race.lane, 0);
    break;
  case ACT_LIMIT_TURN:
  case ACT_ATTACH_LIMIT_TURN:
    vclock_advance_to(&race.f.clock, VCLOCK_START_NS + LIMIT_NS);
    uvs_clock_changed(race.s);
    break;
  default:
    break;
  }
}

static void perform(void) {
  act_first();
  act_then();
  /* With a close, the turn that closes our handles would wait for one who is about to use them. */
  if (race.act >= ACTS_ANYWHERE && !race.closed)
    fixture_turn(&race.f);
}

/* Waits for *flag with the lock held. Nothing here takes long unless it takes for ever. */
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

  if (!under_test || race.step++ != race.target)
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

/* Before each lock of the library's there is a step, too: most of what is attached is under one. */
void __real_uv_mutex_lock(uv_mutex_t *mutex);
void __wrap_uv_mutex_lock(uv_mutex_t *mutex);
void __wrap_uv_mutex_lock(uv_mutex_t *mutex) {
  if (under_test && mutex == &race.s->pool.lock)
    on_step();
  __real_uv_mutex_lock(mutex);
}

/* --------------------------------------------------------------- the operation --- */

static void operate(void) {
  under_test = true;
  switch (race.scene->op) {
  case OP_SUBMIT:
    race.op_rc = uvs_submit(race.s, &race.spec, &race.id);
    break;
  case OP_TURN:
    uvs_clock_changed(race.s);
    fixture_turn(&race.f);
    break;
  case OP_RUN:
    step_runner();
    break;
  case OP_FINISH:
    finish();
    break;
  case OP_CANCEL:
    uvs_cancel(race.s, race.id, 0);
    break;
  case OP_DISPOSE:
    uvs_lane_dispose(race.lane, 0);
    break;
  case OP_CLOSE:
    race.closed = uvs_close(race.s, note_closed) == 0;
    release();
    finish();
    fixture_turn_until_closed(&race.f);
    break;
  case OP_ATTACH:
  case OP_ATTACH_SETTLED:
    race.op_rc = attach_to(race.id, race.scene->op == OP_ATTACH_SETTLED);
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
    if (race.requested) {
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

static void make_specs(void) {
  const struct scene *c = race.scene;
  struct fixture *f = &race.f;

  race.other = fixture_once(f, 'b', UVS_DAY(1));
  race.bystander = fixture_once(f, 'z', UVS_DAY(1));
  race.spec = fixture_once(f, 'a', c->state == WAITING ? UVS_DAY(1) : 0);
  race.spec.done = c->light ? NULL : probe_done;
  race.spec.after = c->with_after ? probe_after : NULL;
  race.spec.keep = c->kept;
  race.spec.limit_ns = c->limited ? LIMIT_NS : 0;
  race.spec.lane = c->laned ? race.lane : 0;
  if (c->periodic) {
    race.spec.kind = UVS_DELAY;
    race.spec.period_ns = UVS_DAY(1);
  }
  probe_of(&race.spec)->ret = c->state == PENDING || c->state == CANCELLED ? UVS_PENDING
                              : c->fails                                   ? UV_EIO
                                                                           : 0;
}

static void log_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s;
  log_add(arg, EV_NEVER_RAN, 'Q', lane, 0);
}

static enum greatest_test_res set_the_scene(void) {
  const struct scene *c = race.scene;
  struct fixture *f = &race.f;
  uvs_lane_options_t o;

  fixture_init(f);
  f->pool = FAKEPOOL_INLINE;
  f->options.concurrency = 1;
  f->options.survive_delayed = 1;
  CHECK_CALL(fixture_open_turned(f));
  race.s = uvs_retain(f->s);
  race.step = 0;
  race.hit = race.closed = race.stepped = false;
  race.op_rc = 0;
  race.id = 0;
  atomic_store(&race.used, 0);
  uvs_lane_options_init(&o);
  o.quiet = log_quiet;
  o.arg = f;
  ASSERT_RC(0, uvs_lane_open(f->s, &o, &race.lane));
  make_specs();
  /* So that none is the last of all, for which the loop is woken anyway. */
  ASSERT_RC(0, uvs_submit(f->s, &race.bystander, NULL));
  fixture_turn(f);
  if (c->op == OP_SUBMIT)
    PASS();
  if (c->state == READY)
    hold();
  ASSERT_RC(0, uvs_submit(f->s, &race.spec, &race.id));
  if (c->attached) {
    ASSERT_RC(0, attach_to(race.id, false));
    ASSERT_RC(0, attach_to(race.id, true));
  }
  fixture_turn(f);
  if (c->state == CANCELLED)
    ASSERT_RC(UVS_RUN_FINISHES, uvs_cancel(f->s, race.id, 0));
  fixture_turn(f);
  hold();
  if (c->limited)
    vclock_advance_ns(&f->clock, LIMIT_NS - (c->op == OP_TURN ? 0 : 1));
  PASS();
}

/* What was answered with 0 was called if the task has ended, and in any case not twice. */
static enum greatest_test_res check_calls(bool at_the_end) {
  bool guessed = race.scene->op == OP_SUBMIT;

  for (int i = 0; i < atomic_load(&race.used); i++) {
    const struct action *a = &race.actions[i];
    uint64_t w = word_now(a->id);
    bool due = at_the_end || !lives(a->id, w) ||
               (a->settled ? uvs__settled(w) : uvs__word_state(w) == UVS__ENDED);

    if (a->of_lane)
      due = at_the_end || (a->settled ? uvs_lane_is_disposed(race.lane) == 1 : lane_is_quiet());
    ASSERT(a->rc == 0 || (a->rc == UV_ENOENT && guessed) || (a->rc == UV_ESHUTDOWN && race.closed));
    ASSERT_FALSE(a->early);
    ASSERT_RC(a->rc == 0 && due, a->calls);
  }
  PASS();
}

/* Before `done`, if they could be; and of those that were, in order. */
static enum greatest_test_res check_order(void) {
  struct fixture *f = &race.f;
  bool op_attaches = race.scene->op == OP_ATTACH || race.scene->op == OP_ATTACH_SETTLED;
  unsigned done = place_of(f, EV_DONE, 'a');
  unsigned last = 0;

  for (int i = 0; i < atomic_load(&race.used); i++) {
    const struct action *a = &race.actions[i];
    unsigned place = place_of(f, EV_USER, a->tag);

    if (!a->in_time || a->id != target_id())
      continue;
    ASSERT(race.scene->light || place < done);
    if (a->settled || op_attaches)
      continue;
    ASSERT(place >= last);
    last = place;
  }
  ASSERT(all_on_loop(f, EV_USER));
  PASS();
}

static enum greatest_test_res play_once(void) {
  const struct scene *c = race.scene;
  struct fixture *f = &race.f;
  bool accepted;

  CHECK_CALL(set_the_scene());
  run_operation();
  accepted = c->op != OP_SUBMIT || race.op_rc == 0;
  ASSERT(race.op_rc == 0 || race.op_rc == UV_ESHUTDOWN || race.op_rc == UV_ECANCELED);
  if (!race.closed) {
    if (race.stepped)
      release();     /* a runner that was sent home is on its way, and brings what it has */
    fixture_turn(f); /* and nobody looks at the clock */
    CHECK_CALL(check_calls(false));
    release();
    fixture_turn(f);
    CHECK_CALL(check_calls(false));
    if (accepted)
      uvs_finish(race.s, target_id(), 0);
    fixture_turn(f);
    CHECK_CALL(check_calls(false));
    ASSERT_RC(0, uvs_close(f->s, note_closed));
  }
  release();
  if (accepted)
    uvs_finish(race.s, target_id(), 0);
  fixture_turn_until_closed(f);
  f->s = NULL;
  ASSERT_RC('c', last_tag(f));
  CHECK_CALL(check_calls(true));
  CHECK_CALL(check_order());
  ASSERT_U64(accepted && !c->light, log_count(f, EV_DONE, 'a'));
  ASSERT_U64(0, log_count(f, EV_WORK, 'b'));
  ASSERT_RC(UV_ESHUTDOWN, uvs_add_cleanup(race.s, race.id, called, NULL, 0));
  uvs_release(race.s);
  CHECK_CALL(fixture_close(f)); /* and nothing is left in memory */
  PASS();
}

/* Which acts make sense in a scene? */
static bool fits(const struct scene *c, enum act act) {
  switch (act) {
  case ACT_FINISH:
  case ACT_FINISH_ATTACH:
    return (c->state == PENDING || c->state == CANCELLED) && c->op != OP_CLOSE;
  case ACT_RUN:
  case ACT_RUN_ATTACH:
    return c->state == READY && c->op != OP_RUN && c->op != OP_CLOSE && c->op != OP_TURN;
  case ACT_FORGET:
    return c->kept;
  case ACT_DISPOSE:
  case ACT_DISPOSE_TURN:
  case ACT_ATTACH_DISPOSE:
    return c->laned || c->to_lane;
  case ACT_LIMIT_TURN:
  case ACT_ATTACH_LIMIT_TURN:
    return c->limited;
  case ACT_GONE: /* only if it can end without the operation */
    return c->op != OP_RUN && c->op != OP_SUBMIT && c->op != OP_FINISH && !c->to_lane;
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
  /* Once without anybody in between, to learn the id. */
  race.act = ACT_TURN;
  race.by_loop = false;
  race.target = UINT32_MAX;
  race.guess = 0;
  CHECK_CALL(play_once());
  ASSERT(race.step > 0);
  race.guess = race.id;
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
          fprintf(stderr, "%s, %s%s at step %u\n", scene->name, act_names[act],
                  by_loop ? " by the loop" : "", n);
          for (int i = 0; i < atomic_load(&race.used); i++)
            fprintf(stderr, "  %c: rc %d%s%s, %d calls%s\n", race.actions[i].tag,
                    race.actions[i].rc, race.actions[i].settled ? ", settled" : "",
                    race.actions[i].in_time ? ", in time" : "", race.actions[i].calls,
                    race.actions[i].early ? ", early" : "");
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

/* R23 R33: by an id that was guessed; also if the submission is refused. */
TEST to_what_is_being_submitted(void) {
  PLAY(.name = "light", .op = OP_SUBMIT, .light = true);
  PLAY(.name = "with done", .op = OP_SUBMIT);
  PLAY(.name = "kept", .op = OP_SUBMIT, .kept = true);
  PLAY(.name = "to a lane", .op = OP_SUBMIT, .laned = true);
  PLAY(.name = "light, on the loop", .op = OP_SUBMIT, .light = true, .on_loop = true);
  PASS();
}

/* R23 R32 */
TEST to_what_is_running(void) {
  PLAY(.name = "light", .op = OP_RUN, .state = READY, .light = true);
  PLAY(.name = "light, fails", .op = OP_RUN, .state = READY, .light = true, .fails = true);
  PLAY(.name = "with done", .op = OP_RUN, .state = READY);
  PLAY(.name = "with after", .op = OP_RUN, .state = READY, .with_after = true, .attached = true);
  PLAY(.name = "periodic", .op = OP_RUN, .state = READY, .periodic = true, .attached = true);
  PLAY(.name = "kept", .op = OP_RUN, .state = READY, .kept = true, .attached = true);
  PLAY(.name = "limited", .op = OP_RUN, .state = READY, .limited = true, .attached = true);
  PASS();
}

/* R23 L14 */
TEST to_what_is_being_finished(void) {
  PLAY(.name = "light", .op = OP_FINISH, .state = PENDING, .light = true);
  PLAY(.name = "with done", .op = OP_FINISH, .state = PENDING, .attached = true);
  PLAY(.name = "with after", .op = OP_FINISH, .state = PENDING, .with_after = true);
  PLAY(.name = "cancelled", .op = OP_FINISH, .state = CANCELLED, .attached = true);
  PLAY(.name = "light, cancelled", .op = OP_FINISH, .state = CANCELLED, .light = true);
  PLAY(.name = "limited", .op = OP_FINISH, .state = PENDING, .limited = true, .attached = true);
  PLAY(.name = "on the loop", .op = OP_FINISH, .state = PENDING, .on_loop = true);
  PASS();
}

/* R23 R24 L16 */
TEST to_what_is_being_cancelled(void) {
  PLAY(.name = "waiting, light", .op = OP_CANCEL, .light = true);
  PLAY(.name = "waiting", .op = OP_CANCEL, .attached = true);
  PLAY(.name = "ready, light", .op = OP_CANCEL, .state = READY, .light = true);
  PLAY(.name = "ready", .op = OP_CANCEL, .state = READY, .attached = true);
  PLAY(.name = "running, light", .op = OP_CANCEL, .state = PENDING, .light = true);
  PLAY(.name = "running", .op = OP_CANCEL, .state = PENDING, .attached = true);
  PLAY(.name = "running, limited", .op = OP_CANCEL, .state = PENDING, .limited = true,
       .attached = true);
  PLAY(.name = "waiting, light, on the loop", .op = OP_CANCEL, .light = true, .on_loop = true);
  PLAY(.name = "running, on the loop", .op = OP_CANCEL, .state = PENDING, .on_loop = true,
       .attached = true);
  PASS();
}

/* R23 R24 R32 F5: the loop's side of an end. */
TEST while_the_loop_turns(void) {
  PLAY(.name = "ready, limit", .op = OP_TURN, .on_loop = true, .state = READY, .limited = true);
  PLAY(.name = "pending, limit", .op = OP_TURN, .on_loop = true, .state = PENDING, .limited = true,
       .attached = true);
  PLAY(.name = "cancelled, limit", .op = OP_TURN, .on_loop = true, .state = CANCELLED,
       .limited = true, .attached = true);
  PLAY(.name = "over", .op = OP_TURN, .on_loop = true, .state = OVER, .light = true);
  PASS();
}

/* R15 R23 R24 */
TEST to_a_task_whose_lane_is_being_disposed(void) {
  PLAY(.name = "waiting", .op = OP_DISPOSE, .laned = true, .attached = true);
  PLAY(.name = "ready", .op = OP_DISPOSE, .laned = true, .state = READY);
  PLAY(.name = "running", .op = OP_DISPOSE, .laned = true, .state = PENDING, .attached = true);
  PLAY(.name = "on the loop", .op = OP_DISPOSE, .laned = true, .state = PENDING, .attached = true,
       .on_loop = true);
  PASS();
}

/* R23 R24 R33 */
TEST to_a_lane_that_is_being_disposed(void) {
  PLAY(.name = "lane: empty", .op = OP_DISPOSE, .to_lane = true, .state = OVER, .light = true);
  PLAY(.name = "lane: waiting", .op = OP_DISPOSE, .to_lane = true, .laned = true, .attached = true);
  PLAY(.name = "lane: running", .op = OP_DISPOSE, .to_lane = true, .laned = true, .state = PENDING,
       .attached = true);
  PLAY(.name = "lane: on the loop", .op = OP_DISPOSE, .to_lane = true, .laned = true,
       .state = PENDING, .attached = true, .on_loop = true);
  PLAY(.name = "lane: the last run ends", .op = OP_RUN, .to_lane = true, .laned = true,
       .state = READY);
  PLAY(.name = "lane: refused", .op = OP_SUBMIT, .to_lane = true, .laned = true);
  PLAY(.name = "lane: closes", .op = OP_CLOSE, .on_loop = true, .to_lane = true, .laned = true,
       .attached = true);
  for (int settled = 0; settled < 2; settled++) {
    enum op op = settled ? OP_ATTACH_SETTLED : OP_ATTACH;

    PLAY(.name = "attach to lane: empty", .op = op, .to_lane = true, .state = OVER, .light = true);
    PLAY(.name = "attach to lane: waiting", .op = op, .to_lane = true, .laned = true);
    PLAY(.name = "attach to lane: running", .op = op, .to_lane = true, .laned = true,
         .state = PENDING, .attached = true);
    PLAY(.name = "attach to lane: on the loop", .op = op, .to_lane = true, .laned = true,
         .state = PENDING, .on_loop = true);
  }
  PASS();
}

/* R23 L17 */
TEST while_it_closes(void) {
  PLAY(.name = "waiting, light", .op = OP_CLOSE, .on_loop = true, .light = true);
  PLAY(.name = "pending", .op = OP_CLOSE, .on_loop = true, .state = PENDING, .attached = true);
  PLAY(.name = "kept", .op = OP_CLOSE, .on_loop = true, .kept = true, .attached = true);
  PLAY(.name = "over", .op = OP_CLOSE, .on_loop = true, .state = OVER);
  PLAY(.name = "of a lane", .op = OP_CLOSE, .on_loop = true, .laned = true, .attached = true);
  PASS();
}

/* R23 R24 R33: the other way round. */
TEST something_happens_to_a_task_while_one_is_attached(void) {
  for (int settled = 0; settled < 2; settled++) {
    enum op op = settled ? OP_ATTACH_SETTLED : OP_ATTACH;

    PLAY(.name = "attach: waiting, light", .op = op, .light = true);
    PLAY(.name = "attach: waiting", .op = op, .attached = true);
    PLAY(.name = "attach: ready, light", .op = op, .state = READY, .light = true);
    PLAY(.name = "attach: ready, fails", .op = op, .state = READY, .fails = true);
    PLAY(.name = "attach: pending", .op = op, .state = PENDING, .limited = true);
    PLAY(.name = "attach: cancelled", .op = op, .state = CANCELLED, .attached = true);
    PLAY(.name = "attach: kept", .op = op, .state = PENDING, .kept = true);
    PLAY(.name = "attach: of a lane", .op = op, .state = PENDING, .laned = true);
    PLAY(.name = "attach: periodic", .op = op, .state = READY, .periodic = true);
    PLAY(.name = "attach: over", .op = op, .state = OVER, .light = true);
    PLAY(.name = "attach: over, kept", .op = op, .state = OVER, .kept = true);
    PLAY(.name = "attach: on the loop", .op = op, .state = PENDING, .on_loop = true);
  }
  PASS();
}

SUITE(cleanup_steps) {
  RUN_TEST(to_what_is_being_submitted);
  RUN_TEST(to_what_is_running);
  RUN_TEST(to_what_is_being_finished);
  RUN_TEST(to_what_is_being_cancelled);
  RUN_TEST(while_the_loop_turns);
  RUN_TEST(to_a_task_whose_lane_is_being_disposed);
  RUN_TEST(to_a_lane_that_is_being_disposed);
  RUN_TEST(while_it_closes);
  RUN_TEST(something_happens_to_a_task_while_one_is_attached);
}

TEST_MAIN(RUN_SUITE(cleanup_steps));
