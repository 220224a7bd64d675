/* SPDX-License-Identifier: MIT
 *
 * The slab: elements named by an index, that never move and never become something else.
 */
#include "slab.h"
#include "thread.h"

#include <stddef.h>
#include <string.h>

#include "lib/unit.h"

struct thing { /* 64 bytes */
  uint64_t stamp;
  _Atomic uint32_t owner; /* 0: nobody */
  char rest[52];
};
_Static_assert(sizeof(struct thing) == 64, "an element's size is a power of two");

#define MAGIC UINT64_C(0x7468696e67)
#define PER_STRIPE (2u * 64u) /* a stripe keeps fewer than this */

struct store {
  struct uvs__slab slab;
  struct fault fault;
  uvs_allocator_t mem;
  void *beside[UVS__CHUNKS]; /* what `grow` gets, chunk by chunk */
  unsigned grown;
  int grow_rc; /* what grow answers, if not 0 */
  uint32_t inits;
  bool surprise; /* a call that should not have been */
};

static int grow(void *arg, unsigned k) {
  struct store *s = arg;

  if (s->grow_rc != 0)
    return s->grow_rc;
  if (k != s->grown || s->slab.chunk[k] != NULL)
    s->surprise = true;
  s->beside[k] = uvs__mem_alloc(&s->mem, 1, 100, 0);
  if (s->beside[k] == NULL)
    return UV_ENOMEM;
  s->grown++;
  return 0;
}

static void init(void *arg, uint32_t index) {
  struct store *s = arg;
  struct thing *t = uvs__slab_at(&s->slab, index);

  if (index < uvs__slab_made(&s->slab))
    s->surprise = true; /* it was visible before it was made */
  t->stamp = MAGIC + index;
  atomic_init(&t->owner, 0);
  s->inits++;
}

static int store_init(struct store *s) {
  memset(s, 0, sizeof *s);
  fault_init(&s->fault);
  s->mem = fault_option(&s->fault);
  s->slab.mem = &s->mem;
  s->slab.element_size = sizeof(struct thing);
  s->slab.grow = grow;
  s->slab.init = init;
  s->slab.arg = s;
  return uvs__slab_init(&s->slab);
}

/* False if something was left over, or was called that should not have been. */
static bool store_destroy(struct store *s) {
  uvs__slab_free_memory(&s->slab);
  uvs__slab_destroy_lock(&s->slab);
  for (unsigned k = 0; k < UVS__CHUNKS; k++)
    uvs__mem_free(&s->mem, s->beside[k]);
  return s->fault.live == 0 && !s->surprise;
}

static struct thing *thing(struct store *s, uint32_t index) {
  return uvs__slab_at(&s->slab, index);
}

TEST indexes_are_distinct_and_elements_neither_overlap_nor_move(void) {
  enum { N = 2000 };
  static struct thing *where[8192];
  static bool seen[8192];
  struct store s;

  memset(seen, 0, sizeof seen);
  ASSERT_RC(0, store_init(&s));
  ASSERT_U64(0, uvs__slab_made(&s.slab));
  for (uint32_t i = 0; i < N; i++) {
    uint32_t index = UVS__NONE;

    ASSERT_RC(0, uvs__slab_take(&s.slab, i % 3, &index));
    ASSERT(index < uvs__slab_made(&s.slab));
    ASSERT(index < 8192);
    ASSERT(!seen[index]);
    seen[index] = true;
    where[index] = thing(&s, index);
    ASSERT_U64(0, (uintptr_t)where[index] % 64); /* its cache line is its own */
    ASSERT_U64(MAGIC + index, where[index]->stamp);
    memset(where[index]->rest, (int)(index % 251), sizeof where[index]->rest);
  }
  for (uint32_t index = 0; index < 8192; index++) {
    if (!seen[index])
      continue;
    ASSERT_EQ(where[index], thing(&s, index));
    ASSERT_U64(MAGIC + index, where[index]->stamp);
    for (size_t i = 0; i < sizeof where[index]->rest; i++)
      ASSERT_U64(index % 251, (unsigned char)where[index]->rest[i]);
  }
  ASSERT_U64(uvs__slab_made(&s.slab), s.inits); /* each once */
  ASSERT(store_destroy(&s));
  PASS();
}

