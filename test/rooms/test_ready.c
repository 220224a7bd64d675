/* SPDX-License-Identifier: MIT
 *
 * ready: which of the ready tasks starts next. Within a class the earliest key; among the classes 8
 * : 4 : 1. After every step of the random programs uvs__ready_check must hold, and the first task
 * must be the one that a linear search finds.
 *
 * Needs: src/core/ready.c src/util/{slots,heap}.c src/port/{mem,linux}.c src/task/table.c
 *        test/lib/fault.c
 */
#include "core/ready.h"

#include <string.h>

#include "lib/unit.h"

static const char letters[] = "HNL";
#define CYCLE "HHNHHNHHNHHNL"

struct bench {
  struct uvs__table table;
  struct uvs__ready ready;
  struct fault fault;
  uvs_allocator_t mem;
};

static void bench_init(struct bench *b) {
  fault_init(&b->fault);
  b->mem = fault_option(&b->fault);
  uvs__table_init(&b->table);
  uvs__ready_init(&b->ready);
}

static bool bench_destroy(struct bench *b) {
  uvs__table_free_memory(&b->table, &b->mem);
  return b->fault.live == 0;
}

static struct uvs__task *at(const struct bench *b, uint32_t slot) {
  return uvs__task_at(&b->table, slot);
}

static void make_room(struct bench *b, bool extras) {
  struct uvs__slots *s = extras ? &b->table.extras : &b->table.tasks;
  struct uvs__slots_chunk c;

  if (uvs__slots_room(s) > 0)
    return;
  if (uvs__slots_prepare(s, s->chunks, &b->mem, &c) < 0)
    abort();
  uvs__table_attach(&b->table, s, &c);
}

/* A READY task that is not yet among the ready tasks. With an extra record the key is there, and
 * due_ns and seq have other values. */
static uint32_t fresh(struct bench *b, unsigned class, uint64_t key_ns, uint64_t key_seq,
                      bool extra) {
  struct uvs__task *t;
  uint32_t slot;

  make_room(b, false);
  make_room(b, true);
  slot = uvs__table_take(&b->table);
  if (extra)
    uvs__table_add_extra(&b->table, slot);
  t = at(b, slot);
  uvs__set_state(t, UVS__WAITING);
  uvs__set_state(t, UVS__READY);
  t->flags = (uint16_t)(class << UVS__CLASS_SHIFT);
  t->due_ns = extra ? UVS__NEVER - key_ns : key_ns;
  t->seq = (extra ? ~key_seq : key_seq) & ((UINT64_C(1) << UVS__SEQ_BITS) - 1);
  if (extra) {
    uvs__extra_of(&b->table, t)->key_ns = key_ns;
    uvs__extra_of(&b->table, t)->key_seq = key_seq;
  }
  return slot;
}

static uint32_t add(struct bench *b, unsigned class, uint64_t key_ns) {
  uint64_t seq = ++b->table.next_seq;
  uint32_t slot = fresh(b, class, key_ns, seq, seq % 2 == 0);

  uvs__ready_add(&b->table, &b->ready, slot);
  return slot;
}

static void drop(struct bench *b, uint32_t slot) {
  uvs__ready_remove(&b->table, &b->ready, slot);
  uvs__set_state(at(b, slot), UVS__ENDED);
  uvs__set_state(at(b, slot), UVS__FREE);
  uvs__table_give(&b->table, slot);
}

/* Starts a task as a runner does. Returns its class, or UVS__NONE. */
static unsigned start(struct bench *b) {
  uint32_t slot = uvs__ready_first(&b->table, &b->ready);
  unsigned class;

  if (slot == UVS__NONE)
    return UVS__NONE;
  class = uvs__class_of(at(b, slot));
  drop(b, slot);
  uvs__ready_turn(&b->ready);
  return class;
}

/* The classes of n starts as letters; '.' if there is no task. */
static const char *starts(struct bench *b, unsigned n) {
  static char text[256];

  for (unsigned i = 0; i < n; i++) {
    unsigned class = start(b);

    text[i] = class == UVS__NONE ? '.' : letters[class];
  }
  text[n] = '\0';
  return text;
}

