/* SPDX-License-Identifier: MIT
 *
 * delay: the delay queue of tasks. After every step uvs__delay_check must hold, the bound must not
 * be after the first deadline, and `upto` must not be after the present. The random programs
 * compare with a linear search of an array.
 *
 * Needs: src/delay/delay.c src/util/{slots,heap}.c src/port/{mem,linux}.c src/task/table.c
 *        test/lib/fault.c
 */
#include "delay/delay.h"

#include <string.h>

#include "lib/unit.h"

#define TICK (UINT64_C(1) << UVS__TICK_BITS)
#define HOUR_NS (UINT64_C(3600) * 1000000000)
#define DAY_NS (24 * HOUR_NS)
/* A day after the machine was started, and at no border of any level. */
#define START_NS (DAY_NS + 123456789)
#define PLENTY 1000000 /* steps */

struct yard {
  struct uvs__table table;
  struct uvs__delay d;
  struct fault fault;
  uvs_allocator_t mem;
  uint64_t now_ns;
};

static void yard_init(struct yard *y) {
  fault_init(&y->fault);
  y->mem = fault_option(&y->fault);
  uvs__table_init(&y->table);
  y->now_ns = START_NS;
  uvs__delay_init(&y->d, &y->table, y->now_ns);
}

static bool yard_destroy(struct yard *y) {
  uvs__table_free_memory(&y->table, &y->mem);
  return y->fault.live == 0;
}

static struct uvs__task *at(const struct yard *y, uint32_t slot) {
  return uvs__task_at(&y->table, slot);
}

/* A task that is in no queue. */
static uint32_t fresh(struct yard *y) {
  uint32_t slot;
  struct uvs__task *t;

  if (uvs__slots_room(&y->table.tasks) == 0) {
    struct uvs__slots *tasks = &y->table.tasks;
    struct uvs__slots_chunk c;

    if (uvs__slots_prepare(tasks, tasks->chunks, &y->mem, &c) < 0)
      abort();
    uvs__table_attach(&y->table, tasks, &c);
  }
  slot = uvs__table_take(&y->table);
  t = at(y, slot);
  uvs__set_state(t, UVS__WAITING);
  t->seq = ++y->table.next_seq & ((UINT64_C(1) << UVS__SEQ_BITS) - 1);
  return slot;
}

static void put(struct yard *y, uint32_t slot, uint64_t due_ns) {
  at(y, slot)->due_ns = due_ns;
  at(y, slot)->place = UVS__IN_DELAY;
  uvs__delay_put(&y->d, slot, y->now_ns);
}

static uint32_t add(struct yard *y, uint64_t due_ns) {
  uint32_t slot = fresh(y);

  put(y, slot, due_ns);
  return slot;
}

static void set_free(struct yard *y, uint32_t slot) {
  struct uvs__task *t = at(y, slot);

  t->place = UVS__NOWHERE;
  uvs__set_state(t, UVS__ENDED);
  uvs__set_state(t, UVS__FREE);
  uvs__table_give(&y->table, slot);
}

static void cancel(struct yard *y, uint32_t slot) {
  uvs__delay_remove(&y->d, slot);
  set_free(y, slot);
}

static void move(struct yard *y, uint32_t slot, uint64_t due_ns) {
  uvs__delay_move(&y->d, slot, due_ns, y->now_ns);
}

/* Removes the next task that is due now, without freeing it. UVS__NONE if there is none. */
static uint32_t take(struct yard *y) {
  int steps = PLENTY;
  uint32_t slot = uvs__delay_take(&y->d, y->now_ns, &steps);

  if (slot != UVS__NONE)
    at(y, slot)->place = UVS__NOWHERE;
  return slot;
}

static uint64_t settled_bound(struct yard *y) {
  int steps = PLENTY;

  return uvs__delay_settle(&y->d, &steps) ? uvs__delay_bound(&y->d) : 0;
}

static uint32_t in_list(const struct yard *y, uint32_t list) {
  uint32_t n = 0;

  for (uint32_t slot = y->d.list[list].ends.b; (slot & UINT32_C(0x80000000)) == 0;
       slot = uvs__link_at(&y->table, slot)->b)
    n++;
  return n;
}

static uint32_t in_buckets(const struct yard *y) {
  uint32_t n = 0;

  for (uint32_t list = 0; list < UVS__BUCKETS; list++)
    n += in_list(y, list);
  return n;
}

#define ASSERT_SANE(y) \
  do { \
    ASSERT(uvs__delay_check(&(y)->d)); \
    ASSERT((y)->d.upto <= (y)->now_ns >> UVS__TICK_BITS); \
  } while (0)

/* ---- order ---- */

TEST an_empty_delay_queue_has_no_first_task_and_no_bound(void) {
  int steps = 3;
  struct yard y;

  yard_init(&y);
  ASSERT_U64(UVS__NEVER, uvs__delay_bound(&y.d));
  ASSERT_U64(UVS__NONE, uvs__delay_first(&y.d));
  ASSERT_U64(UVS__NONE, take(&y));
  ASSERT(uvs__delay_settle(&y.d, &steps));
  ASSERT_U64(3, steps);
  ASSERT_U64(UVS__NEVER, y.d.soonest_ns);
  ASSERT_SANE(&y);
  ASSERT(yard_destroy(&y));
  PASS();
}

