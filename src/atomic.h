/* SPDX-License-Identifier: MIT
 *
 * atomic: the one door to the atomic operations.
 *
 * Every use names its memory order. In the test build with UVS__STEPS each operation first calls a
 * hook, which lets a test act between any two steps of ours (S68).
 */
#ifndef UVS__ATOMIC_H
#define UVS__ATOMIC_H

#include <stdatomic.h>

#ifdef UVS__STEPS
extern void (*uvs__step_hook)(void);
#define UVS__STEP() (uvs__step_hook != NULL ? uvs__step_hook() : (void)0)
#else
#define UVS__STEP() ((void)0)
#endif

#define uvs__load(p, order) (UVS__STEP(), atomic_load_explicit((p), memory_order_##order))
#define uvs__store(p, v, order) (UVS__STEP(), atomic_store_explicit((p), (v), memory_order_##order))
#define uvs__add(p, v, order) \
  (UVS__STEP(), atomic_fetch_add_explicit((p), (v), memory_order_##order))
#define uvs__sub(p, v, order) \
  (UVS__STEP(), atomic_fetch_sub_explicit((p), (v), memory_order_##order))
#define uvs__or(p, v, order) (UVS__STEP(), atomic_fetch_or_explicit((p), (v), memory_order_##order))
#define uvs__and(p, v, order) \
  (UVS__STEP(), atomic_fetch_and_explicit((p), (v), memory_order_##order))
#define uvs__swap(p, v, order) \
  (UVS__STEP(), atomic_exchange_explicit((p), (v), memory_order_##order))
#define uvs__cas(p, expected, v, order) \
  (UVS__STEP(), atomic_compare_exchange_weak_explicit((p), (expected), (v), memory_order_##order, \
                                                      memory_order_relaxed))

/* Inside a lock: no step, since a test that acts there would wait for that lock for ever. */
#define uvs__locked_load(p, order) atomic_load_explicit((p), memory_order_##order)
#define uvs__locked_store(p, v, order) atomic_store_explicit((p), (v), memory_order_##order)
#define uvs__locked_add(p, v, order) atomic_fetch_add_explicit((p), (v), memory_order_##order)
#define uvs__locked_sub(p, v, order) atomic_fetch_sub_explicit((p), (v), memory_order_##order)
#define uvs__locked_cas(p, expected, v, order) \
  atomic_compare_exchange_weak_explicit((p), (expected), (v), memory_order_##order, \
                                        memory_order_relaxed)

#endif
