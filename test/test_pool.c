/* SPDX-License-Identifier: MIT
 *
 * The pool's two moves of a task, to start it and to cancel it: what they do to its word and to the
 * counts, and what they leave alone. Runners are left out; words are set by hand.
 */
#include "pool.h"

#include "lib/unit.h"

struct bench {
  struct uvs__agenda agenda;
  struct uvs__pool pool;
  struct fault fault;
  uvs_allocator_t mem;
};

static int bench_init(struct bench *b) {
  int rc;

  fault_init(&b->fault);
  b->mem = fault_option(&b->fault);
  rc = uvs__agenda_init(&b->agenda, &b->mem);
  return rc < 0 ? rc : uvs__pool_init(&b->pool, &b->agenda, &b->mem, NULL);
}

static bool bench_destroy(struct bench *b) {
  uvs__pool_destroy(&b->pool);
  uvs__agenda_destroy(&b->agenda);
  return b->fault.live == 0;
}

static struct uvs__slot *slot_at(struct bench *b, uint32_t slot) {
  return uvs__agenda_slot(&b->agenda, slot);
}

static uint64_t word(struct bench *b, uint32_t slot) {
  return atomic_load(&slot_at(b, slot)->word);
}

/* A task with this word, accepted as one that a submitter made; UVS__NONE if there is no memory. */
static uint32_t make(struct bench *b, uint64_t bits) {
  uint32_t slot;

  if (uvs__agenda_take_slot(&b->agenda, 0, false, false, &slot) < 0)
    return UVS__NONE;
  atomic_store(&slot_at(b, slot)->word, word(b, slot) | bits);
  atomic_fetch_add(&b->pool.load, UVS__LOAD_ONE);
  if (uvs__word_state(bits) == UVS__READY) {
    uv_mutex_lock(&b->pool.lock);
    uvs__pool_list_locked(&b->pool, slot, bits);
    uv_mutex_unlock(&b->pool.lock);
  }
  if (uvs__word_state(bits) == UVS__RUNNING && (bits & UVS__CANCELLED) == 0)
    b->pool.running_count++;
  return slot;
}

static uint32_t start(struct bench *b) {
  uint32_t slot;

  uv_mutex_lock(&b->pool.lock);
  slot = uvs__pool_start_locked(&b->pool, &b->pool.home.ready);
  uv_mutex_unlock(&b->pool.lock);
  return slot;
}

/* A weak CAS may fail for nothing: then once more, as all callers do. */
static bool cancel(struct bench *b, uint32_t slot, uint64_t *w, uint64_t flags) {
  uint64_t seen = *w;

  while (!uvs__pool_cancel(&b->pool, slot, w, flags)) {
    if (*w != seen)
      return false;
  }
  return true;
}

/* What is counted, in one number: to see that nothing has changed. */
static uint64_t counted(struct bench *b) {
  const struct uvs__pool *p = &b->pool;
  uint64_t sum = 0;

  for (int i = 0; i < UVS__OUTCOMES; i++)
    sum = sum * 31 + p->ended[i];
  return ((((sum * 31 + p->ready_count[0]) * 31 + p->ready_count[1]) * 31 + p->running_count) * 31 +
          p->runs) *
             31 +
         atomic_load(&p->load);
}

static bool drop(struct bench *b, uint32_t slot) {
  uint64_t w = word(b, slot), seen = w;

  while (!uvs__pool_drop(&b->pool, slot, &w)) {
    if (w != seen)
      return false;
  }
  return true;
}

static bool withdraw(struct bench *b, uint32_t slot) {
  uint64_t w = word(b, slot), seen = w;

  while (!uvs__pool_withdraw(&b->pool, slot, &w)) {
    if (w != seen)
      return false;
  }
  return true;
}

/* F2 F4: in whichever way it ceases to be ready, on the pool or on the loop. */
TEST what_is_ready_no_more_is_on_no_list(void) {
  for (int way = 0; way < 4; way++) {
    for (int on_loop = 0; on_loop < 2; on_loop++) {
      uint64_t bits = UVS__READY | UVS__LISTED | (on_loop ? UVS__ONLOOP : 0);
      struct uvs__ready *ready;
      uint32_t slot, other;
      struct bench b;
      uint64_t w;

      ASSERT_RC(0, bench_init(&b));
      ready = on_loop ? &b.pool.due : &b.pool.home.ready;
      slot = make(&b, bits);
      other = make(&b, bits);
      ASSERT_U64(2, ready->count);
      ASSERT_U64(on_loop ? 0 : 2, b.pool.home.startable);
      w = word(&b, slot);
      if (way == 0)
        ASSERT_U64(slot, uvs__pool_start_locked(&b.pool, ready));
      if (way == 1)
        ASSERT(cancel(&b, slot, &w, 0));
      if (way == 2)
        ASSERT(drop(&b, slot));
      if (way == 3)
        ASSERT(withdraw(&b, slot));
      ASSERT_U64(UVS__NONE, uvs__agenda_link(&b.agenda, slot)->a);
      ASSERT_U64(1, ready->count);
      ASSERT_U64(on_loop ? 0 : 1, b.pool.home.startable);
      ASSERT_U64(1, b.pool.ready_count[on_loop]);
      ASSERT_U64(other, uvs__pool_start_locked(&b.pool, ready));
      ASSERT_U64(UVS__NONE, uvs__pool_start_locked(&b.pool, ready));
      ASSERT(bench_destroy(&b));
    }
  }
  PASS();
}

