/* SPDX-License-Identifier: MIT
 *
 * The inbox: order, the shutdown tag, when to wake, and many producers against one loop.
 */
#include "inbox.h"

#include <string.h>

#include "lib/unit.h"

struct road {
  struct uvs__agenda agenda;
  struct uvs__inbox inbox;
  struct fault fault;
  uvs_allocator_t mem;
};

static int road_init(struct road *r) {
  int rc;

  fault_init(&r->fault);
  r->mem = fault_option(&r->fault);
  rc = uvs__agenda_init(&r->agenda, &r->mem);
  if (rc == 0)
    uvs__inbox_init(&r->inbox, &r->agenda);
  return rc;
}

static bool road_destroy(struct road *r) {
  uvs__agenda_destroy(&r->agenda);
  return r->fault.live == 0;
}

static _Atomic uint32_t *next_of(struct road *r, uint32_t slot) {
  return &uvs__agenda_slot(&r->agenda, slot)->next;
}

/* Slots 0 .. n - 1, whatever order they come out in. */
static bool make_slots(struct road *r, uint32_t n) {
  uint32_t slot;

  while (uvs__slab_made(&r->agenda.slots) < n)
    if (uvs__agenda_take_slot(&r->agenda, 0, false, false, &slot) < 0)
      return false;
  return true;
}

static bool push(struct road *r, uint32_t slot, bool fresh, uint64_t due_ns) {
  bool wake = false;

  (void)uvs__inbox_push(&r->inbox, slot, slot, fresh, due_ns, &wake);
  return wake;
}

/* Link first, first + 1, .. first + n - 1, of which the last is the newest, and push them as one.
 */
static bool push_chain(struct road *r, uint32_t first, uint32_t n, bool fresh) {
  bool wake;

  for (uint32_t i = first + 1; i < first + n; i++)
    atomic_store(next_of(r, i), i - 1);
  return uvs__inbox_push(&r->inbox, first + n - 1, first, fresh, 0, &wake);
}

/* Take all; true if they are first, first + 1, .. first + n - 1, and the last is the last. */
static bool takes(struct road *r, uint32_t first, uint32_t n, bool shut) {
  bool was_shut;
  uint32_t last, slot = uvs__inbox_take(&r->inbox, &last, &was_shut);

  for (uint32_t i = 0; i < n; i++) {
    if (slot != first + i || (i == n - 1 && last != slot))
      return false;
    slot = atomic_load(next_of(r, slot));
  }
  return slot == UVS__NONE && was_shut == shut && (n > 0 || last == UVS__NONE);
}

TEST an_empty_inbox_gives_nothing(void) {
  struct road r;

  ASSERT_RC(0, road_init(&r));
  ASSERT(uvs__inbox_empty(&r.inbox));
  ASSERT(!uvs__inbox_is_shut(&r.inbox));
  ASSERT(takes(&r, 0, 0, false));
  ASSERT(takes(&r, 0, 0, false));
  ASSERT_U64(UVS__AWAKE, uvs__inbox_next_wake(&r.inbox)); /* who opens it looks by itself */
  ASSERT(road_destroy(&r));
  PASS();
}

TEST what_is_pushed_first_comes_out_first(void) {
  struct road r;

  ASSERT_RC(0, road_init(&r));
  ASSERT(make_slots(&r, 100));
  for (uint32_t slot = 0; slot < 100; slot++) {
    (void)push(&r, slot, true, 0);
    ASSERT(!uvs__inbox_empty(&r.inbox));
  }
  ASSERT(takes(&r, 0, 100, false));
  ASSERT(uvs__inbox_empty(&r.inbox));
  ASSERT(takes(&r, 0, 0, false));
  (void)push(&r, 7, true, 0); /* one that was there before, alone */
  ASSERT(takes(&r, 7, 1, false));
  ASSERT(road_destroy(&r));
  PASS();
}

