/* SPDX-License-Identifier: MIT
 *
 * slots and table. A slots table returns a free element, and creates a new one only if none is
 * free; so the model is an array of flags. After every step of the random programs uvs__slots_check
 * must hold.
 *
 * The table of tasks is built on two slots tables. Its part here is the generation: an id that has
 * become stale stays stale.
 *
 * Needs: src/util/{slots,heap}.c src/port/{mem,linux}.c src/task/table.c test/lib/fault.c
 * Built with -DUVS__GENERATION_BITS=3, so that a generation is soon used up.
 */
#include "task/table.h"

#include <string.h>

#include "lib/unit.h"

_Static_assert(UVS__GENERATION_MAX == 7, "build this program with -DUVS__GENERATION_BITS=3");

#define LIVES 6u /* generations 1 to 6; 7 is the end */
#define MANY (64u * 64 * 4)

struct store {
  struct uvs__slots slots;
  struct fault fault;
  uvs_allocator_t mem;
};

/* With this many bytes for each element, and that many bytes in a separate array. */
static void store_init(struct store *s, size_t element_size, size_t side_size) {
  memset(s, 0, sizeof *s);
  fault_init(&s->fault);
  s->mem = fault_option(&s->fault);
  s->slots.element_size = element_size;
  s->slots.side_size = side_size;
}

static bool store_destroy(struct store *s) {
  uvs__slots_free_memory(&s->slots, &s->mem);
  return s->fault.live == 0;
}

static int grow(struct store *s) {
  struct uvs__slots_chunk c = {0, NULL};
  int rc = uvs__slots_prepare(&s->slots, s->slots.chunks, &s->mem, &c);

  if (rc == 0)
    uvs__slots_attach(&s->slots, &c);
  return rc;
}

/* Takes an element. The table grows if necessary. */
static uint32_t take(struct store *s, bool *ret_new) {
  if (uvs__slots_room(&s->slots) == 0 && grow(s) < 0)
    abort();
  return uvs__slots_take(&s->slots, ret_new);
}

/* ---- slots ---- */

TEST slots_are_taken_in_index_order_across_chunk_borders(void) {
  struct store s;
  bool is_new;

  store_init(&s, 64, 0);
  for (uint32_t i = 0; i < MANY; i++) {
    ASSERT_U64(i, take(&s, &is_new));
    ASSERT(is_new);
    ASSERT_U64(i + 1, s.slots.made);
    ASSERT_FALSE(uvs__slots_is_free(&s.slots, i));
    if (i % 61 == 0)
      ASSERT(uvs__slots_check(&s.slots));
  }
  ASSERT(uvs__slots_check(&s.slots));
  ASSERT(store_destroy(&s));
  PASS();
}

TEST freed_slots_are_taken_in_index_order_whatever_the_order_of_freeing(void) {
  uint64_t random = test_seed;
  static uint32_t index[MANY];
  struct store s;
  bool is_new;

  store_init(&s, 64, 0);
  for (uint32_t i = 0; i < MANY; i++)
    index[i] = take(&s, &is_new);
  for (uint32_t i = MANY; i > 1; i--) {
    uint32_t j = (uint32_t)test_random_below(&random, i);
    uint32_t x = index[j];

    index[j] = index[i - 1];
    index[i - 1] = x;
  }
  for (uint32_t i = 0; i < MANY; i++) {
    uvs__slots_give(&s.slots, index[i]);
    if (i % 61 == 0)
      ASSERT(uvs__slots_check(&s.slots));
  }
  for (uint32_t i = 0; i < MANY; i += 64) { /* 64 at a time, in order of their index */
    uint32_t first = take(&s, &is_new);

    ASSERT_U64(0, first % 64);
    ASSERT_FALSE(is_new);
    for (uint32_t j = 1; j < 64; j++) {
      ASSERT_U64(first + j, take(&s, &is_new));
      ASSERT_FALSE(is_new);
    }
    ASSERT(uvs__slots_check(&s.slots));
  }
  ASSERT_U64(MANY, take(&s, &is_new));
  ASSERT(is_new);
  ASSERT(store_destroy(&s));
  PASS();
}

