/* SPDX-License-Identifier: MIT
 *
 * Slots and their stripes: nobody gets what another has, nothing is lost.
 */
#include "scenes.h"

#include <string.h>

#include "arena.h"
#include "model.h"
#include "slab.h"

#define BATCH UVS__SLAB_BATCH
#define MOST 512

static struct {
  uvs_allocator_t mem;
  struct uvs__slab slab;
  int owner[MOST]; /* strand + 1 */
  unsigned taken;
} b;

static void open_slab(void) {
  memset(&b, 0, sizeof b);
  arena_reset();
  model_reset(0);
  b.mem = arena_option();
  b.slab.mem = &b.mem;
  b.slab.element_size = 64;
  WEAVE_SAME(0, uvs__slab_init(&b.slab));
}

static uint32_t take(uintptr_t stripe) {
  uint32_t index;

  WEAVE_SAME(0, uvs__slab_take(&b.slab, stripe, &index));
  WEAVE_CHECK(index < MOST && index < uvs__slab_made(&b.slab));
  WEAVE_SAME(0, b.owner[index]);
  b.owner[index] = weave_self() + 1;
  memset(uvs__slab_at(&b.slab, index), 1, 64);
  b.taken++;
  return index;
}

static void give(uintptr_t stripe, uint32_t index) {
  WEAVE_SAME(weave_self() + 1, b.owner[index]);
  b.owner[index] = 0;
  b.taken--;
  uvs__slab_give(&b.slab, stripe, index);
}

static bool never(const void *arg) {
  (void)arg;
  return false;
}

/* Every index that was made is somewhere, once. */
static void close_slab(void) {
  unsigned n;

  weave_rest(never, NULL, WEAVE_NEVER);
  weave_calm(true);
  WEAVE_CHECK(weave_unfinished() == NULL);
  n = b.slab.spare_count + b.slab.own.count + b.taken;
  for (unsigned i = 0; i < UVS__STRIPES; i++)
    n += b.slab.stripe[i].count;
  WEAVE_SAME(uvs__slab_made(&b.slab), n);
  uvs__slab_free_memory(&b.slab);
  uvs__slab_destroy_lock(&b.slab);
  arena_check();
}

static void take_two_give_one(void *arg) {
  uintptr_t stripe = *(uintptr_t *)arg;
  uint32_t first = take(stripe);

  take(stripe);
  give(stripe, first);
}

static uintptr_t stripe[] = {1, 2};

static void one_stripe_for_three(void) {
  open_slab();
  for (int i = 0; i < 3; i++)
    weave_spawn(i == 0 ? "a" : i == 1 ? "b" : "c", take_two_give_one, &stripe[0], false);
  weave_calm(false);
  close_slab();
}

static void two_stripes(void) {
  open_slab();
  weave_spawn("a", take_two_give_one, &stripe[0], false);
  weave_spawn("b", take_two_give_one, &stripe[1], false);
  weave_calm(false);
  take_two_give_one(&stripe[0]);
  close_slab();
}

/* One more, and a stripe has to hand back; one less, and the other has to be filled. */
static void full_stripe_meets_empty(void) {
  uint32_t had[2 * BATCH];

  open_slab();
  for (unsigned i = 0; i < 2 * BATCH; i++)
    had[i] = take(1);
  for (unsigned i = 0; i < 2 * BATCH - 1; i++)
    give(1, had[i]);
  weave_spawn("a", take_two_give_one, &stripe[1], false);
  weave_spawn("b", take_two_give_one, &stripe[0], false);
  weave_calm(false);
  give(1, had[2 * BATCH - 1]);
  close_slab();
}

/* What the loop has reserved is there, whatever others take. */
static void reserve_meets_takers(void) {
  open_slab();
  weave_spawn("a", take_two_give_one, &stripe[0], false);
  weave_spawn("b", take_two_give_one, &stripe[1], false);
  weave_calm(false);
  WEAVE_SAME(0, uvs__slab_reserve(&b.slab, 3));
  for (int i = 0; i < 3; i++)
    take(UVS__STRIPE_LOOP);
  close_slab();
}

static void give_many(void *arg) {
  uint32_t had[3];

  for (int i = 0; i < 3; i++)
    had[i] = take(1);
  for (int i = 0; i < 3; i++)
    b.owner[had[i]] = 0;
  b.taken -= 3;
  uvs__slab_give_many(&b.slab, 1, had, 3);
  (void)arg;
}

static void many_meet_one(void) {
  open_slab();
  weave_spawn("a", give_many, NULL, false);
  weave_spawn("b", take_two_give_one, &stripe[0], false);
  weave_calm(false);
  close_slab();
}

const struct weave_scene scenes_slab[] = {
    {"slab", "one-stripe-for-three", one_stripe_for_three},
    {"slab", "two-stripes", two_stripes},
    {"slab", "full-stripe-meets-empty", full_stripe_meets_empty},
    {"slab", "reserve-meets-takers", reserve_meets_takers},
    {"slab", "many-meet-one", many_meet_one},
    {NULL, NULL, NULL},
};
