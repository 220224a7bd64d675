/* SPDX-License-Identifier: MIT
 *
 * Priorities of tasks, on a runner and on the loop: ready tasks start 8 : 4 : 1. Priority does not
 * affect tasks that are not ready, nor the order within a class or a lane. The arithmetic is tested
 * in rooms/test_ready.c.
 */
#include "uvsched/lane.h"

#include "lib/full.h"
#include "lib/limited.h"
#include "lib/threads.h"

#define CYCLE "hhnhhnhhnhhnl"

static int priority_of(int tag) {
  return tag == 'h' || tag == 'H'   ? UVS_PRIORITY_HIGH
         : tag == 'l' || tag == 'L' ? UVS_PRIORITY_LOW
                                    : UVS_PRIORITY_NORMAL;
}

static uvs_task_t spec(struct fixture *f, int tag, int64_t delay_ns) {
  uvs_task_t t = fixture_once(f, tag, delay_ns);

  t.priority = priority_of(tag);
  return t;
}

static enum greatest_test_res submit(struct fixture *f, int tag, int64_t delay_ns, uvs_id_t *ret) {
  uvs_task_t t = spec(f, tag, delay_ns);

  ASSERT_RC(0, uvs_submit(f->s, &t, ret));
  PASS();
}

static enum greatest_test_res submit_all(struct fixture *f, const char *tags) {
  for (; *tags != '\0'; tags++)
    CHECK_CALL(submit(f, *tags, 0, NULL));
  PASS();
}

static enum greatest_test_res open_with(struct fixture *f, int concurrency) {
  fixture_init(f);
  f->options.concurrency = concurrency;
  CHECK_CALL(fixture_open_turned(f));
  PASS();
}

/* The count of ready tasks equals the lengths of the lists. */
static enum greatest_test_res lists_add_up(struct fixture *f, uint64_t ready) {
  uvs_counts_t c = counts_of(f->s);

  ASSERT(adds_up(&c));
  ASSERT_U64(ready, c.ready);
  ASSERT(inspect_check(f->s));
  PASS();
}

#define BACKLOG "lllnnnnnnnnhhhhhhhhhhhhhhhhnnnnl"