/* The borders of words and of chunks. */
TEST a_single_free_slot_is_found_wherever_it_is(void) {
  static const uint32_t near[] = {0,    1,    62,   63,   64,    65,    127,   128,  191,
                                  192,  447,  448,  4031, 4032,  4095,  4096,  4097, 8127,
                                  8128, 8191, 8192, 8193, 12223, 12224, 16319, 16320};
  struct store s;
  bool is_new;

  store_init(&s, 64, 0);
  while (s.slots.made < MANY)
    take(&s, &is_new);
  while (uvs__slots_room(&s.slots) > 0)
    take(&s, &is_new);
  for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
    uvs__slots_give(&s.slots, near[i]);
    ASSERT(uvs__slots_check(&s.slots));
    ASSERT(uvs__slots_is_free(&s.slots, near[i]));
    ASSERT_U64(near[i], uvs__slots_take(&s.slots, &is_new));
    ASSERT(uvs__slots_check(&s.slots));
    ASSERT_U64(0, uvs__slots_room(&s.slots));
    for (size_t j = 0; j < i; j++) { /* and of two, the lower in one word, else the last */
      uvs__slots_give(&s.slots, near[i]);
      uvs__slots_give(&s.slots, near[j]);
      ASSERT_U64(near[j], uvs__slots_take(&s.slots, &is_new));
      ASSERT_U64(near[i], uvs__slots_take(&s.slots, &is_new));
      ASSERT_FALSE(is_new);
    }
  }
  ASSERT(store_destroy(&s));
  PASS();
}

static unsigned char *side_at(const struct store *s, uint32_t index) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(index, &offset);

  return (unsigned char *)s->slots.side[k] + (size_t)offset * s->slots.side_size;
}

/* All bytes are written, including those in the separate array, so that an overlap would spoil the
 * map or another element. */
TEST slots_are_aligned_and_neither_overlap_nor_move(void) {
  enum { N = 5000, SIZE = 192, SIDE = 24 }; /* no powers of two */
  static unsigned char *at[N];
  struct store s;
  bool is_new;

  store_init(&s, SIZE, SIDE);
  for (uint32_t i = 0; i < N; i++) {
    ASSERT_U64(i, take(&s, &is_new));
    at[i] = uvs__slots_at(&s.slots, i);
    ASSERT_U64(0, (uintptr_t)at[i] % 64);
    ASSERT_U64(0, (uintptr_t)side_at(&s, i) % sizeof(void *));
    memset(at[i], (int)(i % 251), SIZE);
    memset(side_at(&s, i), (int)(i % 241), SIDE);
  }
  while (uvs__slots_room(&s.slots) > 0) { /* to the end of the last chunk */
    uint32_t i = take(&s, &is_new);

    memset(uvs__slots_at(&s.slots, i), 0xff, SIZE);
    memset(side_at(&s, i), 0xff, SIDE);
  }
  ASSERT(uvs__slots_check(&s.slots));
  for (uint32_t i = 0; i < N; i++) {
    ASSERT(at[i] == uvs__slots_at(&s.slots, i));
    for (int j = 0; j < SIZE; j++)
      ASSERT_U64(i % 251, at[i][j]);
    for (int j = 0; j < SIDE; j++)
      ASSERT_U64(i % 241, side_at(&s, i)[j]);
  }
  ASSERT(store_destroy(&s));
  PASS();
}

