/* SPDX-License-Identifier: MIT
 *
 * Kept outcomes: a waiting thread is woken and reads the right outcome; all of many, any of many.
 */
#include "scenes.h"

#include <string.h>

#include "model.h"
#include "stage.h"

static char results[4];
static struct { int sets, handed, drops; } seen[4]; /* of each result */

static void set_result(uvs_run_t *run, struct part *p) {
  seen[p->name - 'a'].sets++;
  WEAVE_SAME(0, uvs_set_result(run, &results[p->name - 'a']));
}

static void drop_result(void *result) {
  int i = (int)((char *)result - results);

  weave_here();
  WEAVE_SAME(1, seen[i].sets);
  WEAVE_SAME(0, seen[i].handed);
  WEAVE_SAME(0, seen[i].drops++);
}

/* The result was handed to a wait, or dropped. */
static void check_result(const struct part *p) {
  int i = p->name - 'a';

  WEAVE_SAME(seen[i].sets > 0 && seen[i].handed == 0, seen[i].drops);
}

static struct part *kept(char name) {
  struct part *p = stage_part(name);

  memset(&seen[name - 'a'], 0, sizeof seen[0]);
  p->spec.keep_outcome = 1;
  p->spec.drop_result = drop_result;
  p->act = set_result;
  return p;
}

static void check_outcome(const struct part *p, const uvs_outcome_t *o) {
  WEAVE_CHECK(!p->inside || o->state == UVS_RUNNING);
  WEAVE_CHECK(o->state == UVS_ENDED || o->state == UVS_RUNNING);
  if (p->dones > 0)
    WEAVE_SAME(p->status, o->status);
  WEAVE_CHECK(o->status != 0 || o->result == &results[p->name - 'a']);
  if (o->status == 0) {
    seen[p->name - 'a'].handed++;
    WEAVE_SAME(0, seen[p->name - 'a'].drops);
  }
}

static uint32_t waits; /* in progress when it was forgotten */
static uint32_t answers;

static void wait_for(struct part *p, int64_t timeout_ns, unsigned flags) {
  uint64_t until_ns = weave_now_ns + (uint64_t)timeout_ns;
  uvs_outcome_t o;
  int rc;

  uvs_outcome_init(&o);
  rc = uvs_wait(stage.s, p->id, timeout_ns, flags, &o);
  WEAVE_CHECK(rc == 0 || rc == UV_ENOENT || rc == UV_ETIMEDOUT);
  if (rc == UV_ETIMEDOUT)
    WEAVE_CHECK(weave_now_ns >= until_ns);
  if (rc == UV_ENOENT)
    WEAVE_CHECK(p->forgotten);
  answers += rc == 0;
  if (rc == 0)
    check_outcome(p, &o);
}

static void wait_quiet(void *arg) {
  wait_for(arg, UVS_NEVER, 0);
}

static void wait_settled(void *arg) {
  wait_for(arg, UVS_NEVER, UVS_WAIT_SETTLED);
}

static void wait_2ms(void *arg) {
  wait_for(arg, UVS_MS(2), 0);
}

/* A thread that sleeps already still gets the outcome. */
static void forget(void *arg) {
  struct part *p = arg;

  waits = stage_waiters(p);
  p->forgotten = true;
  WEAVE_SAME(0, uvs_forget(stage.s, p->id));
}

/* All is quiet: outcomes that are still kept are forgotten. */
static void end(struct part *p) {
  uvs_outcome_t o;

  waits = answers = 0;
  stage_play();
  WEAVE_CHECK(answers >= waits);
  uvs_outcome_init(&o);
  if (p->forgotten) {
    WEAVE_SAME(UV_ENOENT, uvs_wait(stage.s, p->id, 0, 0, &o));
  } else {
    WEAVE_SAME(0, uvs_wait(stage.s, p->id, 0, 0, &o));
    check_outcome(p, &o);
    WEAVE_SAME(0, uvs_forget(stage.s, p->id));
    p->forgotten = true;
  }
  stage_play();
  stage_close();
  check_result(p);
}

static void wait_meets_end(void) {
  stage_open(1);
  stage_submit(kept('a'));
  weave_spawn("wait", wait_quiet, &stage.parts[0], false);
  end(&stage.parts[0]);
}

static void two_threads_wait(void) {
  stage_open(1);
  stage_submit(kept('a'));
  weave_spawn("quiet", wait_quiet, &stage.parts[0], false);
  weave_spawn("settled", wait_settled, &stage.parts[0], false);
  end(&stage.parts[0]);
}

