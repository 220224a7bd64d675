/* SPDX-License-Identifier: MIT
 *
 * The word of a task: its table of legal moves, and that its parts do not touch each other.
 */
#include "task.h"

#include <limits.h>
#include <string.h>

#include "lib/unit.h"

#define N(array) (sizeof(array) / sizeof(array)[0])

static const uint64_t flags[] = {
    UVS__INBOX,    UVS__MOVING,  UVS__TOKEN,  UVS__CANCELLED, UVS__PENDING,
    UVS__FINISHED, UVS__LISTED,  UVS__ONLOOP, UVS__TAKEN,     UVS__NEVER_RAN,
    UVS__STOPPED,  UVS__REF,     UVS__LOOP,   UVS__HAS_AFTER, UVS__HAS_DONE,
    UVS__LATE,     UVS__CLEANUP, UVS__KEEP,   UVS__FORGOTTEN, UVS__DEAD,
};

static const uint64_t kind_mask = UINT64_C(3) << UVS__KIND_SHIFT;
static const uint64_t generation_mask = UINT64_MAX << UVS__GENERATION_SHIFT;

/* CAS that may not fail without a reason. */
static bool try_hard(struct uvs__slot *t, uint64_t *w, uint64_t to) {
  uint64_t seen = *w;

  for (;;) {
    if (uvs__word_try(t, w, to))
      return true;
    if (*w != seen)
      return false;
  }
}

/* Written down a second time, from the story: a row is where it comes from, a column where it goes.
 */
TEST the_table_of_legal_moves_is_as_written(void) {
  /*                              FREE WAIT READY RUN ENDED OVER */
  static const char *const table[UVS__STATES] = {
      [UVS__FREE] = "-x--x-",    /* submitted; submitted and dropped */
      [UVS__WAITING] = "xxx-x-", /* cancelled unheard; taken in or moved; due; cancelled */
      [UVS__READY] = "-xxxx-",   /* moved after all; given to the loop; started; cancelled */
      [UVS__RUNNING] = "xx-xx-", /* a light one is over; next period; token, pending; last run */
      [UVS__ENDED] =
          "x---xx", /* done has returned; still on its way to the loop; a mover holds it */
      [UVS__OVER] = "x----x",
  };

  for (unsigned from = 0; from < UVS__STATES; from++)
    for (unsigned to = 0; to < UVS__STATES; to++) {
      char text[32];

      snprintf(text, sizeof text, "from %u to %u", from, to);
      ASSERT_EQm(text, table[from][to] == 'x', uvs__word_legal(from, to));
      /* What else the word holds changes nothing about it. */
      ASSERT_EQm(text, table[from][to] == 'x',
                 uvs__word_legal(from | UVS__REF | kind_mask | generation_mask,
                                 to | UVS__TAKEN | UVS__STATUS_MASK | generation_mask));
    }
  PASS();
}

TEST a_cancelled_outcome_stays_until_the_slot_is_free(void) {
  for (unsigned from = 0; from < UVS__STATES; from++)
    for (unsigned to = 0; to < UVS__STATES; to++) {
      bool legal = uvs__word_legal(from, to);

      ASSERT_EQ(legal, uvs__word_legal(from | UVS__CANCELLED, to | UVS__CANCELLED));
      ASSERT_EQ(legal, uvs__word_legal(from, to | UVS__CANCELLED));
      ASSERT_EQ(legal && to == UVS__FREE, uvs__word_legal(from | UVS__CANCELLED, to));
    }
  PASS();
}

TEST what_is_ready_is_on_no_travelling_list_and_in_nobodys_hand(void) {
  static const uint64_t bad[] = {UVS__INBOX, UVS__MOVING, UVS__INBOX | UVS__MOVING};

  for (size_t i = 0; i < N(bad); i++) {
    ASSERT(!uvs__word_legal(UVS__WAITING | bad[i], UVS__READY | bad[i]));
    ASSERT(!uvs__word_legal(UVS__READY, UVS__READY | bad[i]));
    ASSERT(uvs__word_legal(UVS__WAITING | bad[i], UVS__READY)); /* the move itself takes it off */
    ASSERT(uvs__word_legal(UVS__WAITING, UVS__WAITING | bad[i]));
    ASSERT(uvs__word_legal(UVS__WAITING | bad[i], UVS__ENDED | bad[i] | UVS__CANCELLED));
  }
  PASS();
}

TEST the_parts_of_the_word_do_not_overlap(void) {
  uint64_t all = UVS__STATE_MASK;

  for (size_t i = 0; i < N(flags); i++) {
    ASSERT(flags[i] != 0);
    ASSERT_U64(0, flags[i] & (flags[i] - 1)); /* one bit each */
    ASSERT_U64(0, all & flags[i]);
    all |= flags[i];
  }
  ASSERT_U64(0, all & kind_mask);
  all |= kind_mask;
  ASSERT_U64(0, all & UVS__STATUS_MASK);
  all |= UVS__STATUS_MASK;
  ASSERT_U64(0, all & generation_mask);
  ASSERT((unsigned)UVS__STATES - 1 <= UVS__STATE_MASK);
  ASSERT((unsigned)UVS_DELAY <= 3);
  PASS();
}