/* Each border of each level, from below and from above, in three orders of arrival. The clock moves
 * from one deadline to the next. */
TEST tasks_at_every_border_come_out_in_order_and_never_early(void) {
  for (int order = 0; order < 3; order++) {
    uint64_t due_ns[UVS__LEVELS * 6 + 4];
    uint64_t last_ns = 0, last_seq = 0;
    unsigned n = 0;
    struct yard y;

    yard_init(&y);
    due_ns[n++] = 0;
    for (unsigned level = 0; level < UVS__LEVELS; level++) {
      uint64_t width = TICK << level * UVS__DIGIT_BITS;
      uint64_t border_ns = (START_NS / width + 1) * width;

      if (border_ns >= UVS__NEVER - 1)
        border_ns = UVS__NEVER - 2;
      due_ns[n++] = border_ns - 1;
      due_ns[n++] = border_ns;
      due_ns[n++] = border_ns + 1;
      due_ns[n++] = border_ns + (UVS__NEVER - border_ns > 64 * width ? 63 * width : 0);
      due_ns[n++] = border_ns;
    }
    due_ns[n++] = UINT64_C(1) << 62;
    due_ns[n++] = UVS__NEVER - 1;
    for (unsigned i = 0; i < n; i++) {
      add(&y, due_ns[order == 0 ? i : order == 1 ? n - 1 - i : i * 7 % n]);
      ASSERT_SANE(&y);
    }
    for (; n > 0; n--) {
      uint64_t bound_ns = settled_bound(&y);
      uint32_t slot;

      ASSERT_SANE(&y);
      if (bound_ns > y.now_ns) {
        y.now_ns = bound_ns - 1;
        ASSERT_U64(UVS__NONE, take(&y));
        ASSERT_SANE(&y);
        y.now_ns = bound_ns;
      }
      slot = uvs__delay_first(&y.d);
      ASSERT_U64(slot, take(&y));
      ASSERT_SANE(&y);
      ASSERT_U64(bound_ns, at(&y, slot)->due_ns);
      ASSERT(bound_ns > last_ns || (bound_ns == last_ns && at(&y, slot)->seq > last_seq));
      last_ns = bound_ns;
      last_seq = at(&y, slot)->seq;
    }
    ASSERT_U64(UVS__NONE, take(&y));
    ASSERT_U64(0, y.d.count);
    ASSERT(yard_destroy(&y));
  }
  PASS();
}

/* L20: whichever of the tasks are in the front list, and whichever in the heap. */
TEST equal_deadlines_keep_the_order_of_submission(void) {
  for (int far = 0; far < 2; far++) {
    uint64_t due_ns = START_NS + (far != 0 ? HOUR_NS : 0);
    uint32_t slot[8];
    struct yard y;

    yard_init(&y);
    for (uint32_t i = 0; i < 8; i++)
      slot[i] = fresh(&y);
    for (uint32_t i = 1; i < 8; i += 2)
      put(&y, slot[i], due_ns);
    for (uint32_t i = 0; i < 8; i += 2)
      put(&y, slot[i], due_ns);
    ASSERT_U64(far != 0 ? 0 : 4, y.table.delay_heap.count);
    ASSERT_U64(slot[0], uvs__delay_first(&y.d)); /* without settling: nothing was cancelled */
    y.now_ns = due_ns;
    for (uint32_t i = 0; i < 8; i++) {
      ASSERT_U64(slot[i], take(&y));
      ASSERT_SANE(&y);
    }
    ASSERT(yard_destroy(&y));
  }
  PASS();
}

TEST tasks_due_on_the_same_tick_come_out_by_nanosecond(void) {
  enum { N = 500 };
  uint64_t from_ns = (START_NS / TICK + 5) * TICK;
  struct yard y;

  yard_init(&y);
  for (uint32_t i = 0; i < N; i++)
    add(&y, from_ns + (i * 7919 % N) * 3);
  y.now_ns = from_ns + 3 * N;
  for (uint64_t k = 0; k < N; k++) {
    uint32_t got = take(&y);

    ASSERT(got != UVS__NONE);
    ASSERT_U64(from_ns + k * 3, at(&y, got)->due_ns);
  }
  ASSERT_U64(UVS__NONE, take(&y));
  ASSERT(yard_destroy(&y));
  PASS();
}

/* A task of the past arrives while others are in the front list. */
TEST a_deadline_in_the_past_comes_first(void) {
  uint32_t slot[3];
  struct yard y;

  yard_init(&y);
  slot[1] = add(&y, START_NS - 5);
  slot[2] = add(&y, START_NS);
  slot[0] = add(&y, 0);
  ASSERT_U64(0, uvs__delay_bound(&y.d));
  ASSERT_U64(slot[0], uvs__delay_first(&y.d));
  for (int i = 0; i < 3; i++)
    ASSERT_U64(slot[i], take(&y));
  ASSERT(yard_destroy(&y));
  PASS();
}

/* ---- the bound ---- */

