/* SPDX-License-Identifier: MIT
 *
 * The agenda: slots and the delay queues of those that wait. What the scheduler does with a slot is
 * played here by hand; the random run compares with a list that is searched from end to end.
 */
#include "agenda.h"

#include <string.h>

#include "lib/unit.h"

struct book {
  struct uvs__agenda agenda;
  struct fault fault;
  uvs_allocator_t mem;
};

static int book_init(struct book *b) {
  fault_init(&b->fault);
  b->mem = fault_option(&b->fault);
  return uvs__agenda_init(&b->agenda, &b->mem);
}

static bool book_destroy(struct book *b) {
  uvs__agenda_destroy(&b->agenda);
  return b->fault.live == 0;
}

static uint64_t word(struct book *b, uint32_t slot) {
  return atomic_load(&uvs__agenda_slot(&b->agenda, slot)->word);
}

static void set_deadline(struct book *b, uint32_t slot, uint64_t deadline_ns) {
  atomic_store(&uvs__agenda_slot(&b->agenda, slot)->deadline_ns, deadline_ns);
}

/* A slot that was taken begins to wait. */
static void begin(struct book *b, uint32_t slot, uint64_t deadline_ns, bool wall) {
  struct uvs__slot *t = uvs__agenda_slot(&b->agenda, slot);

  atomic_store(&t->word, uvs__word_in(word(b, slot), UVS__WAITING) | (wall ? UVS__WALL : 0));
  set_deadline(b, slot, deadline_ns);
  uvs__agenda_number(&b->agenda, slot);
  uvs__agenda_insert(&b->agenda, slot, word(b, slot));
}

/* As the loop pushes back: its queue is not told when to. */
static void push_back(struct book *b, uint32_t slot, uint64_t deadline_ns) {
  uvs__agenda_push_back(&b->agenda, slot, word(b, slot));
  set_deadline(b, slot, deadline_ns);
}

/* UVS__NONE if there is no memory. */
static uint32_t add(struct book *b, uint64_t deadline_ns, bool wall) {
  uint32_t slot;

  if (uvs__agenda_take_slot(&b->agenda, 0, false, wall, &slot) < 0)
    return UVS__NONE;
  begin(b, slot, deadline_ns, wall);
  return slot;
}

/* Move it as a rescheduler on the loop does. */
static void put(struct book *b, uint32_t slot, uint64_t deadline_ns) {
  set_deadline(b, slot, deadline_ns);
  uvs__agenda_insert(&b->agenda, slot, word(b, slot));
}

/* The task is over: next generation, and nothing else is left of it. */
static void end(struct book *b, uint32_t slot) {
  uint64_t generation = uvs__word_generation(word(b, slot)) + 1;

  atomic_store(&uvs__agenda_slot(&b->agenda, slot)->word,
               (uint64_t)UVS__FREE | generation << UVS__GENERATION_SHIFT);
  uvs__agenda_give_slot(&b->agenda, 0, slot);
}

/* As above, by a runner: with others, later. */
static void end_plain(struct book *b, struct uvs__freed *f, uint32_t slot) {
  uint64_t generation = uvs__word_generation(word(b, slot)) + 1;

  atomic_store(&uvs__agenda_slot(&b->agenda, slot)->word,
               (uint64_t)UVS__FREE | generation << UVS__GENERATION_SHIFT);
  uvs__agenda_free_later(&b->agenda, 1, f, slot);
}

static uint32_t queued(struct book *b) {
  return b->agenda.wheel.count + b->agenda.wall.count;
}

TEST a_new_slot_is_free_in_generation_1_and_in_no_queue(void) {
  struct book b;

  ASSERT_RC(0, book_init(&b));
  ASSERT_U64(0, b.fault.total); /* nothing before the first task */
  for (int i = 0; i < 300; i++) {
    uint32_t slot;

    ASSERT_RC(0, uvs__agenda_take_slot(&b.agenda, 0, false, false, &slot));
    ASSERT_U64(UINT64_C(1) << UVS__GENERATION_SHIFT, word(&b, slot));
    ASSERT_U64(UVS__NONE, uvs__agenda_link(&b.agenda, slot)->a);
    ASSERT_EQ(NULL, uvs__agenda_cold(&b.agenda, uvs__agenda_slot(&b.agenda, slot)));
    ASSERT_U64(0, (uintptr_t)uvs__agenda_slot(&b.agenda, slot) % 64);
  }
  ASSERT_U64(UVS__NEVER, uvs__agenda_next(&b.agenda, true));
  ASSERT_U64(UVS__NEVER, uvs__agenda_next_wall(&b.agenda, true));
  ASSERT_U64(UVS__NONE, uvs__agenda_take_any(&b.agenda));
  ASSERT(uvs__agenda_check(&b.agenda));
  ASSERT(book_destroy(&b));
  PASS();
}