TEST chains_and_single_ones_keep_one_order(void) {
  struct road r;

  ASSERT_RC(0, road_init(&r));
  ASSERT(make_slots(&r, 64));
  (void)push(&r, 0, true, 0);
  ASSERT(push_chain(&r, 1, 5, true));
  (void)push(&r, 6, false, 0);
  ASSERT(push_chain(&r, 7, 1, false));
  ASSERT(push_chain(&r, 8, 20, true));
  (void)push(&r, 28, true, 0);
  ASSERT(takes(&r, 0, 29, false));
  ASSERT(push_chain(&r, 10, 3, true)); /* a chain into an empty one */
  ASSERT(takes(&r, 10, 3, false));
  ASSERT(road_destroy(&r));
  PASS();
}

TEST slot_0_is_not_nothing(void) {
  struct road r;

  ASSERT_RC(0, road_init(&r));
  ASSERT(make_slots(&r, 1));
  (void)push(&r, 0, true, 0);
  ASSERT(!uvs__inbox_empty(&r.inbox));
  ASSERT(takes(&r, 0, 1, false));
  ASSERT(road_destroy(&r));
  PASS();
}

TEST the_shutdown_tag_refuses_what_is_fresh_and_keeps_the_rest(void) {
  struct road r;
  bool wake = true;

  ASSERT_RC(0, road_init(&r));
  ASSERT(make_slots(&r, 64));
  ASSERT(push_chain(&r, 0, 3, true));
  uvs__inbox_shut(&r.inbox);
  ASSERT(uvs__inbox_is_shut(&r.inbox));
  ASSERT(!uvs__inbox_empty(&r.inbox)); /* what was accepted is there */
  ASSERT(!uvs__inbox_push(&r.inbox, 40, 40, true, 0, &wake));
  ASSERT(!push_chain(&r, 41, 3, true));
  ASSERT(uvs__inbox_push(&r.inbox, 3, 3, false, 0, &wake)); /* a cancel, a move, an end of a run */
  ASSERT(push_chain(&r, 4, 4, false));
  ASSERT(takes(&r, 0, 8, true));
  ASSERT(uvs__inbox_is_shut(&r.inbox)); /* taking does not lift it */
  ASSERT(uvs__inbox_empty(&r.inbox));
  ASSERT(!uvs__inbox_push(&r.inbox, 40, 40, true, 0, &wake));
  uvs__inbox_shut(&r.inbox); /* twice is once */
  ASSERT(uvs__inbox_push(&r.inbox, 9, 9, false, 0, &wake));
  ASSERT(takes(&r, 9, 1, true));
  ASSERT(takes(&r, 0, 0, true));
  ASSERT(road_destroy(&r));
  PASS();
}

TEST the_loop_is_woken_only_for_what_is_due_before_it_looks(void) {
  static const struct {
    uint64_t next_wake, due_ns;
    bool wake;
  } rows[] = {
      {UVS__AWAKE, 0, false},
      {UVS__AWAKE, 1, false},
      {UVS__AWAKE, UVS__NEVER, false},
      {UVS__ASLEEP, 0, true},
      {UVS__ASLEEP, 1, true},
      {UVS__ASLEEP, UVS__NEVER, true}, /* so that it is taken in and counted */
      {1000, 0, true},                 /* if it is asleep at all */
      {1000, 999, true},
      {1000, 1000, false},
      {1000, 1001, false},
      {1000, UVS__NEVER, false},
      {UVS__NEVER, 5, true},
      {UVS__NEVER, UVS__NEVER, false},
  };
  struct road r;

  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    for (int fresh = 0; fresh < 2; fresh++) {
      char text[32];

      snprintf(text, sizeof text, "row %u", (unsigned)i);
      ASSERT_RC(0, road_init(&r));
      ASSERT(make_slots(&r, 1));
      ASSERT(uvs__inbox_sleep(&r.inbox, rows[i].next_wake));
      ASSERT_U64(rows[i].next_wake, uvs__inbox_next_wake(&r.inbox));
      ASSERT_EQm(text, rows[i].wake, push(&r, 0, fresh != 0, rows[i].due_ns));
      ASSERT(road_destroy(&r));
    }
  PASS();
}