TEST the_bound_is_exact_without_settling_as_long_as_tasks_only_arrive(void) {
  uint64_t random = test_seed;

  for (int run = 0; run < 200; run++) {
    uint64_t least_ns = UVS__NEVER;
    uint32_t first = UVS__NONE;
    struct yard y;

    yard_init(&y);
    for (int i = 0; i < 50; i++) {
      unsigned bits = 1 + (unsigned)test_random_below(&random, 61);
      uint64_t due_ns = START_NS + test_random_below(&random, UINT64_C(1) << bits);
      uint32_t slot = add(&y, due_ns);

      if (due_ns < least_ns) {
        least_ns = due_ns;
        first = slot;
      }
      ASSERT_U64(least_ns, uvs__delay_bound(&y.d));
      ASSERT_U64(least_ns, y.d.soonest_ns);
      ASSERT_U64(first, uvs__delay_first(&y.d));
      ASSERT_SANE(&y);
    }
    ASSERT(yard_destroy(&y));
  }
  PASS();
}

TEST cancelling_any_task_but_the_first_keeps_the_bound_exact(void) {
  uint64_t due_ns = START_NS + HOUR_NS;
  uint32_t slot[10];
  struct yard y;

  yard_init(&y);
  for (uint32_t i = 0; i < 10; i++)
    slot[i] = add(&y, due_ns + (i ^ 5u) * 100); /* slot[5] is the first */
  for (uint32_t i = 0; i < 10; i++) {
    if (i == 5)
      continue;
    cancel(&y, slot[i]);
    ASSERT_U64(due_ns, uvs__delay_bound(&y.d));
    ASSERT_U64(slot[5], uvs__delay_first(&y.d));
    ASSERT_SANE(&y);
  }
  cancel(&y, slot[5]);
  ASSERT_U64(UVS__NEVER, uvs__delay_bound(&y.d));
  ASSERT_SANE(&y);
  ASSERT(yard_destroy(&y));
  PASS();
}

/* L11: at most one wake-up for nothing. */
TEST after_the_first_was_cancelled_the_bound_is_early_until_settled(void) {
  uint64_t due_ns = (START_NS / TICK + 50) * TICK; /* all in one bucket */
  uint32_t slot[5];
  struct yard y;

  yard_init(&y);
  for (uint32_t i = 0; i < 5; i++)
    slot[i] = add(&y, due_ns + i * 100);
  for (uint32_t i = 0; i < 4; i++) {
    cancel(&y, slot[i]);
    ASSERT_SANE(&y);
    ASSERT_U64(due_ns + i * 100, uvs__delay_bound(&y.d)); /* as it was: no task was looked at */
    ASSERT_U64(due_ns + (i + 1) * 100, settled_bound(&y));
    ASSERT_U64(slot[i + 1], uvs__delay_first(&y.d));
    ASSERT_SANE(&y);
  }
  ASSERT(yard_destroy(&y));
  PASS();
}

TEST a_task_that_is_earlier_than_a_stale_bound_makes_it_exact(void) {
  uint64_t due_ns = (START_NS / TICK + 50) * TICK;
  uint32_t first, early;
  int steps = 1;
  struct yard y;

  yard_init(&y);
  first = add(&y, due_ns + 100);
  add(&y, due_ns + 200);
  cancel(&y, first);
  early = add(&y, due_ns + 50);
  ASSERT_U64(due_ns + 50, uvs__delay_bound(&y.d));
  ASSERT_U64(early, uvs__delay_first(&y.d));
  ASSERT(uvs__delay_settle(&y.d, &steps));
  ASSERT_EQ_FMT(1, steps, "%d"); /* and there is nothing to settle */
  ASSERT_SANE(&y);
  ASSERT(yard_destroy(&y));
  PASS();
}

/* Only the first bucket is looked at. */
TEST settling_does_not_touch_later_buckets(void) {
  enum { N = 1000 };
  uint64_t due_ns = (START_NS / TICK + 50) * TICK;
  int steps = PLENTY;
  uint32_t first;
  struct yard y;

  yard_init(&y);
  first = add(&y, due_ns);
  add(&y, due_ns + 1);
  for (uint64_t i = 0; i < N; i++)
    add(&y, due_ns + HOUR_NS + i % 7);
  cancel(&y, first);
  ASSERT(uvs__delay_settle(&y.d, &steps));
  ASSERT(steps > PLENTY - 20);
  ASSERT_U64(due_ns + 1, uvs__delay_bound(&y.d));
  ASSERT_SANE(&y);
  ASSERT(yard_destroy(&y));
  PASS();
}

/* One bucket has many tasks. In between others arrive, leave and move. */
TEST settling_in_small_parts_ends_with_the_exact_bound(void) {
  enum { N = 1000 };
  uint64_t due_ns = START_NS + 40 * HOUR_NS;
  static uint32_t slot[N];
  int parts = 0;
  struct yard y;

  yard_init(&y);
  for (uint32_t i = 0; i < N; i++)
    slot[i] = add(&y, due_ns + (N - i) * 64);
  cancel(&y, slot[N - 1]);
  for (;; parts++) {
    int steps = 1;
    bool settled = uvs__delay_settle(&y.d, &steps);

    ASSERT_SANE(&y);
    ASSERT(uvs__delay_bound(&y.d) <= due_ns + 128);
    if (settled)
      break;
    ASSERT(parts < N);
    if (parts == 10) {
      cancel(&y, slot[0]);     /* was filed again already */
      cancel(&y, slot[N - 3]); /* is still to be */
      move(&y, slot[1], due_ns + 2 * N * 64);
      move(&y, slot[N - 4], due_ns + 2 * N * 64 + 1);
      ASSERT_SANE(&y);
    }
  }
  ASSERT(parts >= N / 16);
  ASSERT_U64(due_ns + 128, uvs__delay_bound(&y.d));
  ASSERT_U64(slot[N - 2], uvs__delay_first(&y.d));
  ASSERT_U64(N - 3, y.d.count);
  ASSERT(yard_destroy(&y));
  PASS();
}