TEST a_chunk_that_the_table_already_has_is_not_attached_again(void) {
  struct uvs__slots_chunk first = {0, NULL}, second = {0, NULL}, later = {0, NULL};
  struct store s;

  store_init(&s, 64, 0);
  ASSERT_RC(0, uvs__slots_prepare(&s.slots, 0, &s.mem, &first));
  ASSERT_RC(0, uvs__slots_prepare(&s.slots, 0, &s.mem, &second));
  ASSERT_RC(0, uvs__slots_prepare(&s.slots, 2, &s.mem, &later));
  ASSERT_FALSE(uvs__slots_attach(&s.slots, &later)); /* two too far */
  ASSERT(later.raw != NULL);
  ASSERT_U64(0, uvs__slots_room(&s.slots));
  ASSERT(uvs__slots_attach(&s.slots, &first));
  ASSERT(first.raw == NULL);
  ASSERT_FALSE(uvs__slots_attach(&s.slots, &second));
  ASSERT(second.raw != NULL);
  ASSERT_U64(64, uvs__slots_room(&s.slots));
  ASSERT_U64(1, s.slots.chunks);
  ASSERT(uvs__slots_check(&s.slots));
  uvs__mem_free(&s.mem, second.raw);
  uvs__mem_free(&s.mem, later.raw);
  ASSERT(store_destroy(&s));
  PASS();
}

TEST a_failed_growth_changes_nothing_and_the_last_chunk_is_the_limit(void) {
  struct uvs__slots_chunk c = {0, NULL};
  struct store s;

  store_init(&s, 64, 0);
  fault_from(0);
  ASSERT_RC(UV_ENOMEM, grow(&s));
  ASSERT(fault_hit());
  ASSERT_U64(0, s.slots.chunks);
  ASSERT(uvs__slots_check(&s.slots));
  ASSERT_RC(0, grow(&s));
  ASSERT_RC(UV_E2BIG, uvs__slots_prepare(&s.slots, UVS__CHUNKS, &s.mem, &c));
  ASSERT(c.raw == NULL);
  ASSERT(store_destroy(&s));
  PASS();
}

/* Reserved elements are still free, but do not count as room for others. */
TEST reserved_slots_do_not_count_as_room_and_can_be_taken(void) {
  struct store s;
  bool is_new;

  store_init(&s, 64, 0);
  ASSERT_RC(0, grow(&s));
  s.slots.reserved = 60;
  ASSERT_U64(4, uvs__slots_room(&s.slots));
  for (uint32_t i = 0; i < 4; i++)
    uvs__slots_take(&s.slots, &is_new);
  ASSERT_U64(0, uvs__slots_room(&s.slots));
  ASSERT(uvs__slots_check(&s.slots));
  for (uint32_t i = 0; i < 60; i++) {
    s.slots.reserved--;
    ASSERT_U64(4 + i, uvs__slots_take(&s.slots, &is_new));
    ASSERT_U64(0, uvs__slots_room(&s.slots));
    ASSERT(uvs__slots_check(&s.slots));
  }
  s.slots.reserved = 1; /* a promise that cannot be kept */
  ASSERT_FALSE(uvs__slots_check(&s.slots));
  s.slots.reserved = 0;
  ASSERT(store_destroy(&s));
  PASS();
}

/* The number of elements grows, stays and shrinks, by one and by many. */
static enum greatest_test_res random_run(uint64_t *random, uint32_t most, int steps) {
  static bool taken[2 * MANY];
  static uint32_t held[2 * MANY];
  uint32_t n = 0, made = 0;
  struct store s;

  memset(taken, 0, sizeof taken);
  store_init(&s, 64, 0);
  for (int step = 0; step < steps; step++) {
    bool growing = step * 6 / steps % 2 == 0;
    uint64_t burst =
        test_random_below(random, 20) == 0 ? 1 + test_random_below(random, most / 4) : 1;
    bool more = test_random_below(random, 10) < (growing ? 7u : 3u);

    while (burst-- > 0) {
      if (more && n < most) {
        bool is_new;
        uint32_t index = take(&s, &is_new);

        ASSERT_EQ(n == made, is_new);
        ASSERT(is_new ? index == made : index < made);
        ASSERT_FALSE(taken[index]);
        made += is_new;
        taken[index] = true;
        held[n++] = index;
      } else if (!more && n > 0) {
        uint32_t i = (uint32_t)test_random_below(random, n);

        uvs__slots_give(&s.slots, held[i]);
        taken[held[i]] = false;
        held[i] = held[--n];
      }
    }
    ASSERT(uvs__slots_check(&s.slots));
    ASSERT_U64(made, s.slots.made);
    ASSERT_U64((64u << s.slots.chunks) - 64 - n, s.slots.free);
  }
  for (uint32_t i = 0; i < made; i++)
    ASSERT_EQ(!taken[i], uvs__slots_is_free(&s.slots, i));
  ASSERT(store_destroy(&s));
  PASS();
}