/* F2 */
TEST what_is_ready_is_started_once(void) {
  struct bench b;
  uint32_t slot;
  uint64_t w;

  ASSERT_RC(0, bench_init(&b));
  slot = make(&b, UVS__READY | UVS__LISTED | UVS__REF);
  ASSERT_U64(slot, start(&b));
  w = word(&b, slot);
  ASSERT_U64(UVS__RUNNING, uvs__word_state(w));
  ASSERT_U64(UVS__REF, w & (UVS__REF | UVS__LISTED));
  ASSERT_U64(UVS__NONE, start(&b));
  ASSERT_U64(w, word(&b, slot));
  ASSERT_U64(1, b.pool.runs);
  ASSERT_U64(1, b.pool.running_count);
  ASSERT_U64(0, b.pool.ready_count[0]);
  ASSERT(bench_destroy(&b));
  PASS();
}

/* F2: there is one way into a run, and from an end there is none. */
TEST only_what_is_ready_may_begin_to_run(void) {
  for (unsigned from = 0; from < UVS__STATES; from++)
    for (int cancelled = 0; cancelled < 2; cancelled++) {
      uint64_t c = cancelled ? UVS__CANCELLED : 0;

      if (from != UVS__RUNNING) /* that is the same run */
        ASSERT_EQ(from == UVS__READY, uvs__word_legal(from | c, UVS__RUNNING | c));
      if (from == UVS__ENDED || from == UVS__OVER)
        for (unsigned to = UVS__WAITING; to <= UVS__RUNNING; to++)
          ASSERT_FALSE(uvs__word_legal(from | c, to | c));
    }
  PASS();
}

/* F4 */
TEST a_cancelled_task_is_passed_over_and_its_body_does_not_run(void) {
  for (unsigned kind = UVS_ONCE; kind <= UVS_DELAY; kind++) {
    uint64_t bits = UVS__READY | UVS__LISTED | (uint64_t)kind << UVS__KIND_SHIFT;
    uint32_t first, second;
    struct bench b;
    uint64_t w;

    ASSERT_RC(0, bench_init(&b));
    first = make(&b, bits);
    second = make(&b, bits);
    w = word(&b, first);
    ASSERT(cancel(&b, first, &w, 0));
    w = word(&b, first);
    ASSERT_U64(UVS__ENDED, uvs__word_state(w));
    ASSERT_U64(UVS__CANCELLED | UVS__INBOX, w & (UVS__CANCELLED | UVS__INBOX));
    ASSERT_U64(second, start(&b));
    ASSERT_U64(UVS__NONE, start(&b));
    ASSERT_U64(w, word(&b, first));
    ASSERT_U64(1, b.pool.runs);
    ASSERT_U64(1, b.pool.ended[UVS__CANCELED]);
    ASSERT_U64(1, atomic_load(&b.pool.load));
    /* Nor can it be armed again: the outcome stays. */
    ASSERT_FALSE(uvs__word_legal(w, uvs__word_in(w & ~UVS__CANCELLED, UVS__WAITING)));
    ASSERT_FALSE(uvs__word_legal(w, uvs__word_in(w, UVS__WAITING)));
    ASSERT(bench_destroy(&b));
  }
  PASS();
}

/* F4: and one that is cancelled in its run does not leave it for another. */
TEST a_run_that_was_cancelled_cannot_be_armed_again(void) {
  uint64_t kind = (uint64_t)UVS_RATE << UVS__KIND_SHIFT;
  struct bench b;
  uint32_t slot;
  uint64_t w;

  ASSERT_RC(0, bench_init(&b));
  slot = make(&b, UVS__RUNNING | kind);
  w = word(&b, slot);
  ASSERT(uvs__word_legal(w, uvs__word_in(w, UVS__WAITING))); /* before, it could */
  ASSERT(cancel(&b, slot, &w, 0));
  w = word(&b, slot);
  ASSERT_U64(UVS__RUNNING, uvs__word_state(w));
  ASSERT_FALSE(uvs__word_legal(w, uvs__word_in(w & ~UVS__CANCELLED, UVS__WAITING)));
  ASSERT(uvs__word_legal(w, uvs__word_in(w, UVS__ENDED) | UVS__INBOX));
  ASSERT(bench_destroy(&b));
  PASS();
}