TEST an_element_is_what_it_was_after_it_was_given_back(void) {
  struct store s;
  struct thing *t;
  uint32_t index, other;

  ASSERT_RC(0, store_init(&s));
  ASSERT_RC(0, uvs__slab_take(&s.slab, 0, &index));
  t = thing(&s, index);
  t->stamp = 42;
  atomic_store(&t->owner, 17);
  uvs__slab_give(&s.slab, 0, index);
  ASSERT_EQ(t, thing(&s, index)); /* a stale index may be looked at */
  ASSERT_U64(42, t->stamp);
  ASSERT_U64(17, atomic_load(&t->owner));
  ASSERT_RC(0, uvs__slab_take(&s.slab, 0, &other));
  ASSERT_U64(index, other); /* and the warm one is used first */
  ASSERT_U64(42, t->stamp); /* it is not made a second time */
  ASSERT_U64(17, atomic_load(&t->owner));
  ASSERT(store_destroy(&s));
  PASS();
}

TEST what_was_given_back_is_taken_again_before_more_is_made(void) {
  static uint32_t index[1000];
  static bool seen[2048];
  uint32_t made;
  struct store s;
  long total;

  ASSERT_RC(0, store_init(&s));
  for (int i = 0; i < 1000; i++)
    ASSERT_RC(0, uvs__slab_take(&s.slab, 1, &index[i]));
  made = uvs__slab_made(&s.slab);
  total = s.fault.total;
  ASSERT_U64(1024, made); /* 64 at a time */
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < 1000; i++)
      uvs__slab_give(&s.slab, 1, index[i]);
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < 1000; i++) {
      ASSERT_RC(0, uvs__slab_take(&s.slab, 1, &index[i]));
      ASSERT(index[i] < made);
      ASSERT(!seen[index[i]]);
      seen[index[i]] = true;
    }
    ASSERT_U64(made, uvs__slab_made(&s.slab));
    ASSERT_U64(total, s.fault.total);
  }
  ASSERT(store_destroy(&s));
  PASS();
}

TEST reuse_bounds_the_room(void) {
  struct store s;
  uint32_t index;

  ASSERT_RC(0, store_init(&s));
  for (int i = 0; i < 100000; i++) {
    ASSERT_RC(0, uvs__slab_take(&s.slab, 0, &index));
    uvs__slab_give(&s.slab, 0, index);
  }
  ASSERT_U64(64, uvs__slab_made(&s.slab));
  ASSERT_U64(2, s.fault.total); /* one chunk and what grow took */
  ASSERT(store_destroy(&s));
  PASS();
}

/* One thread only takes and another only gives, as producers and the loop do: what piles up at the
 * giver's stripe goes back to the common store. */
TEST a_giver_on_another_stripe_feeds_the_taker(void) {
  static uint32_t index[300];
  struct store s;

  ASSERT_RC(0, store_init(&s));
  for (int round = 0; round < 500; round++) {
    for (int i = 0; i < 300; i++)
      ASSERT_RC(0, uvs__slab_take(&s.slab, 2, &index[i]));
    for (int i = 0; i < 300; i++)
      uvs__slab_give(&s.slab, 3, index[i]);
  }
  ASSERT(uvs__slab_made(&s.slab) <= 300 + UVS__STRIPES * PER_STRIPE);
  for (unsigned i = 0; i < UVS__STRIPES; i++)
    ASSERT(s.slab.stripe[i].count < PER_STRIPE);
  ASSERT(store_destroy(&s));
  PASS();
}