TEST a_state_is_put_in_without_touching_the_rest(void) {
  for (unsigned from = 0; from < UVS__STATES; from++)
    for (unsigned to = 0; to < UVS__STATES; to++) {
      uint64_t rest = ~UVS__STATE_MASK;

      ASSERT_U64(to, uvs__word_in(from, (enum uvs__state)to));
      ASSERT_U64(rest | to, uvs__word_in(rest | from, (enum uvs__state)to));
      ASSERT_EQ_FMT(to, (unsigned)uvs__word_state(rest | to), "%u");
    }
  for (unsigned kind = UVS_ONCE; kind <= UVS_DELAY; kind++) {
    ASSERT_RC(kind, uvs__word_kind((uint64_t)kind << UVS__KIND_SHIFT));
    ASSERT_RC(kind, uvs__word_kind(~kind_mask | (uint64_t)kind << UVS__KIND_SHIFT));
  }
  PASS();
}

TEST every_status_survives_its_packing(void) {
  static const uint64_t around[] = {0, UINT64_MAX, UINT64_C(0xaaaaaaaaaaaaaaaa),
                                    UINT64_C(0x5555555555555555)};
  uint64_t part = UVS__STATUS_MASK | UVS__STOPPED;

  for (size_t i = 0; i < N(around); i++) {
    uint64_t w;

    for (int status = 0; status >= -4095; status--) {
      w = uvs__word_with_status(around[i], status);
      ASSERT_RC(status, uvs__word_status(w));
      ASSERT_U64(around[i] & ~part, w & ~part);
      ASSERT_RC(status, uvs__status_of(status)); /* and is what the body said */
    }
    w = uvs__word_with_status(around[i], UVS_STOP);
    ASSERT_RC(UVS_STOP, uvs__word_status(w));
    ASSERT_U64(around[i] & ~part, w & ~part);
    /* A later one replaces an earlier one, of whichever sort. */
    ASSERT_RC(-5, uvs__word_status(uvs__word_with_status(w, -5)));
    ASSERT_RC(0, uvs__word_status(uvs__word_with_status(w, 0)));
    w = uvs__word_with_status(w, -4095);
    ASSERT_RC(UVS_STOP, uvs__word_status(uvs__word_with_status(w, UVS_STOP)));
    ASSERT_RC(-1, uvs__word_status(uvs__word_with_status(w, -1)));
  }
  PASS();
}