/* F11: outcome and token are one move. If it comes too late, neither has happened. */
TEST a_cancel_with_token_that_comes_too_late_has_done_nothing(void) {
  static const uint64_t flags[] = {0, UVS__TOKEN};
  uint64_t after[2], counts[2];

  for (int i = 0; i < 2; i++) {
    struct bench b;
    uint32_t slot;
    uint64_t w;

    ASSERT_RC(0, bench_init(&b));
    slot = make(&b, UVS__RUNNING);
    w = word(&b, slot); /* as the canceller saw it; then the run ends */
    atomic_store(&slot_at(&b, slot)->word, uvs__word_in(w, UVS__ENDED) | UVS__INBOX);
    counts[i] = counted(&b);
    ASSERT_FALSE(cancel(&b, slot, &w, flags[i]));
    after[i] = word(&b, slot);
    ASSERT_U64(after[i], w); /* he learns of it */
    ASSERT_U64(counts[i], counted(&b));
    ASSERT_RC(0, uvs__outcome_status(after[i]));
    ASSERT(bench_destroy(&b));
  }
  ASSERT_U64(after[0], after[1]);
  ASSERT_U64(counts[0], counts[1]);
  PASS();
}

/* F11: a token for what is cancelled already, and the run ends first. */
TEST a_token_that_comes_too_late_leaves_a_cancel_without_token(void) {
  struct bench b;
  uint32_t slot;
  uint64_t w, seen, before;

  ASSERT_RC(0, bench_init(&b));
  slot = make(&b, UVS__RUNNING);
  w = word(&b, slot);
  ASSERT(cancel(&b, slot, &w, 0));
  seen = word(&b, slot);
  ASSERT_U64(UVS__CANCELLED, seen & (UVS__CANCELLED | UVS__TOKEN));
  atomic_store(&slot_at(&b, slot)->word,
               uvs__word_in(seen & ~UVS__RUN_BITS, UVS__ENDED) | UVS__INBOX);
  w = word(&b, slot);
  before = counted(&b);
  while (!uvs__word_try(slot_at(&b, slot), &seen, seen | UVS__TOKEN)) {
    if (uvs__word_state(seen) != UVS__RUNNING)
      break;
  }
  ASSERT_U64(w, word(&b, slot));
  ASSERT_U64(w, seen);
  ASSERT_U64(before, counted(&b));
  ASSERT_U64(1, b.pool.ended[UVS__CANCELED]); /* once */
  ASSERT_RC(UV_ECANCELED, uvs__outcome_status(w));
  ASSERT(bench_destroy(&b));
  PASS();
}

/* F11: with the token or without, the outcome is the same, now and when the run has ended. */
TEST the_token_is_no_part_of_the_outcome(void) {
  struct bench b;
  uint64_t w[2], counts[2];

  for (int token = 0; token < 2; token++) {
    uint32_t slot;

    ASSERT_RC(0, bench_init(&b));
    slot = make(&b, UVS__RUNNING);
    w[token] = word(&b, slot);
    ASSERT(cancel(&b, slot, &w[token], token ? UVS__TOKEN : 0));
    w[token] = word(&b, slot);
    counts[token] = counted(&b);
    ASSERT(uvs__settled(w[token]));
    ASSERT_FALSE(uvs__quiet(w[token]));
    ASSERT_RC(UV_ECANCELED, uvs__outcome_status(w[token]));
    ASSERT(bench_destroy(&b));
  }
  ASSERT_U64(w[0] | UVS__TOKEN, w[1]);
  ASSERT_U64(w[0] & ~UVS__RUN_BITS, w[1] & ~UVS__RUN_BITS); /* what a run leaves behind */
  ASSERT_U64(counts[0], counts[1]);
  PASS();
}

SUITE(pool) {
  RUN_TEST(what_is_ready_no_more_is_on_no_list);
  RUN_TEST(what_is_ready_is_started_once);
  RUN_TEST(only_what_is_ready_may_begin_to_run);
  RUN_TEST(a_cancelled_task_is_passed_over_and_its_body_does_not_run);
  RUN_TEST(a_run_that_was_cancelled_cannot_be_armed_again);
  RUN_TEST(a_cancel_with_token_that_comes_too_late_has_done_nothing);
  RUN_TEST(a_token_that_comes_too_late_leaves_a_cancel_without_token);
  RUN_TEST(the_token_is_no_part_of_the_outcome);
}

TEST_MAIN(RUN_SUITE(pool));