TEST any_number_names_a_stripe(void) {
  static const uintptr_t stripe[] = {0, 1, UVS__STRIPES, UINTPTR_MAX, UINTPTR_MAX / 2, 4096};
  uint32_t index[6];
  struct store s;

  ASSERT_RC(0, store_init(&s));
  for (int i = 0; i < 6; i++)
    ASSERT_RC(0, uvs__slab_take(&s.slab, stripe[i], &index[i]));
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < i; j++)
      ASSERT(index[i] != index[j]);
  for (int i = 0; i < 6; i++)
    uvs__slab_give(&s.slab, stripe[5 - i], index[i]);
  ASSERT(store_destroy(&s));
  PASS();
}

/* Two allocations per chunk: its own and grow's. Each time a fresh slab. */
TEST a_failed_allocation_changes_nothing_and_the_next_take_succeeds(void) {
  enum { N = 1500 };
  long fail;

  for (fail = 0;; fail++) {
    static bool seen[4096];
    uint32_t taken = 0;
    bool failed = false;
    struct store s;

    memset(seen, 0, sizeof seen);
    ASSERT_RC(0, store_init(&s));
    fault_after(fail);
    while (taken < N) {
      uint32_t index = 12345678, made = uvs__slab_made(&s.slab), inits = s.inits;
      unsigned grown = s.grown;
      long live = s.fault.live;
      int rc = uvs__slab_take(&s.slab, 0, &index);

      if (rc < 0) {
        ASSERT_RC(UV_ENOMEM, rc);
        ASSERT(fault_hit());
        ASSERT(!failed);
        failed = true;
        ASSERT_U64(12345678, index);
        ASSERT_U64(made, uvs__slab_made(&s.slab));
        ASSERT_U64(inits, s.inits);
        ASSERT_U64(grown, s.grown);
        ASSERT_U64(live, s.fault.live);
        continue;
      }
      ASSERT(!seen[index]);
      seen[index] = true;
      taken++;
    }
    (void)fault_hit(); /* the order ends */
    ASSERT(store_destroy(&s));
    if (!failed)
      break;
  }
  ASSERT_U64(10, fail); /* 64 + 128 + 256 + 512 + 1024: five chunks */
  PASS();
}

TEST a_refusal_by_grow_is_passed_on_and_its_chunk_is_given_back(void) {
  struct store s;
  uint32_t index = 77;

  ASSERT_RC(0, store_init(&s));
  s.grow_rc = UV_E2BIG;
  for (int i = 0; i < 3; i++)
    ASSERT_RC(UV_E2BIG, uvs__slab_take(&s.slab, 0, &index));
  ASSERT_U64(77, index);
  ASSERT_U64(0, s.fault.live);
  ASSERT_U64(0, uvs__slab_made(&s.slab));
  s.grow_rc = 0;
  ASSERT_RC(0, uvs__slab_take(&s.slab, 0, &index));
  ASSERT(index < 64);
  ASSERT(store_destroy(&s));
  PASS();
}

TEST the_last_index_is_followed_by_too_big(void) {
  struct store s;
  uint32_t index = 77;

  ASSERT_RC(0, store_init(&s));
  atomic_store(&s.slab.made, UVS__INDEX_MAX); /* as if all had been made and were out */
  ASSERT_RC(UV_E2BIG, uvs__slab_take(&s.slab, 0, &index));
  ASSERT_U64(77, index);
  ASSERT_U64(0, s.fault.total);
  ASSERT(store_destroy(&s));
  PASS();
}

