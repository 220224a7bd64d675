/* SPDX-License-Identifier: MIT
 *
 * Each block has a 16-byte header in front: the block's size, and a mark that detects a foreign or
 * doubly freed pointer. 16 bytes keep malloc's alignment.
 */
#include "fault.h"

#include <stdlib.h>

#define LIVE UINT64_C(0x6c6976650a110c8d)
#define DEAD UINT64_C(0x646561640a110c8d)

struct header {
  uint64_t mark;
  uint64_t size;
};

_Static_assert(sizeof(struct header) == 16, "the block would lose malloc's alignment");

static _Atomic long countdown = -1; /* below zero: no allocation fails */
static _Atomic bool for_ever;
static _Atomic bool hit;

static bool must_fail(void) {
  long left = atomic_load(&countdown);
  do {
    if (left < 0)
      return false;
    if (left == 0 && atomic_load(&for_ever))
      break;
  } while (!atomic_compare_exchange_weak(&countdown, &left, left - 1));
  if (left > 0)
    return false;
  atomic_store(&hit, true);
  return true;
}

static void *fault_alloc(size_t size, void *arg) {
  struct fault *f = arg;
  struct header *h;
  long bytes, peak;

  if (size > SIZE_MAX - sizeof *h || must_fail())
    return NULL;
  h = malloc(sizeof *h + size);
  if (h == NULL)
    return NULL;
  h->mark = LIVE;
  h->size = size;
  atomic_fetch_add_explicit(&f->live, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&f->total, 1, memory_order_relaxed);
  bytes = atomic_fetch_add_explicit(&f->live_bytes, (long)size, memory_order_relaxed) + (long)size;
  peak = atomic_load_explicit(&f->peak_bytes, memory_order_relaxed);
  while (peak < bytes &&
         !atomic_compare_exchange_weak_explicit(&f->peak_bytes, &peak, bytes, memory_order_relaxed,
                                                memory_order_relaxed))
    ;
  return h + 1;
}

static void fault_free(void *ptr, void *arg) {
  struct fault *f = arg;
  struct header *h = ptr;

  if (ptr == NULL)
    return;
  h--;
  if (h->mark != LIVE) {
    fprintf(stderr, "fault: %p is not ours, or was freed before\n", ptr);
    abort();
  }
  h->mark = DEAD;
  atomic_fetch_sub_explicit(&f->live, 1, memory_order_relaxed);
  atomic_fetch_sub_explicit(&f->live_bytes, (long)h->size, memory_order_relaxed);
  free(h);
}

void fault_init(struct fault *f) {
  atomic_init(&f->live, 0);
  atomic_init(&f->live_bytes, 0);
  atomic_init(&f->peak_bytes, 0);
  atomic_init(&f->total, 0);
}

uvs_allocator_t fault_option(struct fault *f) {
  uvs_allocator_t o = {fault_alloc, fault_free, f};
  return o;
}

static void order(long n, bool all) {
  atomic_store(&countdown, -1);
  atomic_store(&hit, false);
  atomic_store(&for_ever, all);
  atomic_store(&countdown, n);
}

void fault_after(long n) {
  order(n, false);
}

void fault_from(long n) {
  order(n, true);
}

bool fault_hit(void) {
  atomic_store(&countdown, -1);
  return atomic_exchange(&hit, false);
}