TEST tasks_come_out_by_deadline_and_equals_by_number(void) {
  static const uint64_t deadline_ns[] = {50, 10, 30, 10, 20, 50, 10, 0, 30, UVS__NEVER - 1};
  static const int order[] = {7, 1, 3, 6, 4, 2, 8, 0, 5, 9};
  uint32_t slot[10];
  struct book b;

  ASSERT_RC(0, book_init(&b));
  for (int i = 0; i < 10; i++) {
    slot[i] = add(&b, deadline_ns[i], false);
    ASSERT(uvs__agenda_check(&b.agenda));
  }
  ASSERT(slot[1] > slot[3]); /* so it was not the slot that decided */
  for (int i = 0; i < 10; i++) {
    ASSERT_U64(deadline_ns[order[i]], uvs__agenda_next(&b.agenda, true));
    ASSERT_U64(slot[order[i]], uvs__agenda_take_due(&b.agenda, UVS__NEVER - 1, 0));
    ASSERT(uvs__agenda_check(&b.agenda));
  }
  ASSERT_U64(UVS__NONE, uvs__agenda_take_due(&b.agenda, UVS__NEVER, UVS__NEVER));
  ASSERT(book_destroy(&b));
  PASS();
}

TEST plain_slots_are_given_back_in_batches(void) {
  static uint32_t slot[UVS__SLAB_BATCH + 3];
  struct uvs__stripe *stripe;
  struct uvs__freed f;
  uint32_t again;
  struct book b;

  f.count = 0;
  ASSERT_RC(0, book_init(&b));
  stripe = &b.agenda.slots.stripe[1];
  for (uint32_t i = 0; i < UVS__SLAB_BATCH + 3; i++)
    ASSERT_RC(0, uvs__agenda_take_slot(&b.agenda, 0, false, false, &slot[i]));
  for (uint32_t i = 0; i < UVS__SLAB_BATCH + 3; i++) {
    end_plain(&b, &f, slot[i]);
    ASSERT_U64((i + 1) % UVS__SLAB_BATCH, f.count);
    ASSERT_U64(i + 1 < UVS__SLAB_BATCH ? 0 : UVS__SLAB_BATCH, stripe->count);
  }
  uvs__agenda_free_now(&b.agenda, 1, &f); /* the rest */
  ASSERT_U64(0, f.count);
  ASSERT_U64(UVS__SLAB_BATCH + 3, stripe->count);
  uvs__agenda_free_now(&b.agenda, 1, &f); /* nothing */
  ASSERT_U64(UVS__SLAB_BATCH + 3, stripe->count);
  for (uint32_t i = UVS__SLAB_BATCH + 3; i > 0; i--) { /* the warm ones first */
    ASSERT_RC(0, uvs__agenda_take_slot(&b.agenda, 1, false, false, &again));
    ASSERT_U64(slot[i - 1], again);
    ASSERT_U64(2, uvs__word_generation(word(&b, again)));
  }
  ASSERT(book_destroy(&b));
  PASS();
}

/* L18 */
TEST a_plain_slot_whose_generation_is_used_up_stays_out(void) {
  struct uvs__freed f;
  uint32_t slot[3];
  struct book b;

  f.count = 0;
  ASSERT_RC(0, book_init(&b));
  for (uint32_t i = 0; i < 3; i++)
    ASSERT_RC(0, uvs__agenda_take_slot(&b.agenda, 0, false, false, &slot[i]));
  atomic_store(&uvs__agenda_slot(&b.agenda, slot[1])->word, (UVS__GENERATION_MAX - 1)
                                                                << UVS__GENERATION_SHIFT);
  atomic_store(&uvs__agenda_slot(&b.agenda, slot[2])->word, (UVS__GENERATION_MAX - 2)
                                                                << UVS__GENERATION_SHIFT);
  for (uint32_t i = 0; i < 3; i++)
    end_plain(&b, &f, slot[i]);
  ASSERT_U64(2, f.count);
  ASSERT_U64(slot[0], f.slot[0]);
  ASSERT_U64(slot[2], f.slot[1]);
  uvs__agenda_free_now(&b.agenda, 1, &f);
  ASSERT_U64(2, b.agenda.slots.stripe[1].count);
  ASSERT(book_destroy(&b));
  PASS();
}

/* A number is given once: A every 100 and B every 200 meet again and again, and A came first. */
TEST a_number_is_kept_over_runs_and_moves(void) {
  uint32_t a, c, other;
  struct book b;

  ASSERT_RC(0, book_init(&b));
  a = add(&b, 100, false);
  c = add(&b, 200, false);
  other = add(&b, 150, false);
  for (uint64_t now_ns = 100; now_ns <= 1000; now_ns += 100) {
    ASSERT_U64(a, uvs__agenda_take_due(&b.agenda, now_ns, 0));
    put(&b, a, now_ns + 100);
    put(&b, other, now_ns + 150);
    if (now_ns % 200 == 0) {
      ASSERT_U64(c, uvs__agenda_take_due(&b.agenda, now_ns, 0));
      put(&b, c, now_ns + 200);
    }
    ASSERT_U64(UVS__NONE, uvs__agenda_take_due(&b.agenda, now_ns, 0));
  }
  put(&b, other, 1200); /* moved to where the others are */
  put(&b, a, 5000);
  put(&b, a, 1200);
  ASSERT_U64(a, uvs__agenda_take_due(&b.agenda, 1200, 0));
  ASSERT_U64(c, uvs__agenda_take_due(&b.agenda, 1200, 0));
  ASSERT_U64(other, uvs__agenda_take_due(&b.agenda, 1200, 0));
  ASSERT(book_destroy(&b));
  PASS();
}