/* What the loop has reserved nobody else gets, and it lasts. */
TEST what_is_reserved_is_there(void) {
  enum { N = 1000 };
  static uint32_t index[4 * N];
  static bool seen[16384];
  uint32_t n = 0;
  struct store s;

  memset(seen, 0, sizeof seen);
  ASSERT_RC(0, store_init(&s));
  ASSERT_RC(0, uvs__slab_take(&s.slab, UVS__STRIPE_LOOP, &index[n++])); /* it has some already */
  ASSERT_RC(0, uvs__slab_reserve(&s.slab, 10));
  ASSERT_U64(64, uvs__slab_made(&s.slab)); /* which is enough */
  ASSERT_RC(0, uvs__slab_reserve(&s.slab, N));
  for (int i = 0; i < N; i++)
    ASSERT_RC(0, uvs__slab_take(&s.slab, 0, &index[n++])); /* others go on as before */
  fault_from(0);
  for (int i = 0; i < N; i++)
    ASSERT_RC(0, uvs__slab_take(&s.slab, UVS__STRIPE_LOOP, &index[n++]));
  ASSERT_FALSE(fault_hit());
  ASSERT_U64(0, s.slab.reserved);
  for (uint32_t i = 0; i < n; i++) {
    ASSERT(!seen[index[i]]);
    seen[index[i]] = true;
  }
  for (uint32_t i = 0; i < n; i++)
    uvs__slab_give(&s.slab, i % 2 == 0 ? 0 : UVS__STRIPE_LOOP, index[i]);
  fault_from(0);
  ASSERT_RC(UV_ENOMEM, uvs__slab_reserve(&s.slab, UVS__INDEX_MAX / 2));
  ASSERT(fault_hit());
  ASSERT_RC(UV_E2BIG, uvs__slab_reserve(&s.slab, (size_t)UVS__INDEX_MAX + 1));
  ASSERT_U64(0, s.slab.reserved);
  ASSERT(store_destroy(&s));
  PASS();
}

TEST a_slab_works_without_grow_and_init(void) {
  struct store s;
  uint32_t index;

  memset(&s, 0, sizeof s);
  fault_init(&s.fault);
  s.mem = fault_option(&s.fault);
  s.slab.mem = &s.mem;
  s.slab.element_size = 192; /* no power of two */
  ASSERT_RC(0, uvs__slab_init(&s.slab));
  for (int i = 0; i < 200; i++) {
    ASSERT_RC(0, uvs__slab_take(&s.slab, 0, &index));
    ASSERT_U64(0, (uintptr_t)uvs__slab_at(&s.slab, index) % 64);
  }
  ASSERT(store_destroy(&s));
  PASS();
}

/* ---- several at once ---- */

/* What is free lies as a dense stack: the last given is the first taken, one by one or together. */
TEST what_was_given_together_is_taken_last_first(void) {
  uint32_t index[UVS__SLAB_BATCH], again;
  struct store s;

  for (uint32_t n = 0; n <= UVS__SLAB_BATCH; n += n < 3 ? 1 : 61) {
    ASSERT_RC(0, store_init(&s));
    for (uint32_t i = 0; i < UVS__SLAB_BATCH; i++)
      ASSERT_RC(0, uvs__slab_take(&s.slab, 1, &index[i]));
    uvs__slab_give_many(&s.slab, 1 + UVS__STRIPES, index, n); /* the same stripe */
    ASSERT_U64(n, s.slab.stripe[1].count);
    for (uint32_t i = n; i > 0; i--) {
      ASSERT_RC(0, uvs__slab_take(&s.slab, 1, &again));
      ASSERT_U64(index[i - 1], again);
    }
    ASSERT_U64(0, s.slab.stripe[1].count);
    ASSERT(store_destroy(&s));
  }
  PASS();
}

/* Every filling of the stripe, every number given: what does not fit goes to the common store, the
 * older ones, and nothing is there twice or lost. */
