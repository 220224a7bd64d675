/* SPDX-License-Identifier: MIT
 *
 * The directory: numbers that name objects and stay stale for ever after the object is closed.
 * Built twice: test_directory_generation.c has generations of three bits, which are soon used up.
 */
#include "util/directory.h"

#include <string.h>

#include "lib/unit.h"

#ifndef UVS__GENERATION_BITS
#define UVS__GENERATION_BITS 27
#endif
#define LIVES ((UINT64_C(1) << UVS__GENERATION_BITS) - 1) /* of an entry */
#define INDEX_OF(number) ((number) & ((UINT64_C(1) << 26) - 1))

/* Whether the number is valid, stale, or was never issued. */
static int look(uint64_t number, void **ret) {
  bool was;
  void *thing = uvs__directory_hold(number, &was);

  if (ret != NULL)
    *ret = thing;
  if (thing != NULL)
    uvs__directory_drop(number);
  return thing != NULL ? 2 : was;
}

TEST a_number_finds_its_object_until_it_is_closed(void) {
  uint64_t number = 0;
  void *found;
  bool was;
  int thing;

  ASSERT_RC(0, uvs__directory_add(&thing, &number));
  ASSERT(number != 0 && number < UINT64_C(1) << 53);
  ASSERT_RC(2, look(number, &found));
  ASSERT_EQ((void *)&thing, found);
  ASSERT_EQ((void *)&thing, uvs__directory_hold(number, &was));
  ASSERT_EQ((void *)&thing, uvs__directory_hold(number, &was));
  uvs__directory_close(number);
  ASSERT_RC(1, look(number, NULL)); /* and it is not found any more, though it is held */
  ASSERT_FALSE(uvs__directory_drop(number));
  ASSERT_FALSE(uvs__directory_drop(number));
  ASSERT(uvs__directory_drop(number)); /* ours to free */
  ASSERT_RC(1, look(number, NULL));
  PASS();
}

TEST a_number_never_issued_is_distinguished_from_a_stale_one(void) {
  uint64_t number, next;
  int thing;

  ASSERT_RC(0, uvs__directory_add(&thing, &number));
  next = number + (UINT64_C(1) << 26); /* its entry's next life */
  ASSERT_RC(0, look(0, NULL));
  ASSERT_RC(0, look(INDEX_OF(number), NULL));
  ASSERT_RC(0, look(next, NULL));
  ASSERT_RC(0, look(number | UINT64_C(1) << 53, NULL));
  ASSERT_RC(0, look(UINT64_MAX, NULL));
  ASSERT_RC(0, look(number + 100000, NULL)); /* an entry that was never made */
  uvs__directory_close(number);
  ASSERT_RC(0, look(next, NULL));
  ASSERT(uvs__directory_drop(number));
  ASSERT_RC(0, look(next, NULL)); /* not before it is given out */
  PASS();
}

/* Hundreds at once, across several chunks, in any order. */
TEST many_directory_entries_can_be_opened_and_closed(void) {
  enum { MANY = 700 };

  static uint64_t numbers[MANY], old[MANY * 20];
  static int things[MANY];
  uint64_t random = test_seed;
  size_t olds = 0;

  for (int step = 0; step < 10000; step++) {
    size_t i = (size_t)test_random_below(&random, MANY);
    void *found;

    if (numbers[i] == 0) {
      ASSERT_RC(0, uvs__directory_add(&things[i], &numbers[i]));
    } else {
      ASSERT_RC(2, look(numbers[i], &found));
      ASSERT_EQ((void *)&things[i], found);
      uvs__directory_close(numbers[i]);
      ASSERT(uvs__directory_drop(numbers[i]));
      if (olds < MANY * 20)
        old[olds++] = numbers[i];
      numbers[i] = 0;
    }
    if (olds > 0)
      ASSERT_RC(1, look(old[test_random_below(&random, olds)], NULL));
  }
  for (size_t i = 0; i < MANY; i++) {
    if (numbers[i] == 0)
      continue;
    for (size_t j = 0; j < olds; j++)
      ASSERT(old[j] != numbers[i]);
    uvs__directory_close(numbers[i]);
    ASSERT(uvs__directory_drop(numbers[i]));
  }
  PASS();
}