TEST nothing_comes_out_a_nanosecond_early(void) {
  struct book b;
  uint32_t slot;

  ASSERT_RC(0, book_init(&b));
  slot = add(&b, 1000, false);
  ASSERT_U64(UVS__NONE, uvs__agenda_take_due(&b.agenda, 0, UVS__NEVER));
  ASSERT_U64(UVS__NONE, uvs__agenda_take_due(&b.agenda, 999, UVS__NEVER));
  ASSERT_U64(1, queued(&b));
  ASSERT_U64(slot, uvs__agenda_take_due(&b.agenda, 1000, 0));
  ASSERT_U64(0, queued(&b));
  ASSERT(book_destroy(&b));
  PASS();
}

TEST a_push_back_is_learned_when_it_comes_up(void) {
  uint32_t first, second;
  struct book b;

  ASSERT_RC(0, book_init(&b));
  first = add(&b, 100, false);
  second = add(&b, 200, false);
  push_back(&b, first, 300);
  ASSERT_U64(100, uvs__agenda_next(&b.agenda, false));
  ASSERT_U64(UVS__NONE, uvs__agenda_take_due(&b.agenda, 99, 0)); /* nobody has looked at it yet */
  ASSERT_U64(100, uvs__agenda_next(&b.agenda, false));
  ASSERT_U64(UVS__NONE, uvs__agenda_take_due(
                            &b.agenda, 150, 0)); /* at its old time it does not run, and is moved */
  ASSERT(uvs__agenda_check(&b.agenda));
  ASSERT_U64(200, uvs__agenda_next(&b.agenda, false));
  ASSERT_U64(second, uvs__agenda_take_due(&b.agenda, 299, 0));
  ASSERT_U64(UVS__NONE, uvs__agenda_take_due(&b.agenda, 299, 0));
  ASSERT_U64(first, uvs__agenda_take_due(&b.agenda, 300, 0));
  ASSERT(book_destroy(&b));
  PASS();
}

TEST push_backs_are_learned_one_at_a_time_when_asked_for(void) {
  uint32_t slot[3];
  struct book b;

  ASSERT_RC(0, book_init(&b));
  slot[0] = add(&b, 100, false);
  slot[1] = add(&b, 100, false);
  slot[2] = add(&b, 100, true);
  for (int i = 0; i < 3; i++)
    push_back(&b, slot[i], 300);
  ASSERT_FALSE(uvs__agenda_put_back(&b.agenda, 99, 99)); /* their old time has not come */
  ASSERT(uvs__agenda_put_back(&b.agenda, 100, 99));
  ASSERT_U64(100, uvs__agenda_next(&b.agenda, false));
  ASSERT(uvs__agenda_put_back(&b.agenda, 100, 99));
  ASSERT_U64(300, uvs__agenda_next(&b.agenda, false));
  ASSERT_FALSE(uvs__agenda_put_back(&b.agenda, 100, 99));
  ASSERT_U64(100, uvs__agenda_next_wall(&b.agenda, false));
  ASSERT(uvs__agenda_put_back(&b.agenda, 100, 100));
  ASSERT_U64(300, uvs__agenda_next_wall(&b.agenda, false));
  ASSERT_FALSE(uvs__agenda_put_back(&b.agenda, 300, 300)); /* what is due is not its business */
  ASSERT_U64(3, queued(&b));
  ASSERT(uvs__agenda_check(&b.agenda));
  ASSERT(book_destroy(&b));
  PASS();
}

TEST an_exact_look_finds_out_about_push_backs(void) {
  uint32_t slot[10];
  struct book b;

  ASSERT_RC(0, book_init(&b));
  for (uint32_t i = 0; i < 10; i++)
    slot[i] = add(&b, 100 + i, false);
  for (uint32_t i = 0; i < 10; i++)
    push_back(&b, slot[i], 1000 - i); /* all of them, and in the other order */
  ASSERT_U64(100, uvs__agenda_next(&b.agenda, false));
  ASSERT_U64(991, uvs__agenda_next(&b.agenda, true));
  ASSERT_U64(991, uvs__agenda_next(&b.agenda, false));
  ASSERT(uvs__agenda_check(&b.agenda));
  ASSERT_U64(10, queued(&b));
  for (uint32_t i = 10; i-- > 0;)
    ASSERT_U64(slot[i], uvs__agenda_take_due(&b.agenda, 1000, 0));
  ASSERT(book_destroy(&b));
  PASS();
}