TEST soonest_ns_is_the_earliest_deadline_since_it_was_reset(void) {
  uint32_t slot;
  struct yard y;

  yard_init(&y);
  add(&y, START_NS + 10);
  ASSERT_U64(START_NS + 10, y.d.soonest_ns);
  y.d.soonest_ns = UVS__NEVER;
  slot = add(&y, START_NS + HOUR_NS);
  ASSERT_U64(START_NS + HOUR_NS, y.d.soonest_ns);
  move(&y, slot, START_NS + 2 * HOUR_NS); /* later is no news */
  ASSERT_U64(START_NS + HOUR_NS, y.d.soonest_ns);
  move(&y, slot, START_NS + 5);
  ASSERT_U64(START_NS + 5, y.d.soonest_ns);
  ASSERT(yard_destroy(&y));
  PASS();
}

/* ---- moving ---- */

TEST a_postponed_task_stays_in_its_bucket_until_the_old_deadline(void) {
  uint64_t due_ns = (START_NS / TICK + 50) * TICK;
  uint32_t slot, other;
  struct yard y;

  yard_init(&y);
  slot = add(&y, due_ns);
  other = add(&y, due_ns + 10 * TICK);
  for (uint64_t i = 1; i <= 1000; i++) {
    struct uvs__link link = *uvs__link_at(&y.table, slot);

    move(&y, slot, due_ns + i * HOUR_NS);
    ASSERT_U64(link.a, uvs__link_at(&y.table, slot)->a);
    ASSERT_U64(link.b, uvs__link_at(&y.table, slot)->b);
    ASSERT_SANE(&y);
  }
  ASSERT_U64(2, y.d.ops);
  ASSERT_U64(due_ns, uvs__delay_bound(&y.d));
  y.now_ns = due_ns; /* the wake-up for nothing */
  ASSERT_U64(UVS__NONE, take(&y));
  ASSERT_U64(3, y.d.ops); /* all push-backs together were one move */
  ASSERT_SANE(&y);
  ASSERT_U64(due_ns + 10 * TICK, uvs__delay_bound(&y.d));
  y.now_ns = due_ns + 10 * TICK;
  ASSERT_U64(other, take(&y));
  ASSERT_U64(due_ns + 1000 * HOUR_NS, uvs__delay_bound(&y.d)); /* no second one */
  y.now_ns = due_ns + 1000 * HOUR_NS - 1;
  ASSERT_U64(UVS__NONE, take(&y));
  y.now_ns++;
  ASSERT_U64(slot, take(&y));
  ASSERT(yard_destroy(&y));
  PASS();
}

/* In a bucket, in the front list and in the heap. */
TEST a_postponed_task_hides_no_other_task(void) {
  for (int where = 0; where < 3; where++) {
    uint64_t due_ns = START_NS + (where == 0 ? 50 * TICK : 0);
    uint32_t slot[4];
    struct yard y;

    yard_init(&y);
    if (where == 2)
      add(&y, due_ns + 1000);
    for (uint32_t i = 0; i < 4; i++)
      slot[i] = add(&y, due_ns);
    ASSERT_U64(where == 2 ? 4 : 0, y.table.delay_heap.count);
    for (uint32_t i = 0; i < 4; i++) {
      move(&y, slot[i], due_ns + (4 - i) * 10);
      ASSERT_SANE(&y);
    }
    move(&y, slot[1], due_ns + 35); /* again */
    ASSERT_SANE(&y);
    y.now_ns = due_ns + 100;
    for (uint32_t i = 4; i-- > 0;)
      ASSERT_U64(slot[i], take(&y));
    ASSERT_U64(UVS__NONE, take(&y));
    ASSERT(yard_destroy(&y));
  }
  PASS();
}

/* The tasks are in order, and in no bucket while some of them wait to be filed again. */
TEST a_task_can_be_postponed_while_its_bucket_is_being_filed(void) {
  enum { N = 40 };
  uint64_t due_ns = START_NS + HOUR_NS;
  uint32_t slot[N];
  struct yard y;

  for (uint32_t moved = 1; moved < N; moved++) {
    int steps = 1 + (int)moved % 3;

    yard_init(&y);
    for (uint32_t i = 0; i < N; i++)
      slot[i] = add(&y, due_ns + i);
    cancel(&y, slot[0]);
    ASSERT_FALSE(uvs__delay_settle(&y.d, &steps));
    move(&y, slot[moved], due_ns + HOUR_NS);
    ASSERT_SANE(&y);
    ASSERT_U64(due_ns + (moved == 1 ? 2 : 1), settled_bound(&y));
    y.now_ns = due_ns + HOUR_NS;
    for (uint32_t i = 1; i < N; i++)
      if (i != moved)
        ASSERT_U64(slot[i], take(&y));
    ASSERT_U64(slot[moved], take(&y));
    ASSERT(yard_destroy(&y));
  }
  PASS();
}