static void wait_meets_cancel(void) {
  stage_open(1);
  stage_submit(kept('a'));
  weave_spawn("settled", wait_settled, &stage.parts[0], false);
  weave_spawn("cancel", stage_cancel_arg, &stage.parts[0], false);
  end(&stage.parts[0]);
}

static void cancel_in_its_run(void *arg) {
  stage_await_run(arg);
  stage_cancel(arg, 0);
}

/* Settled immediately, and quiet only when the body has returned. */
static void wait_meets_cancel_in_its_run(void) {
  stage_open(1);
  stage_submit(kept('a'));
  weave_spawn("quiet", wait_quiet, &stage.parts[0], false);
  weave_spawn("cancel", cancel_in_its_run, &stage.parts[0], false);
  end(&stage.parts[0]);
}

static void wait_meets_forget(void) {
  stage_open(1);
  stage_submit(kept('a'));
  weave_spawn("wait", wait_quiet, &stage.parts[0], false);
  weave_spawn("forget", forget, &stage.parts[0], false);
  end(&stage.parts[0]);
}

static void forget_meets_end(void) {
  stage_open(1);
  stage_submit(kept('a'));
  weave_spawn("forget", forget, &stage.parts[0], false);
  weave_spawn("submit", stage_submit_arg, stage_part('b'), false); /* the slot may be its */
  end(&stage.parts[0]);
}

static void time_out_meets_end(void) {
  stage_open(1);
  kept('a')->takes_ms = 2;
  stage_submit(&stage.parts[0]);
  weave_spawn("wait", wait_2ms, &stage.parts[0], false);
  end(&stage.parts[0]);
}

static void wait_meets_reschedule(void) {
  stage_open(1);
  kept('a')->spec.first_ns = UVS_MS(2);
  stage_submit(&stage.parts[0]);
  weave_spawn("wait", wait_quiet, &stage.parts[0], false);
  stage_go();
  stage_reschedule(&stage.parts[0], 0);
  end(&stage.parts[0]);
}

static void submit_kept(void *arg) {
  struct part *p = arg;

  p->others_cancel = true;
  stage_submit(p);
  WEAVE_CHECK(p->rc == 0 || p->rc == UV_ESHUTDOWN);
  p->forgotten |= p->rc < 0;
}

/* The id is known before the task is accepted. If it is refused, no thread waits on. */
static void wait_guessed(void *arg) {
  struct part *p = arg;
  uvs_id_t id;
  uvs_outcome_t o;
  int rc;

  for (int i = 0; i < 40 && p->id == 0; i++)
    weave_here();
  id = p->id;
  if (id == 0)
    return;
  uvs_outcome_init(&o);
  rc = uvs_wait(stage.s, id, UVS_NEVER, 0, &o);
  WEAVE_CHECK(rc == 0 || rc == UV_ENOENT);
}

static void shut_down(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_shutdown(stage.s));
}

static void wait_for_a_refused_task(void) {
  stage_open(1);
  weave_spawn("submit", submit_kept, kept('a'), false);
  weave_spawn("wait", wait_guessed, &stage.parts[0], false);
  weave_spawn("shutdown", shut_down, NULL, false);
  stage_play();
  stage_close();
}

/* ---- many ---- */

static int answered; /* how many calls have returned */

static int body_a(uvs_run_t *run) {
  weave_here();
  uvs_set_result(run, &results[0]);
  return 0;
}

static int body_b(uvs_run_t *run) {
  weave_here();
  uvs_set_result(run, &results[1]);
  return 0;
}

static int body_fails(uvs_run_t *run) {
  (void)run;
  weave_here();
  return UV_EIO;
}

static void two_specs(uvs_task_t *t, uvs_work_cb one, uvs_work_cb two) {
  uvs_task_init(&t[0]);
  uvs_task_init(&t[1]);
  t[0].work = one;
  t[1].work = two;
}

static void all_of_two(void *arg) {
  uvs_task_t t[2];
  uvs_outcome_t o[2];

  (void)arg;
  two_specs(t, body_a, body_b);
  uvs_outcome_init(&o[0]);
  WEAVE_SAME(0, uvs_all(stage.s, t, 2, UVS_NEVER, o));
  WEAVE_CHECK(o[0].status == 0 && o[0].result == &results[0] && o[0].runs == 1);
  WEAVE_CHECK(o[1].status == 0 && o[1].result == &results[1] && o[1].runs == 1);
  answered++;
}