TEST a_pushed_back_task_keeps_its_place_among_equals(void) {
  uint32_t first, second;
  struct book b;

  ASSERT_RC(0, book_init(&b));
  first = add(&b, 100, false);
  second = add(&b, 200, false);
  push_back(&b, first, 200);
  ASSERT_U64(first, uvs__agenda_take_due(&b.agenda, 200, 0));
  ASSERT_U64(second, uvs__agenda_take_due(&b.agenda, 200, 0));
  ASSERT(book_destroy(&b));
  PASS();
}

TEST a_task_pushed_back_to_never_leaves_the_queue_when_it_comes_up(void) {
  uint32_t slot;
  struct book b;

  ASSERT_RC(0, book_init(&b));
  for (int wall = 0; wall < 2; wall++) {
    slot = add(&b, 100, wall != 0);
    push_back(&b, slot, UVS__NEVER);
    ASSERT_U64(1, queued(&b));
    ASSERT_U64(UVS__NONE, uvs__agenda_take_due(&b.agenda, 100, 100));
    ASSERT_U64(0, queued(&b));
    put(&b, slot, 200); /* and can come back */
    ASSERT_U64(1, queued(&b));
    push_back(&b, slot, UVS__NEVER);
    ASSERT_U64(UVS__NEVER,
               wall ? uvs__agenda_next_wall(&b.agenda, true) : uvs__agenda_next(&b.agenda, true));
    ASSERT_U64(0, queued(&b));
    end(&b, slot); /* which demands that it is in no queue */
  }
  ASSERT(book_destroy(&b));
  PASS();
}

TEST never_tasks_are_in_no_queue(void) {
  uint32_t never[3], slot;
  struct book b;

  ASSERT_RC(0, book_init(&b));
  never[0] = add(&b, UVS__NEVER, false);
  never[1] = add(&b, UVS__NEVER, true);
  never[2] = add(&b, 10, false);
  put(&b, never[2], UVS__NEVER); /* one that waited, too */
  ASSERT_U64(0, queued(&b));
  ASSERT_U64(UVS__NEVER, uvs__agenda_next(&b.agenda, true));
  ASSERT_U64(UVS__NEVER, uvs__agenda_next_wall(&b.agenda, true));
  ASSERT_U64(UVS__NONE, uvs__agenda_take_due(&b.agenda, UVS__NEVER, UVS__NEVER));
  ASSERT_U64(UVS__NONE, uvs__agenda_take_any(&b.agenda));
  slot = add(&b, 0, false); /* what is due is not held up */
  ASSERT_U64(slot, uvs__agenda_take_due(&b.agenda, 0, 0));
  for (int i = 0; i < 3; i++)
    uvs__agenda_remove(&b.agenda, never[i], word(&b, never[i])); /* harmless */
  put(&b, never[0], 7);
  ASSERT_U64(never[0], uvs__agenda_take_due(&b.agenda, 7, 0));
  ASSERT(uvs__agenda_check(&b.agenda));
  ASSERT(book_destroy(&b));
  PASS();
}

TEST the_wall_clocks_tasks_and_the_others_have_their_own_time(void) {
  uint32_t mono, wall;
  struct book b;

  ASSERT_RC(0, book_init(&b));
  mono = add(&b, 500, false);
  wall = add(&b, 500, true);
  ASSERT_U64(1, b.agenda.wheel.count);
  ASSERT_U64(1, b.agenda.wall.count);
  ASSERT_U64(UVS__NONE, uvs__agenda_take_due(&b.agenda, 499, 499));
  ASSERT_U64(wall, uvs__agenda_take_due(&b.agenda, 499, 500));
  ASSERT_U64(UVS__NONE, uvs__agenda_take_due(&b.agenda, 499, UVS__NEVER));
  ASSERT_U64(500, uvs__agenda_next(&b.agenda, true));
  ASSERT_U64(UVS__NEVER, uvs__agenda_next_wall(&b.agenda, true));
  put(&b, wall, 700);
  ASSERT_U64(mono, uvs__agenda_take_due(&b.agenda, 500, 0));
  ASSERT_U64(UVS__NONE, uvs__agenda_take_due(&b.agenda, UVS__NEVER, 699));
  ASSERT_U64(UVS__NEVER, uvs__agenda_next(&b.agenda, true));
  ASSERT_U64(700, uvs__agenda_next_wall(&b.agenda, true));
  push_back(&b, wall, 800);
  ASSERT_U64(700, uvs__agenda_next_wall(&b.agenda, false));
  ASSERT_U64(800, uvs__agenda_next_wall(&b.agenda, true));
  ASSERT_U64(wall, uvs__agenda_take_due(&b.agenda, 0, 800));
  ASSERT(book_destroy(&b));
  PASS();
}

/* Slots of both queues are mixed, so that wall tasks have high slots while their queue is short,
 * and the other way. */