TEST a_task_that_is_moved_earlier_becomes_the_first_at_once(void) {
  for (int pushed = 0; pushed < 2; pushed++) {
    uint32_t slot, other;
    struct yard y;

    yard_init(&y);
    slot = add(&y, START_NS + HOUR_NS);
    other = add(&y, START_NS + HOUR_NS);
    if (pushed != 0)
      move(&y, slot, START_NS + 3 * HOUR_NS);
    for (uint64_t away_ns = HOUR_NS / 2; away_ns > 0; away_ns /= 8) {
      move(&y, slot, START_NS + away_ns);
      ASSERT_SANE(&y);
      ASSERT_U64(START_NS + away_ns, uvs__delay_bound(&y.d));
      ASSERT_U64(slot, uvs__delay_first(&y.d));
    }
    cancel(&y, slot);
    ASSERT_U64(START_NS + HOUR_NS, settled_bound(&y));
    ASSERT_U64(other, uvs__delay_first(&y.d));
    ASSERT(yard_destroy(&y));
  }
  PASS();
}

TEST a_task_that_is_moved_far_away_leaves_the_front_and_the_heap(void) {
  uint32_t slot[2];
  struct yard y;

  yard_init(&y);
  for (uint32_t i = 0; i < 2; i++)
    slot[i] = add(&y, START_NS - i); /* the front, and the heap */
  ASSERT_U64(1, y.table.delay_heap.count);
  for (uint32_t i = 0; i < 2; i++) {
    move(&y, slot[i], START_NS + 1000 * TICK - i);
    ASSERT_SANE(&y);
  }
  ASSERT_U64(2, in_buckets(&y));
  ASSERT_U64(0, y.table.delay_heap.count);
  move(&y, slot[0], START_NS); /* and back */
  ASSERT_U64(slot[0], take(&y));
  y.now_ns = START_NS + 1000 * TICK;
  ASSERT_U64(slot[1], take(&y));
  ASSERT(yard_destroy(&y));
  PASS();
}

/* The front stays a list after its last task was removed and came back. */
TEST a_task_that_returns_to_the_end_of_the_front_keeps_others_out_of_the_heap(void) {
  uint32_t last;
  struct yard y;

  yard_init(&y);
  add(&y, START_NS);
  last = add(&y, START_NS);
  move(&y, last, START_NS); /* the same time */
  ASSERT_SANE(&y);
  for (int i = 0; i < 10; i++)
    add(&y, START_NS);
  ASSERT_U64(0, y.table.delay_heap.count);
  ASSERT(yard_destroy(&y));
  PASS();
}

/* ---- cost ---- */

/* W1 */
TEST a_distant_task_costs_one_link_and_no_heap_operation(void) {
  enum { N = 20000 };
  uint64_t random = test_seed;
  struct yard y;

  yard_init(&y);
  for (int i = 0; i < N; i++)
    add(&y, START_NS + UINT64_C(1000000000) + test_random_below(&random, UINT64_C(59000000000)));
  ASSERT_U64(N, in_buckets(&y));
  ASSERT_U64(0, y.table.delay_heap.count);
  ASSERT_SANE(&y);
  ASSERT(yard_destroy(&y));
  PASS();
}

/* W3 */
TEST tasks_of_one_instant_take_one_step_each_and_no_heap_operation(void) {
  enum { N = 5000 };
  uint64_t due_ns = START_NS + 2 * HOUR_NS;
  int steps = N + UVS__LEVELS;
  static uint32_t slot[N];
  struct yard y;

  yard_init(&y);
  for (uint32_t i = 0; i < N; i++)
    slot[i] = add(&y, due_ns);
  y.now_ns = due_ns;
  for (uint32_t i = 0; i < N; i++) {
    ASSERT_U64(slot[i], uvs__delay_take(&y.d, y.now_ns, &steps));
    at(&y, slot[i])->place = UVS__NOWHERE;
    ASSERT_U64(0, y.table.delay_heap.count);
  }
  ASSERT(steps >= 0);
  ASSERT(yard_destroy(&y));
  PASS();
}

TEST tasks_that_arrive_in_order_cause_no_heap_operation(void) {
  enum { N = 5000 };
  static uint32_t slot[2 * N];
  struct yard y;

  yard_init(&y);
  for (uint64_t i = 0; i < N; i++) {
    slot[i] = add(&y, START_NS + i * 1000);
    slot[N + i] = add(&y, START_NS + UINT64_C(5000000000) + i * 100000);
  }
  for (uint64_t i = 0; i < 2 * N; i++) {
    if (at(&y, slot[i])->due_ns > y.now_ns)
      y.now_ns = at(&y, slot[i])->due_ns;
    ASSERT_U64(slot[i], take(&y));
    ASSERT_U64(0, y.table.delay_heap.count);
  }
  ASSERT(yard_destroy(&y));
  PASS();
}

