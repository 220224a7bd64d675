/* SPDX-License-Identifier: MIT
 *
 * Clean-up actions of lanes, and actions that are attached while the scheduler ends: an accepted
 * action is called before the close callback, and none after it.
 */
#include "uvsched/lane.h"

#include "lib/cleanups.h"

/* ------------------------------------------------------------------ lanes --- */

static void log_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s;
  log_add(arg, EV_NEVER_RAN, 'Q', lane, 0);
}

static int open_lane(struct fixture *f, uvs_quiet_cb quiet, uvs_lane_t *ret) {
  uvs_lane_options_t o;

  uvs_lane_options_init(&o);
  o.on_quiet = quiet;
  o.arg = f;
  return uvs_lane_open(f->s, &o, ret);
}

static enum greatest_test_res open_with_lane(struct fixture *f, enum fakepool_mode pool,
                                             uvs_lane_t *ret) {
  fixture_init(f);
  f->pool = pool;
  f->options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(f));
  ASSERT_RC(0, open_lane(f, log_quiet, ret));
  PASS();
}

static int attach_lane(struct fixture *f, uvs_lane_t lane, int tag, unsigned flags) {
  struct probe *p = fixture_probe(f, tag);

  p->id = lane;
  return uvs_lane_add_cleanup(f->s, lane, note, p, flags);
}

static int do_attach_lane(void *arg) {
  struct attaching *a = arg;

  return attach_lane(a->f, a->id, a->tag, a->flags);
}

static int attach_lane_elsewhere(struct fixture *f, uvs_lane_t lane, int tag, unsigned flags) {
  struct attaching a = {f, lane, tag, flags};

  return elsewhere(do_attach_lane, &a);
}

static int do_dispose(void *lane) {
  return uvs_lane_dispose(*(uvs_lane_t *)lane, 0);
}

static enum greatest_test_res submit(struct fixture *f, uvs_lane_t lane, int tag, int64_t delay_ns,
                                     uvs_id_t *ret) {
  uvs_task_t t = fixture_once(f, tag, delay_ns);

  t.lane = lane;
  ASSERT_RC(0, uvs_submit(f->s, &t, ret));
  PASS();
}

static int act_attaches_elsewhere(struct probe *p, uvs_run_t *run) {
  (void)run;
  if (p->data != NULL)
    p->ret = attach_lane_elsewhere(p->f, p->id, 'z', 0);
  else
    p->ret = attach_elsewhere(p->f, p->id, 'z', 0);
  return 0;
}

/* R33: actions that other threads attach during the calls are called in the next pass. Otherwise a
 * thread that attaches without end could delay the end without end. */