static void any_of_two(void *arg) {
  uvs_task_t t[2];
  uvs_outcome_t o;
  size_t winner = 7;

  (void)arg;
  two_specs(t, body_a, body_b);
  uvs_outcome_init(&o);
  WEAVE_SAME(0, uvs_any(stage.s, t, 2, UVS_NEVER, &winner, &o));
  WEAVE_CHECK(winner < 2 && o.status == 0 && o.result == &results[winner]);
  answered++;
}

static void any_where_one_fails(void *arg) {
  uvs_task_t t[2];
  uvs_outcome_t o;
  size_t winner = 7;

  (void)arg;
  two_specs(t, body_fails, body_b);
  uvs_outcome_init(&o);
  WEAVE_SAME(0, uvs_any(stage.s, t, 2, UVS_NEVER, &winner, &o));
  WEAVE_SAME(1, winner);
  answered++;
}

static void any_where_all_fail(void *arg) {
  uvs_task_t t[2];

  (void)arg;
  two_specs(t, body_fails, body_fails);
  WEAVE_SAME(UV_EIO, uvs_any(stage.s, t, 2, UVS_NEVER, NULL, NULL));
  answered++;
}

static void all_within_2ms(void *arg) {
  uvs_task_t t[2];
  uvs_outcome_t o[2];
  int rc;

  (void)arg;
  two_specs(t, body_a, body_b);
  t[1].first_ns = UVS_MS(2);
  uvs_outcome_init(&o[0]);
  rc = uvs_all(stage.s, t, 2, UVS_MS(2), o);
  WEAVE_CHECK(rc == 0 || rc == UV_ETIMEDOUT);
  WEAVE_SAME(0, o[0].status);
  WEAVE_CHECK(o[1].status == 0 || (rc == UV_ETIMEDOUT && o[1].status == UV_ECANCELED));
  answered++;
}

static void play_group(int runners, void (*fn)(void *arg), void (*other)(void *arg)) {
  stage_open(runners);
  answered = 0;
  weave_spawn("group", fn, NULL, false);
  if (other != NULL)
    weave_spawn("other", other, NULL, false);
  stage_play();
  WEAVE_SAME(other != NULL ? 2 : 1, answered);
  stage_close();
}

static void all(void) {
  play_group(2, all_of_two, NULL);
}

static void any(void) {
  play_group(2, any_of_two, NULL);
}

static void any_one_fails(void) {
  play_group(1, any_where_one_fails, NULL);
}

static void any_all_fail(void) {
  play_group(2, any_where_all_fail, NULL);
}

static void all_meets_time_out(void) {
  play_group(1, all_within_2ms, NULL);
}

static void two_groups(void) {
  play_group(1, all_of_two, any_where_one_fails);
}

/* ---- abandoning a wait ---- */

static uvs_waiter_t waiter;
static int interrupted, abandoned;

static void open_with_waiter(void) {
  stage_open(1);
  uvs_waiter_init(&waiter);
  interrupted = abandoned = 0;
  answered = 0;
}

static void wait_or_leave(void *arg) {
  struct part *p = arg;
  uvs_outcome_t o;
  int rc;

  uvs_outcome_init(&o);
  rc = uvs_wait_with(stage.s, p->id, UVS_NEVER, 0, &waiter, &o);
  WEAVE_CHECK(rc == 0 || rc == UV_EINTR);
  interrupted += rc == UV_EINTR;
  if (rc == 0)
    check_outcome(p, &o);
}

static void await_or_leave(void *arg) {
  int rc = uvs_wait_terminated_with(stage.s, UVS_NEVER, &waiter);

  (void)arg;
  WEAVE_CHECK(rc == 0 || rc == UV_EINTR);
  interrupted += rc == UV_EINTR;
}

static void abandon(void *arg) {
  int rc = uvs_abandon(stage.s, &waiter);

  (void)arg;
  WEAVE_CHECK(rc == 0 || rc == 1);
  abandoned += rc;
}

/* The thread sleeps until it is abandoned: the task never ends by itself. */
static void abandon_meets_sleep(void) {
  open_with_waiter();
  kept('a')->spec.first_ns = UVS_NEVER;
  stage.parts[0].stays = true;
  stage_submit(&stage.parts[0]);
  weave_spawn("wait", wait_or_leave, &stage.parts[0], false);
  weave_spawn("abandon", abandon, NULL, false);
  stage_play();
  WEAVE_SAME(1, interrupted);
  stage.parts[0].others_cancel = true;
  WEAVE_SAME(UVS_CANCELLED, uvs_cancel(stage.s, stage.parts[0].id, 0));
  WEAVE_SAME(0, uvs_forget(stage.s, stage.parts[0].id));
  stage.parts[0].forgotten = true;
  stage_play();
  stage_close();
}