/* No call looks at more than one batch beyond its budget, and every call makes progress. */
TEST a_budget_of_steps_is_kept_and_every_call_makes_progress(void) {
  enum { N = 1000 };
  for (int budget = 1; budget <= 64; budget *= 4) {
    uint64_t from_ns = (START_NS / TICK + 5000) * TICK;
    uint64_t last_ns = 0;
    uint32_t got = 0;
    int calls = 0;
    struct yard y;

    yard_init(&y);
    for (uint32_t i = 0; i < N; i++)
      add(&y, from_ns + (N - i) * 64);
    y.now_ns = from_ns + TICK;
    while (got < N) {
      int steps = budget;
      uint32_t slot = uvs__delay_take(&y.d, y.now_ns, &steps);

      ASSERT(steps < budget);
      ASSERT(steps > -16);
      ASSERT_SANE(&y);
      ASSERT(++calls < 10 * N);
      if (slot == UVS__NONE) {
        ASSERT(steps <= 0);
        ASSERT(uvs__delay_bound(&y.d) <= y.now_ns); /* it does not say that all is done */
        continue;
      }
      at(&y, slot)->place = UVS__NOWHERE;
      ASSERT(at(&y, slot)->due_ns > last_ns);
      last_ns = at(&y, slot)->due_ns;
      got++;
    }
    ASSERT_U64(UVS__NEVER, uvs__delay_bound(&y.d));
    ASSERT(yard_destroy(&y));
  }
  PASS();
}

TEST a_budget_of_zero_steps_takes_no_task(void) {
  int steps = 0;
  struct yard y;

  yard_init(&y);
  add(&y, START_NS);
  ASSERT_U64(UVS__NONE, uvs__delay_take(&y.d, y.now_ns, &steps));
  ASSERT_FALSE(uvs__delay_settle(&y.d, &steps));
  ASSERT_U64(1, y.d.count);
  ASSERT(yard_destroy(&y));
  PASS();
}

/* While the tasks of a bucket are being filed, one of them may be earlier than all in the front
 * list. */
TEST nothing_is_taken_before_all_of_a_bucket_is_filed(void) {
  enum { N = 40 };
  uint64_t from_ns = (START_NS / TICK + 5) * TICK;
  uint32_t last;
  int steps = 2;
  struct yard y;

  yard_init(&y);
  for (uint32_t i = 0; i < N; i++)
    add(&y, from_ns + 100 + i);
  last = add(&y, from_ns + 3); /* not in order */
  y.now_ns = from_ns + TICK;
  ASSERT_U64(UVS__NONE, uvs__delay_take(&y.d, y.now_ns, &steps));
  ASSERT(in_list(&y, UVS__FALLING) > 0);
  ASSERT(in_list(&y, UVS__FRONT) > 0);
  ASSERT(uvs__delay_bound(&y.d) <= from_ns + 3);
  ASSERT_SANE(&y);
  ASSERT_U64(last, take(&y));
  ASSERT(yard_destroy(&y));
  PASS();
}

/* ---- time ---- */

TEST a_clock_jump_of_years_takes_a_few_steps(void) {
  for (unsigned bits = 21; bits < 63; bits++) {
    uint64_t due_ns = START_NS + (UINT64_C(1) << bits) - (bits == 62 ? START_NS : 0);
    int steps = PLENTY;
    uint32_t slot;
    struct yard y;

    yard_init(&y);
    slot = add(&y, due_ns);
    ASSERT_U64(due_ns, uvs__delay_bound(&y.d));
    y.now_ns = due_ns - 1;
    ASSERT_U64(UVS__NONE, uvs__delay_take(&y.d, y.now_ns, &steps));
    ASSERT_SANE(&y);
    ASSERT_U64(due_ns, uvs__delay_bound(&y.d));
    y.now_ns = due_ns;
    ASSERT_U64(slot, uvs__delay_take(&y.d, y.now_ns, &steps));
    ASSERT(steps >= PLENTY - 2 * UVS__LEVELS);
    ASSERT(yard_destroy(&y));
  }
  PASS();
}

/* The time of a put may be slightly before that of the last take. */
TEST a_put_with_a_time_before_the_last_take_changes_nothing(void) {
  uint32_t slot;
  struct yard y;

  yard_init(&y);
  y.now_ns = START_NS + HOUR_NS;
  ASSERT_U64(UVS__NONE, take(&y));
  y.now_ns = START_NS + HOUR_NS - 3 * TICK;
  slot = add(&y, START_NS + HOUR_NS - TICK);
  ASSERT(uvs__delay_check(&y.d));
  ASSERT_U64(UVS__NONE, take(&y)); /* not early by this clock */
  y.now_ns = START_NS + HOUR_NS;
  ASSERT_U64(slot, take(&y));
  ASSERT(yard_destroy(&y));
  PASS();
}

/* ---- random ---- */

#define TASKS 400

struct item {
  bool live;
  uint32_t slot;
  uint64_t due_ns;
  uint64_t seq;
};

static int naive_first(const struct item *t) {
  int best = -1;

  for (int i = 0; i < TASKS; i++)
    if (t[i].live && (best < 0 || t[i].due_ns < t[best].due_ns ||
                      (t[i].due_ns == t[best].due_ns && t[i].seq < t[best].seq)))
      best = i;
  return best;
}