TEST a_full_stripe_hands_its_older_half_back(void) {
  static uint32_t index[PER_STRIPE + UVS__SLAB_BATCH];
  struct store s;

  for (uint32_t before = 0; before < PER_STRIPE; before++)
    for (uint32_t n = 1; n <= UVS__SLAB_BATCH; n += 7) {
      uint32_t all = before + n, kept, got;

      ASSERT_RC(0, store_init(&s));
      for (uint32_t i = 0; i < all; i++)
        ASSERT_RC(0, uvs__slab_take(&s.slab, 1, &index[i]));
      for (uint32_t i = 0; i < before; i++)
        uvs__slab_give(&s.slab, 0, index[i]);
      uvs__slab_give_many(&s.slab, 0, index + before, n);
      kept = all < PER_STRIPE ? all : all - UVS__SLAB_BATCH;
      ASSERT_U64(kept, s.slab.stripe[0].count);
      for (uint32_t i = 0; i < kept; i++) { /* the newest, last first */
        ASSERT_RC(0, uvs__slab_take(&s.slab, 0, &got));
        ASSERT_U64(index[all - 1 - i], got);
      }
      if (kept < all)
        for (uint32_t i = 0; i < UVS__SLAB_BATCH; i++) { /* and those that went to the store */
          ASSERT_RC(0, uvs__slab_take(&s.slab, 0, &got));
          ASSERT_U64(index[UVS__SLAB_BATCH - 1 - i], got);
        }
      ASSERT_U64(0, s.slab.stripe[0].count);
      ASSERT(store_destroy(&s));
    }
  PASS();
}

/* The common store is a stack in chunks: over each border, up and down. */
TEST the_common_store_keeps_each_one_once_over_every_border(void) {
  enum { N = 64 * 31 }; /* all of five chunks */
  static uint32_t index[N];
  static bool seen[N];
  struct store s;
  long total;

  ASSERT_RC(0, store_init(&s));
  for (uint32_t i = 0; i < N; i++)
    ASSERT_RC(0, uvs__slab_take(&s.slab, 0, &index[i]));
  total = s.fault.total;
  for (int round = 0; round < 4; round++) {
    uint32_t part = N / (uint32_t)(round + 1);

    for (uint32_t i = 0; i < part; i += UVS__SLAB_BATCH)
      uvs__slab_give_many(&s.slab, i / UVS__SLAB_BATCH + (uint32_t)round, index + i,
                          part - i < UVS__SLAB_BATCH ? part - i : UVS__SLAB_BATCH);
    memset(seen, 0, sizeof seen);
    for (uint32_t i = part; i < N; i++)
      seen[index[i]] = true;
    for (uint32_t i = 0; i < part;) {
      for (uintptr_t stripe = 0; stripe < UVS__STRIPES && i < part; stripe++) {
        if (s.slab.stripe[stripe].count == 0 && s.slab.spare_count == 0)
          continue; /* it would have to make one */
        ASSERT_RC(0, uvs__slab_take(&s.slab, stripe, &index[i]));
        ASSERT(index[i] < N);
        ASSERT_FALSE(seen[index[i]]);
        seen[index[i++]] = true;
      }
    }
    ASSERT_U64(N, uvs__slab_made(&s.slab));
    ASSERT_U64(total, s.fault.total);
  }
  ASSERT(store_destroy(&s));
  PASS();
}

/* L10: with memory gone, giving cannot fail, and what was given can be taken. */
TEST giving_needs_no_memory(void) {
  static uint32_t index[320];
  static bool seen[448];
  struct store s;
  uint32_t got;

  memset(seen, 0, sizeof seen);

  ASSERT_RC(0, store_init(&s));
  for (uint32_t i = 0; i < 320; i++)
    ASSERT_RC(0, uvs__slab_take(&s.slab, 0, &index[i]));
  while (uvs__slab_made(&s.slab) < 64 + 128 + 256) /* to the end of the chunk */
    ASSERT_RC(0, uvs__slab_take(&s.slab, 1, &got));
  while (s.slab.stripe[1].count > 0)
    ASSERT_RC(0, uvs__slab_take(&s.slab, 1, &got));
  fault_from(0);
  ASSERT_RC(UV_ENOMEM, uvs__slab_take(&s.slab, 0, &got));
  for (uint32_t i = 0; i < 320; i += 64)
    uvs__slab_give_many(&s.slab, 0, index + i, 64);
  for (uint32_t i = 320; i > 0; i--) {
    ASSERT_RC(0, uvs__slab_take(&s.slab, 0, &got));
    ASSERT_FALSE(seen[got]);
    seen[got] = true;
  }
  ASSERT_RC(UV_ENOMEM, uvs__slab_take(&s.slab, 0, &got));
  ASSERT(fault_hit());
  ASSERT(store_destroy(&s));
  PASS();
}