/* If uvs_abandon reports that the sleeping thread leaves, it does. Otherwise the next call
 * leaves. */
static void abandon_meets_end(void) {
  open_with_waiter();
  stage_submit(kept('a'));
  weave_spawn("wait", wait_or_leave, &stage.parts[0], false);
  weave_spawn("abandon", abandon, NULL, false);
  stage_play();
  WEAVE_CHECK(interrupted >= abandoned);
  end(&stage.parts[0]);
}

/* An abandoned wait takes no result. */
static void abandon_meets_a_result(void) {
  open_with_waiter();
  stage_submit(kept('a'));
  weave_spawn("wait", wait_or_leave, &stage.parts[0], false);
  weave_spawn("abandon", abandon, NULL, false);
  stage_play();
  forget(&stage.parts[0]);
  WEAVE_SAME(1, seen[0].sets);
  check_result(&stage.parts[0]);
  stage_close();
}

static void abandon_meets_cancel(void) {
  open_with_waiter();
  kept('a')->spec.first_ns = UVS_MS(50);
  stage_submit(&stage.parts[0]);
  weave_spawn("wait", wait_or_leave, &stage.parts[0], false);
  weave_spawn("abandon", abandon, NULL, false);
  weave_spawn("cancel", stage_cancel_arg, &stage.parts[0], false);
  stage_play();
  WEAVE_CHECK(interrupted >= abandoned);
  end(&stage.parts[0]);
}

static void abandon_meets_termination(void) {
  open_with_waiter();
  weave_spawn("await", await_or_leave, NULL, false);
  weave_spawn("abandon", abandon, NULL, false);
  weave_spawn("shutdown", shut_down, NULL, false);
  stage_play();
  WEAVE_CHECK(interrupted >= abandoned);
  stage_close();
}

static void all_or_leave(void *arg) {
  uvs_task_t t[2];
  uvs_outcome_t o[2];
  int rc;

  (void)arg;
  two_specs(t, body_a, body_b);
  t[1].first_ns = UVS_MS(2);
  uvs_outcome_init(&o[0]);
  rc = uvs_all_with(stage.s, t, 2, UVS_NEVER, &waiter, o);
  WEAVE_CHECK(rc == 0 || rc == UV_EINTR);
  interrupted += rc == UV_EINTR;
  if (rc == 0)
    WEAVE_CHECK(o[0].status == 0 && o[1].status == 0);
  answered++;
}

static void any_or_leave(void *arg) {
  uvs_task_t t[2];
  size_t winner = 7;
  int rc;

  (void)arg;
  two_specs(t, body_a, body_fails);
  rc = uvs_any_with(stage.s, t, 2, UVS_NEVER, &waiter, &winner, NULL);
  WEAVE_CHECK(rc == 0 || rc == UV_EINTR);
  interrupted += rc == UV_EINTR;
  if (rc == 0)
    WEAVE_SAME(0, winner);
  answered++;
}

static void play_abandoned_group(void (*fn)(void *arg)) {
  open_with_waiter();
  weave_spawn("group", fn, NULL, false);
  weave_spawn("abandon", abandon, NULL, false);
  stage_play();
  WEAVE_SAME(1, answered);
  WEAVE_CHECK(interrupted >= abandoned);
  stage_close();
}

static void abandon_meets_all(void) {
  play_abandoned_group(all_or_leave);
}

static void abandon_meets_any(void) {
  play_abandoned_group(any_or_leave);
}

/* One wait times out, the other goes on: it must not be lost with the first. */
static void one_of_two_waits_times_out(void) {
  stage_open(1);
  kept('a')->takes_ms = 2;
  stage_submit(&stage.parts[0]);
  weave_spawn("2ms", wait_2ms, &stage.parts[0], false);
  weave_spawn("quiet", wait_quiet, &stage.parts[0], false);
  weave_spawn("cancel", cancel_in_its_run, &stage.parts[0], false);
  end(&stage.parts[0]);
}

static void shut_down_now(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_shutdown_now(stage.s, NULL, NULL));
}