TEST slots_agree_with_an_array_of_flags(void) {
  uint64_t random = test_seed;

  for (int i = 0; i < 20; i++) {
    CHECK_CALL(random_run(&random, 100, 3000));
    CHECK_CALL(random_run(&random, 1000, 1000));
  }
  CHECK_CALL(random_run(&random, MANY, 2000));
  PASS();
}

/* ---- the table of tasks ---- */

struct yard {
  struct uvs__table table;
  struct fault fault;
  uvs_allocator_t mem;
};

static void yard_init(struct yard *y) {
  fault_init(&y->fault);
  y->mem = fault_option(&y->fault);
  uvs__table_init(&y->table);
}

static bool yard_destroy(struct yard *y) {
  uvs__table_free_memory(&y->table, &y->mem);
  return y->fault.live == 0;
}

static struct uvs__slots *slots_of(struct yard *y, bool extras) {
  return extras ? &y->table.extras : &y->table.tasks;
}

static int table_grow(struct yard *y, bool extras) {
  struct uvs__slots *slots = slots_of(y, extras);
  struct uvs__slots_chunk c = {0, NULL};
  int rc = uvs__slots_prepare(slots, slots->chunks, &y->mem, &c);

  if (rc == 0)
    uvs__table_attach(&y->table, slots, &c);
  return rc;
}

static uint32_t take_task(struct yard *y, bool extra) {
  uint32_t slot;

  if (uvs__slots_room(&y->table.tasks) == 0 && table_grow(y, false) < 0)
    abort();
  if (extra && uvs__slots_room(&y->table.extras) == 0 && table_grow(y, true) < 0)
    abort();
  slot = uvs__table_take(&y->table);
  if (extra)
    uvs__table_add_extra(&y->table, slot);
  uvs__set_state(uvs__task_at(&y->table, slot), UVS__WAITING);
  return slot;
}

static void end_task(struct yard *y, uint32_t slot) {
  struct uvs__task *t = uvs__task_at(&y->table, slot);

  uvs__set_state(t, UVS__ENDED);
  uvs__set_state(t, UVS__FREE);
  uvs__table_give(&y->table, slot);
}

/* L18 */
TEST no_slot_has_the_same_generation_twice_and_stale_ids_find_nothing(void) {
  static bool seen[4096][8];
  static uvs_id_t stale[4096];
  uint64_t random = test_seed;
  uint32_t held[50], n = 0, stales = 0, lives = 0, extras = 0;
  struct yard y;

  memset(seen, 0, sizeof seen);
  yard_init(&y);
  for (int step = 0; step < 8000; step++) {
    uint32_t found;

    if (n < 50 && (n == 0 || test_random_below(&random, 2) == 0)) {
      bool extra = test_random_below(&random, 2) == 0;
      uint32_t slot = take_task(&y, extra);
      struct uvs__task *t = uvs__task_at(&y.table, slot);

      ASSERT(slot < 4096);
      ASSERT(t->generation >= 1);
      ASSERT(t->generation <= LIVES);
      ASSERT_FALSE(seen[slot][t->generation]);
      seen[slot][t->generation] = true;
      lives++;
      extras += extra;
      ASSERT_EQ(extra, uvs__extra_of(&y.table, t) != NULL);
      if (extra)
        ASSERT_U64(slot, uvs__extra_of(&y.table, t)->slot);
      ASSERT(t == uvs__table_find(&y.table, uvs__local_id(t, slot), &found));
      ASSERT_U64(slot, found);
      held[n++] = slot;
    } else {
      uint32_t i = (uint32_t)test_random_below(&random, n);

      if (stales < 4096)
        stale[stales++] = uvs__local_id(uvs__task_at(&y.table, held[i]), held[i]);
      extras -= uvs__task_at(&y.table, held[i])->extra != 0;
      end_task(&y, held[i]);
      held[i] = held[--n];
    }
    ASSERT_U64((64u << y.table.extras.chunks) - 64 - extras, y.table.extras.free);
    for (int i = 0; i < 8 && stales > 0; i++)
      ASSERT(uvs__table_find(&y.table, stale[test_random_below(&random, stales)], &found) == NULL);
    ASSERT(uvs__slots_check(&y.table.tasks));
    ASSERT(uvs__slots_check(&y.table.extras));
  }
  for (uint32_t i = 0; i < stales; i++) {
    uint32_t found;

    ASSERT(uvs__table_find(&y.table, stale[i], &found) == NULL);
  }
  ASSERT(y.table.tasks.made >= lives / LIVES);
  ASSERT(y.table.tasks.made <= lives / LIVES + 2 * 50); /* none was lost before its time */
  ASSERT(y.table.extras.made <= 50); /* extra records have no generation, and are not used up */
  ASSERT(yard_destroy(&y));
  PASS();
}