/* Nobody would look at a pile of cancelled far-off tasks before their deadline. Living ones may lie
 * there until then. */
TEST only_every_1024th_dead_one_wakes_a_loop_that_need_not_be_woken(void) {
  struct road r;

  ASSERT_RC(0, road_init(&r));
  ASSERT(make_slots(&r, 1));
  ASSERT(uvs__inbox_sleep(&r.inbox, 1000));
  for (int n = 1; n <= 4096; n++) {
    ASSERT(!push(&r, 0, n % 2 == 0, 2000));
    ASSERT(takes(&r, 0, 1, false));
  }
  for (int n = 1; n <= 4096; n++)
    ASSERT_EQ(n % 1024 == 0, uvs__inbox_add_dead(&r.inbox));
  ASSERT(road_destroy(&r));
  PASS();
}

TEST no_push_wakes_a_loop_that_is_awake(void) {
  struct road r;

  ASSERT_RC(0, road_init(&r));
  ASSERT(make_slots(&r, 1));
  for (int n = 1; n <= 4096; n++) {
    ASSERT(!push(&r, 0, true, (uint64_t)n % 3));
    ASSERT(takes(&r, 0, 1, false));
  }
  ASSERT(road_destroy(&r));
  PASS();
}

TEST the_loop_sleeps_only_if_nothing_has_come(void) {
  struct road r;

  ASSERT_RC(0, road_init(&r));
  ASSERT(make_slots(&r, 2));
  ASSERT(uvs__inbox_sleep(&r.inbox, 500));
  ASSERT_U64(500, uvs__inbox_next_wake(&r.inbox));
  uvs__inbox_lower(&r.inbox, UVS__AWAKE); /* it wakes */
  ASSERT_U64(UVS__AWAKE, uvs__inbox_next_wake(&r.inbox));
  ASSERT(!push(&r, 0, true, 0)); /* comes while it is awake, so nobody sends */
  ASSERT(!uvs__inbox_sleep(&r.inbox, UVS__ASLEEP));
  ASSERT_U64(UVS__AWAKE, uvs__inbox_next_wake(&r.inbox)); /* it looks again, and need not be told */
  ASSERT(!push(&r, 1, true, 0));
  ASSERT(takes(&r, 0, 2, false));
  ASSERT(uvs__inbox_sleep(&r.inbox, UVS__ASLEEP));
  ASSERT_U64(UVS__ASLEEP, uvs__inbox_next_wake(&r.inbox));
  uvs__inbox_lower(&r.inbox, 300); /* the timer was set to an earlier time */
  ASSERT(push(&r, 0, true, 299));
  ASSERT(!push(&r, 1, true, 300));
  ASSERT(takes(&r, 0, 2, false));
  uvs__inbox_shut(&r.inbox); /* the tag alone is nothing to take; who shuts down sends */
  ASSERT(uvs__inbox_sleep(&r.inbox, UVS__ASLEEP));
  ASSERT(!push(&r, 0, true, 0)); /* refused: nothing to wake for */
  ASSERT(push(&r, 0, false, 0));
  ASSERT(!uvs__inbox_sleep(&r.inbox, UVS__ASLEEP));
  ASSERT(road_destroy(&r));
  PASS();
}

/* Many producers, one loop.
 *
 * A producer takes a slot, writes who it is and a count into it, and pushes it alone or in a chain.
 * The loop takes all, sees that the counts of each producer come one after the other, puts the slot
 * into the queue and takes it out again, and gives it back. So nothing is lost, nothing comes
 * twice, and order is kept. When the loop sleeps it waits for a signal that only the wake decision
 * sends: if that is ever wrong, it waits in vain, which is bounded. */
#define PRODUCERS 4
#define PATIENCE_NS UINT64_C(20000000000)

struct traffic {
  struct road road;
  uv_mutex_t lock;
  uv_cond_t cond;
  bool signalled;
  _Atomic int producing;
  bool shut_midway;

