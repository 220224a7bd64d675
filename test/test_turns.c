/* SPDX-License-Identifier: MIT
 *
 * Who starts next: classes that take turns, 8 : 4 : 1. The exact sequence, how long the first of a
 * class waits at most, and long random runs against a model that counts on its fingers.
 */
#include "turns.h"

#include <string.h>

#include "lib/unit.h"

enum { SLOTS = 600 };

static const char letters[] = "HNL";
#define CYCLE "HHNHHNHHNHHNL"

/* Slots of one class each, and who is ready. */
struct bench {
  struct uvs__agenda agenda;
  struct uvs__ready ready;
  struct fault fault;
  uvs_allocator_t mem;
  uint32_t free[UVS__CLASSES][SLOTS]; /* not ready */
  unsigned free_count[UVS__CLASSES];
  uint8_t class_of[4 * SLOTS]; /* by slot */
};

static enum greatest_test_res bench_init(struct bench *b) {
  fault_init(&b->fault);
  b->mem = fault_option(&b->fault);
  ASSERT_RC(0, uvs__agenda_init(&b->agenda, &b->mem));
  uvs__ready_init(&b->ready);
  for (uint8_t k = 0; k < UVS__CLASSES; k++) {
    b->free_count[k] = SLOTS;
    for (unsigned i = 0; i < SLOTS; i++) {
      bool cold = k != UVS__NORMAL || i % 2 == 0; /* one without a record is normal */
      uint32_t slot;

      ASSERT_RC(0, uvs__agenda_take_slot(&b->agenda, 0, cold, false, &slot));
      ASSERT(slot < sizeof b->class_of);
      if (cold)
        atomic_store(&uvs__agenda_cold(&b->agenda, uvs__agenda_slot(&b->agenda, slot))->class, k);
      b->free[k][i] = slot;
      b->class_of[slot] = k;
    }
  }
  PASS();
}

static enum greatest_test_res bench_destroy(struct bench *b) {
  uvs__agenda_destroy(&b->agenda);
  ASSERT_EQ_FMT(0L, atomic_load(&b->fault.live), "%ld");
  PASS();
}

static uint32_t add(struct bench *b, int k) {
  uint32_t slot = b->free[k][--b->free_count[k]];

  uvs__ready_append(&b->agenda, &b->ready, b->class_of[slot], slot);
  return slot;
}

static void set_free(struct bench *b, uint32_t slot) {
  int k = b->class_of[slot];

  b->free[k][b->free_count[k]++] = slot;
}

/* As the pool does it. */
static uint32_t start(struct bench *b) {
  uint32_t slot = uvs__ready_first(&b->ready);

  if (slot == UVS__NONE)
    return slot;
  uvs__ready_remove(&b->agenda, &b->ready, b->class_of[slot], slot);
  uvs__ready_turn(&b->ready);
  set_free(b, slot);
  return slot;
}

/* So many starts, in letters; '.' if there is nobody. */
static const char *starts(struct bench *b, unsigned n) {
  static char text[256];

  for (unsigned i = 0; i < n; i++) {
    uint32_t slot = start(b);

    text[i] = slot == UVS__NONE ? '.' : letters[b->class_of[slot]];
  }
  text[n] = '\0';
  return text;
}

static void fill(struct bench *b, unsigned high, unsigned normal, unsigned low) {
  unsigned n[UVS__CLASSES] = {high, normal, low};

  for (int k = 0; k < UVS__CLASSES; k++) {
    while (n[k]-- > 0)
      add(b, k);
  }
}

static void empty(struct bench *b) {
  while (start(b) != UVS__NONE) {
  }
}

static void turn_to(struct bench *b, unsigned turn) {
  while (b->ready.turn != turn)
    uvs__ready_turn(&b->ready);
}

TEST with_all_three_there_the_sequence_is_exact(void) {
  static struct bench b;

  CHECK_CALL(bench_init(&b));
  fill(&b, 100, 100, 100);
  for (int cycle = 0; cycle < 10; cycle++)
    ASSERT_STR_EQ(CYCLE, starts(&b, 13));
  CHECK_CALL(bench_destroy(&b));
  PASS();
}