/* L18 */
TEST a_slot_is_used_six_times_and_then_never_again(void) {
  uint32_t found;
  struct yard y;

  yard_init(&y);
  for (uint32_t life = 0; life < 64 * LIVES; life++) {
    uint32_t slot = take_task(&y, false);

    ASSERT_U64(life / LIVES, slot);
    ASSERT_U64(1 + life % LIVES, uvs__task_at(&y.table, slot)->generation);
    end_task(&y, slot);
  }
  ASSERT_U64(0, uvs__slots_room(&y.table.tasks)); /* all 64 are used up */
  for (uint32_t slot = 0; slot < 64; slot++)
    for (uint64_t generation = 0; generation <= 8; generation++)
      ASSERT(uvs__table_find(&y.table, generation << UVS__SLOT_BITS | slot, &found) == NULL);
  ASSERT_U64(64, take_task(&y, false));
  ASSERT(yard_destroy(&y));
  PASS();
}

TEST an_id_that_was_never_issued_finds_nothing(void) {
  volatile uvs_id_t most = UINT64_MAX; /* or the compiler warns of what is never reached */
  uint32_t found;
  struct yard y;

  yard_init(&y);
  ASSERT(uvs__table_find(&y.table, 0, &found) == NULL);
  ASSERT(uvs__table_find(&y.table, most, &found) == NULL);
  ASSERT_U64(0, take_task(&y, false));
  ASSERT(uvs__table_find(&y.table, 0, &found) == NULL);
  ASSERT(uvs__table_find(&y.table, most, &found) == NULL);
  ASSERT(uvs__table_find(&y.table, UINT64_C(1) << UVS__SLOT_BITS | 1, &found) == NULL);
  ASSERT(uvs__table_find(&y.table, UINT64_C(1) << UVS__SLOT_BITS, &found) != NULL);
  /* Bits above the 27 of a generation. */
  ASSERT(uvs__table_find(&y.table, (UINT64_C(1) << 27 | 1) << UVS__SLOT_BITS, &found) == NULL);
  ASSERT(yard_destroy(&y));
  PASS();
}

TEST a_failed_growth_does_not_change_the_task_table(void) {
  struct yard y;

  yard_init(&y);
  for (int extras = 0; extras < 2; extras++) {
    fault_from(0);
    ASSERT_RC(UV_ENOMEM, table_grow(&y, extras != 0));
    ASSERT(fault_hit());
    ASSERT_U64(0, slots_of(&y, extras != 0)->chunks);
    ASSERT_RC(0, table_grow(&y, extras != 0));
    ASSERT_U64(64, uvs__slots_room(slots_of(&y, extras != 0)));
  }
  ASSERT(yard_destroy(&y));
  PASS();
}