/* Somebody is at these stripes, and was stopped there. */
static void hold(struct store *s, unsigned first, unsigned n, bool busy) {
  for (unsigned i = 0; i < n; i++)
    atomic_store(&s->slab.stripe[(first + i) % UVS__STRIPES].busy, busy);
}

TEST nobody_waits_for_a_stripe_that_another_is_at(void) {
  uint32_t one, index;
  struct store s;

  ASSERT_RC(0, store_init(&s));
  for (unsigned busy = 0; busy < UVS__STRIPES; busy++) {
    unsigned next = (5 + busy) % UVS__STRIPES;

    hold(&s, 5, busy, true);
    ASSERT_RC(0, uvs__slab_take(&s.slab, 5, &one));
    ASSERT_U64(63, s.slab.stripe[next].count); /* the first that is free, round the end */
    uvs__slab_give(&s.slab, 5, one);
    ASSERT_U64(64, s.slab.stripe[next].count);
    ASSERT_RC(0, uvs__slab_take(&s.slab, 5, &index));
    ASSERT_U64(one, index);
    uvs__slab_give_many(&s.slab, 5, &index, 1);
    ASSERT_U64(64, s.slab.stripe[next].count);
    hold(&s, 5, busy, false);
  }
  for (unsigned i = 0; i < UVS__STRIPES; i++)
    ASSERT_U64(64, s.slab.stripe[i].count);
  ASSERT(store_destroy(&s));
  PASS();
}

TEST with_all_stripes_in_use_the_common_store_serves(void) {
  enum { N = 300 };
  uint32_t index[N], again;
  struct store s;

  ASSERT_RC(0, store_init(&s));
  hold(&s, 0, UVS__STRIPES, true);
  for (unsigned i = 0; i < N; i++)
    ASSERT_RC(0, uvs__slab_take(&s.slab, i, &index[i]));
  for (unsigned i = 0; i < N; i++)
    for (unsigned j = 0; j < i; j++)
      ASSERT(index[i] != index[j]);
  ASSERT_U64(320, uvs__slab_made(&s.slab)); /* no more than had to be made */
  ASSERT_U64(20, s.slab.spare_count);
  uvs__slab_give(&s.slab, 3, index[N - 1]);
  ASSERT_RC(0, uvs__slab_take(&s.slab, 7, &again));
  ASSERT_U64(index[N - 1], again); /* the warm one first */
  uvs__slab_give_many(&s.slab, 1, index, 64);
  ASSERT_U64(84, s.slab.spare_count);
  fault_from(0); /* all of those are there */
  for (unsigned i = 0; i < 84; i++)
    ASSERT_RC(0, uvs__slab_take(&s.slab, i, &again));
  ASSERT(!fault_hit());
  ASSERT_U64(320, uvs__slab_made(&s.slab));
  hold(&s, 0, UVS__STRIPES, false);
  for (unsigned i = 0; i < UVS__STRIPES; i++)
    ASSERT_U64(0, s.slab.stripe[i].count); /* they were left alone */
  ASSERT(store_destroy(&s));
  PASS();
}