TEST both_queues_have_room_for_any_slot(void) {
  static uint32_t slot[1500];
  struct book b;

  ASSERT_RC(0, book_init(&b));
  for (uint32_t i = 0; i < 1500; i++) {
    slot[i] = add(&b, i * 7919 % 1000, i % 2 == 0);
    ASSERT(slot[i] != UVS__NONE);
  }
  ASSERT(uvs__agenda_check(&b.agenda));
  for (uint32_t i = 0; i < 1500; i++) { /* all in one, then all in the other */
    uvs__agenda_remove(&b.agenda, slot[i], word(&b, slot[i]));
    end(&b, slot[i]);
  }
  for (int wall = 0; wall < 2; wall++) {
    for (uint32_t i = 0; i < 1500; i++)
      slot[i] = add(&b, i, wall != 0);
    ASSERT_U64(1500, wall ? b.agenda.wall.count : b.agenda.wheel.count);
    ASSERT(uvs__agenda_check(&b.agenda));
    for (uint32_t i = 0; i < 1500; i++) {
      ASSERT_U64(slot[i], uvs__agenda_take_due(&b.agenda, i, i));
      end(&b, slot[i]);
    }
  }
  ASSERT(book_destroy(&b));
  PASS();
}

/* S69 */
TEST two_clocks_make_one_order(void) {
  uint32_t late, later, latest;
  struct book b;

  ASSERT_RC(0, book_init(&b));
  late = add(&b, 180, false);
  latest = add(&b, 1050, true);
  later = add(&b, 100, false);
  ASSERT_U64(latest, uvs__agenda_take_due(&b.agenda, 200, 1200)); /* due for 150 */
  ASSERT_U64(later, uvs__agenda_take_due(&b.agenda, 200, 1200));  /* for 100 */
  ASSERT_U64(late, uvs__agenda_take_due(&b.agenda, 200, 1200));   /* for 20 */
  ASSERT_U64(UVS__NONE, uvs__agenda_take_due(&b.agenda, 200, 1200));
  end(&b, late);
  end(&b, later);
  end(&b, latest);
  ASSERT(book_destroy(&b));
  PASS();
}

/* S29 A task that was removed is in no queue any more; removing it again finds nothing; its
 * neighbours stay. */
TEST a_removed_task_leaves_at_once_and_alone(void) {
  uint32_t slot[20];
  struct book b;

  ASSERT_RC(0, book_init(&b));
  for (uint32_t i = 0; i < 20; i++)
    slot[i] = add(&b, 100 + i, i % 2 == 0);
  for (uint32_t i = 0; i < 20; i += 3) {
    uint32_t before = queued(&b);

    uvs__agenda_remove(&b.agenda, slot[i], word(&b, slot[i]));
    ASSERT_U64(before - 1, queued(&b));
    uvs__agenda_remove(&b.agenda, slot[i], word(&b, slot[i]));
    ASSERT_U64(before - 1, queued(&b));
    ASSERT(uvs__agenda_check(&b.agenda));
    end(&b, slot[i]);
  }
  for (int wall = 0; wall < 2; wall++)
    for (uint32_t i = 0; i < 20; i++)
      if (i % 3 != 0 && (i % 2 == 0) == (wall != 0))
        ASSERT_U64(slot[i], uvs__agenda_take_due(&b.agenda, wall ? 0 : 200, wall ? 200 : 0));
  ASSERT_U64(0, queued(&b));
  ASSERT(book_destroy(&b));
  PASS();
}

TEST take_any_empties_both_queues(void) {
  uint32_t far, later, wall, never;
  struct book b;

  ASSERT_RC(0, book_init(&b));
  far = add(&b, UVS__NEVER - 1, false);
  later = add(&b, 5, false);
  wall = add(&b, UVS__NEVER - 1, true);
  never = add(&b, 5, false);
  push_back(&b, later, 500);
  push_back(&b, never, UVS__NEVER);
  ASSERT_U64(later, uvs__agenda_take_any(&b.agenda));
  ASSERT_U64(far, uvs__agenda_take_any(&b.agenda));
  ASSERT_U64(wall, uvs__agenda_take_any(&b.agenda));
  ASSERT_U64(UVS__NONE, uvs__agenda_take_any(&b.agenda));
  ASSERT_U64(0, queued(&b));
  ASSERT(book_destroy(&b));
  PASS();
}