TEST only_one_of_two_chunks_prepared_at_once_is_attached(void) {
  for (int extras = 0; extras < 2; extras++) {
    struct uvs__slots_chunk first, second;
    struct yard y;

    yard_init(&y);
    ASSERT_RC(0, uvs__slots_prepare(slots_of(&y, extras != 0), 0, &y.mem, &first));
    ASSERT_RC(0, uvs__slots_prepare(slots_of(&y, extras != 0), 0, &y.mem, &second));
    uvs__table_attach(&y.table, slots_of(&y, extras != 0), &second);
    uvs__table_attach(&y.table, slots_of(&y, extras != 0), &first);
    ASSERT_U64(64, uvs__slots_room(slots_of(&y, extras != 0)));
    ASSERT(second.raw == NULL);
    ASSERT(first.raw != NULL);
    uvs__mem_free(&y.mem, first.raw);
    ASSERT(yard_destroy(&y));
  }
  PASS();
}

/* Links and heap entries are in the same memory blocks as the records, without overlap. Every slot
 * is in the delay heap, every extra record in the wall-clock heap and in the heap of limits. */
TEST links_and_heap_entries_of_slots_do_not_overlap(void) {
  enum { N = 64 + 128 + 256 }; /* all of three chunks */
  struct yard y;

  yard_init(&y);
  for (uint32_t i = 0; i < N; i++) {
    struct uvs__task *t;

    ASSERT_U64(i, take_task(&y, true));
    t = uvs__task_at(&y.table, i);
    t->due_ns = i;
    memset(uvs__extra_of(&y.table, t), 0xff, sizeof(struct uvs__extra));
  }
  for (uint32_t i = 0; i < N; i++) { /* the last of all is the first of the heaps */
    struct uvs__task *t = uvs__task_at(&y.table, i);
    uint32_t index = (uint32_t)t->extra - 1;

    uvs__heap_push(&y.table.delay_heap, N - i, (uint64_t)i << UVS__SLOT_BITS | i);
    ASSERT_U64(i, index);
    if (i % 2 == 0) /* one link serves both */
      uvs__heap_push(&y.table.wall, N - i, index);
    else
      uvs__heap_push(&y.table.limits, N - i, index);
  }
  ASSERT(uvs__heap_check(&y.table.delay_heap));
  ASSERT(uvs__heap_check(&y.table.wall));
  ASSERT(uvs__heap_check(&y.table.limits));
  ASSERT(uvs__slots_check(&y.table.tasks));
  ASSERT(uvs__slots_check(&y.table.extras));
  for (uint32_t i = 0; i < N; i++) {
    ASSERT_U64(i, uvs__task_at(&y.table, i)->due_ns);
    ASSERT_U64(UVS__WAITING, uvs__task_at(&y.table, i)->state);
    ASSERT_U64(UINT32_MAX, uvs__extra_of(&y.table, uvs__task_at(&y.table, i))->slot);
    ASSERT(uvs__heap_has(&y.table.delay_heap, i));
    ASSERT(uvs__heap_has(i % 2 == 0 ? &y.table.wall : &y.table.limits, i));
  }
  ASSERT(yard_destroy(&y));
  PASS();
}

SUITE(slots) {
  RUN_TEST(slots_are_taken_in_index_order_across_chunk_borders);
  RUN_TEST(freed_slots_are_taken_in_index_order_whatever_the_order_of_freeing);
  RUN_TEST(a_single_free_slot_is_found_wherever_it_is);
  RUN_TEST(slots_are_aligned_and_neither_overlap_nor_move);
  RUN_TEST(a_chunk_that_the_table_already_has_is_not_attached_again);
  RUN_TEST(a_failed_growth_changes_nothing_and_the_last_chunk_is_the_limit);
  RUN_TEST(reserved_slots_do_not_count_as_room_and_can_be_taken);
  RUN_TEST(slots_agree_with_an_array_of_flags);
}

SUITE(table) {
  RUN_TEST(no_slot_has_the_same_generation_twice_and_stale_ids_find_nothing);
  RUN_TEST(a_slot_is_used_six_times_and_then_never_again);
  RUN_TEST(an_id_that_was_never_issued_finds_nothing);
  RUN_TEST(a_failed_growth_does_not_change_the_task_table);
  RUN_TEST(only_one_of_two_chunks_prepared_at_once_is_attached);
  RUN_TEST(links_and_heap_entries_of_slots_do_not_overlap);
}

TEST_MAIN(RUN_SUITE(slots); RUN_SUITE(table));
