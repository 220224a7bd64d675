/* SPDX-License-Identifier: MIT
 *
 * atomic: all atomic operations go through these macros, except those of util/numbers.c.
 *
 * Every use names its memory order. Almost everything is protected by the scheduler's lock; the
 * rest is the cancel token that a running body polls, per-thread statistics, reference counts, the
 * loop's thread, and the directory of lanes.
 */
#ifndef UVS__ATOMIC_H
#define UVS__ATOMIC_H

#include <stdatomic.h>

#define uvs__load(p, order) atomic_load_explicit((p), memory_order_##order)
#define uvs__store(p, v, order) atomic_store_explicit((p), (v), memory_order_##order)
#define uvs__add(p, v, order) atomic_fetch_add_explicit((p), (v), memory_order_##order)
#define uvs__sub(p, v, order) atomic_fetch_sub_explicit((p), (v), memory_order_##order)
#define uvs__and(p, v, order) atomic_fetch_and_explicit((p), (v), memory_order_##order)
#define uvs__swap(p, v, order) atomic_exchange_explicit((p), (v), memory_order_##order)
#define uvs__cas(p, expected, v, order) \
  atomic_compare_exchange_weak_explicit((p), (expected), (v), memory_order_##order, \
                                        memory_order_relaxed)

/* For use under a lock, and for statistics: test/weave does not switch threads here. */
#define uvs__locked_load(p, order) atomic_load_explicit((p), memory_order_##order)
#define uvs__locked_store(p, v, order) atomic_store_explicit((p), (v), memory_order_##order)
#define uvs__locked_add(p, v, order) atomic_fetch_add_explicit((p), (v), memory_order_##order)

#endif