TEST libuvs_codes_and_our_own_fit(void) {
#define FITS(name, text) \
  ASSERT_RC(UV_##name, uvs__status_of(UV_##name)); \
  ASSERT_RC(UV_##name, uvs__word_status(uvs__word_with_status(UINT64_MAX, UV_##name)));
  UV_ERRNO_MAP(FITS)
#undef FITS
  ASSERT_RC(UVS_EDEADLK, uvs__status_of(UVS_EDEADLK));
  PASS();
}

TEST what_is_no_status_becomes_one(void) {
  static const int positive[] = {UVS_PENDING, 3, 4, 255, 4095, 4096, INT_MAX - 1, INT_MAX};
  static const int below[] = {-4096, -4097, -8192, -65536, INT_MIN + 1, INT_MIN};

  ASSERT_RC(0, uvs__status_of(0));
  ASSERT_RC(UVS_STOP, uvs__status_of(UVS_STOP));
  for (size_t i = 0; i < N(positive); i++)
    ASSERT_RC(UV_EINVAL, uvs__status_of(positive[i]));
  for (size_t i = 0; i < N(below); i++)
    ASSERT_RC(UV_UNKNOWN, uvs__status_of(below[i]));
  for (int returned = -10000; returned <= 10000; returned++) {
    int status = uvs__status_of(returned);

    ASSERT(status == UVS_STOP || (status <= 0 && status >= -4095));
    if (returned < 0)
      ASSERT(status < 0); /* a failure stays one */
    ASSERT_RC(status, uvs__word_status(uvs__word_with_status(0, status)));
  }
  PASS();
}

TEST the_next_generation_touches_nothing_else(void) {
  uint64_t below = ~generation_mask, one = UINT64_C(1) << UVS__GENERATION_SHIFT;

  for (uint64_t g = 0; g < UVS__GENERATION_MAX; g = g * 2 + 1) {
    uint64_t w = below | g << UVS__GENERATION_SHIFT;

    ASSERT_U64(g, uvs__word_generation(w));
    ASSERT_U64(g + 1, uvs__word_generation(w + one));
    ASSERT_U64(below, (w + one) & below);
    ASSERT_U64(g, uvs__word_generation(uvs__word_with_status(uvs__word_in(w, UVS__ENDED), -4095)));
  }
  ASSERT_U64(UVS__GENERATION_MAX, uvs__word_generation(UINT64_MAX) & UVS__GENERATION_MAX);
  PASS();
}

/* Generation and slot together are a number that JavaScript can hold. */
TEST an_id_is_below_two_to_the_53(void) {
  uint64_t most = UVS__GENERATION_MAX << UVS__SLOT_BITS | UVS__SLOT_MASK;

  ASSERT(most < UINT64_C(1) << 53);
  ASSERT_U64(UVS__GENERATION_MAX, most >> UVS__SLOT_BITS);
  ASSERT_U64(UVS__SLOT_MASK, most & UVS__SLOT_MASK);
  PASS();
}

TEST a_move_changes_the_word_and_gives_it_back_if_it_cannot(void) {
  uint64_t g1 = UINT64_C(1) << UVS__GENERATION_SHIFT, g2 = g1 * 2, w;
  struct uvs__slot t;

  memset(&t, 0, sizeof t);
  atomic_init(&t.word, g1 | UVS__WAITING);
  w = g1 | UVS__WAITING;
  ASSERT(try_hard(&t, &w, g1 | UVS__READY | UVS__LISTED));
  ASSERT_U64(g1 | UVS__READY | UVS__LISTED, atomic_load(&t.word));

  /* Another has moved it meanwhile. */
  w = g1 | UVS__WAITING;
  ASSERT(!try_hard(&t, &w, g1 | UVS__ENDED | UVS__CANCELLED));
  ASSERT_U64(g1 | UVS__READY | UVS__LISTED, w);
  ASSERT_U64(g1 | UVS__READY | UVS__LISTED, atomic_load(&t.word));
  ASSERT(try_hard(&t, &w, g1 | UVS__ENDED | UVS__LISTED | UVS__CANCELLED));

  /* The slot has been used again, and is in the very state that the late one expects. */
  atomic_store(&t.word, g2 | UVS__WAITING);
  w = g1 | UVS__WAITING;
  ASSERT(!try_hard(&t, &w, g1 | UVS__ENDED | UVS__CANCELLED));
  ASSERT_U64(g2 | UVS__WAITING, w);
  ASSERT_U64(g2 | UVS__WAITING, atomic_load(&t.word));

  w = g2 | UVS__WAITING;
  while (!uvs__word_try_locked(&t, &w, g2 | UVS__ENDED))
    ASSERT_U64(g2 | UVS__WAITING, w);
  ASSERT_U64(g2 | UVS__ENDED, atomic_load(&t.word));
  PASS();
}

TEST the_next_run_finds_nothing_of_the_last_one_but_what_belongs_to_the_task(void) {
  uint64_t w = (UINT64_MAX & ~UVS__RUN_BITS);

  ASSERT_RC(0, uvs__word_status(w));
  ASSERT_U64(0, w & (UVS__TOKEN | UVS__PENDING | UVS__FINISHED | UVS__STOPPED | UVS__LISTED |
                     UVS__ONLOOP));
  ASSERT_U64(
      UVS__REF | UVS__TAKEN | UVS__CANCELLED | UVS__INBOX | UVS__MOVING | UVS__LOOP |
          UVS__HAS_AFTER | UVS__HAS_DONE | UVS__LATE | UVS__CLEANUP | UVS__KEEP | UVS__FORGOTTEN,
      w & (UVS__REF | UVS__TAKEN | UVS__CANCELLED | UVS__INBOX | UVS__MOVING | UVS__LOOP |
           UVS__HAS_AFTER | UVS__HAS_DONE | UVS__LATE | UVS__CLEANUP | UVS__KEEP | UVS__FORGOTTEN));
  ASSERT_U64(generation_mask, w & generation_mask);
  ASSERT_U64(kind_mask, w & kind_mask);
  PASS();
}

SUITE(task) {
  RUN_TEST(the_table_of_legal_moves_is_as_written);
  RUN_TEST(a_cancelled_outcome_stays_until_the_slot_is_free);
  RUN_TEST(what_is_ready_is_on_no_travelling_list_and_in_nobodys_hand);
  RUN_TEST(the_parts_of_the_word_do_not_overlap);
  RUN_TEST(a_state_is_put_in_without_touching_the_rest);
  RUN_TEST(every_status_survives_its_packing);
  RUN_TEST(libuvs_codes_and_our_own_fit);
  RUN_TEST(what_is_no_status_becomes_one);
  RUN_TEST(the_next_generation_touches_nothing_else);
  RUN_TEST(an_id_is_below_two_to_the_53);
  RUN_TEST(a_move_changes_the_word_and_gives_it_back_if_it_cannot);
  RUN_TEST(the_next_run_finds_nothing_of_the_last_one_but_what_belongs_to_the_task);
}

TEST_MAIN(RUN_SUITE(task));