TEST a_cold_record_comes_and_goes_with_its_slot(void) {
  struct uvs__cold *cold[100];
  uint32_t slot[100], plain;
  struct book b;

  ASSERT_RC(0, book_init(&b));
  for (int round = 0; round < 5; round++) {
    for (uint32_t i = 0; i < 100; i++) {
      ASSERT_RC(0, uvs__agenda_take_slot(&b.agenda, 0, true, false, &slot[i]));
      begin(&b, slot[i], i, false); /* the number shares a word with the cold record's */
      cold[i] = uvs__agenda_cold(&b.agenda, uvs__agenda_slot(&b.agenda, slot[i]));
      ASSERT(cold[i] != NULL);
      ASSERT_U64(0, (uintptr_t)cold[i] % 64);
      cold[i]->max_runs = i;
    }
    plain = add(&b, 1000, false);
    ASSERT_EQ(NULL, uvs__agenda_cold(&b.agenda, uvs__agenda_slot(&b.agenda, plain)));
    for (uint32_t i = 0; i < 100; i++) {
      ASSERT_U64(slot[i], uvs__agenda_take_due(&b.agenda, i, 0));
      ASSERT_EQ(cold[i], uvs__agenda_cold(&b.agenda, uvs__agenda_slot(&b.agenda, slot[i])));
      ASSERT_U64(i, cold[i]->max_runs);
      end(&b, slot[i]);
    }
    ASSERT_U64(plain, uvs__agenda_take_any(&b.agenda));
    end(&b, plain);
  }
  ASSERT_U64(128, uvs__slab_made(&b.agenda.slots));
  ASSERT_U64(128, uvs__slab_made(&b.agenda.colds));
  ASSERT(book_destroy(&b));
  PASS();
}

TEST ending_tasks_bounds_the_room(void) {
  struct book b;
  uint32_t slot;
  long total;

  ASSERT_RC(0, book_init(&b));
  slot = add(&b, UVS__NEVER - 1, false);
  uvs__agenda_remove(&b.agenda, slot, word(&b, slot));
  end(&b, slot);
  total = b.fault.total;
  for (uint64_t i = 0; i < 100000; i++) {
    slot = add(&b, UVS__NEVER - 1 - i, false);
    ASSERT_U64(1, queued(&b));
    uvs__agenda_remove(&b.agenda, slot, word(&b, slot));
    end(&b, slot);
  }
  ASSERT_U64(total, b.fault.total);
  ASSERT_U64(64, uvs__slab_made(&b.agenda.slots));
  ASSERT(book_destroy(&b));
  PASS();
}

/* Each way to take a slot, each allocation on the way, each time from the start. Once a slot is
 * there nothing can fail. */
TEST a_failed_allocation_changes_nothing_and_nothing_fails_later(void) {
  enum { TASKS = 300 };

  for (unsigned how = 0; how < 4; how++) {
    bool cold = (how & 1) != 0, wall = (how & 2) != 0, failed = true;
    long fail;

    for (fail = 0; failed; fail++) {
      static uint32_t slot[TASKS];
      uint32_t n = 0;
      struct book b;
      long total;

      ASSERT_RC(0, book_init(&b));
      failed = false;
      fault_after(fail);
      while (n < TASKS) {
        uint32_t made = uvs__slab_made(&b.agenda.slots), count = queued(&b);
        int rc;

        slot[n] = 12345678;
        rc = uvs__agenda_take_slot(&b.agenda, 0, cold, wall, &slot[n]);
        if (rc < 0) {
          ASSERT_RC(UV_ENOMEM, rc);
          ASSERT(fault_hit());
          failed = true;
          ASSERT_U64(12345678, slot[n]);
          ASSERT_U64(count, queued(&b));
          ASSERT(uvs__agenda_check(&b.agenda));
          if (uvs__slab_made(&b.agenda.slots) !=
              made) /* the slots were made; what belongs to them was not */
            ASSERT(cold || wall);
          continue;
        }
        ASSERT_U64(UVS__FREE, uvs__word_state(word(&b, slot[n])));
        ASSERT_EQ(cold, uvs__agenda_cold(&b.agenda, uvs__agenda_slot(&b.agenda, slot[n])) != NULL);
        begin(&b, slot[n], 1000 - n, wall);
        n++;
      }
      (void)fault_hit(); /* the order ends */
      /* No slot was lost on the way. */
      ASSERT_U64(320, uvs__slab_made(&b.agenda.slots));
      ASSERT_U64(cold ? 320 : 0, uvs__slab_made(&b.agenda.colds));
      total = b.fault.total;
      for (uint32_t i = 0; i < TASKS; i++)
        put(&b, slot[i], i);
      for (uint32_t i = 0; i < TASKS; i++) {
        ASSERT_U64(slot[i], uvs__agenda_take_due(&b.agenda, 1000, 1000));
        end(&b, slot[i]);
      }
      ASSERT_U64(total, b.fault.total);
      ASSERT(book_destroy(&b));
    }
    /* Three chunks of slots with their links and room; of colds; of the wall queue. */
    ASSERT_U64(9 + (cold ? 3 : 0) + (wall ? 3 : 0), fail - 1);
  }
  PASS();
}

/* With all bits, by a jump close to the end; test_generation.c lives through them all with three.
 */