TEST a_class_that_has_none_leaves_its_turns_to_the_highest_that_has(void) {
  static const struct {
    unsigned high, normal, low;
    const char *cycle;
  } cases[] = {
      {0, 100, 100, "NNNNNNNNNNNNL"}, {100, 0, 100, "HHHHHHHHHHHHL"},
      {100, 100, 0, "HHNHHNHHNHHNH"}, {100, 0, 0, "HHHHHHHHHHHHH"},
      {0, 100, 0, "NNNNNNNNNNNNN"},   {0, 0, 100, "LLLLLLLLLLLLL"},
  };
  static struct bench b;

  CHECK_CALL(bench_init(&b));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    turn_to(&b, 0);
    fill(&b, cases[i].high, cases[i].normal, cases[i].low);
    for (int cycle = 0; cycle < 5; cycle++)
      ASSERT_STR_EQ(cases[i].cycle, starts(&b, 13));
    empty(&b);
  }
  turn_to(&b, 0);
  fill(&b, 1, 2, 3);
  ASSERT_STR_EQ("HNNLLL..", starts(&b, 8));
  CHECK_CALL(bench_destroy(&b));
  PASS();
}

TEST of_any_13_starts_8_are_high_4_normal_and_1_low(void) {
  static struct bench b;

  CHECK_CALL(bench_init(&b));
  for (unsigned turn = 0; turn < 13; turn++) {
    unsigned n[UVS__CLASSES] = {0};

    turn_to(&b, turn);
    fill(&b, 50, 50, 50);
    for (const char *c = starts(&b, 13); *c != '\0'; c++)
      n[strchr(letters, *c) - letters]++;
    ASSERT_U64(8, n[UVS__HIGH]);
    ASSERT_U64(4, n[UVS__NORMAL]);
    ASSERT_U64(1, n[UVS__LOW]);
    empty(&b);
  }
  CHECK_CALL(bench_destroy(&b));
  PASS();
}

/* At every turn of the wheel, with every mixture of the others, more of them coming all the time:
 * so many start before the first of a class. The bounds are reached, so they are the best. */
TEST the_first_of_a_class_is_overtaken_by_2_or_3_or_12_others_at_most(void) {
  static const unsigned bounds[UVS__CLASSES] = {2, 3, 12};
  static struct bench b;

  CHECK_CALL(bench_init(&b));
  for (int k = 0; k < UVS__CLASSES; k++) {
    unsigned worst = 0;

    for (unsigned turn = 0; turn < 13; turn++) {
      for (unsigned mix = 0; mix < 16 * 16 * 2; mix++) {
        unsigned first = mix % 16, second = mix / 16 % 16; /* of the other two classes */
        int others[2] = {k == 0 ? 1 : 0, k == 2 ? 1 : 2};
        bool more = mix >= 256;
        unsigned overtaken = 0;
        uint32_t mine;
        uint32_t next;

        turn_to(&b, turn);
        while (first-- > 0)
          add(&b, others[0]);
        while (second-- > 0)
          add(&b, others[1]);
        mine = add(&b, k);
        add(&b, k); /* behind it */
        while ((next = start(&b)) != mine) {
          ASSERT(next != UVS__NONE);
          overtaken++;
          if (more)
            add(&b, b.class_of[next]);
        }
        if (overtaken > worst)
          worst = overtaken;
        empty(&b);
      }
    }
    ASSERT_U64(bounds[k], worst);
  }
  CHECK_CALL(bench_destroy(&b));
  PASS();
}