TEST what_is_reserved_for_the_loop_is_nobody_elses_though_all_stripes_are_in_use(void) {
  uint32_t index;
  struct store s;

  ASSERT_RC(0, store_init(&s));
  ASSERT_RC(0, uvs__slab_reserve(&s.slab, 100));
  ASSERT_U64(128, uvs__slab_made(&s.slab));
  hold(&s, 0, UVS__STRIPES, true);
  for (unsigned i = 0; i < 28; i++)
    ASSERT_RC(0, uvs__slab_take(&s.slab, i, &index));
  ASSERT_U64(100, s.slab.spare_count);
  ASSERT_RC(0, uvs__slab_take(&s.slab, 0, &index)); /* a new one */
  ASSERT_U64(192, uvs__slab_made(&s.slab));
  hold(&s, 0, UVS__STRIPES, false);
  for (unsigned i = 0; i < 100; i++)
    ASSERT_RC(0, uvs__slab_take(&s.slab, UVS__STRIPE_LOOP, &index));
  ASSERT_U64(192, uvs__slab_made(&s.slab));
  ASSERT(store_destroy(&s));
  PASS();
}

static void note_self(void *arg) {
  uvs__self(); /* asked twice, it is the same */
  *(uintptr_t *)arg = uvs__self();
}

TEST threads_that_begin_one_after_another_use_different_stripes(void) {
  uintptr_t ours = uvs__self();
  uintptr_t self[UVS__STRIPES];

  for (unsigned i = 0; i < UVS__STRIPES; i++) {
    uv_thread_t thread;

    ASSERT_RC(0, uv_thread_create(&thread, note_self, &self[i]));
    ASSERT_RC(0,
              uv_thread_join(&thread)); /* it has ended, and still its number is not used again */
    ASSERT(self[i] != ours);
    ASSERT_U64(self[0] + i, self[i]);
  }
  PASS();
}

/* Many threads: more than there are stripes. */
#define THREADS 12
#define HELD 200

struct churn {
  uv_thread_t thread;
  struct store *store;
  uint32_t me; /* 1 .. THREADS */
  uint64_t random;
  int steps;
  const char *wrong;
  uint32_t held[HELD];
  uint32_t count;
  uint32_t freed[UVS__SLAB_BATCH];
  uint32_t freed_count;
};

static void churn(void *arg) {
  struct churn *c = arg;
  struct uvs__slab *slab = &c->store->slab;

  for (int step = 0; step < c->steps; step++) {
    /* Mostly its own stripe; now and then a stranger's, as two threads may share one. */
    uintptr_t stripe = test_random_below(&c->random, 8) == 0 ? test_random(&c->random) : c->me;

    if (c->count < HELD && test_random_below(&c->random, 2) == 0) {
      uint32_t index;

      if (uvs__slab_take(slab, stripe, &index) < 0) {
        c->wrong = "a take failed";
        return;
      }
      if (index >= uvs__slab_made(slab) ||
          atomic_exchange(&thing(c->store, index)->owner, c->me) != 0) {
        c->wrong = "an element was handed out twice";
        return;
      }
      thing(c->store, index)->stamp =
          MAGIC * c->me + index; /* not atomic: ThreadSanitizer watches */
      c->held[c->count++] = index;
    } else if (c->count > 0) {
      uint32_t i = (uint32_t)test_random_below(&c->random, c->count);
      uint32_t index = c->held[i];

      c->held[i] = c->held[--c->count];
      if (thing(c->store, index)->stamp != MAGIC * c->me + index ||
          atomic_exchange(&thing(c->store, index)->owner, 0) != c->me) {
        c->wrong = "somebody wrote to our element";
        return;
      }
      if (test_random_below(&c->random, 3) == 0) {
        uvs__slab_give(slab, stripe, index);
        continue;
      }
      c->freed[c->freed_count++] = index; /* as a runner does, that gives a batch back at once */
      if (c->freed_count == UVS__SLAB_BATCH || test_random_below(&c->random, 16) == 0) {
        uvs__slab_give_many(slab, stripe, c->freed, c->freed_count);
        c->freed_count = 0;
      }
    }
  }
  uvs__slab_give_many(slab, c->me, c->freed, c->freed_count);
}