TEST a_clean_up_attached_on_another_thread_during_the_calls_is_called_in_the_next_pass(void) {
  for (int of_lane = 0; of_lane < 2; of_lane++) {
    struct fixture f;
    uvs_lane_t lane;
    uvs_id_t id;

    CHECK_CALL(open_with_lane(&f, FAKEPOOL_STEPPED, &lane));
    CHECK_CALL(submit(&f, lane, 'a', UVS_MS(1), &id));
    struct probe *p = fixture_probe(&f, 'x');
    p->id = of_lane ? lane : id;
    p->data = of_lane ? p : NULL;
    p->ret = 1;
    p->act = act_attaches_elsewhere;
    ASSERT_RC(0, of_lane ? uvs_lane_add_cleanup(f.s, lane, note, p, 0)
                         : uvs_add_cleanup(f.s, id, note, p, 0));
    fixture_advance_ms(&f, 1);
    ASSERT_RC(0, uvs_lane_dispose(lane, 0));
    fixture_turn(&f);
    ASSERT_RC(0, p->ret);
    ASSERT_STR_EQ("xz", log_string(&f, EV_USER));
    ASSERT(place_of(&f, EV_USER, 'z') >
           (of_lane ? place_of(&f, EV_NEVER_RAN, 'Q') : place_of(&f, EV_DONE, 'a')));
    ASSERT_U64(1, log_count(&f, EV_NEVER_RAN, 'Q'));
    CHECK_CALL(nothing_attached(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* R32 R33 R19 */
TEST clean_ups_of_a_lane_are_called_in_order_between_its_last_done_and_quiet(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_lane_t lane;
    uvs_id_t id;

    CHECK_CALL(open_with_lane(&f, FAKEPOOL_STEPPED, &lane));
    CHECK_CALL(submit(&f, lane, 'a', 0, NULL));
    CHECK_CALL(submit(&f, lane, 'b', UVS_DAY(1), &id));
    ASSERT_RC(0, attach_lane(&f, lane, 'x', 0));
    ASSERT_RC(0, attach_lane_elsewhere(&f, lane, 'y', 0));
    ASSERT_RC(0, attach(&f, id, 't', 0));
    ASSERT_RC(0, attach_lane(&f, lane, 's', UVS_CLEANUP_WHEN_SETTLED));
    fixture_turn(&f);
    ASSERT_STR_EQ("aa", log_string(&f, (enum event_kind)0)); /* the end of a task is not its own */
    log_clear(&f);
    if (off_loop)
      ASSERT_RC(0, elsewhere(do_dispose, &lane));
    else
      ASSERT_RC(0, uvs_lane_dispose(lane, 0));
    ASSERT_RC(0, uvs_lane_dispose(lane, UVS_DISPOSE_TOKEN));
    ASSERT_U64(0, log_total(&f));
    ASSERT_RC(0, attach_lane(&f, lane, 'z', 0)); /* disposed, and not yet quiet */
    fixture_turn(&f);
    ASSERT(place_of(&f, EV_USER, 's') < place_of(&f, EV_NEVER_RAN, 'Q'));
    ASSERT(place_of(&f, EV_USER, 't') < place_of(&f, EV_DONE, 'b'));
    ASSERT(place_of(&f, EV_DONE, 'b') < place_of(&f, EV_USER, 'x'));
    ASSERT(place_of(&f, EV_USER, 'x') < place_of(&f, EV_USER, 'y'));
    ASSERT(place_of(&f, EV_USER, 'y') < place_of(&f, EV_USER, 'z'));
    ASSERT_RC('Q', last_tag(&f));
    ASSERT_U64(5, log_count(&f, EV_USER, 0));
    ASSERT(all_on_loop(&f, EV_USER));
    log_clear(&f);
    ASSERT_RC(0, attach_lane(&f, lane, 'v', 0)); /* it is gone */
    ASSERT_RC(0, attach_lane_elsewhere(&f, lane, 'w', UVS_CLEANUP_WHEN_SETTLED));
    ASSERT_U64(0, log_total(&f));
    fixture_turn(&f);
    ASSERT_STR_EQ("vw", log_string(&f, (enum event_kind)0));
    CHECK_CALL(nothing_attached(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* R24 F12: while its body runs. The same for the actions of the running task. */
TEST a_lane_disposed_during_a_run_is_settled_at_once_and_quiet_later(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    static struct fixture f;
    uvs_lane_t lane;
    uvs_id_t id;

    gate_init(false);
    CHECK_CALL(open_with_lane(&f, FAKEPOOL_REAL, &lane));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    t.lane = lane;
    probe_of(&t)->act = gate_pass;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    ASSERT_RC(0, attach(&f, id, 'p', 0));
    ASSERT_RC(0, attach(&f, id, 's', UVS_CLEANUP_WHEN_SETTLED));
    ASSERT_RC(0, attach_lane(&f, lane, 'q', 0));
    ASSERT_RC(0, attach_lane(&f, lane, 'S', UVS_CLEANUP_WHEN_SETTLED));
    ASSERT(gate_wait(&f, 1));
    fixture_turn(&f);
    ASSERT_U64(0, log_count(&f, EV_USER, 0));
    if (off_loop)
      ASSERT_RC(0, elsewhere(do_dispose, &lane));
    else
      ASSERT_RC(0, uvs_lane_dispose(lane, 0));
    ASSERT(fixture_wait_log(&f, EV_USER, 0, 2));
    ASSERT_RC(1, gate_inside());
    ASSERT_U64(1, log_count(&f, EV_USER, 's'));
    ASSERT_U64(1, log_count(&f, EV_USER, 'S'));
    ASSERT_RC(0, attach_lane_elsewhere(&f, lane, 'T', UVS_CLEANUP_WHEN_SETTLED));
    ASSERT_RC(0, attach_lane(&f, lane, 'r', 0));
    ASSERT(fixture_wait_log(&f, EV_USER, 'T', 1));
    fixture_turn(&f);
    ASSERT_U64(3, log_count(&f, EV_USER, 0));
    log_clear(&f);
    gate_let(1);
    ASSERT(fixture_wait_log(&f, EV_NEVER_RAN, 'Q', 1));
    ASSERT_STR_EQ("paqrQ", log_string(&f, (enum event_kind)0));
    CHECK_CALL(nothing_attached(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int act_disposes(struct probe *p, uvs_run_t *run) {
  (void)run;
  return uvs_lane_dispose((uvs_lane_t)p->id, 0);
}

/* F12b: even if the lane is quiet at once. */
TEST no_clean_up_of_a_lane_is_called_after_quiet(void) {
  for (int many = 0; many < 2; many++) {
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_with_lane(&f, FAKEPOOL_STEPPED, &lane));
    ASSERT_RC(0, attach_lane(&f, lane, 'x', UVS_CLEANUP_WHEN_SETTLED));
    ASSERT_RC(0, attach_lane(&f, lane, 'p', 0));
    ASSERT_RC(0, attach_lane(&f, lane, 'y', UVS_CLEANUP_WHEN_SETTLED));
    if (many) { /* in its own body */
      uvs_task_t t = fixture_once(&f, 'a', 0);
      t.lane = lane;
      probe_of(&t)->id = lane;
      probe_of(&t)->act = act_disposes;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    } else {
      ASSERT_RC(0, uvs_lane_dispose(lane, 0));
    }
    fixture_turn(&f);
    ASSERT_U64(3, log_count(&f, EV_USER, 0));
    ASSERT_RC('Q', last_tag(&f));
    CHECK_CALL(nothing_attached(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static void quiet_attaches(uvs_t *s, uvs_lane_t lane, void *arg) {
  log_quiet(s, lane, arg);
  if (attach_lane(arg, lane, 'y', 0) < 0 ||
      attach_lane(arg, lane, 'z', UVS_CLEANUP_WHEN_SETTLED) < 0)
    log_add(arg, EV_ERROR, '!', lane, 0);
}

/* R33 */
TEST a_clean_up_attached_in_quiet_is_called(void) {
  struct fixture f;
  uvs_lane_t lane;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, open_lane(&f, quiet_attaches, &lane));
  ASSERT_RC(0, attach_lane(&f, lane, 'x', 0));
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("xQyz", log_string(&f, (enum event_kind)0));
  CHECK_CALL(nothing_attached(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R18 */
TEST attaching_to_a_lane_of_another_scheduler_is_refused(void) {
  struct fixture f;
  uvs_lane_t lane, others, gone;
  uvs_t *other;
  long live;

  CHECK_CALL(open_with_lane(&f, FAKEPOOL_STEPPED, &lane));
  ASSERT_RC(0, uvs_open(&f.loop, NULL, &other));
  ASSERT_RC(0, uvs_lane_open(other, NULL, &others));
  ASSERT_RC(0, open_lane(&f, NULL, &gone));
  ASSERT_RC(0, uvs_lane_dispose(gone, 0));
  fixture_turn(&f);
  live = atomic_load(&f.fault.live);
  ASSERT_RC(UV_EINVAL, attach_lane(&f, others, 'x', 0));
  ASSERT_RC(UV_ENOENT, attach_lane(&f, 0, 'x', 0));
  ASSERT_RC(UV_ENOENT, attach_lane(&f, UINT64_MAX, 'x', 0));
  ASSERT_RC(UV_ENOENT, attach_lane(&f, lane + 1000, 'x', 0));
  ASSERT_RC(UV_EINVAL, uvs_lane_add_cleanup(f.s, lane, NULL, &f, 0));
  ASSERT_RC(UV_EINVAL, uvs_lane_add_cleanup(NULL, lane, note, &f, 0));
  for (unsigned bit = UVS_CLEANUP_WHEN_SETTLED << 1; bit != 0; bit <<= 1)
    ASSERT_RC(UV_EINVAL, attach_lane(&f, lane, 'x', bit));
  fault_after(0);
  ASSERT_RC(UV_ENOMEM, attach_lane(&f, lane, 'x', 0));
  ASSERT(fault_hit());
  fault_after(0);
  ASSERT_RC(UV_ENOMEM, attach_lane(&f, gone, 'x', 0));
  ASSERT(fault_hit());
  ASSERT_EQ_FMT(live, atomic_load(&f.fault.live), "%ld");
  fixture_turn(&f);
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_USER, 0));
  ASSERT_RC(0, uvs_close(other, NULL));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R32 R28 */
TEST ten_thousand_clean_ups_of_one_lane_are_called_in_order(void) {
  enum { MANY = 10000 };
  static struct numbered n[MANY];
  struct fixture f;
  uvs_lane_t lane;
  long live;

  CHECK_CALL(open_with_lane(&f, FAKEPOOL_STEPPED, &lane));
  live = atomic_load(&f.fault.live);
  numbered_restart();
  for (int i = 0; i < MANY; i++) {
    n[i] = (struct numbered){i, 0, 0};
    ASSERT_RC(0, uvs_lane_add_cleanup(f.s, lane, count_up, &n[i], 0));
  }
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  fixture_turn(&f);
  for (int i = 0; i < MANY; i++) {
    ASSERT_RC(1, n[i].calls);
    ASSERT_RC(i, n[i].place);
  }
  ASSERT(atomic_load(&f.fault.live) < live); /* the lane is gone, too */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1: a lane does not keep the loop alive, but its uncalled actions do. */
TEST the_loop_stays_alive_until_the_clean_ups_of_a_lane_are_called(void) {
  struct fixture f;
  uvs_lane_t lane;

  CHECK_CALL(open_with_lane(&f, FAKEPOOL_STEPPED, &lane));
  ASSERT_RC(0, attach_lane(&f, lane, 'x', 0));
  fixture_turn(&f);
  ASSERT_FALSE(fixture_alive(&f));
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  ASSERT_STR_EQ("xQ", log_string(&f, (enum event_kind)0));
  ASSERT_RC(0, attach_lane(&f, lane, 'y', 0));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  ASSERT_STR_EQ("xQy", log_string(&f, (enum event_kind)0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------- the end --- */

/* Creates one of everything that actions can be attached to, and attaches n actions to each. */
static enum greatest_test_res populate(struct fixture *f, uvs_lane_t lane) {
  uvs_id_t id;

  uvs_task_t over = fixture_once(f, 'a', 0);
  ASSERT_RC(0, uvs_submit(f->s, &over, &id));
  fixture_turn(f);
  log_clear(f);
  ASSERT_RC(0, attach(f, id, '1', 0));
  ASSERT_RC(0, attach(f, id, '2', UVS_CLEANUP_WHEN_SETTLED));
  uvs_task_t far = fixture_once(f, 'b', UVS_DAY(1));
  far.done = NULL;
  ASSERT_RC(0, uvs_submit(f->s, &far, &id));
  ASSERT_RC(0, attach(f, id, '3', 0));
  uvs_task_t never = fixture_once(f, 'c', UVS_NEVER);
  ASSERT_RC(0, uvs_submit(f->s, &never, &id));
  ASSERT_RC(0, attach(f, id, '4', UVS_CLEANUP_WHEN_SETTLED));
  uvs_task_t rate = fixture_rate(f, 'd', UVS_MS(1), UVS_MS(1));
  ASSERT_RC(0, uvs_submit(f->s, &rate, &id));
  ASSERT_RC(0, attach(f, id, '5', 0));
  uvs_task_t kept = fixture_once(f, 'e', UVS_DAY(1));
  kept.keep_outcome = 1;
  ASSERT_RC(0, submit_elsewhere(f->s, kept, &id)); /* in the inbox */
  ASSERT_RC(0, attach(f, id, '6', 0));
  if (lane != 0) {
    CHECK_CALL(submit(f, lane, 'f', UVS_DAY(1), &id));
    ASSERT_RC(0, attach(f, id, '7', 0));
    ASSERT_RC(0, attach_lane(f, lane, '8', 0));
    ASSERT_RC(0, attach_lane(f, lane, '9', UVS_CLEANUP_WHEN_SETTLED));
  }
  PASS();
}

/* R32 S33 V2 */
TEST an_immediate_shutdown_calls_clean_ups_of_tasks_but_not_of_lanes(void) {
  struct fixture f;
  uvs_lane_t lane;

  CHECK_CALL(open_with_lane(&f, FAKEPOOL_STEPPED, &lane));
  CHECK_CALL(populate(&f, lane));
  ASSERT_RC(0, elsewhere(do_shutdown_now_quietly, f.s));
  fixture_turn(&f);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  ASSERT_U64(7, log_count(&f, EV_USER, 0));
  ASSERT_U64(0, log_count(&f, EV_USER, '8'));
  ASSERT_RC(0, attach_lane(&f, lane, 'x', UVS_CLEANUP_WHEN_SETTLED)); /* it is not disposed */
  fixture_turn(&f);
  ASSERT_U64(7, log_count(&f, EV_USER, 0));
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  fixture_turn_until_closed(&f);
  f.s = NULL;
  ASSERT_U64(1, log_count(&f, EV_USER, '8'));
  ASSERT_U64(1, log_count(&f, EV_USER, '9'));
  ASSERT_U64(1, log_count(&f, EV_USER, 'x'));
  ASSERT_RC('c', last_tag(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R32 L2 L17 */
TEST close_calls_all_clean_ups_before_its_callback(void) {
  for (int turned = 0; turned < 2; turned++) {
    struct fixture f;
    uvs_lane_t lane;
    uvs_t *s;
    uvs_id_t id;

    CHECK_CALL(open_with_lane(&f, FAKEPOOL_STEPPED, &lane));
    CHECK_CALL(populate(&f, lane));
    uvs_task_t last = fixture_once(&f, 'g', UVS_DAY(1));
    ASSERT_RC(0, uvs_submit(f.s, &last, &id));
    if (turned)
      fixture_turn(&f);
    s = uvs_retain(f.s);
    ASSERT_RC(0, uvs_close(f.s, note_closed));
    ASSERT_RC(0, attach(&f, id, '0', 0)); /* it is being closed, and was not yet */
    ASSERT_RC(0, attach_lane_elsewhere(&f, lane, 'A', 0));
    fixture_turn_until_closed(&f);
    ASSERT_RC('c', last_tag(&f));
    for (const char *tag = "0123456789A"; *tag != '\0'; tag++)
      ASSERT_U64(1, log_count(&f, EV_USER, *tag));
    ASSERT_U64(12, log_count(&f, EV_USER, 0));
    ASSERT_RC(UV_ESHUTDOWN, attach(&f, id, 'x', 0));
    ASSERT_RC(UV_ESHUTDOWN, attach_lane(&f, lane, 'x', 0));
    f.s = NULL;
    uvs_release(s);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int act_attaches_some_more(struct probe *p, uvs_run_t *run) {
  (void)run;
  if (p->ret-- > 0)
    log_add(p->f, EV_ERROR, 'e', 0, uvs_add_cleanup(p->f->s, p->id, note, p, 0));
  return 0;
}

static void terminated_attaches(uvs_t *s) {
  struct fixture *f = uvs_data(s);
  struct probe *p = &f->probes[0];

  log_add(f, EV_TERMINATED, 't', 0, 0);
  log_add(f, EV_ERROR, 'e', 0, uvs_add_cleanup(s, p->id, note, p, 0));
}

static void closed_attaches(uvs_t *s) {
  struct fixture *f = uvs_data(s);
  struct probe *p = &f->probes[0];

  log_add(f, EV_ERROR, 'f', 0, uvs_add_cleanup(s, p->id, note, p, 0));
  note_closed(s);
}

/* R33 L2: in the last callbacks, and in the callbacks that these cause. */
TEST clean_ups_attached_during_close_are_called_or_refused(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.on_terminated = terminated_attaches;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_DAY(1));
  struct probe *p = probe_of(&t);
  ASSERT_EQ(p, &f.probes[0]);
  ASSERT_RC(0, uvs_submit(f.s, &t, &p->id));
  p->act = act_attaches_some_more;
  p->ret = 5;
  ASSERT_RC(0, uvs_close(f.s, closed_attaches));
  fixture_turn_until_closed(&f);
  f.s = NULL;
  ASSERT_U64(2, log_count(&f, EV_ERROR, 'e'));
  ASSERT_RC(0, log_nth(&f, EV_ERROR, 'e', 0)->status);
  ASSERT_U64(1, log_count(&f, EV_USER, 'a'));
  ASSERT_RC(UV_ESHUTDOWN, log_nth(&f, EV_ERROR, 'e', 1)->status); /* or it might go on for ever */
  ASSERT_RC(UV_ESHUTDOWN, log_nth(&f, EV_ERROR, 'f', 0)->status);
  ASSERT_RC('c', last_tag(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L17 R23: from then on other threads can attach to unfinished tasks only, and these actions are
 * called. The loop can also attach to finished tasks, as long as another loop pass follows. */
TEST during_close_other_threads_can_attach_only_to_unfinished_tasks(void) {
  struct fixture f;
  uvs_lane_t gone, lane;
  uvs_id_t over, far;

  CHECK_CALL(open_with_lane(&f, FAKEPOOL_STEPPED, &lane));
  ASSERT_RC(0, open_lane(&f, log_quiet, &gone));
  ASSERT_RC(0, uvs_lane_dispose(gone, 0));
  CHECK_CALL(submit(&f, 0, 'a', UVS_DAY(1), &over));
  CHECK_CALL(submit(&f, 0, 'b', UVS_DAY(1), &far));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, over, 0));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_RC(0, attach_elsewhere(&f, over, 'u', 0));
  ASSERT_RC(0, attach_lane_elsewhere(&f, gone, 'v', 0));
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  ASSERT_RC(UV_ESHUTDOWN, attach_elsewhere(&f, over, 'w', 0));
  ASSERT_RC(UV_ESHUTDOWN, attach_lane_elsewhere(&f, gone, 'w', 0));
  ASSERT_RC(0, attach_elsewhere(&f, far, 'x', 0));
  ASSERT_RC(0, attach_lane_elsewhere(&f, lane, 'y', 0));
  ASSERT_RC(0, attach(&f, over, 'z', 0));
  fixture_turn_until_closed(&f);
  f.s = NULL;
  for (const char *tag = "uvxyz"; *tag != '\0'; tag++)
    ASSERT_U64(1, log_count(&f, EV_USER, *tag));
  ASSERT_U64(0, log_count(&f, EV_USER, 'w'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L17 R23: other threads attach without end while the scheduler is closed. Every accepted action is
 * called before the close callback. The others are refused and never called. */
enum { ATTACHERS = 3, TRIES = 20000 };

static struct attacher {
  uv_thread_t thread;
  uvs_t *s;
  uvs_id_t ids[4];
  uvs_lane_t lane;
  uint64_t random;
  int accepted, refused, wrong;
  _Atomic int *begun;
} attachers[ATTACHERS];

static _Atomic int attached_calls, late_calls, is_closed;

static void count_call(uvs_t *s, void *arg) {
  (void)s;
  (void)arg;
  atomic_fetch_add(atomic_load(&is_closed) ? &late_calls : &attached_calls, 1);
}

static void closed_at_last(uvs_t *s) {
  (void)s;
  atomic_store(&is_closed, 1);
}

static void attacher_main(void *arg) {
  struct attacher *a = arg;
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  for (int i = 0; a->refused < 10 && uv_hrtime() < end_ns; i++) {
    uint64_t r = test_random(&a->random) >> 20;
    unsigned flags = (r & 8) != 0 ? UVS_CLEANUP_WHEN_SETTLED : 0;
    int rc = (r & 16) != 0 ? uvs_lane_add_cleanup(a->s, a->lane, count_call, a, flags)
                           : uvs_add_cleanup(a->s, a->ids[r % 4], count_call, a, flags);

    a->accepted += rc == 0;
    a->refused += rc == UV_ESHUTDOWN;
    a->wrong += rc != 0 && rc != UV_ESHUTDOWN;
    if (i == 10)
      atomic_fetch_add(a->begun, 1);
  }
}

TEST every_accepted_clean_up_is_called_before_the_close_callback(void) {
  for (int round = 0; round < 20; round++) {
    static struct fixture f;
    static _Atomic int begun;
    uvs_lane_t lane;
    uvs_id_t ids[4];
    int accepted = 0;

    atomic_store(&begun, 0);
    atomic_store(&attached_calls, 0);
    atomic_store(&late_calls, 0);
    atomic_store(&is_closed, 0);
    CHECK_CALL(open_with_lane(&f, FAKEPOOL_REAL, &lane));
    uvs_task_t over = fixture_once(&f, 'a', 0), far = fixture_once(&f, 'b', UVS_DAY(1)),
               kept = fixture_once(&f, 'c', UVS_DAY(1)), laned = fixture_once(&f, 'd', UVS_DAY(1));
    far.done = NULL;
    kept.keep_outcome = 1;
    laned.lane = lane;
    ASSERT_RC(0, uvs_submit(f.s, &over, &ids[0]));
    ASSERT_RC(0, uvs_submit(f.s, &far, &ids[1]));
    ASSERT_RC(0, uvs_submit(f.s, &kept, &ids[2]));
    ASSERT_RC(0, uvs_submit(f.s, &laned, &ids[3]));
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
    for (int i = 0; i < ATTACHERS; i++) {
      struct attacher *a = &attachers[i];

      *a = (struct attacher){.s = uvs_retain(f.s), .lane = lane, .begun = &begun};
      a->random = test_seed + (uint64_t)(round * ATTACHERS + i) * 7919 + 1;
      memcpy(a->ids, ids, sizeof ids);
      ASSERT_RC(0, uv_thread_create(&a->thread, attacher_main, a));
    }
    while (atomic_load(&begun) < ATTACHERS)
      fixture_turn(&f);
    ASSERT_RC(0, uvs_close(f.s, closed_at_last));
    ASSERT(fixture_wait_flag(&f, &is_closed));
    f.s = NULL;
    for (int i = 0; i < ATTACHERS; i++) {
      ASSERT_RC(0, uv_thread_join(&attachers[i].thread));
      uvs_release(attachers[i].s);
      accepted += attachers[i].accepted;
      ASSERT_RC(10, attachers[i].refused);
      ASSERT_RC(0, attachers[i].wrong);
    }
    ASSERT_RC(accepted, atomic_load(&attached_calls));
    ASSERT_RC(0, atomic_load(&late_calls));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static uvs_id_t over; /* a task that has ended */

static void attach_at_the_end(uvs_t *s) {
  struct fixture *f = uvs_data(s);

  log_add(f, EV_TERMINATED, 't', 0, attach(f, over, 'x', 0));
}

/* R33 The last callback before the handles are closed attaches an action. */
TEST a_clean_up_attached_at_termination_is_called_before_the_close_callback(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.on_terminated = attach_at_the_end;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  follow_script(&t, "p");
  ASSERT_RC(0, uvs_submit(f.s, &t, &over));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  fixture_turn(&f); /* everything else has happened */
  ASSERT_RC(0, uvs_finish(f.s, over, 0));
  fixture_turn_until_closed(&f);
  f.s = NULL;
  ASSERT_RC(0, log_nth(&f, EV_TERMINATED, 't', 0)->status);
  ASSERT_STR_EQ("aatxc", log_string(&f, (enum event_kind)0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(lanes) {
  RUN_TEST(a_clean_up_attached_on_another_thread_during_the_calls_is_called_in_the_next_pass);
  RUN_TEST(clean_ups_of_a_lane_are_called_in_order_between_its_last_done_and_quiet);
  RUN_TEST(a_lane_disposed_during_a_run_is_settled_at_once_and_quiet_later);
  RUN_TEST(no_clean_up_of_a_lane_is_called_after_quiet);
  RUN_TEST(a_clean_up_attached_in_quiet_is_called);
  RUN_TEST(attaching_to_a_lane_of_another_scheduler_is_refused);
  RUN_TEST(ten_thousand_clean_ups_of_one_lane_are_called_in_order);
  RUN_TEST(the_loop_stays_alive_until_the_clean_ups_of_a_lane_are_called);
}

SUITE(the_end) {
  RUN_TEST(an_immediate_shutdown_calls_clean_ups_of_tasks_but_not_of_lanes);
  RUN_TEST(close_calls_all_clean_ups_before_its_callback);
  RUN_TEST(clean_ups_attached_during_close_are_called_or_refused);
  RUN_TEST(during_close_other_threads_can_attach_only_to_unfinished_tasks);
  RUN_TEST(a_clean_up_attached_at_termination_is_called_before_the_close_callback);
  RUN_TEST(every_accepted_clean_up_is_called_before_the_close_callback);
}

TEST_MAIN(RUN_SUITE(lanes); RUN_SUITE(the_end));