static void fill(struct bench *b, unsigned high, unsigned normal, unsigned low) {
  unsigned n[UVS__CLASSES] = {high, normal, low};

  for (unsigned k = 0; k < UVS__CLASSES; k++)
    while (n[k]-- > 0)
      add(b, k, 5);
}

static void empty(struct bench *b) {
  while (start(b) != UVS__NONE) {
  }
}

static void turn_to(struct bench *b, unsigned turn) {
  while (b->ready.turn != turn)
    uvs__ready_turn(&b->ready);
}

/* ---- classes ---- */

TEST with_all_three_priorities_the_sequence_is_exact(void) {
  struct bench b;

  bench_init(&b);
  fill(&b, 50, 50, 50);
  ASSERT_STR_EQ(CYCLE CYCLE CYCLE, starts(&b, 39));
  ASSERT(bench_destroy(&b));
  PASS();
}

TEST slots_of_an_empty_priority_go_to_the_highest_with_tasks(void) {
  struct bench b;

  bench_init(&b);
  fill(&b, 0, 10, 10);
  ASSERT_STR_EQ("NNNNNNNNNNLLLLLLLLLL.",
                starts(&b, 21)); /* slot 12 of the cycle came after N was empty */
  turn_to(&b, 0);
  fill(&b, 0, 20, 10);
  ASSERT_STR_EQ("NNNNNNNNNNNNL", starts(&b, 13));
  empty(&b);
  turn_to(&b, 0);
  fill(&b, 20, 0, 10);
  ASSERT_STR_EQ("HHHHHHHHHHHHL", starts(&b, 13));
  empty(&b);
  turn_to(&b, 12);
  fill(&b, 2, 2, 0);
  ASSERT_STR_EQ("HHNN.", starts(&b, 5));
  ASSERT(bench_destroy(&b));
  PASS();
}

TEST of_any_13_starts_8_are_high_4_normal_and_1_low(void) {
  struct bench b;

  bench_init(&b);
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
  ASSERT(bench_destroy(&b));
  PASS();
}

/* At every position of the cycle, with every mixture of other tasks, also while more arrive. The
 * bounds are reached, so they are tight. */
TEST the_first_task_of_a_priority_is_overtaken_by_at_most_2_3_or_12_others(void) {
  static const unsigned bounds[UVS__CLASSES] = {2, 3, 12};
  struct bench b;

  bench_init(&b);
  for (unsigned k = 0; k < UVS__CLASSES; k++) {
    unsigned worst = 0;

    for (unsigned turn = 0; turn < 13; turn++) {
      for (unsigned mix = 0; mix < 16 * 16 * 2; mix++) {
        unsigned others[2] = {k == 0 ? 1 : 0, k == 2 ? 1 : 2};
        unsigned overtaken = 0;
        uint32_t mine, next;

        turn_to(&b, turn);
        for (unsigned i = 0; i < mix % 16; i++)
          add(&b, others[0], 1);
        for (unsigned i = 0; i < mix / 16 % 16; i++)
          add(&b, others[1], 1);
        mine = add(&b, k, 1);
        add(&b, k, 1); /* behind it */
        while ((next = uvs__ready_first(&b.table, &b.ready)) != mine) {
          unsigned class = start(&b);

          ASSERT(class != UVS__NONE);
          ASSERT(class != k);
          overtaken++;
          if (mix >= 256)
            add(&b, class, 1);
        }
        if (overtaken > worst)
          worst = overtaken;
        empty(&b);
      }
    }
    ASSERT_U64(bounds[k], worst);
  }
  ASSERT(bench_destroy(&b));
  PASS();
}

