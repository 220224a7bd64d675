/* SPDX-License-Identifier: MIT
 *
 * How the time between due and start is split: each part goes to its cause, and nothing is lost.
 */
#include "task/late.h"

#include <string.h>

#include "lib/unit.h"

#define MS INT64_C(1000000)

static int64_t by[UVS_LATE_CAUSES];

/* Due at 100 ms, followed by every possible delay, 10 ms each. */
static struct uvs__late late_in_every_way(void) {
  return (struct uvs__late){
      .due_ns = 100 * MS,
      .step_ns = 10 * MS,
      .since_ns = 120 * MS,
      .turn_ns = 130 * MS,
      .ready_ns = 140 * MS,
      .home_ns = 150 * MS,
      .again_ns = 160 * MS,
      .start_ns = 170 * MS,
      .timed = true,
  };
}

TEST each_part_of_a_lateness_is_attributed_to_its_cause(void) {
  struct uvs__late l = late_in_every_way();

  ASSERT_RC(UVS_LATE_RUNNERS, uvs__late_split(&l, by));
  ASSERT_U64(10 * MS, by[UVS_LATE_CLOCK]);
  ASSERT_U64(10 * MS, by[UVS_LATE_OVERLAP]);
  ASSERT_U64(0, by[UVS_LATE_SUBMIT]);
  ASSERT_U64(1 * MS, by[UVS_LATE_TIMER]); /* never more than what it rounds up */
  ASSERT_U64(19 * MS, by[UVS_LATE_LOOP]); /* also to call out those who had gone home */
  ASSERT_U64(10 * MS, by[UVS_LATE_BUDGET]);
  ASSERT_U64(20 * MS, by[UVS_LATE_RUNNERS]); /* before that, and after */
  l.first = true;
  l.timed = false;
  uvs__late_split(&l, by);
  ASSERT_U64(0, by[UVS_LATE_OVERLAP]);
  ASSERT_U64(10 * MS, by[UVS_LATE_SUBMIT]);
  ASSERT_U64(0, by[UVS_LATE_TIMER]);
  ASSERT_U64(20 * MS, by[UVS_LATE_LOOP]);
  l.on_loop = true;
  uvs__late_split(&l, by);
  ASSERT_U64(10 * MS, by[UVS_LATE_LOOP]);
  ASSERT_U64(20 * MS, by[UVS_LATE_BUDGET]);  /* handed over late, and carried over again */
  ASSERT_U64(20 * MS, by[UVS_LATE_RUNNERS]); /* a body that outlasted the pass, and the rest */
  PASS();
}

/* Due at 100. The body of the previous run returned at 110, its `after` started at 140 and ended at
 * 145. */
TEST waiting_for_the_previous_runs_after_is_attributed_to_the_loop(void) {
  struct uvs__late l = {.due_ns = 100 * MS, .ended_ns = 110 * MS, .after_ns = 140 * MS};

  l.since_ns = l.turn_ns = l.ready_ns = l.start_ns = 145 * MS;
  ASSERT_RC(UVS_LATE_LOOP, uvs__late_split(&l, by));
  ASSERT_U64(30 * MS, by[UVS_LATE_LOOP]);
  ASSERT_U64(15 * MS, by[UVS_LATE_OVERLAP]);
  PASS();
}

TEST a_start_on_time_has_no_culprit(void) {
  struct uvs__late l = late_in_every_way();

  l.start_ns = l.due_ns;
  ASSERT_RC(-1, uvs__late_split(&l, by));
  for (int i = 0; i < UVS_LATE_CAUSES; i++)
    ASSERT_U64(0, by[i]);
  l.start_ns = l.due_ns - 1;
  ASSERT_RC(-1, uvs__late_split(&l, by));
  PASS();
}

TEST the_timer_is_blamed_only_for_the_wait_for_the_loop(void) {
  struct uvs__late l = {.due_ns = 100 * MS, .timed = true, .start_ns = 101 * MS};

  l.turn_ns = 100 * MS + 300000;
  l.ready_ns = l.turn_ns;
  ASSERT_RC(UVS_LATE_RUNNERS, uvs__late_split(&l, by));
  ASSERT_U64(300000, by[UVS_LATE_TIMER]);
  ASSERT_U64(0, by[UVS_LATE_LOOP]);
  ASSERT_U64(700000, by[UVS_LATE_RUNNERS]);
  PASS();
}

/* For any times: no part is negative, and the sum is the lateness. */
TEST the_parts_of_a_lateness_add_up(void) {
  uint64_t x = test_seed | 1;

  for (int n = 0; n < 200000; n++) {
    int64_t at[10];
    struct uvs__late l;
    int64_t sum = 0;
    int culprit;

    for (int i = 0; i < 10; i++) {
      x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
      at[i] = (int64_t)(x >> 33) % (n % 2 == 0 ? 20 : 50 * MS);
    }
    l = (struct uvs__late){.due_ns = at[0],
                           .ended_ns = at[1],
                           .after_ns = at[2],
                           .since_ns = at[3],
                           .turn_ns = at[4],
                           .ready_ns = at[5],
                           .home_ns = at[6],
                           .again_ns = at[7],
                           .start_ns = at[8],
                           .step_ns = at[9],
                           .on_loop = n % 7 == 0,
                           .timed = n % 3 == 0,
                           .first = n % 5 == 0};
    culprit = uvs__late_split(&l, by);
    for (int i = 0; i < UVS_LATE_CAUSES; i++) {
      ASSERT(by[i] >= 0);
      ASSERT(culprit < 0 || by[i] <= by[culprit]);
      sum += by[i];
    }
    ASSERT_U64(l.start_ns > l.due_ns ? l.start_ns - l.due_ns : 0, sum);
    ASSERT((culprit >= 0) == (sum > 0));
  }
  PASS();
}

SUITE(late) {
  RUN_TEST(each_part_of_a_lateness_is_attributed_to_its_cause);
  RUN_TEST(waiting_for_the_previous_runs_after_is_attributed_to_the_loop);
  RUN_TEST(a_start_on_time_has_no_culprit);
  RUN_TEST(the_timer_is_blamed_only_for_the_wait_for_the_loop);
  RUN_TEST(the_parts_of_a_lateness_add_up);
}

TEST_MAIN(RUN_SUITE(late));