static void all_or_shut(void *arg) {
  uvs_task_t t[2];
  uvs_outcome_t o[2];
  int rc;

  (void)arg;
  two_specs(t, body_a, body_b);
  t[1].first_ns = UVS_MS(2);
  uvs_outcome_init(&o[0]);
  rc = uvs_all(stage.s, t, 2, UVS_NEVER, o);
  WEAVE_CHECK(rc == 0 || rc == UV_ESHUTDOWN);
  answered++;
}

static void all_meets_shutdown_now(void) {
  stage_open(1);
  answered = 0;
  weave_spawn("all", all_or_shut, NULL, false);
  weave_spawn("now", shut_down_now, NULL, false);
  stage_play();
  WEAVE_SAME(1, answered);
  stage_close();
}

/* ---- close ---- */

static void wait_held(void *arg) {
  struct part *p = arg;
  uvs_outcome_t o;
  int rc;

  uvs_outcome_init(&o);
  rc = uvs_wait(stage.s, p->id, UVS_NEVER, 0, &o);
  WEAVE_CHECK(rc == 0 || rc == UV_ENOENT || rc == UV_ESHUTDOWN);
  if (rc == 0)
    check_outcome(p, &o);
  uvs_release(stage.s);
}

static void close_meets_wait(void) {
  stage_open(1);
  stage_submit(kept('a'));
  stage.parts[0].others_cancel = true;
  uvs_retain(stage.s);
  weave_spawn("wait", wait_held, &stage.parts[0], false);
  stage_go();
  WEAVE_SAME(0, uvs_close(stage.s, stage_on_closed));
  stage_await_close();
}

/* Close drops a result that no wait received. A wait that comes too late does not get it. */
static void close_meets_a_result(void) {
  stage_open(1);
  stage_submit(kept('a'));
  stage_play();
  uvs_retain(stage.s);
  weave_spawn("wait", wait_held, &stage.parts[0], false);
  stage_go();
  WEAVE_SAME(0, uvs_close(stage.s, stage_on_closed));
  stage_await_close();
  WEAVE_SAME(1, seen[0].sets);
  check_result(&stage.parts[0]);
}

static void all_held(void *arg) {
  uvs_task_t t[2];
  int rc;

  (void)arg;
  two_specs(t, body_a, body_b);
  rc = uvs_all(stage.s, t, 2, UVS_NEVER, NULL);
  WEAVE_CHECK(rc == 0 || rc == UV_ESHUTDOWN);
  uvs_release(stage.s);
}

static void close_meets_all(void) {
  stage_open(1);
  stage.on_their_way = true;
  uvs_retain(stage.s);
  weave_spawn("all", all_held, NULL, false);
  stage_go();
  WEAVE_SAME(0, uvs_close(stage.s, stage_on_closed));
  stage_await_close();
}

const struct weave_scene scenes_wait[] = {
    {"wait", "wait-meets-end", wait_meets_end},
    {"wait", "two-threads-wait", two_threads_wait},
    {"wait", "wait-meets-cancel", wait_meets_cancel},
    {"wait", "wait-meets-cancel-in-its-run", wait_meets_cancel_in_its_run},
    {"wait", "wait-meets-forget", wait_meets_forget},
    {"wait", "forget-meets-end", forget_meets_end},
    {"wait", "time-out-meets-end", time_out_meets_end},
    {"wait", "wait-meets-reschedule", wait_meets_reschedule},
    {"wait", "wait-for-a-refused-task", wait_for_a_refused_task},
    {"wait", "all-of-two", all},
    {"wait", "any-of-two", any},
    {"wait", "any-one-fails", any_one_fails},
    {"wait", "any-all-fail", any_all_fail},
    {"wait", "all-meets-time-out", all_meets_time_out},
    {"wait", "two-groups", two_groups},
    {"wait", "close-meets-wait", close_meets_wait},
    {"wait", "close-meets-a-result", close_meets_a_result},
    {"wait", "close-meets-all", close_meets_all},
    {"wait", "abandon-meets-sleep", abandon_meets_sleep},
    {"wait", "abandon-meets-end", abandon_meets_end},
    {"wait", "abandon-meets-a-result", abandon_meets_a_result},
    {"wait", "abandon-meets-cancel", abandon_meets_cancel},
    {"wait", "abandon-meets-termination", abandon_meets_termination},
    {"wait", "abandon-meets-all", abandon_meets_all},
    {"wait", "abandon-meets-any", abandon_meets_any},
    {"wait", "one-of-two-waits-times-out", one_of_two_waits_times_out},
    {"wait", "all-meets-shutdown-now", all_meets_shutdown_now},
    {NULL, NULL, NULL},
};