TEST a_removal_does_not_advance_the_cycle_of_priorities(void) {
  uint32_t slot[6];
  struct bench b;

  bench_init(&b);
  ASSERT_U64(UVS__NONE, uvs__ready_first(&b.table, &b.ready));
  for (unsigned i = 0; i < 6; i++)
    slot[i] = add(&b, i % 3, 1);
  drop(&b, slot[0]);
  ASSERT_U64(5, b.ready.count);
  ASSERT_U64(0, b.ready.turn);
  ASSERT_U64(slot[3], uvs__ready_first(&b.table, &b.ready));
  ASSERT_U64(slot[3], uvs__ready_first(&b.table, &b.ready));
  drop(&b, slot[3]);
  ASSERT_U64(slot[1], uvs__ready_first(&b.table, &b.ready));
  drop(&b, slot[1]);
  drop(&b, slot[4]);
  ASSERT_U64(slot[2], uvs__ready_first(&b.table, &b.ready));
  drop(&b, slot[5]);
  drop(&b, slot[2]);
  ASSERT_U64(UVS__NONE, uvs__ready_first(&b.table, &b.ready));
  ASSERT_U64(0, b.ready.count);
  ASSERT(bench_destroy(&b));
  PASS();
}

/* ---- keys ---- */

static uint32_t in_heap(const struct bench *b) {
  uint32_t n = 0;

  for (uint32_t slot = 0; slot < b->table.tasks.made; slot++)
    n += at(b, slot)->place == UVS__IN_READY && at(b, slot)->rank != 0;
  return n;
}

TEST ready_tasks_that_arrive_in_order_form_a_list(void) {
  uint32_t slot[100];
  struct bench b;

  bench_init(&b);
  for (uint32_t i = 0; i < 100; i++)
    slot[i] = add(&b, UVS__NORMAL, i / 3);
  ASSERT_U64(0, in_heap(&b));
  for (uint32_t i = 0; i < 100; i++) {
    ASSERT_U64(slot[i], uvs__ready_first(&b.table, &b.ready));
    drop(&b, slot[i]);
    ASSERT(uvs__ready_check(&b.table, &b.ready));
  }
  ASSERT(bench_destroy(&b));
  PASS();
}

TEST ready_tasks_that_arrive_in_reverse_order_start_by_key(void) {
  uint32_t slot[100];
  struct bench b;

  bench_init(&b);
  for (uint32_t i = 100; i-- > 0;) {
    slot[i] = add(&b, UVS__NORMAL, i);
    ASSERT(uvs__ready_check(&b.table, &b.ready));
    ASSERT_U64(slot[i], uvs__ready_first(&b.table, &b.ready));
  }
  ASSERT_U64(99, in_heap(&b));
  for (uint32_t i = 0; i < 100; i++) {
    ASSERT_U64(slot[i], uvs__ready_first(&b.table, &b.ready));
    drop(&b, slot[i]);
    ASSERT(uvs__ready_check(&b.table, &b.ready));
  }
  ASSERT(bench_destroy(&b));
  PASS();
}

/* L20: a task that was submitted earlier but became ready later. */
TEST equal_keys_start_by_sequence_in_list_and_heap(void) {
  struct bench b;
  uint32_t slot[4];

  bench_init(&b);
  for (uint64_t i = 0; i < 4; i++)
    slot[i] = fresh(&b, UVS__HIGH, 7, 10 + i, i % 2 == 0);
  uvs__ready_add(&b.table, &b.ready, slot[1]);
  uvs__ready_add(&b.table, &b.ready, slot[3]);
  uvs__ready_add(&b.table, &b.ready, slot[2]);
  uvs__ready_add(&b.table, &b.ready, slot[0]);
  ASSERT_U64(2, in_heap(&b));
  for (uint32_t i = 0; i < 4; i++) {
    ASSERT_U64(slot[i], uvs__ready_first(&b.table, &b.ready));
    drop(&b, slot[i]);
    ASSERT(uvs__ready_check(&b.table, &b.ready));
  }
  ASSERT(bench_destroy(&b));
  PASS();
}

