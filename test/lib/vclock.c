/* SPDX-License-Identifier: MIT */
#include "vclock.h"

static int64_t sat_add(int64_t a, int64_t b) {
  return b > INT64_MAX - a ? INT64_MAX : a + b;
}

static int64_t read_monotonic(void *arg) {
  return vclock_now(arg);
}

static int64_t read_wall(void *arg) {
  return vclock_wall(arg);
}

void vclock_init(struct vclock *c) {
  atomic_init(&c->monotonic_ns, VCLOCK_START_NS);
  atomic_init(&c->wall_ns, VCLOCK_WALL_NS);
}

uvs_clock_t vclock_option(struct vclock *c) {
  uvs_clock_t o = {read_monotonic, read_wall, c};
  return o;
}

/* Relaxed: the clock must not create ordering that the library forgot. */
int64_t vclock_now(struct vclock *c) {
  return atomic_load_explicit(&c->monotonic_ns, memory_order_relaxed);
}

int64_t vclock_wall(struct vclock *c) {
  return atomic_load_explicit(&c->wall_ns, memory_order_relaxed);
}

static void move(_Atomic int64_t *hand, int64_t by_ns) {
  int64_t old = atomic_load_explicit(hand, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(hand, &old, sat_add(old, by_ns),
                                                memory_order_relaxed, memory_order_relaxed))
    ;
}

void vclock_advance_ns(struct vclock *c, int64_t ns) {
  if (ns <= 0)
    return;
  move(&c->monotonic_ns, ns);
  move(&c->wall_ns, ns);
}

void vclock_advance_to(struct vclock *c, int64_t monotonic_ns) {
  vclock_advance_ns(c, monotonic_ns - vclock_now(c));
}

void vclock_step_wall(struct vclock *c, int64_t by_ns) {
  move(&c->wall_ns, by_ns);
}