/* Near and far times, close to borders, equal to others. */
static uint64_t some_ns(uint64_t *random, const struct item *t, uint64_t now_ns) {
  unsigned level = (unsigned)test_random_below(random, UVS__LEVELS);
  uint64_t width = TICK << level * UVS__DIGIT_BITS;
  uint64_t ns;

  switch (test_random_below(random, 7)) {
  case 0:
    ns = now_ns + test_random_below(random, 2 * TICK);
    break;
  case 1:
    ns = (now_ns / width + 1 + test_random_below(random, 2)) * width +
         test_random_below(random, 3) - 1;
    break;
  case 2:
    ns = t[test_random_below(random, TASKS)].due_ns; /* may be in the past */
    break;
  case 3:
    ns = now_ns + test_random_below(random, 200 * TICK);
    break;
  case 4:
    ns = test_random_below(random, 3) == 0 ? UINT64_C(1) << 62
                                           : UVS__NEVER - 1 - test_random_below(random, 3);
    break;
  case 5:
    ns = now_ns - test_random_below(random, 3 * TICK);
    break;
  default:
    ns = now_ns + test_random_below(random, width);
  }
  return ns >= UVS__NEVER ? UVS__NEVER - 1 : ns;
}

/* How far the clock advances in one step. */
static uint64_t some_pass(uint64_t *random, const struct item *t, uint64_t now_ns, bool hasty) {
  int i = naive_first(t);

  switch (test_random_below(random, hasty ? 6 : 4)) {
  case 0:
    return test_random_below(random, 1000);
  case 1:
    return test_random_below(random, 3 * TICK);
  case 2: /* to the first deadline, or one before it */
    return i < 0 || t[i].due_ns <= now_ns || t[i].due_ns - now_ns > DAY_NS
               ? 0
               : t[i].due_ns - now_ns - test_random_below(random, 2);
  case 3:
    return test_random_below(random, 70 * TICK);
  case 4:
    return test_random_below(random, 70 * 64 * TICK);
  default:
    return test_random_below(random, 10) == 0 ? test_random_below(random, 3 * DAY_NS) : 0;
  }
}

/* May the bound of a list be early, or are tasks being filed? */
static bool may_be_early(const struct uvs__delay *d) {
  bool any = d->list[UVS__FALLING].min_ns != UVS__NEVER;

  for (uint32_t list = 0; list < UVS__BUCKETS; list++)
    any |= d->list[list].stale;
  return any;
}

static enum greatest_test_res compare(const struct yard *y, const struct item *t, uint32_t count) {
  int i = naive_first(t);
  uint64_t first_ns = i < 0 ? UVS__NEVER : t[i].due_ns;

  ASSERT_SANE(y);
  ASSERT_U64(count, y->d.count);
  ASSERT(uvs__delay_bound(&y->d) <= first_ns);
  if (!may_be_early(&y->d)) {
    ASSERT_U64(first_ns, uvs__delay_bound(&y->d));
    ASSERT_U64(i < 0 ? UVS__NONE : t[i].slot, uvs__delay_first(&y->d));
  }
  PASS();
}

/* Takes all due tasks in order, or until the steps are used up. */
static enum greatest_test_res take_due(struct yard *y, struct item *t, uint64_t *random,
                                       uint32_t *count) {
  int steps = 1 + (int)test_random_below(random, test_random_below(random, 2) == 0 ? 10 : 1000);

  for (;;) {
    uint32_t slot = uvs__delay_take(&y->d, y->now_ns, &steps);
    int i = naive_first(t);

    ASSERT(steps > -16);
    if (slot == UVS__NONE) {
      if (steps > 0)
        ASSERT(i < 0 || t[i].due_ns > y->now_ns);
      PASS();
    }
    ASSERT(i >= 0);
    ASSERT_U64(t[i].slot, slot);
    ASSERT(t[i].due_ns <= y->now_ns);
    t[i].live = false;
    --*count;
    if (test_random_below(random, 3) == 0) { /* a periodic task: the same slot and sequence */
      t[i].live = true;
      t[i].due_ns = some_ns(random, t, y->now_ns);
      put(y, slot, t[i].due_ns);
      ++*count;
    } else {
      set_free(y, slot);
    }
    CHECK_CALL(compare(y, t, *count));
  }
}

static enum greatest_test_res random_run(uint64_t *random, int steps, unsigned kind) {
  static struct item t[TASKS];
  uint64_t least_put_ns = UVS__NEVER;
  bool hasty = kind % 2 != 0;
  uint64_t range = kind / 2 == 0 ? TASKS : 12; /* many tasks, or few */
  uint32_t count = 0;
  struct yard y;