/* The empty list accepts any key. The heap still has its tasks. */
TEST an_empty_list_accepts_any_key_while_the_heap_has_tasks(void) {
  uint32_t early, late, middle;
  struct bench b;

  bench_init(&b);
  late = add(&b, UVS__LOW, 100);
  middle = add(&b, UVS__LOW, 50); /* the heap */
  drop(&b, late);
  early = add(&b, UVS__LOW, 10); /* the list again */
  ASSERT_U64(1, in_heap(&b));
  ASSERT(uvs__ready_check(&b.table, &b.ready));
  ASSERT_U64(early, uvs__ready_first(&b.table, &b.ready));
  drop(&b, early);
  ASSERT_U64(middle, uvs__ready_first(&b.table, &b.ready));
  ASSERT(bench_destroy(&b));
  PASS();
}

/* Every shape of up to 6 tasks by order of arrival; each of them is removed. */
TEST any_task_can_be_removed_from_every_small_heap(void) {
  enum { N = 6 };

  for (unsigned code = 0; code < 720; code++) {
    for (uint32_t victim = 0; victim < N; victim++) {
      uint32_t slot[N] = {0};
      unsigned left[N], rest = code;
      uint32_t top;
      struct bench b;

      for (unsigned i = 0; i < N; i++)
        left[i] = i;
      bench_init(&b);
      top = add(&b, UVS__NORMAL, 1000); /* the list: all others are in the heap */
      for (unsigned i = 0; i < N; i++) {
        unsigned k = rest % (N - i);
        unsigned rank = left[k];

        rest /= N - i;
        memmove(&left[k], &left[k + 1], (N - i - 1 - k) * sizeof left[0]);
        slot[rank] = add(&b, UVS__NORMAL, rank);
      }
      ASSERT_U64(N, in_heap(&b));
      ASSERT(uvs__ready_check(&b.table, &b.ready));
      drop(&b, slot[victim]);
      ASSERT(uvs__ready_check(&b.table, &b.ready));
      for (uint32_t i = 0; i < N; i++) {
        if (i == victim)
          continue;
        ASSERT_U64(slot[i], uvs__ready_first(&b.table, &b.ready));
        drop(&b, slot[i]);
      }
      ASSERT_U64(top, uvs__ready_first(&b.table, &b.ready));
      ASSERT(bench_destroy(&b));
    }
  }
  PASS();
}

/* A rank has five bits. The right spine of a heap of n has at most log2(n + 1) tasks. */
TEST ranks_stay_logarithmic_with_many_tasks(void) {
  enum { N = 100000 };
  uint64_t random = test_seed;
  uint64_t last_ns = 0;
  unsigned greatest = 0;
  struct bench b;

  bench_init(&b);
  add(&b, UVS__NORMAL, UINT64_C(1) << 40);
  for (int i = 0; i < N; i++)
    add(&b, UVS__NORMAL, test_random_below(&random, UINT64_C(1) << 40));
  ASSERT_U64(N, in_heap(&b));
  ASSERT(uvs__ready_check(&b.table, &b.ready));
  for (uint32_t slot = 0; slot < b.table.tasks.made; slot++)
    if (at(&b, slot)->rank > greatest)
      greatest = at(&b, slot)->rank;
  ASSERT(greatest <= 17);
  for (int i = 0; i <= N; i++) {
    uint32_t slot = uvs__ready_first(&b.table, &b.ready);
    const struct uvs__extra *x = uvs__extra_of(&b.table, at(&b, slot));
    uint64_t ns = x == NULL ? at(&b, slot)->due_ns : x->key_ns;

    ASSERT(ns >= last_ns);
    last_ns = ns;
    drop(&b, slot);
  }
  ASSERT_U64(0, b.ready.count);
  ASSERT(bench_destroy(&b));
  PASS();
}

/* ---- random ---- */

#define TASKS 300

struct item {
  bool live;
  unsigned class;
  uint32_t slot;
  uint64_t ns, seq;
};

static int naive_of_class(const struct item *t, unsigned class) {
  int best = -1;

  for (int i = 0; i < TASKS; i++)
    if (t[i].live && t[i].class == class &&
        (best < 0 || t[i].ns < t[best].ns || (t[i].ns == t[best].ns && t[i].seq < t[best].seq)))
      best = i;
  return best;
}