/* An entry is reused with a new number each time; with three bits only seven times. L18 */
TEST no_directory_number_is_issued_twice(void) {
  enum { MANY = 600 };

  static uint64_t numbers[MANY];
  int thing;

  for (int i = 0; i < MANY; i++) {
    ASSERT_RC(0, uvs__directory_add(&thing, &numbers[i]));
    ASSERT(numbers[i] >> 26 >= 1);
    ASSERT(numbers[i] >> 26 <= LIVES);
    for (int j = 0; j < i; j++)
      ASSERT(numbers[i] != numbers[j]);
    uvs__directory_close(numbers[i]);
    ASSERT(uvs__directory_drop(numbers[i]));
  }
  for (int i = 0; i < MANY; i++)
    ASSERT_RC(1, look(numbers[i], NULL));
  if (LIVES < MANY)
    ASSERT(INDEX_OF(numbers[0]) != INDEX_OF(numbers[MANY - 1]));
  else
    ASSERT_U64(INDEX_OF(numbers[0]), INDEX_OF(numbers[MANY - 1])); /* memory is flat */
  PASS();
}

/* -------------------------------------------------------------------- threads --- */

enum { THREADS = 4, SHARED = 8 };

struct thing {
  int alive; /* plain: only the directory orders who frees after who looks */
};

static _Atomic uint64_t shared[SHARED];
static _Atomic int wrong, frees, adds;

static void let_go(uint64_t number, struct thing *t) {
  if (!uvs__directory_drop(number))
    return;
  if (t->alive != 1)
    atomic_fetch_add(&wrong, 1);
  t->alive = 0;
  free(t);
  atomic_fetch_add(&frees, 1);
}

static void thread_main(void *arg) {
  uint64_t random = *(uint64_t *)arg;

  for (int i = 0; i < 20000; i++) {
    _Atomic uint64_t *place = &shared[test_random_below(&random, SHARED)];
    uint64_t number = atomic_load(place);
    uint64_t expected = number;
    struct thing *t;
    bool was;

    if (number == 0) {
      t = malloc(sizeof *t);
      t->alive = 1;
      if (uvs__directory_add(t, &number) < 0)
        abort();
      atomic_fetch_add(&adds, 1);
      if (!atomic_compare_exchange_strong(place, &expected, number)) {
        uvs__directory_close(number);
        let_go(number, t);
      }
      continue;
    }
    t = uvs__directory_hold(number, &was);
    if (t == NULL) {
      atomic_fetch_add(&wrong, !was);
      continue;
    }
    if (t->alive != 1)
      atomic_fetch_add(&wrong, 1);
    /* The thread that takes an object out of its place owns it and closes it. */
    if (test_random_below(&random, 4) == 0 && atomic_compare_exchange_strong(place, &expected, 0)) {
      uvs__directory_close(number);
      let_go(number, t);
    }
    let_go(number, t);
  }
}

TEST objects_are_freed_once_by_their_last_holder(void) {
  uint64_t random = test_seed;
  uint64_t seeds[THREADS];
  uv_thread_t threads[THREADS];

  for (int i = 0; i < THREADS; i++) {
    seeds[i] = test_random(&random) | 1;
    ASSERT_RC(0, uv_thread_create(&threads[i], thread_main, &seeds[i]));
  }
  for (int i = 0; i < THREADS; i++)
    uv_thread_join(&threads[i]);
  for (int i = 0; i < SHARED; i++) {
    uint64_t number = atomic_load(&shared[i]);
    bool was;

    if (number != 0) {
      struct thing *t = uvs__directory_hold(number, &was);

      ASSERT(t != NULL);
      uvs__directory_close(number);
      let_go(number, t);
      let_go(number, t);
    }
  }
  ASSERT_RC(0, atomic_load(&wrong));
  ASSERT_RC(atomic_load(&adds), atomic_load(&frees));
  ASSERT(atomic_load(&adds) > 100);
  PASS();
}

SUITE(directory) {
  RUN_TEST(a_number_finds_its_object_until_it_is_closed);
  RUN_TEST(a_number_never_issued_is_distinguished_from_a_stale_one);
  RUN_TEST(many_directory_entries_can_be_opened_and_closed);
  RUN_TEST(no_directory_number_is_issued_twice);
  RUN_TEST(objects_are_freed_once_by_their_last_holder);
}

TEST_MAIN(RUN_SUITE(directory));
