/* SPDX-License-Identifier: MIT
 *
 * Replaces src/port/atomic.h in the weave build: it is included first and defines that header's
 * include guard. Each atomic operation first asks the scheduler of strands which strand runs next.
 * No line of src/ knows about it.
 *
 * A store that is not seq_cst may stay in its strand's store buffer for a while, as on most
 * processors (weave_buffer_stores): the strand itself sees the value immediately, the others later.
 * A read-modify-write, a seq_cst store, and every lock flush the buffer.
 */
#ifndef UVS__ATOMIC_H
#define UVS__ATOMIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* One place in the source with an atomic operation. */
struct weave_site {
  const char *what, *file;
  int line;
  bool writes;
  bool shared; /* two strands were seen to access this memory: a switch may happen here */
};

void weave_step(struct weave_site *site, const volatile void *at);
void weave_store(volatile void *at, const void *value, size_t size, bool seq_cst);
bool weave_buffered(const volatile void *at, void *ret, size_t size);
void weave_flush(void);
void weave_after(void); /* plain fields after this are not read yet */
bool weave_fails(void); /* a weak CAS may fail spuriously */

#define WEAVE_STEP(what, p, writes) \
  __extension__({ \
    static struct weave_site weave_site = {what, __FILE__, __LINE__, writes, false}; \
    weave_step(&weave_site, (const volatile void *)(p)); \
  })

/* The type of the value when it is read. */
#define WEAVE_TYPE(p) __typeof__(atomic_load_explicit((p), memory_order_relaxed))

/* The pointer is evaluated once, since that may itself contain steps. */
#define uvs__load(p, order) \
  __extension__({ \
    __auto_type weave_p = (p); \
    WEAVE_TYPE(weave_p) weave_value; \
    WEAVE_STEP("load " #p, weave_p, false); \
    if (!weave_buffered(weave_p, &weave_value, sizeof weave_value)) \
      weave_value = atomic_load_explicit(weave_p, memory_order_##order); \
    weave_value; \
  })
#define uvs__store(p, v, order) \
  __extension__({ \
    __auto_type weave_p = (p); \
    WEAVE_TYPE(weave_p) weave_value = (v); \
    WEAVE_STEP("store " #p, weave_p, true); \
    weave_store(weave_p, &weave_value, sizeof weave_value, \
                memory_order_##order == memory_order_seq_cst); \
  })
#define WEAVE_CHANGE(name, p, operation, ...) \
  __extension__({ \
    __auto_type weave_p = (p); \
    WEAVE_STEP(name " " #p, weave_p, true); \
    weave_flush(); \
    __auto_type weave_old = operation(weave_p, __VA_ARGS__); \
    weave_after(); \
    weave_old; \
  })
#define uvs__add(p, v, order) \
  WEAVE_CHANGE("add", p, atomic_fetch_add_explicit, (v), memory_order_##order)
#define uvs__sub(p, v, order) \
  WEAVE_CHANGE("sub", p, atomic_fetch_sub_explicit, (v), memory_order_##order)
#define uvs__and(p, v, order) \
  WEAVE_CHANGE("and", p, atomic_fetch_and_explicit, (v), memory_order_##order)
#define uvs__swap(p, v, order) \
  WEAVE_CHANGE("swap", p, atomic_exchange_explicit, (v), memory_order_##order)
#define uvs__cas(p, expected, v, order) \
  WEAVE_CHANGE("cas", p, WEAVE_CAS, (expected), (v), memory_order_##order)
#define WEAVE_CAS(p, expected, v, order) \
  (weave_fails() ? (*(expected) = atomic_load_explicit((p), memory_order_relaxed), false) \
                 : atomic_compare_exchange_strong_explicit((p), (expected), (v), order, \
                                                           memory_order_relaxed))

/* Under a lock, and for statistics: no steps. */
#define uvs__locked_load(p, order) \
  __extension__({ \
    __auto_type weave_p = (p); \
    WEAVE_TYPE(weave_p) weave_value; \
    if (!weave_buffered(weave_p, &weave_value, sizeof weave_value)) \
      weave_value = atomic_load_explicit(weave_p, memory_order_##order); \
    weave_value; \
  })
#define WEAVE_LOCKED(p, operation, ...) (weave_flush(), operation((p), __VA_ARGS__))
#define uvs__locked_store(p, v, order) \
  WEAVE_LOCKED(p, atomic_store_explicit, (v), memory_order_##order)
#define uvs__locked_add(p, v, order) \
  WEAVE_LOCKED(p, atomic_fetch_add_explicit, (v), memory_order_##order)

#endif