static int naive_first(const struct item *t, unsigned turn) {
  int i = naive_of_class(t, (unsigned)(strchr(letters, CYCLE[turn]) - letters));

  for (unsigned class = 0; class < UVS__CLASSES && i < 0; class ++)
    i = naive_of_class(t, class);
  return i;
}

/* kind: how often a task arrives in order, 0 to 4 of 4. */
static enum greatest_test_res random_run(uint64_t *random, int steps, unsigned kind) {
  static struct item t[TASKS];
  uint64_t now_ns = 1000, numbers = 0;
  unsigned turn = 0;
  uint32_t count = 0;
  struct bench b;

  memset(t, 0, sizeof t);
  bench_init(&b);
  for (int step = 0; step < steps; step++) {
    struct item *x = &t[test_random_below(random, TASKS)];
    bool growing = step * 6 / steps % 2 == 0;
    uint64_t what = test_random_below(random, 10);
    int i = naive_first(t, turn);

    ASSERT(uvs__ready_check(&b.table, &b.ready));
    ASSERT_U64(i < 0 ? UVS__NONE : t[i].slot, uvs__ready_first(&b.table, &b.ready));
    ASSERT_U64(count, b.ready.count);
    ASSERT_U64(turn, b.ready.turn);
    now_ns += test_random_below(random, 3);
    if (what < (growing ? 6u : 3u)) {
      if (x->live)
        continue;
      *x = (struct item){
          .live = true,
          .class = (unsigned)test_random_below(random, UVS__CLASSES),
          .ns = test_random_below(random, 4) < kind ? now_ns
                                                    : now_ns - test_random_below(random, 1000),
          .seq = test_random_below(random, 8) == 0 ? numbers : 0,
      };
      x->seq = (x->seq == 0 ? numbers * 2 : numbers * 2 - numbers % 64) * TASKS +
               (uint64_t)(x - t); /* an old sequence now and then; each only once at a time */
      numbers++;
      x->slot = fresh(&b, x->class, x->ns, x->seq, test_random_below(random, 2) == 0);
      uvs__ready_add(&b.table, &b.ready, x->slot);
      count++;
    } else if (what < 8) {
      if (i < 0)
        continue;
      drop(&b, t[i].slot);
      t[i].live = false;
      uvs__ready_turn(&b.ready);
      turn = (turn + 1) % 13;
      count--;
    } else if (x->live) {
      drop(&b, x->slot);
      x->live = false;
      count--;
    }
  }
  ASSERT(bench_destroy(&b));
  PASS();
}

TEST the_first_ready_task_agrees_with_a_linear_search(void) {
  uint64_t random = test_seed;

  for (unsigned i = 0; i < 30; i++)
    CHECK_CALL(random_run(&random, 3000, i % 5));
  PASS();
}

SUITE(classes) {
  RUN_TEST(with_all_three_priorities_the_sequence_is_exact);
  RUN_TEST(slots_of_an_empty_priority_go_to_the_highest_with_tasks);
  RUN_TEST(of_any_13_starts_8_are_high_4_normal_and_1_low);
  RUN_TEST(the_first_task_of_a_priority_is_overtaken_by_at_most_2_3_or_12_others);
  RUN_TEST(a_removal_does_not_advance_the_cycle_of_priorities);
}

SUITE(keys) {
  RUN_TEST(ready_tasks_that_arrive_in_order_form_a_list);
  RUN_TEST(ready_tasks_that_arrive_in_reverse_order_start_by_key);
  RUN_TEST(equal_keys_start_by_sequence_in_list_and_heap);
  RUN_TEST(an_empty_list_accepts_any_key_while_the_heap_has_tasks);
  RUN_TEST(any_task_can_be_removed_from_every_small_heap);
  RUN_TEST(ranks_stay_logarithmic_with_many_tasks);
}

SUITE(random_programs) {
  RUN_TEST(the_first_ready_task_agrees_with_a_linear_search);
}

TEST_MAIN(RUN_SUITE(classes); RUN_SUITE(keys); RUN_SUITE(random_programs));