TEST many_threads_share_it_without_sharing_an_element(void) {
  static struct churn c[THREADS];
  static bool seen[8192];
  uint32_t held = 0, made, index;
  struct store s;

  ASSERT_RC(0, store_init(&s));
  memset(c, 0, sizeof c);
  memset(seen, 0, sizeof seen);
  for (unsigned i = 0; i < THREADS; i++) {
    c[i].store = &s;
    c[i].me = i + 1;
    c[i].random = test_seed + i + 1;
    c[i].steps = 30000;
    if (c[i].random == 0)
      c[i].random = 1;
    ASSERT_RC(0, uv_thread_create(&c[i].thread, churn, &c[i]));
  }
  for (unsigned i = 0; i < THREADS; i++)
    uv_thread_join(&c[i].thread);
  for (unsigned i = 0; i < THREADS; i++) {
    ASSERTm(c[i].wrong, c[i].wrong == NULL);
    for (uint32_t j = 0; j < c[i].count; j++, held++) {
      ASSERT(!seen[c[i].held[j]]);
      seen[c[i].held[j]] = true;
    }
  }
  /* All others are on a free list, each once. */
  made = uvs__slab_made(&s.slab);
  ASSERT(made <= THREADS * (HELD + UVS__SLAB_BATCH) + UVS__STRIPES * PER_STRIPE + 64);
  for (unsigned i = 0; i < UVS__STRIPES; i++)
    while (s.slab.stripe[i].count > 0) {
      ASSERT_RC(0, uvs__slab_take(&s.slab, i, &index));
      ASSERT(!seen[index]);
      seen[index] = true;
      held++;
    }
  while (s.slab.spare_count > 0 || s.slab.stripe[0].count > 0) {
    ASSERT_RC(0, uvs__slab_take(&s.slab, 0, &index));
    ASSERT(!seen[index]);
    seen[index] = true;
    held++;
  }
  ASSERT_U64(made, held);
  ASSERT_U64(made, uvs__slab_made(&s.slab));
  ASSERT_U64(made, s.inits);
  ASSERT(store_destroy(&s));
  PASS();
}

SUITE(slab) {
  RUN_TEST(indexes_are_distinct_and_elements_neither_overlap_nor_move);
  RUN_TEST(an_element_is_what_it_was_after_it_was_given_back);
  RUN_TEST(what_was_given_back_is_taken_again_before_more_is_made);
  RUN_TEST(reuse_bounds_the_room);
  RUN_TEST(a_giver_on_another_stripe_feeds_the_taker);
  RUN_TEST(threads_that_begin_one_after_another_use_different_stripes);
  RUN_TEST(nobody_waits_for_a_stripe_that_another_is_at);
  RUN_TEST(with_all_stripes_in_use_the_common_store_serves);
  RUN_TEST(what_is_reserved_for_the_loop_is_nobody_elses_though_all_stripes_are_in_use);
  RUN_TEST(any_number_names_a_stripe);
  RUN_TEST(a_failed_allocation_changes_nothing_and_the_next_take_succeeds);
  RUN_TEST(a_refusal_by_grow_is_passed_on_and_its_chunk_is_given_back);
  RUN_TEST(the_last_index_is_followed_by_too_big);
  RUN_TEST(what_is_reserved_is_there);
  RUN_TEST(a_slab_works_without_grow_and_init);
  RUN_TEST(what_was_given_together_is_taken_last_first);
  RUN_TEST(a_full_stripe_hands_its_older_half_back);
  RUN_TEST(the_common_store_keeps_each_one_once_over_every_border);
  RUN_TEST(giving_needs_no_memory);
  RUN_TEST(many_threads_share_it_without_sharing_an_element);
}

TEST_MAIN(RUN_SUITE(slab));