TEST what_is_taken_out_leaves_the_others_in_order_and_no_turn_is_over(void) {
  static struct bench b;
  uint32_t slot[6];

  CHECK_CALL(bench_init(&b));
  ASSERT_U64(UVS__NONE, uvs__ready_first(&b.ready));
  for (int i = 0; i < 6; i++)
    slot[i] = add(&b, i % 3);
  ASSERT_U64(6, b.ready.count);
  ASSERT(uvs__ready_remove(&b.agenda, &b.ready, b.class_of[slot[0]], slot[0]));
  ASSERT_FALSE(uvs__ready_remove(&b.agenda, &b.ready, b.class_of[slot[0]], slot[0]));
  ASSERT_U64(5, b.ready.count);
  ASSERT_U64(0, b.ready.turn);
  ASSERT_U64(slot[3], uvs__ready_first(&b.ready));
  ASSERT_U64(slot[3], uvs__ready_first(&b.ready)); /* it stays where it is */
  ASSERT(uvs__ready_remove(&b.agenda, &b.ready, b.class_of[slot[4]], slot[4]));
  ASSERT(uvs__ready_remove(&b.agenda, &b.ready, b.class_of[slot[3]], slot[3]));
  ASSERT_U64(slot[1], uvs__ready_first(&b.ready));
  ASSERT(uvs__ready_remove(&b.agenda, &b.ready, b.class_of[slot[1]], slot[1]));
  ASSERT_U64(slot[2], uvs__ready_first(&b.ready));
  ASSERT(uvs__ready_remove(&b.agenda, &b.ready, b.class_of[slot[5]], slot[5]));
  ASSERT(uvs__ready_remove(&b.agenda, &b.ready, b.class_of[slot[2]], slot[2]));
  ASSERT_U64(UVS__NONE, uvs__ready_first(&b.ready));
  ASSERT_U64(0, b.ready.count);
  uvs__ready_append(&b.agenda, &b.ready, b.class_of[slot[2]], slot[2]); /* and again */
  ASSERT_U64(slot[2], start(&b));
  CHECK_CALL(bench_destroy(&b));
  PASS();
}

/* ---- against a model ---- */

struct model {
  uint32_t waiting[UVS__CLASSES][SLOTS];
  unsigned count[UVS__CLASSES];
  unsigned turn;
};

static uint32_t model_take(struct model *m, int k, unsigned i) {
  uint32_t slot = m->waiting[k][i];

  m->count[k]--;
  memmove(&m->waiting[k][i], &m->waiting[k][i + 1], (m->count[k] - i) * sizeof m->waiting[k][0]);
  return slot;
}

static uint32_t model_start(struct model *m) {
  int k = (int)(strchr(letters, CYCLE[m->turn]) - letters);

  for (int i = 0; i < UVS__CLASSES && m->count[k] == 0; i++)
    k = i;
  if (m->count[k] == 0)
    return UVS__NONE;
  m->turn = (m->turn + 1) % 13;
  return model_take(m, k, 0);
}

TEST any_mixture_is_as_the_model_has_it(void) {
  static struct bench b;
  static struct model m;
  uint64_t random = test_seed;

  memset(&m, 0, sizeof m);
  CHECK_CALL(bench_init(&b));
  for (int i = 0; i < 400000; i++) {
    uint64_t phase = (uint64_t)i / 10000 % 3; /* it grows, stays, shrinks */
    uint64_t what = test_random_below(&random, 10);
    int k = (int)test_random_below(&random, UVS__CLASSES);

    if (what < 3 + 2 * (2 - phase)) {
      if (b.free_count[k] > 0) {
        uint32_t slot = add(&b, k);

        m.waiting[k][m.count[k]++] = slot;
      }
    } else if (what == 9 && m.count[k] > 0) {
      uint32_t slot = model_take(&m, k, (unsigned)test_random_below(&random, m.count[k]));

      ASSERT(uvs__ready_remove(&b.agenda, &b.ready, b.class_of[slot], slot));
      set_free(&b, slot);
    } else {
      uint32_t expected = model_start(&m);

      ASSERT_U64(expected, start(&b));
    }
    ASSERT_U64(m.count[0] + m.count[1] + m.count[2], b.ready.count);
  }
  CHECK_CALL(bench_destroy(&b));
  PASS();
}

SUITE(turns) {
  RUN_TEST(with_all_three_there_the_sequence_is_exact);
  RUN_TEST(a_class_that_has_none_leaves_its_turns_to_the_highest_that_has);
  RUN_TEST(of_any_13_starts_8_are_high_4_normal_and_1_low);
  RUN_TEST(the_first_of_a_class_is_overtaken_by_2_or_3_or_12_others_at_most);
  RUN_TEST(what_is_taken_out_leaves_the_others_in_order_and_no_turn_is_over);
  RUN_TEST(any_mixture_is_as_the_model_has_it);
}

TEST_MAIN(RUN_SUITE(turns));