  /* The loop's. */
  uint32_t taken[PRODUCERS];
  const char *wrong;
};

struct producer {
  uv_thread_t thread;
  struct traffic *traffic;
  uint32_t me;
  uint32_t goal;
  uint64_t random;
  uint32_t accepted;
  const char *wrong;
};

static int mark(uvs_run_t *run) {
  (void)run;
  return 0;
}

static void signal_loop(struct traffic *f) {
  uv_mutex_lock(&f->lock);
  f->signalled = true;
  uv_cond_signal(&f->cond);
  uv_mutex_unlock(&f->lock);
}

static void produce(void *arg) {
  struct producer *p = arg;
  struct uvs__agenda *a = &p->traffic->road.agenda;

  while (p->accepted < p->goal) {
    uint32_t n = 1 + (uint32_t)test_random_below(&p->random, 4), first = UVS__NONE,
             last = UVS__NONE;
    bool wake;

    if (n > p->goal - p->accepted)
      n = p->goal - p->accepted;
    for (uint32_t i = 0; i < n; i++) {
      struct uvs__slot *t;
      uint32_t slot;

      if (uvs__agenda_take_slot(a, p->me, false, false, &slot) < 0) {
        p->wrong = "no slot";
        break;
      }
      t = uvs__agenda_slot(a, slot);
      t->fn = mark; /* not atomic: ThreadSanitizer sees whether the push releases it */
      atomic_store_explicit(&t->deadline_ns, (uint64_t)p->me << 32 | (p->accepted + i),
                            memory_order_relaxed);
      atomic_store_explicit(&t->next, first, memory_order_relaxed);
      first = slot;
      if (last == UVS__NONE)
        last = slot;
    }
    if (p->wrong != NULL)
      break;
    if (!uvs__inbox_push(&p->traffic->road.inbox, first, last, true, 0, &wake)) {
      while (n-- > 0) {
        uint32_t next =
            atomic_load_explicit(&uvs__agenda_slot(a, first)->next, memory_order_relaxed);

        uvs__agenda_give_slot(a, p->me, first);
        first = next;
      }
      break;
    }
    p->accepted += n;
    if (wake)
      signal_loop(p->traffic);
  }
  if (atomic_fetch_sub(&p->traffic->producing, 1) == 1)
    signal_loop(p->traffic);
}

/* The loop's hand on one slot. */
static void consume(struct traffic *f, uint32_t slot) {
  struct uvs__agenda *a = &f->road.agenda;
  struct uvs__slot *t = uvs__agenda_slot(a, slot);
  uint64_t value = atomic_load_explicit(&t->deadline_ns, memory_order_relaxed);
  uint32_t who = (uint32_t)(value >> 32);

  if (who >= PRODUCERS || t->fn != mark)
    f->wrong = "a slot that nobody pushed";
  else if ((uint32_t)value != f->taken[who])
    f->wrong = "lost, twice, or out of order";
  else
    f->taken[who]++;
  t->fn = (uvs_work_cb)0;
  uvs__agenda_number(a, slot);
  uvs__agenda_insert(a, slot, atomic_load_explicit(&t->word, memory_order_relaxed));
}

static bool wait_for_signal(struct traffic *f) {
  bool came = true;

  uv_mutex_lock(&f->lock);
  while (!f->signalled && came)
    came = uv_cond_timedwait(&f->cond, &f->lock, PATIENCE_NS) == 0;
  f->signalled = false;
  uv_mutex_unlock(&f->lock);
  return came;
}