  memset(t, 0, sizeof t);
  yard_init(&y);
  for (int step = 0; step < steps; step++) {
    struct item *x = &t[test_random_below(random, range)];
    int budget = 1 + (int)test_random_below(random, 60);
    uint64_t was_ns = x->due_ns;

    switch (test_random_below(random, 13)) {
    case 0:
    case 1:
    case 2:
    case 3:
      if (x->live)
        break;
      x->live = true;
      x->due_ns = some_ns(random, t, y.now_ns);
      x->slot = add(&y, x->due_ns);
      x->seq = at(&y, x->slot)->seq;
      if (x->due_ns < least_put_ns)
        least_put_ns = x->due_ns;
      count++;
      break;
    case 4:
      if (!x->live)
        break;
      x->live = false;
      cancel(&y, x->slot);
      count--;
      break;
    case 5: { /* the first of all */
      int i = naive_first(t);

      if (i < 0)
        break;
      t[i].live = false;
      cancel(&y, t[i].slot);
      count--;
      break;
    }
    case 6:
      if (!x->live)
        break;
      x->due_ns = some_ns(random, t, x->due_ns);
      if (x->due_ns < was_ns)
        x->due_ns = was_ns;
      move(&y, x->slot, x->due_ns);
      ASSERT_U64(x->due_ns, at(&y, x->slot)->due_ns);
      break;
    case 7:
      if (!x->live)
        break;
      x->due_ns = some_ns(random, t, y.now_ns);
      move(&y, x->slot, x->due_ns);
      ASSERT_U64(x->due_ns, at(&y, x->slot)->due_ns);
      break;
    case 8:
      if (!uvs__delay_settle(&y.d, &budget))
        ASSERT(budget <= 0);
      break;
    case 9: {
      int i = naive_first(t);

      budget = PLENTY;
      ASSERT(uvs__delay_settle(&y.d, &budget));
      ASSERT_U64(i < 0 ? UVS__NEVER : t[i].due_ns, uvs__delay_bound(&y.d));
      ASSERT_U64(i < 0 ? UVS__NONE : t[i].slot, uvs__delay_first(&y.d));
      break;
    }
    case 10:
    case 11:
      CHECK_CALL(take_due(&y, t, random, &count));
      break;
    default:
      y.now_ns += some_pass(random, t, y.now_ns, hasty);
    }
    CHECK_CALL(compare(&y, t, count));
    ASSERT(y.d.soonest_ns <= least_put_ns);
    if (test_random_below(random, 50) == 0) {
      y.d.soonest_ns = UVS__NEVER;
      least_put_ns = UVS__NEVER;
    }
  }
  y.now_ns = UVS__NEVER - 1;
  while (count > 0) {
    int i = naive_first(t);

    ASSERT_U64(t[i].slot, take(&y));
    t[i].live = false;
    count--;
    ASSERT_SANE(&y);
  }
  ASSERT_U64(UVS__NONE, take(&y));
  ASSERT(yard_destroy(&y));
  PASS();
}

TEST the_delay_queue_agrees_with_a_linear_search(void) {
  uint64_t random = test_seed;

  for (unsigned i = 0; i < 60; i++)
    CHECK_CALL(random_run(&random, 2000, i % 4));
  PASS();
}

SUITE(order) {
  RUN_TEST(an_empty_delay_queue_has_no_first_task_and_no_bound);
  RUN_TEST(tasks_at_every_border_come_out_in_order_and_never_early);
  RUN_TEST(equal_deadlines_keep_the_order_of_submission);
  RUN_TEST(tasks_due_on_the_same_tick_come_out_by_nanosecond);
  RUN_TEST(a_deadline_in_the_past_comes_first);
}

SUITE(bound) {
  RUN_TEST(the_bound_is_exact_without_settling_as_long_as_tasks_only_arrive);
  RUN_TEST(cancelling_any_task_but_the_first_keeps_the_bound_exact);
  RUN_TEST(after_the_first_was_cancelled_the_bound_is_early_until_settled);
  RUN_TEST(a_task_that_is_earlier_than_a_stale_bound_makes_it_exact);
  RUN_TEST(settling_does_not_touch_later_buckets);
  RUN_TEST(settling_in_small_parts_ends_with_the_exact_bound);
  RUN_TEST(soonest_ns_is_the_earliest_deadline_since_it_was_reset);
}

SUITE(moves) {
  RUN_TEST(a_postponed_task_stays_in_its_bucket_until_the_old_deadline);
  RUN_TEST(a_postponed_task_hides_no_other_task);
  RUN_TEST(a_task_can_be_postponed_while_its_bucket_is_being_filed);
  RUN_TEST(a_task_that_is_moved_earlier_becomes_the_first_at_once);
  RUN_TEST(a_task_that_is_moved_far_away_leaves_the_front_and_the_heap);
  RUN_TEST(a_task_that_returns_to_the_end_of_the_front_keeps_others_out_of_the_heap);
}

SUITE(cost) {
  RUN_TEST(a_distant_task_costs_one_link_and_no_heap_operation);
  RUN_TEST(tasks_of_one_instant_take_one_step_each_and_no_heap_operation);
  RUN_TEST(tasks_that_arrive_in_order_cause_no_heap_operation);
  RUN_TEST(a_budget_of_steps_is_kept_and_every_call_makes_progress);
  RUN_TEST(a_budget_of_zero_steps_takes_no_task);
  RUN_TEST(nothing_is_taken_before_all_of_a_bucket_is_filed);
}

SUITE(time_passes) {
  RUN_TEST(a_clock_jump_of_years_takes_a_few_steps);
  RUN_TEST(a_put_with_a_time_before_the_last_take_changes_nothing);
}

SUITE(random_programs) {
  RUN_TEST(the_delay_queue_agrees_with_a_linear_search);
}

TEST_MAIN(RUN_SUITE(order); RUN_SUITE(bound); RUN_SUITE(moves); RUN_SUITE(cost);
          RUN_SUITE(time_passes); RUN_SUITE(random_programs));