TEST a_slot_whose_generation_is_used_up_stays_out(void) {
  struct uvs__slot *t;
  uint32_t slot, other;
  struct book b;

  ASSERT_RC(0, book_init(&b));
  ASSERT_RC(0, uvs__agenda_take_slot(&b.agenda, 0, true, false, &slot));
  t = uvs__agenda_slot(&b.agenda, slot);
  atomic_store(&t->word, (UVS__GENERATION_MAX - 2) << UVS__GENERATION_SHIFT);
  end(&b, slot);
  ASSERT_RC(0, uvs__agenda_take_slot(&b.agenda, 0, true, false, &other));
  ASSERT_U64(slot, other); /* once more */
  ASSERT_U64(UVS__GENERATION_MAX - 1, uvs__word_generation(word(&b, slot)));
  end(&b, slot);
  for (int i = 0; i < 1000; i++) {
    ASSERT_RC(0, uvs__agenda_take_slot(&b.agenda, (uintptr_t)i, true, false, &other));
    ASSERT(other != slot);
    if (i % 2 == 0)
      end(&b, other);
  }
  ASSERT_U64(UVS__GENERATION_MAX,
             uvs__word_generation(word(&b, slot))); /* still there to be looked at */
  ASSERT_U64(UVS__FREE, uvs__word_state(word(&b, slot)));
  ASSERT(book_destroy(&b));
  PASS();
}

/* The naive one: all tasks, searched from end to end. */
#define TASKS 200

struct task {
  bool live;
  bool wall;
  uint32_t slot;
  uint64_t deadline_ns; /* the true one, whether the queue knows or not */
  uint64_t number;
};

/* The first of those due; -1 if none is. */
static int naive_due(const struct task *t, bool wall, uint64_t until_ns) {
  int best = -1;

  for (int i = 0; i < TASKS; i++) {
    if (!t[i].live || t[i].wall != wall || t[i].deadline_ns > until_ns ||
        t[i].deadline_ns >= UVS__NEVER)
      continue;
    if (best < 0 || t[i].deadline_ns < t[best].deadline_ns ||
        (t[i].deadline_ns == t[best].deadline_ns && t[i].number < t[best].number))
      best = i;
  }
  return best;
}

static uint64_t naive_next(const struct task *t, bool wall) {
  int i = naive_due(t, wall, UVS__NEVER);

  return i < 0 ? UVS__NEVER : t[i].deadline_ns;
}

static uint64_t some_deadline(uint64_t *random, uint64_t from_ns) {
  return test_random_below(random, 10) == 0 ? UVS__NEVER : from_ns + test_random_below(random, 50);
}

/* L20: what is due, several at a time, is what is due one by one. Not while the wall clock has
 * tasks: then two clocks make one order. */
TEST several_at_once_are_the_same_as_one_by_one(void) {
  uint64_t random = test_seed;
  uint32_t at_once[64], wall = UVS__NONE;
  struct book many, single;

  ASSERT_RC(0, book_init(&many));
  ASSERT_RC(0, book_init(&single));
  for (uint64_t now_ns = 1000; now_ns < 200000; now_ns += 100) {
    for (uint64_t n = test_random_below(&random, 40); n > 0; n--) {
      uint64_t due_ns =
          now_ns + (test_random_below(&random, 3) == 0 ? test_random_below(&random, 3000)
                                                       : (n % 2) * 50); /* in order, more or less */

      ASSERT_U64(add(&many, due_ns, false), add(&single, due_ns, false));
    }
    if (now_ns % 5000 == 0) { /* for a while there is one of the wall clock */
      if (wall == UVS__NONE) {
        wall = add(&many, UVS__NEVER - 1, true);
        ASSERT_U64(wall, add(&single, UVS__NEVER - 1, true));
      } else {
        uvs__agenda_remove(&many.agenda, wall, word(&many, wall));
        uvs__agenda_remove(&single.agenda, wall, word(&single, wall));
        end(&many, wall);
        end(&single, wall);
        wall = UVS__NONE;
      }
    }
    for (bool more = true; more;) {
      unsigned n = uvs__agenda_take_front(&many.agenda, now_ns, at_once, 64);

      ASSERT(n <= 64);
      ASSERT(wall == UVS__NONE || n == 0);
      if (n == 0) {
        at_once[0] = uvs__agenda_take_due(&many.agenda, now_ns, 0);
        more = at_once[0] != UVS__NONE;
        n = 1;
      }
      for (unsigned i = 0; i < n; i++)
        ASSERT_U64(uvs__agenda_take_due(&single.agenda, now_ns, 0), at_once[i]);
      for (unsigned i = 0; more && i < n; i++) {
        end(&many, at_once[i]);
        end(&single, at_once[i]);
      }
      ASSERT(uvs__agenda_check(&many.agenda));
    }
  }
  ASSERT(book_destroy(&many));
  ASSERT(book_destroy(&single));
  PASS();
}