static void consume_all(struct traffic *f) {
  struct uvs__inbox *inbox = &f->road.inbox;

  while (f->wrong == NULL) {
    bool over = atomic_load(&f->producing) == 0, shut;
    uint32_t last, slot = uvs__inbox_take(inbox, &last, &shut);

    while (slot != UVS__NONE) {
      uint32_t next = atomic_load_explicit(next_of(&f->road, slot), memory_order_relaxed);

      if ((next == UVS__NONE) != (slot == last))
        f->wrong = "the last is not the last";
      consume(f, slot);
      slot = next;
    }
    while ((slot = uvs__agenda_take_any(&f->road.agenda)) != UVS__NONE)
      uvs__agenda_give_slot(&f->road.agenda, 77, slot);
    if (f->shut_midway && !shut && f->taken[0] > 1000)
      uvs__inbox_shut(inbox);
    if (over)
      return;
    if (!uvs__inbox_sleep(inbox, UVS__ASLEEP))
      continue;
    if (!wait_for_signal(f))
      f->wrong = "nobody woke the loop";
    uvs__inbox_lower(inbox, UVS__AWAKE);
  }
}

static enum greatest_test_res run_traffic(bool shut_midway, uint32_t goal) {
  static struct traffic f;
  static struct producer p[PRODUCERS];

  memset(&f, 0, sizeof f);
  memset(p, 0, sizeof p);
  ASSERT_RC(0, road_init(&f.road));
  ASSERT_RC(0, uv_mutex_init(&f.lock));
  ASSERT_RC(0, uv_cond_init(&f.cond));
  f.shut_midway = shut_midway;
  atomic_store(&f.producing, PRODUCERS);
  for (uint32_t i = 0; i < PRODUCERS; i++) {
    p[i].traffic = &f;
    p[i].me = i;
    p[i].goal = goal;
    p[i].random = (test_seed ^ i << 8) | 1;
    ASSERT_RC(0, uv_thread_create(&p[i].thread, produce, &p[i]));
  }
  consume_all(&f);
  uvs__inbox_shut(&f.road.inbox); /* if something was wrong: the producers end */
  for (uint32_t i = 0; i < PRODUCERS; i++)
    uv_thread_join(&p[i].thread);
  ASSERTm(f.wrong, f.wrong == NULL);
  for (uint32_t i = 0; i < PRODUCERS; i++) {
    ASSERTm(p[i].wrong, p[i].wrong == NULL);
    ASSERT_U64(p[i].accepted, f.taken[i]); /* accepted is taken, refused is not */
    if (!shut_midway)
      ASSERT_U64(goal, f.taken[i]);
  }
  ASSERT(uvs__inbox_empty(&f.road.inbox));
  uv_cond_destroy(&f.cond);
  uv_mutex_destroy(&f.lock);
  ASSERT(road_destroy(&f.road));
  PASS();
}

TEST many_producers_lose_nothing_and_the_loop_is_always_woken(void) {
  CHECK_CALL(run_traffic(false, 20000));
  /* Short ones, so that the loop sleeps often and the end is reached often. */
  for (int i = 0; i < 50; i++)
    CHECK_CALL(run_traffic(false, 20));
  PASS();
}

TEST what_races_a_shutdown_is_either_refused_or_taken(void) {
  for (int i = 0; i < 10; i++)
    CHECK_CALL(run_traffic(true, 4000));
  PASS();
}

SUITE(inbox) {
  RUN_TEST(an_empty_inbox_gives_nothing);
  RUN_TEST(what_is_pushed_first_comes_out_first);
  RUN_TEST(chains_and_single_ones_keep_one_order);
  RUN_TEST(slot_0_is_not_nothing);
  RUN_TEST(the_shutdown_tag_refuses_what_is_fresh_and_keeps_the_rest);
  RUN_TEST(the_loop_is_woken_only_for_what_is_due_before_it_looks);
  RUN_TEST(only_every_1024th_dead_one_wakes_a_loop_that_need_not_be_woken);
  RUN_TEST(no_push_wakes_a_loop_that_is_awake);
  RUN_TEST(the_loop_sleeps_only_if_nothing_has_come);
  RUN_TEST(many_producers_lose_nothing_and_the_loop_is_always_woken);
  RUN_TEST(what_races_a_shutdown_is_either_refused_or_taken);
}

TEST_MAIN(RUN_SUITE(inbox));