/* Weighted round robin, 8 : 4 : 1. */
TEST ready_tasks_of_the_three_priorities_start_8_to_4_to_1(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    for (int off_loop = 0; off_loop < 2; off_loop++) {
      struct fixture f;

      CHECK_CALL(open_with(&f, concurrency));
      fakepool_hold();
      for (const char *tag = BACKLOG; *tag != '\0'; tag++) {
        uvs_task_t t = spec(&f, *tag, 0);

        if (off_loop)
          ASSERT_RC(0, submit_elsewhere(f.s, t, NULL));
        else
          ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      }
      if (concurrency > 0) {
        fixture_turn(&f);
        CHECK_CALL(lists_add_up(&f, strlen(BACKLOG)));
      }
      fakepool_release();
      fixture_turn(&f);
      ASSERT_STR_EQ(CYCLE CYCLE "nnnnll", log_string(&f, EV_WORK));
      CHECK_CALL(lists_add_up(&f, 0));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* S63: equal tasks start in the order of submission, whatever comes in between. */
TEST within_a_priority_the_order_of_submission_is_kept(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    struct fixture f;
    char in_order[64] = "";

    CHECK_CALL(open_with(&f, concurrency));
    fakepool_hold();
    for (int i = 0; i < 20; i++) {
      for (int k = -1; k <= 1; k++) {
        uvs_task_t t = fixture_once(&f, k == 0 ? 'a' + i : k > 0 ? 'H' : 'L', 0);

        t.priority = k;
        if (i % 2 == 0)
          t.name = "cold";
        ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      }
    }
    fakepool_release();
    fixture_turn(&f);
    for (const char *c = log_string(&f, EV_WORK); *c != '\0'; c++) {
      if (*c != 'H' && *c != 'L')
        in_order[strlen(in_order)] = *c;
    }
    ASSERT_STR_EQ("abcdefghijklmnopqrst", in_order);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S63 S69: priority does not matter for tasks that are not ready. */
TEST priority_does_not_affect_tasks_that_are_not_ready(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    struct fixture f;

    CHECK_CALL(open_with(&f, concurrency));
    CHECK_CALL(submit(&f, 'h', UVS_MS(2), NULL));
    CHECK_CALL(submit(&f, 'l', UVS_MS(1), NULL));
    CHECK_CALL(submit(&f, 'n', UVS_MS(3), NULL));
    fixture_advance_ms(&f, 3);
    ASSERT_STR_EQ("lhn", log_string(&f, EV_WORK));
    log_clear(&f);
    /* All tasks are late and become ready at the same look at the clock. Then priority matters. */
    CHECK_CALL(submit(&f, 'l', UVS_MS(1), NULL));
    CHECK_CALL(submit(&f, 'n', UVS_MS(2), NULL));
    CHECK_CALL(submit(&f, 'h', UVS_MS(3), NULL));
    fixture_jump_ms(&f, 5);
    ASSERT_U64(3, strlen(log_string(&f, EV_WORK)));
    ASSERT_RC('h', log_nth(&f, EV_WORK, 0, 0)->tag);
    ASSERT_RC('l', log_nth(&f, EV_WORK, 0, 2)->tag);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int act_again(struct probe *p, uvs_run_t *run) {
  (void)run;
  if (p->ret-- > 0) {
    uvs_task_t t = spec(p->f, p->tag, 0);

    t.arg = p;
    return uvs_submit(p->f->s, &t, NULL) < 0 ? UV_EIO : 0;
  }
  return 0;
}

/* The documented bound: nothing starves, however many tasks of a higher class are submitted. */
TEST the_oldest_low_priority_task_starts_after_at_most_twelve_others(void) {
  static const struct {
    int tag;
    const char *others;
    unsigned most;
  } cases[] = {{'l', "hhhnnn", 12}, {'l', "hhh", 12}, {'l', "nnn", 12},
               {'n', "hhhlll", 3},  {'n', "hhh", 3},  {'h', "nnnlll", 2}};

  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (int before = 0; before < 13; before++) {
      struct fixture f;
      unsigned place = 0;

      CHECK_CALL(open_with(&f, 1));
      for (int k = 0; k < before; k++) /* starts at any position of the cycle */
        CHECK_CALL(submit(&f, 'x', 0, NULL));
      fixture_turn(&f);
      log_clear(&f);
      fakepool_hold();
      for (const char *tag = cases[i].others; *tag != '\0'; tag++) {
        uvs_task_t t = spec(&f, *tag, 0);

        probe_of(&t)->act = act_again;
        probe_of(&t)->ret = 10;
        ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      }
      CHECK_CALL(submit(&f, cases[i].tag, 0, NULL));
      fakepool_release();
      fixture_turn(&f);
      while (log_nth(&f, EV_WORK, 0, place)->tag != cases[i].tag)
        place++;
      ASSERT(place <= cases[i].most);
      ASSERT_U64(11 * strlen(cases[i].others) + 1, log_count(&f, EV_WORK, 0));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* S8 S18: a caller's mistake changes nothing. */
TEST invalid_priorities_are_refused_and_change_nothing(void) {
  static const int wrong[] = {2, -2, INT32_MAX, INT32_MIN, 100};
  struct fixture f;
  uvs_lane_t lane;

  CHECK_CALL(open_with(&f, 1));
  ASSERT_RC(0, uvs_lane_open(f.s, NULL, &lane));
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    uvs_id_t ids[3] = {7, 7, 7};
    uvs_task_t t[3];

    for (int k = 0; k < 3; k++)
      t[k] = spec(&f, 'a', 0);
    t[2].priority = wrong[i];
    ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t[2], ids));
    ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, t, 3, ids));
    ASSERT_RC(UV_EINVAL, uvs_lane_submit(lane, &t[2], ids));
    for (int k = 0; k < 3; k++)
      ASSERT_U64(7, ids[k]);
  }
  uvs_counts_t c = counts_of(f.s);
  ASSERT_U64(0, c.submitted + c.rejected);
  fixture_turn(&f);
  ASSERT_U64(0, log_total(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int each_checks(uvs_t *s, const uvs_info_t *info, void *arg) {
  struct probe *p = info->arg;

  (void)s;
  ++*(int *)arg;
  return info->priority != priority_of(p->tag);
}

/* S27 */
TEST the_info_of_a_task_shows_its_priority(void) {
  static const char tags[] = "hnl";
  struct fixture f;
  int seen = 0;

  CHECK_CALL(open_with(&f, 1));
  for (const char *tag = tags; *tag != '\0'; tag++) {
    uvs_id_t id;

    CHECK_CALL(submit(&f, *tag, UVS_DAY(1), &id));
    ASSERT_RC(priority_of(*tag), look_at(f.s, id).info.priority);
    uvs_task_t far = spec(&f, *tag, UVS_DAY(1));
    ASSERT_RC(0, submit_elsewhere(f.s, far, &id));
    ASSERT_RC(priority_of(*tag), look_at(f.s, id).info.priority);
    uvs_task_t rate = fixture_rate(&f, *tag, 0, UVS_MS(1));
    rate.priority = priority_of(*tag);
    ASSERT_RC(0, uvs_submit(f.s, &rate, &id));
    fixture_advance_ms(&f, 3);
    ASSERT_RC(priority_of(*tag), look_at(f.s, id).info.priority);
  }
  uvs_id_t plain;
  ASSERT_RC(0, uvs_schedule(f.s, UVS_DAY(1), probe_work, fixture_probe(&f, 'p'), &plain));
  ASSERT_RC(0, look_at(f.s, plain).info.priority);
  ASSERT_RC(0, uvs_each(f.s, each_checks, &seen));
  ASSERT_RC(10, seen);
  ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R2 R3: of a lane, the priority of its first task counts. */
TEST a_lane_keeps_its_order_whatever_the_priorities(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    static const char order[] = "abcdefghijklmnopqrst";
    struct fixture f;
    uvs_lane_t first, second;

    CHECK_CALL(open_with(&f, concurrency));
    ASSERT_RC(0, uvs_lane_open(f.s, NULL, &first));
    ASSERT_RC(0, uvs_lane_open(f.s, NULL, &second));
    fakepool_hold();
    for (const char *tag = order; *tag != '\0'; tag++) {
      uvs_task_t t = fixture_once(&f, *tag, 0);

      t.lane = first;
      t.priority = (*tag * 7) % 3 - 1;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fakepool_release();
    fixture_turn(&f);
    ASSERT_STR_EQ(order, log_string(&f, EV_WORK));
    log_clear(&f);
    /* The first task of the second lane has high priority. In the other lane, a high task waits
     * behind a low one. */
    fakepool_hold();
    for (const char *tag = "LHH"; *tag != '\0'; tag++) {
      uvs_task_t t = spec(&f, *tag, 0);

      t.lane = first;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    for (const char *tag = "hhn"; *tag != '\0'; tag++) {
      uvs_task_t t = spec(&f, *tag, 0);

      t.lane = second;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fakepool_release();
    fixture_turn(&f);
    ASSERT_STR_EQ("hhnLHH", log_string(&f, EV_WORK));
    CHECK_CALL(lists_add_up(&f, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S67 V5 */
TEST with_concurrency_zero_the_loop_runs_ready_tasks_by_priority(void) {
  struct fixture f;

  CHECK_CALL(open_with(&f, 1));
  fakepool_hold();
  CHECK_CALL(submit_all(&f, BACKLOG));
  fixture_turn(&f);
  CHECK_CALL(lists_add_up(&f, strlen(BACKLOG)));
  ASSERT_RC(0, uvs_set_concurrency(f.s, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ(CYCLE CYCLE "nnnnll", log_string(&f, EV_WORK));
  for (unsigned i = 0; i < strlen(BACKLOG); i++)
    ASSERT(log_nth(&f, EV_WORK, 0, i)->on_loop);
  fakepool_release();
  fixture_turn(&f);
  CHECK_CALL(lists_add_up(&f, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int act_brings_a_runner(struct probe *p, uvs_run_t *run) {
  (void)run;
  return uvs_set_concurrency(p->f->s, 1);
}

/* S67: tasks that moved to the loop stay there, by priority, and so do new tasks of the runner. */
TEST with_runners_again_loop_and_pool_both_keep_priorities(void) {
  char on_loop[64] = "", on_runner[64] = "";
  struct fixture f;

  CHECK_CALL(open_with(&f, 0));
  uvs_task_t first = fixture_once(&f, 'x', 0);
  probe_of(&first)->act = act_brings_a_runner;
  probe_of(&first)->takes_ns = UVS_MS(2); /* the pass ends, the rest is carried over */
  first.priority = UVS_PRIORITY_HIGH;
  ASSERT_RC(0, uvs_submit(f.s, &first, NULL));
  CHECK_CALL(submit_all(&f, "lnnnnhhhhhhh"));
  uv_run(&f.loop, UV_RUN_NOWAIT);
  ASSERT_STR_EQ("x", log_string(&f, EV_WORK));
  CHECK_CALL(lists_add_up(&f, 12));
  CHECK_CALL(submit_all(&f, "lnnnnhhhhhhhh"));
  fixture_turn(&f);
  for (unsigned i = 1; i < 26; i++) {
    const struct event *e = log_nth(&f, EV_WORK, 0, i);
    char *to = e->on_loop ? on_loop : on_runner;

    to[strlen(to)] = (char)e->tag;
  }
  ASSERT_STR_EQ("hnhhnhhnhhnl", on_loop); /* the first of the cycle was x */
  ASSERT_STR_EQ(CYCLE, on_runner);
  CHECK_CALL(lists_add_up(&f, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S28 S29 P11: in each class, at the front, in the middle and at the end. */
TEST a_task_cancelled_while_ready_leaves_its_priority_list(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (int which = 0; which < 3; which++) {
      struct fixture f;
      uvs_id_t ids[9];

      CHECK_CALL(open_with(&f, 1));
      fakepool_hold();
      for (int i = 0; i < 9; i++) {
        uvs_task_t t = fixture_once(&f, '1' + i, 0);

        t.priority = i / 3 - 1;
        ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
      }
      fixture_turn(&f);
      CHECK_CALL(lists_add_up(&f, 9));
      for (int k = 0; k < 3; k++) {
        if (off_loop)
          ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, ids[3 * k + which]));
        else
          ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, ids[3 * k + which], 0));
        CHECK_CALL(lists_add_up(&f, 8 - (uint64_t)k));
      }
      fakepool_release();
      fixture_turn(&f);
      ASSERT_STR_EQ(which == 0   ? "895623"
                    : which == 1 ? "794613"
                                 : "784512",
                    log_string(&f, EV_WORK));
      CHECK_CALL(lists_add_up(&f, 0));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* F5 J5 */
TEST a_task_that_times_out_while_ready_leaves_its_priority_list(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    struct fixture f;

    CHECK_CALL(open_with(&f, 1));
    fakepool_hold();
    for (const char *tag = "hhnnll"; *tag != '\0'; tag++) {
      uvs_task_t t = spec(&f, *tag, 0);

      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      t.limit.total_ns = LIMIT_NS;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_turn(&f);
    CHECK_CALL(lists_add_up(&f, 12));
    fixture_advance_ms(&f, LIMIT_MS);
    CHECK_CALL(lists_add_up(&f, 6));
    ASSERT_U64(6, log_count(&f, EV_DONE, 0));
    for (unsigned i = 0; i < 6; i++)
      ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_DONE, 0, i)->status);
    if (concurrency == 0)
      ASSERT_RC(0, uvs_set_concurrency(f.s, 0));
    fakepool_release();
    fixture_turn(&f);
    ASSERT_STR_EQ("hhnnll", log_string(&f, EV_WORK));
    CHECK_CALL(lists_add_up(&f, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S33 V2 */
TEST an_immediate_shutdown_hands_back_ready_tasks_of_all_priorities(void) {
  struct fixture f;

  CHECK_CALL(open_with(&f, 1));
  fakepool_hold();
  CHECK_CALL(submit_all(&f, BACKLOG));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_shutdown_now(f.s, probe_never_ran, NULL));
  fixture_turn(&f);
  ASSERT_U64(strlen(BACKLOG), log_count(&f, EV_NEVER_RAN, 0));
  ASSERT_U64(strlen(BACKLOG), log_count(&f, EV_DONE, 0));
  CHECK_CALL(lists_add_up(&f, 0));
  fakepool_release();
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* P6: the task that would start next is dropped. */
TEST the_task_that_would_start_next_is_the_one_dropped(void) {
  struct fixture f;

  prepare(&f, 4, UVS_REJECT_DISCARD_OLDEST);
  CHECK_CALL(fixture_open_turned(&f));
  fakepool_hold();
  CHECK_CALL(submit_all(&f, "lnHh"));
  fixture_turn(&f);
  CHECK_CALL(submit(&f, 'x', 0, NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("H", log_string(&f, EV_DONE));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_STR_EQ("hnxl", log_string(&f, EV_WORK));
  CHECK_CALL(lists_add_up(&f, 0));
  CHECK_CALL(close_checked(&f));
  PASS();
}

SUITE(priority) {
  RUN_TEST(ready_tasks_of_the_three_priorities_start_8_to_4_to_1);
  RUN_TEST(within_a_priority_the_order_of_submission_is_kept);
  RUN_TEST(priority_does_not_affect_tasks_that_are_not_ready);
  RUN_TEST(the_oldest_low_priority_task_starts_after_at_most_twelve_others);
  RUN_TEST(invalid_priorities_are_refused_and_change_nothing);
  RUN_TEST(the_info_of_a_task_shows_its_priority);
  RUN_TEST(a_lane_keeps_its_order_whatever_the_priorities);
  RUN_TEST(with_concurrency_zero_the_loop_runs_ready_tasks_by_priority);
  RUN_TEST(with_runners_again_loop_and_pool_both_keep_priorities);
  RUN_TEST(a_task_cancelled_while_ready_leaves_its_priority_list);
  RUN_TEST(a_task_that_times_out_while_ready_leaves_its_priority_list);
  RUN_TEST(an_immediate_shutdown_hands_back_ready_tasks_of_all_priorities);
  RUN_TEST(the_task_that_would_start_next_is_the_one_dropped);
}

TEST_MAIN(RUN_SUITE(priority));