TEST a_random_run_agrees_with_a_searched_list(void) {
  static struct task t[TASKS];
  uint64_t random = test_seed, now_ns = 0, wall_ns = 1000, numbers = 0;
  uint32_t live = 0;
  struct book b;

  memset(t, 0, sizeof t);
  ASSERT_RC(0, book_init(&b));
  for (int step = 0; step < 20000; step++) {
    struct task *x = &t[test_random_below(&random, TASKS)];
    uint64_t base_ns = x->wall ? wall_ns : now_ns;

    switch (test_random_below(&random, 6)) {
    case 0:
    case 1: /* a new one, or the end of an old one */
      if (!x->live) {
        x->wall = test_random_below(&random, 3) == 0;
        x->deadline_ns = some_deadline(&random, x->wall ? wall_ns : now_ns);
        x->number = ++numbers;
        x->slot = add(&b, x->deadline_ns, x->wall);
        ASSERT(x->slot != UVS__NONE);
        live++;
      } else {
        uvs__agenda_remove(&b.agenda, x->slot, word(&b, x->slot));
        end(&b, x->slot);
        live--;
      }
      x->live = !x->live;
      break;
    case 2: /* a push-back that the queue does not hear of */
      if (x->live) {
        uint64_t later_ns = some_deadline(&random, x->deadline_ns);

        x->deadline_ns = later_ns > UVS__NEVER ? UVS__NEVER : later_ns;
        push_back(&b, x->slot, x->deadline_ns);
      }
      break;
    case 3: /* moved anywhere */
      if (x->live) {
        x->deadline_ns = some_deadline(&random, base_ns);
        put(&b, x->slot, x->deadline_ns);
      }
      break;
    case 4:
      ASSERT_U64(naive_next(t, false), uvs__agenda_next(&b.agenda, true));
      ASSERT_U64(naive_next(t, true), uvs__agenda_next_wall(&b.agenda, true));
      break;
    default: /* time passes; the wall clock may go back */
      now_ns += test_random_below(&random, 20);
      wall_ns += test_random_below(&random, 30);
      wall_ns -= test_random_below(&random, 10);
      for (;;) {
        uint32_t slot = uvs__agenda_take_due(&b.agenda, now_ns, wall_ns);
        int i = naive_due(t, false, now_ns), w = naive_due(t, true, wall_ns);

        /* What has been due for longer comes first, by whichever clock. */
        if (i < 0 || (w >= 0 && wall_ns - t[w].deadline_ns > now_ns - t[i].deadline_ns))
          i = w;
        ASSERT_U64(i < 0 ? UVS__NONE : t[i].slot, slot);
        ASSERT(uvs__agenda_check(&b.agenda));
        if (i < 0)
          break;
        if (test_random_below(&random, 2) == 0) { /* the next period */
          t[i].deadline_ns += 1 + test_random_below(&random, 40);
          put(&b, slot, t[i].deadline_ns);
        } else {
          t[i].live = false;
          end(&b, slot);
          live--;
        }
      }
      break;
    }
    ASSERT(uvs__agenda_check(&b.agenda));
    ASSERT(queued(&b) <= live);
    ASSERT(uvs__agenda_next(&b.agenda, false) <=
           naive_next(t, false)); /* too early costs a look, too late a run */
    ASSERT(uvs__agenda_next_wall(&b.agenda, false) <= naive_next(t, true));
  }
  ASSERT(book_destroy(&b));
  PASS();
}

SUITE(agenda) {
  RUN_TEST(a_new_slot_is_free_in_generation_1_and_in_no_queue);
  RUN_TEST(tasks_come_out_by_deadline_and_equals_by_number);
  RUN_TEST(a_number_is_kept_over_runs_and_moves);
  RUN_TEST(nothing_comes_out_a_nanosecond_early);
  RUN_TEST(a_push_back_is_learned_when_it_comes_up);
  RUN_TEST(push_backs_are_learned_one_at_a_time_when_asked_for);
  RUN_TEST(an_exact_look_finds_out_about_push_backs);
  RUN_TEST(a_pushed_back_task_keeps_its_place_among_equals);
  RUN_TEST(a_task_pushed_back_to_never_leaves_the_queue_when_it_comes_up);
  RUN_TEST(never_tasks_are_in_no_queue);
  RUN_TEST(the_wall_clocks_tasks_and_the_others_have_their_own_time);
  RUN_TEST(both_queues_have_room_for_any_slot);
  RUN_TEST(two_clocks_make_one_order);
  RUN_TEST(a_removed_task_leaves_at_once_and_alone);
  RUN_TEST(take_any_empties_both_queues);
  RUN_TEST(a_cold_record_comes_and_goes_with_its_slot);
  RUN_TEST(ending_tasks_bounds_the_room);
  RUN_TEST(a_failed_allocation_changes_nothing_and_nothing_fails_later);
  RUN_TEST(a_slot_whose_generation_is_used_up_stays_out);
  RUN_TEST(plain_slots_are_given_back_in_batches);
  RUN_TEST(a_plain_slot_whose_generation_is_used_up_stays_out);
  RUN_TEST(several_at_once_are_the_same_as_one_by_one);
  RUN_TEST(a_random_run_agrees_with_a_searched_list);
}

TEST_MAIN(RUN_SUITE(agenda));
